//! A wire to another process that comes and goes: shared memory with whoever is met at a path.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::door::Door;
use super::far::{Deliver, Far, Line, Offloads};
use super::poll::{Poll, INPUT};
use super::shared::SharedFar;
use crate::Error;

/// A place to meet, and who is met.
pub(crate) struct MeetingFar {
    door: Door,
    far: Option<SharedFar>,
    poll: Poll,
    path: String,
}

impl MeetingFar {
    /// # Errors
    /// [`Error::Uplink`].
    pub(crate) fn open(path: &Path) -> Result<MeetingFar, Error> {
        let door = Door::open(path)?;
        let poll = Poll::new().and_then(|poll| poll.add(&door, INPUT).map(|()| poll));
        let failed = |e: io::Error| Error::Uplink(format!("the uplink at {}: {e}", path.display()));
        Ok(MeetingFar {
            door,
            far: None,
            poll: poll.map_err(failed)?,
            path: path.display().to_string(),
        })
    }

    /// Whoever has come takes the place of who has gone.
    fn meet(&mut self) {
        if self.far.as_ref().is_some_and(SharedFar::is_gone) {
            self.far = None;
            self.door.again();
        }
        let Some(half) = self.door.answer(self.far.is_some()) else {
            return;
        };
        let far = SharedFar::new(half).and_then(|far| {
            let added = self.poll.add(far.host(), INPUT);
            added.map_err(|e| Error::Uplink(e.to_string()))?;
            Ok(far)
        });
        match far {
            Ok(far) => self.far = Some(far),
            // For lack of descriptors or memory; the other side finds its own end closed.
            Err(_) => self.door.again(),
        }
    }
}

impl Far for MeetingFar {
    fn offloads(&self) -> Offloads {
        Offloads::All
    }

    fn host(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.poll)
    }

    fn line(&mut self) -> Line {
        self.meet();
        match self.far.as_mut().map(Far::line) {
            Some(Line::Up) => Line::Up,
            _ => Line::Down(format!("nobody else is at {}", self.path)),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, vink_kernel::Error> {
        match &mut self.far {
            Some(far) => far.receive(deliver),
            None => Ok(false),
        }
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.far.as_mut()?.room()
    }

    fn put(&mut self, length: usize) {
        if let Some(far) = &mut self.far {
            far.put(length);
        }
    }

    fn flush(&mut self) -> bool {
        self.far.as_mut().is_some_and(Far::flush)
    }

    fn lost(&self) -> u64 {
        self.far.as_ref().map_or(0, Far::lost)
    }
}
