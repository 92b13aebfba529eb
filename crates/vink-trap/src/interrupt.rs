//! Signals at calls that wait in the kernel: how the worker learns of one, and what it does then.
//!
//! The filter is installed with `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`: once the worker has
//! received a call, a signal wakes its thread only to let it wait on, for nothing but the answer or
//! death. So no answer is lost, and a call that ends at once needs no more: the handler runs behind
//! it, as on the host.
//!
//! A call that waits must end. The thread's state shows it: it sleeps as `S` until a signal comes
//! and as `D` from then on, with the signal pending for this very thread. So the worker polls the
//! states, but only while calls wait: each [`MAX_INTERVAL`], sooner after something of its own
//! doing that may have raised a signal. (kill(2) is not trapped for that: as any trapped call it
//! could be interrupted itself before the worker has received it, and no program expects `EINTR`
//! there.)
//!
//! The call in the kernel is cancelled then. One that has done something by now ends with that; one
//! that has not is answered with [`ERESTARTSYS`], a number that the host's kernel keeps for itself
//! on the way out: it runs the handler and restarts the call or makes it `EINTR`, as `SA_RESTART`
//! says, or stops the process, or does what a debugger wants. Only a thread seen as `D` may be
//! answered with it.
//!
//! An exec ends all other threads of its process, silently, and the thread that makes it takes over
//! the number of the first. A call that went on in the kernel would write to the memory of another
//! program then. So before an exec passes through, the calls of all other threads are cancelled and
//! suspended; if it fails they are made anew. Those that begin meanwhile are cancelled when their
//! threads are found dead.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use vink_kernel::{monotonic, Outcome};
pub(crate) use vink_sched::block::ERESTARTSYS;
use vink_sys::errno::EINTR;
use vink_sys::procfs::stat_state;

use crate::process::{AfterClose, Continuation, InFlight, Thread};
use crate::worker::Worker;
use crate::Error;

/// ns between polls: after a hint, and when nothing has happened for long.
const MIN_INTERVAL: u64 = 100_000;
const MAX_INTERVAL: u64 = 8_000_000;
/// Looking takes one part in so many of the worker's time at most.
const MAX_DUTY: u64 = 50;

/// A call in progress in the kernel, or put aside.
pub(crate) struct PendingCall {
    pub(crate) in_flight: InFlight,
    /// The thread was seen with a signal pending.
    has_signal: bool,
    /// The thread's `/proc/PID/task/TID/stat`, once it has been read.
    stat: Option<File>,
    _counted: Rc<()>,
}

impl PendingCall {
    /// Whether a signal has come for the thread, which makes this call.
    fn is_signalled(&mut self, pid: i32) -> bool {
        if let Continuation::Close {
            then: AfterClose::Answer(_),
            ..
        } = self.in_flight.continuation
        {
            // It was woken to be given a descriptor.
            return false;
        }
        if self.stat.is_none() {
            let tid = self.in_flight.call.tid;
            self.stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok();
        }
        // The number, the name in parentheses and the state take up less.
        let mut text = [0; 64];
        let stat = self.stat.as_ref();
        let length = stat.and_then(|stat| stat.read_at(&mut text, 0).ok());
        // A dead thread's can't be read.
        stat_state(&text[..length.unwrap_or(0)]) == Some(b'D')
    }
}

/// Processes that may have been sent a signal.
pub(crate) enum Suspects {
    /// Any.
    All,
    These(Vec<i32>),
}

/// When to look for signals (`CLOCK_MONOTONIC`, ns).
pub(crate) struct SignalPoll {
    interval: u64,
    next: u64,
    /// Since they were last taken.
    suspects: Suspects,
    /// Threads that were found without a signal, by process, as long as nothing may have raised
    /// one.
    without_signal: HashMap<i32, Vec<i32>>,
    /// Shared with each [`PendingCall`].
    count: Rc<()>,
}

