//! Verdicts: the host decides what becomes of packets that pass an end of a wire, as with
//! netfilter's queues.
//!
//! The kernel asks in the middle of its work and waits for the verdict. A packet that is held stays
//! in the kernel; packets behind it must be held too ([`Hold::Again`]), or they overtake it.

use std::ffi::CStr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use vink_abi::{
    VINK_ASK_ARRIVAL, VINK_ASK_DEPARTURE, VINK_ASK_DROP, VINK_ASK_FRAMES, VINK_ASK_LOSS,
    VINK_ASK_MARK, VINK_CALL_WIRE_RELEASE, VINK_NEVER, VINK_PACKET_DEPARTURE, VINK_PACKET_FLIGHT,
    VINK_VERDICT_AGAIN, VINK_VERDICT_CORRUPT, VINK_VERDICT_DROP, VINK_VERDICT_TAKE,
    VINK_VERDICT_UNCOUNTED,
};

use crate::arena::Arena;
use crate::host::slice;
use crate::wire::kind_of;
use crate::{EndId, Error, Kernel, PacketKind};

/// The most bytes of a socket that can be read.
const SOCKET: usize = 8192;

/// Which packets of an end are asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHooks {
    /// Those that its interface has sent, before the wire has them.
    pub departures: bool,
    /// Those that the wire has carried to it, before the interface has them.
    pub arrivals: bool,
    /// Those that the wire has lost, or the stack dropped: their verdicts are ignored.
    pub losses: bool,
    /// Each as an Ethernet frame of the MTU that has its checksums: what was sent in one piece is
    /// segmented before.
    pub frames: bool,
    /// With the marks of those that depart.
    pub marks: bool,
}

/// A packet that is asked about.
#[derive(Debug)]
pub struct PacketQuery<'a> {
    /// On [`Kernel::now`]'s clock, ns.
    pub time: u64,
    /// Where it is.
    pub end: EndId,
    /// What happens to it.
    pub kind: PacketKind,
    /// Its length in bytes.
    pub len: u32,
    /// Its first bytes, 65,535 at most.
    pub bytes: &'a [u8],
    /// It was dropped before it had an Ethernet header: the bytes begin with the network's.
    pub headless: bool,
    /// It is one of the host's ([`Puts`](crate::Puts)).
    pub put: bool,
    /// The mark that the stack's rules have given it: nftables' `meta mark`, tc's `skbedit mark`, or
    /// `SO_MARK`. Of one that departs, where [`PacketHooks::marks`] asks for it; else 0.
    pub mark: u32,
    /// Of a TCP segment: the memory from the `struct tcp_sock` on of the connection that has sent
    /// it, or that it comes for, on the machine of this end. Empty: it is of none.
    pub socket: &'a [u8],
}

/// What becomes of a packet. The default lets it pass unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The host has copied it, and it is gone; see [`Kernel::on_taken`]. Nothing else counts then.
    pub take: bool,
    /// The wire loses it.
    pub drop: bool,
    /// This bit of it is changed, counted from the Ethernet header on, modulo how many it has.
    pub corrupt: Option<u32>,
    /// So many copies pass with it, 64 at most.
    pub copies: u32,
    /// It passes later by so much.
    pub delay: Duration,
    /// It passes behind so many later packets, and after `delay` at the latest; 0: after the delay.
    pub behind: u32,
    /// Packets that wait to be behind others do not count this one.
    pub uncounted: bool,
    /// Whether it is held.
    pub hold: Hold,
}

/// Whether a packet waits for [`Kernel::release`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It passes.
    #[default]
    No,
    /// It is held, then it passes.
    Stay,
    /// It is held; then it is asked about again.
    Again,
}

