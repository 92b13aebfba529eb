//! The C library's functions that this library has in their place.
//!
//! Most are rows of `functions!`: a function's type, what is made of its arguments (`program`), and
//! what it does.

use std::cell::Cell;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{
    epoll_event, fd_set, iovec, mode_t, nfds_t, off_t, pollfd, size_t, sockaddr, socklen_t,
    ssize_t, stat, timespec, timeval, SYS_close, SYS_epoll_create1, SYS_fcntl, SYS_ioctl,
    SYS_newfstatat, SYS_openat, SYS_pread64, SYS_read, SYS_readv, SYS_recvfrom, SYS_sendto,
    SYS_write, SYS_writev,
};
use vink_ring::{Request, SchedPage, MAX_DATA, MAX_POLLED, RECEIVES, SENDS, UNTRAPPED};

use crate::post::{
    asks_no_more, closes, is_host, knows, may_be_posted, opened, spend_call_budget, Draft, Receive,
};
use crate::program::{Array, Given, Mask, Part, Text};
use crate::ready::{counted, time, Polled, Selected, Wait, Word};
use crate::sets::{self, now};
use crate::{pipe, poll};

/// A function of the next library that has one of this name; looked up once.
pub(crate) struct Next(AtomicUsize, &'static CStr);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next(AtomicUsize::new(0), name)
    }

    pub(crate) fn address(&self) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: the name is a string.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.1.as_ptr()) } as usize;
                self.0.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }
}

/// Calls the C library's function of this name, with what the program has passed to it here, or
/// with what lives here.
macro_rules! next {
    ($abi:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {{
        static NEXT: Next = Next::new(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        // SAFETY: what is called so has this type in every C library; the arguments are as right
        // as the program's own call is.
        unsafe {
            let next = std::mem::transmute::<usize, unsafe extern $abi fn($($type),*) -> $result>(
                NEXT.address(),
            );
            next($($arg),*)
        }
    }};
}

/// Functions in the place of the C library's, whose own is `next`. Both their types and what is
/// made of their arguments are to be as their man pages have them: `unsafe` rests on that here.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $abi:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty
            $(, $given:ident: $kind:ty = $raw:expr)* => |$next:ident| $does:expr;
    )*) => {
        $(
            $(#[$doc])*
            #[no_mangle]
            unsafe extern $abi fn $name($($arg: $type),*) -> $result {
                let $next = || next!($abi $name($($arg: $type),*) -> $result);
                $(
                    let raw = $raw;
                    // SAFETY: by the caller, a program that passes what the man page asks for.
                    let $given: $kind = unsafe { Given::given(raw) };
                )*
                $does
            }
        )*
    };
}

/// The same functions by other names.
macro_rules! aliases {
    ($($alias:ident = $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $alias($($arg: $type),*) -> $result {
                // SAFETY: by the caller, to which both are the same.
                unsafe { $name($($arg),*) }
            }
        )*
    };
}

/// The thread's errno.
pub(crate) fn errno() -> &'static Cell<c_int> {
    // SAFETY: stays as long as the thread, which alone has it.
    unsafe { &*libc::__errno_location().cast() }
}

/// What the function gives for a system call's result.
pub(crate) fn finish(result: i64) -> ssize_t {
    if result < 0 {
        errno().set(-result as c_int);
        return -1;
    }
    result as ssize_t
}

/// Makes a system call that is the host's business alone.
#[inline]
pub(crate) fn native(nr: i64, args: [u64; 4]) -> i64 {
    let [a, b, c, d] = args;
    system_call(nr, [a, b, c, d, 0, UNTRAPPED])
}

