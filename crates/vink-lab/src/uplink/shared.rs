//! A wire between two workers: the image's own end, by rings in memory that both share (`vink_kernel`'s `shared.rs`).
//!
//! What is left for a device is to listen to the other worker's bell.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use vink_kernel::{halves, EndId, Half, Kernel, Other, TaskId, WireId};
use vink_trap::{Device, DeviceId, Site, Wants};

use super::door::Door;
use super::far::Line;
use super::link::State;
use super::poll::{Poll, INPUT};
use crate::Error;

/// Makes both ends of a wire between two workers. Whoever makes it must not keep either: the end of a worker shows
/// when the last descriptor of its half is closed.
///
/// # Errors
/// [`Error::Uplink`]: the host is out of descriptors or memory.
pub fn shared() -> Result<[Half; 2], Error> {
    halves().map_err(|e| Error::Uplink(format!("making a wire in shared memory: {e}")))
}

/// The bell of one end; and the door to who comes to ring it, if that one may come and go.
pub(crate) struct Bell {
    end: EndId,
    bell: OwnedFd,
    door: Option<(Door, String)>,
    /// Nobody is at the door's other side.
    alone: bool,
    poll: Poll,
    state: Rc<RefCell<State>>,
}

/// What is attached to a wire.
pub(crate) type Attached = (EndId, DeviceId, Rc<RefCell<State>>);

/// An end of the wire that leads to another worker, and what listens to that. Frames are counted at the end.
///
/// # Errors
/// [`Error::Kernel`]: there is no such wire, or it has all its ends, or these are not what [`shared`] made.
pub(crate) fn attach(site: &mut impl Site, wire: WireId, half: Half) -> Result<Attached, Error> {
    attach_with(site, wire, half, None)
}

/// The same with whoever is met at a path.
///
/// # Errors
/// As [`attach`]; [`Error::Uplink`]: the path can't be met at.
pub(crate) fn meet(site: &mut impl Site, wire: WireId, path: &Path) -> Result<Attached, Error> {
    let door = Door::open(path)?;
    // Until somebody comes, nobody has the other half.
    let [nobody, _] = shared()?;
    attach_with(site, wire, nobody, Some((door, path.display().to_string())))
}

fn attach_with(
    site: &mut impl Site,
    wire: WireId,
    half: Half,
    door: Option<(Door, String)>,
) -> Result<Attached, Error> {
    let poll = |bell: &OwnedFd| -> io::Result<Poll> {
        let poll = Poll::new()?;
        match &door {
            Some((door, _)) => poll.add(door, INPUT)?,
            None => poll.add(bell, INPUT)?,
        }
        Ok(poll)
    };
    let (end, bell) = site.kernel().share(wire, half)?;
    let made = poll(&bell).map_err(|e| Error::Uplink(format!("a wire to another process: {e}")));
    let attached = made.and_then(|poll| {
        let state = Rc::new(RefCell::new(State {
            line: Line::Down("the other worker is not there yet".to_owned()),
            coming: door.as_ref().is_some_and(|(door, _)| door.is_guest()),
            sent: 0,
            received: 0,
            lost: 0,
        }));
        let device = Bell {
            end,
            bell,
            alone: door.is_some(),
            door,
            poll,
            state: state.clone(),
        };
        let device = site.attach_device(Box::new(device))?;
        Ok((end, device, state))
    });
    attached.inspect_err(|_| {
        // What went wrong first is what matters.
        let _ = site.kernel().detach(end);
    })
}

impl Bell {
    /// Whoever has come takes the place of who has gone.
    fn look_after_door(&mut self, kernel: &mut Kernel) -> Result<(), vink_kernel::Error> {
        let Some((door, _)) = &mut self.door else {
            return Ok(());
        };
        if let (false, Other::Gone(_)) = (self.alone, kernel.hear(self.end)?) {
            self.alone = true;
            // It is closed when the next one comes, at the latest.
            let _ = self.poll.remove(&self.bell);
            door.again();
        }
        let Some(half) = door.answer(!self.alone) else {
            return Ok(());
        };
        let shared = match kernel.share_anew(self.end, half) {
            Ok(bell) => self.poll.add(&bell, INPUT).map(|()| bell).ok(),
            Err(vink_kernel::Error::Errno { .. }) => None,
            Err(error) => return Err(error),
        };
        match shared {
            Some(bell) => (self.bell, self.alone) = (bell, false),
            // For lack of descriptors or memory; the other side finds its own end closed.
            None => door.again(),
        }
        Ok(())
    }
}

impl Device for Bell {
    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        None
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Wants, vink_kernel::Error> {
        let looked = self.look_after_door(kernel);
        let other = match looked.and_then(|()| kernel.hear(self.end)) {
            // It went with its wire.
            Err(vink_kernel::Error::NoSuchEnd) => return Ok(Wants::Nothing),
            heard => heard?,
        };
        let (line, wants) = match (other, &self.door) {
            (Other::There, _) => (Line::Up, Wants::Input),
            (_, Some((_, path))) => {
                let why = format!("nobody else is at {path}");
                (Line::Down(why), Wants::Input)
            }
            (Other::Awaited, None) => {
                let why = "the other worker is not there yet".to_owned();
                (Line::Down(why), Wants::Input)
            }
            (Other::Gone(why), None) => (Line::Down(why.to_owned()), Wants::Nothing),
        };
        let mut state = self.state.borrow_mut();
        let is_guest = self.door.as_ref().is_some_and(|(door, _)| door.is_guest());
        state.coming = !line.is_up() && (is_guest || !self.alone);
        state.line = line;
        Ok(wants)
    }
}
