//! The fork engine: a process that goes along the run without faults forks at each packet.
//!
//! For each number of deviations, each processor has a fork of the lab, which goes along the run
//! without faults. At each packet it forks, for each fate that no process has taken yet, and waits for
//! that one's end; the fork does the same at later packets until it has all its deviations. So each
//! schedule is tried once, and costs what comes behind its last deviation.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use vink_sys::fd::{pipe, set_blocking};
use vink_sys::poll::{poll, wanted};
use vink_sys::process::{exit_now, kill};

use super::{End, Engine, Level};
use crate::forks::{fork, wait, write_all, Claims, Side};
use crate::run::Chooser;
use crate::runner::Runner;
use crate::{Deviation, Error, Fate, Found, Outcome, Schedule};

/// A pipe takes so many bytes in one piece (`PIPE_BUF`).
const PIECE: usize = 4096;
/// How long a sentence about a violation may be in a piece.
const SENTENCES: usize = 2500;

/// See the head of the file.
pub(crate) struct Fork;

impl Engine for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn try_all(
        &mut self,
        runner: &mut Runner,
        level: &Level<'_>,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        level.run(runner, found, tell)
    }
}

impl Level<'_> {
    fn run(
        &self,
        runner: &mut Runner,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        let what = "pipe(2)";
        let (reads, writes) = pipe().map_err(Error::host(what))?;
        set_blocking(&reads, false).map_err(Error::host(what))?;
        let mut spines = Vec::new();
        for _ in 0..self.wanted.jobs {
            match fork()? {
                Side::Child => self.spine(runner, writes),
                Side::Parent(pid) => spines.push(pid),
            }
        }
        drop(writes);
        let listened = self.listen(&reads, found, tell);
        self.claims.stop.store(true, Ordering::Relaxed);
        for pid in &spines {
            // With all that it has forked; one that has ended by itself is waited for below.
            let _ = kill(*pid, libc::SIGKILL);
        }
        let mut died = None;
        for pid in spines {
            died = died.or(wait(pid));
        }
        self.claims.stop.store(false, Ordering::Relaxed);
        match (listened?, died) {
            (End::Complete, Some(how)) if !how.starts_with("signal 9") => Err(Error::Lab(format!(
                "a process of the search is gone: {how}"
            ))),
            (end, _) => Ok(end),
        }
    }

    /// Takes what is found, until all processes have closed the pipe.
    fn listen(
        &self,
        reads: &OwnedFd,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        let mut lines = Lines::default();
        let mut bytes = [0; PIECE];
        loop {
            let mut ready = vec![wanted(reads.as_raw_fd(), libc::POLLIN)];
            if let Some(interrupt) = self.interrupt {
                ready.push(wanted(interrupt.as_raw_fd(), libc::POLLIN));
            }
            match poll(&mut ready, 250) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(Error::host("poll(2)")(error));
                }
                _ => {}
            }
            if ready.get(1).is_some_and(|fd| fd.revents != 0) {
                return Ok(End::Interrupted);
            }
            tell();
            loop {
                match vink_sys::rustix::io::read(reads, &mut bytes) {
                    Ok(0) => {
                        lines.take(found)?;
                        let more = self.deviations > 1 && !found.is_empty();
                        return Ok(match more && !self.wanted.keep_going {
                            true => End::Found,
                            false => End::Complete,
                        });
                    }
                    Ok(count) => lines.bytes.extend(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::host("reading what runs say")(error.into())),
                }
            }
            lines.take(found)?;
            // With one deviation there are few: the first one in their order is told each time.
            if !found.is_empty() && self.deviations > 1 && !self.wanted.keep_going {
                return Ok(End::Found);
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() > deadline)
            {
                return Ok(End::Budget);
            }
        }
    }

    /// A process that goes along the run without faults. It does not return, nor do its forks.
    fn spine(&self, runner: &mut Runner, writes: OwnedFd) -> ! {
        let forks = Forks {
            claims: self.claims,
            fates: self.wanted.fates.clone(),
            left: self.deviations,
            taken: Vec::new(),
            first: 0,
            writes,
        };
        let forks = Arc::new(Mutex::new(forks));
        let ran = runner.go(Box::new(Forking(Arc::clone(&forks))));
        let forks = forks.lock().expect("no panic while it is held");
        if let Err(error) = &ran {
            forks.say(Err(error.to_string()));
        }
        if forks.left > 0 {
            // A schedule of fewer deviations, which has had its run.
            exit_now(0);
        }
        let outcome = ran.ok();
        self.claims.runs.fetch_add(1, Ordering::Relaxed);
        if let Some(Outcome {
            violation, packets, ..
        }) = outcome
        {
            self.claims.packets.fetch_add(packets, Ordering::Relaxed);
            if let Some(violation) = violation {
                let schedule = forks.taken.clone();
                forks.say(Ok(Found {
                    schedule,
                    violation,
                }));
            }
        }
        exit_now(0)
    }
}

