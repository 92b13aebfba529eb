//! Readiness that is published to a program in shared memory, so that the host need not have it.
//!
//! A stream of a process with a ring has a *readiness entry* there (`vink-ring`) from its first
//! call on, once the process may have epoll instances, or from its first poll(2) or select(2). Its
//! readiness is published there at once. Its placeholder may be *stale* as long as only the library
//! can wait, which reads the page: while the worker polls the ring, no thread sleeps in the host's
//! epoll_wait(2), and neither the stream nor an epoll instance of the process has ever been shared.
//! Before a thread polls on the host, it increments `host_waiters` and asks the worker to flush
//! stale placeholders, or makes a call that does; before the worker sleeps it flushes by itself.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::process_ring::ProcessRing;
use crate::stale::Stale;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

/// The readiness of a file, and its entry on a readiness page.
pub(crate) struct FileReadiness {
    events: Cell<u32>,
    entry: RefCell<Option<EntryRef>>,
    /// Others may poll the placeholder.
    shared: Cell<bool>,
    /// The placeholder does not show what was published.
    stale: Cell<bool>,
    /// ... nor that it has become ready again.
    owes_edge: Cell<bool>,
}

/// A file's entry on a readiness page.
struct EntryRef {
    ring: Rc<ProcessRing>,
    fd: i32,
    owner: Weak<dyn Stale>,
}

impl FileReadiness {
    pub(crate) fn new(told: u32) -> FileReadiness {
        FileReadiness {
            events: Cell::new(told),
            entry: RefCell::new(None),
            shared: Cell::new(false),
            stale: Cell::new(false),
            owes_edge: Cell::new(false),
        }
    }

    /// The readiness of the file, as last set.
    pub(crate) fn events(&self) -> u32 {
        self.events.get()
    }

    /// This is true, and of this it has become true again. Whether the placeholder need not show
    /// it.
    pub(crate) fn publish(&self, events: u32, again: u32) -> bool {
        let before = self.events.replace(events);
        let new = events & !before;
        if events == before && again == 0 {
            return self.stale.get();
        }
        let entry = self.entry.borrow();
        let Some(EntryRef { ring, fd, owner }) = entry.as_ref().filter(|b| !b.ring.is_closed())
        else {
            return false;
        };
        // Data that was there before is no news of room.
        let again = if again & IN != 0 { again & !OUT } else { again };
        let shared = self.shared.get();
        ring.publish(*fd, events, new | again, shared);
        if shared || !ring.may_leave_host_stale() {
            return false;
        }
        if !self.stale.replace(true) {
            ring.add_stale(owner.clone());
        }
        true
    }

    /// Whether there is an entry for it.
    pub(crate) fn has_entry(&self) -> bool {
        self.entry.borrow().is_some()
    }

    /// Publishes send credit.
    pub(crate) fn publish_credit(&self, credit: u32) {
        let credit = if self.shared.get() { 0 } else { credit };
        if let Some(place) = self.entry.borrow().as_ref().filter(|b| !b.ring.is_closed()) {
            place.ring.publish_credit(place.fd, credit);
        }
    }

    /// It became ready again, which the placeholder did not show.
    pub(crate) fn owe_edge(&self) {
        self.owes_edge.set(true);
    }

    /// If the placeholder is stale, whether it owes an edge. It is not stale any more.
    pub(crate) fn take_stale(&self) -> Option<bool> {
        let owes = self.owes_edge.take();
        self.stale.take().then_some(owes)
    }

    pub(crate) fn share(&self) {
        if !self.shared.replace(true) {
            if let Some(place) = self.entry.borrow().as_ref().filter(|b| !b.ring.is_closed()) {
                place.ring.publish(place.fd, self.events.get(), 0, true);
            }
        }
    }

    /// From now on it is published in this number's entry, if nowhere else; `owner` may be stale there.
    pub(crate) fn publish_on(&self, ring: &Rc<ProcessRing>, fd: i32, owner: Weak<dyn Stale>) {
        let mut entry = self.entry.borrow_mut();
        let has_one = entry.as_ref().is_some_and(|b| !b.ring.is_closed());
        if has_one || !ring.has_readiness_entry(fd) {
            return;
        }
        let ring = ring.clone();
        ring.publish(fd, self.events.get(), 0, self.shared.get());
        *entry = Some(EntryRef { ring, fd, owner });
    }

    /// The number of this process is not the file's any more.
    pub(crate) fn unpublish(&self, ring: &Rc<ProcessRing>, fd: i32) {
        let is_here = |b: &mut EntryRef| b.fd == fd && Rc::ptr_eq(&b.ring, ring);
        self.entry.borrow_mut().take_if(is_here);
    }
}
