//! Packets do not go on and on with nothing coming of them (P4).
//!
//! Two signs of it. A connection's end repeats itself: to the same segment that comes it sends the
//! same segment, again and again within some seconds, though neither has anything new (RFC 9293,
//! 3.10.7.4: an acknowledgement is not acknowledged). Or a run has no end but packets, many times as
//! many as it needs without faults: that sees protocols of any kind.

use std::collections::HashMap;

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{blocks, Ending, Packet, Point, Segment, World};

/// How often the same may be sent in answer to the same, within [`SPAN`]: what asks for a sign of
/// life, or answers what makes no sense, does so twice a second at most.
const MOST: usize = 32;
const SPAN: u64 = 10_000_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Livelock {
    /// By an end's own address and its peer's.
    ends: ByEnds<End>,
}

/// One end of a connection.
#[derive(Default)]
struct End {
    /// What has come last.
    come: Option<Look>,
    /// When which segment was sent after which.
    steps: HashMap<(Option<Look>, Look), Vec<u64>>,
}

/// What a segment says, without its time and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Look {
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    length: usize,
    sacks: Vec<(u32, u32)>,
}

impl Look {
    fn of(segment: &Segment<'_>) -> Look {
        Look {
            flags: segment.flags,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            length: segment.data.len(),
            sacks: blocks(segment.options).collect(),
        }
    }
}

impl Property for Livelock {
    fn name(&self) -> &'static str {
        "livelock"
    }

    fn says(&self) -> &'static str {
        "Packets do not go on and on with nothing coming of them (RFC 9293, 3.10.7.4)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection().filter(|_| packet.at_end) else {
            return Ok(());
        };
        let end = self.ends.entry((own, peer)).or_default();
        let look = Look::of(&segment);
        if packet.point == Point::Arrival {
            end.come = Some(look);
            return Ok(());
        }
        let times = end.steps.entry((end.come.clone(), look)).or_default();
        times.retain(|time| packet.time - time < SPAN);
        times.push(packet.time);
        if times.len() <= MOST {
            return Ok(());
        }
        let what = format!(
            "{own} has answered the same segment of {peer} {} times with the same one within {:.3} s, and \
             neither has anything new.",
            times.len(),
            (packet.time - times[0]) as f64 / 1e9
        );
        Err(self.broken(world, &world.ends[packet.end].machine, what))
    }

    fn end(&mut self, world: &World, ending: &Ending) -> Check {
        // Without faults, the lab is as it is meant to be.
        if *ending != Ending::Flood || world.expected.is_empty() {
            return Ok(());
        }
        let waiting: Vec<_> = world.waiting().collect();
        let mut what = "Packets are sent without an end.\n".to_owned();
        for program in &waiting {
            what += &format!(
                "{} on {} has not ended, as it does without faults.\n",
                program.name, program.machine
            );
            if let Some(line) = program.last_line() {
                what += &format!("The last that it has written: {line}\n");
            }
        }
        let machine = waiting
            .first()
            .map_or("", |program| program.machine.as_str());
        Err(self.broken(world, machine, what.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of nothing new.
    fn acknowledgement(from: &str, to: &str, window: u16) -> Segment<'static> {
        Segment {
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            seq: 1,
            ack: 1,
            flags: Segment::ACK,
            window,
            options: &[],
            data: &[],
        }
    }

    #[test]
    fn two_ends_that_answer_answers() {
        let world = World::of_ends(&["a", "b"]);
        // Of ms between two of them; whether the window changes: something is new.
        let goes_on = |ms: u64, is_new: bool| {
            let mut livelock = Livelock::default();
            let mut check = Ok(());
            for step in 0..100 {
                let window = if is_new { step as u16 } else { 9 };
                for (point, from, to) in [
                    (Point::Arrival, "10.0.0.2:2", "10.0.0.1:1"),
                    (Point::Departure, "10.0.0.1:1", "10.0.0.2:2"),
                ] {
                    let segment = acknowledgement(from, to, window);
                    let packet = Packet::at_end_of(segment, 0, point, step * ms * 1_000_000);
                    check = check.and_then(|()| livelock.packet(&world, &packet));
                }
            }
            check.err().map(|violation| violation.machine)
        };
        assert_eq!(goes_on(10, false).as_deref(), Some("a"));
        assert_eq!(goes_on(10, true), None);
        assert_eq!(goes_on(500, false), None);
    }

    #[test]
    fn a_run_that_sends_without_an_end() {
        let mut world = World::of_ends(&["a"]);
        let mut livelock = Livelock::default();
        assert!(livelock.end(&world, &Ending::Flood).is_ok());
        world.expected.push(None);
        assert!(livelock.end(&world, &Ending::Flood).is_err());
        assert!(livelock.end(&world, &Ending::Late).is_ok());
    }
}
