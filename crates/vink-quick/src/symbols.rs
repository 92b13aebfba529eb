//! The ring's backend: what the C library's functions do in a program that is trapped.

use libc::{SYS_close, SYS_epoll_create1, SYS_read, SYS_readv, SYS_write, SYS_writev};
use vink_shim::types::*;
use vink_shim::{finish, next, Array, Backend, Given, Mask, Part, Text};

use crate::host_file::{attributes, on_host, open_of_host};
use crate::pipe;
use crate::post::{asks_no_more, closes, is_host};
use crate::ready::Selection;
use crate::sets::{self, now};
use crate::stream::{left, next_received, received, sent, sent_file, worthwhile};
use crate::system_call::native;
use crate::wait::{asked_select, limit, limit_of, polled, selected, waited, MOST_SECONDS};

/// Answers what it can by the ring, and leaves the rest to the C library, whose calls are trapped.
struct Ring;

vink_shim::symbols!(Ring);

/// Methods of the backend: of what a function is given, what is made of it, and what it does.
macro_rules! answers {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $type:ty),*) -> $result:ty
            $(, $given:ident: $kind:ty = $raw:expr)* => |$next:ident| $does:expr;
    )*) => {
        impl Backend for Ring {
            #[inline(always)]
            fn call(_nr: i64, _args: [u64; 6], next: impl FnOnce() -> i64) -> i64 {
                next()
            }

            $(
                $(#[$doc])*
                #[inline(always)]
                unsafe fn $name($($arg: $type,)* $next: impl FnOnce() -> $result) -> $result {
                    $(
                        let raw = $raw;
                        // SAFETY: by the caller, a program that passes what the man page asks for.
                        let $given: $kind = unsafe { Given::given(raw) };
                    )*
                    $does
                }
            )*
        }
    };
}

