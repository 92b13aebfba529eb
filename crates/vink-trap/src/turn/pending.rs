//! Which signals wait for a thread: what tells whether a call that waits for signals would go on.

use std::fs;

use super::clocks::read_timespec;
use super::Until;
use crate::notify::Notification;
use crate::target;
use crate::worker::Worker;
use crate::Error;

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EINTR: i64 = -(libc::EINTR as i64);

/// Sets of signals of a thread: signal N is bit N - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Sent to it or to its process, and not taken by anybody yet.
    pub(crate) pending: u64,
    pub(crate) blocked: u64,
}

impl Signals {
    /// Of a thread; of one that is gone: none.
    pub(crate) fn of(pid: i32, tid: i32) -> Signals {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        Signals::parse(&status.unwrap_or_default())
    }

    /// See proc_pid_status(5).
    fn parse(status: &str) -> Signals {
        let set = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
                .unwrap_or(0)
        };
        Signals {
            pending: set("SigPnd:") | set("ShdPnd:"),
            blocked: set("SigBlk:"),
        }
    }
}

/// A set of one.
pub(crate) fn bit(signal: i32) -> u64 {
    match signal {
        1..=64 => 1 << (signal - 1),
        _ => 0,
    }
}

impl Worker {
    /// rt_sigtimedwait(2): the host takes the signal when it is there.
    pub(crate) fn wait_for_signals(&mut self, call: Notification) -> Result<(), Error> {
        let [set, _, timeout, size, ..] = call.args;
        if size != 8 {
            return self.pass(call); // to be refused
        }
        let Some(wanted) = target::read_u64(call.tid, set) else {
            return self.answer(call, EFAULT);
        };
        let lasting = match timeout {
            0 => None,
            address => match read_timespec(call.tid, address) {
                Ok(time) => Some(time),
                Err(errno) => return self.answer(call, errno),
            },
        };
        let pid = self.threads[&call.tid].pid;
        if Signals::of(pid, call.tid).pending & wanted != 0 {
            return self.pass(call);
        }
        let deadline = self.deadline(lasting);
        if deadline.is_some_and(|deadline| deadline <= self.kernel.now()) {
            self.note_look(call.tid)?;
            return self.answer(call, EAGAIN);
        }
        let until = Until {
            deadline,
            late: Some(EAGAIN),
            interrupted: EINTR,
            wanted,
            ..Until::forever()
        };
        self.park(call, until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let status = "Name:\tx\nSigPnd:\t0000000000000001\nShdPnd:\t0000000200000200\n\
                      SigBlk:\t0000000000000201\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n";
        let signals = Signals::parse(status);
        assert_eq!(signals.pending, 0x2_0000_0201);
        assert_eq!(signals.blocked, 0x201);
        assert_eq!((bit(1), bit(64), bit(0), bit(65)), (1, 1 << 63, 0, 0));
        assert_eq!(Signals::of(0, 0), Signals::default());
    }

    #[test]
    fn of_this_thread() {
        let me = std::process::id() as i32;
        let set = bit(libc::SIGUSR1) | bit(libc::SIGRTMIN());
        // SAFETY: reads the set; then numbers only.
        let tid = unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut mask, libc::SIGUSR1);
            libc::sigaddset(&mut mask, libc::SIGRTMIN());
            libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
            libc::gettid()
        };
        let signals = Signals::of(me, tid);
        assert_eq!((signals.blocked & set, signals.pending & set), (set, 0));
        // SAFETY: takes numbers.
        unsafe { libc::syscall(libc::SYS_tgkill, me, tid, libc::SIGUSR1) };
        let signals = Signals::of(me, tid);
        assert_eq!(signals.pending & set, bit(libc::SIGUSR1));
    }
}
