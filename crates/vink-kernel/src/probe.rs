//! Tracepoints of the kernel: when it passes them, and what was in its memory then.
//!
//! A *probe* is at a tracepoint. At each passage it copies some bytes from where the tracepoint's
//! first argument points to (of `tcp_probe`, say, the connection's `struct tcp_sock`), while
//! nothing in the kernel moves on.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_void, CString};

use libc::{EINVAL, ENOENT};
use vink_abi::VINK_CALL_PROBE;

use crate::arena::Arena;
use crate::{Error, Kernel};

/// Passages that wait for [`Kernel::next_passage`] at most, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// What is at a tracepoint. Only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId(u64);

/// What a probe copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many bytes, from where the tracepoint's first argument points to.
    pub bytes: usize,
    /// Only of those passages where the eight bytes at this offset are this number.
    pub only: Option<(usize, u64)>,
}

/// The kernel has passed a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeHit {
    /// On [`Kernel::now`]'s clock, ns.
    pub time: u64,
    /// At which probe.
    pub probe: ProbeId,
    /// The tracepoint's first three arguments, as its `TP_PROTO` has them; what is not there may be
    /// anything.
    pub args: [u64; 3],
    /// What was copied: nothing if the first argument does not point into the kernel's memory.
    pub bytes: Vec<u8>,
}

/// Probes, and what they have found.
#[derive(Default)]
pub(crate) struct Probes {
    /// With the names of their tracepoints.
    all: HashMap<u64, (CString, Copied)>,
    passages: VecDeque<ProbeHit>,
    bytes: usize,
    missed: u64,
}

impl Probes {
    /// Keeps a passage, or counts it if there are too many. `arena` is the kernel's memory.
    pub fn pass(&mut self, time: u64, cookie: u64, args: [u64; 3], arena: &Arena) {
        let Some((_, copied)) = self.all.get(&cookie) else {
            return;
        };
        let copy = |at: u64, most: usize| {
            let at = at as *const c_void;
            let mut bytes = vec![0; most.min(arena.len_from(at))];
            arena.read(at, &mut bytes);
            bytes
        };
        if let Some((offset, number)) = copied.only {
            let at = args[0].saturating_add(offset as u64);
            if copy(at, 8) != number.to_ne_bytes() {
                return;
            }
        }
        if self.bytes >= MOST_BYTES {
            self.missed += 1;
            return;
        }
        let bytes = copy(args[0], copied.bytes);
        self.bytes += size_of::<ProbeHit>() + bytes.len();
        let probe = ProbeId(cookie);
        self.passages.push_back(ProbeHit {
            time,
            probe,
            args,
            bytes,
        });
    }

    fn pop(&mut self) -> Option<ProbeHit> {
        let passage = self.passages.pop_front()?;
        self.bytes -= size_of::<ProbeHit>() + passage.bytes.len();
        Some(passage)
    }
}

impl Kernel {
    /// From now on tells when the kernel passes the tracepoint of this name, such as `tcp_probe`,
    /// by [`Kernel::next_passage`].
    ///
    /// # Errors
    /// [`Error::Errno`]: `ESRCH`, there is no such tracepoint; `ENOSYS`, the image has no probes: it was built before
    /// there were any; `EINVAL`, the name has a NUL byte; `ENOMEM`. As [`Kernel::run`].
    pub fn probe(&mut self, tracepoint: &str, copied: Copied) -> Result<ProbeId, Error> {
        let what = "probe a tracepoint";
        let name = CString::new(tracepoint).map_err(|_| Error::Errno {
            what,
            errno: EINVAL,
        })?;
        let cookie = self.new_id().get();
        let args = [name.as_ptr() as u64, cookie, 1, 0, 0, 0];
        // The first passage can come with the call.
        self.probes()
            .borrow_mut()
            .all
            .insert(cookie, (name, copied));
        match self.control(what, VINK_CALL_PROBE, args) {
            Ok(_) => Ok(ProbeId(cookie)),
            Err(error) => {
                self.probes().borrow_mut().all.remove(&cookie);
                Err(error)
            }
        }
    }

    /// Ends a probe. What it has found can still be taken.
    ///
    /// # Errors
    /// [`Error::Errno`] `ENOENT`: there is no such probe. As [`Kernel::run`].
    pub fn end_probe(&mut self, probe: ProbeId) -> Result<(), Error> {
        let what = "end a probe";
        let found = self.probes().borrow_mut().all.remove(&probe.0);
        let (name, _) = found.ok_or(Error::Errno {
            what,
            errno: ENOENT,
        })?;
        let args = [name.as_ptr() as u64, probe.0, 0, 0, 0, 0];
        self.control(what, VINK_CALL_PROBE, args).map(drop)
    }

    /// The oldest passage that was not taken yet.
    pub fn next_passage(&mut self) -> Option<ProbeHit> {
        self.probes().borrow_mut().pop()
    }

    /// How many passages were not kept because 64 MiB of them waited to be taken.
    pub fn missed_passages(&self) -> u64 {
        self.probes().borrow().missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_abi::VINK_ARENA_MIN;

    #[test]
    fn what_is_not_in_the_arena_is_not_read() {
        let bytes =
            |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
        let arena = Arena::new(VINK_ARENA_MIN, false).expect("an arena");
        let end = arena.start() as u64 + VINK_ARENA_MIN;
        let start = end - 32;
        arena.write(start as *const c_void, &bytes(&[1, 2, 3, 4]));
        let copied = |bytes, only| Copied { bytes, only };
        let pass = |copied, at| {
            let mut probes = Probes::default();
            probes.all.insert(7, (CString::default(), copied));
            probes.pass(1, 7, [at, 0, 0], &arena);
            let passage = probes.pop();
            assert_eq!(probes.bytes, 0);
            passage.map(|passage| passage.bytes)
        };
        assert_eq!(pass(copied(16, None), start), Some(bytes(&[1, 2])));
        assert_eq!(pass(copied(99, None), start + 16), Some(bytes(&[3, 4])));
        assert_eq!(pass(copied(16, None), end), Some(vec![]));
        assert_eq!(pass(copied(16, None), 0), Some(vec![]));
        assert_eq!(pass(copied(8, Some((8, 2))), start), Some(bytes(&[1])));
        assert_eq!(pass(copied(8, Some((8, 3))), start), None);
        assert_eq!(pass(copied(8, Some((32, 0))), start), None);
        assert_eq!(pass(copied(8, Some((usize::MAX, 0))), start), None);
    }
}
