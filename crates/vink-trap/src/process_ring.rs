//! A process's shared ring, as the worker has it (`shared_ring`).

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null_mut, NonNull};
use std::rc::Weak;
use std::sync::atomic::Ordering;

use vink_ring::{SchedPage, SharedRing, FILES, OTHER, PIPE, SLOTS, UNKNOWN};
use vink_sys::fd::in_memory_sealed;

use crate::stale::{Stale, StalePlaceholders};

/// The ring of one process, and the threads of its slots.
pub(crate) struct ProcessRing {
    pub(crate) shared: NonNull<SharedRing>,
    /// The thread of each slot; 0: none.
    pub(crate) owners: RefCell<[i32; SLOTS]>,
    /// The process.
    pub(crate) pid: i32,
    pub(crate) polled: Cell<bool>,
    /// In virtual time, the call whose descriptors are there as those waited for; 0: none.
    pub(crate) polled_by: Cell<u64>,
    /// ... and the one that the process itself has written down there.
    pub(crate) posted_by: Cell<u64>,
    /// ... how often the kernel had run when send credit was published: it is valid as long as that stays.
    pub(crate) credit_run: Cell<u64>,
    pub(crate) stale: StalePlaceholders,
    /// The slot whose deferred sends are next.
    pub(crate) next: Cell<usize>,
}

