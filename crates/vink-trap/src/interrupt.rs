//! Signals at calls that wait in the kernel: how the worker learns of one, and what it does then.
//!
//! The filter is installed with `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`: once the worker has received
//! a call, a signal wakes its thread only to let it wait on, for nothing but the answer or death. So no
//! answer is lost, and a call that ends at once needs no more: the handler runs behind it, as on the
//! host.
//!
//! A call that waits must end. The thread's state tells: it sleeps as `S` until a signal comes and as `D`
//! from then on, with the signal pending for this very thread. So the worker looks at the states, but only
//! while calls wait: each [`LONGEST`], sooner after something of its own doing that may have raised a
//! signal. (kill(2) is not trapped for that: as any trapped call it could be interrupted itself before the
//! worker has received it, and nobody expects `EINTR` there.)
//!
//! The call in the kernel is cancelled then. One that has done something by now ends with that; one that
//! has not is answered with [`ERESTARTSYS`], a number that the host's kernel keeps for itself on the way
//! out: it runs the handler and restarts the call or makes it `EINTR`, as `SA_RESTART` says, or stops the
//! process, or does what a debugger wants. Only a thread seen as `D` may be told that.
//!
//! An exec ends all other threads of its process, silently, and the one that makes it takes over the number
//! of the first. A call that went on in the kernel would write to the memory of another program then.
//! So before an exec is let pass, the calls of all other threads are cancelled and put aside; if it
//! fails they are made anew. Those that begin meanwhile are cancelled when their threads are found dead.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use vink_kernel::Outcome;

use crate::process::{Busy, Stage, Then, Thread};
use crate::worker::Worker;
use crate::Error;

/// What the host's kernel has between a call that a signal interrupts and what the program sees of it.
pub(crate) const ERESTARTSYS: i64 = -512;
const EINTR: i64 = -(libc::EINTR as i64);

/// Between looks: after a hint, and when nothing has happened for long.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(8);
/// Looking takes one part in so many of the worker's time at most.
const SHARE: u32 = 50;

/// A call in progress in the kernel, or put aside.
pub(crate) struct Running {
    pub(crate) busy: Busy,
    /// The thread was seen with a signal pending.
    signalled: bool,
    /// The thread's `/proc/PID/task/TID/stat`, once it has been looked at.
    stat: Option<File>,
    _counted: Rc<()>,
}

impl Running {
    /// Whether a signal has come for the thread, which makes this call.
    fn is_signalled(&mut self, pid: i32) -> bool {
        if let Stage::Close {
            then: Then::Answer(_),
            ..
        } = self.busy.stage
        {
            // It was woken to be given a descriptor.
            return false;
        }
        if self.stat.is_none() {
            let tid = self.busy.call.tid;
            self.stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok();
        }
        // The number, the name in parentheses and the state take up less.
        let mut text = [0; 64];
        let stat = self.stat.as_ref();
        let length = stat.and_then(|stat| stat.read_at(&mut text, 0).ok());
        // A dead thread's can't be read.
        state(&text[..length.unwrap_or(0)]) == Some(b'D')
    }
}

/// The state in the text of a stat file; proc_pid_stat(5).
pub(crate) fn state(stat: &[u8]) -> Option<u8> {
    // The name may contain anything.
    let name_end = stat.iter().rposition(|b| *b == b')')?;
    stat.get(name_end + 2).copied()
}

/// Processes that may have been sent a signal.
pub(crate) enum Suspects {
    /// Any.
    All,
    These(Vec<i32>),
}

/// When to look for signals.
pub(crate) struct Pulse {
    interval: Duration,
    next: Instant,
    /// Since somebody last took them.
    suspects: Suspects,
    /// Threads that were found without a signal, by process, as long as nothing may have raised one.
    certain: HashMap<i32, Vec<i32>>,
    /// Shared with each [`Running`].
    count: Rc<()>,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse {
            interval: LONGEST,
            next: Instant::now(),
            suspects: Suspects::These(Vec::new()),
            certain: HashMap::new(),
            count: Rc::new(()),
        }
    }

    pub(crate) fn begin(&self, busy: Busy) -> Running {
        Running {
            busy,
            signalled: false,
            stat: None,
            _counted: self.count.clone(),
        }
    }

    /// Something may have raised a signal.
    pub(crate) fn hint(&mut self) {
        self.interval = SHORTEST;
        self.next = Instant::now() + SHORTEST;
        self.suspects = Suspects::All;
        self.doubt_all();
    }

    /// Something may have raised a signal for this process.
    pub(crate) fn hint_of(&mut self, pid: i32) {
        self.doubt(pid);
        match std::mem::replace(&mut self.suspects, Suspects::All) {
            Suspects::All => {}
            Suspects::These(mut these) => {
                these.push(pid);
                self.suspects = Suspects::These(these);
            }
        }
        self.interval = SHORTEST;
        self.next = Instant::now() + SHORTEST;
    }

    /// No signal is pending for the thread.
    pub(crate) fn make_certain(&mut self, pid: i32, tid: i32) {
        self.certain.entry(pid).or_default().push(tid);
    }

    /// Whether it is known that no signal is pending for the thread.
    pub(crate) fn is_certain(&self, pid: i32, tid: i32) -> bool {
        let certain = self.certain.get(&pid);
        certain.is_some_and(|certain| certain.contains(&tid))
    }

    /// A signal may be pending for this process; nobody needs to look before it waits for one.
    pub(crate) fn doubt(&mut self, pid: i32) {
        self.certain.remove(&pid);
    }

    /// The same of all.
    pub(crate) fn doubt_all(&mut self) {
        self.certain.clear();
    }

    /// Who may have been sent a signal since this was last asked.
    pub(crate) fn take_suspects(&mut self) -> Suspects {
        std::mem::replace(&mut self.suspects, Suspects::These(Vec::new()))
    }

    /// The time until the next look; `None` while no call waits.
    pub(crate) fn left(&self) -> Option<Duration> {
        let waits = Rc::strong_count(&self.count) > 1;
        waits.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// A look begun at `start` is over.
    fn looked(&mut self, start: Instant, found: bool) {
        let now = Instant::now();
        self.interval = match found {
            true => SHORTEST,
            false => LONGEST.min(2 * self.interval),
        };
        self.next = now + self.interval.max(SHARE * (now - start));
    }
}