answers! {
    read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t, parts: [Part; 1] = (at, len) =>
        |next| read_into(fd, &parts, next);
    readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t,
        parts: Option<&[Part]> = (at.cast::<Part>(), count) =>
        |next| {
            let parts = worthwhile(fd, parts);
            parts
                .and_then(|parts| received(fd, parts, 0))
                .or_else(|| on_host(SYS_readv, fd, at as u64, count as u64))
                .or_else(|| pipe::read(fd, parts?))
                .unwrap_or_else(next)
        };
    recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| received(fd, &parts, flags)
            .unwrap_or_else(|| next_received(fd, &parts[0], flags, next));
    recvfrom(fd: c_int, at: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
        _from_len: *mut socklen_t) -> ssize_t,
        parts: [Part; 1] = (at, len) =>
        |next| {
            if !from.is_null() {
                return next();
            }
            received(fd, &parts, flags)
                .unwrap_or_else(|| next_received(fd, &parts[0], flags, next))
        };

    write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| sent(fd, &parts, 0)
            .or_else(|| on_host(SYS_write, fd, at as u64, len as u64))
            .or_else(|| pipe::write(fd, &parts))
            .unwrap_or_else(next);
    writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t,
        parts: Option<&[Part]> = (at.cast::<Part>(), count) =>
        |next| {
            let parts = worthwhile(fd, parts);
            parts
                .and_then(|parts| sent(fd, parts, 0))
                .or_else(|| on_host(SYS_writev, fd, at as u64, count as u64))
                .or_else(|| pipe::write(fd, parts?))
                .unwrap_or_else(next)
        };
    send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| sent(fd, &parts, flags).unwrap_or_else(next);
    sendto(fd: c_int, at: *const c_void, len: size_t, flags: c_int, to: *const sockaddr,
        _to_len: socklen_t) -> ssize_t,
        parts: [Part; 1] = (at.cast_mut(), len) =>
        |next| {
            let done = if to.is_null() { sent(fd, &parts, flags) } else { None };
            done.unwrap_or_else(next)
        };

    /// A file's bytes, which the host gives, as they are sent.
    sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t,
        place: Option<&mut off_t> = at =>
        |next| sent_file(to, from, place, count).unwrap_or_else(next);

    /// The request that can be posted.
    ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int =>
        |next| {
            let Some(left) = (request == libc::FIONREAD).then(|| left(fd)).flatten() else {
                return next();
            };
            // SAFETY: the program's own integer.
            unsafe { *argument.cast::<c_int>() = left };
            0
        };

    /// A program announces by it that it will filter its own system calls, as sshd's sandbox does.
    prctl(option: c_int, _a: u64, _b: u64, _c: u64, _d: u64) -> c_int =>
        |next| {
            if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
                asks_no_more();
            }
            next()
        };

    open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, path: Text = path =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);
    openat(_from: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        path: Text = path =>
        |next| open_of_host(path, flags, mode).unwrap_or_else(next);

    fstat(fd: c_int, about: *mut stat) -> c_int =>
        |next| attributes(fd, about).unwrap_or_else(next);

    close(fd: c_int) -> c_int =>
        |next| {
            sets::closes(fd);
            if is_host(fd) {
                closes(fd);
                return finish(native(SYS_close, [fd as u64, 0, 0, 0])) as c_int;
            }
            next()
        };

    poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int,
        array: Array<pollfd> = (fds, count) =>
        |next| polled(array, Some(limit(ms)), None, None, next);
    ppoll(fds: *mut pollfd, count: nfds_t, time: *const timespec, mask: *const sigset_t) -> c_int,
        array: Array<pollfd> = (fds, count),
        time: Option<&timespec> = time,
        mask: Mask = mask =>
        |next| polled(array, limit_of(time), time, mask, next);
    select(count: c_int, readable: *mut fd_set, writable: *mut fd_set, odd: *mut fd_set,
        time: *mut timeval) -> c_int,
        sets: Selection = (count, [readable, writable, odd]),
        given: Option<&mut timeval> = time =>
        |next| {
            let is_right = |t: &timeval| (0..MOST_SECONDS).contains(&t.tv_sec) && t.tv_usec >= 0;
            if !given.as_deref().is_none_or(is_right) {
                return asked_select(next);
            }
            let limit = given.as_deref();
            let limit = limit.map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
            let begun = limit.map_or(0, |_| now());
            let Some(ready) = selected(sets.0, limit, None) else {
                return asked_select(next);
            };
            if let (Some(limit), Some(time)) = (limit, given) {
                let left = limit.saturating_sub(now() - begun);
                time.tv_sec = (left / 1_000_000_000) as libc::time_t;
                time.tv_usec = (left % 1_000_000_000 / 1000) as libc::suseconds_t;
            }
            ready
        };
    pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set, odd: *mut fd_set,
        time: *const timespec, mask: *const sigset_t) -> c_int,
        sets: Selection = (count, [readable, writable, odd]),
        time: Option<&timespec> = time,
        mask: Mask = mask =>
        |next| {
            let ready = limit_of(time).and_then(|limit| selected(sets.0, limit, mask));
            ready.unwrap_or_else(|| asked_select(next))
        };

    /// With the mark by which the worker knows that this library sees all waiters there.
    epoll_create1(flags: c_int) -> c_int =>
        |_next| {
            let number = finish(native(SYS_epoll_create1, [flags as u64, 0, 0, 0])) as c_int;
            if number >= 0 {
                sets::created(number);
            }
            number
        };
    epoll_create(size: c_int) -> c_int =>
        |next| match size {
            // SAFETY: it takes numbers only.
            1.. => unsafe { Ring::epoll_create1(0, next) },
            _ => finish(-i64::from(libc::EINVAL)) as c_int,
        };
    epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int =>
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
    epoll_wait(number: c_int, events: *mut epoll_event, most: c_int, ms: c_int) -> c_int,
        room: Array<epoll_event> = (events, most) =>
        |next| waited(number, room, limit(ms), None).unwrap_or_else(next);
    epoll_pwait(number: c_int, events: *mut epoll_event, most: c_int, ms: c_int,
        mask: *const sigset_t) -> c_int,
        room: Array<epoll_event> = (events, most),
        mask: Mask = mask =>
        |next| waited(number, room, limit(ms), mask).unwrap_or_else(next);
    epoll_pwait2(number: c_int, events: *mut epoll_event, most: c_int, time: *const timespec,
        mask: *const sigset_t) -> c_int,
        room: Array<epoll_event> = (events, most),
        time: Option<&timespec> = time,
        mask: Mask = mask =>
        |next| {
            let nanoseconds =
                |t: &timespec| (t.tv_sec as u64).saturating_mul(1_000_000_000) + t.tv_nsec as u64;
            let is_right = |t: &timespec| t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec);
            if !time.is_none_or(is_right) {
                return next();
            }
            waited(number, room, time.map(nanoseconds), mask).unwrap_or_else(next)
        };

    // By these others may come to wait on an epoll instance, or have a member of one.
    dup(fd: c_int) -> c_int =>
        |next| shown(|set| fd == set, next);
    dup2(fd: c_int, _to: c_int) -> c_int =>
        |next| shown(|set| fd == set, next);
    dup3(fd: c_int, _to: c_int, _flags: c_int) -> c_int =>
        |next| shown(|set| fd == set, next);
    fcntl(fd: c_int, command: c_int, argument: u64) -> c_int =>
        |next| match opens(command, argument) {
            true => shown(|set| fd == set, next),
            false => next(),
        };
    sendmsg(_fd: c_int, message: *const msghdr, _flags: c_int) -> ssize_t,
        message: Option<&msghdr> = message =>
        |next| match sets::any() && message.is_some_and(|message| message.msg_controllen != 0) {
            // It may have files with it.
            true => shown(|_| true, next),
            false => next(),
        };
    sendmmsg(_fd: c_int, _messages: *mut mmsghdr, _count: c_uint, _flags: c_int) -> c_int =>
        |next| shown(|_| true, next);
}

/// The same. It is passed six registers, and a word of the stack, which is as much as it may read.
#[no_mangle]
unsafe extern "C-unwind" fn clone(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64) -> u64 {
    shown(
        |_| true,
        || next!("C-unwind" clone(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64) -> u64),
    )
}

/// Makes a call by which others may have such an instance.
fn shown<R>(which: impl Fn(c_int) -> bool, next: impl FnOnce() -> R) -> R {
    sets::end_notes(which);
    sets::settle();
    next()
}

#[inline]
fn read_into(fd: c_int, parts: &[Part; 1], next: impl FnOnce() -> ssize_t) -> ssize_t {
    let [part] = parts;
    received(fd, parts, 0)
        .or_else(|| on_host(SYS_read, fd, part.address(), part.len() as u64))
        .or_else(|| pipe::read(fd, parts))
        .unwrap_or_else(|| next_received(fd, part, 0, next))
}

/// Whether by this fcntl(2) others may have the file.
fn opens(command: c_int, argument: u64) -> bool {
    match command {
        libc::F_GETFD | libc::F_GETFL | libc::F_SETFL => false,
        libc::F_SETFD => argument as c_int != libc::FD_CLOEXEC,
        _ => true,
    }
}
