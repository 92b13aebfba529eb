//! What the host says of threads that were let go: that they run, wait there, or have a signal pending.

use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::pending::Signals;
use super::{Out, Patience, Ready, ERESTARTNOHAND, SILENCE};
use crate::interrupt::{state, Suspects};
use crate::notify::Notification;
use crate::worker::Worker;
use crate::Error;

/// Between looks at a thread that may wait in the host.
const SHORTEST: Duration = Duration::from_micros(30);
const LONGEST: Duration = Duration::from_millis(10);
/// ... at one that should run.
const USUAL: Duration = Duration::from_millis(50);

/// How long to wait before a look at those who are out.
pub(super) fn interval(out: &[Out], waits: u32) -> Duration {
    let uncertain = |out: &Out| {
        use Patience::{MayWait, Released, Vfork};
        matches!(out.patience, MayWait | Released(_) | Vfork)
    };
    match out.iter().any(uncertain) {
        true => LONGEST.min(SHORTEST * (1 << waits.min(10))),
        false => USUAL,
    }
}

/// The thread's state, as in proc_pid_stat(5); `None` if it is gone.
pub(super) fn of(pid: i32, tid: i32) -> Option<u8> {
    let mut stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The number, the name in parentheses and the state take up less.
    let mut text = [0; 64];
    let length = stat.read(&mut text).ok()?;
    state(&text[..length])
}

/// Whether a thread that is stopped has no more to do for it, such as sending `SIGCHLD`.
fn has_settled(pid: i32, tid: i32) -> bool {
    let call = fs::read(format!("/proc/{pid}/task/{tid}/syscall"));
    call.is_ok_and(|call| !call.starts_with(b"running"))
}

/// What a status file says of its thread: the state, the signals that are pending, and those of them that are not ignored,
/// bits from signal 1 on.
pub(super) fn glance(status: &str) -> Option<(u8, (u64, u64))> {
    let (mut state, mut pending, mut ignored) = (None, 0, 0);
    for line in status.lines() {
        let set = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap_or(0);
        match line.split_once(":\t") {
            Some(("State", text)) => state = text.bytes().next(),
            Some(("SigPnd" | "ShdPnd", text)) => pending |= set(text),
            Some(("SigIgn", text)) => ignored = set(text),
            _ => {}
        }
    }
    Some((state?, (pending, pending & !ignored)))
}

impl Worker {
    /// Nothing was heard of those who are out: some of them may not be.
    pub(super) fn look_after_out(&mut self) -> Result<(), Error> {
        let turn = self.turn.as_ref().expect("virtual time");
        let mut waiting = Vec::new();
        let (mut gone, mut stopped) = (Vec::new(), Vec::new());
        for out in &turn.out {
            let (tid, pid, patience) = (out.tid, out.pid, out.patience);
            match of(pid, tid) {
                _ if patience == Patience::Outside => {}
                // What traces it lets it go on at once.
                Some(b't') if turn.counter.as_ref().is_some_and(|c| !c.holds(tid)) => {}
                Some(b'D') if patience == Patience::Vfork => waiting.push((tid, pid)),
                Some(b'D') => {
                    // Its child is back from an exec that has failed.
                    if let Patience::Released(child) = patience {
                        if !turn.out.iter().any(|out| out.pid == child) {
                            waiting.push((tid, pid));
                        }
                    }
                }
                // Not before its parent or tracer has been told.
                Some(b'T' | b't') if !has_settled(pid, tid) => {}
                Some(state @ (b'S' | b'T' | b't')) => {
                    waiting.push((tid, pid));
                    if state == b'T' || state == b't' && turn.counter.is_some() {
                        stopped.push(pid);
                    }
                    if state != b'S' {
                        self.pulse.hint();
                    }
                }
                None if fs::metadata(format!("/proc/{pid}")).is_ok() => gone.push(tid),
                _ => {}
            }
        }
        for pid in stopped {
            self.note_stop(pid);
        }
        // Whoever slept, but not to be heard, is still not heard now.
        self.catch_all_events()?;
        self.arrive()?;
        for (tid, pid) in waiting {
            let turn = self.turn.as_mut().expect("virtual time");
            let Some(index) = turn.out.iter().position(|out| out.tid == tid) else {
                continue;
            };
            let out = turn.out.remove(index);
            match out.patience {
                Patience::Vfork => self.wait_for_vfork(tid, pid)?,
                Patience::Released(child) => turn.vforked.push((tid, child)),
                _ => {
                    turn.inside.push((tid, pid));
                    self.set_unfree(pid);
                }
            }
        }
        let turn = self.turn.as_mut().expect("virtual time");
        turn.out.retain(|out| !gone.contains(&out.tid));
        Ok(())
    }

