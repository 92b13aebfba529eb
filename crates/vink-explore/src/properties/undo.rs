//! A congestion window that was reduced for a loss is not restored unless what was sent again for it
//! was not needed (P7; RFC 3522, RFC 3708, 2).
//!
//! It was not needed if the receiver tells so of all of it (DSACK), or if an acknowledgement echoes
//! a time before any of it was sent. Of what a time-out has reduced, in a recovery or not, nothing is
//! said: there RFC 5682 knows more reasons. Nor is anything said where the wire has duplicated a
//! packet, or where one is told to be a duplicate that was never sent again, as one of an old
//! connection: a sender counts what it is told of duplicates, from wherever they are (RFC 3708, 4).
//!
//! What is sent again when a recovery is over is none of it: tail loss probes.
//!
//! An undo forgets where the recovery began. Where the threshold is as before, and that is still known,
//! it is so by chance: some congestion controls make it of what they have measured.
//!
//! Linux 6.12 breaks it itself where a tail loss probe that was sent after a recovery was not needed:
//! docs/mutants.md. The report says so.

use super::socket::Socket;
use super::{Check, Property};
use crate::ends::ByEnds;
use crate::packet::overlap;
use crate::{behind, blocks, options, Fate, Fault, Packet, Point, Segment, World};

/// The kernel's TCP_CA_Disorder, which is the last state that is none of a recovery, TCP_CA_Recovery
/// and TCP_CA_Loss.
const DISORDER: u64 = 1;
const RECOVERY: u64 = 3;
const LOSS: u64 = 4;

/// What the report says of Linux's own mistake.
const PROBE: &str = " It has been told that a tail loss probe, which it sent after that recovery, was not \
                     needed, and counts that as if it were what it has sent again (docs/mutants.md: found in \
                     Linux itself).";

/// See the head of the file.
#[derive(Default)]
pub(super) struct Undo {
    /// By the sender's address and its peer's.
    flows: ByEnds<Flow>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    socket: Socket,
    /// The sequence number behind the last byte that was sent.
    sent: u32,
    /// All that was sent again.
    resent: Vec<(u32, u32)>,
    /// The slow start threshold.
    threshold: u64,
    /// The recovery that has reduced it.
    recovery: Option<Recovery>,
    /// When acknowledgements came last, and all of that time. They are told before the stack looks at
    /// any of them.
    come: (u64, Vec<Acknowledgement>),
}

/// What an acknowledgement says.
#[derive(Clone, Copy)]
struct Acknowledgement {
    ack: u32,
    /// The time that it echoes.
    echo: Option<u32>,
    /// What has come twice (RFC 2883).
    duplicate: Option<(u32, u32)>,
    /// That was never sent again.
    is_strange: bool,
}

/// A fast recovery.
struct Recovery {
    /// The threshold before it.
    before: u64,
    /// Where it began, as the stack notes it: `undo_marker`.
    marker: u64,
    /// What was sent again in it and was needed, as far as is known.
    again: Vec<(u32, u32)>,
    /// The sequence number and the timestamp of the first of it.
    first: Option<(u32, u32)>,
    /// An acknowledgement has echoed a time before that, or told of a strange duplicate.
    is_excused: bool,
    /// What was sent again when it was over: tail loss probes.
    probes: Vec<(u32, u32)>,
    /// One of them has been told to be a duplicate.
    probe_told: bool,
}

impl Acknowledgement {
    fn of(segment: &Segment<'_>, resent: &[(u32, u32)]) -> Acknowledgement {
        // The first block is a duplicate's if it is acknowledged, or within the second.
        let mut all = blocks(segment.options);
        let (first, second) = (all.next(), all.next());
        let is_duplicate = |(left, right): &(u32, u32)| {
            let is_within = |(from, to)| behind(*left, from) >= 0 && behind(*right, to) <= 0;
            behind(*left, segment.ack) < 0 || second.is_some_and(is_within)
        };
        let duplicate = first.filter(is_duplicate);
        let was_resent = |told| resent.iter().any(|again| overlap(*again, told));
        Acknowledgement {
            ack: segment.ack,
            echo: stamps(segment.options).map(|(_, echo)| echo),
            duplicate,
            is_strange: duplicate.is_some_and(|told| !was_resent(told)),
        }
    }
}

impl Recovery {
    fn new(before: u64, marker: u64) -> Recovery {
        Recovery {
            before,
            marker,
            again: Vec::new(),
            first: None,
            is_excused: false,
            probes: Vec::new(),
            probe_told: false,
        }
    }

