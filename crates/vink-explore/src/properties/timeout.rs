//! What is not acknowledged is sent again within a retransmission time-out (P8; RFC 6298, 5), however
//! many acknowledgements of nothing new come.
//!
//! It is sent again sooner if the receiver has dropped what it had selectively acknowledged, and says
//! so by asking for just that: after half a round-trip time, or 10 ms, as Linux has it, in which no
//! further acknowledgement has come (RFC 2018, 8).

use std::collections::HashMap;
use std::net::SocketAddr;

use super::{Check, Property};
use crate::{behind, blocks, Packet, Point, Segment, World};

/// The kernel's ticks, and what becomes of a packet between its timer and the wire.
const SLACK: u64 = 50_000_000;
/// The kernel's TCP_CA_Loss.
const LOSS: u64 = 4;
/// How soon what is asked for again is sent, at the soonest.
const SOONEST: u64 = 10_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Timeout {
    /// By the sender's address and its peer's.
    flows: HashMap<(SocketAddr, SocketAddr), Flow>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// What is acknowledged.
    una: u32,
    /// When the last segment was sent, or the last new acknowledgement came.
    since: u64,
    /// The time-out then, ns.
    rto: u64,
    /// What is selectively acknowledged, and not sent again since.
    sacked: Vec<(u32, u32)>,
    /// An acknowledgement has come last that asks for some of that: which sequence number, when, and
    /// by when it is to be sent, ns.
    asked: Option<(u32, u64, u64)>,
}

impl Flow {
    /// An acknowledgement comes.
    fn acknowledge(&mut self, now: u64, segment: &Segment<'_>, una: u32, round_trip: u64) {
        let ack = segment.ack;
        self.asked = None;
        // One that was overtaken tells of what may be gone by now.
        if behind(ack, una) < 0 {
            return;
        }
        // What comes at one time is looked at together.
        if behind(ack, una) > 0 && self.sacked.iter().any(|(from, _)| *from == ack) {
            self.asked = Some((ack, now, now + (round_trip / 2).max(SOONEST) + SLACK));
        }
        self.sacked.retain(|(_, to)| behind(*to, ack) > 0);
        // A duplicate's is none.
        let is_new = |(from, _): &(u32, u32)| behind(*from, ack) > 0;
        for block in blocks(segment.options).filter(is_new) {
            if !self.sacked.contains(&block) {
                self.sacked.push(block);
            }
        }
    }
}

impl Property for Timeout {
    fn name(&self) -> &'static str {
        "timeout"
    }

    fn says(&self) -> &'static str {
        "What is not acknowledged is sent again within a retransmission time-out (RFC 6298, 5)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection() else {
            return Ok(());
        };
        let field = |name| world.field(packet.socket, name);
        let (Some(una), Some(out), Some(rto)) =
            (field("snd_una"), field("packets_out"), field("icsk_rto"))
        else {
            return Ok(());
        };
        // Jiffies are ms.
        let rto = rto * 1_000_000;
        let machine = &world.ends[packet.end].machine;
        let flow = self.flows.entry((own, peer)).or_default();
        if let Some((seq, since, _)) = flow.asked.filter(|(seq, _, until)| {
            *seq == una as u32 && packet.time > *until && packet.point == Point::Departure
        }) {
            let what = format!(
                "{peer} has asked {own} {:.3} s ago for bytes that it had selectively acknowledged, from {seq} on, \
                 and has not been sent them until now.",
                (packet.time - since) as f64 / 1e9
            );
            return Err(self.broken(world, machine, what));
        }
        let is_sent = packet.point == Point::Departure && segment.length() > 0;
        if is_sent {
            // After a time-out a sender knows of nothing that is selectively acknowledged (RFC 2018, 8).
            if field("icsk_ca_state") == Some(LOSS) {
                flow.sacked.clear();
            }
            flow.asked = flow.asked.filter(|(seq, ..)| *seq != segment.seq);
            // What is asked for then is under way.
            let (seq, end) = (segment.seq, segment.end());
            let is_other =
                |(from, to): &(u32, u32)| behind(*to, seq) <= 0 || behind(end, *from) <= 0;
            flow.sacked.retain(is_other);
        }
        if packet.point == Point::Arrival {
            // In eighths of a microsecond.
            let round_trip = field("srtt_us").unwrap_or(0) * 125;
            flow.acknowledge(packet.time, &segment, una as u32, round_trip);
        }
        if is_sent || out == 0 || una as u32 != flow.una {
            flow.una = una as u32;
            flow.since = packet.time;
            flow.rto = rto;
            return Ok(());
        }
        let waits = packet.time - flow.since;
        if waits <= flow.rto.max(rto) + SLACK {
            return Ok(());
        }
        let what = format!(
            "{own} has {out} segments under way to {peer}, of which it has heard nothing new for {:.3} s; its \
             time-out is {:.3} s, and it sends none of them again.",
            waits as f64 / 1e9,
            rto as f64 / 1e9
        );
        Err(self.broken(world, machine, what))
    }
}
