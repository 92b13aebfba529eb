//! The C library's functions that programs call most, in its place: they save the way by a signal (`dispatch`), and
//! nothing depends on them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

use crate::enter::enter;

/// What a function of the C library gives for a system call's result.
#[inline(always)]
fn finish(result: i64) -> i64 {
    match result {
        -4095..0 => failed(result),
        _ => result,
    }
}

#[cold]
fn failed(result: i64) -> i64 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = -result as i32 };
    -1
}

/// Arguments of a system call, of which the rest are 0.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {{
        let given = [$($arg as u64),*];
        let mut args = [0u64; 6];
        args[..given.len()].copy_from_slice(&given);
        args
    }};
}

/// Functions that are their system calls.
macro_rules! calls {
    ($($name:ident = $nr:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                finish(enter(libc::$nr, args![$($arg),*])) as $result
            }
        )*
    };
}

calls! {
    read = SYS_read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    __read = SYS_read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    write = SYS_write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    __write = SYS_write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    readv = SYS_readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    writev = SYS_writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    close = SYS_close(fd: c_int) -> c_int;
    __close = SYS_close(fd: c_int) -> c_int;
    socket = SYS_socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind = SYS_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen = SYS_listen(fd: c_int, backlog: c_int) -> c_int;
    connect = SYS_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    __connect = SYS_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    accept = SYS_accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    accept4 = SYS_accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    shutdown = SYS_shutdown(fd: c_int, how: c_int) -> c_int;
    getsockname = SYS_getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername = SYS_getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt = SYS_getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt = SYS_setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    sendto = SYS_sendto(fd: c_int, data: *const c_void, count: size_t, flags: c_int, to: *const sockaddr, len: socklen_t) -> ssize_t;
    recvfrom = SYS_recvfrom(fd: c_int, data: *mut c_void, count: size_t, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> ssize_t;
    send = SYS_sendto(fd: c_int, data: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    __send = SYS_sendto(fd: c_int, data: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    recv = SYS_recvfrom(fd: c_int, data: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    sendmsg = SYS_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    recvmsg = SYS_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    sendmmsg = SYS_sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    recvmmsg = SYS_recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int;
    fcntl = SYS_fcntl(fd: c_int, command: c_int, argument: u64) -> c_int;
    __fcntl = SYS_fcntl(fd: c_int, command: c_int, argument: u64) -> c_int;
    fcntl64 = SYS_fcntl(fd: c_int, command: c_int, argument: u64) -> c_int;
    ioctl = SYS_ioctl(fd: c_int, request: u64, argument: u64) -> c_int;
    poll = SYS_poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    __poll = SYS_poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    select = SYS_select(end: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int;
    __select = SYS_select(end: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int;
    epoll_create = SYS_epoll_create(size: c_int) -> c_int;
    epoll_create1 = SYS_epoll_create1(flags: c_int) -> c_int;
    epoll_ctl = SYS_epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait = SYS_epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int;
    pread = SYS_pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t;
    pread64 = SYS_pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t;
    pwrite = SYS_pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t;
    pwrite64 = SYS_pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t;
    lseek = SYS_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    lseek64 = SYS_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    sendfile = SYS_sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    sendfile64 = SYS_sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    openat = SYS_openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    openat64 = SYS_openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    open = SYS_open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    open64 = SYS_open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
}

/// The size of the kernel's signal set, in bytes.
const MASK: u64 = 8;

#[no_mangle]
unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<&timespec>,
    mask: *const sigset_t,
) -> c_int {
    // The system call says how much is left, the function does not.
    let mut left = limit.copied();
    let left = left.as_mut().map_or(0, |left| (&raw mut *left) as u64);
    finish(enter(libc::SYS_ppoll, args![fds, count, left, mask, MASK])) as c_int
}

#[no_mangle]
unsafe extern "C" fn pselect(
    end: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    other: *mut fd_set,
    limit: Option<&timespec>,
    mask: *const sigset_t,
) -> c_int {
    let mut left = limit.copied();
    let left = left.as_mut().map_or(0, |left| (&raw mut *left) as u64);
    let sixth = [mask as u64, MASK];
    finish(enter(
        libc::SYS_pselect6,
        args![end, read, write, other, left, sixth.as_ptr()],
    )) as c_int
}

#[no_mangle]
unsafe extern "C" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    finish(enter(
        libc::SYS_epoll_pwait,
        args![set, events, most, timeout, mask, MASK],
    )) as c_int
}

// SAFETY: it ends the program, whatever that is at.
unsafe extern "C" {
    safe fn __chk_fail() -> !;
}

/// What `_FORTIFY_SOURCE` makes of functions: more bytes than there is room for end the program.
macro_rules! checked {
    ($(
        $name:ident = $nr:ident($($arg:ident: $type:ty),*; $room:ident $(, $last:ident: $last_type:ty)*)
            -> $result:ty, $bytes:expr;
    )*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(
                $($arg: $type,)*
                $room: size_t,
                $($last: $last_type),*
            ) -> $result {
                if $bytes > $room {
                    __chk_fail();
                }
                finish(enter(libc::$nr, args![$($arg,)* $($last),*])) as $result
            }
        )*
    };
}

checked! {
    __read_chk = SYS_read(fd: c_int, buffer: *mut c_void, count: size_t; room) -> ssize_t, count;
    __recv_chk = SYS_recvfrom(fd: c_int, data: *mut c_void, count: size_t; room, flags: c_int) -> ssize_t, count;
    __recvfrom_chk = SYS_recvfrom(fd: c_int, data: *mut c_void, count: size_t; room, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> ssize_t, count;
    __poll_chk = SYS_poll(fds: *mut pollfd, count: nfds_t, timeout: c_int; room) -> c_int, count as size_t * size_of::<pollfd>();
}
