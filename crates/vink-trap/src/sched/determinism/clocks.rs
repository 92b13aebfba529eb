//! Clocks and sleeps: what a thread's call finds is the kernel's virtual clock.

use vink_kernel::{Call, Kernel};
use vink_sched::{pair, timespec};
use vink_sys::errno::{EFAULT, EINVAL};

use vink_syscalls::{polling, sched_class, Polling, Sched};

use crate::in_flight::Continuation;
use crate::process_table::ProcessTable;
use crate::sched::determinism::uptime::{BOOTED, SECOND, TICK};
use crate::sched::determinism::vvar::ClockPages;
use crate::sched::{BlockCondition, BlockedThread, ThreadState, VirtualWorker, ERESTARTNOHAND};
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::read_timespec;
use crate::tracee;
use crate::Error;

/// How much of a wait is left, as the call's own time-out is written.
pub(in crate::sched) fn remaining(call: SyscallCtx, left: u64) -> [u8; 16] {
    match polling(call.nr) {
        Polling::Select => pair(left / SECOND, left % SECOND / 1000),
        _ => timespec(left),
    }
}

impl ClockPages {
    /// What a clock shows to the thread, in ns; `None`: there is no such clock.
    pub(in crate::sched) fn clock(
        &self,
        (table, kernel): (&ProcessTable, &Kernel),
        call: SyscallCtx,
        clock: i32,
    ) -> Option<u64> {
        let now = kernel.now();
        match clock {
            libc::CLOCK_REALTIME
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_TAI => Some(kernel.date(now)),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_BOOTTIME_ALARM => Some(now + BOOTED),
            // Of processes and threads: by what they have called.
            libc::CLOCK_THREAD_CPUTIME_ID => Some(self.cpu_time(call.pid, &[call.tid])),
            libc::CLOCK_PROCESS_CPUTIME_ID | ..0 => {
                Some(self.cpu_time(call.pid, table.threads_of(call.pid)))
            }
            _ => None,
        }
    }

    /// The result of clock_gettime(2), clock_getres(2), gettimeofday(2), time(2).
    pub(in crate::sched) fn read_clock(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        call: SyscallCtx,
    ) -> i64 {
        let of = sched_class(call.nr);
        if of == Sched::ClockGettime {
            self.start_publishing(call.pid);
        }
        let [first, second, ..] = call.args;
        if matches!(
            first as i32,
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID
        ) {
            self.republish(call.pid);
        }
        let write = |address, bytes: &[u8]| address == 0 || tracee::write(call.tid, address, bytes);
        let date = kernel.date(kernel.now());
        match of {
            Sched::Time => {
                let secs = date / SECOND;
                match write(first, &secs.to_ne_bytes()) {
                    true => secs as i64,
                    false => EFAULT,
                }
            }
            Sched::Gettimeofday => {
                let time = pair(date / SECOND, date % SECOND / 1000);
                match write(first, &time) && write(second, &[0; 8]) {
                    true => 0,
                    false => EFAULT,
                }
            }
            _ => match self.clock((table, kernel), call, first as i32) {
                None => EINVAL,
                Some(time) => {
                    let optional = of == Sched::ClockGetres;
                    let time = if optional { 1 } else { time };
                    match (optional || second != 0) && write(second, &timespec(time)) {
                        true => 0,
                        false => EFAULT,
                    }
                }
            },
        }
    }

    /// The result of times(2), and of getrusage(2): of that only the time; all else is the host's,
    /// and differs from run to run.
    pub(in crate::sched) fn read_cpu_time(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        call: SyscallCtx,
    ) -> i64 {
        let pid = call.pid;
        self.republish(pid);
        let time = self.cpu_time(pid, table.threads_of(pid));
        if sched_class(call.nr) == Sched::Times {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(time / TICK).to_ne_bytes());
            let written = call.args[0] == 0 || tracee::write(call.tid, call.args[0], &bytes);
            let now = ((kernel.now() + BOOTED) / TICK) as i64;
            return if written { now } else { EFAULT };
        }
        let mut bytes = [0; size_of::<libc::rusage>()];
        bytes[..16].copy_from_slice(&pair(time / SECOND, time % SECOND / 1000));
        let written = tracee::write(call.tid, call.args[1], &bytes);
        if written {
            0
        } else {
            EFAULT
        }
    }

    /// Writes down how much of an interrupted sleep was left.
    pub(in crate::sched) fn write_remaining(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        blocked: &BlockedThread,
    ) {
        debug_assert_eq!(blocked.condition.on_signal, ERESTARTNOHAND);
        let deadline = blocked.condition.deadline.unwrap_or(0);
        let rest = remaining(blocked.call, deadline.saturating_sub(kernel.now()));
        // The host does not mind either if that fails.
        let parts = [(blocked.remaining_at, &rest[..])];
        let state = ThreadState::Running;
        let tid = blocked.call.tid;
        self.publish((table, kernel), tid, &parts, state);
    }
}

