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

use vink_syscalls::{
    conflict, open_flags, path_args, sharing, Conflict, OpenFlags, PathArgs, Sharing,
};

/// The mode bits of an executable file.
const EXECUTABLE: u64 = 0o111;
/// Kinds of namespaces.
const NAMESPACE_FLAGS: u64 = 0x7e02_0080;

/// What inotify(7) reports of reads as well: that files are opened, read and closed.
const REPORTS_READS: u32 =
    !(libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVE | libc::IN_MODIFY | libc::IN_ONLYDIR);

/// Machines that may share memory or descriptors with others.
#[derive(Default)]
pub struct SharedState {
    tainted: HashSet<u64>,
    /// Files that programs were started with, which have a position, and on which machine that was
    /// first.
    files: HashMap<(u64, u64), u64>,
    /// A program watches what others do with files.
    files_are_watched: bool,
}

impl SharedState {
    /// A program of this machine is started with this file.
    pub fn note_file(&mut self, machine: u64, identity: (u64, u64)) {
        let first = *self.files.entry(identity).or_insert(machine);
        if first != machine {
            self.tainted.extend([first, machine]);
        }
    }

    /// Whether a machine may share memory or descriptors with others.
    pub fn is_tainted(&self, machine: u64) -> bool {
        self.tainted.contains(&machine)
    }

    /// Before a call of a thread on this machine: it may come to share memory or descriptors with
    /// others, or to have a file that others may execute, or be told of what others do.
    pub fn note_call(&mut self, machine: u64, nr: i64, args: [u64; 6], files: &mut impl Files) {
        let is_executable = |mode: usize| args[mode] & EXECUTABLE != 0;
        let shares = match sharing(nr) {
            Sharing::None => false,
            Sharing::Creates(flags, mode) => {
                let creates = args[flags] as i32 & libc::O_CREAT != 0;
                creates && is_executable(mode)
            }
            Sharing::Mode(mode) => is_executable(mode),
            Sharing::Maps => !files.is_read_only(args[4]),
            Sharing::ByConflict => {
                let class = conflict_class(nr, args);
                matches!(class, ConflictClass::Descriptor(..)) && !is_independent(&class, files)
            }
            Sharing::Always => true,
            Sharing::WatchesPath | Sharing::WatchesByFcntl | Sharing::WatchesAll => false,
        };
        self.files_are_watched |= match sharing(nr) {
            Sharing::WatchesPath => args[2] as u32 & REPORTS_READS != 0,
            Sharing::WatchesByFcntl => {
                matches!(args[1] as i32, libc::F_NOTIFY | libc::F_SETLEASE)
            }
            Sharing::WatchesAll => true,
            _ => false,
        };
        if shares {
            self.tainted.insert(machine);
        }
    }

    /// Whether batches are off for good.
    pub fn forbids_batches(&self) -> bool {
        self.files_are_watched
    }
}

/// With what a call has to do, beside its thread's own process and machine.
#[derive(Debug, PartialEq, Eq)]
pub enum ConflictClass {
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
pub fn conflict_class(nr: i64, args: [u64; 6]) -> ConflictClass {
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
pub trait Files {
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
pub fn is_independent(class: &ConflictClass, files: &mut impl Files) -> bool {
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
