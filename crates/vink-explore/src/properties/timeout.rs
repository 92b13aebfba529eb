//! What is not acknowledged is sent again within a retransmission time-out (P8; RFC 6298, 5), however
//! many acknowledgements of nothing new come.
//!
//! It is sent again sooner if the receiver has dropped what it had selectively acknowledged, and says
//! so by asking for just that: after half a round-trip time, or 10 ms, as Linux has it, in which no
//! further acknowledgement has come (RFC 2018, 8).
//!
//! What is selectively acknowledged begins a time-out anew, as Linux has it, if it was sent before the
//! last segment that was sent again: what was sent after that tells nothing of it.
//!
//! Data that a server sends before its SYN-ACK is acknowledged waits for that (RFC 7413, 4.2.2). What
//! is sent again till then is the SYN-ACK, which has a time-out of its own.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::packet::{first_outside, overlap};
use crate::{behind, blocks, Packet, Point, Segment, World};

/// The kernel's ticks, and what becomes of a packet between its timer and the wire.
const SLACK: u64 = 50_000_000;
/// How late a timer of the kernel's is at most, in parts of its time: kernel/time/timer.c.
pub(super) const LATE: u64 = 8;
/// The time-out of a SYN-ACK, which grows twofold, and how long it gets: TCP_TIMEOUT_INIT, TCP_RTO_MAX.
const FIRST: u64 = 1_000_000_000;
const LONGEST: u64 = 120_000_000_000;
/// The kernel's TCP_CA_Loss.
const LOSS: u64 = 4;
/// How soon what is asked for again is sent, at the soonest.
const SOONEST: u64 = 10_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Timeout {
    /// By the sender's address and its peer's.
    flows: ByEnds<Flow>,
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
    /// The sequence number behind the last byte that was sent; and what it was when a segment was sent
    /// again last.
    sent: u32,
    sent_before: u32,
    /// The sequence number of the SYN-ACK that was sent, when it was sent last, and how often.
    syn_ack: Option<(u32, u64, u32)>,
    /// What is selectively acknowledged, and not sent again since.
    sacked: Vec<(u32, u32)>,
    /// An acknowledgement has come last that asks for some of that: which sequence number, when, and
    /// by when it is to be sent, ns.
    asked: Option<(u32, u64, u64)>,
}

impl Flow {
    /// An acknowledgement comes: does it begin a time-out anew?
    fn acknowledge(&mut self, now: u64, segment: &Segment<'_>, una: u32, round_trip: u64) -> bool {
        let ack = segment.ack;
        self.asked = None;
        // One that was overtaken tells of what may be gone by now.
        if behind(ack, una) < 0 {
            return false;
        }
        // What comes at one time is looked at together.
        if behind(ack, una) > 0 && self.sacked.iter().any(|(from, _)| *from == ack) {
            self.asked = Some((ack, now, now + (round_trip / 2).max(SOONEST) + SLACK));
        }
        self.sacked.retain(|(_, to)| behind(*to, ack) > 0);
        // A duplicate's is none.
        let is_new = |(from, _): &(u32, u32)| behind(*from, ack) > 0;
        let mut is_news = false;
        for block in blocks(segment.options).filter(is_new) {
            // What was not selectively acknowledged before.
            let first = first_outside(&self.sacked, block.0);
            is_news |= behind(block.1, first) > 0 && behind(self.sent_before, first) > 0;
            if !self.sacked.contains(&block) {
                self.sacked.push(block);
            }
        }
        is_news
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
        // It is of no socket yet.
        let is_syn_ack = segment.has(Segment::SYN) && segment.has(Segment::ACK);
        if is_syn_ack && packet.point == Point::Departure {
            let flow = self.flows.entry((own, peer)).or_default();
            let again = flow.syn_ack.filter(|(seq, ..)| *seq == segment.seq);
            let times = again.map_or(0, |(_, _, times)| times);
            flow.syn_ack = Some((segment.seq, packet.time, times + 1));
        }
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
            let (seq, end) = (segment.seq, segment.end());
            if flow.sent == 0 || segment.has(Segment::SYN) {
                (flow.sent, flow.sent_before) = (end, end);
            } else if behind(end, flow.sent) > 0 {
                flow.sent = end;
            } else {
                flow.sent_before = flow.sent;
            }
            // What is asked for then is under way.
            flow.sacked.retain(|sacked| !overlap(*sacked, (seq, end)));
        }
        let mut is_news = false;
        if packet.point == Point::Arrival {
            // In eighths of a microsecond.
            let round_trip = field("srtt_us").unwrap_or(0) * 125;
            is_news = flow.acknowledge(packet.time, &segment, una as u32, round_trip);
        }
        if is_sent || out == 0 || una as u32 != flow.una {
            flow.una = una as u32;
            flow.since = packet.time;
            flow.rto = rto;
            return Ok(());
        }
        let is_early = field("fastopen_rsk").is_some_and(|request| request != 0);
        let (since, most) = match flow.syn_ack.filter(|_| is_early) {
            Some((_, time, times)) => (time, (FIRST << (times - 1).min(16)).min(LONGEST)),
            None => (flow.since, flow.rto.max(rto)),
        };
        let waits = packet.time - since;
        if waits <= most + most / LATE + SLACK {
            // When the SYN-ACK is acknowledged, a time-out of data begins.
            if is_early || is_news {
                flow.since = packet.time;
                flow.rto = rto;
            }
            return Ok(());
        }
        let what = format!(
            "{own} has {out} segments under way to {peer}, of which it has heard nothing new for {:.3} s; its \
             time-out is {:.3} s, and it sends none of them again.",
            waits as f64 / 1e9,
            most as f64 / 1e9
        );
        Err(self.broken(world, machine, what))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const MS: u64 = 1_000_000;
    const FIELDS: [&str; 5] = [
        "snd_una",
        "packets_out",
        "icsk_rto",
        "icsk_ca_state",
        "fastopen_rsk",
    ];

