//! A receiver that has closed its window tells that it is open when its app has read all that has
//! come (P6; RFC 9293, 3.8.6.2.2). Its sender's probes are for what is lost, and come late.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{AppCall, Moves, Packet, Point, Segment, World};

/// States in which data may come.
const OPEN: [&str; 3] = ["ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2"];

/// See the head of the file.
#[derive(Default)]
pub(super) struct Opens {
    /// Windows that are closed, by the receiver's address and its sender's; whether the app has read
    /// since then.
    closed: ByEnds<bool>,
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
            if let Some(has_read) = self.closed.get_mut(&ends) {
                *has_read = true;
            }
        }
        Ok(())
    }

    fn idle(&mut self, world: &World) -> Check {
        if !self.closed.values().any(|has_read| *has_read) {
            return Ok(());
        }
        for (machine, connection) in world.connections() {
            let ends = (connection.local, connection.remote);
            let field = |name| world.field(&connection.bytes, name);
            let is_all_read = field("copied_seq") == field("rcv_nxt")
                && field("rx_opt.num_sacks") == Some(0)
                && field("sk_shutdown") == Some(0);
            if self.closed.get(&ends) == Some(&true)
                && is_all_read
                && OPEN.contains(&world.state(&connection.bytes))
            {
                let what = format!(
                    "{} has told {} that its window is closed. All that has come is read by now, and it does \
                     not tell that it is open.",
                    ends.0, ends.1
                );
                return Err(self.broken(world, machine, what));
            }
        }
        Ok(())
    }
}
