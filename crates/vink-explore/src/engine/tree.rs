//! Tries schedules by branches: a process that goes along the run without faults branches at each packet.
//!
//! For each number of deviations, each processor has a fork of the lab, which goes along the run
//! without faults. At each packet it branches, for each fate that no process has taken yet; the branch
//! does the same at later packets until it has all its deviations. So each schedule is tried once, and
//! costs what comes behind its last deviation. What a branch is, a copier knows: a process (`fork`), or this
//! one, whose pages are put back (`pages`).

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use vink_sys::fd::{pipe, set_blocking};
use vink_sys::poll::{poll, wanted};
use vink_sys::process::{affinity, cpus, current_cpu, exit_now, one_cpu, set_affinity};

use super::copier::{gave_up, Branches, Copier, CopierKind};
use super::{End, Engine, Level};
use crate::cursor::{Cursor, Step};
use crate::forks::{fork_for_run, write_all, Claims, Death, Side};
use crate::run::Chooser;
use crate::runner::Runner;
use crate::search::Ran;
use crate::{Deviation, Error, Fate, Found, Outcome, Schedule};

/// A pipe takes so many bytes in one piece (`PIPE_BUF`).
const PIECE: usize = 4096;
/// How long a sentence about a violation may be in a piece.
const SENTENCES: usize = 2500;

/// See the head of the file.
pub(crate) struct Branching(pub CopierKind);

impl Engine for Branching {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn try_all(
        &mut self,
        runner: &mut Runner,
        level: &Level<'_>,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        level.run(self.0, runner, found, tell)
    }
}

