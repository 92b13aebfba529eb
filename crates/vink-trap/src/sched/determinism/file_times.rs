//! Times of files: what was written since the worker began has the host's time, and shows the
//! programs' instead.
//!
//! A file is taken for written when a program first asks for its times after that. Files that are
//! older show their own times, but for when they were read: the host changes that at the first
//! reading of a day (relatime, mount(8)), by whichever process. They show the time when they were
//! written, as on a file system where reading changes nothing.

use std::collections::HashMap;

/// In ns.
pub(in crate::sched) const SECOND: i128 = 1_000_000_000;

/// A time of a file, in ns.
pub(in crate::sched) fn nanoseconds(stamp: &libc::statx_timestamp) -> i128 {
    i128::from(stamp.tv_sec) * SECOND + i128::from(stamp.tv_nsec)
}

/// What is known of times.
pub(crate) struct FileTimes {
    /// The host's, when this began, in ns.
    start: i128,
    /// By device and inode: the host's time, and which one it shows.
    shown: HashMap<(u64, u64), Vec<(i128, i64)>>,
}

impl FileTimes {
    /// `start`: the time of the host's clock that files have, in ns.
    pub(crate) fn new(start: i128) -> FileTimes {
        FileTimes {
            start,
            shown: HashMap::new(),
        }
    }

    /// What a file shows for times of the host's: when it was read, written, changed and made.
    /// `now`: the programs' date, in ns.
    pub(crate) fn show(&mut self, file: (u64, u64), times: &mut [i128; 4], now: i64) {
        let [read, rest @ ..] = &mut *times;
        if rest.iter().all(|time| *time < self.start) {
            *read = rest[0];
            return;
        }
        let known = self.shown.remove(&file).unwrap_or_default();
        let mut kept = Vec::new();
        for time in times {
            if *time >= self.start {
                let shown = known.iter().find(|(real, _)| real == time);
                let shown = shown.map_or(now, |(_, shown)| *shown);
                kept.push((*time, shown));
                *time = shown.into();
            }
        }
        self.shown.insert(file, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_of_this_run_are_changed() {
        let mut times = FileTimes::new(1000);
        let mut look = |file, mut real: [i128; 4], now| {
            times.show((0, file), &mut real, now);
            real
        };
        // When it was read, its file system says or not.
        for read in [10, 999, 1000] {
            assert_eq!(look(1, [read, 20, 999, 10], 5), [20, 20, 999, 10]);
        }
        assert_eq!(look(1, [10, 1000, 1001, 10], 5), [10, 5, 5, 10]);
        // As long as it is not written again, it keeps its time.
        assert_eq!(look(1, [10, 1000, 1001, 10], 7), [10, 5, 5, 10]);
        assert_eq!(look(1, [10, 1002, 1002, 10], 7), [10, 7, 7, 10]);
        assert_eq!(look(2, [1000; 4], 9), [9; 4]);
        assert_eq!(look(1, [10, 1002, 1003, 10], 9), [10, 7, 9, 10]);
    }
}
