//! Readiness that is told to a program in shared memory, so that the host need not be shown it.
//!
//! A stream of a process with a mailbox has a *board* there (`vink-mailbox`) from its first call on, once the process may have
//! epoll instances, or from its first poll(2) or select(2). Whatever is true of the stream is told there at once; its placeholder *lags* as long as nobody
//! can look but the library, which looks at the board: while the worker attends to the mailbox, nobody sleeps in the host's
//! epoll_wait(2), and neither the stream nor an epoll instance of the process has ever been anybody else's. Who is about to
//! look natively counts himself in `natives` and asks the worker to catch up, or makes a call that does; before the worker
//! sleeps it does so by itself.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::mail::Desk;
use crate::process::File;
use crate::target;
use crate::worker::Worker;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

/// What is told of a file, and to whom.
pub(crate) struct Telling {
    told: Cell<u32>,
    board: RefCell<Option<Place>>,
    /// Others may look at the placeholder.
    shared: Cell<bool>,
    /// The placeholder does not show what was told.
    lags: Cell<bool>,
    /// ... nor that it has become ready again.
    owes: Cell<bool>,
}

/// Where a file's board is.
struct Place {
    desk: Rc<Desk>,
    fd: i32,
    file: Weak<File>,
}

impl Telling {
    pub(crate) fn new(told: u32) -> Telling {
        Telling {
            told: Cell::new(told),
            board: RefCell::new(None),
            shared: Cell::new(false),
            lags: Cell::new(false),
            owes: Cell::new(false),
        }
    }

    /// What is true of the file, as last told.
    pub(crate) fn told(&self) -> u32 {
        self.told.get()
    }

    /// This is true, and of this it has become true again. Whether the placeholder need not show it.
    pub(crate) fn tell(&self, events: u32, again: u32) -> bool {
        let before = self.told.replace(events);
        let new = events & !before;
        if events == before && again == 0 {
            return self.lags.get();
        }
        let board = self.board.borrow();
        let Some(Place { desk, fd, file }) = board.as_ref().filter(|b| !b.desk.is_closed()) else {
            return false;
        };
        // Data that was there before is no news of room.
        let again = if again & IN != 0 { again & !OUT } else { again };
        let shared = self.shared.get();
        desk.tell(*fd, events, new | again, shared);
        if shared || !desk.answers() {
            return false;
        }
        if !self.lags.replace(true) {
            desk.lags(file.clone());
        }
        true
    }

    /// So many bytes can be sent for certain.
    pub(crate) fn tell_room(&self, room: u32) {
        let room = if self.shared.get() { 0 } else { room };
        if let Some(place) = self.board.borrow().as_ref().filter(|b| !b.desk.is_closed()) {
            place.desk.tell_room(place.fd, room);
        }
    }

    /// It became ready again, which the placeholder did not show.
    pub(crate) fn owe(&self) {
        self.owes.set(true);
    }

    /// If the placeholder lags, whether it owes an edge. It does not lag any more.
    pub(crate) fn catch_up(&self) -> Option<bool> {
        let owes = self.owes.take();
        self.lags.take().then_some(owes)
    }

    pub(crate) fn share(&self) {
        if !self.shared.replace(true) {
            if let Some(place) = self.board.borrow().as_ref().filter(|b| !b.desk.is_closed()) {
                place.desk.tell(place.fd, self.told.get(), 0, true);
            }
        }
    }
}

impl File {
    /// From now on it is told on the board of this number, if nowhere else.
    pub(crate) fn lay_open(self: &Rc<File>, desk: &Rc<Desk>, fd: i32) {
        let telling = &self.placeholder.telling;
        let mut board = telling.board.borrow_mut();
        let has_one = board.as_ref().is_some_and(|b| !b.desk.is_closed());
        if has_one || !self.followed.get() || !desk.has_board(fd) {
            return;
        }
        *board = Some(Place {
            desk: desk.clone(),
            fd,
            file: Rc::downgrade(self),
        });
        desk.tell(fd, telling.told.get(), 0, telling.shared.get());
    }

    /// The number of this process is not the file's any more.
    pub(crate) fn cover(&self, desk: &Rc<Desk>, fd: i32) {
        let telling = &self.placeholder.telling;
        let is_here = |b: &mut Place| b.fd == fd && Rc::ptr_eq(&b.desk, desk);
        telling.board.borrow_mut().take_if(is_here);
        self.placeholder.catch_up();
    }
}

/// Placeholders that lag, and how they are kept from it.
#[derive(Default)]
pub(crate) struct Laggards {
    files: RefCell<Vec<Weak<File>>>,
    /// Epoll instances of the process may be others', too.
    seen_by_others: Cell<bool>,
    closed: Cell<bool>,
}

impl Laggards {
    pub(crate) fn add(&self, file: Weak<File>) {
        self.files.borrow_mut().push(file);
    }

    /// All of them show now what is true.
    pub(crate) fn catch_up(&self) {
        for file in self.files.take() {
            if let Some(file) = file.upgrade() {
                file.placeholder.catch_up();
            }
        }
    }

    pub(crate) fn are_allowed(&self) -> bool {
        !self.seen_by_others.get() && !self.is_closed()
    }

    /// From now on there are none.
    pub(crate) fn forbid(&self) {
        self.seen_by_others.set(true);
        self.catch_up();
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.catch_up();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

impl Worker {
    /// Descriptors of the host's of this thread's process are about to be had by somebody else, under another number, or
    /// to be looked at: if one is an epoll instance, the library does not see all who look.
    pub(crate) fn show_to_others(&self, tid: i32, fds: &[i32]) {
        let table = self.table_of(tid);
        let desk = table
            .desk()
            .filter(|_| self.mail.is_some() && table.is_followed());
        let desk = desk.filter(|desk| desk.allows_lags());
        let is_epoll = |fd: &i32| target::is_epoll(tid, *fd);
        if desk.is_some() && fds.iter().any(is_epoll) {
            table.set_seen_by_others();
        }
    }
}
