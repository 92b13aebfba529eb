//! Which descriptors of a process are Vink's.

use std::cell::RefCell;
use std::rc::Rc;

use crate::file::File;
use crate::process_ring::ProcessRing;

/// What a Vink descriptor of a program is.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) file: Rc<File>,
    /// The kernel's descriptor of it, in the same process's table there. It differs from the
    /// program's: accept(2) takes its number before it waits, so the kernel's numbers can't be made
    /// to follow the host's.
    pub(crate) number: i32,
}

impl Entry {
    /// The kernel's number, if its readiness must be read after a call on it.
    pub(crate) fn poll_fd(&self) -> Option<i32> {
        self.file.mirrors_edges.get().then_some(self.number)
    }
}

/// Which descriptors of a process are Vink's. Processes made with `CLONE_FILES` share one.
#[derive(Default)]
pub(crate) struct FdTable(Rc<RefCell<Slots>>);

#[derive(Clone, Default)]
struct Slots {
    entries: Vec<Option<Entry>>,
    used: usize,
    may_have_received: bool,
    mirrors_edges: bool,
    /// Others than the library may wait at epoll instances of it: another process, or the program
    /// by itself.
    seen_by_others: bool,
    /// The ring of the one process that has this table.
    ring: Option<Rc<ProcessRing>>,
}

impl FdTable {
    /// Another table with the same descriptors.
    pub(crate) fn copy(&self) -> FdTable {
        let mut slots = self.0.borrow_mut();
        slots.seen_by_others |= slots.mirrors_edges;
        for entry in slots.entries.iter().flatten() {
            entry.file.placeholder.share();
        }
        let mut copy = slots.clone();
        if let Some(ring) = copy.ring.take().filter(|_| slots.seen_by_others) {
            ring.forbid_stale();
        }
        FdTable(Rc::new(RefCell::new(copy)))
    }

    /// The same table, for another process.
    pub(crate) fn share(&self) -> FdTable {
        self.close_ring();
        FdTable(self.0.clone())
    }

    /// The process's ring, if it has one.
    pub(crate) fn ring(&self) -> Option<Rc<ProcessRing>> {
        self.0.borrow().ring.clone()
    }

    pub(crate) fn set_ring(&self, ring: Rc<ProcessRing>) {
        self.0.borrow_mut().ring = Some(ring);
    }

    /// The process is to post nothing any more.
    pub(crate) fn close_ring(&self) {
        if let Some(ring) = self.0.borrow_mut().ring.take() {
            ring.close();
        }
    }

    /// Whether another process has it too, or will have it.
    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Whether the two are the same.
    pub(crate) fn is(&self, other: &FdTable) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// recvmsg(2) on a host file was called: there may be Vink files that are not in here yet.
    pub(crate) fn set_may_have_received(&self) {
        self.0.borrow_mut().may_have_received = true;
    }

    pub(crate) fn may_have_received(&self) -> bool {
        self.0.borrow().may_have_received
    }

    /// An epoll instance was made, and may be among the host's: all files are followed. What it
    /// gets is the host's business alone.
    pub(crate) fn set_mirrors_edges(&self) {
        self.0.borrow_mut().mirrors_edges = true;
    }

    pub(crate) fn mirrors_edges(&self) -> bool {
        self.0.borrow().mirrors_edges
    }

    /// Others than the library may wait at an epoll instance.
    pub(crate) fn set_seen_by_others(&self) {
        let mut slots = self.0.borrow_mut();
        slots.seen_by_others = true;
        if let Some(ring) = &slots.ring {
            ring.forbid_stale();
        }
    }

    pub(crate) fn is_seen_by_others(&self) -> bool {
        self.0.borrow().seen_by_others
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().used
    }

    /// By a system call's argument, of which the low half counts.
    pub(crate) fn get(&self, argument: u64) -> Option<Entry> {
        let slots = self.0.borrow();
        slots.entries.get(argument as u32 as usize)?.clone()
    }

    /// All of them.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.borrow().entries.iter().flatten().cloned().collect()
    }

    /// What the number was before.
    pub(crate) fn insert(&self, fd: i32, entry: Entry) -> Option<Entry> {
        let mut slots = self.0.borrow_mut();
        let index = fd as u32 as usize;
        if slots.entries.len() <= index {
            slots.entries.resize(index + 1, None);
        }
        let old = slots.entries[index].replace(entry);
        slots.used += usize::from(old.is_none());
        if let Some(ring) = &slots.ring {
            match &old {
                Some(old) => close(ring, fd, old),
                // It may be in use already: the call that has made it is not waited for.
                None => ring.forget_file(fd),
            }
        }
        old
    }

    pub(crate) fn remove(&self, fd: i32) -> Option<Entry> {
        let mut slots = self.0.borrow_mut();
        let entry = slots.entries.get_mut(fd as u32 as usize)?.take()?;
        slots.used -= 1;
        if let Some(ring) = &slots.ring {
            close(ring, fd, &entry);
        }
        Some(entry)
    }

    /// Removes those of which the program's number and the entry satisfy the condition.
    pub(crate) fn remove_if(&self, condition: impl Fn(i32, &Entry) -> bool) -> Vec<Entry> {
        let mut slots = self.0.borrow_mut();
        let mut removed = Vec::new();
        let ring = slots.ring.clone();
        for (fd, slot) in slots.entries.iter_mut().enumerate() {
            if let Some(entry) = slot.take_if(|e| condition(fd as i32, e)) {
                if let Some(ring) = &ring {
                    close(ring, fd as i32, &entry);
                }
                removed.push(entry);
            }
        }
        slots.used -= removed.len();
        removed
    }
}

/// A number with a ring is not this file's any more.
fn close(ring: &Rc<ProcessRing>, fd: i32, entry: &Entry) {
    ring.close_file(fd);
    entry.file.unpublish(ring, fd);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let table = FdTable::default();
        assert!(table.is_empty() && table.get(3).is_none() && table.get(u64::MAX).is_none());
        let (a, b) = (File::new(i32::MAX).unwrap(), File::new(i32::MAX).unwrap());
        let entry = |file: &Rc<File>, number| Entry {
            file: file.clone(),
            number,
        };
        assert!(table.insert(7, entry(&a, 0)).is_none());
        assert!(table.insert(3, entry(&b, 1)).is_none());
        assert_eq!(table.insert(3, entry(&a, 2)).unwrap().number, 1);
        assert_eq!(table.get(0xffff_ffff_0000_0003).unwrap().number, 2);
        let copy = table.copy();
        assert_eq!((Rc::strong_count(&a), Rc::strong_count(&b)), (5, 1));
        let shared = table.share();
        assert!(table.is_shared() && shared.is(&table) && !copy.is(&table) && !copy.is_shared());
        assert!(table.remove(3).is_some() && shared.remove(3).is_none());
        assert!(!table.is_empty());
        shared.remove(7);
        assert!(table.is_empty());
        assert_eq!((copy.entries().len(), table.entries().len()), (2, 0));
        let removed = copy.remove_if(|fd, entry| fd == 7 && entry.number == 0);
        assert_eq!((removed.len(), copy.get(7).is_none()), (1, true));
        assert_eq!(copy.remove_if(|_, _| true).len(), 1);
        assert!(copy.is_empty());
    }
}
