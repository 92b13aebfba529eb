//! What the parameters of each trapped call are.

use super::names::{self, Names};

/// What a parameter is. Numbers in it are the indices of other parameters of the same call.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Int,
    Size,
    Hex,
    Fd,
    Name(Names),
    Flags(Names),
    /// A socket's type with its flags.
    Type,
    /// A socket's protocol, which depends on the family in 0.
    Protocol,
    /// A path, or another string.
    Text,
    /// A vector of strings.
    Texts,
    /// A vector of strings that are only counted: the environment.
    Variables,
    /// Bytes for the call, as many as this parameter says.
    In(usize),
    /// Bytes from the call, as many as its result.
    Out,
    /// Vectors of buffers for the call, and from it; as many as this parameter says.
    InVector(usize),
    OutVector(usize),
    /// An address of as many bytes as this parameter says.
    InAddress(usize),
    /// An address from the call; this parameter points to its length.
    OutAddress(usize),
    /// A pointer to a length.
    Length,
    /// A pointer to an offset.
    Offset,
    InMessage,
    OutMessage,
    /// Several: as many as this parameter says; as many as the result says.
    InMessages(usize),
    OutMessages,
    /// A socket option of the level in 1, and its value with its length.
    OptionName,
    InOption(usize),
    OutOption(usize),
    Request,
    /// The argument of the request in 1.
    Requested,
    /// The argument of the command in 1 of fcntl(2).
    Commanded,
    Polled(usize),
    /// A set of descriptors below the number in 0.
    Set,
    /// `struct timespec`, `struct timeval` (parts of a second are a million).
    Timespec,
    Timeval,
    /// `struct clone_args`, of which the flags are shown.
    CloneArgs,
}

use Shape::{
    CloneArgs, Commanded, Fd, Flags, Hex, InAddress, InMessage, InMessages, InOption, InVector,
    Int, Length, Name, Offset, OptionName, OutAddress, OutMessage, OutMessages, OutOption,
    OutVector, Polled, Protocol, Request, Requested, Set, Size, Text, Texts, Timespec, Timeval,
    Type, Variables,
};