/// What is to become of a call that the kernel is done with.
enum Verdict {
    /// This is the result.
    Result(i64),
    /// It was interrupted, but not for the program: once more.
    Again,
    /// It was interrupted for an exec.
    Aside,
}

impl Worker {
    /// Looks for threads that have been sent signals, and cancels their calls.
    pub(crate) fn look_for_signals(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let mut found = false;
        let mut aside = Vec::new();
        for (tid, thread) in &mut self.threads {
            let Some(running) = thread.busy.as_mut().or(thread.aside.as_mut()) else {
                continue;
            };
            let process = &self.processes[&thread.pid];
            let listener = self.trees[process.program].listener.as_ref();
            if process.executing.is_some()
                && listener.is_some_and(|l| !l.waits(running.busy.call.id))
            {
                // Begun when the exec was under way already, and ended by it.
            } else if running.is_signalled(thread.pid) {
                running.signalled = true;
            } else {
                continue;
            }
            found = true;
            match thread.task {
                Some(task) if thread.busy.is_some() => {
                    // Fails if the call is done, and Event::Done on its way.
                    let _ = self.kernel.cancel(task);
                    self.stirred = true;
                }
                _ => aside.push(*tid),
            }
        }
        self.pulse.looked(start, found);
        for tid in aside {
            let thread = self.threads.get_mut(&tid);
            if let Some(running) = thread.and_then(|t| t.aside.take()) {
                self.conclude_with(running.busy, ERESTARTSYS)?;
            }
        }
        Ok(())
    }

    fn verdict(&self, running: &Running, outcome: &Outcome) -> Verdict {
        if outcome.result != EINTR || matches!(running.busy.stage, Stage::Close { .. }) {
            return Verdict::Result(outcome.result);
        }
        if running.signalled {
            // One that has a time-out is not restarted (signal(7)).
            return Verdict::Result(if outcome.restart { ERESTARTSYS } else { EINTR });
        }
        let pid = self.threads[&running.busy.call.tid].pid;
        match self.processes[&pid].executing {
            Some(_) => Verdict::Aside,
            None if outcome.restart => Verdict::Again,
            None => Verdict::Result(EINTR),
        }
    }

    /// The result of a call that the kernel is done with; `None` if it is not to be answered now.
    pub(crate) fn result_of(
        &mut self,
        running: Running,
        outcome: &Outcome,
    ) -> Result<Option<(Busy, i64)>, Error> {
        match self.verdict(&running, outcome) {
            Verdict::Result(result) => return Ok(Some((running.busy, result))),
            Verdict::Again => self.again(running.busy)?,
            Verdict::Aside => {
                let thread = self.threads.get_mut(&running.busy.call.tid);
                thread.expect("looked at").aside = Some(running);
            }
        }
        Ok(None)
    }

    fn again(&mut self, busy: Busy) -> Result<(), Error> {
        match busy.stage {
            Stage::Sendfile(_) => self.send_piece(busy),
            Stage::Splice(_) => self.go_on_splicing(busy),
            Stage::Mail { .. } => self.answer_posted(&busy, EINTR),
            _ => self.dispatch(busy.call),
        }
    }

    /// Puts the calls of all other threads of the process aside: this one is about to execute.
    pub(crate) fn put_aside(&mut self, pid: i32, tid: i32) -> Result<(), Error> {
        for other in &self.processes[&pid].threads {
            let thread = &self.threads[other];
            if let (Some(_), Some(task), true) = (&thread.busy, thread.task, *other != tid) {
                // Fails if the call is done, and Event::Done on its way.
                let _ = self.kernel.cancel(task);
                self.stirred = true;
            }
        }
        self.settle()
    }

    /// The exec failed: goes on with what was put aside.
    pub(crate) fn take_up(&mut self, pid: i32) -> Result<(), Error> {
        for tid in self.processes[&pid].threads.clone() {
            let thread = self.threads.get_mut(&tid);
            if let Some(running) = thread.and_then(|t| t.aside.take()) {
                self.again(running.busy)?;
            }
        }
        Ok(())
    }

    /// A call comes from a number whose thread is in the middle of another: that one is dead, and its
    /// number has passed to a thread that executed.
    pub(crate) fn succeed(&mut self, tid: i32) {
        let pid = self.threads[&tid].pid;
        self.end_thread(tid);
        self.process_mut(pid).threads.push(tid);
        self.threads.insert(tid, Thread::new(pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        assert_eq!(state(b"12 (cat) S 1 2 3"), Some(b'S'));
        assert_eq!(state(b"1234567 (a (b) D c) D 1 2 3"), Some(b'D'));
        assert_eq!(state(b"12 (cat)"), None);
        assert_eq!(state(b""), None);
        let stat = std::fs::read("/proc/thread-self/stat").unwrap();
        assert_eq!(state(&stat[..64]), Some(b'R'));
    }
}