impl Level<'_> {
    fn run(
        &self,
        copier: CopierKind,
        runner: &mut Runner,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        let what = "pipe(2)";
        let (reads, writes) = pipe().map_err(Error::host(what))?;
        set_blocking(&reads, false).map_err(Error::host(what))?;
        let mut spines = Vec::new();
        let mut processors: Vec<usize> = match affinity(0) {
            Some(all) => cpus(&all).collect(),
            None => Vec::new(),
        };
        let own = current_cpu();
        let before = processors.iter().take_while(|one| **one < own).count();
        let count = processors.len().max(1);
        processors.rotate_left(before % count);
        for job in 0..self.wanted.jobs {
            match fork_for_run()? {
                Side::Child => {
                    // Parent and child run in turn, and have their memory in one processor's cache then.
                    let processor = processors.get(job).filter(|_| copier == CopierKind::Fork);
                    if let Some(processor) = processor {
                        set_affinity(0, &one_cpu(*processor));
                    }
                    self.job(copier, runner, writes)
                }
                Side::Parent(spine) => spines.push(spine),
            }
        }
        drop(writes);
        let listened = self.listen(&reads, found, tell);
        self.claims.stop.store(true, Ordering::Relaxed);
        for spine in &spines {
            spine.kill();
        }
        let mut died = None;
        for mut spine in spines {
            died = died.or(spine.wait());
        }
        self.claims.stop.store(false, Ordering::Relaxed);
        match (listened?, died) {
            (End::Complete, Some(how)) if how != Death::Signal(libc::SIGKILL) => Err(Error::Lab(
                format!("a process of the search is gone: {how}"),
            )),
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
        let mut ran = self.ran.borrow_mut();
        if let Some(saver) = self.saver {
            lines.first = saver.saved().first;
        }
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
            // Before what was said is taken: each has said what it has found before it was done.
            let due = self.saver.filter(|saver| saver.is_due());
            let done = due.map(|saver| (saver, self.claims.done()));
            loop {
                match vink_sys::rustix::io::read(reads, &mut bytes) {
                    Ok(0) => {
                        lines.take(found, &mut ran)?;
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
            lines.take(found, &mut ran)?;
            if let Some((saver, done)) = done {
                saver.write(done, self.claims, found, &lines.first)?;
            }
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

    /// A process that searches. With an engine that keeps all branches in one process it has a child for
    /// that, and another one if a branch has killed it.
    fn job(&self, copier: CopierKind, runner: &mut Runner, writes: OwnedFd) -> ! {
        let names: Vec<String> = runner.ends().iter().map(crate::End::name).collect();
        let mut said = Said {
            first: 0,
            compares: runner.compares.is_some(),
            writes,
        };
        let cursor = Cursor::new().unwrap_or_else(|error| said.gives_up(error));
        if copier == CopierKind::Fork {
            self.spine(copier, runner, names, said, cursor, Vec::new());
        }
        let mut resume = Vec::new();
        loop {
            let mut spine = match fork_for_run() {
                Ok(Side::Child) => self.spine(copier, runner, names, said, cursor, resume),
                Ok(Side::Parent(spine)) => spine,
                Err(error) => said.gives_up(error),
            };
            let Some(how) = spine.wait() else {
                exit_now(0);
            };
            let path = cursor.path();
            if let Some(error) = gave_up(how) {
                said.gives_up(error);
            }
            if path.is_empty() || path == resume {
                said.gives_up(Error::Lab(format!(
                    "a process of the search is gone: {how}"
                )));
            }
            said.first = path[0].first + 1;
            let deviation = |step: &Step| Deviation {
                from: names[step.place].clone(),
                packet: step.packet,
                fate: self.wanted.fates[step.fate],
            };
            said.dead(path.iter().map(deviation).collect(), how);
            resume = path;
        }
    }

    /// A process that goes along the run without faults. It does not return, nor do its branches. What
    /// comes before `resume`, and that branch itself, has been tried.
    fn spine(
        &self,
        copier: CopierKind,
        runner: &mut Runner,
        names: Vec<String>,
        said: Said,
        cursor: &'static Cursor,
        resume: Vec<Step>,
    ) -> ! {
        let copier = match copier.copier(runner) {
            Ok(copier) => copier,
            Err(error) => said.gives_up(error),
        };
        let tree = Tree {
            claims: self.claims,
            copier: Arc::clone(&copier),
            cursor,
            names,
            fates: self.wanted.fates.clone(),
            left: self.deviations,
            taken: Vec::new(),
            at: (0, 0),
            resume,
            said,
        };
        let tree = Arc::new(Mutex::new(tree));
        let ran = runner.go(Box::new(Choosing(Arc::clone(&tree))));
        let tree = tree.lock().expect("no panic while it is held");
        if let Err(error) = &ran {
            tree.said.say(Err(error.to_string()));
        }
        let depth = tree.taken.len();
        if tree.left > 0 {
            // A schedule of fewer deviations, which has had its run.
            copier.end(depth);
        }
        let outcome = ran.ok();
        self.claims.runs.fetch_add(1, Ordering::Relaxed);
        if let Some(Outcome {
            violation,
            packets,
            normal,
            ..
        }) = outcome
        {
            self.claims.packets.fetch_add(packets, Ordering::Relaxed);
            if let Some(normal) = normal {
                tree.said.ran(tree.taken.clone(), normal.digest());
            }
            if let Some(violation) = violation {
                let schedule = tree.taken.clone();
                tree.said.found(Found {
                    schedule,
                    violation,
                });
            }
        }
        copier.end(depth)
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
    fn take(
        &mut self,
        found: &mut BTreeMap<String, Found>,
        ran: &mut Vec<Ran>,
    ) -> Result<(), Error> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let (first, one): (usize, Result<Told, String>) = serde_json::from_slice(&line)
                .map_err(|error| Error::Lab(format!("what a run says is damaged: {error}")))?;
            let one = match one.map_err(Error::Lab)? {
                Told::Found(found) => found,
                Told::Ran(schedule, digest) => {
                    ran.push(Ran {
                        first,
                        schedule,
                        digest,
                    });
                    continue;
                }
            };
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
struct Tree {
    claims: &'static Claims,
    copier: Arc<dyn Copier>,
    cursor: &'static Cursor,
    /// Of interfaces.
    names: Vec<String>,
    fates: Vec<Fate>,
    /// How many deviations it may still take.
    left: usize,
    /// Those that it has taken.
    taken: Schedule,
    /// The packet that is asked about: its interface's place, its number there.
    at: (usize, u32),
    /// The branch that was tried last, if it is not this process that has.
    resume: Vec<Step>,
    said: Said,
}

/// Branches share nothing: the lock is never contended.
struct Choosing(Arc<Mutex<Tree>>);

impl Chooser for Choosing {
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate> {
        let mut tree = self.0.lock().expect("no panic while it is held");
        tree.choose(from, packet)
    }
}

impl Tree {
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate> {
        if self.left == 0 {
            return None;
        }
        let depth = self.taken.len();
        let place = self.names.iter().position(|name| name == from)?;
        self.at = (place, packet);
        let count = self.fates.len();
        let is_before = |step: &Step| (step.place, step.packet) != (place, packet);
        let branch = match self.resume.get(depth).is_some_and(is_before) {
            true => None,
            false => {
                let copier = Arc::clone(&self.copier);
                match copier.branch(depth, count, self) {
                    Ok(branch) => {
                        // Behind it all is new.
                        if self.resume.get(depth).map(|step| step.fate) != branch {
                            self.resume.clear();
                        }
                        branch
                    }
                    Err(error) => self.said.gives_up(error),
                }
            }
        };
        match branch {
            Some(branch) => {
                if depth == 0 {
                    self.said.first += branch + 1;
                }
                self.left -= 1;
                let deviation = self.deviation(branch);
                self.taken.push(deviation);
                Some(self.fates[branch])
            }
            None => {
                if depth == 0 {
                    self.said.first += count;
                    self.finish(None);
                }
                self.cursor.back(depth);
                None
            }
        }
    }

    /// The first deviation that was gone along last is done, unless it is this one, which a process that has died
    /// was in.
    fn finish(&self, begins: Option<usize>) {
        if let Some(last) = self.cursor.path().first() {
            if begins != Some(last.first) {
                self.claims.finish(last.first);
            }
        }
    }

    fn deviation(&self, branch: usize) -> Deviation {
        Deviation {
            from: self.names[self.at.0].clone(),
            packet: self.at.1,
            fate: self.fates[branch],
        }
    }
}

impl Branches for Tree {
    fn wants(&mut self, branch: usize) -> bool {
        if self.claims.is_stopped() {
            exit_now(0);
        }
        let depth = self.taken.len();
        let first = self.said.first + branch;
        let is_last = self.resume.len() == depth + 1;
        let wanted = match self.resume.get(depth).map(|step| branch.cmp(&step.fate)) {
            Some(std::cmp::Ordering::Less) => false,
            Some(std::cmp::Ordering::Equal) => !is_last,
            _ => depth > 0 || self.claims.claim(first),
        };
        if wanted {
            if depth == 0 {
                self.finish(Some(first));
            }
            let (place, packet) = self.at;
            let step = Step {
                place,
                packet,
                fate: branch,
                first,
            };
            self.cursor.go(depth, step);
        }
        wanted
    }

    fn died(&mut self, branch: usize, how: Death) {
        let deviation = self.deviation(branch);
        let schedule = self.taken.iter().cloned().chain([deviation]).collect();
        self.said.dead(schedule, how);
    }
}

/// What is said of a run.
#[derive(Serialize, Deserialize)]
enum Told {
    /// It breaks a property.
    Found(Found),
    /// It is over, with this digest of what is compared.
    Ran(Schedule, String),
}

/// What a process says.
struct Said {
    /// How many first deviations it has passed.
    first: usize,
    /// Each run is told.
    compares: bool,
    /// By which it says what it finds.
    writes: OwnedFd,
}

impl Said {
    /// The run of this schedule has killed its process.
    fn dead(&self, schedule: Schedule, how: Death) {
        let Outcome {
            violation, normal, ..
        } = Outcome::dead(Some(how));
        if let (Some(normal), true) = (normal, self.compares) {
            self.ran(schedule.clone(), normal.digest());
        }
        if let Some(violation) = violation {
            self.found(Found {
                schedule,
                violation,
            });
        }
    }

    fn ran(&self, schedule: Schedule, digest: String) {
        self.say(Ok(Told::Ran(schedule, digest)));
    }

    fn gives_up(&self, error: Error) -> ! {
        self.say(Err(error.to_string()));
        exit_now(0)
    }

    fn found(&self, mut found: Found) {
        let text = &mut found.violation.what;
        let mut end = text.len().min(SENTENCES / 2);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        self.say(Ok(Told::Found(found)));
    }

    fn say(&self, what: Result<Told, String>) {
        let mut line = serde_json::to_vec(&(self.first, what)).expect("plain data");
        line.push(b'\n');
        // A pipe that no process reads: the search is over.
        let _ = write_all(&self.writes, &line);
    }
}
