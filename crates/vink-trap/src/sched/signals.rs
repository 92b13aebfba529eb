//! Pending signals of a thread, and whether a call that waits for signals would go on. A
//! signalfd(2) reports the signals of the reader, so a copy of the descriptor says nothing to the
//! worker.

use std::fs;

use vink_sys::errno::{EAGAIN, EFAULT, EINTR};
use vink_sys::procfs::status_field;

use super::{BlockCondition, Scheduler, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::read_timespec;
use crate::tracee;
use crate::Error;

/// Sets of signals of a thread: signal N is bit N - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Sent to it or to its process, and not taken yet.
    pub(crate) pending: u64,
    pub(crate) blocked: u64,
    /// There is a handler.
    pub(crate) caught: u64,
    pub(crate) ignored: u64,
}

/// A process that neither handles nor ignores them gets them for nothing (signal(7)).
pub(super) const IGNORED_BY_DEFAULT: [i32; 4] =
    [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

impl Signals {
    /// Of a thread; of one that is gone: none.
    pub(crate) fn of(pid: i32, tid: i32) -> Signals {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        Signals::parse(&status.unwrap_or_default())
    }

    /// See proc_pid_status(5).
    pub(super) fn parse(status: &str) -> Signals {
        let set = |name| {
            let set = status_field(status, name);
            set.and_then(|set| u64::from_str_radix(set, 16).ok())
                .unwrap_or(0)
        };
        Signals {
            pending: set("SigPnd:") | set("ShdPnd:"),
            blocked: set("SigBlk:"),
            caught: set("SigCgt:"),
            ignored: set("SigIgn:"),
        }
    }
}

impl Signals {
    /// Whether one of those that have come is handled, or may be when it goes on after a stop. If
    /// not, the host begins an interrupted call anew.
    pub(crate) fn run_a_handler(&self) -> bool {
        (self.pending & !self.blocked | bit(libc::SIGCONT)) & self.caught != 0
    }

    /// Whether one of the pending signals has an effect. A traced process is sent the others, too.
    pub(crate) fn would_act(&self) -> bool {
        let by_default = IGNORED_BY_DEFAULT
            .into_iter()
            .fold(0, |set, signal| set | bit(signal));
        let nothing = self.ignored | by_default & !self.caught;
        self.pending & !self.blocked & !nothing != 0
    }
}

/// A set of one.
pub(crate) fn bit(signal: i32) -> u64 {
    match signal {
        1..=64 => 1 << (signal - 1),
        _ => 0,
    }
}

/// The signals that a signalfd(2) of the process reports; `None`: the descriptor is none.
pub(crate) fn signalfd_mask(pid: i32, fd: i32) -> Option<u64> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let set = info
        .lines()
        .find_map(|line| line.strip_prefix("sigmask:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// The members of an epoll instance of the process: descriptor, events that are waited for, and
/// data.
pub(super) fn members(pid: i32, fd: i32) -> Vec<(i32, u32, u64)> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let member = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            ["tfd:", fd, "events:", events, "data:", data, ..] => Some((
                fd.parse().ok()?,
                u32::from_str_radix(events, 16).ok()?,
                u64::from_str_radix(data, 16).ok()?,
            )),
            _ => None,
        }
    };
    info.lines().filter_map(member).collect()
}

impl Scheduler {
    /// The signals that one of the calling thread's descriptors reports, if it is a signalfd(2),
    /// and whether any is pending.
    pub(super) fn signalfd_state(&self, call: SyscallCtx, fd: i32) -> Option<(u64, bool)> {
        if !self.any_signalfd {
            return None;
        }
        let set = signalfd_mask(call.pid, fd)?;
        Some((set, Signals::of(call.pid, call.tid).pending & set != 0))
    }

