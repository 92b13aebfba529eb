//! Who may have the turn beside threads of other machines: whose call neither changes nor looks at what these could.
//!
//! Machines share the host's files. A call that only looks at these goes along with others that do; one that may change a
//! file is made alone, and so is all that is not known to be harmless. Pipes and unix sockets are a machine's own unless
//! something says that another one may have the other end. What a thread does between two calls can only be seen through memory
//! or descriptors that machines share, or by an exec of a file that is open for writing: a machine that may have part in such a thing is
//! *mingled*, and never beside others again.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use vink_kernel::MachineId;

use super::host::kind_of;
use super::Ready;
use crate::notify::Notification;
use crate::process::Stage;
use crate::ready::{MOST, POLLFD};
use crate::target;
use crate::worker::Worker;

/// Of the host's devices that keep nothing, such as /dev/null: memory (3).
const MEMORY: u32 = 1;
/// Bits of a mode that let somebody execute the file.
const EXECUTABLE: u64 = 0o111;
/// fchmodat2(2), since Linux 6.6.
const FCHMODAT2: i64 = 452;
/// Kinds of namespaces.
const SPACES: u64 = 0x7e02_0080;

/// What inotify(7) tells of what is done to files beside others, too: that they are opened, read and closed.
const TELLS_OF_LOOKS: u32 =
    !(libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVE | libc::IN_MODIFY | libc::IN_ONLYDIR);

/// Machines that may share memory or descriptors with others.
#[derive(Default)]
pub(super) struct Mingled {
    machines: HashSet<MachineId>,
    /// Files that programs were started with, which have a position, and on which machine that was first.
    files: HashMap<(u64, u64), MachineId>,
    /// Somebody is told what others do with files.
    told: bool,
}

impl Mingled {
    /// A program of this machine is started with this file.
    pub(super) fn note_file(&mut self, machine: MachineId, identity: (u64, u64)) {
        let first = *self.files.entry(identity).or_insert(machine);
        if first != machine {
            self.machines.extend([first, machine]);
        }
    }

    /// Whether nobody may have the turn beside others.
    pub(super) fn all(&self) -> bool {
        self.told
    }
}

/// With what a call has to do, beside its thread's own process and machine.
#[derive(Debug, PartialEq, Eq)]
enum Concern {
    /// Nothing that others could change now.
    None,
    /// With what is behind a descriptor; it moves data there (`POLLIN`, `POLLOUT`).
    Descriptor(u64, i16),
    /// With what poll(2) asks of.
    Polled,
    /// It opens a path that is at this address, with these flags.
    Opening(u64, u64),
    /// It connects to what is named at this address.
    Connecting(u64),
    /// It maps what is behind a descriptor.
    Mapping(u64),
    /// Anything.
    All,
}

/// What a call that the host may do is about.
fn concern(nr: i64, args: [u64; 6]) -> Concern {
    use Concern::{All, Connecting, Descriptor, Mapping, None, Opening, Polled};
    match nr {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_getdents
        | libc::SYS_getdents64 => Descriptor(args[0], libc::POLLIN),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg => Descriptor(args[0], libc::POLLOUT),
        libc::SYS_epoll_ctl if args[1] as i32 == libc::EPOLL_CTL_ADD => {
            Descriptor(args[2], libc::POLLIN)
        }
        libc::SYS_epoll_ctl => None,
        libc::SYS_poll | libc::SYS_ppoll => Polled,
        libc::SYS_open => Opening(args[0], args[1]),
        libc::SYS_openat => Opening(args[1], args[2]),
        libc::SYS_connect => Connecting(args[1]),
        libc::SYS_mmap => Mapping(args[4]),
        libc::SYS_fcntl => match args[1] as i32 {
            libc::F_GETFL | libc::F_SETFL => Descriptor(args[0], 0),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => None,
            _ => All,
        },
        libc::SYS_clone if args[0] & SPACES != 0 => All,
        libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_execve
        | libc::SYS_wait4
        | libc::SYS_waitid
        // Descriptors.
        | libc::SYS_close
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_pipe
        | libc::SYS_pipe2
        | libc::SYS_socket
        | libc::SYS_socketpair
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        // Looks at files.
        | libc::SYS_access
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_fstat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_statfs
        | libc::SYS_fstatfs
        | libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_chdir
        | libc::SYS_fchdir
        // Time.
        | libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_gettimeofday
        | libc::SYS_time
        | libc::SYS_times
        | libc::SYS_getrusage
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_timerfd_create
        | libc::SYS_timerfd_settime
        | libc::SYS_timerfd_gettime
        | libc::SYS_alarm
        | libc::SYS_setitimer
        | libc::SYS_getitimer
        // The thread itself.
        | libc::SYS_gettid
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list
        | libc::SYS_rseq
        | libc::SYS_sigaltstack
        | libc::SYS_rt_sigsuspend
        | libc::SYS_pause
        | libc::SYS_futex
        | libc::SYS_getrandom
        | libc::SYS_sched_yield
        | libc::SYS_sched_getaffinity
        | libc::SYS_prctl
        | libc::SYS_sysinfo
        | libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setgroups
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setsid
        | libc::SYS_setpgid => None,
        _ => All,
    }
}

