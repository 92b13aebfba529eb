//! Wires between machines of one kernel: what they do to packets, and what they tell of them.
//!
//! An *end* is an interface of a machine, named and configured there as any other one (ip-link(8));
//! it is made by [`Kernel::attach`] and goes with [`Kernel::detach`], its wire or its machine. What
//! the settings do is said in docs/wires.md.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fmt;
use std::time::Duration;

use libc::{EINVAL, ESRCH};
use vink_abi::{
    WireStats, VINK_CALL_WIRE_ATTACH, VINK_CALL_WIRE_CREATE, VINK_CALL_WIRE_DESTROY,
    VINK_CALL_WIRE_DETACH, VINK_CALL_WIRE_SET, VINK_CALL_WIRE_STATE, VINK_CALL_WIRE_STATS,
    VINK_CALL_WIRE_TRACE, VINK_LOST_DOWN, VINK_LOST_LIMIT, VINK_LOST_MTU, VINK_LOST_VERDICT,
    VINK_PACKET_ARRIVAL, VINK_PACKET_DEPARTURE, VINK_PACKET_DROP, VINK_PACKET_LOSS,
    VINK_WIRE_BURSTS, VINK_WIRE_BUS, VINK_WIRE_OVERTAKE,
};

use crate::{Error, Kernel, MachineId, PacketQuery};

/// Events that wait for [`Kernel::next_packet`] at most, and the bytes of packets in them.
const MOST_EVENTS: usize = 1 << 16;
const MOST_BYTES: usize = 64 << 20;

/// One wire of a kernel. Only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WireId(pub(crate) u64);

/// One end of a wire: an interface. Only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct EndId(pub(crate) u64);

impl WireId {
    /// A number that is unique among the kernel's wires, for logs.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl EndId {
    /// A number that is unique among the kernel's ends, for logs.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for EndId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many ends a wire has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireKind {
    /// Two at most, as a cable.
    #[default]
    PointToPoint,
    /// Any number, as an Ethernet segment: a packet goes to the end that it is addressed to, or to
    /// all.
    Bus,
}

/// A new end: an interface, still down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attachment<'a> {
    /// The interface's name, 1 to 15 bytes.
    pub interface: &'a str,
    /// Its Ethernet address; `None`: a random one.
    pub address: Option<[u8; 6]>,
    /// Its MTU in bytes, 68 to 65535; `None`: 1500.
    pub mtu: Option<u32>,
}

/// How packets are lost. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each packet by itself.
    Random(f64),
    /// By Gilbert and Elliott: the line is in a good state or in a bad one. The state that a packet
    /// finds decides of it; then the state may change.
    Bursts {
        /// Of a change from the good state to the bad one (p).
        to_bad: f64,
        /// Of a change back (r).
        to_good: f64,
        /// Of a loss in the bad state (1-h).
        loss_bad: f64,
        /// Of a loss in the good state (1-k).
        loss_good: f64,
    },
}

impl Default for Loss {
    fn default() -> Loss {
        Loss::Random(0.0)
    }
}

/// What a wire does to the packets that one end sends. The default is an ideal wire, which hands
/// packets over whole, unsegmented ones too; with anything else they are Ethernet frames of the
/// interface's MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireSettings {
    /// Bit/s, counting whole frames without preamble and checksum; 0: no limit.
    pub rate: u64,
    /// From a frame's last bit sent to its arrival; a day at most.
    pub delay: Duration,
    /// The delay is evenly distributed from `delay - jitter` (0 at least) to `delay + jitter`.
    pub jitter: Duration,
    /// Jitter may change the order of packets; otherwise none arrives before an earlier one.
    pub overtake: bool,
    /// Which ones are lost.
    pub loss: Loss,
    /// Probability that one bit of a frame is changed.
    pub corrupt: f64,
    /// Probability that a packet comes twice.
    pub duplicate: f64,
    /// Probability that a packet has no delay, and so overtakes others.
    pub reorder: f64,
    /// Only every so many packets may be reordered; 0 and 1: each.
    pub gap: u32,
    /// Packets that are delayed at the same time, at most: more are lost. 0: an eighth of the
    /// kernel's memory is left free.
    pub limit: u32,
    /// Packets with more bytes behind the Ethernet header are lost; 0: none.
    pub mtu: u32,
}

/// Which events of an end are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Packets that the interface sends.
    pub departures: bool,
    /// Packets that it receives.
    pub arrivals: bool,
    /// Packets that it sent and that the wire lost.
    pub losses: bool,
    /// Packets that its machine's stack dropped, on their way to the interface or when they had
    /// come in by it.
    pub drops: bool,
    /// How many bytes of each packet are told, from the Ethernet header on.
    pub bytes: u16,
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// The interface sent it.
    Departure,
    /// The interface received it.
    Arrival,
    /// The wire lost it.
    Loss(LossCause),
    /// The stack dropped it.
    Drop {
        /// `enum skb_drop_reason` of the image's kernel.
        reason: u32,
        /// Its name, such as `NO_SOCKET`.
        name: String,
    },
}

