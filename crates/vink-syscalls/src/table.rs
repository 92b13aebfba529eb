//! The table: a row for each system call of x86-64.
//!
//! A row is a number, a name, the parameters if they are known, and what is not as in
//! [`UNKNOWN`](crate::UNKNOWN), a column each. To add a system call is to add a row here.

use crate::Names::{
    CloneFlags, Families, Fcntls, FileFlags, Levels, MessageFlags, ShutdownHow, TypeFlags,
};
use crate::Shape::{
    At, CloneArgs, Commanded, Fd, Flags, Hex, In, InAddress, InMessage, InMessages, InOption,
    InVector, Int, Length, Name, Offset, OptionName, Out, OutAddress, OutMessage, OutMessages,
    OutOption, OutVector, Polled, Protocol, Request, Requested, Set, Size, Text, Texts, Timespec,
    Timeval, Type, Variables,
};
use crate::{
    Blocks, Conflict, FdRole, FileSignals, Kind, OpenFlags, Output, PathArgs, Polling, Restart,
    Sched, Shape, Sharing, Shim, Status, Syscall, NR_END, UNKNOWN,
};

/// Sets one column of a row.
macro_rules! set {
    ($row:ident fd) => { $row.fd = FdRole::File };
    ($row:ident kind $($v:tt)*) => { $row.kind = Kind::$($v)* };
    ($row:ident shim $($v:tt)*) => { $row.shim = Shim::$($v)* };
    ($row:ident blocks $($v:tt)*) => { $row.blocks = Blocks::$($v)* };
    ($row:ident plain_io) => { $row.plain_io = true };
    ($row:ident signals $($v:tt)*) => { $row.signals = FileSignals::$($v)* };
    ($row:ident sched $($v:tt)*) => { $row.sched = Sched::$($v)* };
    ($row:ident untrapped) => { $row.untrapped = true };
    ($row:ident conflict $($v:tt)*) => { $row.conflict = Conflict::$($v)* };
    ($row:ident sharing $($v:tt)*) => { $row.sharing = Sharing::$($v)* };
    ($row:ident path $($v:tt)*) => { $row.path = PathArgs::$($v)* };
    ($row:ident open_flags $($v:tt)*) => { $row.open_flags = OpenFlags::$($v)* };
    ($row:ident status $($v:tt)*) => { $row.status = Status::$($v)* };
    ($row:ident output $($v:tt)*) => { $row.output = Output::$($v)* };
    ($row:ident polling $($v:tt)*) => { $row.polling = Polling::$($v)* };
    ($row:ident marked $v:literal) => { $row.marked = Some($v) };
    ($row:ident marked_in_time $v:literal) => { $row.marked_in_time = Some($v) };
    ($row:ident linker) => { $row.linker = true };
    ($row:ident restart $($v:tt)*) => { $row.restart = Restart::$($v)* };
}

macro_rules! rows {
    ($($nr:literal $name:ident $(($($shape:expr),*))? $(:
        $($column:ident $(= $value:tt $(($($arg:tt)*))?)?),*)?;)*) => {{
        let mut table = [UNKNOWN; NR_END];
        $({
            #[allow(unused_mut)] // of a row that is its name alone
            let mut row = UNKNOWN;
            $(row.shapes = Some(&[$($shape),*]);)?
            $($(set!(row $column $($value $(($($arg)*))?)?);)*)?
            add(&mut table, $nr, stringify!($name), row);
        })*
        table
    }};
}

/// Enters a row, with what follows from its other columns.
const fn add(table: &mut [Syscall; NR_END], nr: usize, name: &'static str, mut row: Syscall) {
    assert!(table[nr].name.is_none(), "two rows of one number");
    row.name = Some(name);
    if let Some([Shape::Fd, ..]) = row.shapes {
        row.fd = match row.path {
            PathArgs::Below(..) => FdRole::Directory,
            _ => FdRole::File,
        };
    }
    table[nr] = row;
}

