//! A wire between two workers: the image's own end, by rings in memory that both share
//! (`vink-port`).
//!
//! The device here waits for the other worker's doorbell.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use vink_kernel::{Device, DeviceHost, DeviceId, EndId, Interest, Kernel, TaskId, WireId};

use vink_port::{halves, Half, LinkState, PeerState, Poll, Rendezvous, INPUT};

use super::device::UplinkState;
use crate::Error;

/// Makes both ends of a wire between two workers. The caller must not keep either: a worker's end
/// is seen when the last descriptor of its half is closed.
///
/// # Errors
/// [`Error::Uplink`]: the host is out of descriptors or memory.
pub fn shared() -> Result<[Half; 2], Error> {
    halves().map_err(|e| Error::Uplink(format!("making a wire in shared memory: {e}")))
}

/// The device of one end: its doorbell, and the rendezvous at which peers are met, if they may come
/// and go.
pub(crate) struct SharedWireDevice {
    end: EndId,
    doorbell: OwnedFd,
    rendezvous: Option<(Rendezvous, String)>,
    /// No peer has met this process at the rendezvous.
    alone: bool,
    poll: Poll,
    /// How often it was served for its doorbell alone since the rendezvous was last looked at.
    rings: u32,
    state: Rc<RefCell<UplinkState>>,
}

/// So often a doorbell is answered before the rendezvous is looked at again, which costs more.
const MOST_RINGS: u32 = 64;

/// A wire's end, its device, and the state of its uplink.
pub(crate) type Attached = (EndId, DeviceId, Rc<RefCell<UplinkState>>);

/// Attaches the wire to another worker. Frames are counted at the wire's end.
///
/// # Errors
/// [`Error::Kernel`]: there is no such wire, or it has all its ends, or these are not what [`shared`] made.
pub(crate) fn attach(
    host: &mut impl DeviceHost,
    wire: WireId,
    half: Half,
) -> Result<Attached, Error> {
    attach_with(host, wire, half, None)
}

/// Attaches the wire to the process that is met at a path.
///
/// # Errors
/// As [`attach`]; [`Error::Uplink`]: the path can't be met at.
pub(crate) fn meet(
    host: &mut impl DeviceHost,
    wire: WireId,
    path: &Path,
) -> Result<Attached, Error> {
    let rendezvous = Rendezvous::open(path)?;
    // No process has the other half until a peer comes.
    let [unpaired, _] = shared()?;
    attach_with(
        host,
        wire,
        unpaired,
        Some((
            rendezvous,
            format!("no other Vink is at {}", path.display()),
        )),
    )
}

/// Attaches the wire to the driver process that asks by the other end of a socket.
///
/// # Errors
/// As [`attach`]; [`Error::Uplink`].
pub(crate) fn meet_driver(
    host: &mut impl DeviceHost,
    wire: WireId,
    socket: OwnedFd,
) -> Result<Attached, Error> {
    let rendezvous = Rendezvous::host(socket)?;
    let [unpaired, _] = shared()?;
    let absent = "its driver process does not run, or what that leads to is down".to_owned();
    attach_with(host, wire, unpaired, Some((rendezvous, absent)))
}

/// Attaches the wire to the process that a broker meets at a path; the socket is the broker's other
/// end.
///
/// # Errors
/// As [`attach`]; [`Error::Uplink`].
pub(crate) fn meet_by_broker(
    host: &mut impl DeviceHost,
    wire: WireId,
    socket: OwnedFd,
) -> Result<Attached, Error> {
    let mut rendezvous = Rendezvous::asker(socket)?;
    rendezvous.again();
    let [unpaired, _] = shared()?;
    let absent = "no other Vink is at the path of the uplink".to_owned();
    attach_with(host, wire, unpaired, Some((rendezvous, absent)))
}

