//! How long a call may wait, and which signals it lets in, as its process has them in memory.

use vink_sys::errno::{EFAULT, EINVAL};
use vink_syscalls::{polling, Polling};

use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Bytes of a signal mask.
const MASK: u64 = 8;

/// How long a call that waits for descriptors may last, and its signal mask; an error is its
/// result, whatever is ready. (Of a ppoll(2): [`read_ppoll`].)
pub(crate) fn timeout_and_mask(call: SyscallCtx) -> Result<(Option<u64>, Option<u64>), i64> {
    let ms = |ms: u64| u64::try_from(ms as i32).ok().map(|ms| ms * MILLISECOND);
    let time = |address| match address {
        0 => Ok(None),
        address => read_timespec(call.tid, address).map(Some),
    };
    let mask = |address, size| match (address, size) {
        (0, _) => Ok(None),
        (_, MASK) => tracee::read_u64(call.tid, address).map(Some).ok_or(EFAULT),
        _ => Err(EINVAL),
    };
    let [_, _, third, fourth, fifth, sixth] = call.args;
    Ok(match polling(call.nr) {
        Polling::Poll => (ms(third), None),
        Polling::Select if fifth == 0 => (None, None),
        Polling::Select => (Some(read_timeval(call.tid, fifth)?), None),
        Polling::Pselect6 => {
            // Read first: where the mask is, and its size.
            let mut both = [0; 16];
            if sixth != 0 && !tracee::read(call.tid, sixth, &mut both) {
                return Err(EFAULT);
            }
            let (address, size) = both.split_at(8);
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            (time(fifth)?, mask(word(address), word(size))?)
        }
        Polling::EpollPwait2 => (time(fourth)?, mask(fifth, sixth)?),
        Polling::EpollPwait => (ms(fourth), mask(fifth, sixth)?),
        _ => (ms(fourth), None),
    })
}

/// What a ppoll(2) has in memory: how long it may last, its mask, and the descriptors, by one look;
/// an error is its result.
pub(crate) fn read_ppoll(
    call: SyscallCtx,
    fds: &mut [u8],
) -> Result<(Option<u64>, Option<u64>), i64> {
    let (mut time, mut mask) = ([0; 16], [0; 8]);
    let [_, _, at_time, at_mask, mask_size, _] = call.args;
    let mut parts: Vec<(u64, &mut [u8])> = Vec::new();
    let mut wanted = fds.len();
    if at_time != 0 {
        wanted += time.len();
        parts.push((at_time, &mut time));
    }
    if at_mask != 0 {
        wanted += mask.len();
        parts.push((at_mask, &mut mask));
    }
    parts.push((call.args[0], fds));
    let read = tracee::read_parts(call.tid, &mut parts);
    let lasting = match at_time {
        0 => None,
        _ if read < time.len() => return Err(EFAULT),
        _ => Some(of_timespec(pair(&time))?),
    };
    match read < wanted {
        _ if at_mask != 0 && mask_size != MASK => Err(EINVAL),
        true => Err(EFAULT),
        false => Ok((lasting, (at_mask != 0).then(|| u64::from_ne_bytes(mask)))),
    }
}

/// The two numbers of a `struct timespec` or `struct timeval` of the thread's; an error is the
/// call's result.
pub(crate) fn read_pair(tid: i32, address: u64) -> Result<(i64, i64), i64> {
    let mut bytes = [0; 16];
    match tracee::read(tid, address, &mut bytes) {
        true => Ok(pair(&bytes)),
        false => Err(EFAULT),
    }
}

fn pair(bytes: &[u8; 16]) -> (i64, i64) {
    let (first, second) = bytes.split_at(8);
    let half = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    (half(first), half(second))
}

/// The duration in a `struct timespec` of the thread's, in ns; an error is the call's result.
pub(crate) fn read_timespec(tid: i32, address: u64) -> Result<u64, i64> {
    read_pair(tid, address).and_then(of_timespec)
}

/// What a `struct timespec` says, in ns; an error is the call's result.
fn of_timespec(time: (i64, i64)) -> Result<u64, i64> {
    match time {
        (secs @ 0.., ns @ 0..1_000_000_000) => Ok((secs as u64)
            .saturating_mul(SECOND)
            .saturating_add(ns as u64)),
        _ => Err(EINVAL),
    }
}

/// As [`read_timespec`] of a `struct timeval`, whose microseconds may be any number.
fn read_timeval(tid: i32, address: u64) -> Result<u64, i64> {
    match read_pair(tid, address)? {
        (secs @ 0.., us @ 0..) => Ok((secs as u64)
            .saturating_mul(SECOND)
            .saturating_add((us as u64).saturating_mul(1000))),
        _ => Err(EINVAL),
    }
}