    /// The same for all that are in an epoll instance; with the events that it has.
    pub(super) fn signalfd_states_in(&self, call: SyscallCtx, fd: i32) -> (u64, Vec<(u32, u64)>) {
        let (mut all, mut events) = (0, Vec::new());
        if !self.any_signalfd {
            return (all, events);
        }
        for (fd, wanted, data) in members(call.pid, fd) {
            if let Some((set, has_any)) = self.signalfd_state(call, fd) {
                all |= set;
                let found = wanted & libc::EPOLLIN as u32;
                if has_any && found != 0 {
                    events.push((found, data));
                }
            }
        }
        (all, events)
    }
}

impl VirtualWorker<'_> {
    /// rt_sigtimedwait(2): the host takes the signal when it is there.
    pub(crate) fn wait_for_signals(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let [set, _, timeout, size, ..] = call.args;
        if size != 8 {
            return self.passthrough(call); // to be refused
        }
        let Some(wanted) = tracee::read_u64(call.tid, set) else {
            return self.calls.answer(call, EFAULT);
        };
        let lasting = match timeout {
            0 => None,
            address => match read_timespec(call.tid, address) {
                Ok(time) => Some(time),
                Err(errno) => return self.calls.answer(call, errno),
            },
        };
        let pid = call.pid;
        if Signals::of(pid, call.tid).pending & wanted != 0 {
            return self.passthrough(call);
        }
        let now = self.worker.calls.tasks.kernel.now();
        let deadline = self.worker.calls.clock.sched().deadline(now, lasting);
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.count_poll(call.tid)?;
            return self.calls.answer(call, EAGAIN);
        }
        let condition = BlockCondition {
            deadline,
            on_timeout: Some(EAGAIN),
            on_signal: EINTR,
            awaited_signals: wanted,
            ..BlockCondition::forever()
        };
        let sched = self.worker.calls.clock.sched_mut();
        sched.block(&mut self.worker.calls.signals, call, condition);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    use vink_sys::epoll;
    use vink_sys::process::{gettid, tgkill};
    use vink_sys::signals::{file, mask, Mask, SignalSet};

    #[test]
    fn sets() {
        let status = "Name:\tx\nSigPnd:\t0000000000000001\nShdPnd:\t0000000200000200\n\
                      SigBlk:\t0000000000000201\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n";
        let signals = Signals::parse(status);
        assert_eq!(signals.pending, 0x2_0000_0201);
        assert_eq!((signals.blocked, signals.caught), (0x201, 2));
        assert!(!signals.run_a_handler() && signals.would_act());
        let child = Signals {
            pending: bit(libc::SIGCHLD),
            ..signals
        };
        assert!(!child.would_act());
        let caught = Signals {
            caught: bit(34),
            ..signals
        };
        assert!(caught.run_a_handler());
        assert_eq!((bit(1), bit(64), bit(0), bit(65)), (1, 1 << 63, 0, 0));
        assert_eq!(Signals::of(0, 0), Signals::default());
    }

    #[test]
    fn of_this_thread_and_a_signalfd() {
        let me = std::process::id() as i32;
        let set = bit(libc::SIGUSR1) | bit(libc::SIGRTMIN());
        let own = SignalSet::of([libc::SIGUSR1, libc::SIGRTMIN()]);
        mask(Mask::Block, own);
        let signals = file(own).unwrap();
        let set_of = epoll::create().unwrap();
        let (tid, fd, ep) = (gettid(), signals.as_raw_fd(), set_of.as_raw_fd());
        epoll::add(&set_of, fd, libc::EPOLLIN as u32, 0x1_0000_0002).unwrap();
        assert_eq!(signalfd_mask(me, fd), Some(set));
        assert_eq!(signalfd_mask(me, ep), None);
        let member = members(me, ep).pop().unwrap();
        // The kernel adds EPOLLERR and EPOLLHUP.
        assert_eq!((member.0, member.1 & 1, member.2), (fd, 1, 0x1_0000_0002));
        let signals = Signals::of(me, tid);
        assert_eq!((signals.blocked & set, signals.pending & set), (set, 0));
        tgkill(me, tid, libc::SIGUSR1).unwrap();
        let signals = Signals::of(me, tid);
        assert_eq!(signals.pending & set, bit(libc::SIGUSR1));
    }
}