impl Worker {
    /// Whether this may be done while threads of other machines run.
    pub(super) fn goes_along(&mut self, ready: &Ready) -> bool {
        let machine = self.machine_of(ready);
        let turn = self.turn.as_ref().expect("virtual time");
        if turn.mingled.machines.contains(&machine) {
            return false;
        }
        match ready {
            Ready::Parked(_, Some(_)) => true,
            Ready::Done(done) => !matches!(done.0.busy.stage, Stage::Splice(_)),
            Ready::Heard(_, call) | Ready::Parked(call, None) => self.keeps_to_itself(*call),
            Ready::Pass(_) => false,
        }
    }

    /// Before a call by which its machine may come to share memory or descriptors with others, or has a file that others may
    /// execute: from now on it is mingled.
    pub(super) fn note_mingling(&mut self, call: Notification) {
        let [_, second, third, fourth, fifth, _] = call.args;
        let Some(pid) = self.threads.get(&call.tid).map(|thread| thread.pid) else {
            return;
        };
        let mode = match call.nr {
            libc::SYS_open if second as i32 & libc::O_CREAT != 0 => third,
            libc::SYS_openat if third as i32 & libc::O_CREAT != 0 => fourth,
            libc::SYS_creat | libc::SYS_chmod | libc::SYS_fchmod => second,
            libc::SYS_fchmodat | FCHMODAT2 => third,
            _ => 0,
        };
        let shares = match call.nr {
            libc::SYS_mmap => !self.is_read_only(call.tid, fifth),
            libc::SYS_shmat | libc::SYS_openat2 | libc::SYS_copy_file_range => true,
            libc::SYS_epoll_ctl | libc::SYS_recvmsg | libc::SYS_recvmmsg => {
                matches!(concern(call.nr, call.args), Concern::Descriptor(fd, events)
                    if self.table_of(call.tid).get(fd).is_none()
                        && !self.is_private(call.tid, fd, events))
            }
            _ => mode & EXECUTABLE != 0,
        };
        if shares {
            let machine = self.machine_of_process(pid);
            let turn = self.turn.as_mut().expect("virtual time");
            turn.mingled.machines.insert(machine);
        }
        let is_told = match call.nr {
            libc::SYS_inotify_add_watch => third as u32 & TELLS_OF_LOOKS != 0,
            libc::SYS_fcntl => matches!(second as i32, libc::F_NOTIFY | libc::F_SETLEASE),
            libc::SYS_fanotify_init => true,
            _ => false,
        };
        if is_told {
            self.turn.as_mut().expect("virtual time").mingled.told = true;
        }
    }

