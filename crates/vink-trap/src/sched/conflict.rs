//! Which calls may run in one batch: those that neither read nor change what threads of other
//! machines could change.
//!
//! Machines share the host's files. Calls that only read these are independent of each other. A
//! call that may change a file runs alone, and so does any that is not known to be harmless. Pipes
//! and unix sockets are a machine's own unless another machine may have the other end. What a
//! thread does between two calls can only be seen through memory or descriptors that machines
//! share, or by an exec of a file that is open for writing: a machine that may share such a thing
//! is *tainted*, and never in a batch again.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use vink_kernel::MachineId;
use vink_sys::{fd, socket};

use vink_syscalls::{
    conflict, open_flags, path_args, sharing, Conflict, OpenFlags, PathArgs, Sharing,
};

use super::host_fds::file_type_of;
use super::{Runnable, VirtualWorker};
use crate::notify::Notification;
use crate::process::Continuation;
use crate::ready::{MAX_FDS, POLLFD};
use crate::tracee;

/// Of the host's devices that keep nothing, such as /dev/null: memory (3).
const MEMORY_MAJOR: u32 = 1;
/// The mode bits of an executable file.
const EXECUTABLE: u64 = 0o111;
/// Kinds of namespaces.
const NAMESPACE_FLAGS: u64 = 0x7e02_0080;

/// What inotify(7) reports of reads as well: that files are opened, read and closed.
const REPORTS_READS: u32 =
    !(libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVE | libc::IN_MODIFY | libc::IN_ONLYDIR);

/// Machines that may share memory or descriptors with others.
#[derive(Default)]
pub(super) struct SharedState {
    tainted: HashSet<MachineId>,
    /// Files that programs were started with, which have a position, and on which machine that was
    /// first.
    files: HashMap<(u64, u64), MachineId>,
    /// A program watches what others do with files.
    files_are_watched: bool,
}

impl SharedState {
    /// A program of this machine is started with this file.
    pub(super) fn note_file(&mut self, machine: MachineId, identity: (u64, u64)) {
        let first = *self.files.entry(identity).or_insert(machine);
        if first != machine {
            self.tainted.extend([first, machine]);
        }
    }

    /// Whether batches are off for good.
    pub(super) fn forbids_batches(&self) -> bool {
        self.files_are_watched
    }
}

/// With what a call has to do, beside its thread's own process and machine.
#[derive(Debug, PartialEq, Eq)]
enum ConflictClass {
    /// Nothing that others could change now.
    None,
    /// With what is behind a descriptor; it moves data there (`POLLIN`, `POLLOUT`).
    Descriptor(u64, i16),
    /// With what poll(2) asks of.
    Poll,
    /// It opens a path that is at this address, with these flags.
    Open(u64, u64),
    /// It connects a descriptor to what is named at this address.
    Connect(u64, u64),
    /// It maps what is behind a descriptor.
    Map(u64),
    /// It moves data to the first descriptor, a Vink file's, from the second.
    Sendfile(u64, u64),
    /// Anything, unless this is a descriptor of a Vink file.
    Unless(u64),
    /// Anything.
    Any,
}

