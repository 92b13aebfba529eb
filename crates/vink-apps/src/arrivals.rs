//! What has come of a flow of numbered datagrams: how many, in which order, how evenly.

use crate::stamp::Stamp;

/// How far back of the newest one an old datagram is told from a second one, in datagrams.
const WINDOW: u64 = 1024;

/// Counts over one flow.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// Came, each for the first time.
    pub packets: u64,
    /// Came after one that was sent later.
    pub reordered: u64,
    /// Came once more.
    pub duplicates: u64,
    /// RFC 3550, 6.4.1; ns.
    pub jitter: f64,
    /// Shortest, longest and sum of the times on the way, ns.
    pub delays: [u64; 3],
    /// The number behind the highest that has come.
    next: u64,
    last_transit: Option<i64>,
    /// Of the window's numbers, by their remainder: whether they have come.
    seen: [u64; (WINDOW / 64) as usize],
}

impl Arrivals {
    pub fn new() -> Arrivals {
        Arrivals {
            packets: 0,
            reordered: 0,
            duplicates: 0,
            jitter: 0.0,
            delays: [u64::MAX, 0, 0],
            next: 0,
            last_transit: None,
            seen: [0; (WINDOW / 64) as usize],
        }
    }

    /// One has come at this time, ns.
    pub fn add(&mut self, stamp: &Stamp, now: u64) {
        let number = stamp.number;
        if number >= self.next {
            // Those between have not come yet.
            for skipped in self.next.max(number.saturating_sub(WINDOW - 1))..=number {
                self.mark(skipped, false);
            }
            self.next = number + 1;
        } else if number + WINDOW >= self.next && self.has(number) {
            self.duplicates += 1;
            return;
        } else {
            self.reordered += 1;
        }
        if number + WINDOW >= self.next {
            self.mark(number, true);
        }
        self.packets += 1;
        let transit = now as i64 - stamp.time as i64;
        if let Some(last) = self.last_transit.replace(transit) {
            self.jitter += ((transit - last).abs() as f64 - self.jitter) / 16.0;
        }
        let transit = transit.max(0) as u64;
        let [min, max, sum] = self.delays;
        self.delays = [min.min(transit), max.max(transit), sum + transit];
    }

    /// How many have not come, if so many were sent (by what has come itself if that is unknown).
    pub fn lost(&self, sent: Option<u64>) -> u64 {
        sent.unwrap_or(self.next)
            .max(self.next)
            .saturating_sub(self.packets)
    }

    fn mark(&mut self, number: u64, seen: bool) {
        let at = number % WINDOW;
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        match seen {
            true => self.seen[word] |= bit,
            false => self.seen[word] &= !bit,
        }
    }

    fn has(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.seen[(at / 64) as usize] & 1 << (at % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(numbers: impl IntoIterator<Item = u64>) -> Arrivals {
        let mut arrivals = Arrivals::new();
        for number in numbers {
            let stamp = Stamp {
                flow: 0,
                number,
                time: number * 100,
                end: false,
            };
            arrivals.add(&stamp, number * 100 + 50);
        }
        arrivals
    }

    fn counts(a: &Arrivals, sent: u64) -> [u64; 4] {
        [a.packets, a.lost(Some(sent)), a.reordered, a.duplicates]
    }

    #[test]
    fn order_loss_and_copies_are_told_apart() {
        assert_eq!(counts(&after([0, 1, 2, 3]), 4), [4, 0, 0, 0]);
        assert_eq!(counts(&after([0, 2, 1, 3]), 4), [4, 0, 1, 0]);
        assert_eq!(counts(&after([0, 3]), 6), [2, 4, 0, 0]);
        assert_eq!(counts(&after([0, 0, 1, 0]), 2), [2, 0, 0, 2]);
        assert_eq!(counts(&after([]), 5), [0, 5, 0, 0]);
        assert_eq!(after([1, 4]).lost(None), 3);
    }

    #[test]
    fn the_window_moves_on() {
        let far = 10 * WINDOW;
        assert_eq!(
            counts(&after([0, far, far - 1, far - 1]), far + 1)[2..],
            [1, 1]
        );
        // Where an older one with the same remainder was marked.
        assert_eq!(
            counts(&after([5, 5 + WINDOW + 1, 5 + WINDOW]), 0)[2..],
            [1, 0]
        );
        assert_eq!(
            counts(&after(0..5 * WINDOW), 5 * WINDOW),
            [5 * WINDOW, 0, 0, 0]
        );
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let mut arrivals = Arrivals::new();
        let stamp = |number| Stamp {
            flow: 0,
            number,
            time: number * 1000,
            end: false,
        };
        // On the way for 100, 260, 100 ns: D is 160 twice.
        for (number, transit) in [(0, 100), (1, 260), (2, 100)] {
            arrivals.add(&stamp(number), number * 1000 + transit);
        }
        assert_eq!(arrivals.jitter, 10.0 + (160.0 - 10.0) / 16.0);
        assert_eq!(arrivals.delays, [100, 260, 460]);
    }
}
