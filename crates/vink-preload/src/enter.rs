//! The one entry: a system call of the program's, however it was caught.
//!
//! Symbols (`symbols`) come here with a constant number, so that of this there is little left for each of them;
//! dispatched calls (`dispatch`) with any.

use vink_syscalls::{concerns_interfaces, shim, Shim, NATIVE_FCNTLS};

use crate::descriptors::{self, Entry};
use crate::state::{self, call};
use crate::thread::{self, Thread};
use crate::{files, host, process, readiness, signals, transfer};

const EBADF: i64 = -(libc::EBADF as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const ENOSYS: i64 = -(libc::ENOSYS as i64);

/// ioctl(2) requests that concern the descriptor, not the file.
const FIONCLEX: u64 = 0x5450;
const FIOCLEX: u64 = 0x5451;

/// A system call of the program's: its result, or `-errno`.
#[inline(always)]
pub(crate) fn enter(nr: i64, args: [u64; 6]) -> i64 {
    let thread = thread::this();
    if thread.is_inside() {
        return host::call(nr, args);
    }
    dispatch(thread, nr, args)
}

#[inline(always)]
fn dispatch(thread: &Thread, nr: i64, args: [u64; 6]) -> i64 {
    match shim(nr) {
        Shim::Io => io(thread, nr, args),
        Shim::Socket => socket(thread, args),
        Shim::Accept => accept(thread, nr, args),
        Shim::Close => close(thread, args),
        Shim::Fcntl => fcntl(thread, args),
        Shim::Ioctl => ioctl(thread, args),
        Shim::Poll => readiness::poll(thread, args),
        Shim::Ppoll => readiness::ppoll(thread, args),
        Shim::Select => readiness::select(thread, args),
        Shim::Pselect => readiness::pselect(thread, args),
        Shim::EpollCreate => readiness::epoll_create(nr, args),
        Shim::EpollCtl => readiness::epoll_ctl(thread, args),
        Shim::EpollWait => readiness::epoll_wait(thread, nr, args),
        _ => seldom(thread, nr, args),
    }
}

/// What no program makes thousands of times.
#[inline(never)]
fn seldom(thread: &Thread, nr: i64, args: [u64; 6]) -> i64 {
    match shim(nr) {
        Shim::Fstat => fstat(thread, args),
        Shim::Dup => dup(thread, args[0], 0, false),
        Shim::Dup2 if args[0] as u32 == args[1] as u32 => match descriptors::get(args[0]) {
            Entry::Ours => EBADF,
            _ => host::call(nr, args),
        },
        Shim::Dup2 => dup_to(thread, nr, args, 0),
        Shim::Dup3 => dup_to(thread, nr, args, args[2]),
        Shim::CloseRange => close_range(thread, args),
        Shim::Sendfile => transfer::sendfile(thread, args),
        Shim::Splice => transfer::splice(thread, args),
        Shim::LookUp => files::look_up(thread, nr, args),
        Shim::Sigaction => signals::action(args),
        Shim::Sigprocmask => signals::mask(args),
        Shim::Sigsuspend => signals::suspend(args),
        Shim::Exec => process::exec(nr, args),
        Shim::Exit => {
            state::thread_ends();
            host::call(nr, args)
        }
        Shim::ExitGroup => {
            state::finish();
            host::call(nr, args)
        }
        Shim::Submit if submits_file(args) => EINVAL,
        // A ring's requests are not system calls.
        Shim::Uring => ENOSYS,
        _ => host::call(nr, args),
    }
}

/// Whether a request of an io_submit(2) is for a Vink file: asynchronous I/O is for the host's. What can't be read the host
/// refuses.
fn submits_file([_, count, list, ..]: [u64; 6]) -> bool {
    /// Where the descriptor is in `struct iocb` of `<linux/aio_abi.h>`.
    const FILDES: u64 = 20;
    (0..count)
        .map_while(|index| {
            let (mut request, mut descriptor) = ([0u64], [0u32]);
            let read = host::read(&mut request, list.wrapping_add(8 * index))
                && host::read(&mut descriptor, request[0].wrapping_add(FILDES));
            read.then_some(descriptor[0])
        })
        .any(|descriptor| matches!(descriptors::get(descriptor.into()), Entry::File(_)))
}

/// A call on the descriptor in its first argument.
#[inline(always)]
fn io(thread: &Thread, nr: i64, mut args: [u64; 6]) -> i64 {
    match descriptors::get(args[0]) {
        Entry::File(number) => {
            args[0] = number as u64;
            call(thread, nr, args)
        }
        _ => host::call(nr, args),
    }
}

fn socket(thread: &Thread, args: [u64; 6]) -> i64 {
    if args[0] as i32 == libc::AF_UNIX {
        return host::call(libc::SYS_socket, args);
    }
    if let Err(error) = state::stack(thread) {
        return error;
    }
    make(thread, args[1] & libc::SOCK_CLOEXEC as u64 != 0, || {
        call(thread, libc::SYS_socket, args)
    })
}

/// Takes a number, then has the kernel make the file: as Linux does, a number that can't be had is found out before
/// a connection is taken.
pub(crate) fn make(thread: &Thread, cloexec: bool, file: impl FnOnce() -> i64) -> i64 {
    let fd = descriptors::take_number(0, cloexec);
    if fd < 0 {
        return fd;
    }
    let number = file();
    if number < 0 {
        descriptors::give_back(fd as u64);
        return number;
    }
    let before = descriptors::set_file(fd as u64, number as i32);
    drop_entry(thread, before);
    fd
}

fn accept(thread: &Thread, nr: i64, mut args: [u64; 6]) -> i64 {
    let Entry::File(number) = descriptors::get(args[0]) else {
        return host::call(nr, args);
    };
    args[0] = number as u64;
    let flags = if nr == libc::SYS_accept4 { args[3] } else { 0 };
    make(thread, flags & libc::SOCK_CLOEXEC as u64 != 0, || {
        call(thread, nr, args)
    })
}

/// The kernel's side of a number that stands for something else now: `close()`'s result.
pub(crate) fn drop_entry(thread: &Thread, entry: Entry) -> i64 {
    let number = match entry {
        Entry::File(number) => Some(number),
        Entry::Set(epoll) => descriptors::release(epoll),
        Entry::Host | Entry::Ours => None,
    };
    match number {
        Some(number) if !state::is_orphan() => {
            call(thread, libc::SYS_close, [number as u64, 0, 0, 0, 0, 0])
        }
        _ => 0,
    }
}

fn close(thread: &Thread, args: [u64; 6]) -> i64 {
    match descriptors::get(args[0]) {
        Entry::Host => host::call(libc::SYS_close, args),
        Entry::Ours => EBADF,
        _ => {
            let entry = descriptors::clear(args[0]);
            let result = drop_entry(thread, entry);
            match descriptors::give_back(args[0]) {
                0 => result,
                error => error,
            }
        }
    }
}

/// dup(2) and fcntl(2)'s `F_DUPFD`: the lowest number not below `least`.
fn dup(thread: &Thread, fd: u64, least: u64, cloexec: bool) -> i64 {
    match descriptors::get(fd) {
        Entry::File(_) if state::is_orphan() => state::refuse(),
        Entry::File(number) => {
            let copy = descriptors::take_number(least, cloexec);
            if copy < 0 {
                return copy;
            }
            let number = call(thread, libc::SYS_dup, [number as u64, 0, 0, 0, 0, 0]);
            if number < 0 {
                descriptors::give_back(copy as u64);
                return number;
            }
            let before = descriptors::set_file(copy as u64, number as i32);
            drop_entry(thread, before);
            copy
        }
        Entry::Ours => EBADF,
        entry => {
            let command = match cloexec {
                true => libc::F_DUPFD_CLOEXEC,
                false => libc::F_DUPFD,
            };
            let copy = host::call(libc::SYS_fcntl, [fd, command as u64, least, 0, 0, 0]);
            if let (Entry::Set(epoll), 0..) = (entry, copy) {
                descriptors::set_epoll(copy as u64, epoll);
            }
            copy
        }
    }
}

/// dup2(2) and dup3(2), of different numbers.
fn dup_to(thread: &Thread, nr: i64, args: [u64; 6], flags: u64) -> i64 {
    let [from, to, ..] = args;
    if matches!(descriptors::get(to), Entry::Ours) {
        return EBADF;
    }
    match descriptors::get(from) {
        Entry::Ours => EBADF,
        Entry::File(_) if state::is_orphan() => state::refuse(),
        Entry::File(number) => {
            if from as u32 == to as u32 || flags & !(libc::O_CLOEXEC as u64) != 0 {
                return EINVAL;
            }
            let number = call(thread, libc::SYS_dup, [number as u64, 0, 0, 0, 0, 0]);
            if number < 0 {
                return number;
            }
            let taken = descriptors::take_this(to, flags != 0);
            if taken < 0 {
                drop_entry(thread, Entry::File(number as i32));
                return taken;
            }
            let before = descriptors::set_file(to, number as i32);
            drop_entry(thread, before);
            taken
        }
        entry => {
            let taken = host::call(nr, args);
            if taken >= 0 {
                let before = match entry {
                    Entry::Set(epoll) => descriptors::set_epoll(to, epoll),
                    _ => descriptors::clear(to),
                };
                drop_entry(thread, before);
            }
            taken
        }
    }
}

fn fcntl(thread: &Thread, mut args: [u64; 6]) -> i64 {
    let [fd, command, argument, ..] = args;
    match command as i32 {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => match descriptors::get(fd) {
            Entry::Host => host::call(libc::SYS_fcntl, args),
            _ => dup(
                thread,
                fd,
                argument,
                command as i32 == libc::F_DUPFD_CLOEXEC,
            ),
        },
        _ => match descriptors::get(fd) {
            Entry::File(number) if !NATIVE_FCNTLS.contains(&(command as u32)) => {
                args[0] = number as u64;
                call(thread, libc::SYS_fcntl, args)
            }
            _ => host::call(libc::SYS_fcntl, args),
        },
    }
}

fn ioctl(thread: &Thread, args: [u64; 6]) -> i64 {
    match args[1] {
        FIOCLEX | FIONCLEX => host::call(libc::SYS_ioctl, args),
        request if concerns_interfaces(request) => match descriptors::get(args[0]) {
            Entry::File(_) => io(thread, libc::SYS_ioctl, args),
            _ => ask_about_interfaces(thread, args),
        },
        _ => io(thread, libc::SYS_ioctl, args),
    }
}

/// ioctl(2) on what may be a socket of the host's: if_nametoindex(3) and others open a unix socket, since any will do,
/// and ask it for what their machine's kernel must answer (netdevice(7)).
fn ask_about_interfaces(thread: &Thread, mut args: [u64; 6]) -> i64 {
    let mut stat = Stat::default();
    let looked = host::call(libc::SYS_fstat, [args[0], stat.at(), 0, 0, 0, 0]);
    if looked < 0 || !stat.is_socket() {
        return host::call(libc::SYS_ioctl, args);
    }
    if let Err(error) = state::stack(thread) {
        return error;
    }
    // Like a unix socket, one of netlink has no requests of its own.
    let kind = [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE].map(|n| n as u64);
    let socket = call(
        thread,
        libc::SYS_socket,
        [kind[0], kind[1], kind[2], 0, 0, 0],
    );
    if socket < 0 {
        return socket;
    }
    args[0] = socket as u64;
    let result = call(thread, libc::SYS_ioctl, args);
    drop_entry(thread, Entry::File(socket as i32));
    result
}

/// fstat(2).
fn fstat(thread: &Thread, args: [u64; 6]) -> i64 {
    let result = io(thread, libc::SYS_fstat, args);
    if let (0, Entry::File(_)) = (result, descriptors::get(args[0])) {
        own(args[1]);
    }
    result
}

/// A socket belongs to the user that made it: the kernel's tasks are all root's.
pub(crate) fn own(stat_at: u64) {
    let mut stat = [Stat::default()];
    if host::read(&mut stat, stat_at) && stat[0].is_socket() {
        stat[0].user =
            [libc::SYS_geteuid, libc::SYS_getegid].map(|nr| host::call(nr, [0; 6]) as u32);
        host::write(stat_at, &stat);
    }
}

/// What is looked at of `struct stat`, from its beginning.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Stat {
    _identity: [u64; 3],
    mode: u32,
    user: [u32; 2],
    _rest: [u32; 27],
}

const _: () = assert!(size_of::<Stat>() == size_of::<libc::stat>());

impl Stat {
    fn at(&mut self) -> u64 {
        (&raw mut *self) as u64
    }

    fn is_socket(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

fn close_range(thread: &Thread, args: [u64; 6]) -> i64 {
    let [first, last, flags, ..] = args;
    let (first, last) = (u64::from(first as u32), u64::from(last as u32));
    let flags = flags as u32;
    let cloexec = flags & libc::CLOSE_RANGE_CLOEXEC != 0;
    if first > last || cloexec || flags & !libc::CLOSE_RANGE_UNSHARE != 0 {
        return host::call(libc::SYS_close_range, args);
    }
    let mut from = first;
    for (fd, entry) in descriptors::noted(first, last) {
        if let Entry::Ours = entry {
            if fd > from {
                host::call(libc::SYS_close_range, [from, fd - 1, 0, 0, 0, 0]);
            }
            from = fd + 1;
        } else {
            let entry = descriptors::clear(fd);
            drop_entry(thread, entry);
        }
    }
    match from <= last {
        true => host::call(libc::SYS_close_range, [from, last, 0, 0, 0, 0]),
        false => 0,
    }
}
