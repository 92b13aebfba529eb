//! The device that moves frames between a TAP interface and a backend.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use vink_kernel::{Device, Interest, Kernel, TaskId};
use vink_port::{Backend, LinkState, Stop, LARGEST};

use super::tap::Tap;

/// Frames read from the interface before other devices are served.
const FRAME_BUDGET: usize = 256;

/// The state of an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UplinkState {
    /// Whether frames get through.
    pub link: LinkState,
    /// A peer is there and has not answered yet: the link is about to be up.
    pub coming: bool,
    /// Frames sent by the backend.
    pub sent: u64,
    /// Frames received from the backend.
    pub received: u64,
    /// Frames lost between interface and backend: malformed ones, and those for which there was no
    /// room.
    pub lost: u64,
    /// What came and is none of the peer's: of a wire between hosts.
    pub rejected: u64,
}

/// Moves frames between a TAP interface and a backend.
pub(crate) struct UplinkDevice {
    tap: Tap,
    backend: Box<dyn Backend>,
    /// Discarded frames are read into this.
    waste: Vec<u8>,
    /// Frames that the machine's kernel refused.
    refused: u64,
    state: Rc<RefCell<UplinkState>>,
}

impl UplinkDevice {
    /// The interface's carrier follows the backend's link; the interface is removed when the link
    /// has ended.
    pub(crate) fn new(
        tap: Tap,
        backend: Box<dyn Backend>,
    ) -> (UplinkDevice, Rc<RefCell<UplinkState>>) {
        let state = Rc::new(RefCell::new(UplinkState {
            coming: false,
            link: LinkState::Up,
            sent: 0,
            received: 0,
            lost: 0,
            rejected: 0,
        }));
        let device = UplinkDevice {
            tap,
            backend,
            waste: Vec::new(),
            refused: 0,
            state: state.clone(),
        };
        (device, state)
    }

    /// Writes the backend's frames to the interface; true if more are there.
    fn receive_frames(&mut self, kernel: &mut Kernel) -> Result<bool, vink_kernel::Error> {
        let mut received = 0;
        let mut failed = None;
        let more = self.backend.receive(&mut |frame| {
            match self.tap.write(kernel, frame) {
                Ok(true) => received += 1,
                // A frame that the kernel refuses is lost, as on any wire.
                Ok(false) => self.refused += 1,
                Err(error) => {
                    failed = Some(error);
                    return Err(Stop);
                }
            }
            Ok(())
        });
        self.state.borrow_mut().received += received;
        match failed {
            Some(error) => Err(error),
            None => Ok(more.unwrap_or(false)),
        }
    }

    /// Sends the interface's frames until there are none or the backend is full; true if there may
    /// be more to do.
    fn send_frames(&mut self, kernel: &mut Kernel) -> Result<bool, vink_kernel::Error> {
        let mut turn = 0;
        while turn < FRAME_BUDGET {
            let before = turn;
            while let Some(room) = self.backend.room() {
                let Some(length) = self.tap.read(kernel, room)? else {
                    return Ok(self.backend.flush());
                };
                self.backend.put(length);
                self.state.borrow_mut().sent += 1;
                turn += 1;
            }
            if self.backend.flush() {
                return Ok(true);
            }
            if turn == before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets the interface's carrier to the link's state.
    fn change(&mut self, kernel: &mut Kernel, link: LinkState) -> Result<(), vink_kernel::Error> {
        if link.is_up() != self.state.borrow().link.is_up() {
            self.tap.carrier(kernel, link.is_up())?;
        }
        if !link.is_up() {
            // Frames queued for a peer that has gone are not for the next one.
            self.waste.resize(LARGEST, 0);
            while self.tap.read(kernel, &mut self.waste)?.is_some() {}
        }
        self.state.borrow_mut().link = link;
        Ok(())
    }
}

impl Device for UplinkDevice {
    fn host(&self) -> BorrowedFd<'_> {
        self.backend.host()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        Some((self.tap.task, self.tap.file))
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Interest, vink_kernel::Error> {
        let mut more = self.receive_frames(kernel)?;
        if self.state.borrow().link.is_up() {
            more |= self.send_frames(kernel)?;
        }
        let link = self.backend.link_state();
        if link != self.state.borrow().link {
            // The first frames may have arrived already.
            more |= link.is_up();
            self.change(kernel, link)?;
        }
        let state = &mut *self.state.borrow_mut();
        state.lost = self.refused + self.backend.lost();
        state.rejected = self.backend.refused();
        if let LinkState::Ended(_) = state.link {
            // The interface goes with its descriptor.
            kernel.exit_task(self.tap.task, 0, true)?;
            return Ok(Interest::Ended);
        }
        Ok(if more {
            Interest::Unfinished
        } else {
            Interest::Readable
        })
    }
}
