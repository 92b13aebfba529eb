//! Signals at calls that wait in the kernel: how the worker learns of one, and what it does then.
//!
//! The filter is installed with `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`: once the worker has
//! received a call, a signal wakes its thread only to let it wait on, for nothing but the answer or
//! death. So no answer is lost, and a call that ends at once needs no more: the handler runs behind
//! it, as on the host.
//!
//! A call that waits must end. The thread's state shows it: it sleeps as `S` until a signal comes
//! and as `D` from then on, with the signal pending for this very thread. So the worker polls the
//! states, but only while calls wait: each 8 ms, sooner after something of its own
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

use vink_kernel::{monotonic, Outcome};
use vink_sched::block::ERESTARTSYS;
use vink_sys::errno::EINTR;

use crate::in_flight::{Continuation, InFlight};
use crate::process_table::ProcessTable;
use crate::signal_poll::PendingCall;
use crate::splice::Place;
use crate::supervisor::Supervisor;
use crate::tasks::Tasks;
use crate::Error;

/// What is to become of a call that the kernel is done with.
enum SignalOutcome {
    /// This is the result.
    Result(i64),
    /// It was interrupted, but not for the program: once more.
    Redo,
    /// It was interrupted for an exec.
    Suspend,
}

impl ProcessTable {
    /// What is to become of a call whose thread may have been sent a signal.
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
        let pid = self.pid_of(pending.in_flight.call.tid);
        match self.process(pid).executing {
            Some(_) => SignalOutcome::Suspend,
            None if outcome.restart => SignalOutcome::Redo,
            None => SignalOutcome::Result(EINTR),
        }
    }
}

impl Tasks {
    /// Cancels the calls of all other threads of the process, to be put aside: this one is about to
    /// execute.
    pub(crate) fn cancel_other_calls(&mut self, pid: i32, tid: i32) {
        for other in &self.table.process(pid).threads {
            let is_pending = *other != tid && self.table.pending(*other).is_some();
            if let Some(task) = self.table.task(*other).filter(|_| is_pending) {
                self.kernel.cancel_call(task);
            }
        }
    }
}

impl Supervisor {
    /// Finds threads that have been sent signals, and cancels their calls.
    pub(crate) fn poll_signals(&mut self) -> Result<(), Error> {
        let start = monotonic();
        let mut found = false;
        let mut aside = Vec::new();
        for (tid, thread, process) in self.calls.tasks.table.threads_mut() {
            let Some(pending) = thread.pending.as_mut().or(thread.suspended.as_mut()) else {
                continue;
            };
            let listener = self.calls.tasks.programs[process.program].listener.as_ref();
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
                    self.calls.tasks.kernel.cancel_call(task);
                }
                _ => aside.push(tid),
            }
        }
        self.calls.signals.checked(start, found);
        for tid in aside {
            if let Some(pending) = self.calls.tasks.table.take_suspended(tid) {
                self.conclude_with(pending.in_flight, ERESTARTSYS)?;
            }
        }
        Ok(())
    }

    /// The result of a call that the kernel is done with; `None` if it is not to be answered now.
    pub(crate) fn result_of(
        &mut self,
        pending: PendingCall,
        outcome: &Outcome,
    ) -> Result<Option<(InFlight, i64)>, Error> {
        match self.calls.tasks.table.outcome_of_signal(&pending, outcome) {
            SignalOutcome::Result(result) => return Ok(Some((pending.in_flight, result))),
            SignalOutcome::Redo => self.redo(pending.in_flight)?,
            SignalOutcome::Suspend => {
                self.calls.tasks.table.suspend(pending);
            }
        }
        Ok(None)
    }

    fn redo(&mut self, in_flight: InFlight) -> Result<(), Error> {
        let call = in_flight.call;
        let place = &mut Place {
            tasks: &mut self.calls.tasks,
            signals: &mut self.calls.signals,
            reactor: &self.calls.reactor,
        };
        let decision = match in_flight.continuation {
            Continuation::Sendfile(_) => self.calls.transfers.send_chunk(place, in_flight)?,
            Continuation::Splice(_) => self.calls.transfers.continue_splice(place, in_flight)?,
            Continuation::Posted { .. } => return self.answer_posted(&in_flight, EINTR),
            _ => return self.dispatch(call),
        };
        self.carry_out(call, decision)
    }

    /// The exec failed: goes on with what was put aside.
    pub(crate) fn resume_suspended(&mut self, pid: i32) -> Result<(), Error> {
        for tid in self.calls.tasks.table.process(pid).threads.clone() {
            if let Some(pending) = self.calls.tasks.table.take_suspended(tid) {
                self.redo(pending.in_flight)?;
            }
        }
        Ok(())
    }
}
