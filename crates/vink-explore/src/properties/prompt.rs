//! Acknowledgements are prompt (P9; RFC 9293, 3.8.6.3; RFC 5681, 4.2).
//!
//! What has come is acknowledged 200 ms later at the latest, which is Linux's limit; the standard
//! has half a second. Two full segments are acknowledged when they have been read. Two rules more
//! are Linux's own, for senders that wait: the end of a write, which is a pushed full segment, is
//! acknowledged when it has been read, if nothing is said in answer; and of the quick
//! acknowledgements that a connection begins with none is used up by a segment that acknowledges
//! nothing new.
//!
//! A segment may have waited in a queue of its machine. So only what leaves within a millisecond of when
//! its socket has last looked at the clock is judged by its time. What comes for a socket with a filter
//! (SO_ATTACH_FILTER) is not judged: the filter may drop it.

use super::socket::Socket;
use super::{Check, Property};
use crate::ends::ByEnds;
use crate::packet::overlap;
use crate::{behind, AppCall, Moves, Packet, Point, Segment, World};

/// TCP_DELACK_MAX.
const LATEST: u64 = 200_000_000;
/// The kernel's ticks.
const TICKS: u64 = 8_000_000;
/// How exact a socket's clock is.
const CLOCK: u64 = 1_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Prompt {
    /// By the receiver's address and its sender's.
    ends: ByEnds<End>,
}

/// The receiving side of a connection.
#[derive(Default)]
struct End {
    socket: Socket,
    /// Segments that have come since one was sent.
    come: Vec<Came>,
    /// When the last one with data came.
    last: u64,
    /// The longest of them, bytes.
    longest: usize,
    /// When the app has read.
    read: Option<u64>,
    /// Quick acknowledgements that were left when a segment was sent, and when; none, if one was
    /// still to be sent then.
    quick: Option<(u64, u64)>,
}

/// A segment that has come.
struct Came {
    time: u64,
    seq: u32,
    end: u32,
    /// It is what was waited for, and the end of a write that fills it, and its receiver says nothing
    /// in answer.
    is_full_end: bool,
}

impl Property for Prompt {
    fn name(&self) -> &'static str {
        "prompt"
    }

    fn says(&self) -> &'static str {
        "What comes is acknowledged soon, and every second full segment at once (RFC 9293, 3.8.6.3; RFC 5681, 4.2)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some((segment, own, peer)) = packet.connection().filter(|_| packet.at_end) else {
            return Ok(());
        };
        let end = self.ends.entry((own, peer)).or_default();
        if segment.has(Segment::SYN) {
            // Another connection of the same ends; what has come before may still be looked at.
            let last = packet.time;
            *end = End {
                last,
                ..End::default()
            };
            return Ok(());
        }
        let last = end.last;
        if packet.point == Point::Arrival && segment.length() > 0 {
            end.last = packet.time;
        }
        let field = |name| world.field(packet.socket, name);
        let (Some(next), Some(read), Some(mss)) = (
            field("rcv_nxt"),
            field("copied_seq"),
            field("icsk_ack.rcv_mss"),
        ) else {
            end.come.clear();
            return Ok(());
        };
        if end.socket.is_another(world, packet.socket) {
            *end = End {
                socket: end.socket,
                last: end.last,
                ..End::default()
            };
        }
        let all_read = next == read;
        let speaks = field("icsk_ack.pingpong") != Some(0);
        let wrong = match packet.point {
            Point::Arrival => {
                let open = field("rcv_wup").map_or(0, |told| behind(next as u32, told as u32));
                let is_owed = all_read && last < packet.time && open as i64 >= 2 * mss as i64;
                let is_filtered = field("sk_filter").is_some_and(|filter| filter != 0);
                if segment.length() > 0 && !is_filtered {
                    let longest = end.longest.max(mss as usize);
                    end.come(Came {
                        time: packet.time,
                        seq: segment.seq,
                        end: segment.end(),
                        is_full_end: !speaks
                            && segment.seq == next as u32
                            && segment.has(Segment::PSH)
                            && !segment.has(Segment::FIN)
                            && segment.data.len() >= longest,
                    });
                    end.longest = end.longest.max(segment.data.len());
                }
                is_owed.then(|| {
                    format!(
                        "has read {open} bytes, two full segments, and has not acknowledged them"
                    )
                })
            }
            _ => {
                let clock = field("tcp_mstamp").unwrap_or(0) * 1000;
                let is_now = clock + CLOCK > packet.time;
                let late = is_now.then(|| end.late(packet.time, &segment, all_read && !speaks));
                end.come.clear();
                let left = field("icsk_ack.quick").unwrap_or(0);
                let before = end.quick.filter(|(_, time)| end.last < *time);
                let is_done = field("icsk_ack.pending") == Some(0);
                end.quick = is_done.then_some((left, packet.time));
                let used = before.filter(|(before, _)| left < *before);
                late.flatten().or(used.map(|(before, _)| {
                    format!(
                        "sends a segment that acknowledges nothing new, and has {left} of {before} quick \
                         acknowledgements left"
                    )
                }))
            }
        };
        match wrong {
            None => Ok(()),
            Some(wrong) => {
                let machine = &world.ends[packet.end].machine;
                Err(self.broken(
                    world,
                    machine,
                    format!("The connection {own} to {peer} {wrong}."),
                ))
            }
        }
    }

    fn call(&mut self, _: &World, call: &AppCall<'_>) -> Check {
        if let (Moves::Received, Some(ends)) = (call.moves, call.ends) {
            self.ends.entry(ends).or_default().read = Some(call.time);
        }
        Ok(())
    }
}

