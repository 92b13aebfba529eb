//! What the host says of threads that were let go: that they run, wait there, or have a signal
//! pending.

use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use vink_kernel::Numbered;
use vink_sys::procfs::stat_state;

use super::signals::Signals;
use super::{
    Runnable, RunningThread, Scheduler, ThreadState, VirtualWorker, ERESTARTNOHAND, STALL_TIMEOUT,
};
use crate::signal_poll::Suspects;
use crate::Error;
use vink_sched::livelock::Runaways;

/// Between checks of a thread that may wait in the host.
const SHORTEST: Duration = Duration::from_micros(30);
const LONGEST: Duration = Duration::from_millis(10);
/// ... at one that should run.
const USUAL: Duration = Duration::from_millis(50);

/// How long to wait before the running threads are checked.
pub(super) fn interval(running: &[RunningThread], waits: u32, runaways: &Runaways) -> Duration {
    let uncertain = |running: &RunningThread| {
        use ThreadState::{InVfork, MayBlock, VforkReleased};
        matches!(running.state, MayBlock | VforkReleased(_) | InVfork)
    };
    match running.iter().any(uncertain) {
        true => LONGEST.min(SHORTEST * (1 << waits.min(10))),
        false
            if running
                .iter()
                .any(|running| runaways.includes_process(running.pid)) =>
        {
            LONGEST
        }
        false => USUAL,
    }
}

/// The thread's state, as in proc_pid_stat(5); `None` if it is gone.
pub(super) fn state_of(pid: i32, tid: i32) -> Option<u8> {
    let mut stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The number, the name in parentheses and the state take up less.
    let mut text = [0; 64];
    let length = stat.read(&mut text).ok()?;
    stat_state(&text[..length])
}

/// As [`state_of`], but `R` for a thread that is still on a processor or waits for one. A thread
/// sleeps by its state while wait4(2) still reaps a child, and is stopped before it has sent
/// `SIGCHLD`. The host looks at the run queue, too, when it tells in which call a thread is
/// (proc_pid_syscall(5)). The state alone counts if we may not read that.
fn settled_state(pid: i32, tid: i32) -> Option<u8> {
    let state = state_of(pid, tid)?;
    if !matches!(state, b'S' | b'D' | b'T' | b't') {
        return Some(state);
    }
    match fs::read(format!("/proc/{pid}/task/{tid}/syscall")) {
        Ok(call) if !call.starts_with(b"running") => Some(state),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(state),
        _ => Some(b'R'),
    }
}

