//! The table of functions that packetdrill is given: `struct packetdrill_interface`.
//!
//! The order of its members, and what each does, are those of packetdrill's header for libraries like this one
//! (gtests/net/packetdrill/packetdrill.h). System calls go to the kernel as they come; -1 and errno(3) say that one
//! has failed.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulong, c_void, CStr};

use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval, timezone,
};

use crate::flags::Flags;
use crate::stack::{Error, Stack};

/// Ends packetdrill as `vink run` ends when the kernel has panicked.
const PANICKED: i32 = 121;
const FAILED: i32 = 1;

/// The first argument of each function.
type This = *mut c_void;

/// Declares the table, its functions in the order of its members, and the one that fills it in. Each function makes
/// the system call that is named; what the last column says is made of its arguments.
macro_rules! interface {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty = $body:expr;)*) => {
        /// What packetdrill calls. All functions get `userdata` first.
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct Interface {
            pub userdata: This,
            pub free: unsafe extern "C" fn(This),
            $(pub $name: unsafe extern "C" fn(This, $($kind),*) -> $result,)*
        }

        impl Interface {
            fn of(stack: Box<Stack>) -> Interface {
                Interface {
                    userdata: Box::into_raw(stack).cast(),
                    free: functions::free,
                    $($name: functions::$name,)*
                }
            }
        }

        mod functions {
            use super::*;

            pub(super) unsafe extern "C" fn free(this: This) {
                // SAFETY: made by Interface::of, and not used again.
                drop(unsafe { Box::from_raw(this.cast::<Stack>()) });
            }

            $(
                pub(super) unsafe extern "C" fn $name(this: This, $($arg: $kind),*) -> $result {
                    // SAFETY: made by Interface::of, and not freed yet.
                    let stack = unsafe { &*this.cast::<Stack>() };
                    let make: fn(&Stack, $($kind),*) -> Result<i64, Error> = $body;
                    give(make(stack, $($arg),*)) as $result
                }
            )*
        }
    };
}

/// A system call with these arguments.
macro_rules! call {
    ($nr:ident: $($arg:ident),*) => {
        |stack, $($arg),*| {
            let mut args = [0; 6];
            let mut n = 0;
            $(args[n] = $arg as u64; n += 1;)*
            debug_assert!(n <= args.len());
            stack.call(libc::$nr, args)
        }
    };
}

interface! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = |stack, domain, kind, protocol| {
        stack.carry_sysctls()?;
        stack.call(libc::SYS_socket, [domain as u64, kind as u64, protocol as u64, 0, 0, 0])
    };
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = call!(SYS_bind: fd, address, len);
    listen(fd: c_int, backlog: c_int) -> c_int = call!(SYS_listen: fd, backlog);
    accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int = call!(SYS_accept: fd, address, len);
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = call!(SYS_connect: fd, address, len);
    read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t = call!(SYS_read: fd, into, len);
    readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = call!(SYS_readv: fd, pieces, count);
    recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t = call!(SYS_recvfrom: fd, into, len, flags);
    recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, room: *mut socklen_t)
        -> ssize_t = call!(SYS_recvfrom: fd, into, len, flags, address, room);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = call!(SYS_recvmsg: fd, message, flags);
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t = call!(SYS_write: fd, from, len);
    writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = call!(SYS_writev: fd, pieces, count);
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t = call!(SYS_sendto: fd, from, len, flags);
    sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, size: socklen_t)
        -> ssize_t = call!(SYS_sendto: fd, from, len, flags, address, size);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = call!(SYS_sendmsg: fd, message, flags);
    // The header has "..." here: on x86-64 that is one more argument.
    fcntl(fd: c_int, command: c_int, value: c_ulong) -> c_int = call!(SYS_fcntl: fd, command, value);
    ioctl(fd: c_int, request: c_ulong, value: c_ulong) -> c_int = call!(SYS_ioctl: fd, request, value);
    close(fd: c_int) -> c_int = call!(SYS_close: fd);
    shutdown(fd: c_int, how: c_int) -> c_int = call!(SYS_shutdown: fd, how);
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        = call!(SYS_getsockopt: fd, level, name, value, len);
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        = call!(SYS_setsockopt: fd, level, name, value, len);
    poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = call!(SYS_poll: files, count, timeout);
    netdev_send(packet: *const c_void, len: size_t) -> c_int = |stack, packet, len| {
        // SAFETY: the caller's packet has so many bytes.
        let packet = unsafe { std::slice::from_raw_parts(packet.cast(), len) };
        stack.inject(packet).map(|()| 0)
    };
    netdev_receive(into: *mut c_void, len: *mut size_t, time: *mut c_longlong) -> c_int = |stack, into, len, time| {
        let (packet, when) = stack.sniff()?;
        // SAFETY: the caller's buffer has `*len` bytes, and all three are the caller's to write to.
        unsafe {
            *len = packet.len().min(*len);
            into.cast::<u8>().copy_from_nonoverlapping(packet.as_ptr(), *len);
            *time = when;
        }
        Ok(0)
    };
    usleep(us: c_uint) -> c_int = |stack, us| stack.sleep(u64::from(us) * 1000).map(|()| 0);
    gettimeofday(into: *mut timeval, _zone: *mut timezone) -> c_int = |stack, into, _zone| {
        let us = (stack.date()? / 1000) as i64;
        // SAFETY: the caller's.
        unsafe { *into = timeval { tv_sec: us / 1_000_000, tv_usec: us % 1_000_000 } };
        Ok(0)
    };
    epoll_create(size: c_int) -> c_int = call!(SYS_epoll_create: size);
    epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int
        = call!(SYS_epoll_ctl: set, operation, fd, event);
    epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int
        = call!(SYS_epoll_wait: set, events, most, timeout);
    pipe(ends: *mut c_int) -> c_int = call!(SYS_pipe: ends);
    splice(from: c_int, at: *mut loff_t, to: c_int, there: *mut loff_t, len: size_t, flags: c_uint) -> c_int
        = call!(SYS_splice: from, at, to, there, len, flags);
}

/// Called by packetdrill when a script begins: boots the kernel and fills in the table. What is wrong with `flags` (see
/// docs/packetdrill.md) or with the image ends the process, for packetdrill looks at no result.
///
/// # Safety
/// `flags` is a string or null, `interface` the table's place.
#[no_mangle]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let text = match flags.is_null() {
        true => Default::default(),
        // SAFETY: as the caller says.
        false => unsafe { CStr::from_ptr(flags) }.to_string_lossy(),
    };
    let flags =
        Flags::parse(&text).unwrap_or_else(|why| end(&format!("--so_flags: {why}"), FAILED));
    let stack = Stack::new(&flags).unwrap_or_else(|error| fail(&error));
    // SAFETY: as the caller says.
    unsafe { interface.write(Interface::of(Box::new(stack))) };
}

/// A result as the C library gives it: -1 and errno(3) for a negative one.
fn give(result: Result<i64, Error>) -> i64 {
    match result {
        Ok(result @ 0..) => result,
        Ok(error) => {
            // SAFETY: the thread's own.
            unsafe { *libc::__errno_location() = -error as i32 };
            -1
        }
        Err(error) => fail(&error),
    }
}

/// There is no kernel any more, or what the script waits for does not come.
fn fail(error: &Error) -> ! {
    let panicked = matches!(error, Error::Kernel(vink_kernel::Error::Panic(_)));
    end(&error.to_string(), if panicked { PANICKED } else { FAILED })
}

fn end(why: &str, status: i32) -> ! {
    eprintln!("libvink_packetdrill: {why}");
    std::process::exit(status)
}