/// What runs say, as far as it has come.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The first deviation of what was found for a property, by its place in the run.
    first: HashMap<String, usize>,
}

impl Lines {
    /// Takes whole lines. The schedule that deviates first is kept, whichever was tried first.
    fn take(&mut self, found: &mut BTreeMap<String, Found>) -> Result<(), Error> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let (first, one): (usize, Result<Found, String>) = serde_json::from_slice(&line)
                .map_err(|error| Error::Lab(format!("what a run says is damaged: {error}")))?;
            let one = one.map_err(Error::Lab)?;
            let name = one.violation.property.clone();
            let is_new = !found.contains_key(&name);
            let is_earlier = self.first.get(&name).is_some_and(|known| first < *known);
            if is_new || is_earlier {
                self.first.insert(name.clone(), first);
                found.insert(name, one);
            }
        }
        Ok(())
    }
}

/// Where a process is in the tree of schedules.
struct Forks {
    claims: &'static Claims,
    fates: Vec<Fate>,
    /// How many deviations it may still take.
    left: usize,
    /// Those that it has taken.
    taken: Schedule,
    /// How many first deviations it has passed.
    first: usize,
    /// By which it says what it finds.
    writes: OwnedFd,
}

/// Its forks share nothing with it: the lock is never contended.
struct Forking(Arc<Mutex<Forks>>);

impl Chooser for Forking {
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate> {
        let mut forks = self.0.lock().expect("no panic while it is held");
        forks.choose(from, packet)
    }
}

impl Forks {
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate> {
        if self.left == 0 {
            return None;
        }
        for at in 0..self.fates.len() {
            let fate = self.fates[at];
            if self.claims.is_stopped() {
                exit_now(0);
            }
            if self.taken.is_empty() {
                self.first += 1;
                if !self.claims.claim(self.first - 1) {
                    continue;
                }
            }
            let deviation = Deviation {
                from: from.to_owned(),
                packet,
                fate,
            };
            match fork() {
                Ok(Side::Child) => {
                    self.left -= 1;
                    self.taken.push(deviation);
                    return Some(fate);
                }
                Ok(Side::Parent(pid)) => {
                    if let Some(how) = wait(pid) {
                        let schedule = self.taken.iter().cloned().chain([deviation]).collect();
                        let Outcome { violation, .. } = Outcome::dead(how);
                        if let Some(violation) = violation {
                            self.say(Ok(Found {
                                schedule,
                                violation,
                            }));
                        }
                    }
                }
                Err(error) => {
                    self.say(Err(error.to_string()));
                    exit_now(0);
                }
            }
        }
        None
    }

    fn say(&self, mut what: Result<Found, String>) {
        if let Ok(found) = &mut what {
            let text = &mut found.violation.what;
            let mut end = text.len().min(SENTENCES / 2);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        let mut line = serde_json::to_vec(&(self.first, what)).expect("plain data");
        line.push(b'\n');
        // A pipe that no process reads: the search is over.
        let _ = write_all(&self.writes, &line);
    }
}