impl PacketKind {
    /// As captures and events have it: `departure`, `arrival` or `loss`, and why it was lost, in
    /// the wire's or the kernel's word.
    pub fn names(&self) -> (&'static str, Option<String>) {
        match self {
            PacketKind::Departure => ("departure", None),
            PacketKind::Arrival => ("arrival", None),
            PacketKind::Loss(cause) => {
                let reason = match cause {
                    LossCause::Random => "random",
                    LossCause::Limit => "limit",
                    LossCause::Mtu => "mtu",
                    LossCause::Down => "down",
                    LossCause::Breakpoint => "breakpoint",
                    LossCause::Pod => "pod",
                };
                ("loss", Some(reason.to_owned()))
            }
            PacketKind::Drop { reason, name } if name.is_empty() => {
                ("loss", Some(format!("reason {reason}")))
            }
            PacketKind::Drop { name, .. } => ("loss", Some(name.clone())),
        }
    }
}

/// Why a wire lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// [`WireSettings::loss`].
    Random,
    /// [`WireSettings::limit`], or no memory.
    Limit,
    /// [`WireSettings::mtu`].
    Mtu,
    /// The wire or the far interface is down.
    Down,
    /// [`Verdict::drop`](crate::Verdict::drop).
    Breakpoint,
    /// The host took it, and has put nothing in its place ([`Puts::loses`](crate::Puts::loses)).
    Pod,
}

/// An event of a traced end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// On [`Kernel::now`]'s clock, ns.
    pub time: u64,
    /// Where it happened.
    pub end: EndId,
    /// What happened.
    pub kind: PacketKind,
    /// The packet's length in bytes.
    pub len: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
    /// It was dropped before it had an Ethernet header: the bytes begin with the network's.
    pub headless: bool,
}

/// Events that have not been taken yet.
#[derive(Default)]
pub(crate) struct PacketQueue {
    events: VecDeque<PacketEvent>,
    bytes: usize,
    missed: u64,
    /// All that were kept, those that were taken too.
    told: u64,
}

impl PacketQueue {
    /// Keeps an event, or counts it if there are too many.
    pub fn push(&mut self, packet: PacketQuery<'_>) {
        let len = packet.bytes.len();
        if self.events.len() >= MOST_EVENTS || self.bytes + len > MOST_BYTES {
            self.missed += 1;
            return;
        }
        self.bytes += len;
        self.told += 1;
        self.events.push_back(PacketEvent {
            time: packet.time,
            end: packet.end,
            kind: packet.kind,
            len: packet.len,
            bytes: packet.bytes.to_vec(),
            headless: packet.headless,
        });
    }

    fn pop(&mut self) -> Option<PacketEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.bytes.len();
        Some(event)
    }
}

/// What happened to a packet: abi.h's numbers, and the reason's name.
pub(crate) fn kind_of(kind: u32, reason: u32, name: Option<&CStr>) -> PacketKind {
    match (kind, reason) {
        (VINK_PACKET_DEPARTURE, _) => PacketKind::Departure,
        (VINK_PACKET_ARRIVAL, _) => PacketKind::Arrival,
        (VINK_PACKET_DROP, reason) => {
            let name = name.unwrap_or_default().to_string_lossy().into_owned();
            PacketKind::Drop { reason, name }
        }
        (_, VINK_LOST_LIMIT) => PacketKind::Loss(LossCause::Limit),
        (_, VINK_LOST_MTU) => PacketKind::Loss(LossCause::Mtu),
        (_, VINK_LOST_DOWN) => PacketKind::Loss(LossCause::Down),
        (_, VINK_LOST_VERDICT) => PacketKind::Loss(LossCause::Breakpoint),
        _ => PacketKind::Loss(LossCause::Random),
    }
}

/// All of them are calls of the control task. A wire or end that is not there (any more: an end
/// goes with its machine) is [`Error::NoSuchWire`] or [`Error::NoSuchEnd`]; besides, each has the
/// errors of [`Kernel::run`].
impl Kernel {
    /// Makes a wire, which is up and ideal and has no ends.
    ///
    /// # Errors
    /// [`Error::Errno`] `ENOMEM`.
    pub fn wire(&mut self, kind: WireKind) -> Result<WireId, Error> {
        let flags = match kind {
            WireKind::PointToPoint => 0,
            WireKind::Bus => VINK_WIRE_BUS,
        };
        let args = [flags, 0, 0, 0, 0, 0];
        Ok(WireId(self.control(
            "make a wire",
            VINK_CALL_WIRE_CREATE,
            args,
        )?))
    }