impl End {
    /// A segment comes.
    fn come(&mut self, now: Came) {
        // The stack may have dropped what comes again.
        let is_again = |came: &Came| overlap((came.seq, came.end), (now.seq, now.end));
        self.come.retain(|came| !is_again(came));
        self.come.push(now);
    }

    /// What is acknowledged too late, by a segment that leaves now.
    fn late(&self, now: u64, segment: &Segment<'_>, is_read: bool) -> Option<String> {
        let mut all = self.come.iter();
        let oldest = all.find(|came| behind(segment.ack, came.end) >= 0)?;
        let waits = now - oldest.time;
        if waits > LATEST + TICKS {
            return Some(format!(
                "acknowledges what has come {:.3} s ago",
                waits as f64 / 1e9
            ));
        }
        let [only] = &self.come[..] else {
            return None;
        };
        let since = self.read?.max(only.time);
        (only.is_full_end && is_read && segment.ack == only.end && now > since + CLOCK).then(|| {
            format!(
                "acknowledges the end of a write {:.3} s after it has been read",
                (now - since) as f64 / 1e9
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const MS: u64 = 1_000_000;
    const FIELDS: [&str; 7] = [
        "rcv_nxt",
        "copied_seq",
        "icsk_ack.rcv_mss",
        "icsk_ack.pingpong",
        "tcp_mstamp",
        "sk_filter",
        "segs_out",
    ];

    /// Data comes, and what acknowledges it leaves so many ms later: is that as it is to be?
    fn acknowledges(after: u64, filter: u64) -> bool {
        let world = World::of_ends(&["server"]).with_fields(&FIELDS);
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let socket = |next, time: u64| {
            world.socket(&[
                ("rcv_nxt", next),
                ("copied_seq", 5),
                ("icsk_ack.rcv_mss", 1460),
                ("tcp_mstamp", time * 1000),
                ("sk_filter", filter),
            ])
        };
        let mut property = Prompt::default();
        let mut at = |time: u64, point, segment, next| {
            let socket = socket(next, time);
            let packet = Packet::at_end_of(segment, 0, point, time * MS);
            property.packet(&world, &packet.of_socket(&socket)).is_ok()
        };
        let data = Segment::of((client, server), Segment::ACK, 5, 100, b"data");
        let answer = Segment::of((server, client), Segment::ACK, 100, 9, b"");
        at(1_000, Point::Arrival, data, 5) && at(1_000 + after, Point::Departure, answer, 9)
    }

    #[test]
    fn what_a_filter_may_drop_is_not_judged() {
        assert!(acknowledges(200, 0));
        assert!(!acknowledges(300, 0));
        assert!(acknowledges(300, 0xffff_8880_0000_1000));
    }

    /// The end of a write comes for a receiver that answers (`pingpong`), is read, and is acknowledged
    /// so many us later by a socket that has sent so many segments: is that as it is to be?
    fn acknowledges_an_end(pingpong: u64, after: u64, sent: u64) -> bool {
        let world = World::of_ends(&["server"]).with_fields(&FIELDS);
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let socket = |next, pingpong, time: u64, sent| {
            world.socket(&[
                ("rcv_nxt", next),
                ("copied_seq", next),
                ("icsk_ack.rcv_mss", 1460),
                ("icsk_ack.pingpong", pingpong),
                ("tcp_mstamp", time),
                ("segs_out", sent),
            ])
        };
        let mut property = Prompt::default();
        let data = [0; 1460];
        let flags = Segment::ACK | Segment::PSH;
        let comes = Segment::of((client, server), flags, 5, 100, &data);
        let packet = Packet::at_end_of(comes, 0, Point::Arrival, 1_000 * MS);
        let before = socket(5, pingpong, 1_000_000, 9);
        let mut is_good = property.packet(&world, &packet.of_socket(&before)).is_ok();
        let reads = AppCall {
            time: 1_000 * MS,
            program: 0,
            nr: libc::SYS_recvfrom,
            args: [0; 6],
            result: 1460,
            ends: Some((server, client)),
            data: &data,
            moves: Moves::Received,
        };
        is_good &= property.call(&world, &reads).is_ok();
        let time = 1_000_000 + after;
        let answer = Segment::of((server, client), Segment::ACK, 100, 1465, b"");
        let packet = Packet::at_end_of(answer, 0, Point::Departure, time * 1_000);
        let after = socket(1465, 0, time, sent);
        is_good &= property.packet(&world, &packet.of_socket(&after)).is_ok();
        is_good
    }

    #[test]
    fn the_end_of_a_write_is_acknowledged_when_it_is_read() {
        assert!(acknowledges_an_end(0, 0, 10));
        assert!(!acknowledges_an_end(0, 41_000, 10));
        // It has waited for the wire.
        assert!(acknowledges_an_end(0, 900, 10));
        // It was to go with an answer.
        assert!(acknowledges_an_end(1, 41_000, 10));
        // Another socket has sent it (TCP_REPAIR).
        assert!(acknowledges_an_end(0, 41_000, 1));
    }
}
