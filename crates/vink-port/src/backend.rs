//! Backends: the host's side of an uplink, as a QEMU netdev backend is that of a virtual NIC.

use std::fmt;
use std::os::fd::BorrowedFd;

/// Bytes of a `struct virtio_net_hdr`, which says what is left to be done for a frame: its
/// checksum, and cutting it into packets. See Documentation/networking/tuntap.rst, "multiqueue",
/// and packet(7), `PACKET_VNET_HDR`.
pub const HEADER: usize = 10;

/// The largest frame, with its header: an IP packet of 64 KiB with an Ethernet header and two VLAN
/// tags.
pub const LARGEST: usize = HEADER + 14 + 8 + 65535;

/// The offloads that a backend supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// None: frames have no header, are complete, and no longer than the MTU.
    None,
    /// Of frames that it receives, which have a header in front. Those that it sends have one that
    /// says that nothing is left to be done, and are complete.
    Received,
    /// Checksums and the segmentation of TCP: a header is in front of each frame.
    Tcp,
    /// ... and of UDP.
    All,
}

/// The state of a backend's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Frames get through.
    Up,
    /// No peer; one may come, or come back. Why, as a sentence without a full stop.
    Down(String),
    /// The peer has gone and does not come back.
    Ended(String),
}

impl LinkState {
    /// Whether frames get through.
    pub fn is_up(&self) -> bool {
        *self == LinkState::Up
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkState::Up => f.write_str("up"),
            LinkState::Down(why) | LinkState::Ended(why) => f.write_str(why),
        }
    }
}

/// The taker of frames has failed, which it knows more of, and takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// Takes one frame from the backend.
pub type Deliver<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Stop>;

/// The host's side of an uplink. No function blocks.
///
/// A failed peer is no error of these functions: [`Backend::link_state`] says what is wrong.
pub trait Backend {
    /// The offloads that it supports; none, as long as it does not say more.
    fn offloads(&self) -> Offloads {
        Offloads::None
    }

    /// A descriptor that is readable while there is something to do: frames, room after
    /// [`Backend::room`] found none, a connection, a change of the link's state.
    fn host(&self) -> BorrowedFd<'_>;

    /// Serves connections and timers, and returns the link's state. While it is not up, no frame is
    /// put.
    fn link_state(&mut self) -> LinkState;

    /// Delivers received frames, up to a budget. True if more may be there for which the descriptor
    /// is not readable.
    ///
    /// # Errors
    /// [`Stop`], if `deliver` answers it.
    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop>;

    /// The buffer for the next frame, [`LARGEST`] bytes; `None` if the backend is full.
    fn room(&mut self) -> Option<&mut [u8]>;

    /// A frame of so many bytes is in that buffer.
    fn put(&mut self, length: usize);

    /// Sends as many frames as possible. True if [`Backend::receive`] now has frames for which the
    /// descriptor is not readable.
    fn flush(&mut self) -> bool;

    /// Frames that this backend has lost since it was made.
    fn lost(&self) -> u64;

    /// Frames that this backend was not allowed to send.
    fn refused(&self) -> u64 {
        0
    }

    /// What it leads to is gone, and takes opening anew to come back.
    fn is_gone(&self) -> bool {
        false
    }

    /// The MTU: bytes of a packet without the Ethernet header.
    fn mtu(&self) -> u32 {
        1500
    }
}
