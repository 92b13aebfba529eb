//! Which calls may run in one batch: what the rule of `vink-sched` asks of a call's thread.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use vink_kernel::MachineId;
use vink_sched::conflict::{conflict_class, is_independent, ConflictClass, Files, SharedState};
use vink_sys::{fd, socket};
use vink_syscalls::{sharing, Sharing};

use super::emulate::polled_fd::file_type_of;
use super::Runnable;
use crate::in_flight::Continuation;
use crate::notification::Notification;
use crate::process_table::ProcessTable;
use crate::ready::{MAX_FDS, POLLFD};
use crate::tracee;

/// Of the host's devices that keep nothing, such as /dev/null: memory (3).
const MEMORY_MAJOR: u32 = 1;

/// What machines share: what makes calls of one matter to another.
#[derive(Default)]
pub(crate) struct Shared {
    state: SharedState,
    /// Standard descriptors that programs have from outside.
    outside_files: HashSet<(u64, u64)>,
}

impl Shared {
    /// Whether a machine may have something in common with any other, or all may.
    pub(super) fn forbids_batches(&self) -> bool {
        self.state.forbids_batches()
    }

    /// A program's standard descriptors, which come from outside.
    pub(crate) fn note_standard_fds(&mut self, machine: MachineId, descriptors: [RawFd; 3]) {
        for fd in descriptors {
            let (kind, identity, _) = file_type_of(fd);
            match kind {
                libc::S_IFIFO | libc::S_IFSOCK => drop(self.outside_files.insert(identity)),
                libc::S_IFREG => self.state.note_file(machine.get(), identity),
                _ => {}
            }
        }
    }

    /// Whether it is one of those.
    pub(super) fn is_outside(&self, identity: (u64, u64)) -> bool {
        self.outside_files.contains(&identity)
    }

    /// Whether this may be done while threads of other machines run.
    pub(super) fn is_independent(
        &self,
        table: &ProcessTable,
        machine: MachineId,
        runnable: &Runnable,
    ) -> bool {
        if self.state.is_tainted(machine.get()) {
            return false;
        }
        match runnable {
            Runnable::Woken(_, Some(_)) => true,
            Runnable::Completed(done) => {
                !matches!(done.0.in_flight.continuation, Continuation::Splice(_))
            }
            Runnable::Syscall(_, call) => self.is_self_contained(table, *call),
            Runnable::Woken(call, None) => self.is_self_contained(table, call.notification),
            Runnable::HostSignal(_) => false,
        }
    }

    /// Whether nothing says that a call has to do with what other machines have.
    fn is_self_contained(&self, table: &ProcessTable, call: Notification) -> bool {
        let class = conflict_class(call.nr, call.args);
        if !table.has_thread(call.tid) {
            // A new one, which has nothing that the worker knows.
            return class == ConflictClass::None;
        }
        let outside_files = &self.outside_files;
        is_independent(
            &class,
            &mut TraceeFiles {
                table,
                outside_files,
                call,
            },
        )
    }

    /// Before a call by which its machine may come to share memory or descriptors with others, or
    /// to have a file that others may execute: taints the machine.
    pub(super) fn note_call(&mut self, table: &ProcessTable, call: Notification) {
        if sharing(call.nr) == Sharing::None {
            return;
        }
        let Some(pid) = table.find_pid(call.tid) else {
            return;
        };
        let machine = table.machine_of(pid).get();
        let outside_files = &self.outside_files;
        let mut files = TraceeFiles {
            table,
            outside_files,
            call,
        };
        let state = &mut self.state;
        state.note_call(machine, call.nr, call.args, &mut files);
    }
}

/// The files of a call's thread.
struct TraceeFiles<'a> {
    table: &'a ProcessTable,
    outside_files: &'a HashSet<(u64, u64)>,
    call: Notification,
}

impl Files for TraceeFiles<'_> {
    fn is_vink(&self, fd: u64) -> bool {
        let pid = self.table.pid_of(self.call.tid);
        self.table.fd_table(pid).get(fd).is_some()
    }

    /// Whether no other machine has to do with what the host has behind a descriptor.
    fn is_private(&mut self, fd: u64, events: i16) -> bool {
        let Some(copy) = self.table.borrow_descriptor(self.call.tid, fd) else {
            return true; // to be refused
        };
        let machine = |pid| self.table.machine_of(pid);
        let (kind, identity, device) = file_type_of(copy.as_raw_fd());
        match kind {
            libc::S_IFREG => events != libc::POLLOUT,
            libc::S_IFDIR | 0 => true,
            libc::S_IFCHR => libc::major(device) == MEMORY_MAJOR,
            _ if self.outside_files.contains(&identity) => false,
            libc::S_IFIFO => is_nameless(identity.0),
            libc::S_IFSOCK => {
                let peer = peer_of(copy.as_raw_fd());
                let peer = peer.filter(|pid| self.table.has_process(*pid));
                let own = machine(self.table.pid_of(self.call.tid));
                peer.is_some_and(|peer| machine(peer) == own)
            }
            _ => false,
        }
    }

    /// Whether a descriptor is a file of the host's, and for reading only.
    fn is_read_only(&self, fd: u64) -> bool {
        let Some(copy) = self.table.borrow_descriptor(self.call.tid, fd) else {
            return true; // to be refused
        };
        let flags = fd::flags(copy.as_raw_fd());
        !self.is_vink(fd) && flags & libc::O_ACCMODE == libc::O_RDONLY
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