/// What a call that the host may do is about.
fn conflict_class(nr: i64, args: [u64; 6]) -> ConflictClass {
    match conflict(nr) {
        Conflict::None => ConflictClass::None,
        Conflict::Reads => ConflictClass::Descriptor(args[0], libc::POLLIN),
        Conflict::Writes => ConflictClass::Descriptor(args[0], libc::POLLOUT),
        Conflict::EpollCtl if args[1] as i32 == libc::EPOLL_CTL_ADD => {
            ConflictClass::Descriptor(args[2], libc::POLLIN)
        }
        Conflict::EpollCtl => ConflictClass::None,
        Conflict::Poll => ConflictClass::Poll,
        Conflict::Open => match (path_args(nr), open_flags(nr)) {
            (PathArgs::At(path) | PathArgs::Below(_, path), OpenFlags::Flags(flags)) => {
                ConflictClass::Open(args[path], args[flags])
            }
            _ => ConflictClass::Any,
        },
        Conflict::Connect => ConflictClass::Connect(args[0], args[1]),
        Conflict::Map => ConflictClass::Map(args[4]),
        Conflict::Fcntl => match args[1] as i32 {
            libc::F_GETFL | libc::F_SETFL => ConflictClass::Descriptor(args[0], 0),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => ConflictClass::None,
            _ => ConflictClass::Unless(args[0]),
        },
        Conflict::Clone if args[0] & NAMESPACE_FLAGS != 0 => ConflictClass::Unless(args[0]),
        Conflict::Clone => ConflictClass::None,
        Conflict::Sendfile => ConflictClass::Sendfile(args[0], args[1]),
        Conflict::Splice => ConflictClass::Any,
        Conflict::Any => ConflictClass::Unless(args[0]),
    }
}

/// What the rule asks of a call's thread: what is behind its descriptors, and in its memory.
trait Files {
    /// Whether a descriptor is a Vink file's.
    fn is_vink(&self, fd: u64) -> bool;
    /// Whether no other machine has to do with what the host has behind a descriptor, for a call
    /// that moves data there (`POLLIN`, `POLLOUT`, 0).
    fn is_private(&mut self, fd: u64, events: i16) -> bool;
    /// Whether a descriptor is a file of the host's, and for reading only.
    fn is_read_only(&self, fd: u64) -> bool;
    /// The descriptors that a poll(2) asks of; `None`: that cannot be known.
    fn polled(&self) -> Option<Vec<u64>>;
    /// Whether the path at an address is /dev/null.
    fn is_null_device(&self, path: u64) -> bool;
    /// Whether there is no unix socket of the name at an address.
    fn names_no_socket(&self, address: u64) -> bool;
}

/// The rule: whether a call may run beside any that the rule lets run, of other machines. It says
/// so of one call, and so it is the same for two calls in either order.
fn is_independent(class: &ConflictClass, files: &mut impl Files) -> bool {
    match *class {
        ConflictClass::None => true,
        ConflictClass::Descriptor(fd, events) => files.is_vink(fd) || files.is_private(fd, events),
        ConflictClass::Poll => files.polled().is_some_and(|all| {
            all.into_iter()
                .all(|fd| files.is_vink(fd) || files.is_private(fd, 0))
        }),
        ConflictClass::Open(path, flags) => {
            let flags = flags as i32;
            let makes = libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE;
            let looks = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & makes == 0;
            looks || files.is_null_device(path)
        }
        ConflictClass::Connect(fd, address) => files.is_vink(fd) || files.names_no_socket(address),
        ConflictClass::Map(fd) => files.is_read_only(fd),
        ConflictClass::Sendfile(to, from) => {
            files.is_vink(to) && files.is_private(from, libc::POLLIN)
        }
        ConflictClass::Unless(fd) => files.is_vink(fd),
        ConflictClass::Any => false,
    }
}

/// The files of a call's thread.
struct TraceeFiles<'a, 'w> {
    worker: &'a mut VirtualWorker<'w>,
    call: Notification,
}

impl Files for TraceeFiles<'_, '_> {
    fn is_vink(&self, fd: u64) -> bool {
        self.worker.fd_table(self.call.tid).get(fd).is_some()
    }

    fn is_private(&mut self, fd: u64, events: i16) -> bool {
        self.worker.is_private(self.call.tid, fd, events)
    }

    fn is_read_only(&self, fd: u64) -> bool {
        self.worker.is_read_only(self.call.tid, fd)
    }

    fn polled(&self) -> Option<Vec<u64>> {
        polled(self.call)
    }

    fn is_null_device(&self, path: u64) -> bool {
        let mut text = [0; 16];
        tracee::read_string(self.call.tid, path, &mut text)
            .is_some_and(|len| &text[..len] == b"/dev/null")
    }

