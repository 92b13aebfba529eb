//! Nothing is sent beyond the window that a receiver has told (P6; RFC 9293, 3.8.6).
//!
//! What a receiver has told is known to the sender when it has come. A receiver that takes a window
//! back, as one without memory may, takes it back in vain.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, Packet, Point, Segment, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Window {
    /// By the receiver's address and the sender's: the right edge as the sender may know it.
    edges: ByEnds<u32>,
    /// How far a SYN's window scale option shifts, by its sender and its receiver; `None`: it has
    /// none.
    scales: ByEnds<Option<u8>>,
}

impl Property for Window {
    fn name(&self) -> &'static str {
        "window"
    }

    fn says(&self) -> &'static str {
        "Nothing is sent beyond the window that a receiver has told (RFC 9293, 3.8.6)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some(segment) = packet.tcp else {
            return Ok(());
        };
        let (from, to) = (segment.from, segment.to);
        if segment.has(Segment::SYN) {
            if packet.point == Point::Departure {
                self.scales.insert((from, to), scale(segment.options));
                self.edges.remove(&(to, from));
            }
            if !segment.has(Segment::ACK) {
                return Ok(());
            }
        }
        match packet.point {
            // What a receiver has told is known to the sender when it has come.
            Point::Arrival if segment.has(Segment::ACK) && !segment.has(Segment::RST) => {
                let shift = match (self.scales.get(&(from, to)), self.scales.get(&(to, from))) {
                    (Some(Some(shift)), Some(Some(_))) if !segment.has(Segment::SYN) => *shift,
                    _ => 0,
                };
                let edge = segment.ack.wrapping_add(u32::from(segment.window) << shift);
                let known = self.edges.entry((from, to)).or_insert(edge);
                if behind(edge, *known) > 0 {
                    *known = edge;
                }
                Ok(())
            }
            Point::Departure if !segment.data.is_empty() => {
                let Some(edge) = self.edges.get(&(to, from)) else {
                    return Ok(());
                };
                let end = segment.seq.wrapping_add(segment.data.len() as u32);
                let beyond = behind(end, *edge);
                if beyond <= 0 {
                    return Ok(());
                }
                let machine = &world.ends[packet.end].machine;
                let what = format!("{from} sends {beyond} bytes beyond the window of {to}.");
                Err(self.broken(world, machine, what))
            }
            _ => Ok(()),
        }
    }
}

/// The window scale option (RFC 7323, 2.2).
fn scale(options: &[u8]) -> Option<u8> {
    crate::options(options).find_map(|(kind, value)| match (kind, value) {
        (3, [shift]) => Some(*shift),
        _ => None,
    })
}
