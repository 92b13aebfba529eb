//! Where two runs part in what they do, chance left aside: for runs of two kernels, or with two
//! seeds.
//!
//! Another kernel draws other random numbers, from its first ephemeral port on. So each run is
//! taken apart into strands (the calls of a thread, the packets of a flow at an interface, a
//! program's output), and each event is reduced to what is no matter of chance:
//! - Ephemeral ports are numbered in the order in which they appear in the strand, from [`EPHEMERAL`] on, link-local IPv6
//!   addresses likewise; TCP's sequence numbers begin at 0. TCP's timestamps, IP's identifiers and checksums are left out.
//! - Of data that are moved, random numbers among them, only the length counts.
//! - Times count from the event before in the strand.
//! - What finds neighbours and multicast groups (ARP, IPv6's neighbour discovery, IGMP, MLD), after random delays, is left out.
//!
//! Runs may be long, so that of each event only a hash is kept; the events around the difference
//! are read again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::io::Read;

use crate::digest::Hash;
use crate::journal::Reader;
use crate::record::{Event, Record};
use crate::summary::summary;
use crate::Error;

/// The first port that is not a server's, by default (`net.ipv4.ip_local_port_range`).
const EPHEMERAL: u16 = 32768;

/// Calls that move data.
const MOVES: [&str; 17] = [
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "getrandom",
];

/// Where two runs part in behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Of what: `thread 3`, `client:eth0 TCP 10.0.0.1 > 10.0.0.2`.
    pub strand: String,
    /// How many of its events were the same.
    pub same: u64,
    /// How many were the same of all strands, up to where each parts or ends.
    pub same_in_all: u64,
    /// The last of those that were the same and those that follow, in either run: the time in ns,
    /// and a line.
    pub sides: [Vec<(u64, String)>; 2],
    /// How many at the beginning of both are the same.
    pub before: usize,
}

impl Parting {
    /// When the first event that differs happened in either run, ns; none: there is none.
    pub fn times(&self) -> [Option<u64>; 2] {
        let first = |side: &[(u64, String)]| side.get(self.before).map(|(time, _)| *time);
        [first(&self.sides[0]), first(&self.sides[1])]
    }
}