/// What a status file says of its thread: the state, the signals that are pending, and those of
/// them that are not ignored, bits from signal 1 on.
pub(super) fn parse_status(status: &str) -> Option<(u8, (u64, u64))> {
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

impl VirtualWorker<'_> {
    /// No call has come from the running threads: some of them may not be running.
    pub(super) fn check_running(&mut self) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched();
        let mut waiting = Vec::new();
        let (mut gone, mut stopped) = (Vec::new(), Vec::new());
        for running in &sched.running {
            let (tid, pid, thread_state) = (running.tid, running.pid, running.state);
            match settled_state(pid, tid) {
                _ if thread_state == ThreadState::WaitsOutside => {}
                // What traces it lets it go on at once.
                Some(b't') if sched.tsc.as_ref().is_some_and(|c| !c.holds(tid)) => {}
                Some(b'D') if thread_state == ThreadState::InVfork => waiting.push((tid, pid)),
                Some(b'D') => {
                    // Its child is back from an exec that has failed.
                    if let ThreadState::VforkReleased(child) = thread_state {
                        if !sched.running.iter().any(|running| running.pid == child) {
                            waiting.push((tid, pid));
                        }
                    }
                }
                Some(state @ (b'S' | b'T' | b't')) => {
                    waiting.push((tid, pid));
                    if state == b'T' || state == b't' && sched.tsc.is_some() {
                        stopped.push(pid);
                    }
                    if state != b'S' {
                        self.worker.calls.signals.hint();
                    }
                }
                None if fs::metadata(format!("/proc/{pid}")).is_ok() => gone.push(tid),
                _ => {}
            }
        }
        let sched = self.worker.calls.clock.sched_mut();
        let traces = sched.tsc.is_some();
        for pid in stopped {
            sched.parents.note_stop(pid, traces);
        }
        // A thread that slept, but not until its call is received, has still no call received now.
        self.drain_events()?;
        self.note_arrivals()?;
        for (tid, pid) in waiting {
            let sched = self.worker.calls.clock.sched_mut();
            let Some(index) = sched.running.iter().position(|running| running.tid == tid) else {
                continue;
            };
            let running = sched.running.remove(index);
            match running.state {
                ThreadState::InVfork => self.wait_for_vfork(tid, pid)?,
                ThreadState::VforkReleased(child) => sched.vforked.push((tid, child)),
                _ => {
                    sched.blocked_on_host.push((tid, pid));
                    let worker = &self.worker;
                    worker
                        .placement
                        .revoke_call_budget(&worker.calls.tasks.table, pid);
                    self.send_deferred_in_virtual_time(pid)?;
                }
            }
        }
        let sched = self.worker.calls.clock.sched_mut();
        sched.running.retain(|running| !gone.contains(&running.tid));
        Ok(())
    }

    /// Whether only threads are running that sleep until something comes from outside.
    pub(crate) fn waits_for_input(&mut self) -> Result<bool, Error> {
        let sched = self.worker.calls.clock.sched();
        let asleep =
            |running: &RunningThread| settled_state(running.pid, running.tid) == Some(b'S');
        if !sched.waits_for_input() || !sched.running.iter().all(asleep) {
            return Ok(false);
        }
        // One that has slept may have been woken since, and have made its next call.
        self.drain_events()?;
        self.note_arrivals()?;
        Ok(self.worker.calls.clock.sched().waits_for_input())
    }

    /// Receives all that there is: at once that is one call of a program, and so many events only.
    fn drain_events(&mut self) -> Result<(), Error> {
        for _ in 0..=self.worker.calls.tasks.table.counts()[1] {
            if self.poll_events(Some(Duration::ZERO))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Threads that are blocked on the host may have been woken: these are running again.
    pub(super) fn check_blocked_on_host(&mut self) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched_mut();
        let mut blocked_on_host = std::mem::take(&mut sched.blocked_on_host);
        if blocked_on_host.is_empty() {
            return Ok(());
        }
        blocked_on_host.retain(|(tid, pid)| match settled_state(*pid, *tid) {
            // It may have run, and stopped again.
            Some(b't') => {
                self.worker.calls.signals.hint();
                true
            }
            Some(b'S' | b'D' | b'T') => true,
            Some(_) => {
                sched.add_running(*tid, *pid, ThreadState::MayBlock);
                false
            }
            None => false,
        });
        sched.blocked_on_host = blocked_on_host;
        // A thread that slept is still blocked on the host, or waits for its call to be received.
        self.drain_events()?;
        self.note_arrivals()
    }

    /// Finds the blocked threads, and those with calls in the kernel, that have been sent signals.
    /// Waits for dying processes.
    pub(super) fn check_signals(&mut self) -> Result<(), Error> {
        let mut tids: Vec<i32> = match self.worker.calls.signals.take_suspects() {
            Suspects::These(pids) if pids.is_empty() => return Ok(()),
            Suspects::These(pids) => {
                let known = pids
                    .iter()
                    .filter_map(|pid| self.worker.calls.tasks.table.find_process(*pid));
                known.flat_map(|process| process.threads.clone()).collect()
            }
            Suspects::All => self
                .worker
                .calls
                .tasks
                .table
                .threads()
                .map(|(tid, _)| tid)
                .collect(),
        };
        tids.dedup();
        let sched = self.worker.calls.clock.sched();
        tids.retain(|tid| {
            !sched.is_running(*tid)
                && !sched.runaways.includes(*tid)
                && !sched.blocked_on_host.iter().any(|(t, _)| t == tid)
        });
        tids.sort_by_key(|tid| sched.serials.get(tid).copied().unwrap_or(u64::MAX));
        let mut busy = false;
        for tid in tids {
            let Some(pid) = self.worker.calls.tasks.table.find_pid(tid) else {
                continue;
            };
            let start = Instant::now();
            loop {
                let sched = self.worker.calls.clock.sched();
                let waiting = sched.blocked.get(&tid);
                let busy_with = self
                    .worker
                    .calls
                    .tasks
                    .table
                    .pending(tid)
                    .map(|r| r.in_flight.call.id);
                let id = waiting.map(|blocked| blocked.call.id).or(busy_with);
                let blocked = waiting.filter(|blocked| !blocked.is_queued);
                let listener = self.worker.calls.tasks.programs
                    [self.worker.calls.tasks.table.process(pid).program]
                    .listener
                    .as_ref();
                let dies = id.is_some_and(|id| listener.is_none_or(|l| !l.waits(id)));
                let mask = blocked.and_then(|blocked| blocked.condition.mask);
                let (state, pending) = match mask {
                    Some(_) => self
                        .worker
                        .calls
                        .clock
                        .sched_mut()
                        .status_files
                        .read(pid, tid)
                        .unzip(),
                    None => (state_of(pid, tid), None),
                };
                let sched = self.worker.calls.clock.sched();
                let blocked = sched.blocked.get(&tid).filter(|blocked| !blocked.is_queued);
                let traced = sched.tsc.is_some() && blocked.is_some();
                let state = match state {
                    // What has woken it is nothing that the program knows of.
                    Some(b'D') if traced && !dies && !Signals::of(pid, tid).would_act() => {
                        Some(b'S')
                    }
                    state => state,
                };
                match state {
                    // A dying thread may sleep on the way, too.
                    Some(b'D' | b'S') if dies && start.elapsed() < STALL_TIMEOUT => {
                        self.poll_events(Some(Duration::from_micros(50)))?;
                        if self.worker.calls.tasks.table.has_thread(tid) {
                            continue;
                        }
                        let sched = self.worker.calls.clock.sched_mut();
                        sched.wake_waiting_parents(&self.worker.calls.tasks.table);
                    }
                    Some(b'D') if blocked.is_some() => {
                        self.worker.calls.clock.sched_mut().interrupt(pid, tid);
                    }
                    Some(b'D') if self.worker.calls.tasks.table.pending(tid).is_some() => {
                        busy = true
                    }
                    // Its call has not been dispatched, or is done: it will block, or be answered.
                    Some(b'D') => {
                        let sched = self.worker.calls.clock.sched_mut();
                        sched.signal_checks.insert(tid);
                    }
                    Some(b'S') => {
                        let wanted = blocked.map_or(0, |blocked| blocked.condition.awaited_signals);
                        if wanted != 0 && Signals::of(pid, tid).pending & wanted != 0 {
                            let id = blocked.expect("looked at").call.id;
                            self.worker.calls.clock.sched_mut().wake(tid, id, None);
                            break;
                        }
                        match (mask, pending) {
                            (Some(_), Some((0, _))) => {
                                self.worker.calls.signals.mark_without_signal(pid, tid)
                            }
                            (Some(mask), Some((_, pending))) if pending & !mask != 0 => {
                                self.worker.calls.clock.sched_mut().have_host_interrupt(tid);
                            }
                            _ => {}
                        }
                    }
                    // On its way to be one of these, or dead.
                    Some(b'R') if start.elapsed() < STALL_TIMEOUT => {
                        std::thread::yield_now();
                        self.poll_events(Some(Duration::ZERO))?;
                        if self.worker.calls.tasks.table.has_thread(tid) {
                            continue;
                        }
                    }
                    Some(b'Z' | b'X') | None => {
                        // The last of its threads to go makes the process's end known.
                        while self.worker.calls.tasks.table.has_thread(tid)
                            && start.elapsed() < STALL_TIMEOUT
                        {
                            self.poll_events(Some(Duration::from_millis(1)))?;
                            if fs::metadata(format!("/proc/{pid}/task/{tid}")).is_err()
                                && self.worker.calls.tasks.table.has_process(pid)
                                && state_of(pid, pid).is_some_and(|s| !matches!(s, b'Z' | b'X'))
                            {
                                self.end_thread(tid);
                            }
                        }
                        // What the end tells goes before its signal.
                        let sched = self.worker.calls.clock.sched_mut();
                        sched.wake_waiting_parents(&self.worker.calls.tasks.table);
                    }
                    _ => {}
                }
                break;
            }
        }
        if busy {
            self.poll_signals()?;
        }
        Ok(())
    }
}