    /// Removes a wire and its interfaces.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`].
    pub fn destroy_wire(&mut self, wire: WireId) -> Result<(), Error> {
        let args = [wire.0, 0, 0, 0, 0, 0];
        self.on_wire("destroy a wire", VINK_CALL_WIRE_DESTROY, args)?;
        let shares = &self.host.shares;
        shares.borrow_mut().forget(|its, _| its == wire);
        Ok(())
    }

    /// Makes an interface of a machine that is an end of the wire.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`], [`Error::NoSuchMachine`]; [`Error::Errno`]: `EBUSY`, a point-to-point
    /// wire that has two ends; `EEXIST`, the name is taken; `EINVAL`, the name, the address (as of
    /// a group) or the MTU; `ENOMEM`.
    pub fn attach(
        &mut self,
        wire: WireId,
        machine: MachineId,
        end: Attachment<'_>,
    ) -> Result<EndId, Error> {
        self.know(machine)?;
        let what = "attach an interface to a wire";
        let name = CString::new(end.interface).map_err(|_| refused(what, EINVAL))?;
        let address = end.address.as_ref();
        // 0 is the interface's own choice, for an image.
        let mtu = match end.mtu {
            Some(0) => return Err(refused(what, EINVAL)),
            mtu => mtu.unwrap_or(0),
        };
        let args = [
            wire.0,
            machine.get(),
            name.as_ptr() as u64,
            address.map_or(0, |bytes| bytes.as_ptr() as u64),
            mtu.into(),
            0,
        ];
        self.control(what, VINK_CALL_WIRE_ATTACH, args)
            .map(EndId)
            .map_err(|error| gone(error, Error::NoSuchWire))
    }

    /// Removes an end and its interface.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`].
    pub fn detach(&mut self, end: EndId) -> Result<(), Error> {
        let args = [end.0, 0, 0, 0, 0, 0];
        self.at_end("detach an interface", VINK_CALL_WIRE_DETACH, args)?;
        let shares = &self.host.shares;
        shares.borrow_mut().forget(|_, its| its == Some(end));
        Ok(())
    }

    /// Gives other settings to one end of a wire, or to all of them and those to come. They hold
    /// for the next packet that is sent; packets under way keep their times.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`], also if the end is another wire's; [`Error::Errno`]: `EINVAL`, a time
    /// beyond a day or a probability that is none; `ENOMEM`.
    pub fn set_wire(
        &mut self,
        wire: WireId,
        end: Option<EndId>,
        settings: &WireSettings,
    ) -> Result<(), Error> {
        let what = "change a wire's settings";
        let settings = settings.for_image().ok_or(refused(what, EINVAL))?;
        let address = (&raw const settings) as u64;
        let args = [wire.0, end.map_or(0, |end| end.0), address, 0, 0, 0];
        self.on_wire(what, VINK_CALL_WIRE_SET, args)
    }

    /// Sets a wire up or down: down, it carries nothing, and its ends have no carrier. What was
    /// under way is lost.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`].
    pub fn wire_up(&mut self, wire: WireId, up: bool) -> Result<(), Error> {
        let args = [wire.0, up.into(), 0, 0, 0, 0];
        self.on_wire("set a wire up or down", VINK_CALL_WIRE_STATE, args)
    }

    /// What has become of the packets of an end.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`].
    pub fn wire_statistics(&mut self, end: EndId) -> Result<WireStats, Error> {
        let mut numbers = WireStats::default();
        let args = [end.0, (&raw mut numbers) as u64, 0, 0, 0, 0];
        self.at_end("read a wire's statistics", VINK_CALL_WIRE_STATS, args)?;
        Ok(numbers)
    }

    /// From now on tells these events of an end, by [`Kernel::next_packet`]; none of them by
    /// default.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`]; [`Error::Errno`] `ENOMEM`.
    pub fn trace(&mut self, end: EndId, trace: Trace) -> Result<(), Error> {
        let mask = [
            (trace.departures, VINK_PACKET_DEPARTURE),
            (trace.arrivals, VINK_PACKET_ARRIVAL),
            (trace.losses, VINK_PACKET_LOSS),
            (trace.drops, VINK_PACKET_DROP),
        ];
        let mask: u32 = mask.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
        let asked = self.asked.get(&end).copied().unwrap_or(0);
        self.told.insert(end, (mask, trace.bytes));
        if mask == 0 {
            self.told.remove(&end);
        }
        self.tell_of(end, mask | asked, trace.bytes)
    }