/// Compares two runs, each of which is read twice; `context` events are kept before the first
/// difference and after it. `None`: they behave the same.
///
/// # Errors
/// As [`Reader::next_record`], and those of opening a journal.
pub fn first_difference_in_behaviour<R: Read, E: From<Error>>(
    open: [&dyn Fn() -> Result<Reader<R>, E>; 2],
    context: usize,
) -> Result<Option<Parting>, E> {
    let mut runs = [BTreeMap::new(), BTreeMap::new()];
    for (run, open) in runs.iter_mut().zip(open) {
        let mut strands = Strands::default();
        let mut reader = open()?;
        while let Some(record) = reader.next_record()? {
            strands.take(&record, |strand, step| {
                let steps: &mut Vec<(u64, u64)> = run.entry(strand.clone()).or_default();
                steps.push((step.time, Hash::number(step.compared.as_bytes())));
            });
        }
    }
    let [one, two] = &runs;
    let mut names: Vec<&Strand> = one.keys().chain(two.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut same_in_all = 0;
    let mut first: Option<(u64, &Strand, usize)> = None;
    for name in names {
        let [a, b] = [one, two].map(|run| run.get(name).map_or(&[][..], Vec::as_slice));
        let same = a.iter().zip(b).take_while(|(a, b)| a.1 == b.1).count();
        same_in_all += same as u64;
        let times = [a, b].map(|steps| steps.get(same).map(|(time, _)| *time));
        let Some(time) = times.into_iter().flatten().min() else {
            continue;
        };
        if first.is_none_or(|(earliest, ..)| time < earliest) {
            first = Some((time, name, same));
        }
    }
    let Some((_, strand, same)) = first else {
        return Ok(None);
    };
    let mut sides = [Vec::new(), Vec::new()];
    let from = same.saturating_sub(context);
    for (side, open) in sides.iter_mut().zip(open) {
        let mut strands = Strands::default();
        let mut reader = open()?;
        let mut number = 0;
        while number <= same + context {
            let Some(record) = reader.next_record()? else {
                break;
            };
            strands.take(&record, |at, step| {
                if at == strand {
                    if (from..=same + context).contains(&number) {
                        side.push((step.time, step.shown));
                    }
                    number += 1;
                }
            });
        }
    }
    Ok(Some(Parting {
        strand: strand.to_string(),
        same: same as u64,
        same_in_all,
        sides,
        before: same - from,
    }))
}

impl Parting {
    /// Both runs side by side, in so many columns; a bar is between what differs.
    pub fn side_by_side(&self, columns: usize) -> String {
        let width = (columns.max(40) - 3) / 2;
        let mut text = format!(
            "the runs part in behaviour after {} events that are the same, {} of them of {}:\n",
            self.same_in_all, self.same, self.strand
        );
        let [one, two] = &self.sides;
        for at in 0..one.len().max(two.len()) {
            let cell = |side: &[(u64, String)]| match side.get(at) {
                Some((time, line)) => {
                    let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
                    format!("{seconds}.{ns:09} {line}")
                }
                None if at == side.len() => "(nothing more)".to_owned(),
                None => String::new(),
            };
            let bar = if at < self.before { ' ' } else { '|' };
            let mut rows = [one, two].map(|side| wrapped(&cell(side), width));
            while rows.iter().any(|rows| !rows.is_empty()) {
                let [left, right] = &mut rows;
                let (left, right) = (left.pop_front(), right.pop_front());
                let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
                let line = format!("{left:width$} {bar} {right}");
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text
    }
}

/// A line in pieces of so many characters.
fn wrapped(line: &str, width: usize) -> VecDeque<String> {
    let all: Vec<char> = line.chars().collect();
    all.chunks(width)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// What is compared by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strand {
    /// What is done to the lab.
    Lab,
    Breakpoints,
    Program(u64),
    Thread(u64),
    /// Packets between two ends, at an interface.
    Flow {
        place: String,
        ends: String,
    },
}

impl std::fmt::Display for Strand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Strand::Lab => write!(f, "the lab"),
            Strand::Breakpoints => write!(f, "the breakpoints"),
            Strand::Program(number) => write!(f, "program {number}"),
            Strand::Thread(number) => write!(f, "thread {number}"),
            Strand::Flow { place, ends } => write!(f, "{place}, {ends}"),
        }
    }
}

/// An event of a strand.
struct Step {
    time: u64,
    compared: String,
    shown: String,
}

/// Takes a run apart.
#[derive(Default)]
struct Strands {
    known: BTreeMap<Strand, Known>,
}

/// What chance has drawn in a strand, by the order in which it came.
#[derive(Default)]
struct Known {
    /// The time of the last event.
    last: Option<u64>,
    ports: HashMap<u16, u16>,
    neighbours: HashMap<[u8; 16], u16>,
    /// The first sequence number of each direction: addresses and ports.
    sequences: HashMap<Vec<u8>, u32>,
    /// What a virtualized process has written, up to the last end of a line.
    rest: String,
}