    fn names_no_socket(&self, address: u64) -> bool {
        names_no_socket(self.call.tid, address)
    }
}

impl VirtualWorker<'_> {
    /// Whether this may be done while threads of other machines run.
    pub(super) fn is_independent(&mut self, runnable: &Runnable) -> bool {
        let machine = self.machine_of(runnable);
        let sched = self.worker.clock.sched();
        if sched.shared_state.tainted.contains(&machine) {
            return false;
        }
        match runnable {
            Runnable::Woken(_, Some(_)) => true,
            Runnable::Completed(done) => {
                !matches!(done.0.in_flight.continuation, Continuation::Splice(_))
            }
            Runnable::Syscall(_, call) | Runnable::Woken(call, None) => {
                self.is_self_contained(*call)
            }
            Runnable::HostSignal(_) => false,
        }
    }

    /// Before a call by which its machine may come to share memory or descriptors with others, or
    /// to have a file that others may execute: taints the machine.
    pub(super) fn note_sharing(&mut self, call: Notification) {
        let Some(pid) = self.worker.threads.get(&call.tid).map(|thread| thread.pid) else {
            return;
        };
        let args = call.args;
        let is_executable = |mode: usize| args[mode] & EXECUTABLE != 0;
        let is_foreign = |worker: &mut VirtualWorker<'_>| {
            matches!(conflict_class(call.nr, args), ConflictClass::Descriptor(fd, events)
                if worker.fd_table(call.tid).get(fd).is_none()
                    && !worker.is_private(call.tid, fd, events))
        };
        let (shares, watches_files) = match sharing(call.nr) {
            Sharing::None => return,
            Sharing::Creates(flags, mode) => {
                let creates = args[flags] as i32 & libc::O_CREAT != 0;
                (creates && is_executable(mode), false)
            }
            Sharing::Mode(mode) => (is_executable(mode), false),
            Sharing::Maps => (!self.is_read_only(call.tid, args[4]), false),
            Sharing::ByConflict => (is_foreign(self), false),
            Sharing::Always => (true, false),
            Sharing::WatchesPath => (false, args[2] as u32 & REPORTS_READS != 0),
            Sharing::WatchesByFcntl => {
                let watches = matches!(args[1] as i32, libc::F_NOTIFY | libc::F_SETLEASE);
                (false, watches)
            }
            Sharing::WatchesAll => (false, true),
        };
        if shares {
            let machine = self.machine_of_process(pid);
            let sched = self.worker.clock.sched_mut();
            sched.shared_state.tainted.insert(machine);
        }
        if watches_files {
            self.worker.clock.sched_mut().shared_state.files_are_watched = true;
        }
    }

    /// Whether a descriptor is a file of the host's, and for reading only.
    fn is_read_only(&self, tid: i32, number: u64) -> bool {
        let Some(copy) = self.dup_tracee_fd(tid, number) else {
            return true; // to be refused
        };
        let flags = fd::flags(copy.as_raw_fd());
        self.fd_table(tid).get(number).is_none() && flags & libc::O_ACCMODE == libc::O_RDONLY
    }

    /// Whether nothing says that a call has to do with what other machines have.
    fn is_self_contained(&mut self, call: Notification) -> bool {
        let class = conflict_class(call.nr, call.args);
        if !self.worker.threads.contains_key(&call.tid) {
            // A new one, which has nothing that the worker knows.
            return class == ConflictClass::None;
        }
        is_independent(&class, &mut TraceeFiles { worker: self, call })
    }

    /// Whether no other machine has to do with what the host has behind a descriptor.
    fn is_private(&mut self, tid: i32, number: u64, events: i16) -> bool {
        let Some(copy) = self.dup_tracee_fd(tid, number) else {
            return true; // to be refused
        };
        let machine = self.machine_of_process(self.worker.threads[&tid].pid);
        let sched = self.worker.clock.sched();
        let (kind, identity, device) = file_type_of(copy.as_raw_fd());
        match kind {
            libc::S_IFREG => events != libc::POLLOUT,
            libc::S_IFDIR | 0 => true,
            libc::S_IFCHR => libc::major(device) == MEMORY_MAJOR,
            _ if sched.outside_files.contains(&identity) => false,
            libc::S_IFIFO => is_nameless(identity.0),
            libc::S_IFSOCK => {
                let peer = peer_of(copy.as_raw_fd());
                let peer = peer.filter(|pid| self.worker.processes.contains_key(pid));
                peer.is_some_and(|peer| self.machine_of_process(peer) == machine)
            }
            _ => false,
        }
    }
}

