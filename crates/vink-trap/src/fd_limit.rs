//! The worker's own descriptors: how many there may be, and which processes may take the last ones.
//!
//! A placeholder costs the worker two. The last ones are kept: some for the worker itself (a pidfd
//! for each process, a listener for each program), and as many for processes that have few files.
//! So a program that asks for too many gets `ENFILE`, and the others go on.

use std::cell::Cell;
use std::fs;

use vink_sys::process::{limit, set_limit};

/// The limit of this process, and what it was before.
pub(crate) struct FdLimit {
    limit: i32,
    before: libc::rlimit,
    /// A file was refused, and none made since.
    tight: Cell<bool>,
}

impl FdLimit {
    /// Raises this process's limit as far as it goes: to the hard limit, and with
    /// `CAP_SYS_RESOURCE` to the system's.
    pub(crate) fn raise() -> FdLimit {
        let unknown = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let before = limit(0, libc::RLIMIT_NOFILE).unwrap_or(unknown);
        let system = fs::read_to_string("/proc/sys/fs/nr_open");
        let system = system.ok().and_then(|text| text.trim().parse().ok());
        let limits = [system.unwrap_or(0).max(before.rlim_max), before.rlim_max];
        let highest = limits.into_iter().find(|limit| {
            let all = libc::rlimit {
                rlim_cur: *limit,
                rlim_max: *limit,
            };
            set_limit(0, libc::RLIMIT_NOFILE, &all).is_ok()
        });
        let highest = highest.unwrap_or(before.rlim_cur);
        FdLimit {
            limit: i32::try_from(highest).unwrap_or(i32::MAX),
            before,
            tight: Cell::new(false),
        }
    }

    /// What programs have.
    pub(crate) fn before(&self) -> libc::rlimit {
        self.before
    }

    /// Which descriptors a placeholder of a process that has so many files may be: those below. The
    /// host gives the lowest that is free, so that beyond there are no others left.
    pub(crate) fn below(&self, files: usize) -> i32 {
        let kept = (self.limit / 16).clamp(16, 512);
        let few = files < self.limit as usize / 8;
        self.limit - if few { kept } else { 2 * kept }
    }

    /// Whether a file could be made.
    pub(crate) fn note(&self, made: bool) {
        self.tight.set(!made);
    }

    /// Whether the last file could not be made.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptors_are_for_those_that_have_few() {
        let room = |limit| FdLimit {
            limit,
            before: libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            },
            tight: Cell::new(false),
        };
        for (limit, few, many) in [(20_000, 19_488, 18_976), (1024, 960, 896), (64, 48, 32)] {
            let room = room(limit);
            let most = limit as usize / 2;
            assert_eq!((room.below(0), room.below(most)), (few, many), "{limit}");
        }
    }
}
