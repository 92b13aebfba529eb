//! A wire between two workers: the image's own end, by rings in memory that both share (`vink_kernel`'s `shared.rs`).
//!
//! What is left for a device is to listen to the other worker's bell.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use vink_kernel::{halves, EndId, Half, Kernel, Other, TaskId, WireId};
use vink_trap::{Device, DeviceId, Site, Wants};

use super::far::Line;
use super::link::State;
use crate::Error;

/// Makes both ends of a wire between two workers. Whoever makes it must not keep either: the end of a worker shows
/// when the last descriptor of its half is closed.
///
/// # Errors
/// [`Error::Uplink`]: the host is out of descriptors or memory.
pub fn shared() -> Result<[Half; 2], Error> {
    halves().map_err(|e| Error::Uplink(format!("making a wire in shared memory: {e}")))
}

/// The bell of one end.
pub(crate) struct Bell {
    end: EndId,
    bell: OwnedFd,
    state: Rc<RefCell<State>>,
}

/// An end of the wire that leads to another worker, and what listens to that. Frames are counted at the end.
///
/// # Errors
/// [`Error::Kernel`]: there is no such wire, or it has all its ends, or these are not what [`shared`] made.
pub(crate) fn attach(
    site: &mut impl Site,
    wire: WireId,
    half: Half,
) -> Result<(EndId, DeviceId, Rc<RefCell<State>>), Error> {
    let (end, bell) = site.kernel().share(wire, half)?;
    let state = Rc::new(RefCell::new(State {
        line: line(Other::Awaited),
        sent: 0,
        received: 0,
        lost: 0,
    }));
    let device = Bell {
        end,
        bell,
        state: state.clone(),
    };
    match site.attach_device(Box::new(device)) {
        Ok(device) => Ok((end, device, state)),
        Err(error) => {
            // What went wrong first is what matters.
            let _ = site.kernel().detach(end);
            Err(error.into())
        }
    }
}

fn line(other: Other) -> Line {
    match other {
        Other::Awaited => Line::Down("the other worker is not there yet".to_owned()),
        Other::There => Line::Up,
        Other::Gone(why) => Line::Down(why.to_owned()),
    }
}

impl Device for Bell {
    fn host(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        None
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Wants, vink_kernel::Error> {
        let other = match kernel.hear(self.end) {
            // It went with its wire.
            Err(vink_kernel::Error::NoSuchEnd) => return Ok(Wants::Nothing),
            heard => heard?,
        };
        self.state.borrow_mut().line = line(other);
        Ok(match other {
            Other::Gone(_) => Wants::Nothing,
            Other::Awaited | Other::There => Wants::Input,
        })
    }
}