impl VirtualWorker<'_> {
    /// timerfd_settime(2). The kernel's own clock has not been up for as long.
    pub(in crate::sched) fn set_timer_file(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let Some(entry) = self.calls.tasks.table.fd_table(call.pid).get(call.args[0]) else {
            return self.passthrough(call);
        };
        let absolute = call.args[1] as i32 & libc::TFD_TIMER_ABSTIME != 0;
        let since_boot = matches!(
            entry.file.timer.get(),
            libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM
        );
        let mut new = [0; 32];
        if !absolute || !since_boot || !tracee::read(call.tid, call.args[2], &mut new) {
            return self.calls.run_in_kernel(call, Continuation::Answer, &entry);
        }
        let (Ok(time), Ok(task)) = (
            read_timespec(call.tid, call.args[2] + 16),
            self.calls.tasks.task_of(call.tid),
        ) else {
            return self.calls.run_in_kernel(call, Continuation::Answer, &entry);
        };
        let number = entry.number as u64;
        if call.args[3] != 0 {
            let ask = Call {
                nr: libc::SYS_timerfd_gettime,
                args: [number, call.args[3], 0, 0, 0, 0],
                space: call.tid as u64,
                ..Call::default()
            };
            let result = self.calls.tasks.kernel.run_call_of(task, &ask)?;
            if result < 0 {
                return self.calls.answer(call, result);
            }
        }
        if time != 0 {
            // At once, if that has passed; 0 would disarm it.
            new[16..].copy_from_slice(&timespec(time.saturating_sub(BOOTED).max(1)));
        }
        let at = new.as_ptr() as u64;
        let result =
            self.calls
                .tasks
                .kernel
                .run_call(task, call.nr, [number, call.args[1], at, 0, 0, 0])?;
        self.calls.answer(call, result)
    }

    /// nanosleep(2), clock_nanosleep(2).
    pub(in crate::sched) fn sleep(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (clock, absolute, request, rest) = match call.nr {
            libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, false, call.args[0], call.args[1]),
            _ => {
                let absolute = call.args[1] as i32 & libc::TIMER_ABSTIME != 0;
                (call.args[0] as i32, absolute, call.args[2], call.args[3])
            }
        };
        let time = match read_timespec(call.tid, request) {
            Ok(time) => time,
            Err(error) => return self.calls.answer(call, error),
        };
        let worker = &*self.worker;
        let place = worker.calls.tasks.place();
        let Some(shown) = worker.calls.clock.sched().clocks.clock(place, call, clock) else {
            return self.calls.answer(call, EINVAL);
        };
        let now = worker.calls.tasks.kernel.now();
        let ahead = match absolute {
            true => time.saturating_sub(shown),
            false => time,
        };
        let sched = worker.calls.clock.sched();
        let deadline = sched.deadline(now, Some(ahead)).unwrap_or(now);
        if deadline <= now {
            // A thread that does this for ever waits for others.
            self.count_poll(call.tid)?;
        }
        let condition = BlockCondition {
            deadline: Some(deadline),
            on_timeout: Some(0),
            ..BlockCondition::forever()
        };
        let rest = if absolute { 0 } else { rest };
        let sched = self.worker.calls.clock.sched_mut();
        sched.block_on(
            &mut self.worker.calls.signals,
            call,
            condition,
            Vec::new(),
            rest,
        );
        Ok(())
    }
}
