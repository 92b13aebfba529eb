//! What is not acknowledged is sent again within a retransmission time-out (P8; RFC 6298, 5), however
//! many acknowledgements of nothing new come.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::{Check, Property};
use crate::{Packet, Point, World};

/// The kernel's ticks, and what becomes of a packet between its timer and the wire.
const SLACK: u64 = 50_000_000;

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
        let flow = self.flows.entry((own, peer)).or_default();
        let is_sent = packet.point == Point::Departure && segment.length() > 0;
        if is_sent || out == 0 || una as u32 != flow.una {
            *flow = Flow {
                una: una as u32,
                since: packet.time,
                rto,
            };
            return Ok(());
        }
        let waits = packet.time - flow.since;
        if waits <= flow.rto.max(rto) + SLACK {
            return Ok(());
        }
        let machine = &world.ends[packet.end].machine;
        let what = format!(
            "{own} has {out} segments under way to {peer}, of which it has heard nothing new for {:.3} s; its \
             time-out is {:.3} s, and it sends none of them again.",
            waits as f64 / 1e9,
            rto as f64 / 1e9
        );
        Err(self.broken(world, machine, what))
    }
}