/// Makes a system call. Its last arguments do not stay in their registers: the C library's next
/// call, of read(2) for example, sets as many registers as that has arguments, and with the mark in
/// one of the others it would not be trapped.
#[inline]
pub(crate) fn system_call(nr: i64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller's own call; the instructions change no other registers.
    unsafe {
        std::arch::asm!(
            "mov r9, {sixth}",
            "syscall",
            "xor r8d, r8d",
            "xor r9d, r9d",
            sixth = in(reg) args[5],
            out("r9") _,
            inlateout("rax") nr => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            inout("r8") args[4] => _,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Makes a trapped call that knows no `EINTR`: a signal may come before the worker has received it, and then it has done
/// nothing.
pub(crate) fn uninterrupted(nr: i64, args: [u64; 6]) -> i64 {
    loop {
        let result = system_call(nr, args);
        if result != -i64::from(libc::EINTR) {
            return result;
        }
    }
}

/// The result of such a call on a descriptor, if it is known to be the host's.
#[inline]
fn on_host(nr: i64, fd: c_int, second: u64, third: u64) -> Option<ssize_t> {
    is_host(fd).then(|| finish(native(nr, [fd as u64, second, third, 0])))
}

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
fn sent(fd: c_int, parts: &[Part], flags: c_int) -> Option<ssize_t> {
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
fn received(fd: c_int, parts: &[Part], flags: c_int) -> Option<ssize_t> {
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
fn next_received(fd: c_int, part: &Part, flags: c_int, next: impl FnOnce() -> ssize_t) -> ssize_t {
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
fn worthwhile(fd: c_int, parts: Option<&[Part]>) -> Option<&[Part]> {
    parts.filter(|parts| (1..=64).contains(&parts.len()) && may_be_posted(fd))
}

#[inline]
fn read_into(fd: c_int, parts: &[Part; 1], next: impl FnOnce() -> ssize_t) -> ssize_t {
    let [part] = parts;
    received(fd, parts, 0)
        .or_else(|| on_host(SYS_read, fd, part.address(), part.len() as u64))
        .or_else(|| pipe::read(fd, parts))
        .unwrap_or_else(|| next_received(fd, part, 0, next))
}

functions! {
    "C" read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| read_into(fd, &parts, next);
    "C" __read_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| match len <= room {
            true => read_into(fd, &parts, next),
            false => next(),
        };
    "C" readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t,
        parts: Option<&[Part]> = (at.cast::<Part>(), count) =>
        |next| {
            let parts = worthwhile(fd, parts);
            parts
                .and_then(|parts| received(fd, parts, 0))
                .or_else(|| on_host(SYS_readv, fd, at as u64, count as u64))
                .or_else(|| pipe::read(fd, parts?))
                .unwrap_or_else(next)
        };
    "C" recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| received(fd, &parts, flags)
            .unwrap_or_else(|| next_received(fd, &parts[0], flags, next));
    "C" __recv_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| {
            let done = if len <= room { received(fd, &parts, flags) } else { None };
            done.unwrap_or_else(next)
        };
    "C" recvfrom(fd: c_int, at: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| {
            if !from.is_null() {
                return next();
            }
            received(fd, &parts, flags)
                .unwrap_or_else(|| next_received(fd, &parts[0], flags, next))
        };

    "C" write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| sent(fd, &parts, 0)
            .or_else(|| on_host(SYS_write, fd, at as u64, len as u64))
            .or_else(|| pipe::write(fd, &parts))
            .unwrap_or_else(next);
    "C" writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t,
        parts: Option<&[Part]> = (at.cast::<Part>(), count) =>
        |next| {
            let parts = worthwhile(fd, parts);
            parts
                .and_then(|parts| sent(fd, parts, 0))
                .or_else(|| on_host(SYS_writev, fd, at as u64, count as u64))
                .or_else(|| pipe::write(fd, parts?))
                .unwrap_or_else(next)
        };
    "C" send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| sent(fd, &parts, flags).unwrap_or_else(next);
    "C" sendto(fd: c_int, at: *const c_void, len: size_t, flags: c_int, to: *const sockaddr,
        to_len: socklen_t) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| {
            let done = if to.is_null() { sent(fd, &parts, flags) } else { None };
            done.unwrap_or_else(next)
        };

    /// A file's bytes, which the host gives, as they are sent.
    "C" sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t,
        place: Option<&mut off_t> = at =>
        |next| sent_file(to, from, place, count).unwrap_or_else(next);

    /// The request that can be posted.
    "C" ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int =>
        |next| {
            let Some(left) = (request == libc::FIONREAD).then(|| left(fd)).flatten() else {
                return next();
            };
            // SAFETY: the program's own integer.
            unsafe { *argument.cast::<c_int>() = left };
            0
        };

    /// A program announces by it that it will filter its own system calls, as sshd's sandbox does.
    "C" prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int =>
        |next| {
            if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
                asks_no_more();
            }
            next()
        };

    "C" open(path: Text, flags: c_int, mode: mode_t) -> c_int =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);
    "C" open64(path: Text, flags: c_int, mode: mode_t) -> c_int =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);
    "C" openat(from: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);
    "C" openat64(from: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);

    "C" fstat(fd: c_int, about: *mut stat) -> c_int =>
        |next| attributes(fd, about).unwrap_or_else(next);
    "C" fstat64(fd: c_int, about: *mut stat) -> c_int =>
        |next| attributes(fd, about).unwrap_or_else(next);

    "C" close(fd: c_int) -> c_int =>
        |next| {
            sets::closes(fd);
            if is_host(fd) {
                closes(fd);
                return finish(native(SYS_close, [fd as u64, 0, 0, 0])) as c_int;
            }
            next()
        };
}

aliases! {
    __read = read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t;
    __write = write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t;
    __send = send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    __close = close(fd: c_int) -> c_int;
    sendfile64 = sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t;
}

/// How many bytes there are to be received.
fn left(fd: c_int) -> Option<c_int> {
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

fn sent_file(to: c_int, from: c_int, at: Option<&mut off_t>, count: size_t) -> Option<ssize_t> {
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

/// Whether a path can lead to nothing but what is the host's, as far as its first part tells: those
/// that may lead elsewhere begin with one that `vink-trap`'s `virtual_paths` has, which is short.
fn is_hosts(path: Text) -> bool {
    const ELSEWHERE: [&[u8]; 3] = [b"proc", b"sys", b"dev"];
    let Some(path) = path.bytes().and_then(|path| path.strip_prefix(b"/")) else {
        return false;
    };
    let mut parts = path.split(|byte| *byte == b'/');
    parts.next().is_some_and(|first| {
        first.first().is_some_and(u8::is_ascii_alphabetic) && !ELSEWHERE.contains(&first)
    }) && parts.all(|part| part != b"..")
}

/// Opens what is the host's without asking.
#[inline]
fn open_of_host(path: Text, flags: c_int, mode: mode_t) -> Option<c_int> {
    if !knows() || !is_hosts(path) {
        return None;
    }
    let directory = libc::AT_FDCWD as u64;
    let args = [directory, path.as_ptr() as u64, flags as u64, mode.into()];
    let fd = finish(native(SYS_openat, args)) as c_int;
    if fd >= 0 {
        opened(fd);
    }
    Some(fd)
}

/// Those of an open file of the host's.
#[inline]
fn attributes(fd: c_int, about: *mut stat) -> Option<c_int> {
    let empty = c"".as_ptr() as u64;
    let args = [fd as u64, empty, about as u64, libc::AT_EMPTY_PATH as u64];
    is_host(fd).then(|| finish(native(SYS_newfstatat, args)) as c_int)
}

/// The most descriptors that are searched.
const MOST_POLLED: usize = 1024;

functions! {
    "C-unwind" poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int,
        array: Array<pollfd> = (fds, count) =>
        |next| polled(array, Some(limit(ms)), None, None, next);
    "C-unwind" ppoll(fds: *mut pollfd, count: nfds_t, time: Option<&timespec>, mask: Mask) -> c_int,
        array: Array<pollfd> = (fds, count) =>
        |next| polled(array, limit_of(time), time, mask, next);
    /// A program that was compiled with checks polls so.
    "C-unwind" __poll_chk(fds: *mut pollfd, count: nfds_t, ms: c_int, room: size_t) -> c_int,
        array: Array<pollfd> = (fds, count) =>
        |next| match room / size_of::<pollfd>() >= count as usize {
            true => polled(array, Some(limit(ms)), None, None, next),
            false => next(),
        };
    "C-unwind" __ppoll_chk(fds: *mut pollfd, count: nfds_t, time: Option<&timespec>, mask: Mask,
        room: size_t) -> c_int,
        array: Array<pollfd> = (fds, count) =>
        |next| match room / size_of::<pollfd>() >= count as usize {
            true => polled(array, limit_of(time), time, mask, next),
            false => next(),
        };

    "C-unwind" select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, odd: *mut fd_set,
        time: *mut timeval) -> c_int,
        sets: Option<Selected> = (count, [readable, writable, odd]),
        given: Option<&mut timeval> = time =>
        |next| {
            let is_right = |t: &timeval| (0..MOST_SECONDS).contains(&t.tv_sec) && t.tv_usec >= 0;
            if !given.as_deref().is_none_or(is_right) {
                return asked_select(next);
            }
            let limit = given.as_deref();
            let limit = limit.map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
            let begun = limit.map_or(0, |_| now());
            let Some(ready) = selected(sets, limit, None) else {
                return asked_select(next);
            };
            if let (Some(limit), Some(time)) = (limit, given) {
                let left = limit.saturating_sub(now() - begun);
                time.tv_sec = (left / 1_000_000_000) as libc::time_t;
                time.tv_usec = (left % 1_000_000_000 / 1000) as libc::suseconds_t;
            }
            ready
        };
    "C-unwind" pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
        odd: *mut fd_set, time: Option<&timespec>, mask: Mask) -> c_int,
        sets: Option<Selected> = (count, [readable, writable, odd]) =>
        |next| {
            let ready = limit_of(time).and_then(|limit| selected(sets, limit, mask));
            ready.unwrap_or_else(|| asked_select(next))
        };
}

/// Waits as poll(2) does; no limit is known if it is not right.
#[inline]
fn polled(
    mut array: Array<pollfd>,
    limit: Option<Option<u64>>,
    time: Option<&timespec>,
    mask: Mask,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let asked = limit.and_then(|limit| Some((limit, Polled::new(array.get()?)?)));
    let ready = asked.and_then(|(limit, mut asked)| Wait { limit, mask }.answer(&mut asked));
    if let Some(ready) = ready {
        return ready;
    }
    let _counted = counted();
    let Some(fds) = array.get() else {
        return next();
    };
    let has = |set| fds.iter().any(|polled| polled.fd == set);
    sets::end_notes(|set| fds.len() > MOST_POLLED || has(set));
    let few = fds.len() <= MAX_POLLED;
    let Some(sched) = few.then(spend_call_budget).flatten() else {
        return next();
    };
    if let Some(ready) = polled_or_asked(sched, fds, time, mask) {
        return ready;
    }
    let ready = next();
    if let Some(fds) = array.get() {
        poll::take_results(sched, fds);
    }
    ready
}

/// ppoll(2) by the C library.
pub(crate) fn next_ppoll(fds: &mut [pollfd], time: Option<&timespec>, mask: Mask) -> c_int {
    let (fds, count) = (fds.as_mut_ptr(), fds.len() as nfds_t);
    next!("C-unwind" ppoll(fds: *mut pollfd, count: nfds_t, time: Option<&timespec>, mask: Mask)
        -> c_int)
}

/// Nanoseconds, or for ever; `None` if it is no time.
fn limit_of(time: Option<&timespec>) -> Option<Option<u64>> {
    let Some(time) = time else {
        return Some(None);
    };
    let is_right = (0..MOST_SECONDS).contains(&time.tv_sec);
    let is_right = is_right && (0..1_000_000_000).contains(&time.tv_nsec);
    is_right.then(|| Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

/// A call that waits for longer does so in the kernel.
const MOST_SECONDS: i64 = 1 << 32;

/// A wait of select(2) that boards answer.
#[inline]
fn selected(sets: Option<Selected>, limit: Option<u64>, mask: Mask) -> Option<c_int> {
    Wait { limit, mask }.answer(&mut sets?)
}

/// ... that they don't.
fn asked_select(next: impl FnOnce() -> c_int) -> c_int {
    sets::end_notes(|_| true);
    sets::settle();
    let _counted = counted();
    next()
}

/// pselect(2) by the C library, with a set's words; of none, it is null.
pub(crate) fn next_pselect(
    count: usize,
    sets: [&[Word]; 3],
    time: Option<&timespec>,
    mask: Mask,
) -> c_int {
    let count = count as c_int;
    let [readable, writable, odd] = sets.map(|set| match set {
        [] => null_mut(),
        words => words.as_ptr().cast_mut().cast(),
    });
    next!("C-unwind" pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
        odd: *mut fd_set, time: Option<&timespec>, mask: Mask) -> c_int)
}

/// How many are ready; `None`: a system call will tell, which has been announced.
#[inline]
fn polled_or_asked(
    sched: &SchedPage,
    fds: &mut [pollfd],
    time: Option<&timespec>,
    mask: Mask,
) -> Option<c_int> {
    let is_time = |time: &timespec| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    if time.is_some_and(|time| !is_time(time)) {
        return None;
    }
    match poll::polled(sched, fds) {
        Ok(ready) => Some(ready),
        Err(looked) => {
            poll::post_poll(sched, fds, time, mask, looked);
            None
        }
    }
}

/// With the mark by which the worker knows that this library sees all waiters there.
#[no_mangle]
extern "C" fn epoll_create1(flags: c_int) -> c_int {
    let number = finish(native(SYS_epoll_create1, [flags as u64, 0, 0, 0])) as c_int;
    if number >= 0 {
        sets::created(number);
    }
    number
}

#[no_mangle]
extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        return finish(-i64::from(libc::EINVAL)) as c_int;
    }
    epoll_create1(0)
}

functions! {
    "C" epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int =>
        |next| {
            let is_read = operation != libc::EPOLL_CTL_DEL && !event.is_null();
            // SAFETY: by the caller: unless it deletes, the call reads it.
            let wanted = || is_read.then(|| unsafe { event.read_unaligned() });
            if sets::noted(set, operation, fd, wanted) {
                return 0;
            }
            let done = next();
            if done == 0 {
                sets::changed(set, operation, fd, wanted());
            }
            done
        };
    "C-unwind" epoll_wait(number: c_int, events: *mut epoll_event, most: c_int, ms: c_int) -> c_int,
        room: Array<epoll_event> = (events, most) =>
        |next| waited(number, room, limit(ms), None).unwrap_or_else(next);
    "C-unwind" epoll_pwait(number: c_int, events: *mut epoll_event, most: c_int, ms: c_int,
        mask: Mask) -> c_int,
        room: Array<epoll_event> = (events, most) =>
        |next| waited(number, room, limit(ms), mask).unwrap_or_else(next);
    "C-unwind" epoll_pwait2(number: c_int, events: *mut epoll_event, most: c_int,
        time: Option<&timespec>, mask: Mask) -> c_int,
        room: Array<epoll_event> = (events, most) =>
        |next| {
            let nanoseconds =
                |t: &timespec| (t.tv_sec as u64).saturating_mul(1_000_000_000) + t.tv_nsec as u64;
            let is_right = |t: &timespec| t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec);
            if !time.is_none_or(is_right) {
                return next();
            }
            waited(number, room, time.map(nanoseconds), mask).unwrap_or_else(next)
        };
}

/// A wait for events that boards answer.
fn waited(
    number: c_int,
    mut room: Array<epoll_event>,
    limit: Option<u64>,
    mask: Mask,
) -> Option<c_int> {
    let wait = sets::Wait {
        number,
        limit,
        mask,
    };
    let answer = wait.answer(room.get())?;
    Some(finish(answer.map_or_else(|errno| -i64::from(errno), i64::from)) as c_int)
}

/// Milliseconds as nanoseconds; less than none are for ever.
fn limit(milliseconds: c_int) -> Option<u64> {
    u64::try_from(milliseconds)
        .ok()
        .map(|limit| limit * 1_000_000)
}

/// epoll_pwait2(2) by the C library, whose calls end with their thread if it is cancelled.
/// Nanoseconds; how many events, or the error.
pub(crate) fn sleep(
    number: c_int,
    events: &mut [epoll_event],
    limit: Option<u64>,
    mask: Mask,
) -> Result<usize, c_int> {
    static EXACT: Next = Next::new(c"epoll_pwait2");
    let (at, most) = (events.as_mut_ptr(), events.len() as c_int);
    let count = if EXACT.address() == 0 {
        let most_of = |limit: u64| c_int::try_from(limit.div_ceil(1_000_000));
        let ms = limit.map_or(-1, |limit| most_of(limit).unwrap_or(c_int::MAX));
        next!("C-unwind" epoll_pwait(number: c_int, at: *mut epoll_event, most: c_int, ms: c_int,
            mask: Mask) -> c_int)
    } else {
        let time = limit.map(time);
        let time = time.as_ref();
        next!("C-unwind" epoll_pwait2(number: c_int, at: *mut epoll_event, most: c_int,
            time: Option<&timespec>, mask: Mask) -> c_int)
    };
    usize::try_from(count).map_err(|_| errno().get())
}

/// Functions by which others may come to wait on an epoll instance, or have a member of one: if
/// they do, and at which. All are passed six registers, and a word of the stack, which is as much
/// as any of them may read.
macro_rules! shows {
    ($($name:ident($first:ident, $second:ident, $third:ident) if $shows:expr => $concerns:expr;)*) => {
        functions! {
            $(
                "C-unwind" $name($first: u64, $second: u64, $third: u64, d: u64, e: u64, f: u64,
                    g: u64) -> u64 =>
                    |next| {
                        if $shows {
                            sets::end_notes($concerns);
                            sets::settle();
                        }
                        next()
                    };
            )*
        }
    };
}
shows! {
    dup(fd, b, c) if true => |set| fd as c_int == set;
    dup2(fd, b, c) if true => |set| fd as c_int == set;
    dup3(fd, b, c) if true => |set| fd as c_int == set;
    fcntl(fd, command, argument) if opens(command, argument) => |set| fd as c_int == set;
    fcntl64(fd, command, argument) if opens(command, argument) => |set| fd as c_int == set;
    sendmsg(a, message, c) if sets::any() && has_more(message) => |_| true;
    sendmmsg(a, b, c) if true => |_| true;
    clone(a, b, c) if true => |_| true;
}

/// Whether by this fcntl(2) others may have the file.
fn opens(command: u64, argument: u64) -> bool {
    match command as c_int {
        libc::F_GETFD | libc::F_GETFL | libc::F_SETFL => false,
        libc::F_SETFD => argument as c_int != libc::FD_CLOEXEC,
        _ => true,
    }
}

/// Whether a message may have files with it.
fn has_more(message: u64) -> bool {
    // SAFETY: by the caller of sendmsg(2).
    let message = unsafe { (message as *const libc::msghdr).as_ref() };
    message.is_some_and(|message| message.msg_controllen != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stays_in_no_register() {
        let args = [0, 0, 0, 0, UNTRAPPED, UNTRAPPED];
        assert!(system_call(libc::SYS_getpid, args) > 0);
        let (fifth, sixth): (u64, u64);
        // SAFETY: copies registers.
        unsafe { std::arch::asm!("", out("r8") fifth, out("r9") sixth) };
        assert!(fifth != UNTRAPPED && sixth != UNTRAPPED);
    }
}