    /// Traces, asks about, or both.
    pub(crate) fn tell_of(&mut self, end: EndId, mask: u32, bytes: u16) -> Result<(), Error> {
        let args = [end.0, mask.into(), bytes.into(), 0, 0, 0];
        self.at_end("trace an end of a wire", VINK_CALL_WIRE_TRACE, args)
    }

    /// The oldest event of traced ends that was not taken yet.
    pub fn next_packet(&mut self) -> Option<PacketEvent> {
        self.packets().borrow_mut().pop()
    }

    /// How many events were not kept because 65,536 of them, or 64 MiB of packets, waited to be
    /// taken.
    pub fn missed_packets(&self) -> u64 {
        self.packets().borrow().missed
    }

    /// How many events there have been for [`Kernel::next_packet`], those taken included: two
    /// numbers tell which of them lie between two moments.
    pub fn reported_packets(&self) -> u64 {
        self.packets().borrow().told
    }

    /// How many of these have been taken.
    pub fn taken_packets(&self) -> u64 {
        let packets = self.packets().borrow();
        packets.told - packets.events.len() as u64
    }

    fn on_wire(&mut self, what: &'static str, nr: u32, args: [u64; 6]) -> Result<(), Error> {
        self.control(what, nr, args)
            .map(drop)
            .map_err(|error| gone(error, Error::NoSuchWire))
    }

    pub(crate) fn at_end(
        &mut self,
        what: &'static str,
        nr: u32,
        args: [u64; 6],
    ) -> Result<(), Error> {
        self.control(what, nr, args)
            .map(drop)
            .map_err(|error| gone(error, Error::NoSuchEnd))
    }
}

impl WireSettings {
    /// In abi.h's units; `None`: a value that it has none for.
    fn for_image(&self) -> Option<vink_abi::WireSettings> {
        let (flag, [loss, loss_bad, to_bad, to_good]) = match self.loss {
            Loss::Random(loss) => (0, [loss, 0.0, 0.0, 0.0]),
            Loss::Bursts {
                to_bad,
                to_good,
                loss_bad,
                loss_good,
            } => (VINK_WIRE_BURSTS, [loss_good, loss_bad, to_bad, to_good]),
        };
        let overtake = if self.overtake { VINK_WIRE_OVERTAKE } else { 0 };
        Some(vink_abi::WireSettings {
            rate: self.rate,
            delay: self.delay.as_nanos().try_into().ok()?,
            jitter: self.jitter.as_nanos().try_into().ok()?,
            flags: flag | overtake,
            loss: fraction(loss)?,
            loss_bad: fraction(loss_bad)?,
            to_bad: fraction(to_bad)?,
            to_good: fraction(to_good)?,
            corrupt: fraction(self.corrupt)?,
            duplicate: fraction(self.duplicate)?,
            reorder: fraction(self.reorder)?,
            gap: self.gap,
            limit: self.limit,
            mtu: self.mtu,
            reserved: 0,
        })
    }
}

/// A probability as abi.h has it. One that is not 0 stays so.
fn fraction(probability: f64) -> Option<u32> {
    match probability {
        0.0 => Some(0),
        p if p > 0.0 && p <= 1.0 => Some((((p * 2f64.powi(32)).round() as u64).max(2) - 1) as u32),
        _ => None,
    }
}

/// The image's word for what is not there, in this crate's.
pub(crate) fn gone(error: Error, instead: Error) -> Error {
    match error {
        Error::Errno { errno: ESRCH, .. } => instead,
        other => other,
    }
}

fn refused(what: &'static str, errno: i32) -> Error {
    Error::Errno { what, errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities() {
        assert_eq!(fraction(0.0), Some(0));
        assert_eq!(fraction(1.0), Some(u32::MAX));
        assert_eq!(fraction(0.5), Some(u32::MAX / 2));
        assert_eq!(fraction(1e-12), Some(1));
        for none in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(fraction(none), None);
        }
    }

    #[test]
    fn a_full_queue_counts_what_it_can_not_keep() {
        let mut queue = PacketQueue::default();
        for _ in 0..MOST_EVENTS + 2 {
            queue.push(PacketQuery {
                time: 1,
                end: EndId(2),
                kind: kind_of(VINK_PACKET_LOSS, VINK_LOST_MTU, Some(c"mtu")),
                len: 60,
                bytes: b"abc",
                headless: false,
                put: false,
                mark: 0,
                socket: &[],
            });
        }
        assert_eq!(queue.missed, 2);
        let event = queue.pop().expect("one");
        assert_eq!(event.kind, PacketKind::Loss(LossCause::Mtu));
        assert_eq!((event.bytes.as_slice(), event.len), (&b"abc"[..], 60));
        while queue.pop().is_some() {}
        assert_eq!(queue.bytes, 0);
    }
}
