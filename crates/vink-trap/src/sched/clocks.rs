//! Clocks and sleeps: what a thread's call finds is the kernel's virtual clock.

use vink_kernel::Call;
use vink_sched::{pair, timespec};
use vink_sys::errno::{EFAULT, EINVAL, EPERM};

use vink_syscalls::{polling, sched_class, Polling, Sched};

use super::{BlockCondition, BlockedThread, Scheduler, ThreadState, VirtualWorker, ERESTARTNOHAND};
use crate::in_flight::Continuation;
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::read_timespec;
use crate::tracee;
use crate::Error;

const SECOND: u64 = 1_000_000_000;
/// What each trapped call is taken to cost of CPU time: a program that divides by it finds no zero.
pub(super) const CPU_PER_CALL: u64 = 1_000;
/// For how long the machines have been up when the kernel's clock is at 0: programs take a clock
/// that shows 0 for broken (Go), or for one that was not read yet (ping).
pub(crate) const BOOTED: u64 = 60 * SECOND;
/// Of times(2): one tick (`USER_HZ`).
const TICK: u64 = 10_000_000;

/// For how long times(2) tells the same from now on.
pub(super) fn until_tick(now: u64) -> u64 {
    TICK - (now + BOOTED) % TICK
}

/// What `/proc/uptime` or `/proc/stat` say, of machines that have been up for as long as their
/// clocks say.
pub(crate) fn since_boot(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let seconds = (BOOTED / SECOND) as i64;
    let moved = |number: &str, by: i64| {
        let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
        let whole: Option<i64> = whole.parse().ok();
        whole.map_or(number.to_owned(), |whole| format!("{}{rest}", whole + by))
    };
    let line = |line: &str| match line.split_once(' ') {
        Some(("btime", date)) => format!("btime {}\n", moved(date, -seconds)),
        Some((up, idle)) if up.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{} {}\n", moved(up, seconds), moved(idle, seconds))
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect::<String>().into_bytes()
}

/// How much of a wait is left, as the call's own time-out is written.
pub(super) fn remaining(call: SyscallCtx, left: u64) -> [u8; 16] {
    match polling(call.nr) {
        Polling::Select => pair(left / SECOND, left % SECOND / 1000),
        _ => timespec(left),
    }
}

impl VirtualWorker<'_> {
    /// What a clock shows to the thread, in ns; `None`: there is no such clock.
    pub(crate) fn clock(&self, tid: i32, clock: i32) -> Option<u64> {
        let now = self.worker.kernel.now();
        match clock {
            libc::CLOCK_REALTIME
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_TAI => Some(self.worker.kernel.date(now)),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_BOOTTIME_ALARM => Some(now + BOOTED),
            // Of processes and threads: by what they have called.
            libc::CLOCK_THREAD_CPUTIME_ID => Some(
                self.worker.clock.sched().cpu_time_of(&[tid])
                    + self
                        .worker
                        .clock
                        .sched()
                        .vvar_cpu_time(self.worker.table.pid_of(tid)),
            ),
            libc::CLOCK_PROCESS_CPUTIME_ID | ..0 => Some(self.cpu_time_of_process(tid)),
            _ => None,
        }
    }

    fn cpu_time_of_process(&self, tid: i32) -> u64 {
        let pid = self.worker.table.pid_of(tid);
        self.worker
            .clock
            .sched()
            .cpu_time_of(self.worker.table.threads_of(pid))
            + self.worker.clock.sched().vvar_cpu_time(pid)
    }

    /// clock_gettime(2), clock_getres(2), gettimeofday(2), time(2).
    pub(super) fn read_clock(&mut self, call: SyscallCtx) -> Result<(), Error> {
        self.count_poll(call.tid)?;
        let of = sched_class(call.nr);
        if of == Sched::ClockGettime {
            self.worker
                .clock
                .sched_mut()
                .start_publishing_time(call.pid);
        }
        let [first, second, ..] = call.args;
        if matches!(
            first as i32,
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID
        ) {
            self.republish_time(call.tid);
        }
        let write = |address, bytes: &[u8]| address == 0 || tracee::write(call.tid, address, bytes);
        let date = self.worker.kernel.date(self.worker.kernel.now());
        let result = match of {
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
            _ => match self.clock(call.tid, first as i32) {
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
        };
        self.answer(call, result)
    }

    /// clock_settime(2), settimeofday(2), adjtimex(2): no program may set this clock.
    pub(super) fn refuse_clock_set(&mut self, call: SyscallCtx) -> Result<(), Error> {
        self.answer(call, EPERM)
    }

    /// times(2).
    pub(super) fn times(&mut self, call: SyscallCtx) -> Result<(), Error> {
        self.republish_time(call.tid);
        let ticks = self.cpu_time_of_process(call.tid) / TICK;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&ticks.to_ne_bytes());
        let written = call.args[0] == 0 || tracee::write(call.tid, call.args[0], &bytes);
        let now = ((self.worker.kernel.now() + BOOTED) / TICK) as i64;
        self.answer(call, if written { now } else { EFAULT })
    }

    /// getrusage(2): of the time only; all else is the host's, and differs from run to run.
    pub(super) fn usage(&mut self, call: SyscallCtx) -> Result<(), Error> {
        self.republish_time(call.tid);
        let time = self.cpu_time_of_process(call.tid);
        let mut bytes = [0; size_of::<libc::rusage>()];
        bytes[..16].copy_from_slice(&pair(time / SECOND, time % SECOND / 1000));
        let written = tracee::write(call.tid, call.args[1], &bytes);
        self.answer(call, if written { 0 } else { EFAULT })
    }

    /// timerfd_settime(2). The kernel's own clock has not been up for as long.
    pub(super) fn set_timer_file(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let Some(entry) = self.table.fd_table(call.pid).get(call.args[0]) else {
            return self.passthrough(call);
        };
        let absolute = call.args[1] as i32 & libc::TFD_TIMER_ABSTIME != 0;
        let since_boot = matches!(
            entry.file.timer.get(),
            libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM
        );
        let mut new = [0; 32];
        if !absolute || !since_boot || !tracee::read(call.tid, call.args[2], &mut new) {
            return self.run_in_kernel(call, Continuation::Answer, &entry);
        }
        let (Ok(time), Ok(task)) = (
            read_timespec(call.tid, call.args[2] + 16),
            self.task_of(call.tid),
        ) else {
            return self.run_in_kernel(call, Continuation::Answer, &entry);
        };
        let number = entry.number as u64;
        if call.args[3] != 0 {
            let ask = Call {
                nr: libc::SYS_timerfd_gettime,
                args: [number, call.args[3], 0, 0, 0, 0],
                space: call.tid as u64,
                ..Call::default()
            };
            let result = self.complete_kernel_call(task, &ask)?;
            if result < 0 {
                return self.answer(call, result);
            }
        }
        if time != 0 {
            // At once, if that has passed; 0 would disarm it.
            new[16..].copy_from_slice(&timespec(time.saturating_sub(BOOTED).max(1)));
        }
        let at = new.as_ptr() as u64;
        let result = self.kernel_call(task, call.nr, [number, call.args[1], at, 0, 0, 0])?;
        self.answer(call, result)
    }

    /// nanosleep(2), clock_nanosleep(2).
    pub(super) fn sleep(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (clock, absolute, request, rest) = match call.nr {
            libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, false, call.args[0], call.args[1]),
            _ => {
                let absolute = call.args[1] as i32 & libc::TIMER_ABSTIME != 0;
                (call.args[0] as i32, absolute, call.args[2], call.args[3])
            }
        };
        let time = match read_timespec(call.tid, request) {
            Ok(time) => time,
            Err(error) => return self.answer(call, error),
        };
        let Some(shown) = self.clock(call.tid, clock) else {
            return self.answer(call, EINVAL);
        };
        let now = self.worker.kernel.now();
        let ahead = match absolute {
            true => time.saturating_sub(shown),
            false => time,
        };
        let deadline = self.deadline(Some(ahead)).unwrap_or(now);
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
        self.block_on(call, condition, Vec::new(), rest);
        Ok(())
    }

    /// Writes down how much of an interrupted sleep was left.
    pub(super) fn write_remaining(&mut self, blocked: &BlockedThread) {
        debug_assert_eq!(blocked.condition.on_signal, ERESTARTNOHAND);
        let deadline = blocked.condition.deadline.unwrap_or(0);
        let rest = deadline.saturating_sub(self.worker.kernel.now());
        let rest = remaining(blocked.call, rest);
        // The host does not mind either if that fails.
        let tid = blocked.call.tid;
        self.write_and_publish_time(tid, &[(blocked.remaining_at, &rest)], ThreadState::Running);
    }
}

impl Scheduler {
    /// The CPU time of these threads, computed from their calls.
    pub(super) fn cpu_time_of(&self, tids: &[i32]) -> u64 {
        let calls = tids.iter().filter_map(|tid| self.calls.get(tid));
        calls.sum::<u64>() * CPU_PER_CALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_tell_of_boot() {
        let told = |text: &str| String::from_utf8(since_boot(text.as_bytes())).unwrap();
        assert_eq!(told("2.04 1.90\n"), "62.04 61.90\n");
        let stat = |date| format!("cpu  1 2 3\nctxt 5\nbtime {date}\nprocesses 7\n");
        assert_eq!(told(&stat(1_000)), stat(940));
    }
}
