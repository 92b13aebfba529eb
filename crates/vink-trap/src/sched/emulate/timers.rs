//! Timers of programs in virtual time (setitimer(2), alarm(2), timer_create(2)): their signals.
//! What timers there are, and when they are due, is in `vink-sched`.
//!
//! The signal's `si_code` is always `SI_TIMER`: no other process may say `SI_KERNEL`, as an alarm
//! of the host's does.

use std::io;

use vink_kernel::Kernel;
use vink_sched::timers::{is_pending, Due, TimerId, TimerNotify};

use crate::process_table::ProcessTable;
use crate::sched::tracees::Threads;
use crate::sched::Scheduler;
use crate::signal_poll::SignalPoll;
use crate::syscall_ctx::SyscallCtx;

/// `siginfo_t` of a timer's signal.
fn siginfo(due: &Due) -> [u8; 128] {
    let mut info = [0; 128];
    let number = match due.name {
        TimerId::Made(_, number) => number,
        TimerId::Alarm(_) | TimerId::Cpu(..) => 0,
    };
    info[..4].copy_from_slice(&due.signal.to_ne_bytes());
    info[8..12].copy_from_slice(&libc::SI_TIMER.to_ne_bytes());
    info[16..20].copy_from_slice(&number.to_ne_bytes());
    let overrun = i32::try_from(due.times - 1).unwrap_or(i32::MAX);
    info[20..24].copy_from_slice(&overrun.to_ne_bytes());
    info[24..32].copy_from_slice(&due.value.to_ne_bytes());
    info
}

/// Sends a signal of a timer of this process.
fn send(pid: i32, due: &Due) -> io::Result<()> {
    let info = siginfo(due);
    // SAFETY: the structure is as large as the kernel reads it; the rest are numbers.
    let sent = unsafe {
        match due.thread {
            Some(tid) => libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                pid,
                tid,
                due.signal,
                info.as_ptr(),
            ),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, pid, due.signal, info.as_ptr()),
        }
    };
    match sent {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Scheduler {
    /// The result of alarm(2), setitimer(2), getitimer(2), and of those whose name begins with
    /// timer_.
    pub(in crate::sched) fn timer_call(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        signals: &mut SignalPoll,
        call: SyscallCtx,
    ) -> i64 {
        let times = self.times_of_call(kernel);
        let mut threads = Threads {
            table,
            blocked: &self.blocked,
            memories: &mut self.memories,
        };
        let result = self
            .timers
            .call(call.pid, &call.notification.into(), &times, &mut threads);
        // What was set to now.
        self.fire_timers((table, signals), kernel.now());
        result
    }

    /// Sends the signals of all timers that are due.
    pub(in crate::sched) fn fire_timers(
        &mut self,
        (table, signals): (&ProcessTable, &mut SignalPoll),
        now: u64,
    ) {
        while let Some(due) = self.timers.take_due(now) {
            let (TimerId::Alarm(pid) | TimerId::Cpu(pid, _) | TimerId::Made(pid, _)) = due.name;
            let notice = TimerNotify::Signal {
                signal: due.signal,
                value: due.value,
                thread: due.thread,
            };
            let threads = Threads {
                table,
                blocked: &self.blocked,
                memories: &mut self.memories,
            };
            let pending = is_pending(due.name, notice, &threads);
            if !pending && send(pid, &due).is_err() {
                // The process is gone, or cannot have more signals: the next may come through.
                continue;
            }
            self.timers.delivered(&due, pending);
            signals.hint_of(pid);
        }
    }

    /// The process has executed a program: its memory is another, and timers that were made are
    /// gone.
    pub(in crate::sched) fn note_executed(&mut self, pid: i32) {
        self.timers.executed(pid);
        self.memories.forget(pid);
        self.runaways.forget_process(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::plain::FromBytes;

    const RTMIN: i32 = 34;

    #[test]
    fn a_signal_says_which_timer() {
        let due = Due {
            name: TimerId::Made(1, 7),
            signal: RTMIN,
            value: 0x1234,
            thread: None,
            times: 3,
        };
        let info = siginfo(&due);
        let info = libc::siginfo_t::from_bytes(&info).unwrap();
        assert_eq!((info.si_signo, info.si_code), (RTMIN, libc::SI_TIMER));
        // SAFETY: it is a timer's.
        let (value, number, overrun) =
            unsafe { (info.si_value(), info.si_timerid(), info.si_overrun()) };
        assert_eq!((value.sival_ptr as u64, number, overrun), (0x1234, 7, 2));
    }
}