/// Open `/proc/PID/task/TID/status` files, by thread.
#[derive(Default)]
pub(super) struct StatusFiles(Numbered<i32, File>);

impl StatusFiles {
    /// As [`parse_status`], of a thread that is checked often.
    fn read(&mut self, pid: i32, tid: i32) -> Option<(u8, (u64, u64))> {
        let status = match self.0.entry(tid) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let path = format!("/proc/{pid}/task/{tid}/status");
                place.insert(File::open(path).ok()?)
            }
        };
        let mut text = [0; 4096];
        let length = status.read_at(&mut text, 0).ok()?;
        parse_status(&String::from_utf8_lossy(&text[..length]))
    }

    /// A thread is gone.
    pub(super) fn forget(&mut self, tid: i32) {
        self.0.remove(&tid);
    }
}

impl Scheduler {
    /// A signal has come for a blocked thread.
    fn interrupt(&mut self, pid: i32, tid: i32) {
        let blocked = self.blocked.get_mut(&tid).expect("looked at");
        blocked.is_queued = true;
        let restarts = blocked.condition.on_signal == ERESTARTNOHAND;
        if let Some(deadline) = blocked.condition.deadline.filter(|_| restarts) {
            if !Signals::of(pid, tid).run_a_handler() {
                let call = (blocked.call.nr, blocked.call.args);
                self.restarts.insert(tid, (call, deadline));
            }
        }
        let result = Some(blocked.condition.on_signal);
        self.run_queue.push(Runnable::Woken(blocked.call, result));
    }

    /// ... which only the mask of its call lets through.
    pub(super) fn have_host_interrupt(&mut self, tid: i32) {
        let blocked = self.blocked.get_mut(&tid).expect("looked at");
        blocked.is_queued = true;
        self.run_queue.push(Runnable::HostSignal(blocked.call));
    }
}
