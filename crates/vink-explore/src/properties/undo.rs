//! A congestion window that was reduced for a loss is not restored unless what was sent again for it
//! was not needed (P7; RFC 3522, RFC 3708, 2).
//!
//! It was not needed if the receiver tells so of all of it (DSACK), or if an acknowledgement echoes
//! a time before any of it was sent. Of what a time-out has reduced nothing is said: there RFC 5682
//! knows more reasons. Nor is anything said where the wire has duplicated a packet: a sender counts
//! what it is told of duplicates, from wherever they are (RFC 3708, 4).

use std::collections::HashMap;
use std::net::SocketAddr;

use super::{Check, Property};
use crate::{behind, blocks, options, Fate, Fault, Packet, Point, Segment, World};

/// The kernel's TCP_CA_Recovery.
const RECOVERY: u64 = 3;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Undo {
    /// By the sender's address and its peer's.
    flows: HashMap<(SocketAddr, SocketAddr), Flow>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// The sequence number behind the last byte that was sent.
    sent: u32,
    /// The slow start threshold.
    threshold: u64,
    /// The recovery that has reduced it.
    recovery: Option<Recovery>,
    /// When acknowledgements came last, and all of that time: what each acknowledges, and which time
    /// it echoes. They are told before the stack looks at any of them.
    come: (u64, Vec<(u32, u32)>),
}

/// A fast recovery.
struct Recovery {
    /// The threshold before it.
    before: u64,
    /// What was sent again in it and was needed, as far as is known.
    again: Vec<(u32, u32)>,
    /// The sequence number and the timestamp of the first of it.
    first: Option<(u32, u32)>,
    /// An acknowledgement has echoed a time before that.
    is_early: bool,
}

impl Recovery {
    /// Whether an acknowledgement of the first that was sent again echoes a time before that.
    fn is_before(&self, (ack, echo): (u32, u32)) -> bool {
        let is_it = |(seq, stamp)| behind(ack, seq) > 0 && behind(echo, stamp) < 0;
        echo != 0 && self.first.is_some_and(is_it)
    }
}

impl Property for Undo {
    fn name(&self) -> &'static str {
        "undo"
    }

    fn says(&self) -> &'static str {
        "A reduction for a loss is not undone while what was sent again was needed (RFC 3708, 2)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection() else {
            return Ok(());
        };
        if packet.point == Point::Departure && segment.has(Segment::SYN) {
            self.flows.remove(&(own, peer));
        }
        let field = |name| world.field(packet.socket, name);
        let (Some(threshold), Some(state)) = (field("snd_ssthresh"), field("icsk_ca_state")) else {
            return Ok(());
        };
        let flow = self.flows.entry((own, peer)).or_default();
        let before = std::mem::replace(&mut flow.threshold, threshold);
        if before != 0 && threshold < before {
            flow.recovery = (state == RECOVERY).then(|| Recovery {
                before,
                again: Vec::new(),
                first: None,
                is_early: false,
            });
        }
        let mut is_undone = false;
        if let Some(recovery) = &flow.recovery {
            is_undone = threshold > before && threshold == recovery.before;
            if is_undone && (recovery.is_early || recovery.again.is_empty()) {
                is_undone = false;
                flow.recovery = None;
            }
        }
        let is_ours = |fault: &Fault| fault.deviation.fate == Fate::Duplicate;
        if is_undone && !world.faults.iter().any(is_ours) {
            let machine = &world.ends[packet.end].machine;
            let what = format!(
                "The connection {own} to {peer} takes back what it has reduced for a loss, though what it has \
                 sent again for it was needed."
            );
            return Err(self.broken(world, machine, what));
        }
        match packet.point {
            Point::Departure if segment.length() > 0 => {
                let is_again = flow.sent != 0 && behind(segment.seq, flow.sent) < 0;
                if let (true, Some(recovery)) = (is_again, &mut flow.recovery) {
                    recovery.again.push((segment.seq, segment.end()));
                    if let (None, Some((stamp, _))) = (recovery.first, stamps(segment.options)) {
                        recovery.first = Some((segment.seq, stamp));
                        let (time, come) = &flow.come;
                        if *time == packet.time {
                            recovery.is_early |= come.iter().any(|ack| recovery.is_before(*ack));
                        }
                    }
                }
                if flow.sent == 0 || behind(segment.end(), flow.sent) > 0 {
                    flow.sent = segment.end();
                }
            }
            Point::Arrival => {
                let ack = stamps(segment.options).map(|(_, echo)| (segment.ack, echo));
                if flow.come.0 != packet.time {
                    flow.come = (packet.time, Vec::new());
                }
                flow.come.1.extend(ack);
                let Some(recovery) = &mut flow.recovery else {
                    return Ok(());
                };
                // The first block is a duplicate's if it is acknowledged, or within the second.
                let mut all = blocks(segment.options);
                if let Some((left, right)) = all.next() {
                    let is_within =
                        |(first, last)| behind(left, first) >= 0 && behind(right, last) <= 0;
                    if behind(left, segment.ack) < 0 || all.next().is_some_and(is_within) {
                        // What was sent again may have had other bounds.
                        let is_told = |again: &(u32, u32)| {
                            behind(again.1, left) > 0 && behind(right, again.0) > 0
                        };
                        recovery.again.retain(|again| !is_told(again));
                    }
                }
                recovery.is_early |= ack.is_some_and(|ack| recovery.is_before(ack));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The timestamps option: the own one, and the echo (RFC 7323, 3.2).
fn stamps(from: &[u8]) -> Option<(u32, u32)> {
    options(from).find_map(|(kind, value)| match (kind, value) {
        (8, [a, b, c, d, e, f, g, h]) => Some((
            u32::from_be_bytes([*a, *b, *c, *d]),
            u32::from_be_bytes([*e, *f, *g, *h]),
        )),
        _ => None,
    })
}
