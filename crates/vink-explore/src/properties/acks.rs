//! A sender believes no acknowledgement of what it has not sent (P5; RFC 9293, 3.10.7.4; RFC 5961, 5).
//!
//! What an interface has sent is known from its packets, independently of what the stack notes.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, Packet, Point, Segment, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Acks {
    /// By a connection's own address and its peer's.
    sent: ByEnds<Sent>,
}

/// How far a connection has sent.
#[derive(Clone, Copy)]
struct Sent {
    /// The sequence number of its SYN, or of the first segment that is known.
    first: u32,
    /// The sequence number behind the last byte that has left an interface.
    end: u32,
}

impl Property for Acks {
    fn name(&self) -> &'static str {
        "acks"
    }

    fn says(&self) -> &'static str {
        "No acknowledgement of what was never sent is believed (RFC 9293, 3.10.7.4; RFC 5961, 5)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection().filter(|_| packet.at_end) else {
            return Ok(());
        };
        if packet.point == Point::Departure {
            let (first, end) = (segment.seq, segment.end());
            let sent = self.sent.entry((own, peer));
            let sent = sent.or_insert(Sent { first, end });
            // A SYN that is sent again may come behind data (RFC 7413).
            if segment.has(Segment::SYN) && first != sent.first {
                *sent = Sent { first, end };
            } else if behind(end, sent.end) > 0 {
                sent.end = end;
            }
        }
        let machine = &world.ends[packet.end].machine;
        let field = |name| world.field(packet.socket, name).map(|number| number as u32);
        let (Some(una), Some(next)) = (field("snd_una"), field("snd_nxt")) else {
            return Ok(());
        };
        if behind(una, next) > 0 {
            let what = format!(
                "The connection {own} to {peer} has snd_una {} beyond snd_nxt.",
                behind(una, next)
            );
            return Err(self.broken(world, machine, what));
        }
        match self.sent.get(&(own, peer)) {
            Some(Sent { end, .. }) if behind(una, *end) > 0 => {
                let what = format!(
                    "The connection {own} to {peer} takes {} bytes as acknowledged that it has never sent.",
                    behind(una, *end)
                );
                Err(self.broken(world, machine, what))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_syn_that_is_sent_again_takes_nothing_back() {
        let world = World::of_ends(&["server"]).with_fields(&["snd_una", "snd_nxt"]);
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let mut property = Acks::default();
        let mut is_good = |flags, seq, data, una| {
            let segment = Segment::of((server, client), flags, seq, 1, data);
            let socket = world.socket(&[("snd_una", una), ("snd_nxt", 2000)]);
            let packet = Packet::at_end_of(segment, 0, Point::Departure, 0);
            property.packet(&world, &packet.of_socket(&socket)).is_ok()
        };
        let syn_ack = Segment::SYN | Segment::ACK;
        assert!(is_good(syn_ack, 100, b"", 100));
        assert!(is_good(Segment::ACK, 101, b"data", 101));
        assert!(is_good(syn_ack, 100, b"", 101));
        assert!(is_good(Segment::ACK, 105, b"", 105));
        assert!(!is_good(Segment::ACK, 105, b"", 106));
        // Another connection.
        assert!(is_good(syn_ack, 50, b"", 50));
        assert!(!is_good(Segment::ACK, 51, b"", 60));
    }
}
