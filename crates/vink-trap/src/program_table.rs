//! Programs that were started: the roots of trees of processes, each under one filter.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::rc::Rc;

use vink_kernel::{Credentials, MachineId};

use crate::namespaces::Namespaces;
use crate::notify::Listener;
use crate::process::PendingFork;
use crate::spawn::StartPage;
use crate::status::Status;
use crate::Error;

/// Names a program that a [`Worker`](crate::Worker) started. No other is ever named the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId {
    /// Its entry's index.
    index: usize,
    serial: u64,
}

/// A started program.
pub(crate) struct ProgramEntry {
    pub(crate) name: String,
    pub(crate) machine: MachineId,
    /// What its tasks may do.
    pub(crate) credentials: Credentials,
    /// Until it is forgotten.
    pub(crate) namespaces: Option<Rc<Namespaces>>,
    /// `None` when the last process is gone.
    pub(crate) listener: Option<Rc<Listener>>,
    pub(crate) root: i32,
    /// Until the root has ended.
    pub(crate) start_page: Option<StartPage>,
    pub(crate) status: Option<Status>,
    /// Why the root was never executed: an errno.
    pub(crate) failure: Option<i32>,
    /// Children of dead processes that have not shown up yet.
    pub(crate) orphans: Vec<PendingFork>,
}

impl ProgramEntry {
    /// Whether any of its processes is left.
    pub(crate) fn is_alive(&self) -> bool {
        self.listener.is_some() || self.status.is_none()
    }
}

/// All of them, by where they are: what belongs to a program knows it by that number.
#[derive(Default)]
pub(crate) struct ProgramTable {
    /// With their serial numbers; those in `free` are dead and forgotten.
    all: Vec<(u64, ProgramEntry)>,
    free: Vec<usize>,
    last: u64,
    /// Programs whose first or last process has ended, until the caller asks.
    changed: BTreeSet<usize>,
}

impl ProgramTable {
    /// Where the next one will be.
    pub(crate) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.all.len())
    }

    /// Adds one where [`ProgramTable::next`] has said.
    pub(crate) fn add(&mut self, entry: ProgramEntry) -> ProgramId {
        self.last += 1;
        let serial = self.last;
        let index = self.next();
        match self.free.pop() {
            Some(index) => self.all[index] = (serial, entry),
            None => self.all.push((serial, entry)),
        }
        ProgramId { index, serial }
    }

    /// The index of a program's entry.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`].
    pub(crate) fn find(&self, program: ProgramId) -> Result<usize, Error> {
        match self.all.get(program.index) {
            Some((serial, _)) if *serial == program.serial => Ok(program.index),
            _ => Err(Error::NoSuchProgram),
        }
    }

    /// Frees the place of a dead one.
    pub(crate) fn forget(&mut self, index: usize) {
        self.all[index].0 = 0;
        self.changed.remove(&index);
        self.free.push(index);
    }

    pub(crate) fn mark_changed(&mut self, index: usize) {
        self.changed.insert(index);
    }

    pub(crate) fn next_changed(&mut self) -> Option<ProgramId> {
        let index = self.changed.pop_first()?;
        let serial = self.all[index].0;
        Some(ProgramId { index, serial })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProgramEntry> {
        self.all.iter().map(|(_, entry)| entry)
    }
}

impl Index<usize> for ProgramTable {
    type Output = ProgramEntry;

    fn index(&self, index: usize) -> &ProgramEntry {
        &self.all[index].1
    }
}

impl IndexMut<usize> for ProgramTable {
    fn index_mut(&mut self, index: usize) -> &mut ProgramEntry {
        &mut self.all[index].1
    }
}