pub(crate) const TABLE: &[Syscall; NR_END] = &rows! {
    0 read (Fd, Out(2), Size):
        kind=Io, shim=Io, blocks=Reads, plain_io, conflict=Reads, marked=5, marked_in_time=4, linker,
        restart=OnFiles;
    1 write (Fd, In(2), Size):
        kind=Io, shim=Io, blocks=Writes(Some(2)), plain_io, conflict=Writes, marked=5,
        restart=OnFiles;
    2 open (Text, Flags(FileFlags)):
        kind=Open, shim=LookUp, conflict=Open, sharing=Creates(1, 2), path=At(0),
        open_flags=Flags(1);
    3 close (Fd):
        kind=Close, shim=Close, conflict=None, marked=5, marked_in_time=4, linker, restart=Always;
    4 stat (Text, At):
        kind=LookUp, shim=LookUp, conflict=None, path=At(0), status=Stat, output=Stat(1),
        restart=Always;
    5 fstat (Fd, At): kind=Fstat, shim=Fstat, conflict=None, status=Fstat, restart=Always;
    6 lstat (Text, At):
        kind=LookUp, shim=LookUp, conflict=None, path=At(0), status=Lstat, output=Stat(1),
        restart=Always;
    7 poll (Polled(1), Size, Int):
        kind=Poll, shim=Poll, sched=Poll, conflict=Poll, polling=Poll, marked_in_time=5;
    8 lseek: fd, shim=Io, untrapped;
    9 mmap (At, Size, Hex, Hex, Fd, Hex):
        kind=Mmap, untrapped, conflict=Map, sharing=Maps, restart=Always;
    10 mprotect: untrapped;
    11 munmap: untrapped;
    12 brk: untrapped;
    13 rt_sigaction (Int, At, At, Size): kind=Sigaction, shim=Sigaction, untrapped, restart=Always;
    14 rt_sigprocmask: shim=Sigprocmask, untrapped;
    15 rt_sigreturn: shim=Sigreturn, untrapped;
    16 ioctl (Fd, Request, Requested): kind=Io, shim=Ioctl, signals=Ioctl;
    17 pread64 (Fd, Out(2), Size, Int): shim=Io, untrapped;
    18 pwrite64 (Fd, In(2), Size, Int): shim=Io;
    19 readv (Fd, OutVector(2), Size):
        kind=Io, shim=Io, blocks=Reads, plain_io, conflict=Reads, marked=5, restart=OnFiles;
    20 writev (Fd, InVector(2), Size):
        kind=Io, shim=Io, blocks=Writes(None), plain_io, conflict=Writes, marked=5, restart=OnFiles;
    21 access (Text, Hex): kind=LookUp, shim=LookUp, conflict=None, path=At(0), restart=Always;
    22 pipe: conflict=None;
    23 select (Int, Set, Set, Set, Timeval): kind=Select, shim=Select, sched=Select, polling=Select;
    24 sched_yield (): sched=Yield, conflict=None;
    25 mremap: untrapped;
    26 msync;
    27 mincore: untrapped;
    28 madvise: untrapped;
    29 shmget;
    30 shmat: sharing=Always;
    31 shmctl;
    32 dup (Fd): kind=Dup, shim=Dup, conflict=None, restart=Always;
    33 dup2 (Fd, Fd): kind=Dup2, shim=Dup2, conflict=None, restart=Always;
    34 pause (): sched=Pause, conflict=None;
    35 nanosleep (Timespec, At): sched=Sleep, conflict=None;
    36 getitimer (Int): sched=Getitimer, conflict=None;
    37 alarm (Int): sched=Alarm, conflict=None;
    38 setitimer (Int, At, At): sched=Setitimer, conflict=None;
    39 getpid: untrapped;
    40 sendfile (Fd, Fd, Offset, Size):
        kind=Sendfile, shim=Sendfile, blocks=OnHost, conflict=Sendfile;
    41 socket (Name(Families), Type, Protocol):
        kind=Socket, shim=Socket, conflict=None, restart=Always;
    42 connect (Fd, InAddress(2), Int): kind=Io, shim=Io, blocks=OnHost, conflict=Connect;
    43 accept (Fd, OutAddress(2), Length): kind=Accept, shim=Accept, blocks=Receives(None);
    44 sendto (Fd, In(2), Size, Flags(MessageFlags), InAddress(5), Int):
        kind=Io, shim=Io, blocks=Sends(Some(3)), conflict=Writes;
    45 recvfrom (Fd, Out(2), Size, Flags(MessageFlags), OutAddress(5), Length):
        kind=Io, shim=Io, blocks=Receives(Some(3)), conflict=Reads;
    46 sendmsg (Fd, InMessage, Flags(MessageFlags)):
        kind=Io, shim=Io, blocks=Sends(Some(2)), conflict=Writes;
    47 recvmsg (Fd, OutMessage, Flags(MessageFlags)):
        kind=Io, shim=Io, blocks=Receives(Some(2)), conflict=Reads, sharing=ByConflict;
    48 shutdown (Fd, Name(ShutdownHow)): kind=Io, shim=Io, restart=Always;
    49 bind (Fd, InAddress(2), Int): kind=Bind, shim=Io, restart=Always;
    50 listen (Fd, Int): kind=Io, shim=Io, restart=Always;
    51 getsockname (Fd, OutAddress(2), Length): kind=Io, shim=Io, restart=Always;
    52 getpeername (Fd, OutAddress(2), Length): kind=Io, shim=Io, restart=Always;
    53 socketpair (Name(Families), Type, Protocol, At): conflict=None;
    54 setsockopt (Fd, Name(Levels), OptionName, InOption(4), Int):
        kind=Io, shim=Io, restart=Always;
    55 getsockopt (Fd, Name(Levels), OptionName, OutOption(4), Length):
        kind=Io, shim=Io, restart=Always;
    56 clone (Flags(CloneFlags), At, At, At, At):
        kind=Clone, shim=Clone, blocks=Clone, conflict=Clone, restart=Always;
    57 fork (): kind=Fork, shim=Clone, conflict=None, restart=Always;
    58 vfork (): kind=Fork, shim=Clone, blocks=Vfork, conflict=None, restart=Always;
    59 execve (Text, Texts, Variables):
        kind=Exec, shim=Exec, blocks=Exec, conflict=None, path=At(0), restart=Always;
    60 exit (Int): kind=Exit, shim=Exit;
    61 wait4 (Int, At, Hex, At): sched=WaitChild, conflict=None;
    62 kill (Int, Int): kind=Kill, sched=SendSignal;
    63 uname (At): untrapped;
    64 semget;
    65 semop: sched=HostMayBlock;
    66 semctl;
    67 shmdt;
    68 msgget;
    69 msgsnd: sched=HostMayBlock;
    70 msgrcv: sched=HostMayBlock;
    71 msgctl;
    72 fcntl (Fd, Name(Fcntls), Commanded):
        kind=Fcntl, shim=Fcntl, blocks=ForLock, signals=Fcntl, sched=Lock, conflict=Fcntl,
        sharing=WatchesByFcntl, marked_in_time=5;
    73 flock (Fd, Int): sched=Lock;
    74 fsync: fd, shim=Io;
    75 fdatasync: fd, shim=Io;
    76 truncate;
    77 ftruncate: fd, shim=Io;
    78 getdents: fd, conflict=Reads;
    79 getcwd: untrapped;
    80 chdir (Text): kind=Chdir, conflict=None, restart=Always;
    81 fchdir (Fd): kind=Fchdir, conflict=None, restart=Always;
    82 rename;
    83 mkdir;
    84 rmdir;
    85 creat: sharing=Mode(1);
    86 link;
    87 unlink;
    88 symlink;
    89 readlink (Text, Out(2), Size):
        kind=LookUp, shim=LookUp, conflict=None, path=At(0), output=Bytes(1, 2), restart=Always;
    90 chmod: sharing=Mode(1);
    91 fchmod: fd, sharing=Mode(1);
    92 chown;
    93 fchown: fd;
    94 lchown;
    95 umask: untrapped;
    96 gettimeofday (At, At): sched=Gettimeofday, conflict=None;
    97 getrlimit: untrapped;
    98 getrusage (Int, At): sched=Getrusage, conflict=None;
    99 sysinfo: sched=Sysinfo, conflict=None;
    100 times (At): sched=Times, conflict=None;
    101 ptrace: sched=Ptrace;
    102 getuid: untrapped;
    103 syslog;
    104 getgid: untrapped;
    105 setuid: conflict=None;
    106 setgid: conflict=None;
    107 geteuid: untrapped;
    108 getegid: untrapped;
    109 setpgid: conflict=None;
    110 getppid: untrapped;
    111 getpgrp: untrapped;
    112 setsid: conflict=None;
    113 setreuid;
    114 setregid;
    115 getgroups: untrapped;
    116 setgroups: conflict=None;
    117 setresuid: conflict=None;
    118 getresuid: untrapped;
    119 setresgid: conflict=None;
    120 getresgid: untrapped;
    121 getpgid: untrapped;
    122 setfsuid;
    123 setfsgid;
    124 getsid: untrapped;
    125 capget: untrapped;
    126 capset;
    127 rt_sigpending: untrapped;
    128 rt_sigtimedwait (At, At, Timespec, Size): sched=AwaitSignal;
    129 rt_sigqueueinfo: sched=SendSignal;
    130 rt_sigsuspend (At, Size): shim=Sigsuspend, sched=Sigsuspend, conflict=None;
    131 sigaltstack: shim=Sigaltstack, conflict=None;
    132 utime;
    133 mknod;
    134 uselib;
    135 personality;
    136 ustat;
    137 statfs: conflict=None;
    138 fstatfs: fd, conflict=None;
    139 sysfs;
    140 getpriority;
    141 setpriority;
    142 sched_setparam;
    143 sched_getparam;
    144 sched_setscheduler;
    145 sched_getscheduler;
    146 sched_get_priority_max;
    147 sched_get_priority_min;
    148 sched_rr_get_interval;
    149 mlock: untrapped;
    150 munlock: untrapped;
    151 mlockall: sched=LockMemory;
    152 munlockall: sched=LockMemory;
    153 vhangup;
    154 modify_ldt;
    155 pivot_root;
    156 _sysctl;
    157 prctl: conflict=None;
    158 arch_prctl: untrapped;
    159 adjtimex: sched=SetClock;
    160 setrlimit: untrapped;
    161 chroot;
    162 sync;
    163 acct;
    164 settimeofday: sched=SetClock;
    165 mount;
    166 umount2;
    167 swapon;
    168 swapoff;
    169 reboot;
    170 sethostname;
    171 setdomainname;
    172 iopl;
    173 ioperm;
    174 create_module;
    175 init_module;
    176 delete_module;
    177 get_kernel_syms;
    178 query_module;
    179 quotactl;
    180 nfsservctl;
    181 getpmsg;
    182 putpmsg;
    183 afs_syscall;
    184 tuxcall;
    185 security;
    186 gettid: conflict=None;
    187 readahead: fd, untrapped;
    188 setxattr;
    189 lsetxattr;
    190 fsetxattr: fd;
    191 getxattr (Text, Text, At, Size):
        kind=LookUp, shim=LookUp, path=At(0), output=Bytes(2, 3), restart=Always;
    192 lgetxattr (Text, Text, At, Size):
        kind=LookUp, shim=LookUp, path=At(0), output=Bytes(2, 3), restart=Always;
    193 fgetxattr: fd;
    194 listxattr (Text, At, Size):
        kind=LookUp, shim=LookUp, path=At(0), output=Bytes(1, 2), restart=Always;
    195 llistxattr (Text, At, Size):
        kind=LookUp, shim=LookUp, path=At(0), output=Bytes(1, 2), restart=Always;
    196 flistxattr: fd;
    197 removexattr;
    198 lremovexattr;
    199 fremovexattr: fd;
    200 tkill (Int, Int): sched=SendSignal;
    201 time (At): sched=Time, conflict=None;
    202 futex (At, Int, Int): sched=Futex, conflict=None;
    203 sched_setaffinity (Int, Size, At): kind=Affinity, sched=Setaffinity;
    204 sched_getaffinity (Int, Size, At):
        kind=Affinity, sched=Getaffinity, conflict=None, restart=Always;
    205 set_thread_area;
    206 io_setup;
    207 io_destroy;
    208 io_getevents;
    209 io_submit (At, Int, At): kind=Submit, shim=Submit;
    210 io_cancel;
    211 get_thread_area;
    212 lookup_dcookie;
    213 epoll_create (Int): kind=EpollCreate, shim=EpollCreate, conflict=None, restart=Always;
    214 epoll_ctl_old;
    215 epoll_wait_old;
    216 remap_file_pages;
    217 getdents64 (Fd, At, Size): kind=Io, shim=Io, conflict=Reads, restart=Always;
    218 set_tid_address (At): conflict=None;
    219 restart_syscall;
    220 semtimedop: sched=Semtimedop;
    221 fadvise64: fd, untrapped;
    222 timer_create (Int, At, At): sched=TimerCreate;
    223 timer_settime (Int, Hex, At, At): sched=TimerSettime;
    224 timer_gettime (Int, At): sched=TimerGettime;
    225 timer_getoverrun (Int): sched=TimerGetoverrun;
    226 timer_delete (Int): sched=TimerDelete;
    227 clock_settime: sched=SetClock;
    228 clock_gettime (Int, At): sched=ClockGettime, conflict=None;
    229 clock_getres (Int, At): sched=ClockGetres, conflict=None;
    230 clock_nanosleep (Int, Hex, Timespec, At): sched=Sleep, conflict=None;
    231 exit_group (Int): shim=ExitGroup, untrapped;
    232 epoll_wait: fd, shim=EpollWait, sched=Epoll, conflict=None, polling=EpollWait;
    233 epoll_ctl: fd, shim=EpollCtl, conflict=EpollCtl, sharing=ByConflict;
    234 tgkill (Int, Int, Int): sched=SendSignal;
    235 utimes;
    236 vserver;
    237 mbind;
    238 set_mempolicy;
    239 get_mempolicy;
    240 mq_open;
    241 mq_unlink;
    242 mq_timedsend: fd, sched=MqSend;
    243 mq_timedreceive: fd, sched=MqReceive;
    244 mq_notify: fd, signals=Always;
    245 mq_getsetattr: fd;
    246 kexec_load;
    247 waitid (Int, Int, At, Hex, At): sched=WaitChild, conflict=None;
    248 add_key;
    249 request_key;
    250 keyctl;
    251 ioprio_set;
    252 ioprio_get;
    253 inotify_init;
    254 inotify_add_watch: fd, sharing=WatchesPath;
    255 inotify_rm_watch: fd;
    256 migrate_pages;
    257 openat (Fd, Text, Flags(FileFlags)):
        kind=Open, shim=LookUp, conflict=Open, sharing=Creates(2, 3), path=Below(0, 1),
        open_flags=Flags(2), marked=5, marked_in_time=4, linker;
    258 mkdirat;
    259 mknodat;
    260 fchownat;
    261 futimesat;
    262 newfstatat (Fd, Text, At, Hex):
        kind=LookUp, shim=LookUp, conflict=None, path=Below(0, 1), status=Fstatat, output=Stat(2),
        marked=5, linker, restart=Always;
    263 unlinkat;
    264 renameat;
    265 linkat;
    266 symlinkat;
    267 readlinkat (Fd, Text, Out(3), Size):
        kind=LookUp, shim=LookUp, conflict=None, path=Below(0, 1), output=Bytes(2, 3),
        restart=Always;
    268 fchmodat: sharing=Mode(2);
    269 faccessat (Fd, Text, Hex):
        kind=LookUp, shim=LookUp, conflict=None, path=Below(0, 1), restart=Always;
    270 pselect6 (Int, Set, Set, Set, Timespec, At):
        kind=Select, shim=Pselect, sched=Select, polling=Pselect6;
    271 ppoll (Polled(1), Size, Timespec, At):
        kind=Poll, shim=Ppoll, sched=Poll, conflict=Poll, polling=Ppoll;
    272 unshare (Flags(CloneFlags)): kind=Unshare, restart=Always;
    273 set_robust_list (At, Size): conflict=None;
    274 get_robust_list;
    275 splice (Fd, Offset, Fd, Offset, Size, Hex):
        kind=Splice, shim=Splice, blocks=OnHost, conflict=Splice;
    276 tee (Fd, Fd, Size, Hex): sched=HostMayBlock;
    277 sync_file_range: fd;
    278 vmsplice (Fd, InVector(2), Size, Hex): sched=HostMayBlock;
    279 move_pages;
    280 utimensat;
    281 epoll_pwait: fd, shim=EpollWait, sched=Epoll, conflict=None, polling=EpollPwait;
    282 signalfd: fd, sched=Signalfd;
    283 timerfd_create (Int, Hex): sched=TimerfdCreate, conflict=None;
    284 eventfd: conflict=None;
    285 fallocate: fd;
    286 timerfd_settime (Fd, Hex, At, At): sched=TimerfdSettime, conflict=None;
    287 timerfd_gettime (Fd, At): sched=TimerfdGettime, conflict=None;
    288 accept4 (Fd, OutAddress(2), Length, Flags(TypeFlags)):
        kind=Accept, shim=Accept, blocks=Receives(None);
    289 signalfd4: fd, sched=Signalfd;
    290 eventfd2: conflict=None;
    291 epoll_create1 (Flags(FileFlags)):
        kind=EpollCreate, shim=EpollCreate, conflict=None, restart=Always;
    292 dup3 (Fd, Fd, Flags(FileFlags)): kind=Dup3, shim=Dup3, conflict=None, restart=Always;
    293 pipe2: conflict=None;
    294 inotify_init1;
    295 preadv (Fd, OutVector(2), Size, Int): shim=Io, conflict=Reads;
    296 pwritev (Fd, InVector(2), Size, Int): shim=Io;
    297 rt_tgsigqueueinfo: sched=SendSignal;
    298 perf_event_open;
    299 recvmmsg (Fd, OutMessages, Size, Flags(MessageFlags), Timespec):
        kind=Io, shim=Io, blocks=Receives(Some(3)), conflict=Reads, sharing=ByConflict;
    300 fanotify_init: sharing=WatchesAll;
    301 fanotify_mark;
    302 prlimit64: untrapped;
    303 name_to_handle_at;
    304 open_by_handle_at;
    305 clock_adjtime: sched=SetClock;
    306 syncfs: fd;
    307 sendmmsg (Fd, InMessages(2), Size, Flags(MessageFlags)):
        kind=Io, shim=Io, blocks=Sends(Some(3)), conflict=Writes;
    308 setns (Fd, Flags(CloneFlags)): kind=Setns;
    309 getcpu: sched=Getcpu;
    310 process_vm_readv;
    311 process_vm_writev;
    312 kcmp;
    313 finit_module: fd;
    314 sched_setattr;
    315 sched_getattr;
    316 renameat2;
    317 seccomp;
    318 getrandom (Out(1), Size, Hex): sched=Getrandom, conflict=None;
    319 memfd_create;
    320 kexec_file_load;
    321 bpf;
    322 execveat (Fd, Text, Texts, Variables, Hex):
        kind=Exec, shim=Exec, blocks=Exec, path=Below(0, 1);
    323 userfaultfd;
    324 membarrier: untrapped;
    325 mlock2;
    326 copy_file_range (Fd, Offset, Fd, Offset, Size, Hex): sched=HostMayBlock, sharing=Always;
    327 preadv2 (Fd, OutVector(2), Size, Int, Int, Hex):
        kind=Io, shim=Io, blocks=Reads, conflict=Reads, marked_in_time=4, restart=OnFiles;
    328 pwritev2 (Fd, InVector(2), Size, Int, Int, Hex):
        kind=Io, shim=Io, blocks=Writes(None), marked_in_time=4, restart=OnFiles;
    329 pkey_mprotect;
    330 pkey_alloc;
    331 pkey_free;
    332 statx (Fd, Text, Hex, Hex, At):
        kind=LookUp, shim=LookUp, conflict=None, path=Below(0, 1), status=Statx, output=Statx(4),
        restart=Always;
    333 io_pgetevents;
    334 rseq (At, Size, Hex, Hex): sched=Rseq, conflict=None;
    335 uretprobe;
    336 uprobe;
    424 pidfd_send_signal: fd, sched=SendSignal;
    425 io_uring_setup: kind=Uring, shim=Uring;
    426 io_uring_enter: fd;
    427 io_uring_register: fd;
    428 open_tree;
    429 move_mount;
    430 fsopen;
    431 fsconfig;
    432 fsmount;
    433 fspick;
    434 pidfd_open;
    435 clone3 (CloneArgs, Size):
        kind=Clone3, shim=Clone, blocks=Clone3, conflict=None, restart=Always;
    436 close_range (Int, Int, Hex): kind=CloseRange, shim=CloseRange, restart=Always;
    437 openat2 (Fd, Text, At, Size):
        kind=Open, shim=LookUp, sharing=Always, path=Below(0, 1), open_flags=How(2);
    438 pidfd_getfd (Fd, Int, Hex);
    439 faccessat2 (Fd, Text, Hex, Hex):
        kind=LookUp, shim=LookUp, conflict=None, path=Below(0, 1), restart=Always;
    440 process_madvise: fd;
    441 epoll_pwait2: fd, shim=EpollWait, sched=Epoll, conflict=None, polling=EpollPwait2;
    442 mount_setattr;
    443 quotactl_fd;
    444 landlock_create_ruleset;
    445 landlock_add_rule;
    446 landlock_restrict_self;
    447 memfd_secret;
    448 process_mrelease: fd;
    449 futex_waitv: sched=NewFutex;
    450 set_mempolicy_home_node;
    451 cachestat: fd;
    452 fchmodat2: sharing=Mode(2);
    453 map_shadow_stack;
    454 futex_wake: sched=NewFutex;
    455 futex_wait: sched=NewFutex;
    456 futex_requeue: sched=NewFutex;
    457 statmount;
    458 listmount;
    459 lsm_get_self_attr;
    460 lsm_set_self_attr;
    461 lsm_list_modules;
    462 mseal;
    463 setxattrat;
    464 getxattrat;
    465 listxattrat;
    466 removexattrat;
    467 open_tree_attr;
    468 file_getattr;
    469 file_setattr;
};
