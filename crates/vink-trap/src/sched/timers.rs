//! Timers of programs in virtual time (setitimer(2), alarm(2), timer_create(2)): their signals.
//! What timers there are, and when they are due, is in `vink-sched`.
//!
//! The signal's `si_code` is always `SI_TIMER`: no other process may say `SI_KERNEL`, as an alarm
//! of the host's does.

use std::io;

use vink_sched::timers::{is_pending, Due, TimerId, TimerNotify};

use super::{Scheduler, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

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

impl VirtualWorker<'_> {
    /// alarm(2), setitimer(2), getitimer(2), and those whose name begins with timer_.
    pub(crate) fn timer_call(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let pid = call.pid;
        let times = self.times_of_call();
        let mut timers = std::mem::take(&mut self.worker.clock.sched_mut().timers);
        let result = timers.call(pid, &call.notification.into(), &times, self);
        self.worker.clock.sched_mut().timers = timers;
        // What was set to now.
        self.fire_timers();
        self.answer(call, result)
    }

    /// Sends the signals of all timers that are due.
    pub(crate) fn fire_timers(&mut self) {
        let now = self.worker.kernel.now();
        while let Some(due) = self.worker.clock.sched_mut().timers.take_due(now) {
            let (TimerId::Alarm(pid) | TimerId::Cpu(pid, _) | TimerId::Made(pid, _)) = due.name;
            let notice = TimerNotify::Signal {
                signal: due.signal,
                value: due.value,
                thread: due.thread,
            };
            let pending = is_pending(due.name, notice, self);
            if !pending && send(pid, &due).is_err() {
                // The process is gone, or cannot have more signals: the next may come through.
                continue;
            }
            let sched = self.worker.clock.sched_mut();
            sched.timers.delivered(&due, pending);
            self.worker.signals.hint_of(pid);
        }
    }
}

impl Scheduler {
    /// The process has executed a program: its memory is another, and timers that were made are
    /// gone.
    pub(super) fn note_executed(&mut self, pid: i32) {
        self.timers.executed(pid);
        self.memories.remove(&pid);
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
