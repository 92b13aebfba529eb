//! The classes of system calls, one type for each column of the table.

/// What the worker has to do with a system call. The filter lets everything pass that is
/// [`Kind::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Works on the descriptor in its first argument and on nothing else: run as it is.
    Io,
    /// bind(2): the same, and the port may be another stack's.
    Bind,
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
    /// exit(2): of one thread. (Not exit_group(2): a signal that comes before the worker has
    /// received a call can make it `EINTR`, which exit(3) does not live through. A death is noticed
    /// as such.)
    Exit,
    /// sched_getaffinity(2) and sched_setaffinity(2).
    Affinity,
    /// io_submit(2).
    Submit,
    /// sigaction(2) with a new handler.
    Sigaction,
    /// io_uring_setup(2): refused in the filter, since a ring's requests are not system calls.
    Uring,
    /// kill(2) of the caller's process group: the worker may be in it.
    Kill,
    /// Of another architecture, so that its number says nothing.
    Foreign,
    /// Not trapped.
    Other,
}

/// What the first argument is, if it is a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdRole {
    /// No descriptor.
    None,
    /// The file that the call is about.
    File,
    /// The directory that a path starts from.
    Directory,
}

/// What the in-process library does with a system call of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shim {
    /// Makes it on the host as it is.
    Host,
    /// Makes it in the kernel if the descriptor in its first argument is a Vink file.
    Io,
    /// socket(2).
    Socket,
    /// accept(2) and accept4(2).
    Accept,
    /// close(2).
    Close,
    /// fcntl(2).
    Fcntl,
    /// ioctl(2).
    Ioctl,
    /// poll(2).
    Poll,
    /// ppoll(2).
    Ppoll,
    /// select(2).
    Select,
    /// pselect6(2).
    Pselect,
    /// epoll_create(2) and epoll_create1(2).
    EpollCreate,
    /// epoll_ctl(2).
    EpollCtl,
    /// epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2).
    EpollWait,
    /// fstat(2).
    Fstat,
    /// dup(2).
    Dup,
    /// dup2(2).
    Dup2,
    /// dup3(2).
    Dup3,
    /// close_range(2).
    CloseRange,
    /// sendfile(2).
    Sendfile,
    /// splice(2).
    Splice,
    /// open(2), stat(2) and others that look up a path.
    LookUp,
    /// rt_sigaction(2).
    Sigaction,
    /// rt_sigprocmask(2).
    Sigprocmask,
    /// rt_sigsuspend(2).
    Sigsuspend,
    /// sigaltstack(2).
    Sigaltstack,
    /// rt_sigreturn(2).
    Sigreturn,
    /// fork(2), vfork(2), clone(2) and clone3(2).
    Clone,
    /// execve(2) and execveat(2).
    Exec,
    /// exit(2).
    Exit,
    /// exit_group(2).
    ExitGroup,
    /// io_submit(2): refused for Vink files.
    Submit,
    /// io_uring_setup(2): refused, since a ring's requests are not system calls.
    Uring,
}

/// Whether a call may block on the host, and what it waits for. Numbers are the indices of
/// arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// As far as the worker is concerned it does not.
    Never,
    /// Until any kind of file can be read.
    Reads,
    /// Until any kind of file can be written to: the length is in this argument, or `None` if the
    /// arguments do not say.
    Writes(Option<usize>),
    /// Until a socket has something; `MSG_DONTWAIT` may be in this argument.
    Receives(Option<usize>),
    /// Until a socket has room; `MSG_DONTWAIT` may be in this argument.
    Sends(Option<usize>),
    /// The worker cannot tell beforehand.
    OnHost,
    /// fcntl(2): for a lock.
    ForLock,
    /// Until the child executes or ends.
    Vfork,
    /// As [`Blocks::Vfork`], if `CLONE_VFORK` is in the first argument.
    Clone,
    /// As [`Blocks::Vfork`], if `CLONE_VFORK` is what the first argument points to.
    Clone3,
    /// Until the new program is there.
    Exec,
}

/// Whether a call may ask for signals that come with other calls than those that send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSignals {
    /// It does not.
    Never,
    /// fcntl(2): by its command.
    Fcntl,
    /// ioctl(2): by its request.
    Ioctl,
    /// It does.
    Always,
}