    /// A server (RFC 7413) sends its SYN-ACK and data at once. Its SYN-ACK is lost, and sent again at
    /// these times, ms. A segment of the client comes at `asked`, ms: is all as it is to be?
    fn opens_early(request: u64, syn_acks: &[u64], asked: u64) -> bool {
        let world = World::of_ends(&["server"]).with_fields(&FIELDS);
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let socket = world.socket(&[
            ("snd_una", 101),
            ("packets_out", 1),
            ("icsk_rto", 210),
            ("fastopen_rsk", request),
        ]);
        let mut property = Timeout::default();
        let mut is_good = true;
        let mut at = |time: u64, point, segment, socket| {
            let packet = Packet::at_end_of(segment, 0, point, time * MS);
            is_good &= property.packet(&world, &packet.of_socket(socket)).is_ok();
        };
        let flags = Segment::SYN | Segment::ACK;
        let syn_ack = Segment::of((server, client), flags, 100, 8, b"");
        let data = Segment::of((server, client), Segment::ACK, 101, 8, b"data");
        let again = Segment::of((client, server), Segment::SYN, 7, 0, b"");
        at(0, Point::Departure, syn_ack, &[][..]);
        at(0, Point::Departure, data, &socket);
        for time in syn_acks {
            at(*time, Point::Departure, syn_ack, &[]);
        }
        at(asked, Point::Arrival, again, &socket);
        // It was acknowledged by that, and data was not.
        let later = world.socket(&[("snd_una", 101), ("packets_out", 1), ("icsk_rto", 210)]);
        at(asked + 200, Point::Arrival, again, &later);
        is_good
    }

    #[test]
    fn data_that_is_sent_early_waits_for_the_syn_ack() {
        const REQUEST: u64 = 0xffff_8880_0000_1000;
        assert!(opens_early(REQUEST, &[1_060], 1_100));
        assert!(opens_early(REQUEST, &[1_060, 3_200], 3_400));
        // Nothing is sent again within the SYN-ACK's own time-outs: one second, then two.
        assert!(!opens_early(REQUEST, &[], 1_300));
        assert!(!opens_early(REQUEST, &[1_060], 3_500));
        // The SYN-ACK has been acknowledged.
        assert!(opens_early(0, &[], 60));
        assert!(!opens_early(0, &[], 300));
    }

    /// Three segments are sent, and the first again 300 ms later. Selective acknowledgements up to
    /// these sequence numbers come at these times, ms: is all as it is to be?
    fn waits(sacks: &[(u64, u32)]) -> bool {
        let world = World::of_ends(&["client"]).with_fields(&FIELDS);
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let socket = world.socket(&[("snd_una", 1), ("packets_out", 3), ("icsk_rto", 210)]);
        let option = |(_, end): &(u64, u32)| {
            let block = [1001_u32.to_be_bytes(), end.to_be_bytes()].concat();
            [vec![5, 10], block].concat()
        };
        let options: Vec<_> = sacks.iter().map(option).collect();
        let mut property = Timeout::default();
        let mut is_good = true;
        let mut at = |time: u64, point, segment| {
            let packet = Packet::at_end_of(segment, 0, point, time * MS);
            is_good &= property.packet(&world, &packet.of_socket(&socket)).is_ok();
        };
        for (time, seq) in [(0, 1), (0, 1001), (0, 2001), (300, 1), (300, 3001)] {
            let data = Segment::of((client, server), Segment::ACK, seq, 1, &[0; 1000]);
            at(time, Point::Departure, data);
        }
        for ((time, _), options) in sacks.iter().zip(&options) {
            let mut sack = Segment::of((server, client), Segment::ACK, 1, 1, b"");
            sack.options = options;
            at(*time, Point::Arrival, sack);
        }
        is_good
    }

    #[test]
    fn selective_acknowledgements_begin_a_time_out_anew() {
        assert!(waits(&[(500, 2001), (700, 3001), (900, 3001)]));
        // It tells nothing new.
        assert!(!waits(&[(500, 2001), (700, 2001), (900, 2001)]));
        // The last segment was sent after the first was sent again.
        assert!(!waits(&[(500, 3001), (700, 4001), (900, 4001)]));
    }
}
