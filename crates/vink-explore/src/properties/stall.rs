//! Nothing waits for ever (P3): when the faults are over, the programs that end have ended, and
//! their connections have closed, within a time that no back-off reaches.
//!
//! The report says what each connection waits for. One that has data unacknowledged, no timer
//! armed, while no packet is under way, is a deadlock of its own.

use super::{Check, Property};
use crate::{Ending, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Stall;

impl Property for Stall {
    fn name(&self) -> &'static str {
        "stall"
    }

    fn says(&self) -> &'static str {
        "When the faults are over, programs and connections come to their end (RFC 9293, 3.8.1)."
    }

    fn end(&mut self, world: &World, ending: &Ending) -> Check {
        let why = match ending {
            Ending::Done | Ending::Flood => return Ok(()),
            Ending::Silent => "nothing will ever happen: no timer is armed",
            Ending::Late => "it is as it was, long after the last fault",
        };
        let waiting: Vec<_> = world.waiting().collect();
        let connections = world.connections();
        if waiting.is_empty() && connections.len() <= world.expected_connections {
            return Ok(());
        }
        let mut what = String::new();
        for program in &waiting {
            what += &format!(
                "{} on {} has not ended, as it does without faults; {why}.\n",
                program.name, program.machine
            );
            if let Some(line) = program.last_line() {
                what += &format!("The last that it has written: {line}\n");
            }
        }
        if waiting.is_empty() {
            what += &format!("A connection stays open; {why}.\n");
        }
        for (machine, connection) in &connections {
            let field = |name| world.field(&connection.bytes, name).unwrap_or(0);
            let [una, nxt, write] = ["snd_una", "snd_nxt", "write_seq"].map(field);
            let unacked = (nxt as u32).wrapping_sub(una as u32);
            let unsent = (write as u32).wrapping_sub(nxt as u32);
            what += &format!(
                "On {machine}, {} to {}: {}, {unacked} bytes unacknowledged, {unsent} not sent, \
                 window {}, timer: {}.\n",
                connection.local,
                connection.remote,
                world.state(&connection.bytes),
                field("snd_wnd"),
                timer(world, &connection.bytes),
            );
        }
        what += &match world.under_way {
            0 => "No packet is under way.".to_owned(),
            more => format!("{more} packets are under way."),
        };
        let machine = waiting.first().map(|program| program.machine.as_str());
        let machine = machine.or(connections.first().map(|(machine, _)| *machine));
        Err(self.broken(world, machine.unwrap_or_default(), what))
    }
}

/// The timer that a connection's next segment waits for: include/net/inet_connection_sock.h.
fn timer(world: &World, socket: &[u8]) -> &'static str {
    match world.field(socket, "icsk_pending") {
        Some(0) => "none",
        Some(1) => "retransmission",
        Some(3) => "zero window probe",
        Some(5) => "tail loss probe",
        Some(6) => "reordering",
        _ => "?",
    }
}
