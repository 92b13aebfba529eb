//! A sender believes no acknowledgement of what it has not sent (P5; RFC 9293, 3.10.7.4; RFC 5961, 5).
//!
//! What an interface has sent is known from its packets, independently of what the stack notes.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, Packet, Point, Segment, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Acks {
    /// How far a connection has sent, by its own address and its peer's: the sequence number behind
    /// the last byte that has left an interface.
    sent: ByEnds<u32>,
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
            let sent = self.sent.entry((own, peer)).or_insert(segment.end());
            let is_first = segment.has(Segment::SYN);
            if is_first || behind(segment.end(), *sent) > 0 {
                *sent = segment.end();
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
            Some(sent) if behind(una, *sent) > 0 => {
                let what = format!(
                    "The connection {own} to {peer} takes {} bytes as acknowledged that it has never sent.",
                    behind(una, *sent)
                );
                Err(self.broken(world, machine, what))
            }
            _ => Ok(()),
        }
    }
}
