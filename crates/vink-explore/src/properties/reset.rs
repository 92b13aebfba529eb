//! A connection ends by a RST that is exactly the next in order, and by no other segment that only
//! claims to (P10; RFC 9293, 3.10.7.4; RFC 5961, 3.2 and 4.2).
//!
//! One that is in the window, but not next, is answered by a challenge, as is a SYN. Exact is also
//! what is behind the last selective acknowledgement, and what is before a FIN that has come, as
//! Linux has it. What comes together with other segments, or while its app closes, is not judged, nor
//! what comes for a socket with a filter (SO_ATTACH_FILTER), which may drop it.

use std::net::SocketAddr;

use super::{Check, Property, Violation};
use crate::calls::RESET;
use crate::{behind, AppCall, Moves, Packet, Point, Segment, World};

/// States in which a connection has its app, and does not end by itself.
const OPEN: [&str; 2] = ["ESTABLISHED", "CLOSE_WAIT"];

/// See the head of the file.
#[derive(Default)]
pub(super) struct Reset {
    /// Segments that have come since all machines waited, which may end a connection.
    come: Vec<Came>,
    /// Connections for which anything has come since then.
    arrived: Vec<(SocketAddr, SocketAddr)>,
    /// Connections that apps have called about.
    known: Vec<(SocketAddr, SocketAddr)>,
}

/// A segment that may end the connection `own` to `peer`.
struct Came {
    own: SocketAddr,
    peer: SocketAddr,
    /// It is a RST, and not a SYN.
    is_reset: bool,
    /// How far it is from the next in order.
    from_next: i32,
    /// It is to end the connection.
    is_exact: bool,
    machine: String,
}

impl Property for Reset {
    fn name(&self) -> &'static str {
        "reset"
    }

    fn says(&self) -> &'static str {
        "A connection is ended by a RST that is next in order, and by no other (RFC 9293, 3.10.7.4; RFC 5961, 3.2)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection().filter(|_| packet.at_end) else {
            return Ok(());
        };
        let is_reset = segment.has(Segment::RST);
        let is_asked = is_reset || segment.has(Segment::SYN);
        if packet.point == Point::Departure {
            // Another connection of the same ends.
            if segment.has(Segment::SYN) {
                self.come
                    .retain(|came| (came.own, came.peer) != (own, peer));
            }
            return Ok(());
        }
        let is_alone = !self.arrived.contains(&(own, peer));
        if is_alone {
            self.arrived.push((own, peer));
        } else {
            self.come
                .retain(|came| (came.own, came.peer) != (own, peer));
        }
        let Some(next) = world.field(packet.socket, "rcv_nxt").filter(|_| {
            is_asked && is_alone && packet.at_end && OPEN.contains(&world.state(packet.socket))
        }) else {
            return Ok(());
        };
        let from_next = behind(segment.seq, next as u32);
        let is_closing = world.state(packet.socket) == "CLOSE_WAIT";
        let is_sacked = world.field(packet.socket, "rx_opt.num_sacks") != Some(0);
        if world.field(packet.socket, "sk_filter") != Some(0) {
            return Ok(());
        }
        // Of what is selectively acknowledged one end is exact: not judged.
        if is_reset && from_next != 0 && is_sacked {
            return Ok(());
        }
        self.come.push(Came {
            own,
            peer,
            is_reset,
            from_next,
            is_exact: is_reset && (from_next == 0 || is_closing && from_next == -1),
            machine: world.ends[packet.end].machine.clone(),
        });
        Ok(())
    }

    fn call(&mut self, world: &World, call: &AppCall<'_>) -> Check {
        let Some(ends) = call.ends else {
            return Ok(());
        };
        let is_its = |came: &&Came| (came.own, came.peer) == ends && !came.is_exact;
        if let Some(came) = self.come.iter().find(is_its) {
            if call.result == RESET {
                return Err(self.ends(world, came));
            }
        }
        self.known.retain(|known| *known != ends);
        match call.moves {
            Moves::Closes => self.come.retain(|came| (came.own, came.peer) != ends),
            _ => self.known.push(ends),
        }
        Ok(())
    }

    fn idle(&mut self, world: &World) -> Check {
        self.arrived.clear();
        if self.come.is_empty() || world.memory.is_none() {
            return Ok(());
        }
        let connections = world.connections();
        for came in std::mem::take(&mut self.come) {
            let Came { own, peer, .. } = came;
            let is_it = |one: &vink_pcb::Connection| (one.local, one.remote) == (own, peer);
            let is_there = connections.iter().any(|(_, one)| is_it(one));
            match (came.is_exact, is_there) {
                (true, true) => {
                    let what =
                        format!("A RST of {peer} to {own} is exact, and the connection goes on.");
                    return Err(self.broken(world, &came.machine, what));
                }
                (false, false) if self.known.contains(&(own, peer)) => {
                    return Err(self.ends(world, &came));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Reset {
    /// A segment has ended a connection that it should not.
    fn ends(&self, world: &World, came: &Came) -> Violation {
        let Came { own, peer, .. } = came;
        let kind = if came.is_reset { "RST" } else { "SYN" };
        let what = format!(
            "A {kind} of {peer} to {own} is {} bytes from the next in order, and ends the connection.",
            came.from_next
        );
        self.broken(world, &came.machine, what)
    }
}