impl SignalPoll {
    pub(crate) fn new() -> SignalPoll {
        SignalPoll {
            interval: MAX_INTERVAL,
            next: monotonic(),
            suspects: Suspects::These(Vec::new()),
            without_signal: HashMap::new(),
            count: Rc::new(()),
        }
    }

    pub(crate) fn begin(&self, in_flight: InFlight) -> PendingCall {
        PendingCall {
            in_flight,
            has_signal: false,
            stat: None,
            _counted: self.count.clone(),
        }
    }

    /// Something may have raised a signal.
    pub(crate) fn hint(&mut self) {
        self.interval = MIN_INTERVAL;
        self.next = monotonic() + MIN_INTERVAL;
        self.suspects = Suspects::All;
        self.invalidate_all();
    }

    /// Something may have raised a signal for this process.
    pub(crate) fn hint_of(&mut self, pid: i32) {
        self.invalidate(pid);
        match std::mem::replace(&mut self.suspects, Suspects::All) {
            Suspects::All => {}
            Suspects::These(mut these) => {
                these.push(pid);
                self.suspects = Suspects::These(these);
            }
        }
        self.interval = MIN_INTERVAL;
        self.next = monotonic() + MIN_INTERVAL;
    }

    /// No signal is pending for the thread.
    pub(crate) fn mark_without_signal(&mut self, pid: i32, tid: i32) {
        self.without_signal.entry(pid).or_default().push(tid);
    }

    /// Whether it is known that no signal is pending for the thread.
    pub(crate) fn is_without_signal(&self, pid: i32, tid: i32) -> bool {
        let certain = self.without_signal.get(&pid);
        certain.is_some_and(|certain| certain.contains(&tid))
    }

    /// A signal may be pending for this process, for which no thread needs to be checked until one
    /// waits.
    pub(crate) fn invalidate(&mut self, pid: i32) {
        self.without_signal.remove(&pid);
    }

    /// The same of all.
    pub(crate) fn invalidate_all(&mut self) {
        self.without_signal.clear();
    }

    /// The processes that may have been sent a signal since this was last called.
    pub(crate) fn take_suspects(&mut self) -> Suspects {
        std::mem::replace(&mut self.suspects, Suspects::These(Vec::new()))
    }

    /// When the next look is due; `None` while no call waits.
    pub(crate) fn due(&self) -> Option<u64> {
        let waits = Rc::strong_count(&self.count) > 1;
        waits.then_some(self.next)
    }

    /// A look begun at `start` is over.
    fn checked(&mut self, start: u64, found: bool) {
        let now = monotonic();
        self.interval = match found {
            true => MIN_INTERVAL,
            false => MAX_INTERVAL.min(2 * self.interval),
        };
        self.next = now + self.interval.max(MAX_DUTY * (now - start));
    }
}

/// What is to become of a call that the kernel is done with.
enum SignalOutcome {
    /// This is the result.
    Result(i64),
    /// It was interrupted, but not for the program: once more.
    Redo,
    /// It was interrupted for an exec.
    Suspend,
}

impl Worker {
    /// Finds threads that have been sent signals, and cancels their calls.
    pub(crate) fn poll_signals(&mut self) -> Result<(), Error> {
        let start = monotonic();
        let mut found = false;
        let mut aside = Vec::new();
        for (tid, thread) in &mut self.threads {
            let Some(pending) = thread.pending.as_mut().or(thread.suspended.as_mut()) else {
                continue;
            };
            let process = &self.processes[&thread.pid];
            let listener = self.programs[process.program].listener.as_ref();
            if process.executing.is_some()
                && listener.is_some_and(|l| !l.waits(pending.in_flight.call.id))
            {
                // Begun when the exec was under way already, and ended by it.
            } else if pending.is_signalled(thread.pid) {
                pending.has_signal = true;
            } else {
                continue;
            }
            found = true;
            match thread.task {
                Some(task) if thread.pending.is_some() => {
                    // Fails if the call is done, and Event::Done on its way.
                    let _ = self.kernel.cancel(task);
                    self.kernel_dirty = true;
                }
                _ => aside.push(*tid),
            }
        }
        self.signals.checked(start, found);
        for tid in aside {
            let thread = self.threads.get_mut(&tid);
            if let Some(pending) = thread.and_then(|t| t.suspended.take()) {
                self.conclude_with(pending.in_flight, ERESTARTSYS)?;
            }
        }
        Ok(())
    }