    /// An acknowledgement tells of what was sent again.
    fn told(&mut self, told: Acknowledgement) {
        // An acknowledgement of the first that was sent again may echo a time before that.
        if let (Some((seq, stamp)), Some(echo)) = (self.first, told.echo) {
            self.is_excused |= echo != 0 && behind(told.ack, seq) > 0 && behind(echo, stamp) < 0;
        }
        self.is_excused |= told.is_strange;
        let Some(duplicate) = told.duplicate else {
            return;
        };
        // What was sent again may have had other bounds.
        let is_told = |again: &(u32, u32)| overlap(*again, duplicate);
        self.probe_told |= self.probes.iter().any(is_told);
        self.again.retain(|again| !is_told(again));
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
        if flow.socket.is_another(world, packet.socket) {
            *flow = Flow {
                socket: flow.socket,
                ..Flow::default()
            };
        }
        let marker = field("undo_marker").unwrap_or(0);
        let before = std::mem::replace(&mut flow.threshold, threshold);
        // One may have been undone, and the next begun, since the socket was looked at last.
        let known = flow.recovery.as_ref();
        let unseen = known.filter(|known| marker != 0 && marker != known.marker);
        let reduced = match before != 0 && threshold < before {
            true => Some(before),
            false => unseen.map(|known| known.before),
        };
        if state == LOSS {
            flow.recovery = None;
        } else if let Some(before) = reduced {
            flow.recovery = (state == RECOVERY).then(|| Recovery::new(before, marker));
        }
        let mut is_undone = false;
        if let Some(recovery) = &flow.recovery {
            let is_forgotten = marker == 0;
            is_undone = threshold > before && threshold == recovery.before && is_forgotten;
            if is_undone && (recovery.is_excused || recovery.again.is_empty()) {
                is_undone = false;
                flow.recovery = None;
            }
        }
        let is_ours = |fault: &Fault| fault.deviation.fate == Fate::Duplicate;
        if is_undone && !world.faults.iter().any(is_ours) {
            let machine = &world.ends[packet.end].machine;
            let mut what = format!(
                "The connection {own} to {peer} takes back what it has reduced for a loss, though what it has \
                 sent again for it was needed."
            );
            if flow.recovery.as_ref().is_some_and(|one| one.probe_told) {
                what += PROBE;
            }
            return Err(self.broken(world, machine, what));
        }
        match packet.point {
            Point::Departure if segment.length() > 0 => {
                let is_again = flow.sent != 0 && behind(segment.seq, flow.sent) < 0;
                let again = (segment.seq, segment.end());
                if is_again {
                    flow.resent.push(again);
                }
                if let (true, Some(recovery)) = (is_again, &mut flow.recovery) {
                    if state <= DISORDER {
                        recovery.probes.push(again);
                    } else {
                        recovery.again.push(again);
                        let stamp = stamps(segment.options).map(|(stamp, _)| (segment.seq, stamp));
                        recovery.first = recovery.first.or(stamp);
                        let (time, come) = &flow.come;
                        if *time == packet.time {
                            come.iter().for_each(|told| recovery.told(*told));
                        }
                    }
                }
                if flow.sent == 0 || behind(segment.end(), flow.sent) > 0 {
                    flow.sent = segment.end();
                }
            }
            Point::Arrival => {
                let told = Acknowledgement::of(&segment, &flow.resent);
                if flow.come.0 != packet.time {
                    flow.come = (packet.time, Vec::new());
                }
                flow.come.1.push(told);
                if let Some(recovery) = &mut flow.recovery {
                    recovery.told(told);
                }
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const MS: u64 = 1_000_000;
    const FIELDS: [&str; 4] = ["snd_ssthresh", "icsk_ca_state", "undo_marker", "segs_out"];
    /// The threshold without any loss.
    const INFINITE: u64 = 0x7fff_ffff;

    /// A connection that has lost a segment, sent it again, and had it acknowledged.
    struct Sender {
        world: World,
        property: Undo,
        time: u64,
        segments: u64,
    }

    impl Sender {
        fn after_recovery() -> Sender {
            let world = World::of_ends(&["client"]).with_fields(&FIELDS);
            let mut sender = Sender {
                world,
                property: Undo::default(),
                time: 0,
                segments: 0,
            };
            for seq in [1, 1001] {
                assert_eq!(sender.sends(seq, INFINITE, 0, 0), Ok(()));
            }
            assert_eq!(sender.sends(1, 7, RECOVERY, 1), Ok(()));
            assert_eq!(sender.has(2001, &[], 7), Ok(()));
            assert_eq!(sender.sends(2001, 7, 0, 1), Ok(()));
            sender
        }

        /// It sends a thousand bytes, with this threshold, in this state.
        fn sends(&mut self, seq: u32, threshold: u64, state: u64, marker: u64) -> Check {
            self.segments += 1;
            let segment = Segment::of(Self::ends(), Segment::ACK, seq, 1, &[0; 1000]);
            self.look(segment, Point::Departure, [threshold, state, marker])
        }

        /// An acknowledgement comes, and none is told of yet.
        fn has(&mut self, ack: u32, options: &[u8], threshold: u64) -> Check {
            let (own, peer) = Self::ends();
            let mut segment = Segment::of((peer, own), Segment::ACK, 1, ack, b"");
            segment.options = options;
            self.look(segment, Point::Arrival, [threshold, 0, 1])
        }

        fn look(&mut self, segment: Segment<'_>, point: Point, state: [u64; 3]) -> Check {
            self.time += MS;
            let [threshold, state, marker] = state;
            let socket = self.world.socket(&[
                ("snd_ssthresh", threshold),
                ("icsk_ca_state", state),
                ("undo_marker", marker),
                ("segs_out", self.segments),
            ]);
            let packet = Packet::at_end_of(segment, 0, point, self.time);
            self.property
                .packet(&self.world, &packet.of_socket(&socket))
        }

        fn ends() -> (SocketAddr, SocketAddr) {
            (
                "10.0.0.1:9".parse().unwrap(),
                "10.0.0.2:80".parse().unwrap(),
            )
        }
    }

    /// A SACK option of one block.
    fn told(left: u32, right: u32) -> Vec<u8> {
        let block = [left.to_be_bytes(), right.to_be_bytes()].concat();
        [vec![5, 10], block].concat()
    }

    #[test]
    fn a_reduction_for_a_loss_stays() {
        let mut sender = Sender::after_recovery();
        let undone = sender.sends(3001, INFINITE, 0, 0).unwrap_err();
        assert!(!undone.what.contains("tail loss probe"), "{}", undone.what);
    }

    #[test]
    fn what_was_not_needed_is_taken_back() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.has(2001, &told(1, 1001), 7), Ok(()));
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }

    #[test]
    fn a_probe_that_was_not_needed_is_told_of() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(2001, 7, 0, 1), Ok(()));
        assert_eq!(sender.has(3001, &told(2001, 3001), 7), Ok(()));
        let undone = sender.sends(3001, INFINITE, 0, 0).unwrap_err();
        assert!(undone.what.ends_with(PROBE), "{}", undone.what);
    }

    #[test]
    fn a_probe_that_was_needed_is_no_part_of_the_recovery() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(2001, 7, 0, 1), Ok(()));
        assert_eq!(sender.has(3001, &told(1, 1001), 7), Ok(()));
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }

    #[test]
    fn a_duplicate_may_be_told_of_before_it_is_sent_again() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(3001, 7, 0, 0), Ok(()));
        assert_eq!(sender.has(3001, &told(2001, 3001), 7), Ok(()));
        sender.time -= MS;
        assert_eq!(sender.sends(2001, 5, RECOVERY, 2001), Ok(()));
        assert_eq!(sender.sends(4001, 7, 0, 0), Ok(()));
    }

    #[test]
    fn a_duplicate_of_an_old_connection_counts() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.has(2001, &told(1501, 1601), 7), Ok(()));
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }

    #[test]
    fn a_recovery_may_begin_unseen() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(2001, 7, RECOVERY, 2001), Ok(()));
        assert_eq!(sender.has(3001, &told(2001, 3001), 7), Ok(()));
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }

    #[test]
    fn of_a_time_out_nothing_is_said() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(2001, 7, LOSS, 1), Ok(()));
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }

    #[test]
    fn a_threshold_that_is_measured_is_no_undo() {
        let mut sender = Sender::after_recovery();
        assert_eq!(sender.sends(3001, INFINITE, 0, 1), Ok(()));
    }

    #[test]
    fn another_socket_of_the_same_ends_has_had_no_loss() {
        let mut sender = Sender::after_recovery();
        sender.segments = 0;
        assert_eq!(sender.sends(3001, INFINITE, 0, 0), Ok(()));
    }
}
