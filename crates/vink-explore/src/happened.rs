//! What happened in a run, one event after the other: packets with what has become of them, and lines of programs.

use crate::packet::is_searched;
use crate::{End, Point, RecordedPacket, Recording};

/// Something that happened in a run, at a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When, ns.
    pub time: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet departed, arrived or was lost.
    Packet {
        /// Its place among [`Recording::packets`].
        packet: usize,
        /// Of one that arrived or was lost: the event of its departure, by its place in the list.
        departure: Option<usize>,
    },
    /// A program has written a line.
    Line {
        /// The program's place among all.
        program: usize,
        /// The line, without its end.
        text: String,
    },
}

/// All that has happened, in its order. Neighbours and routers that look for each other are left out; captures have them.
pub fn happened(recording: &Recording, ends: &[End]) -> Vec<Happened> {
    let mut all = Vec::new();
    let mut under_way = UnderWay::default();
    let mut written = recording.lines.iter().peekable();
    let shown = |packet: &&RecordedPacket| packet.headless || is_searched(&packet.frame);
    let packets = recording.packets.iter();
    for (place, packet) in packets.enumerate().filter(|(_, packet)| shown(packet)) {
        while let Some(one) = written.next_if(|one| one.time < packet.time) {
            all.extend(lines(one));
        }
        let departure = match packet.point {
            Point::Departure => {
                under_way.departs(all.len(), packet, ends);
                None
            }
            Point::Arrival | Point::Loss => under_way.ends(packet, ends),
        };
        let packet_event = What::Packet {
            packet: place,
            departure,
        };
        all.push(Happened {
            time: packet.time,
            what: packet_event,
        });
    }
    all.extend(written.flat_map(lines));
    all
}

fn lines(written: &crate::Written) -> impl Iterator<Item = Happened> + '_ {
    written.text.lines().map(|line| Happened {
        time: written.time,
        what: What::Line {
            program: written.program,
            text: line.to_owned(),
        },
    })
}

/// Packets that have departed, to be found by their bytes where they arrive.
#[derive(Default)]
struct UnderWay<'a>(Vec<Departed<'a>>);

struct Departed<'a> {
    /// Its event's place.
    event: usize,
    wire: &'a str,
    frame: &'a [u8],
    /// It has arrived, or was lost. One that comes twice does so again.
    ended: bool,
}

impl<'a> UnderWay<'a> {
    fn departs(&mut self, event: usize, packet: &'a RecordedPacket, ends: &'a [End]) {
        self.0.push(Departed {
            event,
            wire: &ends[packet.end].wire,
            frame: &packet.frame,
            ended: false,
        });
    }

    /// The departure of one that arrives or is lost: the first one with its bytes that has not ended, or the last one
    /// that has.
    fn ends(&mut self, packet: &RecordedPacket, ends: &[End]) -> Option<usize> {
        let wire = &ends[packet.end].wire;
        let is_it = |one: &&mut Departed<'_>| one.wire == wire && one.frame == packet.frame;
        let new = self.0.iter_mut().filter(is_it).find(|one| !one.ended);
        if let Some(new) = new {
            new.ended = true;
            return Some(new.event);
        }
        let again = self.0.iter_mut().rev().find(is_it)?;
        Some(again.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Written;

    fn packet(time: u64, end: usize, point: Point, byte: u8) -> RecordedPacket {
        // UDP over IPv4, which is searched.
        let mut frame = vec![0; 14 + 20 + 8];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[14 + 9] = libc::IPPROTO_UDP as u8;
        frame.push(byte);
        RecordedPacket {
            time,
            end,
            point,
            reason: None,
            frame,
            headless: false,
            number: None,
            fate: None,
        }
    }

    #[test]
    fn packets_are_found_again_where_they_arrive() {
        let end = |machine: &str| End {
            machine: machine.to_owned(),
            interface: "eth0".to_owned(),
            wire: "w1".to_owned(),
        };
        let recording = Recording {
            packets: vec![
                packet(1, 0, Point::Departure, 7),
                packet(2, 0, Point::Departure, 8),
                packet(3, 1, Point::Arrival, 8),
                packet(4, 0, Point::Departure, 7),
                packet(5, 1, Point::Arrival, 7),
                packet(6, 1, Point::Arrival, 8),
                packet(7, 0, Point::Loss, 7),
                packet(8, 1, Point::Arrival, 9),
            ],
            lines: vec![Written {
                time: 3,
                program: 0,
                text: "one\ntwo\n".to_owned(),
            }],
            ..Recording::default()
        };
        let all = happened(&recording, &[end("a"), end("b")]);
        let told: Vec<_> = all
            .iter()
            .map(|one| match &one.what {
                What::Packet { packet, departure } => (one.time, packet.to_string(), *departure),
                What::Line { text, .. } => (one.time, text.clone(), None),
            })
            .collect();
        let expected = [
            (1, "0", None),
            (2, "1", None),
            (3, "2", Some(1)),
            (3, "one", None),
            (3, "two", None),
            (4, "3", None),
            (5, "4", Some(0)),
            (6, "5", Some(1)),
            (7, "6", Some(5)),
            (8, "7", None),
        ];
        let expected = expected.map(|(time, what, of)| (time, what.to_owned(), of));
        assert_eq!(told, expected);
    }
}
