//! A run in plain text: what was sent, what was done to it, what came of it.

use std::fmt::Write;

use crate::happened::{happened, What};
use crate::packet::{internet, segment};
use crate::{Deviation, End, Outcome, Point, Program, RecordedPacket, Segment, Violation};

/// Events that are shown of a long run: the first ones, and the last ones.
const SHOWN: usize = 120;

/// What a story is told of.
pub struct Story<'a> {
    /// The lab's name.
    pub lab: &'a str,
    /// The image's file name.
    pub image: &'a str,
    /// What is broken.
    pub violation: &'a Violation,
    /// What the property says.
    pub property: &'a str,
    /// The run, with its recording.
    pub outcome: &'a Outcome,
    /// Interfaces by their places in the recording.
    pub ends: &'a [End],
}

impl Story<'_> {
    /// A page for users.
    pub fn text(&self) -> String {
        let mut text = format!(
            "Lab {} on {}: the property \"{}\" does not hold.\n{}\n\n",
            self.lab, self.image, self.violation.property, self.property
        );
        let told = Told {
            outcome: self.outcome,
            ends: self.ends,
        };
        text += &told.deviations();
        let at = match self.violation.machine.as_str() {
            "" => String::new(),
            machine => format!(" on {machine}"),
        };
        let _ = write!(
            text,
            "\nAt {} s{at}:\n{}\n",
            seconds(self.violation.time),
            indented(&self.violation.what)
        );
        text += "\nPrograms:\n";
        text += &told.programs();
        text += "\nWhat happened:\n";
        text += &told.events();
        text
    }
}

/// A run, in parts of a story.
pub(crate) struct Told<'a> {
    /// The run, with its recording.
    pub outcome: &'a Outcome,
    /// Interfaces by their places in the recording.
    pub ends: &'a [End],
}

impl Told<'_> {
    /// What was done to packets, a line each.
    pub fn deviations(&self) -> String {
        let deviations = &self.outcome.faults;
        let mut text = match deviations.len() {
            0 => "Nothing was done to any packet.\n".to_owned(),
            1 => "One packet had another fate:\n".to_owned(),
            many => format!("{many} packets had other fates:\n"),
        };
        for fault in deviations {
            let _ = write!(text, "  {} s  {}", seconds(fault.time), fault.deviation);
            if let Some(packet) = self.packet(&fault.deviation) {
                let _ = write!(text, ": {}", said(packet));
            }
            if let Some(until) = fault.until {
                let _ = write!(text, " (until {} s)", seconds(until));
            }
            text.push('\n');
        }
        text
    }

    /// How programs have ended, a line each.
    pub fn programs(&self) -> String {
        let mut text = String::new();
        for program in &self.outcome.programs {
            let words = program.words.join(" ");
            let end = match &program.ended {
                None => "has not ended".to_owned(),
                Some(ended) => format!(
                    "ended at {} s with status {}{}",
                    seconds(ended.time),
                    ended.status,
                    ended
                        .error
                        .as_ref()
                        .map_or(String::new(), |why| format!(": {why}"))
                ),
            };
            let _ = writeln!(
                text,
                "  {} on {} ({words}): {end}",
                program.name, program.machine
            );
        }
        text
    }

    /// The packet that a deviation is about, as it departed.
    fn packet(&self, deviation: &Deviation) -> Option<&RecordedPacket> {
        let recording = self.outcome.recording.as_ref()?;
        let mut packets = recording.packets.iter();
        packets.find(|packet| {
            packet.number == Some(deviation.packet)
                && self.ends[packet.end].name() == deviation.from
        })
    }

    /// Packets and what programs have written, a line each.
    pub fn events(&self) -> String {
        let Some(recording) = &self.outcome.recording else {
            return String::new();
        };
        let all = happened(recording, self.ends);
        let lines = all.iter().map(|one| {
            let time = seconds(one.time);
            match &one.what {
                What::Packet { packet, .. } => {
                    let packet = &recording.packets[*packet];
                    let end = self.ends[packet.end].name();
                    let fate = packet.fate;
                    let fate = fate.map_or(String::new(), |fate| format!("   <-- {fate}"));
                    let point = point(packet);
                    format!("  {time:>12} s  {end} {point}: {}{fate}\n", said(packet))
                }
                What::Line { program, text } => {
                    let Program { machine, name, .. } = &self.outcome.programs[*program];
                    format!("  {time:>12} s  {name} on {machine} writes: {text}\n")
                }
            }
        });
        let lines: Vec<String> = lines.collect();
        if lines.len() <= SHOWN {
            return lines.concat();
        }
        let (first, rest) = lines.split_at(SHOWN / 2);
        let (between, last) = rest.split_at(rest.len() - SHOWN / 2);
        let left_out = format!(
            "  ... {} more events; the capture has them\n",
            between.len()
        );
        first.concat() + &left_out + &last.concat()
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// What happens to a packet at an interface.
fn point(packet: &RecordedPacket) -> String {
    let number = packet.number;
    let number = number.map_or(String::new(), |number| format!(" {number}"));
    match packet.point {
        Point::Departure => format!("sends{number}"),
        Point::Arrival => "has".to_owned(),
        Point::Loss => format!("loses ({})", packet.reason.as_deref().unwrap_or("?")),
    }
}

/// What a packet says, in short.
pub fn said(packet: &RecordedPacket) -> String {
    let frame = &packet.frame;
    if packet.headless {
        return format!("{} bytes without an Ethernet header", frame.len());
    }
    if let Some(segment) = segment(frame) {
        return format!(
            "TCP {} > {} [{}] seq {} ack {} win {}, {} bytes",
            segment.from,
            segment.to,
            flags(&segment),
            segment.seq,
            if segment.has(Segment::ACK) {
                segment.ack
            } else {
                0
            },
            segment.window,
            segment.data.len()
        );
    }
    match internet(frame) {
        Some((protocol, from, to, [a, b, c, d, _, _, _, _, data @ ..]))
            if i32::from(protocol) == libc::IPPROTO_UDP =>
        {
            let [from_port, to_port] = [[*a, *b], [*c, *d]].map(u16::from_be_bytes);
            let from = std::net::SocketAddr::new(from, from_port);
            let to = std::net::SocketAddr::new(to, to_port);
            format!("UDP {from} > {to}, {} bytes", data.len())
        }
        Some((protocol, from, to, rest)) => {
            let name = match i32::from(protocol) {
                libc::IPPROTO_UDP => "UDP".to_owned(),
                libc::IPPROTO_ICMP => "ICMP".to_owned(),
                libc::IPPROTO_ICMPV6 => "ICMPv6".to_owned(),
                libc::IPPROTO_SCTP => "SCTP".to_owned(),
                other => format!("protocol {other}"),
            };
            format!("{name} {from} > {to}, {} bytes", rest.len())
        }
        None => match frame.get(12..14) {
            Some([0x08, 0x06]) => "ARP".to_owned(),
            Some([a, b]) => format!("ether type {a:02x}{b:02x}, {} bytes", frame.len()),
            _ => format!("{} bytes", frame.len()),
        },
    }
}

/// As tcpdump has them.
pub(crate) fn flags(segment: &Segment<'_>) -> String {
    let all = [
        (Segment::SYN, 'S'),
        (Segment::FIN, 'F'),
        (Segment::RST, 'R'),
        (Segment::PSH, 'P'),
        (Segment::ACK, '.'),
    ];
    let set = all.iter().filter(|(flag, _)| segment.has(*flag));
    set.map(|(_, letter)| letter).collect()
}
