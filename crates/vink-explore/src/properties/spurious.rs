//! A time-out that was not needed is found out (P7; RFC 5682, 3.1): the sender sends again one
//! segment, and then new data. If what it has not sent again is acknowledged next, nothing was lost.
//!
//! An acknowledgement that only tells of a duplicate says nothing of that. Whatever else comes
//! between, or is sent, ends the story: then nothing is said of the time-out.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, blocks, Packet, Point, Segment, World};

/// The kernel's TCP_CA_Loss.
const LOSS: u64 = 4;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Spurious {
    /// By the sender's address and its peer's.
    flows: ByEnds<Flow>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// What was ever sent again and is not acknowledged.
    again: Vec<(u32, u32)>,
    /// What has become of the last time-out.
    step: Step,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    /// Nothing is known.
    #[default]
    None,
    /// One segment was sent again: the sequence number behind it, and behind all that was sent.
    SentAgain(u32, u32),
    /// It was acknowledged; all was sent before this sequence number.
    Acknowledged(u32),
    /// New data was sent: the algorithm is under way.
    SentNew(u32),
    /// What was not sent again was acknowledged.
    Spurious,
}

impl Property for Spurious {
    fn name(&self) -> &'static str {
        "spurious"
    }

    fn says(&self) -> &'static str {
        "A time-out that was not needed is found out, and taken back (RFC 5682, 3.1)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection().filter(|_| packet.at_end) else {
            return Ok(());
        };
        let field = |name| world.field(packet.socket, name).map(|number| number as u32);
        let (Some(una), Some(next)) = (field("snd_una"), field("snd_nxt")) else {
            self.flows.remove(&(own, peer));
            return Ok(());
        };
        let flow = self.flows.entry((own, peer)).or_default();
        flow.again.retain(|(_, end)| behind(*end, una) > 0);
        if packet.point == Point::Arrival {
            flow.step = flow.after(&segment, una);
        } else if segment.length() > 0 {
            let is_again = behind(segment.seq, next) < 0;
            // By a time-out, and with nothing that was acknowledged out of order.
            let is_first = is_again
                && segment.seq == una
                && world.field(packet.socket, "icsk_ca_state") == Some(LOSS)
                && field("sacked_out") == Some(0);
            flow.step = match flow.step {
                // It is looked at when the machines wait.
                Step::Spurious => Step::Spurious,
                Step::Acknowledged(sent) | Step::SentNew(sent) if !is_again => Step::SentNew(sent),
                _ if is_first => Step::SentAgain(segment.end(), next),
                _ => Step::None,
            };
            if is_again {
                flow.again.push((segment.seq, segment.end()));
            }
        }
        Ok(())
    }

    fn idle(&mut self, world: &World) -> Check {
        if self.flows.values().all(|flow| flow.step != Step::Spurious) {
            return Ok(());
        }
        for (machine, connection) in world.connections() {
            let ends = (connection.local, connection.remote);
            let Some(flow) = self.flows.get_mut(&ends) else {
                continue;
            };
            let is_spurious = std::mem::take(&mut flow.step) == Step::Spurious;
            if is_spurious && world.field(&connection.bytes, "icsk_ca_state") == Some(LOSS) {
                let what = format!(
                    "{} has had a time-out, and sent one segment again, and then new data. Now {} has \
                     acknowledged what was not sent again: nothing was lost, but it goes on as if all was.",
                    ends.0, ends.1
                );
                return Err(self.broken(world, machine, what));
            }
        }
        Ok(())
    }
}

impl Flow {
    /// The step after a segment that has come, where `una` was acknowledged before.
    fn after(&self, segment: &Segment<'_>, una: u32) -> Step {
        let new = behind(segment.ack, una);
        let is_sacked = blocks(segment.options).any(|(from, _)| behind(from, segment.ack) > 0);
        if segment.length() > 0 || !segment.has(Segment::ACK) || new < 0 || is_sacked {
            return Step::None;
        }
        let is_duplicate = new == 0 && blocks(segment.options).next().is_some();
        let is_again =
            |(from, to): &(u32, u32)| behind(*from, segment.ack) < 0 && behind(*to, una) > 0;
        match self.step {
            Step::SentAgain(end, sent) if segment.ack == end => Step::Acknowledged(sent),
            Step::SentNew(sent) if is_duplicate => Step::SentNew(sent),
            Step::SentNew(sent)
                if new > 0 && behind(segment.ack, sent) < 0 && !self.again.iter().any(is_again) =>
            {
                Step::Spurious
            }
            _ => Step::None,
        }
    }
}
