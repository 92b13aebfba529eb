//! What a receiver reports as received out of order is what it has beyond its acknowledgement
//! (RFC 2018, 4; RFC 2883, 4).
//!
//! The first block may be a duplicate's (DSACK). The others lie beyond the acknowledgement, and all
//! that they cover has come.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::packet::first_outside;
use crate::{behind, blocks, Packet, Point, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Sack {
    /// By a receiver's address and its sender's: the first and last sequence numbers of what has
    /// come.
    come: ByEnds<Vec<(u32, u32)>>,
}

impl Property for Sack {
    fn name(&self) -> &'static str {
        "sack"
    }

    fn says(&self) -> &'static str {
        "Selective acknowledgements are of what has come beyond the cumulative one (RFC 2018, 4)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some(segment) = packet.tcp else {
            return Ok(());
        };
        let (from, to) = (segment.from, segment.to);
        match packet.point {
            Point::Arrival => {
                let come = self.come.entry((to, from)).or_default();
                if segment.length() > 0 {
                    come.push((segment.seq, segment.end()));
                }
                Ok(())
            }
            Point::Departure => {
                let come = self.come.get(&(from, to)).map_or(&[][..], Vec::as_slice);
                let wrong = blocks(segment.options)
                    .enumerate()
                    .find_map(|(at, (left, right))| {
                        if at > 0 && behind(left, segment.ack) < 0 {
                            return Some("is not beyond the acknowledgement");
                        }
                        let gap = first_outside(come, left);
                        (behind(gap, right) < 0).then_some("has never come")
                    });
                match wrong {
                    None => Ok(()),
                    Some(wrong) => {
                        let what = format!("{from} selectively acknowledges what {wrong}.");
                        let machine = &world.ends[packet.end].machine;
                        Err(self.broken(world, machine, what))
                    }
                }
            }
            Point::Loss => Ok(()),
        }
    }
}
