//! A receiver that has closed its window tells that it is open when its app has read all that has
//! come (P6; RFC 9293, 3.8.6.2.2). Its sender's probes are for what is lost, and come late.
//!
//! What tells it may wait in a queue of its machine for some time.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{AppCall, Moves, Packet, Point, Segment, World};

/// States in which data may come.
const OPEN: [&str; 3] = ["ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2"];

/// How long a segment may wait in a queue, ns: half of what a sender waits before it probes.
const QUEUE: u64 = 100_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Opens {
    /// Windows that are closed, by the receiver's address and its sender's.
    closed: ByEnds<Closed>,
}

/// A window that is closed.
#[derive(Default)]
struct Closed {
    /// The app has read since then.
    has_read: bool,
    /// Since when all is read, ns.
    since: Option<u64>,
}

impl Property for Opens {
    fn name(&self) -> &'static str {
        "opens"
    }

    fn says(&self) -> &'static str {
        "A window that is closed is opened when all that has come is read (RFC 9293, 3.8.6.2.2)."
    }

    fn packet(&mut self, _: &World, packet: &Packet<'_>) -> Check {
        let (Some((segment, own, peer)), Point::Departure) = (packet.connection(), packet.point)
        else {
            return Ok(());
        };
        if !packet.at_end {
            return Ok(());
        }
        let tells = segment.has(Segment::ACK) && !segment.has(Segment::RST);
        match tells && segment.window == 0 {
            true => _ = self.closed.entry((own, peer)).or_default(),
            false => _ = self.closed.remove(&(own, peer)),
        }
        Ok(())
    }

    fn call(&mut self, _: &World, call: &AppCall<'_>) -> Check {
        if let (Moves::Received, Some(ends), false) = (call.moves, call.ends, call.data.is_empty())
        {
            if let Some(closed) = self.closed.get_mut(&ends) {
                closed.has_read = true;
            }
        }
        Ok(())
    }

    fn idle(&mut self, world: &World) -> Check {
        if !self.closed.values().any(|closed| closed.has_read) {
            return Ok(());
        }
        for (machine, connection) in world.connections() {
            let ends = (connection.local, connection.remote);
            let field = |name| world.field(&connection.bytes, name);
            let is_all_read = field("copied_seq") == field("rcv_nxt")
                && field("rx_opt.num_sacks") == Some(0)
                && field("sk_shutdown") == Some(0)
                && OPEN.contains(&world.state(&connection.bytes));
            let closed = self.closed.get_mut(&ends);
            let Some(closed) = closed.filter(|closed| closed.has_read && is_all_read) else {
                continue;
            };
            let waits = world.now - *closed.since.get_or_insert(world.now);
            if waits >= QUEUE {
                let what = format!(
                    "{} has told {} that its window is closed. All that has come is read since {:.3} s, and it \
                     has not told that it is open.",
                    ends.0,
                    ends.1,
                    waits as f64 / 1e9
                );
                return Err(self.broken(world, machine, what));
            }
        }
        Ok(())
    }
}
