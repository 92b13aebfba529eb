//! A recorded run as a script for packetdrill: one machine's side of its first connection.
//!
//! What the machine received is injected, what it sent is expected, what its app called is called.
//! The script has no timestamps (RFC 7323), whose values it could not foresee: they are switched
//! off, and segments are as long as they were by a smaller MSS.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::packet::{behind, segment};
use crate::story::flags;
use crate::{End, Moves, Outcome, Point, Recording, Segment};

/// Bytes of timestamps in a segment.
const TIMESTAMPS: u16 = 12;

/// A script about this machine; `None`: it has no TCP connection.
pub fn script(outcome: &Outcome, ends: &[End], machine: &str) -> Option<String> {
    let recording = outcome.recording.as_ref()?;
    let side = Side::of(recording, ends, machine)?;
    let mut text = format!(
        "// {} on {machine}, as vink explore has found it; packets that have another fate are\n\
         // those that this machine does not get, or gets later.\n\n\
         0 `sysctl -q net.ipv4.tcp_timestamps=0`\n",
        outcome
            .violation
            .as_ref()
            .map_or("A run", |violation| violation.property.as_str())
    );
    let start = side.start(recording);
    let at = |time: u64| format!("{:.6}", time.saturating_sub(start) as f64 / 1e9 + 0.01);
    text += "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
    let fd = if side.is_passive {
        text += "0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0\n\
                 0 bind(3, ..., ...) = 0\n\
                 0 listen(3, 1) = 0\n";
        4
    } else {
        text += "0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
                 0.009 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)\n\
                 0.009 fcntl(3, F_SETFL, O_RDWR) = 0\n";
        3
    };
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    for packet in &recording.packets {
        let Some(tcp) = segment(&packet.frame).filter(|_| !packet.headless) else {
            continue;
        };
        if ends[packet.end].machine != machine {
            continue;
        }
        match packet.point {
            Point::Departure if side.is(tcp.from, tcp.to) => {
                lines.push((packet.time, 2, format!("> {}", side.sent(&tcp))));
            }
            Point::Arrival if side.is(tcp.to, tcp.from) => {
                lines.push((packet.time, 0, format!("< {}", side.received(&tcp))));
            }
            _ => {}
        }
    }
    let mut accepted = !side.is_passive;
    for call in &recording.calls {
        if call.ends != Some((side.own, side.peer)) || call.result < 0 {
            continue;
        }
        if !std::mem::replace(&mut accepted, true) {
            lines.push((call.time, 1, "accept(3, ..., ...) = 4".to_owned()));
        }
        let result = call.result;
        let line = match (call.moves, call.nr) {
            (Moves::Sent, _) => format!("write({fd}, ..., {result}) = {result}"),
            (Moves::Received, _) => {
                format!("read({fd}, ..., {}) = {result}", result.max(1))
            }
            (Moves::Closes, libc::SYS_close) => format!("close({fd}) = 0"),
            (Moves::Closes, _) => format!("shutdown({fd}, SHUT_WR) = 0"),
            (Moves::Nothing, _) => continue,
        };
        lines.push((call.time, 1, line));
    }
    // At one time: what comes, what the app does about it, what is sent.
    lines.sort_by_key(|(time, order, _)| (*time, *order));
    for (time, _, line) in lines {
        let _ = writeln!(text, "{} {line}", at(time));
    }
    Some(text)
}

/// One side of a connection.
struct Side {
    own: SocketAddr,
    peer: SocketAddr,
    own_start: u32,
    peer_start: u32,
    is_passive: bool,
    has_timestamps: bool,
}