/// The parameters of a call; `None` for one that is not known here.
pub(super) fn shapes(nr: i64) -> Option<&'static [Shape]> {
    const MESSAGE: Shape = Flags(names::MESSAGE_FLAGS);
    const FILE: Shape = Flags(names::FILE_FLAGS);
    Some(match nr {
        libc::SYS_read => &[Fd, Shape::Out, Size],
        libc::SYS_write => &[Fd, Shape::In(2), Size],
        libc::SYS_pread64 => &[Fd, Shape::Out, Size, Int],
        libc::SYS_pwrite64 => &[Fd, Shape::In(2), Size, Int],
        libc::SYS_readv => &[Fd, OutVector(2), Size],
        libc::SYS_writev => &[Fd, InVector(2), Size],
        libc::SYS_preadv => &[Fd, OutVector(2), Size, Int],
        libc::SYS_pwritev => &[Fd, InVector(2), Size, Int],
        libc::SYS_preadv2 => &[Fd, OutVector(2), Size, Int, Int, Hex],
        libc::SYS_pwritev2 => &[Fd, InVector(2), Size, Int, Int, Hex],
        libc::SYS_getdents64 => &[Fd, Hex, Size],
        libc::SYS_ioctl => &[Fd, Request, Requested],
        libc::SYS_fcntl => &[Fd, Name(names::FCNTLS), Commanded],
        libc::SYS_socket => &[Name(names::FAMILIES), Type, Protocol],
        libc::SYS_socketpair => &[Name(names::FAMILIES), Type, Protocol, Hex],
        libc::SYS_connect | libc::SYS_bind => &[Fd, InAddress(2), Int],
        libc::SYS_listen => &[Fd, Int],
        libc::SYS_accept | libc::SYS_getsockname | libc::SYS_getpeername => {
            &[Fd, OutAddress(2), Length]
        }
        libc::SYS_accept4 => &[Fd, OutAddress(2), Length, Flags(names::TYPE_FLAGS)],
        libc::SYS_shutdown => &[Fd, Name(names::HOW)],
        libc::SYS_getsockopt => &[Fd, Name(names::LEVELS), OptionName, OutOption(4), Length],
        libc::SYS_setsockopt => &[Fd, Name(names::LEVELS), OptionName, InOption(4), Int],
        libc::SYS_sendto => &[Fd, Shape::In(2), Size, MESSAGE, InAddress(5), Int],
        libc::SYS_recvfrom => &[Fd, Shape::Out, Size, MESSAGE, OutAddress(5), Length],
        libc::SYS_sendmsg => &[Fd, InMessage, MESSAGE],
        libc::SYS_recvmsg => &[Fd, OutMessage, MESSAGE],
        libc::SYS_sendmmsg => &[Fd, InMessages(2), Size, MESSAGE],
        libc::SYS_recvmmsg => &[Fd, OutMessages, Size, MESSAGE, Timespec],
        libc::SYS_close => &[Fd],
        libc::SYS_close_range => &[Int, Int, Hex],
        libc::SYS_dup => &[Fd],
        libc::SYS_dup2 => &[Fd, Fd],
        libc::SYS_dup3 => &[Fd, Fd, FILE],
        libc::SYS_open => &[Text, FILE],
        libc::SYS_openat2 => &[Fd, Text, Hex, Size],
        libc::SYS_getxattr | libc::SYS_lgetxattr => &[Text, Text, Hex, Size],
        libc::SYS_fchdir => &[Fd],
        libc::SYS_listxattr | libc::SYS_llistxattr => &[Text, Hex, Size],
        libc::SYS_openat => &[Fd, Text, FILE],
        libc::SYS_poll => &[Polled(1), Size, Int],
        libc::SYS_ppoll => &[Polled(1), Size, Timespec, Hex],
        libc::SYS_select => &[Int, Set, Set, Set, Timeval],
        libc::SYS_pselect6 => &[Int, Set, Set, Set, Timespec, Hex],
        libc::SYS_epoll_create => &[Int],
        libc::SYS_epoll_create1 => &[FILE],
        libc::SYS_sendfile => &[Fd, Fd, Offset, Size],
        libc::SYS_splice | libc::SYS_copy_file_range => &[Fd, Offset, Fd, Offset, Size, Hex],
        libc::SYS_tee => &[Fd, Fd, Size, Hex],
        libc::SYS_vmsplice => &[Fd, InVector(2), Size, Hex],
        libc::SYS_fork | libc::SYS_vfork => &[],
        libc::SYS_clone => &[Flags(names::CLONES), Hex, Hex, Hex, Hex],
        libc::SYS_clone3 => &[CloneArgs, Size],
        libc::SYS_execve => &[Text, Texts, Variables],
        libc::SYS_execveat => &[Fd, Text, Texts, Variables, Hex],
        libc::SYS_exit_group
        | libc::SYS_alarm
        | libc::SYS_getitimer
        | libc::SYS_timer_delete
        | libc::SYS_timer_getoverrun => &[Int],
        libc::SYS_pause | libc::SYS_sched_yield => &[],
        libc::SYS_set_tid_address | libc::SYS_time | libc::SYS_times => &[Hex],
        libc::SYS_getrandom => &[Hex, Size, Hex],
        libc::SYS_set_robust_list | libc::SYS_rt_sigsuspend => &[Hex, Size],
        libc::SYS_rt_sigtimedwait => &[Hex, Hex, Timespec, Size],
        libc::SYS_rseq => &[Hex, Size, Hex, Hex],
        // What else it has depends on the operation.
        libc::SYS_futex => &[Hex, Int, Int],
        libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_getrusage
        | libc::SYS_timer_gettime => &[Int, Hex],
        libc::SYS_gettimeofday => &[Hex, Hex],
        libc::SYS_nanosleep => &[Timespec, Hex],
        libc::SYS_clock_nanosleep => &[Int, Hex, Timespec, Hex],
        libc::SYS_setitimer | libc::SYS_timer_create => &[Int, Hex, Hex],
        libc::SYS_timer_settime | libc::SYS_wait4 => &[Int, Hex, Hex, Hex],
        libc::SYS_waitid => &[Int, Int, Hex, Hex, Hex],
        libc::SYS_kill | libc::SYS_tkill => &[Int, Int],
        libc::SYS_tgkill => &[Int, Int, Int],
        libc::SYS_timerfd_create => &[Int, Hex],
        libc::SYS_timerfd_settime => &[Fd, Hex, Hex, Hex],
        libc::SYS_timerfd_gettime => &[Fd, Hex],
        libc::SYS_flock => &[Fd, Int],
        libc::SYS_exit => &[Int],
        libc::SYS_uname => &[Hex],
        libc::SYS_stat | libc::SYS_lstat => &[Text, Hex],
        libc::SYS_fstat => &[Fd, Hex],
        libc::SYS_access | libc::SYS_chdir => &[Text, Hex],
        libc::SYS_newfstatat => &[Fd, Text, Hex, Hex],
        libc::SYS_statx => &[Fd, Text, Hex, Hex, Hex],
        libc::SYS_faccessat | libc::SYS_faccessat2 => &[Fd, Text, Hex, Hex],
        libc::SYS_readlink => &[Text, Hex, Size],
        libc::SYS_readlinkat => &[Fd, Text, Hex, Size],
        libc::SYS_mmap => &[Hex, Size, Hex, Hex, Fd, Hex],
        libc::SYS_unshare => &[Flags(names::CLONES)],
        libc::SYS_setns => &[Fd, Flags(names::CLONES)],
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => &[Int, Size, Hex],
        libc::SYS_pidfd_getfd => &[Fd, Int, Hex],
        _ => return None,
    })
}