/// The descriptors that a poll(2) asks of.
fn polled(call: Notification) -> Option<Vec<u64>> {
    let count = call.args[1] & 0xffff_ffff;
    if count > MAX_FDS {
        return None;
    }
    let mut fds = vec![0; count as usize * POLLFD];
    if count != 0 && !tracee::read(call.tid, call.args[0], &mut fds) {
        return None;
    }
    let numbers = fds
        .chunks_exact(POLLFD)
        .map(|fd| i32::from_ne_bytes(fd[..4].try_into().expect("four bytes")));
    Some(numbers.filter_map(|fd| u64::try_from(fd).ok()).collect())
}

/// Whether this device is that of pipes without a name.
fn is_nameless(device: u64) -> bool {
    static PIPES: OnceLock<Option<u64>> = OnceLock::new();
    let find = || {
        let (end, _) = std::io::pipe().ok()?;
        Some(tracee::identity(end.as_raw_fd()).0)
    };
    *PIPES.get_or_init(find) == Some(device)
}

/// Whether an address of a unix socket is a path that does not exist, for the thread.
fn names_no_socket(tid: i32, address: u64) -> bool {
    // A family of two bytes, and a path.
    let mut path = [0; 110];
    let mut family = [0; 2];
    let absolute = tracee::read(tid, address, &mut family)
        && family == (libc::AF_UNIX as u16).to_ne_bytes()
        && tracee::read_string(tid, address + 2, &mut path).is_some_and(|_| path[0] == b'/');
    let (Ok(root), Ok(path)) = (
        File::open(format!("/proc/{tid}/root")),
        CStr::from_bytes_until_nul(&path),
    ) else {
        return false;
    };
    let root = root.as_raw_fd();
    match fd::open_resolving(root, path, libc::O_PATH, libc::RESOLVE_IN_ROOT) {
        Ok(_) => false,
        Err(error) => absolute && error.raw_os_error() == Some(libc::ENOENT),
    }
}

/// The process at the other end of a unix socket, or that made both ends.
fn peer_of(fd: RawFd) -> Option<i32> {
    let peer = socket::peer(fd).ok()?;
    (peer.pid > 0).then_some(peer.pid)
}

#[cfg(test)]
mod tests {
    use vink_syscalls::{name, NR_END};

    use super::*;

    /// What is behind all descriptors of a thread, and in its memory.
    #[derive(Clone, Copy, Debug)]
    struct Model {
        vink: bool,
        private: bool,
        read_only: bool,
        readable: bool,
        harmless_names: bool,
    }

    impl Model {
        fn all() -> impl Iterator<Item = Model> {
            (0..32).map(|bits| {
                let bit = |n: u32| bits & 1 << n != 0;
                Model {
                    vink: bit(0),
                    private: bit(1),
                    read_only: bit(2),
                    readable: bit(3),
                    harmless_names: bit(4),
                }
            })
        }

        /// With one more thing that holds.
        fn with_more(self) -> [Model; 5] {
            let mut all = [self; 5];
            all[0].vink = true;
            all[1].private = true;
            all[2].read_only = true;
            all[3].readable = true;
            all[4].harmless_names = true;
            all
        }
    }