impl Side {
    /// Of the first connection of a machine.
    fn of(recording: &Recording, ends: &[End], machine: &str) -> Option<Side> {
        let mut side: Option<Side> = None;
        for packet in &recording.packets {
            if ends[packet.end].machine != machine || packet.headless {
                continue;
            }
            let Some(tcp) = segment(&packet.frame) else {
                continue;
            };
            let (own, peer) = match packet.point {
                Point::Departure => (tcp.from, tcp.to),
                Point::Arrival => (tcp.to, tcp.from),
                Point::Loss => continue,
            };
            if !tcp.has(Segment::SYN) {
                continue;
            }
            let arrives = packet.point == Point::Arrival;
            match &mut side {
                None => {
                    let timestamps = options(&tcp).iter().any(|(kind, _)| *kind == 8);
                    side = Some(Side {
                        own,
                        peer,
                        own_start: tcp.seq,
                        peer_start: tcp.seq,
                        is_passive: arrives,
                        has_timestamps: timestamps,
                    });
                }
                Some(side) if side.is(own, peer) => match arrives {
                    true => side.peer_start = tcp.seq,
                    false => side.own_start = tcp.seq,
                },
                Some(_) => {}
            }
        }
        side
    }

    fn is(&self, own: SocketAddr, peer: SocketAddr) -> bool {
        own == self.own && peer == self.peer
    }

    /// When its first packet came or went.
    fn start(&self, recording: &Recording) -> u64 {
        let its = recording.packets.iter().find(|packet| {
            segment(&packet.frame)
                .is_some_and(|tcp| self.is(tcp.from, tcp.to) || self.is(tcp.to, tcp.from))
        });
        its.map_or(0, |packet| packet.time)
    }

    /// Flags, sequence numbers from the connection's beginning on, acknowledgement.
    fn numbers(&self, tcp: &Segment<'_>, start: u32, other: u32) -> String {
        let from = behind(tcp.seq, start).max(0);
        let length = tcp.data.len();
        let mut text = format!("{} {from}:{}({length})", flags(tcp), from as usize + length);
        if tcp.has(Segment::ACK) {
            let _ = write!(text, " ack {}", behind(tcp.ack, other).max(0));
        }
        text
    }

    fn sent(&self, tcp: &Segment<'_>) -> String {
        let numbers = self.numbers(tcp, self.own_start, self.peer_start);
        match tcp.has(Segment::SYN) || tcp.options.len() > TIMESTAMPS.into() {
            true => numbers + " <...>",
            false => numbers,
        }
    }

    fn received(&self, tcp: &Segment<'_>) -> String {
        let mut text = self.numbers(tcp, self.peer_start, self.own_start);
        let _ = write!(text, " win {}", tcp.window);
        let mut told = Vec::new();
        for (kind, value) in options(tcp) {
            let two = |at: usize| u16::from_be_bytes([value[at], value[at + 1]]);
            let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
            match (kind, value.len()) {
                (2, 2) => {
                    let less = if self.has_timestamps { TIMESTAMPS } else { 0 };
                    told.push(format!("mss {}", two(0).saturating_sub(less)));
                }
                (3, 1) => told.push(format!("nop,wscale {}", value[0])),
                (4, 0) => told.push("nop,nop,sackOK".to_owned()),
                (5, length) => {
                    let blocks = (0..length / 8).map(|at| {
                        let edge = |at| behind(four(at), self.own_start).max(0);
                        format!("{}:{}", edge(at * 8), edge(at * 8 + 4))
                    });
                    let blocks: Vec<String> = blocks.collect();
                    told.push(format!("nop,nop,sack {}", blocks.join(" ")));
                }
                _ => {}
            }
        }
        if !told.is_empty() {
            let _ = write!(text, " <{}>", told.join(","));
        }
        text
    }
}

/// A segment's options: their kinds and values (RFC 9293, 3.2).
fn options<'a>(tcp: &Segment<'a>) -> Vec<(u8, &'a [u8])> {
    let mut all = Vec::new();
    let mut rest = tcp.options;
    loop {
        rest = match rest {
            [] | [0, ..] => return all,
            [1, rest @ ..] => rest,
            [kind, length, ..] => {
                let Some(value) = rest.get(2..usize::from(*length)) else {
                    return all;
                };
                all.push((*kind, value));
                &rest[usize::from(*length)..]
            }
            [_] => return all,
        };
    }
}
