//! Sends and receives of streams, posted as far as they can be.

use std::cell::Cell;
use std::ffi::c_int;

use libc::{off_t, size_t, ssize_t, SYS_fcntl, SYS_ioctl, SYS_pread64, SYS_recvfrom, SYS_sendto};
use vink_ring::{Request, MAX_DATA, RECEIVES, SENDS};
use vink_shim::{finish, Part};

use crate::post::{is_host, may_be_posted, Draft, Receive};
use crate::system_call::{native, uninterrupted};

/// Copies the parts to where there is room; how many bytes. `None`: there are more.
#[inline]
fn gather(parts: &[Part], room: &[Cell<u8>]) -> Option<usize> {
    let mut len = 0;
    for part in parts {
        len += part.copy_to(&room[len..])?;
    }
    Some(len)
}

/// Sends what the parts have; `None`: by a system call.
#[inline]
pub(crate) fn sent(fd: c_int, parts: &[Part], flags: c_int) -> Option<ssize_t> {
    if flags & !SENDS != 0 || !parts.iter().all(Part::may_be_mapped) {
        return None;
    }
    let draft = Draft::for_send(fd)?;
    let all = parts.iter().map(Part::len);
    let all = all.fold(0usize, |all, len| all.saturating_add(len));
    if let Some((send, room)) = draft.send(fd, all) {
        let len = gather(parts, room)?;
        send.set_header(fd, flags, len);
        return draft.leave().then_some(len as ssize_t);
    }
    if !draft.may_be_posted() {
        return None;
    }
    let len = gather(parts, draft.data())?;
    let nr = SYS_sendto;
    let result = draft.post(Request { nr, fd, flags, len })?;
    match usize::try_from(result) {
        Ok(sent) if sent < len && flags & libc::MSG_DONTWAIT == 0 && waits(&draft, fd) => {
            let rest = &draft.data()[sent..len];
            // SAFETY: the rest stands in the slot, which is this thread's.
            let rest = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            Some(sent as ssize_t + rest.max(0))
        }
        _ => Some(finish(result)),
    }
}

/// Whether calls on it wait. What stands in the slot stays there.
#[cold]
fn waits(draft: &Draft, fd: c_int) -> bool {
    let request = Request {
        nr: SYS_fcntl,
        fd,
        flags: libc::F_GETFL,
        len: 0,
    };
    let natively = || uninterrupted(SYS_fcntl, [fd as u64, libc::F_GETFL as u64, 0, 0, 0, 0]);
    let flags = draft.post(request).unwrap_or_else(natively);
    flags & i64::from(libc::O_NONBLOCK) == 0
}

/// Receives into the parts; `None`: by a system call.
#[inline]
pub(crate) fn received(fd: c_int, parts: &[Part], flags: c_int) -> Option<ssize_t> {
    if flags & !RECEIVES != 0 || !parts.iter().all(Part::may_be_mapped) {
        return None;
    }
    let draft = Draft::new(fd)?;
    let mut len = 0;
    for part in parts {
        if part.len() > MAX_DATA - len {
            return None;
        }
        len += part.len();
    }
    // Of nothing, even those that wait make nothing.
    if len == 0 {
        return None;
    }
    let nr = SYS_recvfrom;
    let result = draft.post(Request { nr, fd, flags, len })?;
    let mut from = &draft.data()[..usize::try_from(result).unwrap_or(0).min(len)];
    for part in parts {
        from = &from[part.copy_from(from)..];
    }
    Some(finish(result))
}

/// The same by the C library, whose call it is. In virtual time what comes may stand in shared memory.
#[inline]
pub(crate) fn next_received(
    fd: c_int,
    part: &Part,
    flags: c_int,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let may = flags & !RECEIVES == 0 && part.may_be_mapped();
    let posted = may.then(|| Receive::post(fd, part.address(), part.len()));
    let Some(posted) = posted.flatten() else {
        return next();
    };
    let result = next();
    part.copy_from(posted.take(result));
    result
}

/// A program's parts, if it is worth looking at them.
pub(crate) fn worthwhile(fd: c_int, parts: Option<&[Part]>) -> Option<&[Part]> {
    parts.filter(|parts| (1..=64).contains(&parts.len()) && may_be_posted(fd))
}

/// How many bytes there are to be received.
pub(crate) fn left(fd: c_int) -> Option<c_int> {
    let draft = Draft::new(fd)?;
    let request = Request {
        nr: SYS_ioctl,
        fd,
        flags: libc::FIONREAD as c_int,
        len: 0,
    };
    let done = draft.post(request)?;
    // The answer stands where a request's bytes do.
    let answer = draft.data().first_chunk().filter(|_| done == 0)?;
    Some(c_int::from_ne_bytes(answer.each_ref().map(Cell::get)))
}

pub(crate) fn sent_file(
    to: c_int,
    from: c_int,
    at: Option<&mut off_t>,
    count: size_t,
) -> Option<ssize_t> {
    let at = at.filter(|_| (1..=MAX_DATA).contains(&count) && is_host(from))?;
    let draft = Draft::new(to)?;
    let room = draft.data().as_ptr() as u64;
    let len = native(SYS_pread64, [from as u64, room, count as u64, *at as u64]);
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    let result = draft.post(Request {
        nr: SYS_sendto,
        fd: to,
        flags: 0,
        len,
    })?;
    *at += result.max(0);
    let sent = finish(result);
    match usize::try_from(sent) {
        Ok(done) if done < len && waits(&draft, to) => {
            drop(draft);
            // SAFETY: takes numbers, and the offset that is borrowed here.
            let rest = unsafe { libc::sendfile(to, from, at, count - done) };
            Some(sent + rest.max(0))
        }
        _ => Some(sent),
    }
}
