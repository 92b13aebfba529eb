//! Placeholders that do not show what was published (`readiness`), until they are flushed.

use std::cell::{Cell, RefCell};
use std::rc::Weak;

/// What has a placeholder that may be stale.
pub(crate) trait Stale {
    /// From now on the placeholder shows what is true.
    fn flush(&self);
}

/// Stale placeholders of one process, and whether there may be any.
#[derive(Default)]
pub(crate) struct StalePlaceholders {
    files: RefCell<Vec<Weak<dyn Stale>>>,
    /// Epoll instances of the process may be others', too.
    seen_by_others: Cell<bool>,
    closed: Cell<bool>,
}

impl StalePlaceholders {
    pub(crate) fn add(&self, file: Weak<dyn Stale>) {
        self.files.borrow_mut().push(file);
    }

    /// All of them show now what is true.
    pub(crate) fn flush(&self) {
        for file in self.files.take() {
            if let Some(file) = file.upgrade() {
                file.flush();
            }
        }
    }

    pub(crate) fn are_allowed(&self) -> bool {
        !self.seen_by_others.get() && !self.is_closed()
    }

    /// From now on there are none.
    pub(crate) fn forbid(&self) {
        self.seen_by_others.set(true);
        self.flush();
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.flush();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
