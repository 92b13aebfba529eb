//! The table. A row is a function as its man page has it, and the system call that it is; its
//! arguments are the call's in the same order, unless the row has those of the call in brackets.

/// The functions that both libraries have in their place: calls on files of any kind, waits, and
/// what opens and closes files. `functions!([each] more)` gives the rows to the macro `each`,
/// behind `[more]`.
#[macro_export]
macro_rules! functions {
    ([$($each:tt)+] $($more:tt)*) => {
        $($each)+! {
            [$($more)*]
            "C" read = SYS_read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t;
            "C" readv = SYS_readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t;
            "C" recv = SYS_recvfrom(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
            "C" recvfrom = SYS_recvfrom(fd: c_int, at: *mut c_void, len: size_t, flags: c_int,
                from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
            "C" write = SYS_write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t;
            "C" writev = SYS_writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t;
            "C" send = SYS_sendto(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t;
            "C" sendto = SYS_sendto(fd: c_int, at: *const c_void, len: size_t, flags: c_int,
                to: *const sockaddr, to_len: socklen_t) -> ssize_t;
            "C-unwind" sendmsg = SYS_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
            "C-unwind" sendmmsg = SYS_sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint,
                flags: c_int) -> c_int;
            "C" sendfile = SYS_sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t;
            "C" ioctl = SYS_ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int;
            "C-unwind" fcntl = SYS_fcntl(fd: c_int, command: c_int, argument: u64) -> c_int;
            "C-unwind" dup = SYS_dup(fd: c_int) -> c_int;
            "C-unwind" dup2 = SYS_dup2(fd: c_int, to: c_int) -> c_int;
            "C-unwind" dup3 = SYS_dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
            "C" close = SYS_close(fd: c_int) -> c_int;
            "C" fstat = SYS_fstat(fd: c_int, about: *mut stat) -> c_int;
            "C" open = SYS_open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
            "C" openat = SYS_openat(from: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
            "C" prctl = SYS_prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int;
            "C-unwind" poll = SYS_poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int;
            "C-unwind" ppoll = SYS_ppoll(fds: *mut pollfd, count: nfds_t, time: *const timespec,
                mask: *const sigset_t) -> c_int, [fds, count, time, mask, 8];
            "C-unwind" select = SYS_select(end: c_int, readable: *mut fd_set, writable: *mut fd_set,
                odd: *mut fd_set, time: *mut timeval) -> c_int;
            "C-unwind" pselect = SYS_pselect6(end: c_int, readable: *mut fd_set, writable: *mut fd_set,
                odd: *mut fd_set, time: *const timespec, mask: *const sigset_t) -> c_int,
                [end, readable, writable, odd, time, [mask as u64, 8].as_ptr()];
            "C" epoll_create = SYS_epoll_create(size: c_int) -> c_int;
            "C" epoll_create1 = SYS_epoll_create1(flags: c_int) -> c_int;
            "C" epoll_ctl = SYS_epoll_ctl(set: c_int, operation: c_int, fd: c_int,
                event: *mut epoll_event) -> c_int;
            "C-unwind" epoll_wait = SYS_epoll_wait(set: c_int, events: *mut epoll_event, most: c_int,
                ms: c_int) -> c_int;
            "C-unwind" epoll_pwait = SYS_epoll_pwait(set: c_int, events: *mut epoll_event, most: c_int,
                ms: c_int, mask: *const sigset_t) -> c_int, [set, events, most, ms, mask, 8];
            "C-unwind" epoll_pwait2 = SYS_epoll_pwait2(set: c_int, events: *mut epoll_event, most: c_int,
                time: *const timespec, mask: *const sigset_t) -> c_int,
                [set, events, most, time, mask, 8];
        }
    };
}

/// The functions that are another one by another name, or are so if what is read or written fits:
/// else the C library's ends the program (`_FORTIFY_SOURCE`).
#[macro_export]
macro_rules! variants {
    ([$($each:tt)+] $($more:tt)*) => {
        $($each)+! {
            [$($more)*]
            "C" __read = read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t, true;
            "C" __read_chk = read(fd: c_int, at: *mut c_void, len: size_t; room: size_t;) -> ssize_t,
                len <= room;
            "C" __write = write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t, true;
            "C" __recv_chk = recv(fd: c_int, at: *mut c_void, len: size_t; room: size_t; flags: c_int)
                -> ssize_t, len <= room;
            "C" __recvfrom_chk = recvfrom(fd: c_int, at: *mut c_void, len: size_t; room: size_t;
                flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t, len <= room;
            "C" __send = send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t, true;
            "C" sendfile64 = sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t,
                true;
            "C-unwind" fcntl64 = fcntl(fd: c_int, command: c_int, argument: u64) -> c_int, true;
            "C" __close = close(fd: c_int) -> c_int, true;
            "C" fstat64 = fstat(fd: c_int, about: *mut stat) -> c_int, true;
            "C" open64 = open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, true;
            "C" openat64 = openat(from: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
                true;
            "C-unwind" __poll_chk = poll(fds: *mut pollfd, count: nfds_t, ms: c_int; room: size_t;)
                -> c_int, room / size_of::<pollfd>() >= count as usize;
            "C-unwind" __ppoll_chk = ppoll(fds: *mut pollfd, count: nfds_t, time: *const timespec,
                mask: *const sigset_t; room: size_t;) -> c_int,
                room / size_of::<pollfd>() >= count as usize;
        }
    };
}

/// The functions that a library has in its place only if all calls on sockets are its own.
#[macro_export]
macro_rules! socket_functions {
    ([$($each:tt)+] $($more:tt)*) => {
        $($each)+! {
            [$($more)*]
            "C" socket = SYS_socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
            "C" bind = SYS_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
            "C" listen = SYS_listen(fd: c_int, backlog: c_int) -> c_int;
            "C" connect = SYS_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
            "C" __connect = SYS_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
            "C" accept = SYS_accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
            "C" accept4 = SYS_accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t,
                flags: c_int) -> c_int;
            "C" shutdown = SYS_shutdown(fd: c_int, how: c_int) -> c_int;
            "C" getsockname = SYS_getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t)
                -> c_int;
            "C" getpeername = SYS_getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t)
                -> c_int;
            "C" getsockopt = SYS_getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void,
                len: *mut socklen_t) -> c_int;
            "C" setsockopt = SYS_setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void,
                len: socklen_t) -> c_int;
            "C" recvmsg = SYS_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
            "C" recvmmsg = SYS_recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
                time: *mut timespec) -> c_int;
            "C" __fcntl = SYS_fcntl(fd: c_int, command: c_int, argument: u64) -> c_int;
            "C" __poll = SYS_poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int;
            "C" __select = SYS_select(end: c_int, readable: *mut fd_set, writable: *mut fd_set,
                odd: *mut fd_set, time: *mut timeval) -> c_int;
            "C" pread = SYS_pread64(fd: c_int, at: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
            "C" pread64 = SYS_pread64(fd: c_int, at: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
            "C" pwrite = SYS_pwrite64(fd: c_int, at: *const c_void, len: size_t, offset: off_t) -> ssize_t;
            "C" pwrite64 = SYS_pwrite64(fd: c_int, at: *const c_void, len: size_t, offset: off_t) -> ssize_t;
            "C" lseek = SYS_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
            "C" lseek64 = SYS_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
        }
    };
}