    /// Whether a descriptor is a file of the host's, and for reading only.
    fn is_read_only(&self, tid: i32, number: u64) -> bool {
        let Some(copy) = self.copy_of(tid, number) else {
            return true; // to be refused
        };
        // SAFETY: takes numbers.
        let flags = unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETFL) };
        self.table_of(tid).get(number).is_none() && flags & libc::O_ACCMODE == libc::O_RDONLY
    }

    /// Whether nothing says that a call has to do with what other machines have.
    fn keeps_to_itself(&mut self, call: Notification) -> bool {
        if !self.threads.contains_key(&call.tid) {
            // A new one, which has nothing that the worker knows.
            return concern(call.nr, call.args) == Concern::None;
        }
        let is_own = |fd: u64| self.table_of(call.tid).get(fd).is_some();
        if call.nr == libc::SYS_sendfile {
            return is_own(call.args[0]) && self.is_private(call.tid, call.args[1], libc::POLLIN);
        }
        match concern(call.nr, call.args) {
            Concern::None => true,
            Concern::Descriptor(fd, events) => is_own(fd) || self.is_private(call.tid, fd, events),
            Concern::Polled => self.polled(call).is_some_and(|all| {
                all.into_iter().all(|fd| {
                    self.table_of(call.tid).get(fd).is_some() || self.is_private(call.tid, fd, 0)
                })
            }),
            Concern::Opening(path, flags) => {
                let flags = flags as i32;
                let makes = libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE;
                let looks = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & makes == 0;
                let mut text = [0; 16];
                looks
                    || target::read_string(call.tid, path, &mut text)
                        .is_some_and(|len| &text[..len] == b"/dev/null")
            }
            Concern::Connecting(address) => is_own(call.args[0]) || names_nobody(call.tid, address),
            Concern::Mapping(fd) => self.is_read_only(call.tid, fd),
            Concern::All => call.nr != libc::SYS_splice && is_own(call.args[0]),
        }
    }

    /// The descriptors that a poll(2) asks of.
    fn polled(&self, call: Notification) -> Option<Vec<u64>> {
        let count = call.args[1] & 0xffff_ffff;
        if count > MOST {
            return None;
        }
        let mut fds = vec![0; count as usize * POLLFD];
        if count != 0 && !target::read(call.tid, call.args[0], &mut fds) {
            return None;
        }
        let numbers = fds
            .chunks_exact(POLLFD)
            .map(|fd| i32::from_ne_bytes(fd[..4].try_into().expect("four bytes")));
        Some(numbers.filter_map(|fd| u64::try_from(fd).ok()).collect())
    }

    /// Whether what the host has behind a descriptor concerns nobody on another machine.
    fn is_private(&mut self, tid: i32, number: u64, events: i16) -> bool {
        let Some(copy) = self.copy_of(tid, number) else {
            return true; // to be refused
        };
        let machine = self.machine_of_process(self.threads[&tid].pid);
        let turn = self.turn.as_ref().expect("virtual time");
        let (kind, identity, device) = kind_of(copy.as_raw_fd());
        match kind {
            libc::S_IFREG => events != libc::POLLOUT,
            libc::S_IFDIR | 0 => true,
            libc::S_IFCHR => libc::major(device) == MEMORY,
            _ if turn.outside.contains(&identity) => false,
            libc::S_IFIFO => is_nameless(identity.0),
            libc::S_IFSOCK => {
                let peer = peer_of(copy.as_raw_fd());
                let peer = peer.filter(|pid| self.processes.contains_key(pid));
                peer.is_some_and(|peer| self.machine_of_process(peer) == machine)
            }
            _ => false,
        }
    }
}

/// Whether this device is that of pipes without a name.
fn is_nameless(device: u64) -> bool {
    static PIPES: OnceLock<Option<u64>> = OnceLock::new();
    let find = || {
        let (end, _) = std::io::pipe().ok()?;
        Some(target::identity(end.as_raw_fd()).0)
    };
    *PIPES.get_or_init(find) == Some(device)
}

/// Whether an address of a unix socket is a path that does not exist, for the thread.
fn names_nobody(tid: i32, address: u64) -> bool {
    // A family of two bytes, and a path.
    let mut path = [0; 110];
    let mut family = [0; 2];
    let absolute = target::read(tid, address, &mut family)
        && family == (libc::AF_UNIX as u16).to_ne_bytes()
        && target::read_string(tid, address + 2, &mut path).is_some_and(|_| path[0] == b'/');
    let (Ok(root), Ok(path)) = (
        File::open(format!("/proc/{tid}/root")),
        CStr::from_bytes_until_nul(&path),
    ) else {
        return false;
    };
    // SAFETY: all zero is a valid value of this plain structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT;
    // SAFETY: a path that ends, and a structure of the size given.
    let found = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    if found >= 0 {
        // SAFETY: new, and nobody else's.
        drop(unsafe { OwnedFd::from_raw_fd(found as RawFd) });
        return false;
    }
    absolute && io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT)
}

/// The process at the other end of a unix socket, or that made both ends.
fn peer_of(fd: RawFd) -> Option<i32> {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut peer: libc::ucred = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is of the size given.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut len,
        )
    };
    (done == 0 && peer.pid > 0).then_some(peer.pid)
}
