//! A connection goes from state to state as RFC 9293 has it (P11): 3.3.2, 3.5, 3.10.7.4.
//!
//! Three rules that packets show: a SYN-ACK that is exactly what SYN-RECEIVED waits for establishes
//! the connection; a peer's FIN that has been acknowledged has ended ESTABLISHED; and a state follows
//! only those from which there is a way to it.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, Packet, Point, Segment, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct States {
    /// By a connection's own address and its peer's.
    connections: ByEnds<Known>,
}

/// A connection at one end.
#[derive(Default)]
struct Known {
    state: String,
    /// When the SYN-ACK that it waited for has come, ns. What comes at one time is told before the
    /// stack looks at any of it.
    answered: Option<u64>,
    /// The sequence number behind the peer's FIN.
    end: Option<u32>,
}

/// From where a state is reached, with the stops that no packet shows. Not here: TIME-WAIT and
/// CLOSED, in which there is no connection to look at.
const WAYS: [(&str, &[&str]); 8] = [
    ("SYN_RECV", &["SYN_SENT"]),
    ("ESTABLISHED", &["SYN_SENT", "SYN_RECV"]),
    ("FIN_WAIT1", &["SYN_SENT", "SYN_RECV", "ESTABLISHED"]),
    (
        "FIN_WAIT2",
        &["SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT1"],
    ),
    (
        "CLOSING",
        &["SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT1"],
    ),
    ("CLOSE_WAIT", &["SYN_SENT", "SYN_RECV", "ESTABLISHED"]),
    (
        "LAST_ACK",
        &["SYN_SENT", "SYN_RECV", "ESTABLISHED", "CLOSE_WAIT"],
    ),
    ("SYN_SENT", &[]),
];

impl Property for States {
    fn name(&self) -> &'static str {
        "states"
    }

    fn says(&self) -> &'static str {
        "A connection goes from state to state as the standard has it (RFC 9293, 3.3.2)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection() else {
            return Ok(());
        };
        let is_departure = packet.point == Point::Departure;
        if is_departure && segment.has(Segment::FIN) {
            self.connections.entry((peer, own)).or_default().end = Some(segment.end());
        }
        if segment.has(Segment::SYN) && is_departure {
            // Another connection of the same ends: opened here, or by a peer whose SYN no socket has had.
            if !segment.has(Segment::ACK) || packet.socket.is_empty() {
                self.connections.remove(&(own, peer));
            }
            self.connections.entry((peer, own)).or_default().end = None;
        }
        if packet.socket.is_empty() {
            return Ok(());
        }
        let state = world.state(packet.socket).to_owned();
        let machine = &world.ends[packet.end].machine;
        let known = self.connections.entry((own, peer)).or_default();
        let before = std::mem::replace(&mut known.state, state.clone());
        let ways = WAYS.iter().find(|(to, _)| *to == state);
        let wrong = if state == "SYN_RECV" && known.answered.is_some_and(|time| time < packet.time)
        {
            Some("is in SYN-RECEIVED though its SYN-ACK has come".to_owned())
        } else if is_departure
            && state == "ESTABLISHED"
            && segment.has(Segment::ACK)
            && known.end.is_some_and(|end| behind(segment.ack, end) >= 0)
        {
            Some("is ESTABLISHED though it acknowledges its peer's FIN".to_owned())
        } else {
            let is_way = |(_, from): &(&str, &[&str])| from.contains(&before.as_str());
            let is_wrong = !before.is_empty() && before != state && !ways.is_none_or(is_way);
            is_wrong.then(|| format!("goes from {before} to {state}"))
        };
        let field = |name| world.field(packet.socket, name).map(|number| number as u32);
        if state != "SYN_RECV" {
            known.answered = None;
        } else if packet.point == Point::Arrival
            && segment.has(Segment::SYN)
            && segment.has(Segment::ACK)
            && segment.data.is_empty()
            && field("rcv_nxt") == Some(segment.end())
            && field("snd_nxt") == Some(segment.ack)
        {
            known.answered.get_or_insert(packet.time);
        }
        match wrong {
            None => Ok(()),
            Some(wrong) => {
                let what = format!("The connection {own} to {peer} {wrong}.");
                Err(self.broken(world, machine, what))
            }
        }
    }
}