/// How virtual time treats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// As in real time.
    AsInRealTime,
    /// clock_gettime(2).
    ClockGettime,
    /// clock_getres(2).
    ClockGetres,
    /// gettimeofday(2).
    Gettimeofday,
    /// time(2).
    Time,
    /// clock_settime(2) and others: refused.
    SetClock,
    /// times(2).
    Times,
    /// getrusage(2).
    Getrusage,
    /// nanosleep(2) and clock_nanosleep(2).
    Sleep,
    /// timerfd_create(2).
    TimerfdCreate,
    /// timerfd_settime(2).
    TimerfdSettime,
    /// timerfd_gettime(2).
    TimerfdGettime,
    /// poll(2) and ppoll(2).
    Poll,
    /// select(2) and pselect6(2).
    Select,
    /// epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2).
    Epoll,
    /// pause(2).
    Pause,
    /// rt_sigsuspend(2).
    Sigsuspend,
    /// sched_yield(2).
    Yield,
    /// kill(2) and others that send a signal.
    SendSignal,
    /// futex(2).
    Futex,
    /// futex_waitv(2) and others, which C libraries do without: refused.
    NewFutex,
    /// wait4(2) and waitid(2).
    WaitChild,
    /// flock(2) and fcntl(2).
    Lock,
    /// rt_sigtimedwait(2).
    AwaitSignal,
    /// alarm(2).
    Alarm,
    /// setitimer(2).
    Setitimer,
    /// getitimer(2).
    Getitimer,
    /// timer_create(2).
    TimerCreate,
    /// timer_settime(2).
    TimerSettime,
    /// timer_gettime(2).
    TimerGettime,
    /// timer_getoverrun(2).
    TimerGetoverrun,
    /// timer_delete(2).
    TimerDelete,
    /// signalfd(2) and signalfd4(2).
    Signalfd,
    /// ptrace(2).
    Ptrace,
    /// May block on the host, where the scheduler does not see what it waits for.
    HostMayBlock,
    /// semtimedop(2).
    Semtimedop,
    /// mq_timedreceive(2).
    MqReceive,
    /// mq_timedsend(2).
    MqSend,
    /// getrandom(2).
    Getrandom,
    /// sched_getaffinity(2).
    Getaffinity,
    /// sched_setaffinity(2).
    Setaffinity,
    /// getcpu(2).
    Getcpu,
    /// sysinfo(2).
    Sysinfo,
    /// mlockall(2) and munlockall(2).
    LockMemory,
    /// rseq(2).
    Rseq,
}

/// With what a call has to do, beside its thread's own process and machine: what other machines'
/// calls at the same time could change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Nothing that others could change now.
    None,
    /// What is behind the descriptor in the first argument, which the call takes data from.
    Reads,
    /// What is behind the descriptor in the first argument, which the call moves data to.
    Writes,
    /// epoll_ctl(2): what is behind a descriptor that is added.
    EpollCtl,
    /// What poll(2) asks of.
    Poll,
    /// What is opened, see [`PathArgs`] and [`OpenFlags`].
    Open,
    /// connect(2): what the address names.
    Connect,
    /// mmap(2): what is mapped.
    Map,
    /// fcntl(2): by its command.
    Fcntl,
    /// clone(2): a new namespace may have to do with anything.
    Clone,
    /// sendfile(2): what is behind both descriptors.
    Sendfile,
    /// Anything, also if the descriptor in the first argument is a Vink file's.
    Splice,
    /// Anything, unless the descriptor in the first argument is a Vink file's.
    Any,
}

/// Whether a machine may come to share memory or descriptors with others by a call, or to have a
/// file that others may execute, or sees what others do. Numbers are the indices of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It may not.
    None,
    /// If it makes a file that can be executed: these arguments have flags and mode.
    Creates(usize, usize),
    /// If this argument, a mode, has a file executable.
    Mode(usize),
    /// mmap(2): if the file can be written to.
    Maps,
    /// If its [`Conflict`] is with a file that is not the machine's own.
    ByConflict,
    /// In any case.
    Always,
    /// inotify_add_watch(2): it may see what others read.
    WatchesPath,
    /// fcntl(2): `F_NOTIFY` and `F_SETLEASE` see what others read.
    WatchesByFcntl,
    /// fanotify_init(2): it sees what others read.
    WatchesAll,
}

/// Where a call has a path. Numbers are the indices of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathArgs {
    /// It has none.
    None,
    /// The path is here.
    At(usize),
    /// The directory's descriptor and the path are here.
    Below(usize, usize),
}

/// Where open(2) and its like have their flags. Numbers are the indices of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFlags {
    /// The call opens nothing.
    None,
    /// They are here.
    Flags(usize),
    /// In the `struct open_how` that this argument points to, of which the next one has the size.
    How(usize),
}

/// Which form of stat(2) a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// None.
    None,
    /// stat(2).
    Stat,
    /// lstat(2).
    Lstat,
    /// fstat(2).
    Fstat,
    /// newfstatat(2), which is fstatat(3).
    Fstatat,
    /// statx(2).
    Statx,
}

/// What a call that looks up a path writes. Numbers are the indices of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    None,
    /// `struct stat`, to here.
    Stat(usize),
    /// `struct statx`, to here.
    Statx(usize),
    /// Bytes to here: as many as the call's result, and at most as the second argument says.
    Bytes(usize, usize),
}

/// Which form of poll(2), select(2) or epoll_wait(2) a call is: they differ in where time-out and
/// signal mask are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// None.
    None,
    /// poll(2).
    Poll,
    /// ppoll(2).
    Ppoll,
    /// select(2).
    Select,
    /// pselect6(2).
    Pselect6,
    /// epoll_wait(2).
    EpollWait,
    /// epoll_pwait(2).
    EpollPwait,
    /// epoll_pwait2(2).
    EpollPwait2,
}

/// Whether a call is made again if a signal came before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// A signal may interrupt it: `EINTR` is right.
    Never,
    /// Neither the host nor the worker ever interrupts it.
    Always,
    /// It is never interrupted if it is about a file that can be sought in.
    OnFiles,
}