    fn outcome_of_signal(&self, pending: &PendingCall, outcome: &Outcome) -> SignalOutcome {
        if outcome.result != EINTR
            || matches!(pending.in_flight.continuation, Continuation::Close { .. })
        {
            return SignalOutcome::Result(outcome.result);
        }
        if pending.has_signal {
            // A call with a time-out is not restarted (signal(7)).
            return SignalOutcome::Result(if outcome.restart { ERESTARTSYS } else { EINTR });
        }
        let pid = self.threads[&pending.in_flight.call.tid].pid;
        match self.processes[&pid].executing {
            Some(_) => SignalOutcome::Suspend,
            None if outcome.restart => SignalOutcome::Redo,
            None => SignalOutcome::Result(EINTR),
        }
    }

    /// The result of a call that the kernel is done with; `None` if it is not to be answered now.
    pub(crate) fn result_of(
        &mut self,
        pending: PendingCall,
        outcome: &Outcome,
    ) -> Result<Option<(InFlight, i64)>, Error> {
        match self.outcome_of_signal(&pending, outcome) {
            SignalOutcome::Result(result) => return Ok(Some((pending.in_flight, result))),
            SignalOutcome::Redo => self.redo(pending.in_flight)?,
            SignalOutcome::Suspend => {
                let thread = self.threads.get_mut(&pending.in_flight.call.tid);
                thread.expect("looked at").suspended = Some(pending);
            }
        }
        Ok(None)
    }

    fn redo(&mut self, in_flight: InFlight) -> Result<(), Error> {
        match in_flight.continuation {
            Continuation::Sendfile(_) => self.send_chunk(in_flight),
            Continuation::Splice(_) => self.continue_splice(in_flight),
            Continuation::Posted { .. } => self.answer_posted(&in_flight, EINTR),
            _ => self.dispatch(in_flight.call),
        }
    }

    /// Puts the calls of all other threads of the process aside: this one is about to execute.
    pub(crate) fn suspend_other_calls(&mut self, pid: i32, tid: i32) -> Result<(), Error> {
        for other in &self.processes[&pid].threads {
            let thread = &self.threads[other];
            if let (Some(_), Some(task), true) = (&thread.pending, thread.task, *other != tid) {
                // Fails if the call is done, and Event::Done on its way.
                let _ = self.kernel.cancel(task);
                self.kernel_dirty = true;
            }
        }
        self.run_kernel()
    }

    /// The exec failed: goes on with what was put aside.
    pub(crate) fn resume_suspended(&mut self, pid: i32) -> Result<(), Error> {
        for tid in self.processes[&pid].threads.clone() {
            let thread = self.threads.get_mut(&tid);
            if let Some(pending) = thread.and_then(|t| t.suspended.take()) {
                self.redo(pending.in_flight)?;
            }
        }
        Ok(())
    }

    /// A call comes from a number whose thread is in the middle of another: that thread is dead,
    /// and its number has passed to a thread that executed.
    pub(crate) fn replace_thread(&mut self, tid: i32) {
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
        assert_eq!(stat_state(b"12 (cat) S 1 2 3"), Some(b'S'));
        assert_eq!(stat_state(b"1234567 (a (b) D c) D 1 2 3"), Some(b'D'));
        assert_eq!(stat_state(b"12 (cat)"), None);
        assert_eq!(stat_state(b""), None);
        let stat = std::fs::read("/proc/thread-self/stat").unwrap();
        assert_eq!(stat_state(&stat[..64]), Some(b'R'));
    }
}