    impl Files for Model {
        fn is_vink(&self, _: u64) -> bool {
            self.vink
        }
        fn is_private(&mut self, _: u64, _: i16) -> bool {
            self.private
        }
        fn is_read_only(&self, _: u64) -> bool {
            self.read_only
        }
        fn polled(&self) -> Option<Vec<u64>> {
            self.readable.then(|| vec![3, 4])
        }
        fn is_null_device(&self, _: u64) -> bool {
            self.harmless_names
        }
        fn names_no_socket(&self, _: u64) -> bool {
            self.harmless_names
        }
    }

    /// Numbers with arguments that tables look at: commands, operations, flags.
    fn calls() -> impl Iterator<Item = (i64, [u64; 6])> {
        let values = [
            0,
            libc::EPOLL_CTL_ADD as u64,
            libc::F_SETFL as u64,
            libc::O_CREAT as u64,
            libc::CLONE_NEWNET as u64,
            u64::MAX,
        ];
        let numbers = (-2..NR_END as i64 + 50).chain([i64::MIN, i64::MAX, vink_syscalls::FOREIGN]);
        numbers.flat_map(move |nr| {
            let pairs = values.into_iter().flat_map(move |a| values.map(|b| (a, b)));
            pairs
                .flat_map(move |(a, b)| [[a, b, b, a, 5, 6], [3, a, b, a, b, 6]])
                .map(move |args| (nr, args))
        })
    }

    fn runs(nr: i64, args: [u64; 6], mut files: Model) -> bool {
        is_independent(&conflict_class(nr, args), &mut files)
    }

    #[test]
    fn what_is_not_known_runs_alone() {
        for (nr, args) in calls().filter(|(nr, _)| name(*nr).is_none()) {
            for files in Model::all() {
                assert_eq!(runs(nr, args, files), files.vink, "{nr} {args:?} {files:?}");
            }
        }
    }

    #[test]
    fn others_files_are_left_alone() {
        let foreign = Model {
            vink: false,
            private: false,
            read_only: false,
            readable: true,
            harmless_names: false,
        };
        for (nr, args) in calls().filter(|(nr, args)| runs(*nr, *args, foreign)) {
            let class = conflict_class(nr, args);
            let only_looks = matches!(class, ConflictClass::Open(_, flags)
                if flags as i32 & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) == 0);
            assert!(class == ConflictClass::None || only_looks, "{nr} {args:?}");
            // It moves no data.
            assert!(!vink_syscalls::is_plain_io(nr), "{nr}");
        }
    }

    /// To know more that is harmless never makes a call conflict.
    #[test]
    fn the_rule_is_monotonous() {
        for (nr, args) in calls() {
            for less in Model::all().filter(|files| runs(nr, args, *files)) {
                for more in less.with_more() {
                    assert!(runs(nr, args, more), "{nr} {args:?} {less:?} {more:?}");
                }
            }
        }
    }

    #[test]
    fn known_calls() {
        let own = Model::all().find(|files| files.vink).expect("half of them");
        let none = Model::all().next().expect("nothing holds in the first");
        assert!(runs(libc::SYS_write, [3, 0, 0, 0, 0, 0], own));
        assert!(!runs(libc::SYS_write, [3, 0, 0, 0, 0, 0], none));
        assert!(runs(
            libc::SYS_clone,
            [libc::SIGCHLD as u64, 0, 0, 0, 0, 0],
            none
        ));
        assert!(!runs(
            libc::SYS_clone,
            [libc::CLONE_NEWNET as u64, 0, 0, 0, 0, 0],
            none
        ));
        assert!(runs(
            libc::SYS_openat,
            [3, 8, libc::O_RDONLY as u64, 0, 0, 0],
            none
        ));
        assert!(!runs(
            libc::SYS_openat,
            [3, 8, libc::O_CREAT as u64, 0, 0, 0],
            none
        ));
        assert!(!runs(libc::SYS_splice, [3, 0, 4, 0, 1, 0], own));
        assert!(!runs(libc::SYS_unlink, [8, 0, 0, 0, 0, 0], none));
    }
}