impl ProcessRing {
    /// A ring that no process has yet, and its file.
    pub(crate) fn new(id: u64, pid: i32) -> io::Result<(ProcessRing, OwnedFd)> {
        let len = size_of::<SharedRing>();
        let file = in_memory_sealed(c"vink-ring", len as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping of all of the file.
        let at = unsafe { libc::mmap(null_mut(), len, access, shared, fd, 0) };
        let shared = match NonNull::new(at.cast::<SharedRing>()) {
            Some(shared) if at != libc::MAP_FAILED => shared,
            _ => return Err(io::Error::last_os_error()),
        };
        let ring = ProcessRing {
            shared,
            owners: RefCell::new([0; SLOTS]),
            pid,
            polled: Cell::new(false),
            polled_by: Cell::new(0),
            posted_by: Cell::new(0),
            credit_run: Cell::new(0),
            stale: StalePlaceholders::default(),
            next: Cell::new(0),
        };
        ring.shared().id.store(id, Ordering::Relaxed);
        ring.shared().host_waiters.store(1, Ordering::Relaxed);
        Ok((ring, file.into()))
    }

    pub(crate) fn shared(&self) -> &SharedRing {
        // SAFETY: mapped until this is dropped; all that another process can change are atomics,
        // and bytes that are reached by pointers only.
        unsafe { self.shared.as_ref() }
    }

    /// Says what a descriptor of the program's is.
    pub(crate) fn mark(&self, fd: i32, kind: u8) {
        if let Some(file) = self.shared().files.get(fd as u32 as usize) {
            file.store(kind, Ordering::Release);
        }
    }

    /// It is a pipe of the host's, in virtual time.
    pub(crate) fn mark_pipe(&self, fd: i32) {
        self.mark(fd, PIPE);
    }

    /// No number is known as a pipe's any more.
    pub(crate) fn unmark_pipes(&self) {
        let files = self.shared().files.iter();
        for file in files.filter(|file| file.load(Ordering::Relaxed) == PIPE) {
            file.store(UNKNOWN, Ordering::Release);
        }
    }

    /// What there is to say in virtual time.
    pub(crate) fn sched(&self) -> &SchedPage {
        &self.shared().sched
    }

    pub(crate) fn kind(&self, fd: i32) -> u8 {
        let file = self.shared().files.get(fd as u32 as usize);
        file.map_or(OTHER, |file| file.load(Ordering::Relaxed))
    }

    /// The number does not mean what it has meant.
    pub(crate) fn forget_file(&self, fd: i32) {
        self.mark(fd, UNKNOWN);
    }

    /// The same when it has been closed.
    pub(crate) fn close_file(&self, fd: i32) {
        self.forget_file(fd);
        if let Some(entry) = self.shared().readiness.get(fd as u32 as usize) {
            entry.reset();
        }
    }

    pub(crate) fn has_readiness_entry(&self, fd: i32) -> bool {
        (fd as u32 as usize) < FILES && !self.is_closed()
    }

    /// Publishes send credit on a number.
    pub(crate) fn publish_credit(&self, fd: i32, credit: u32) {
        let shared = self.shared();
        if let Some(entry) = shared.readiness.get(fd as u32 as usize) {
            entry.publish_credit(shared.syscall_seq.load(Ordering::Relaxed), credit);
        }
    }

    /// Whether a deferred send for a number is on its way.
    pub(crate) fn has_deferred_for(&self, fd: i32) -> bool {
        let entry = self.shared().readiness.get(fd as u32 as usize);
        entry.is_some_and(|entry| entry.is_credit_taken())
    }

    /// A call of the process has been trapped: send credit published before is void.
    pub(crate) fn count_trap(&self) {
        self.shared().syscall_seq.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn has_deferred(&self) -> bool {
        self.shared().deferred.0.load(Ordering::SeqCst) != 0
    }

    /// A slot that may have deferred sends, round robin.
    pub(crate) fn next_deferred_slot(&self) -> Option<usize> {
        let there = self.shared().deferred.0.load(Ordering::Acquire);
        if there == 0 {
            return None;
        }
        let first = self.next.get() as u32;
        let ahead = there.rotate_right(first).trailing_zeros();
        let slot = (first + ahead) as usize % SLOTS;
        self.next.set((slot + 1) % SLOTS);
        Some(slot)
    }

    /// Publishes the readiness of a number, and which of it is an edge.
    pub(crate) fn publish(&self, fd: i32, events: u32, again: u32, shared: bool) {
        let ring = self.shared();
        if let Some(entry) = ring.readiness.get(fd as u32 as usize) {
            entry.publish(events, again, shared);
            ring.publish_count.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether placeholders may be stale: all waiters read the readiness page.
    pub(crate) fn may_leave_host_stale(&self) -> bool {
        self.polled.get()
            && self.stale.are_allowed()
            && self.shared().host_waiters.load(Ordering::SeqCst) == 0
    }

    /// Whether this thread, which polls, is counted as a host waiter.
    pub(crate) fn is_host_waiter(&self, tid: i32) -> bool {
        let slot = self.owners.borrow().iter().position(|o| *o == tid);
        let looking = self.shared().polling_slots.load(Ordering::SeqCst);
        slot.is_some_and(|slot| looking & 1 << slot != 0 && !self.may_leave_host_stale())
    }

    /// This file's placeholder is stale.
    pub(crate) fn add_stale(&self, file: Weak<dyn Stale>) {
        self.stale.add(file);
    }

    pub(crate) fn may_have_stale(&self) -> bool {
        self.stale.are_allowed()
    }

    /// From now on none does.
    pub(crate) fn forbid_stale(&self) {
        self.stale.forbid();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stale.is_closed()
    }

    /// Nothing is published here any more.
    pub(crate) fn close(&self) {
        self.stale.close();
        self.unmark_range(0, u32::MAX);
    }

    /// The same of all numbers from `first` to `last`.
    pub(crate) fn unmark_range(&self, first: u32, last: u32) {
        let files = self.shared().files.iter().enumerate();
        for (fd, file) in files.skip(first as usize) {
            if fd > last as usize {
                break;
            }
            file.store(UNKNOWN, Ordering::Release);
            self.shared().readiness[fd].reset();
        }
    }

    /// Whether nothing is posted.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared().is_empty()
    }

    /// Whether the worker polls it.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled.get()
    }

    /// The threads that have slots.
    pub(crate) fn threads(&self) -> Vec<i32> {
        let owners = self.owners.borrow();
        owners.iter().copied().filter(|owner| *owner != 0).collect()
    }

    pub(crate) fn set_polled(&self, attended: bool) {
        if !attended {
            self.stale.flush();
        }
        self.polled.set(attended);
        self.shared().set_polling(attended);
    }

    /// A slot for a thread; none if all are taken by threads that are `alive`.
    pub(crate) fn slot(&self, tid: i32, alive: impl Fn(i32) -> bool) -> Option<usize> {
        let mut owners = self.owners.borrow_mut();
        let own = owners.iter().position(|owner| *owner == tid);
        let free = || owners.iter().position(|o| *o == 0 || !alive(*o));
        let slot = own.or_else(free)?;
        if owners[slot] != tid {
            owners[slot] = tid;
            self.shared().slots[slot].deferred_sends.clear();
        }
        Some(slot)
    }

    pub(crate) fn answer(&self, slot: usize, result: i64) {
        self.shared().slots[slot].set_answer(result);
    }
}

impl Drop for ProcessRing {
    fn drop(&mut self) {
        // A thread that has just posted finds that the worker does not poll.
        self.set_polled(false);
        // SAFETY: mapped by `new`, and not referred to any more.
        unsafe { libc::munmap(self.shared.as_ptr().cast(), size_of::<SharedRing>()) };
    }
}