impl Strands {
    fn take(&mut self, record: &Record, mut with: impl FnMut(&Strand, Step)) {
        let (strand, timed, mut text) = match &record.event {
            Event::Clock(_) | Event::Changed(_) => return,
            Event::Packet {
                place,
                outcome,
                length,
                head,
                ..
            } => {
                let Some(ends) = ends(head) else { return };
                let place = place.clone();
                let strand = Strand::Flow { place, ends };
                let known = self.known.entry(strand.clone()).or_default();
                let (head, options) = known.without_chance(head);
                let line = summary(&head, *length);
                let what = format!("{outcome} {line}{options} [{length} bytes]");
                (strand, true, what)
            }
            Event::Call { thread, text, .. } => {
                let strand = Strand::Thread(*thread);
                let known = self.known.entry(strand.clone()).or_default();
                let text = known.call(text);
                (strand, true, text)
            }
            Event::Thread { thread, .. } | Event::Executed { thread, .. } => {
                (Strand::Thread(*thread), false, record.event.to_string())
            }
            Event::Output { program, text } => {
                let strand = Strand::Program(*program);
                let known = self.known.entry(strand.clone()).or_default();
                known.rest.push_str(text);
                while let Some((line, rest)) = known.rest.split_once('\n') {
                    let step = Step {
                        time: record.time,
                        compared: line.to_owned(),
                        shown: line.to_owned(),
                    };
                    known.rest = rest.to_owned();
                    with(&strand, step);
                }
                return;
            }
            Event::Started { program, .. } | Event::Ended { program, .. } => {
                (Strand::Program(*program), false, record.event.to_string())
            }
            Event::Met { .. } => (Strand::Breakpoints, true, record.event.to_string()),
            Event::Line { .. } | Event::Asked(_) | Event::Input { .. } => {
                (Strand::Lab, true, record.compared().event.to_string())
            }
        };
        let mut shown = text.clone();
        if let Event::Call { text, .. } = &record.event {
            // With its data.
            shown.clone_from(text);
        }
        let known = self.known.entry(strand.clone()).or_default();
        if timed {
            let since = known
                .last
                .map_or(0, |last| record.time.saturating_sub(last));
            known.last = Some(record.time);
            let _ = write!(text, " after {since}");
        }
        let (time, compared) = (record.time, text);
        with(
            &strand,
            Step {
                time,
                compared,
                shown,
            },
        );
    }
}

impl Known {
    /// A port, as it is compared.
    fn port(&mut self, port: u16) -> u16 {
        if port < EPHEMERAL {
            return port;
        }
        let next = EPHEMERAL.saturating_add(self.ports.len() as u16);
        *self.ports.entry(port).or_insert(next)
    }

    /// A call as text, as it is compared.
    fn call(&mut self, text: &str) -> String {
        let name = text.split('(').next().unwrap_or_default();
        let text = match MOVES.contains(&name) {
            true => without_data(text),
            false => text.to_owned(),
        };
        // The ports of addresses: `{AF_INET 10.0.0.1:40000}`.
        let mut parts = text.split('}');
        let mut result = parts.next().unwrap_or_default().to_owned();
        let mut last = std::mem::take(&mut result);
        for part in parts {
            let port = last.rsplit_once(':').and_then(|(before, port)| {
                let port = port.parse().ok()?;
                Some(format!("{before}:{}", self.port(port)))
            });
            result += port.as_deref().unwrap_or(&last);
            result.push('}');
            last = part.to_owned();
        }
        result + &last
    }

    /// The beginning of a frame, as it is compared, and TCP's options in text.
    fn without_chance(&mut self, frame: &[u8]) -> (Vec<u8>, String) {
        let mut frame = frame.to_vec();
        let mut options = String::new();
        if let Some(packet) = Packet::of(&frame) {
            if packet.addresses.1 == 16 {
                for at in [packet.addresses.0, packet.addresses.0 + 16] {
                    self.neighbour(&mut frame[at..at + 16]);
                }
            }
            let addresses = packet.addresses.0..packet.addresses.0 + 2 * packet.addresses.1;
            let addresses = frame[addresses].to_vec();
            // What is cut short is compared as far as it is there.
            let _ = self.transport(&mut frame, &packet, &addresses, &mut options);
        }
        (frame, options)
    }

    /// Numbers a link-local address.
    fn neighbour(&mut self, address: &mut [u8]) {
        let Some(old) = address.first_chunk::<16>().copied() else {
            return;
        };
        if old[0] == 0xfe && old[1] & 0xc0 == 0x80 {
            let next = self.neighbours.len() as u16 + 1;
            let number = *self.neighbours.entry(old).or_insert(next);
            address[8..14].fill(0);
            address[14..].copy_from_slice(&number.to_be_bytes());
        }
    }