fn attach_with(
    host: &mut impl DeviceHost,
    wire: WireId,
    half: Half,
    rendezvous: Option<(Rendezvous, String)>,
) -> Result<Attached, Error> {
    let poll = |doorbell: &OwnedFd| -> io::Result<Poll> {
        let poll = Poll::new()?;
        match &rendezvous {
            Some((rendezvous, _)) => poll.add(rendezvous, INPUT)?,
            None => poll.add(doorbell, INPUT)?,
        }
        Ok(poll)
    };
    let (end, doorbell) = host.kernel().share(wire, half)?;
    let made =
        poll(&doorbell).map_err(|e| Error::Uplink(format!("a wire to another process: {e}")));
    let attached = made.and_then(|poll| {
        let state = Rc::new(RefCell::new(UplinkState {
            link: LinkState::Down("the other worker is not there yet".to_owned()),
            coming: rendezvous
                .as_ref()
                .is_some_and(|(rendezvous, _)| rendezvous.is_guest()),
            sent: 0,
            received: 0,
            lost: 0,
            rejected: 0,
        }));
        let device = SharedWireDevice {
            end,
            doorbell,
            alone: rendezvous.is_some(),
            rendezvous,
            poll,
            rings: 0,
            state: state.clone(),
        };
        let device = host.attach_device(Box::new(device))?;
        Ok((end, device, state))
    });
    attached.inspect_err(|_| {
        // What went wrong first is what matters.
        let _ = host.kernel().detach(end);
    })
}

impl SharedWireDevice {
    /// How the peer is now; `None`: it has only rung. What waits at the rendezvous meanwhile is
    /// readable still.
    fn peer(&mut self, kernel: &mut Kernel) -> Result<Option<PeerState>, vink_kernel::Error> {
        let (peer, rang) = kernel.listen(self.end)?;
        let was_up = self.state.borrow().link.is_up();
        if rang && was_up && peer == PeerState::Present && self.rings < MOST_RINGS {
            self.rings += 1;
            return Ok(None);
        }
        self.rings = 0;
        Ok(Some(match self.poll_rendezvous(kernel, peer)? {
            true => kernel.hear(self.end)?,
            false => peer,
        }))
    }

    /// Replaces a peer that has gone by one that has come. Whether it has.
    fn poll_rendezvous(
        &mut self,
        kernel: &mut Kernel,
        peer: PeerState,
    ) -> Result<bool, vink_kernel::Error> {
        let Some((rendezvous, _)) = &mut self.rendezvous else {
            return Ok(false);
        };
        if let (false, PeerState::Gone(_)) = (self.alone, peer) {
            self.alone = true;
            // It is closed when the next one comes, at the latest.
            let _ = self.poll.remove(&self.doorbell);
            rendezvous.again();
        }
        let Some(half) = rendezvous.answer(!self.alone) else {
            return Ok(false);
        };
        let shared = match kernel.share_anew(self.end, half) {
            Ok(doorbell) => self.poll.add(&doorbell, INPUT).map(|()| doorbell).ok(),
            Err(vink_kernel::Error::Errno { .. }) => None,
            Err(error) => return Err(error),
        };
        match shared {
            Some(doorbell) => (self.doorbell, self.alone) = (doorbell, false),
            // Out of descriptors or memory: the peer finds its own end closed.
            None => rendezvous.again(),
        }
        Ok(true)
    }
}

impl Device for SharedWireDevice {
    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        None
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Interest, vink_kernel::Error> {
        let other = match self.peer(kernel) {
            Ok(Some(peer)) => peer,
            Ok(None) => return Ok(Interest::Readable),
            // It went with its wire.
            Err(vink_kernel::Error::NoSuchEnd) => return Ok(Interest::Ended),
            Err(error) => return Err(error),
        };
        let (link, interest) = match (other, &self.rendezvous) {
            (PeerState::Present, _) => (LinkState::Up, Interest::Readable),
            (_, Some((_, absent))) => (LinkState::Down(absent.clone()), Interest::Readable),
            (PeerState::Awaited, None) => {
                let why = "the other worker is not there yet".to_owned();
                (LinkState::Down(why), Interest::Readable)
            }
            (PeerState::Gone(why), None) => (LinkState::Down(why.to_owned()), Interest::Ended),
        };
        let mut state = self.state.borrow_mut();
        let is_guest = self
            .rendezvous
            .as_ref()
            .is_some_and(|(rendezvous, _)| rendezvous.is_guest());
        state.coming = !link.is_up() && (is_guest || !self.alone);
        state.link = link;
        Ok(interest)
    }
}
