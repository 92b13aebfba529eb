//! One tail loss probe is under way at a time (P8; RFC 8985, 7.2).
//!
//! A probe may be new data beyond the congestion window. So new data beyond it, while a probe has
//! not been answered, is a second one.

use super::{Check, Property};
use crate::{Packet, Point, Segment, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Probes;

impl Property for Probes {
    fn name(&self) -> &'static str {
        "probes"
    }

    fn says(&self) -> &'static str {
        "No tail loss probe is sent while another one is not answered (RFC 8985, 7.2)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let (Some(segment), Point::Departure) = (packet.tcp, packet.point) else {
            return Ok(());
        };
        let field = |name| world.field(packet.socket, name);
        let (Some(probed), Some(next), Some(window)) =
            (field("tlp_high_seq"), field("snd_nxt"), field("snd_cwnd"))
        else {
            return Ok(());
        };
        // What was sent from a queue is not the next by now. A final FIN goes in any case, in Linux 6.1.
        let is_new = !segment.data.is_empty() && next as u32 == segment.seq;
        if probed == 0 || !is_new || segment.has(Segment::FIN) {
            return Ok(());
        }
        let of = |name| field(name).unwrap_or(0) as i64;
        let under_way = of("packets_out") - of("sacked_out") - of("lost_out") + of("retrans_out");
        if under_way < window as i64 {
            return Ok(());
        }
        let what = format!(
            "{} sends {} a segment beyond its congestion window ({under_way} of {window} segments are under \
             way), though its tail loss probe has not been answered.",
            segment.from, segment.to
        );
        Err(self.broken(world, &world.ends[packet.end].machine, what))
    }
}
