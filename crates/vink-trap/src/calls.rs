//! Which system calls are trapped, and what kind of treatment each needs.

/// What the worker has to do with a system call. The filter lets everything pass that is [`Kind::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Works on the descriptor in its first argument and on nothing else: run as it is.
    Io,
    /// socket(2).
    Socket,
    /// accept(2) and accept4(2).
    Accept,
    /// close(2).
    Close,
    /// close_range(2).
    CloseRange,
    /// dup(2).
    Dup,
    /// dup2(2).
    Dup2,
    /// dup3(2).
    Dup3,
    /// fcntl(2).
    Fcntl,
    /// open(2), openat(2) and openat2(2).
    Open,
    /// stat(2), access(2), readlink(2) and others that look up a path.
    LookUp,
    /// fstat(2).
    Fstat,
    /// chdir(2).
    Chdir,
    /// fchdir(2).
    Fchdir,
    /// poll(2) and ppoll(2).
    Poll,
    /// select(2) and pselect6(2).
    Select,
    /// epoll_create(2) and epoll_create1(2).
    EpollCreate,
    /// mmap(2) with `MAP_SHARED` of a file.
    Mmap,
    /// sendfile(2).
    Sendfile,
    /// splice(2).
    Splice,
    /// fork(2) and vfork(2).
    Fork,
    /// clone(2): flags in the first argument.
    Clone,
    /// clone3(2): flags behind the first argument.
    Clone3,
    /// execve(2) and execveat(2).
    Exec,
    /// unshare(2).
    Unshare,
    /// setns(2).
    Setns,
    /// exit(2): of one thread. (Not exit_group(2): a signal that comes before the worker has received a
    /// call can make it `EINTR`, which exit(3) does not live through. A death is noticed as such.)
    Exit,
    /// sched_getaffinity(2) and sched_setaffinity(2).
    Affinity,
    /// io_uring_setup(2): refused in the filter, since a ring's requests are not system calls.
    Uring,
    /// Of another architecture, so that its number says nothing.
    Foreign,
    /// Not trapped.
    Other,
}

/// Stands for the number of any system call that is not x86-64's.
pub(crate) const FOREIGN: i64 = 1 << 32;

/// Above every system call number that this crate knows.
pub(crate) const NR_END: usize = 512;

/// The kind of an x86-64 system call.
pub(crate) const fn kind(nr: i64) -> Kind {
    match nr {
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_getdents64
        | libc::SYS_ioctl
        | libc::SYS_connect
        | libc::SYS_bind
        | libc::SYS_listen
        | libc::SYS_shutdown
        | libc::SYS_getsockname
        | libc::SYS_getpeername
        | libc::SYS_getsockopt
        | libc::SYS_setsockopt
        | libc::SYS_sendto
        | libc::SYS_recvfrom
        | libc::SYS_sendmsg
        | libc::SYS_recvmsg
        | libc::SYS_sendmmsg
        | libc::SYS_recvmmsg => Kind::Io,
        libc::SYS_socket => Kind::Socket,
        libc::SYS_accept | libc::SYS_accept4 => Kind::Accept,
        libc::SYS_close => Kind::Close,
        libc::SYS_close_range => Kind::CloseRange,
        libc::SYS_dup => Kind::Dup,
        libc::SYS_dup2 => Kind::Dup2,
        libc::SYS_dup3 => Kind::Dup3,
        libc::SYS_fcntl => Kind::Fcntl,
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 => Kind::Open,
        libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_access
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_getxattr
        | libc::SYS_lgetxattr
        | libc::SYS_listxattr
        | libc::SYS_llistxattr => Kind::LookUp,
        libc::SYS_fstat => Kind::Fstat,
        libc::SYS_chdir => Kind::Chdir,
        libc::SYS_fchdir => Kind::Fchdir,
        libc::SYS_poll | libc::SYS_ppoll => Kind::Poll,
        libc::SYS_select | libc::SYS_pselect6 => Kind::Select,
        libc::SYS_epoll_create | libc::SYS_epoll_create1 => Kind::EpollCreate,
        libc::SYS_mmap => Kind::Mmap,
        libc::SYS_sendfile => Kind::Sendfile,
        libc::SYS_splice => Kind::Splice,
        libc::SYS_fork | libc::SYS_vfork => Kind::Fork,
        libc::SYS_clone => Kind::Clone,
        libc::SYS_clone3 => Kind::Clone3,
        libc::SYS_execve | libc::SYS_execveat => Kind::Exec,
        libc::SYS_unshare => Kind::Unshare,
        libc::SYS_setns => Kind::Setns,
        libc::SYS_exit => Kind::Exit,
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => Kind::Affinity,
        libc::SYS_io_uring_setup => Kind::Uring,
        FOREIGN => Kind::Foreign,
        _ => Kind::Other,
    }
}

/// Whether an x86-64 system call looks up a path that may lead to the machine's own files: open(2), stat(2) and others.
#[inline]
pub const fn looks_up(nr: i64) -> bool {
    matches!(kind(nr), Kind::Open | Kind::LookUp)
}

/// What is different about a call that is refused or simplified on Vink files, and what to do.
pub(crate) const fn advice(nr: i64) -> &'static str {
    match nr {
        FOREIGN => "ended the program with SIGSYS; let a build for x86-64 be run",
        libc::SYS_unshare | libc::SYS_close_range => {
            "a thread that asked for descriptors of its own kept the other threads'; let the program \
             fork instead"
        }
        libc::SYS_chdir | libc::SYS_fchdir => {
            "refused: the host has no such directory to go to; name it by its whole path instead"
        }
        libc::SYS_semtimedop => {
            "refused: in virtual time System V semaphores have no time-outs; let the program use POSIX ones"
        }
        _ => "answered in a simpler way than Linux does",
    }
}

/// fcntl(2) commands that concern the descriptor, or what only the host knows of the file.
pub const NATIVE_FCNTLS: [u32; 6] = [
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETOWN as u32,
    F_GETOWN_EX,
    F_SETSIG,
    F_GETSIG,
];

/// Of `<linux/fcntl.h>`: what libc leaves out.
const F_SETSIG: u32 = 10;
const F_GETSIG: u32 = 11;
pub(crate) const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: u32 = 16;

/// Of mmap(2)'s flags those that are looked at, and how they must be: of a file, and shared.
pub(crate) const SHARED_FILE: (u32, u32) = (
    (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u32,
    libc::MAP_SHARED as u32,
);

/// Of the terminal requests (0x54xx) those that sockets know too: SIOCOUTQ, FIONREAD, FIONBIO,
/// FIOASYNC. The others are the host's business; a placeholder refuses them as any socket does.
pub(crate) const SOCKET_TTY_IOCTLS: [u32; 4] = [
    libc::TIOCOUTQ as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOASYNC as u32,
];
