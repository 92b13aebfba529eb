//! A sender that hears nothing backs off, and sends nothing again and again (P8; RFC 6298, 5.5).
//!
//! For each segment that is sent more than once while nothing arrives at its sender: the time
//! between two transmissions never falls behind the one before, except for a first probe; and it is
//! not sent more than some times a second in any case. The first time-outs of a SYN may be of one
//! length (`net.ipv4.tcp_syn_linear_timeouts`), and each may be late.

use std::collections::HashMap;

use super::timeout::LATE;
use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{Packet, Point, World};

/// How often the same bytes may be sent within a second: RTO_MIN, a probe and fast retransmissions
/// are far fewer.
const MOST: usize = 12;
const SECOND: u64 = 1_000_000_000;
/// How much shorter an interval may be: timers have the kernel's ticks.
const TICKS: u64 = 8_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Storm {
    flows: ByEnds<Flow>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// When the segment that was sent last, which begins here, was sent since anything arrived.
    first: u32,
    times: Vec<u64>,
    /// When each of the segments that began here were sent.
    recent: HashMap<u32, Vec<u64>>,
}

impl Property for Storm {
    fn name(&self) -> &'static str {
        "storm"
    }

    fn says(&self) -> &'static str {
        "Retransmissions back off while nothing arrives, and are never a storm (RFC 6298, 5.5)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some(segment) = packet.tcp.filter(|_| packet.at_end) else {
            return Ok(());
        };
        match packet.point {
            Point::Loss => return Ok(()),
            Point::Arrival => {
                if let Some(flow) = self.flows.get_mut(&(segment.to, segment.from)) {
                    flow.times.clear();
                }
                return Ok(());
            }
            Point::Departure => {}
        }
        if segment.length() == 0 {
            return Ok(());
        }
        let flow = self.flows.entry((segment.from, segment.to)).or_default();
        let machine = &world.ends[packet.end].machine;
        let now = packet.time;
        let recent = flow.recent.entry(segment.seq).or_default();
        recent.retain(|time| now - time < SECOND);
        recent.push(now);
        let count = recent.len();
        if flow.first != segment.seq {
            flow.first = segment.seq;
            flow.times.clear();
        }
        flow.times.push(now);
        let gaps: Vec<u64> = flow
            .times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        if count > MOST {
            let what = format!(
                "{} sends the same segment to {} {count} times within a second.",
                segment.from, segment.to
            );
            return Err(self.broken(world, machine, what));
        }
        match gaps[..] {
            [.., one, two] if two + two / LATE + TICKS < one => {
                let what = format!(
                    "{} has heard nothing of {}, and sends the same segment again {:.3} s after \
                     {:.3} s: it does not back off.",
                    segment.from,
                    segment.to,
                    two as f64 / 1e9,
                    one as f64 / 1e9
                );
                Err(self.broken(world, machine, what))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Segment;

    /// A SYN is sent at these times, ms, and nothing comes: does it back off?
    fn backs_off(times: &[u64]) -> bool {
        let world = World::of_ends(&["client"]);
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let mut property = Storm::default();
        times.iter().all(|time| {
            let syn = Segment::of((client, server), Segment::SYN, 1, 0, b"");
            let packet = Packet::at_end_of(syn, 0, Point::Departure, time * 1_000_000);
            property.packet(&world, &packet).is_ok()
        })
    }

    #[test]
    fn each_time_out_may_be_late() {
        assert!(backs_off(&[0, 1060, 2084, 3108, 5200]));
        assert!(!backs_off(&[0, 1060, 1960]));
        assert!(!backs_off(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    }
}