    /// Receives all that there is: at once that is one call of a program, and so many events only.
    fn catch_all_events(&mut self) -> Result<(), Error> {
        for _ in 0..=self.threads.len() {
            if self.catch_events(Some(Duration::ZERO))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Those who waited in the host may have been woken: they are out again.
    pub(super) fn look_inside(&mut self) -> Result<(), Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        let mut inside = std::mem::take(&mut turn.inside);
        if inside.is_empty() {
            return Ok(());
        }
        inside.retain(|(tid, pid)| match of(*pid, *tid) {
            // It may have run, and stopped again.
            Some(b't') if has_settled(*pid, *tid) => {
                self.pulse.hint();
                true
            }
            Some(b'S' | b'D' | b'T') => true,
            Some(_) => {
                turn.go_out(*tid, *pid, Patience::MayWait);
                false
            }
            None => false,
        });
        turn.inside = inside;
        // Whoever slept was still waiting, or waits to be heard.
        self.catch_all_events()?;
        self.arrive()
    }

    /// Finds the parked threads and those in the kernel that have been sent signals. Dying processes are waited
    /// for.
    pub(super) fn find_signals(&mut self) -> Result<(), Error> {
        let mut tids: Vec<i32> = match self.pulse.take_suspects() {
            Suspects::These(pids) if pids.is_empty() => return Ok(()),
            Suspects::These(pids) => {
                let known = pids.iter().filter_map(|pid| self.processes.get(pid));
                known.flat_map(|process| process.threads.clone()).collect()
            }
            Suspects::All => self.threads.keys().copied().collect(),
        };
        tids.dedup();
        let turn = self.turn.as_ref().expect("virtual time");
        tids.retain(|tid| {
            !turn.is_out(*tid)
                && !turn.astray.has(*tid)
                && !turn.inside.iter().any(|(t, _)| t == tid)
        });
        tids.sort_by_key(|tid| turn.serials.get(tid).copied().unwrap_or(u64::MAX));
        let mut busy = false;
        for tid in tids {
            let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) else {
                continue;
            };
            let start = Instant::now();
            loop {
                let turn = self.turn.as_ref().expect("virtual time");
                let waiting = turn.parked.get(&tid);
                let busy_with = self.threads[&tid].busy.as_ref().map(|r| r.busy.call.id);
                let id = waiting.map(|parked| parked.call.id).or(busy_with);
                let parked = waiting.filter(|parked| !parked.called);
                let listener = self.trees[self.processes[&pid].program].listener.as_ref();
                let dies = id.is_some_and(|id| listener.is_none_or(|l| !l.waits(id)));
                let mask = parked.and_then(|parked| parked.until.mask);
                let (state, pending) = match mask {
                    Some(_) => self.glance_at(pid, tid).unzip(),
                    None => (of(pid, tid), None),
                };
                let turn = self.turn.as_ref().expect("virtual time");
                let parked = turn.parked.get(&tid).filter(|parked| !parked.called);
                let traced = turn.counter.is_some() && parked.is_some();
                let state = match state {
                    // What has woken it is nothing that the program knows of.
                    Some(b'D') if traced && !dies && !Signals::of(pid, tid).matter() => Some(b'S'),
                    state => state,
                };
                match state {
                    // Whoever dies may sleep on the way, too.
                    Some(b'D' | b'S') if dies && start.elapsed() < SILENCE => {
                        self.catch_events(Some(Duration::from_micros(50)))?;
                        if self.threads.contains_key(&tid) {
                            continue;
                        }
                        self.look_at_children();
                    }
                    Some(b'D') if parked.is_some() => self.interrupt(tid),
                    Some(b'D') if self.threads[&tid].busy.is_some() => busy = true,
                    // It has not been looked at, or is done: it will wait, or be answered.
                    Some(b'D') => {
                        let turn = self.turn.as_mut().expect("virtual time");
                        turn.signalled.insert(tid);
                    }
                    Some(b'S') => {
                        let wanted = parked.map_or(0, |parked| parked.until.wanted);
                        if wanted != 0 && Signals::of(pid, tid).pending & wanted != 0 {
                            let id = parked.expect("looked at").call.id;
                            self.wake(tid, id, None);
                            break;
                        }
                        match (mask, pending) {
                            (Some(_), Some((0, _))) => self.pulse.make_certain(pid, tid),
                            (Some(mask), Some((_, pending))) if pending & !mask != 0 => {
                                self.have_host_interrupt(tid);
                            }
                            _ => {}
                        }
                    }
                    // On its way to be one of these, or dead.
                    Some(b'R') if start.elapsed() < SILENCE => {
                        std::thread::yield_now();
                        self.catch_events(Some(Duration::ZERO))?;
                        if self.threads.contains_key(&tid) {
                            continue;
                        }
                    }
                    Some(b'Z' | b'X') | None => {
                        // The last of its threads to go makes the process's end known.
                        while self.threads.contains_key(&tid) && start.elapsed() < SILENCE {
                            self.catch_events(Some(Duration::from_millis(1)))?;
                            if fs::metadata(format!("/proc/{pid}/task/{tid}")).is_err()
                                && self.processes.contains_key(&pid)
                                && of(pid, pid).is_some_and(|s| !matches!(s, b'Z' | b'X'))
                            {
                                self.end_thread(tid);
                            }
                        }
                        // What the end tells goes before its signal.
                        self.look_at_children();
                    }
                    _ => {}
                }
                break;
            }
        }
        if busy {
            self.look_for_signals()?;
        }
        Ok(())
    }