    /// `None`: it is cut short.
    fn transport(
        &mut self,
        frame: &mut [u8],
        packet: &Packet,
        addresses: &[u8],
        options: &mut String,
    ) -> Option<()> {
        let rest = frame.get_mut(packet.transport..)?;
        if !matches!(packet.protocol, TCP | UDP) {
            return None;
        }
        let ports = rest.get_mut(..4)?;
        let names: [Vec<u8>; 2] = {
            let (source, target) = addresses.split_at(addresses.len() / 2);
            [
                [source, target, &ports[..2], &ports[2..]].concat(),
                [target, source, &ports[2..], &ports[..2]].concat(),
            ]
        };
        for at in [0, 2] {
            let port = u16::from_be_bytes([ports[at], ports[at + 1]]);
            ports[at..at + 2].copy_from_slice(&self.port(port).to_be_bytes());
        }
        if packet.protocol == UDP {
            return Some(());
        }
        let header = rest.get_mut(..20)?;
        let word = |bytes: &[u8], at: usize| {
            u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let (sequence, acknowledged) = (word(header, 4), word(header, 8));
        // A SYN begins anew: the port may have been used before.
        let syn = header[13] & 2 != 0;
        let [this, other] = names;
        if syn {
            self.sequences.insert(this.clone(), sequence);
        }
        let first = *self.sequences.entry(this).or_insert(sequence);
        header[4..8].copy_from_slice(&sequence.wrapping_sub(first).to_be_bytes());
        let has_ack = header[13] & 0x10 != 0;
        let mut other_first = acknowledged;
        if has_ack {
            other_first = *self.sequences.entry(other).or_insert(acknowledged);
            let relative = acknowledged.wrapping_sub(other_first);
            header[8..12].copy_from_slice(&relative.to_be_bytes());
        }
        let end = usize::from(header[12] >> 4) * 4;
        let mut left = rest.get(20..end)?;
        while let Some((kind, more)) = left.split_first() {
            let length = match kind {
                0 | 1 => {
                    left = more;
                    continue;
                }
                _ => usize::from(*more.first()?).max(2),
            };
            let value = left.get(2..length)?;
            match kind {
                // Timestamps.
                8 => {}
                // SACK.
                5 => {
                    for edge in value.chunks_exact(4) {
                        let edge = word(edge, 0).wrapping_sub(other_first);
                        let _ = write!(options, ", sack {edge}");
                    }
                }
                2 => {
                    let _ = write!(
                        options,
                        ", mss {}",
                        u16::from_be_bytes(value.try_into().ok()?)
                    );
                }
                // A cookie, a key of MPTCP.
                30 | 34 => {
                    let _ = write!(options, ", option {kind}");
                }
                _ => {
                    let _ = write!(options, ", option {kind} {value:?}");
                }
            }
            left = left.get(length..)?;
        }
        Some(())
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where in a frame with IP the parts are.
struct Packet {
    /// The first address, and how long each of the two is.
    addresses: (usize, usize),
    protocol: u8,
    transport: usize,
}

impl Packet {
    fn of(frame: &[u8]) -> Option<Packet> {
        let mut at = 12;
        // VLANs.
        while matches!(frame.get(at..at + 2)?, [0x81, 0] | [0x88, 0xa8]) {
            at += 4;
        }
        let ip = at + 2;
        match frame.get(at..ip)? {
            [0x08, 0x00] => {
                frame.get(ip + 19)?;
                // A fragment has no header behind it but the first.
                let is_first = frame[ip + 6] & 0x1f == 0 && frame[ip + 7] == 0;
                Some(Packet {
                    addresses: (ip + 12, 4),
                    protocol: if is_first { frame[ip + 9] } else { 0 },
                    transport: ip + usize::from(frame[ip] & 15) * 4,
                })
            }
            [0x86, 0xdd] => {
                let mut protocol = *frame.get(ip + 6)?;
                let mut transport = ip + 40;
                frame.get(transport - 1)?;
                while matches!(protocol, 0 | 43 | 60) {
                    protocol = *frame.get(transport)?;
                    transport += usize::from(*frame.get(transport + 1)?) * 8 + 8;
                }
                Some(Packet {
                    addresses: (ip + 8, 16),
                    protocol,
                    transport,
                })
            }
            _ => None,
        }
    }
}

/// The flow that a frame is of, the same in both directions; `None`: it finds neighbours or groups,
/// and is left out.
fn ends(frame: &[u8]) -> Option<String> {
    const NEIGHBOURS: std::ops::RangeInclusive<u8> = 130..=143;
    let Some(packet) = Packet::of(frame) else {
        let is_arp = frame.get(12..14) == Some(&[0x08, 0x06]);
        return (!is_arp).then(|| "other packets".to_owned());
    };
    let kind = frame.get(packet.transport).copied();
    match packet.protocol {
        // IGMP.
        2 => return None,
        58 if kind.is_some_and(|kind| NEIGHBOURS.contains(&kind)) => return None,
        _ => {}
    }
    let (at, size) = packet.addresses;
    let address = |at: usize| match <[u8; 4]>::try_from(&frame[at..at + size]) {
        Ok(address) => std::net::Ipv4Addr::from(address).to_string(),
        Err(_) => {
            let address = <[u8; 16]>::try_from(&frame[at..at + size]).expect("16 bytes");
            match address {
                [0xfe, 0x80..=0xbf, ..] => "link-local".to_owned(),
                _ => format!("[{}]", std::net::Ipv6Addr::from(address)),
            }
        }
    };
    let port = |at: usize| {
        let port = frame.get(packet.transport + at..packet.transport + at + 2);
        let port = port.map(|port| u16::from_be_bytes([port[0], port[1]]));
        match port.filter(|port| *port < EPHEMERAL) {
            Some(port) => format!(":{port}"),
            None => String::new(),
        }
    };
    let (name, ports) = match packet.protocol {
        TCP => ("TCP".to_owned(), true),
        UDP => ("UDP".to_owned(), true),
        1 | 58 => ("ICMP".to_owned(), false),
        other => (format!("protocol {other}"), false),
    };
    let mut both = [(0, at), (2, at + size)].map(|(number, at)| {
        let port = if ports { port(number) } else { String::new() };
        address(at) + &port
    });
    both.sort_unstable();
    Some(format!("{name} {} and {}", both[0], both[1]))
}

/// A call without what is in quotes: only its length and its result tell.
fn without_data(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => {
                quoted = !quoted;
                result.push(c);
            }
            _ if quoted => {}
            _ => result.push(c),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::record::PacketOutcome;

    /// A TCP segment from 10.0.0.1:`port` to 10.0.0.2:80, or back.
    fn segment(back: bool, port: u16, sequence: u32, ack: u32, flags: u8, window: u16) -> Event {
        let mut ends = [([10, 0, 0, 1], port), ([10, 0, 0, 2], 80)];
        if back {
            ends.reverse();
        }
        let mut head = vec![2; 12];
        head.extend([0x08, 0, 0x45, 0, 0, 52, port as u8, 1, 0, 0, 64, 6, 9, 9]);
        head.extend(ends.map(|end| end.0).concat());
        head.extend(ends.map(|end| end.1.to_be_bytes()).concat());
        head.extend(sequence.to_be_bytes());
        head.extend(ack.to_be_bytes());
        head.extend([0x80, flags]);
        head.extend(window.to_be_bytes());
        // A checksum, no urgent data; a timestamp.
        head.extend([port as u8, 0, 0, 0, 1, 1, 8, 10]);
        head.extend([sequence.to_be_bytes(), ack.to_be_bytes()].concat());
        Event::Packet {
            place: "client:eth0".to_owned(),
            outcome: if back {
                PacketOutcome::Arrival
            } else {
                PacketOutcome::Departure
            },
            length: head.len() as u32,
            hash: u64::from(sequence),
            head,
        }
    }

    /// A connection with these numbers, of which the last segment has this window.
    fn run(port: u16, first: u32, other: u32, window: u16) -> Vec<Record> {
        let call = |text: String| Event::Call {
            thread: 1,
            began: 0,
            text,
            hash: port.into(),
        };
        let events = vec![
            call(format!("getrandom(\"\\\"{first}\", 8, 0) = 8")),
            segment(false, port, first, 0, 2, 100),
            segment(true, port, other, first.wrapping_add(1), 0x12, 100),
            segment(
                false,
                port,
                first.wrapping_add(1),
                other.wrapping_add(1),
                0x10,
                100,
            ),
            call(format!(
                "getsockname(3<vink>, {{AF_INET 10.0.0.1:{port}}}, [16]) = 0"
            )),
            segment(
                false,
                port,
                first.wrapping_add(9),
                other.wrapping_add(1),
                0x10,
                window,
            ),
        ];
        let times = 1..;
        let records = times
            .zip(events)
            .map(|(time, event)| Record { time, event });
        records.collect()
    }

    fn compare(a: &[Record], b: &[Record]) -> Option<Parting> {
        let journals = [a, b].map(|records| journal(records).0);
        let open = |n: usize| Reader::new(&journals[n][..], "memory");
        first_difference_in_behaviour::<_, Error>([&|| open(0), &|| open(1)], 1).unwrap()
    }

    #[test]
    fn chance_is_no_behaviour() {
        let one = run(40000, 7, 9, 100);
        assert_eq!(compare(&one, &run(50000, u32::MAX, 1 << 31, 100)), None);
        // Neither is neighbour discovery, nor its time.
        let mut other = run(45000, 1, 2, 100);
        let mut head = vec![2; 12];
        head.extend([0x08, 0x06, 0, 1]);
        let event = Event::Packet {
            place: "client:eth0".to_owned(),
            outcome: PacketOutcome::Departure,
            length: 42,
            hash: 1,
            head,
        };
        other.insert(1, Record { time: 1, event });
        assert_eq!(compare(&one, &other), None);
        // But times are, from the event before in the strand: here of the last packet.
        other.last_mut().unwrap().time += 1;
        let found = compare(&one, &other).unwrap();
        assert_eq!(found.strand, "client:eth0, TCP 10.0.0.1 and 10.0.0.2:80");
        assert_eq!((found.same, found.same_in_all), (3, 5));
    }

    #[test]
    fn the_first_difference_in_behaviour_is_shown_side_by_side() {
        let (one, two) = (run(40000, 7, 9, 100), run(50000, 70, 90, 200));
        let found = compare(&one, &two).unwrap();
        assert_eq!((found.same, found.same_in_all, found.before), (3, 5, 1));
        let text = found.side_by_side(300);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with("3 of them of client:eth0, TCP 10.0.0.1 and 10.0.0.2:80:"));
        let segment = "sends IP 10.0.0.1.32768 > 10.0.0.2.80: TCP [.], seq";
        assert!(lines[1].starts_with(&format!("0.000000004 {segment} 1, ack 1, win 100")));
        assert!(lines[2].starts_with(&format!("0.000000006 {segment} 9, ack 1, win 100")));
        assert!(lines[2].contains(&format!(" | 0.000000006 {segment} 9, ack 1, win 200")));
        // A run that has ended, in narrow columns.
        let found = compare(&one[..5], &two).unwrap();
        let text = found.side_by_side(60);
        assert!(
            text.contains("\n(nothing more)               | 0.0"),
            "{text}"
        );
    }

    #[test]
    fn data_are_left_out() {
        let text = r#"sendto(3, "a\"b"..., 60, 0, {AF_INET 10.0.0.2:50000}, 16) = 60"#;
        let mut known = Known::default();
        assert_eq!(
            known.call(text),
            r#"sendto(3, ""..., 60, 0, {AF_INET 10.0.0.2:32768}, 16) = 60"#
        );
        let open = r#"openat(AT_FDCWD, "/etc/passwd", 0) = (host)"#;
        assert_eq!(known.call(open), open);
    }
}
