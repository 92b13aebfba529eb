//! The host's side of an uplink: where a machine's frames go, and where others come from.

use std::fmt;
use std::os::fd::BorrowedFd;

use vink_kernel::Error;

/// Bytes of a `struct virtio_net_hdr`, which says what is left to be done for a frame: its checksum, and cutting
/// it into packets. See Documentation/networking/tuntap.rst, "multiqueue", and packet(7), `PACKET_VNET_HDR`.
pub(crate) const HEADER: usize = 10;

/// The largest frame, with its header: an IP packet of 64 KiB with an Ethernet header and two VLAN tags.
pub(crate) const LARGEST: usize = HEADER + 14 + 8 + 65535;

/// What the far side can do for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offloads {
    /// Nothing: frames are bare, complete, and no longer than the MTU.
    None,
    /// Checksums and the segmentation of TCP: a header is in front of each frame.
    Tcp,
    /// ... and of UDP.
    All,
}

/// Whether frames get through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// They do.
    Up,
    /// The far side is not there; it may come, or come back. Why, as a sentence without a full stop.
    Down(String),
    /// ... and does not come back.
    Ended(String),
}

impl Line {
    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        *self == Line::Up
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Up => f.write_str("up"),
            Line::Down(why) | Line::Ended(why) => f.write_str(why),
        }
    }
}

/// Takes one frame of the far side's.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Error>;

/// The host's side of an uplink. Nothing here waits.
///
/// What is wrong with the far side is no error of these functions: [`Far::line`] tells.
pub(crate) trait Far {
    /// What it can do for frames.
    fn offloads(&self) -> Offloads;

    /// A descriptor that is readable as long as there is something to do: frames, room where there was none
    /// when last asked, a connection, a change of the line.
    fn host(&self) -> BorrowedFd<'_>;

    /// Looks after connections, timers, and whatever else is not a frame; whether frames get through. If they
    /// do not, nothing is put.
    fn line(&mut self) -> Line;

    /// Delivers frames that have come: not all, if there are many. True if more may be there that the
    /// descriptor does not tell of.
    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Error>;

    /// Where the next frame is to be put, [`LARGEST`] bytes; `None` if none is taken now.
    fn room(&mut self) -> Option<&mut [u8]>;

    /// That many bytes have been put there: a frame.
    fn put(&mut self, length: usize);

    /// Sends what has been put, as far as possible. True if [`Far::receive`] has something by that which the
    /// descriptor does not tell of.
    fn flush(&mut self) -> bool;

    /// Frames that were lost here, since it was made.
    fn lost(&self) -> u64;

    /// The largest packet that it takes, in bytes without the Ethernet header, if nothing is said otherwise.
    fn mtu(&self) -> u32 {
        1500
    }
}
