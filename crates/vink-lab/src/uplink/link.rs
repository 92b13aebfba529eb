//! The frames between a TAP interface and the host's side.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use vink_kernel::{Kernel, TaskId};
use vink_trap::{Device, Wants};

use super::far::{Far, Line, LARGEST};
use super::tap::Tap;

/// Frames read of the interface before it is the others' turn.
const TURN: usize = 256;

/// How an uplink is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether frames get through.
    pub line: Line,
    /// Somebody is there who has not answered yet: the line will be up in a moment.
    pub coming: bool,
    /// Frames sent to the outside.
    pub sent: u64,
    /// Frames received from it.
    pub received: u64,
    /// Frames that were lost between interface and outside: malformed ones, and those that came while there was
    /// no room for them.
    pub lost: u64,
}

/// The device.
pub(crate) struct Link {
    tap: Tap,
    far: Box<dyn Far>,
    /// For frames that nobody takes.
    waste: Vec<u8>,
    /// Frames that the machine's kernel would not have.
    refused: u64,
    state: Rc<RefCell<State>>,
}

impl Link {
    /// Between this interface and that. The interface's carrier follows the line; it is gone when the line has
    /// ended. `state` tells how it is.
    pub(crate) fn new(tap: Tap, far: Box<dyn Far>) -> (Link, Rc<RefCell<State>>) {
        let state = Rc::new(RefCell::new(State {
            coming: false,
            line: Line::Up,
            sent: 0,
            received: 0,
            lost: 0,
        }));
        let link = Link {
            tap,
            far,
            waste: Vec::new(),
            refused: 0,
            state: state.clone(),
        };
        (link, state)
    }

    /// Writes frames from outside to the machine; true if more are there.
    fn inwards(&mut self, kernel: &mut Kernel) -> Result<bool, vink_kernel::Error> {
        let mut received = 0;
        let more = self.far.receive(&mut |frame| {
            // One that is not taken is lost, as on any wire.
            match self.tap.write(kernel, frame)? {
                true => received += 1,
                false => self.refused += 1,
            }
            Ok(())
        })?;
        self.state.borrow_mut().received += received;
        Ok(more)
    }

    /// Reads frames of the machine, until there are none, or none is taken; true if there may be more to do.
    fn outwards(&mut self, kernel: &mut Kernel) -> Result<bool, vink_kernel::Error> {
        let mut turn = 0;
        while turn < TURN {
            let before = turn;
            while let Some(room) = self.far.room() {
                let Some(length) = self.tap.read(kernel, room)? else {
                    return Ok(self.far.flush());
                };
                self.far.put(length);
                self.state.borrow_mut().sent += 1;
                turn += 1;
            }
            if self.far.flush() {
                return Ok(true);
            }
            if turn == before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has the interface show what has become of the line.
    fn change(&mut self, kernel: &mut Kernel, line: Line) -> Result<(), vink_kernel::Error> {
        if line.is_up() != self.state.borrow().line.is_up() {
            self.tap.carrier(kernel, line.is_up())?;
        }
        if !line.is_up() {
            // What waited for a far side that has gone is not for the next one.
            self.waste.resize(LARGEST, 0);
            while self.tap.read(kernel, &mut self.waste)?.is_some() {}
        }
        self.state.borrow_mut().line = line;
        Ok(())
    }
}

impl Device for Link {
    fn host(&self) -> BorrowedFd<'_> {
        self.far.host()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        Some((self.tap.task, self.tap.file))
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Wants, vink_kernel::Error> {
        let mut more = self.inwards(kernel)?;
        if self.state.borrow().line.is_up() {
            more |= self.outwards(kernel)?;
        }
        let line = self.far.line();
        if line != self.state.borrow().line {
            // What came first may have come already.
            more |= line.is_up();
            self.change(kernel, line)?;
        }
        let state = &mut *self.state.borrow_mut();
        state.lost = self.refused + self.far.lost();
        if let Line::Ended(_) = state.line {
            // The interface goes with its descriptor.
            kernel.exit_task(self.tap.task, 0, true)?;
            return Ok(Wants::Nothing);
        }
        Ok(if more { Wants::Again } else { Wants::Input })
    }
}
