//! Probes of a closed window come less and less often (P8; RFC 9293, 3.8.6.1).

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{behind, Packet, Point, Segment, World};

/// The kernel's ticks.
const TICKS: u64 = 8_000_000;
/// What no interval needs to be longer than: RTO_MAX.
const LONGEST: u64 = 120_000_000_000;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Backoff {
    /// By the prober's address and its peer's: when it has probed since the window was open.
    probes: ByEnds<Vec<u64>>,
}

impl Property for Backoff {
    fn name(&self) -> &'static str {
        "backoff"
    }

    fn says(&self) -> &'static str {
        "Probes of a closed window come at intervals that grow (RFC 9293, 3.8.6.1)."
    }

    fn packet(&mut self, world: &World, packet: &Packet<'_>) -> Check {
        let Some(segment) = packet.tcp else {
            return Ok(());
        };
        match packet.point {
            Point::Loss => Ok(()),
            Point::Arrival => {
                if segment.window > 0 || segment.has(Segment::RST) {
                    self.probes.remove(&(segment.to, segment.from));
                }
                Ok(())
            }
            Point::Departure => {
                let next = world
                    .field(packet.socket, "snd_nxt")
                    .map(|next| next as u32);
                // No byte, before the next one. TCP_USER_TIMEOUT may have it sooner.
                let is_probe = segment.length() == 0
                    && !segment.has(Segment::RST)
                    && world.field(packet.socket, "icsk_user_timeout") == Some(0)
                    && next.is_some_and(|next| behind(segment.seq, next) == -1);
                if !is_probe {
                    return Ok(());
                }
                let times = self.probes.entry((segment.from, segment.to)).or_default();
                times.push(packet.time);
                let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
                // An answer that comes late puts the next probe off, so that one interval may be as
                // long as the next.
                let [.., first, _, _, last] = gaps[..] else {
                    return Ok(());
                };
                if last > first + TICKS || last + TICKS >= LONGEST {
                    return Ok(());
                }
                let machine = &world.ends[packet.end].machine;
                let what = format!(
                    "{} probes the closed window of {} {:.3} s after the last time; three times before, \
                     that was {:.3} s: it does not back off.",
                    segment.from,
                    segment.to,
                    last as f64 / 1e9,
                    first as f64 / 1e9
                );
                Err(self.broken(world, machine, what))
            }
        }
    }
}