    /// As [`glance`], of a thread that is looked at often.
    fn glance_at(&mut self, pid: i32, tid: i32) -> Option<(u8, (u64, u64))> {
        let turn = self.turn.as_mut().expect("virtual time");
        let status = match turn.status.entry(tid) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let path = format!("/proc/{pid}/task/{tid}/status");
                place.insert(File::open(path).ok()?)
            }
        };
        let mut text = [0; 4096];
        let length = status.read_at(&mut text, 0).ok()?;
        glance(&String::from_utf8_lossy(&text[..length]))
    }

    /// A signal has come for a parked thread.
    fn interrupt(&mut self, tid: i32) {
        let pid = self.threads[&tid].pid;
        let turn = self.turn.as_mut().expect("virtual time");
        let parked = turn.parked.get_mut(&tid).expect("looked at");
        parked.called = true;
        let restarts = parked.until.interrupted == ERESTARTNOHAND;
        if let Some(deadline) = parked.until.deadline.filter(|_| restarts) {
            if !Signals::of(pid, tid).run_a_handler() {
                let call = (parked.call.nr, parked.call.args);
                turn.restarts.insert(tid, (call, deadline));
            }
        }
        let result = Some(parked.until.interrupted);
        turn.line.push_back(Ready::Parked(parked.call, result));
    }

    /// ... which only the mask of its call lets through.
    pub(super) fn have_host_interrupt(&mut self, tid: i32) {
        let turn = self.turn.as_mut().expect("virtual time");
        let parked = turn.parked.get_mut(&tid).expect("looked at");
        parked.called = true;
        turn.line.push_back(Ready::Pass(parked.call));
    }

    /// Lets the host do a call that may wait there.
    pub(crate) fn pass_that_may_wait(&mut self, call: Notification) -> Result<(), Error> {
        self.pass_with(call, Patience::MayWait)
    }
}
