//! The host as programs see it: one processor, so much memory, no load.

use std::mem::offset_of;

use vink_sys::errno::{EFAULT, EINVAL, ENOSYS};
use vink_syscalls::{sched_class, Sched};

use crate::sched::determinism::uptime::BOOTED;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

/// The memory that sysinfo(2) reports, in bytes.
const MEMORY: u64 = 4 << 30;
/// Of the only processor there is.
const FIRST_CPU: u64 = 1;

/// The result of a call that asks for what would not be the same in each run, at this time of
/// the kernel's clock in ns. `None`: the call is of no such kind.
pub(in crate::sched) fn result_of(call: SyscallCtx, now: u64) -> Option<i64> {
    let [first, second, third, ..] = call.args;
    Some(match sched_class(call.nr) {
        Sched::Getaffinity if second < 8 || second % 8 != 0 => EINVAL,
        Sched::Getaffinity => give(call, third, &FIRST_CPU.to_le_bytes(), 8),
        Sched::Setaffinity => {
            let mut byte = [0];
            match second > 0 && tracee::read(call.tid, third, &mut byte) {
                false => EFAULT,
                true if u64::from(byte[0]) & FIRST_CPU == 0 => EINVAL,
                true => 0,
            }
        }
        Sched::Getcpu => match give(call, first, &[0; 4], 0) {
            0 => give(call, second, &[0; 4], 0),
            error => error,
        },
        Sched::Sysinfo => {
            let uptime = (now + BOOTED) / 1_000_000_000;
            let mut info = [0; size_of::<libc::sysinfo>()];
            for (at, value) in [
                (offset_of!(libc::sysinfo, uptime), &uptime.to_ne_bytes()[..]),
                (offset_of!(libc::sysinfo, totalram), &MEMORY.to_ne_bytes()),
                (
                    offset_of!(libc::sysinfo, freeram),
                    &(MEMORY / 2).to_ne_bytes(),
                ),
                (offset_of!(libc::sysinfo, procs), &1u16.to_ne_bytes()),
                (offset_of!(libc::sysinfo, mem_unit), &1u32.to_ne_bytes()),
            ] {
                info[at..at + value.len()].copy_from_slice(value);
            }
            give(call, first, &info, 0)
        }
        // Memory that is swapped out costs no virtual time, and the host's limit is for
        // programs that it delays.
        Sched::LockMemory => 0,
        // It would show on which processor a thread is. C libraries do without it.
        Sched::Rseq => ENOSYS,
        _ => return None,
    })
}

/// Writes a result where the program wants it, if it does: what the call returns then.
fn give(call: SyscallCtx, to: u64, bytes: &[u8], result: i64) -> i64 {
    match to == 0 || tracee::write(call.tid, to, bytes) {
        true => result,
        false => EFAULT,
    }
}