/// Says what becomes of a packet.
pub type Answer = Box<dyn FnMut(&PacketQuery<'_>) -> Verdict + Send>;

/// The callback that gives verdicts.
#[derive(Default)]
pub(crate) struct Verdicts(Option<Answer>);

impl Verdicts {
    /// Asks.
    pub fn ask(&mut self, packet: &PacketQuery<'_>) -> vink_abi::Verdict {
        let Some(answer) = self.0.as_mut() else {
            return vink_abi::Verdict::default();
        };
        // The kernel's frames below can't be unwound. One that panics is not asked again.
        match catch_unwind(AssertUnwindSafe(|| answer(packet))) {
            Ok(verdict) => verdict.for_image(),
            Err(_) => {
                self.0 = None;
                vink_abi::Verdict::default()
            }
        }
    }
}

impl<'a> PacketQuery<'a> {
    /// What an image tells of a packet. `arena` is its kernel's memory.
    ///
    /// # Safety
    /// The packet is as abi.h says, and the kernel does nothing else as long as this is used.
    pub(crate) unsafe fn new(packet: &'a vink_abi::Packet, arena: &Arena) -> PacketQuery<'a> {
        let socket = SOCKET.min(arena.len_from(packet.sock));
        // SAFETY: by contract: so many bytes, and a terminated name; and what the arena has.
        let (bytes, name, socket) = unsafe {
            (
                slice(packet.bytes.cast(), packet.captured as usize),
                (!packet.name.is_null()).then(|| CStr::from_ptr(packet.name)),
                slice(packet.sock.cast(), socket),
            )
        };
        PacketQuery {
            time: packet.time,
            end: EndId(packet.end),
            kind: kind_of(packet.kind, packet.reason, name),
            len: packet.len,
            bytes,
            headless: packet.headless != 0,
            put: packet.put != 0,
            mark: match packet.kind {
                VINK_PACKET_DEPARTURE => packet.reason,
                _ => 0,
            },
            socket,
        }
    }
}

impl Verdict {
    fn for_image(self) -> vink_abi::Verdict {
        let flags = [
            (self.take, VINK_VERDICT_TAKE),
            (self.drop, VINK_VERDICT_DROP),
            (self.corrupt.is_some(), VINK_VERDICT_CORRUPT),
            (self.hold == Hold::Again, VINK_VERDICT_AGAIN),
            (self.uncounted, VINK_VERDICT_UNCOUNTED),
        ];
        let delay = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX - 1);
        vink_abi::Verdict {
            flags: flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum(),
            copies: self.copies,
            delay: match self.hold {
                Hold::No => delay.min(u64::MAX / 4),
                Hold::Stay | Hold::Again => VINK_NEVER,
            },
            behind: self.behind,
            bit: self.corrupt.unwrap_or(0),
        }
    }
}

impl Kernel {
    /// Sets the function that is asked for verdicts. Its answer is waited for in the middle of the
    /// kernel.
    pub fn on_passing(&mut self, answer: Answer) {
        self.host.verdicts.borrow_mut().0 = Some(answer);
    }

    /// From now on asks about these packets of an end.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`]; [`Error::Errno`]: `EINVAL`, the image was built before it could ask;
    /// `ENOMEM`.
    pub fn ask(&mut self, end: EndId, asks: PacketHooks) -> Result<(), Error> {
        let mask = [
            (asks.departures, VINK_ASK_DEPARTURE),
            (asks.arrivals, VINK_ASK_ARRIVAL),
            (asks.losses, VINK_ASK_LOSS | VINK_ASK_DROP),
            (asks.frames, VINK_ASK_FRAMES),
            (asks.marks, VINK_ASK_MARK),
        ];
        let mask: u32 = mask.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
        let (told, bytes) = self.told.get(&end).copied().unwrap_or((0, 0));
        let flights = self.asked.get(&end).copied().unwrap_or(0) & VINK_PACKET_FLIGHT;
        let mask = mask | flights;
        self.tell_of(end, told | mask, bytes)?;
        match mask {
            0 => self.asked.remove(&end),
            mask => self.asked.insert(end, mask),
        };
        Ok(())
    }

    /// Lets packets go on that are held at an end ([`Hold`]).
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`].
    pub fn release(&mut self, end: EndId) -> Result<(), Error> {
        let args = [end.0, 0, 0, 0, 0, 0];
        self.at_end("let packets go on", VINK_CALL_WIRE_RELEASE, args)
    }
}
