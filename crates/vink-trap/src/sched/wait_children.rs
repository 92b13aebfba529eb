//! Waiting for children in virtual time: whether a wait4(2) or waitid(2) would have to wait. If
//! not, the host does it and has all the rest: statuses, usage, which process reaps which. Nothing
//! is guessed: `/proc` says of each child what the host's call would see.

use std::collections::HashSet;
use std::fs;

use vink_sys::procfs::StatFields;

use super::{thread_states, BlockCondition, VirtualWorker};
use crate::interrupt::ERESTARTSYS;
use crate::notify::Notification;
use crate::tracee;
use crate::Error;

/// `__WNOTHREAD`, `__WCLONE` and `__WALL` of `<linux/wait.h>`.
const WNOTHREAD: i32 = 0x2000_0000;
const WCLONE: i32 = i32::MIN;
const WALL: i32 = 0x4000_0000;

/// The process or group whose end, or stop, is waited for. Numbers are those that the program
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    Any,
    Process(i32),
    Group(i32),
    /// By a number that the worker knows.
    Known(i32),
}

/// A call that may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitSpec {
    pub(crate) target: WaitTarget,
    /// `WEXITED`, `WSTOPPED`, `WCONTINUED` and how to choose.
    pub(crate) options: i32,
}

/// Waiting parents, and the processes whose children may have changed state.
#[derive(Default)]
pub(crate) struct Parents {
    /// Calls by thread and name, in the order in which they came.
    waiting: Vec<(i32, u64, WaitSpec)>,
    /// Processes whose children are to be checked.
    news: HashSet<i32>,
    /// The same for all processes.
    news_for_all: bool,
    /// Processes that a signal has stopped.
    stopped: HashSet<i32>,
    /// ... that were continued, which no call has reported yet.
    continued: HashSet<i32>,
    /// Processes that a signal has stopped while we trace them, for the counter: their parents
    /// don't know.
    unreported: HashSet<i32>,
    /// Processes that trace others, and wait for much else.
    tracers: HashSet<i32>,
}

/// What a call would do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitOutcome {
    Waits,
    /// It tells something, or that there is no such child.
    Ends,
    /// It tells that this child goes on again, or, if we trace it, has stopped.
    Tells(i32),
}

/// What is known of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Child {
    pid: i32,
    state: u8,
    /// The signal that its end sends to its parent.
    exit_signal: i32,
    /// Of a stopped one 0 if that has been reported.
    code: i32,
    /// It is a zombie with no other thread left.
    over: bool,
    /// It was continued after a stop, which has not been reported.
    continued: bool,
    /// It has stopped, which the host reports to its tracer only.
    unreported: bool,
}

/// What a child means for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildState {
    /// The call ends with this one.
    Ends,
    /// It may, later.
    Waits,
    /// Nothing.
    None,
}

impl Parents {
    /// A process has been stopped, or traces another one.
    pub(super) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty() || !self.tracers.is_empty()
    }
}

impl WaitSpec {
    /// What a wait4(2) waits for, by a thread of a process in this group. `None`: it does not wait.
    pub(crate) fn of_wait4(pid: i32, options: i32, own_group: i32) -> Option<WaitSpec> {
        let target = match pid {
            -1 => WaitTarget::Any,
            0 => WaitTarget::Group(own_group),
            ..-1 => WaitTarget::Group(pid.checked_neg()?),
            _ => WaitTarget::Process(pid),
        };
        let known = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | WNOTHREAD | WCLONE | WALL;
        let options = match options & !known {
            0 => options | libc::WEXITED,
            _ => return None,
        };
        WaitSpec::waiting(target, options)
    }

    /// The same for waitid(2). `known` is the process of a descriptor.
    pub(crate) fn of_waitid(
        (kind, id): (u32, i32),
        options: i32,
        own_group: i32,
        known: impl Fn(i32) -> Option<i32>,
    ) -> Option<WaitSpec> {
        let target = match kind {
            libc::P_ALL => WaitTarget::Any,
            libc::P_PID if id > 0 => WaitTarget::Process(id),
            libc::P_PGID if id > 0 => WaitTarget::Group(id),
            libc::P_PGID if id == 0 => WaitTarget::Group(own_group),
            libc::P_PIDFD => WaitTarget::Known(known(id)?),
            _ => return None,
        };
        let events = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        let known = events | libc::WNOHANG | libc::WNOWAIT | WNOTHREAD | WCLONE | WALL;
        match options & events != 0 && options & !known == 0 {
            true => WaitSpec::waiting(target, options),
            false => None, // to be refused
        }
    }

    fn waiting(target: WaitTarget, options: i32) -> Option<WaitSpec> {
        (options & libc::WNOHANG == 0).then_some(WaitSpec { target, options })
    }

    /// What the call of this thread would do now, with what is known of children.
    fn outcome(&self, pid: i32, tid: i32, known: &Parents) -> WaitOutcome {
        let threads = match self.options & WNOTHREAD {
            0 => tracee::threads(pid),
            _ => vec![tid],
        };
        let mut outlook = WaitOutcome::Ends;
        for number in threads.iter().flat_map(|tid| tracee::children(pid, *tid)) {
            if !self.concerns(number) {
                continue;
            }
            let Some(child) = Child::inspect(number, known) else {
                continue;
            };
            match child.means(self.options) {
                ChildState::Ends if child.continued && !matches!(child.state, b'Z' | b'T') => {
                    return WaitOutcome::Tells(number);
                }
                ChildState::Ends if child.unreported => return WaitOutcome::Tells(number),
                ChildState::Ends => return WaitOutcome::Ends,
                ChildState::Waits => outlook = WaitOutcome::Waits,
                ChildState::None => {}
            }
        }
        outlook
    }

    fn concerns(&self, child: i32) -> bool {
        match self.target {
            WaitTarget::Any => true,
            WaitTarget::Known(known) => known == child,
            WaitTarget::Process(pid) => tracee::ns_pid_of_kind(child, "NStgid:") == Some(pid),
            WaitTarget::Group(group) => tracee::ns_pid_of_kind(child, "NSpgid:") == Some(group),
        }
    }
}

impl Child {
    fn inspect(pid: i32, known: &Parents) -> Option<Child> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut child = Child::parse(pid, &stat)?;
        child.over = child.state == b'Z' && tracee::threads(pid) == [pid];
        child.continued = known.continued.contains(&pid);
        child.unreported = child.state == b't' && known.unreported.contains(&pid);
        Some(child)
    }

    /// From a stat file.
    fn parse(pid: i32, stat: &str) -> Option<Child> {
        let fields = StatFields::parse(stat)?;
        Some(Child {
            pid,
            state: fields.state()?,
            exit_signal: fields.get(38)?,
            code: fields.get(52)?,
            over: false,
            continued: false,
            unreported: false,
        })
    }

    /// As `wait_consider_task()` of the kernel's kernel/exit.c.
    fn means(&self, options: i32) -> ChildState {
        let cloned = self.exit_signal != libc::SIGCHLD;
        if options & WALL == 0 && cloned != (options & WCLONE != 0) {
            return ChildState::None;
        }
        let asks = |option| options & option != 0;
        let ends = match self.state {
            b'X' => return ChildState::None,
            b'Z' if self.over && !asks(libc::WEXITED) => return ChildState::None,
            b'Z' => self.over,
            b'T' | b't' => asks(libc::WSTOPPED) && (self.code != 0 || self.unreported),
            _ => asks(libc::WCONTINUED) && self.continued,
        };
        match ends {
            true => ChildState::Ends,
            false => ChildState::Waits,
        }
    }
}

impl VirtualWorker<'_> {
    /// wait4(2) and waitid(2).
    pub(crate) fn wait_for_child(&mut self, call: Notification) -> Result<(), Error> {
        let pid = self.worker.threads[&call.tid].pid;
        if self.parents().tracers.contains(&pid) {
            return self.passthrough_that_may_block(call);
        }
        let [first, second, third, fourth, ..] = call.args;
        let group = tracee::ns_pid_of_kind(pid, "NSpgid:").unwrap_or(0);
        let wanted = match call.nr {
            libc::SYS_wait4 => WaitSpec::of_wait4(first as i32, third as i32, group),
            _ => {
                let target = (first as u32, second as i32);
                let known = |fd| tracee::process_of_pidfd(pid, fd);
                WaitSpec::of_waitid(target, fourth as i32, group, known)
            }
        };
        let Some(wanted) = wanted else {
            return self.passthrough(call);
        };
        match wanted.outcome(pid, call.tid, self.parents()) {
            WaitOutcome::Waits => {
                self.parents().waiting.push((call.tid, call.id, wanted));
                let condition = BlockCondition {
                    on_signal: ERESTARTSYS,
                    ..BlockCondition::forever()
                };
                self.block(call, condition);
                Ok(())
            }
            WaitOutcome::Tells(child) if wanted.options & libc::WNOWAIT == 0 => {
                self.parents().continued.remove(&child);
                self.parents().unreported.remove(&child);
                self.passthrough(call)
            }
            WaitOutcome::Ends | WaitOutcome::Tells(_) => self.passthrough(call),
        }
    }

    /// Wakes parents that wait for a child that has changed state.
    pub(crate) fn wake_waiting_parents(&mut self) {
        let parents = self.parents();
        if parents.news.is_empty() && !parents.news_for_all {
            return;
        }
        let mut parents = std::mem::take(parents);
        let mut waiting = std::mem::take(&mut parents.waiting);
        waiting.retain(|(tid, id, wanted)| {
            if !self.is_blocked(*tid, *id) {
                return false;
            }
            let pid = self.worker.threads[tid].pid;
            if !parents.news_for_all && !parents.news.contains(&pid)
                || wanted.outcome(pid, *tid, &parents) == WaitOutcome::Waits
            {
                return true;
            }
            self.wake(*tid, *id, None);
            false
        });
        parents.waiting = waiting;
        parents.news.clear();
        parents.news_for_all = false;
        *self.parents() = parents;
    }

    /// There is something to tell to the parent of this process, which may be gone altogether.
    fn has_news(&mut self, pid: i32) {
        let parent = tracee::tgid_and_ppid(pid).map(|(_, parent)| parent);
        let parents = self.parents();
        match parent {
            Some(parent) => drop(parents.news.insert(parent)),
            None => parents.news_for_all = true,
        }
    }

    /// The process has ended.
    pub(super) fn note_exit(&mut self, pid: i32) {
        let parents = self.parents();
        parents.stopped.remove(&pid);
        parents.unreported.remove(&pid);
        parents.continued.remove(&pid);
        parents.tracers.remove(&pid);
        self.has_news(pid);
    }

    /// A signal has stopped a thread of the process.
    pub(super) fn note_stop(&mut self, pid: i32) {
        let traces = self.worker.clock.sched().tsc.is_some();
        let parents = self.parents();
        parents.stopped.insert(pid);
        parents.continued.remove(&pid);
        if traces {
            parents.unreported.insert(pid);
        }
        self.has_news(pid);
    }

    /// Of those that were stopped some may go on.
    pub(super) fn note_continued(&mut self) {
        if self.parents().stopped.is_empty() {
            return;
        }
        let counter = self.worker.clock.sched().tsc.clone();
        let goes = |pid: &i32| match thread_states::state_of(*pid, *pid) {
            Some(b'T') => false,
            Some(b't') => counter.as_ref().is_none_or(|c| !c.holds(*pid)),
            _ => true,
        };
        let going: Vec<i32> = self
            .parents()
            .stopped
            .iter()
            .copied()
            .filter(goes)
            .collect();
        for pid in going {
            self.parents().stopped.remove(&pid);
            self.parents().unreported.remove(&pid);
            self.parents().continued.insert(pid);
            self.has_news(pid);
        }
    }

    /// The process calls ptrace(2).
    pub(super) fn note_tracer(&mut self, pid: i32) {
        self.parents().tracers.insert(pid);
    }

    fn parents(&mut self) -> &mut Parents {
        &mut self.worker.clock.sched_mut().parents
    }
}

#[cfg(test)]
mod tests {
    use vink_sys::process::{kill, waitid};

    use super::*;
    use std::process::{Command, Stdio};

    fn wanted(pid: i32, options: i32) -> WaitSpec {
        WaitSpec::of_wait4(pid, options, 77).unwrap()
    }

    #[test]
    fn calls() {
        let target = |pid| WaitSpec::of_wait4(pid, 0, 77).map(|w| (w.target, w.options));
        assert_eq!(target(-1), Some((WaitTarget::Any, libc::WEXITED)));
        assert_eq!(target(0), Some((WaitTarget::Group(77), libc::WEXITED)));
        assert_eq!(target(-5), Some((WaitTarget::Group(5), libc::WEXITED)));
        assert_eq!(target(5), Some((WaitTarget::Process(5), libc::WEXITED)));
        assert_eq!(target(i32::MIN), None);
        assert_eq!(WaitSpec::of_wait4(-1, libc::WNOHANG, 77), None);
        assert_eq!(WaitSpec::of_wait4(-1, libc::WNOWAIT, 77), None);

        let target = |kind, id, options| {
            let wanted = WaitSpec::of_waitid((kind, id), options, 77, |fd| (fd == 3).then_some(9));
            wanted.map(|w| w.target)
        };
        assert_eq!(target(libc::P_ALL, 0, libc::WEXITED), Some(WaitTarget::Any));
        assert_eq!(
            target(libc::P_PID, 5, libc::WSTOPPED),
            Some(WaitTarget::Process(5))
        );
        assert_eq!(
            target(libc::P_PGID, 0, libc::WEXITED),
            Some(WaitTarget::Group(77))
        );
        assert_eq!(
            target(libc::P_PIDFD, 3, libc::WEXITED),
            Some(WaitTarget::Known(9))
        );
        assert_eq!(target(libc::P_PIDFD, 4, libc::WEXITED), None);
        assert_eq!(target(libc::P_PID, 0, libc::WEXITED), None);
        assert_eq!(target(libc::P_ALL, 0, libc::WNOWAIT), None);
        assert_eq!(target(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG), None);
    }

    #[test]
    fn meanings() {
        let child = |state, code| Child {
            pid: 1,
            state,
            exit_signal: libc::SIGCHLD,
            code,
            over: state == b'Z',
            continued: false,
            unreported: false,
        };
        let (exited, stopped) = (libc::WEXITED, libc::WSTOPPED);
        assert_eq!(child(b'Z', 0).means(exited), ChildState::Ends);
        assert_eq!(child(b'Z', 0).means(stopped), ChildState::None);
        assert_eq!(child(b'X', 0).means(exited), ChildState::None);
        assert_eq!(child(b'S', 0).means(exited), ChildState::Waits);
        assert_eq!(child(b'T', 19).means(exited), ChildState::Waits);
        assert_eq!(child(b'T', 19).means(exited | stopped), ChildState::Ends);
        assert_eq!(child(b'T', 0).means(exited | stopped), ChildState::Waits);
        let leader = Child {
            over: false,
            ..child(b'Z', 0)
        };
        assert_eq!(leader.means(exited), ChildState::Waits);
        let going = Child {
            continued: true,
            ..child(b'S', 0)
        };
        assert_eq!(going.means(exited), ChildState::Waits);
        assert_eq!(going.means(libc::WCONTINUED), ChildState::Ends);
        let cloned = Child {
            exit_signal: 0,
            ..child(b'Z', 0)
        };
        assert_eq!(cloned.means(exited), ChildState::None);
        assert_eq!(cloned.means(exited | WCLONE), ChildState::Ends);
        assert_eq!(cloned.means(exited | WALL), ChildState::Ends);
        assert_eq!(child(b'Z', 0).means(exited | WCLONE), ChildState::None);
    }

    #[test]
    fn a_stat_file() {
        let stat = "3166 (a) b) T 3165 3163 2162 0 -1 4194304 99 0 1 0 0 0 0 0 20 0 1 0 4702704 2990080 414 1 \
                    2 3 4 0 0 0 0 6 0 1 0 0 17 0 0 0 0 0 0 5 6 7 8 9 10 11 19\n";
        let child = Child::parse(3166, stat).unwrap();
        assert_eq!((child.state, child.exit_signal, child.code), (b'T', 17, 19));
        assert_eq!(Child::parse(1, "1 (x) Z 0"), None);
    }

    #[test]
    fn children_of_this_process() {
        let me = std::process::id() as i32;
        let tid = vink_sys::process::gettid();
        // Other tests have children, too: of other threads.
        let waits = |pid, options| {
            let wanted = wanted(pid, options | WNOTHREAD);
            wanted.outcome(me, tid, &Parents::default()) == WaitOutcome::Waits
        };
        assert!(!waits(-1, 0));
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        assert!(waits(-1, 0) && waits(pid, libc::WUNTRACED) && waits(-1, WALL));
        assert!(!waits(pid + 1, 0) && !waits(-pid, 0) && !waits(pid, WCLONE));
        let told = |signal, what| {
            kill(pid, signal).unwrap();
            waitid(libc::P_PID, pid, what | libc::WNOWAIT).unwrap();
        };
        told(libc::SIGSTOP, libc::WSTOPPED);
        assert!(waits(pid, 0) && !waits(pid, libc::WUNTRACED));
        told(libc::SIGKILL, libc::WEXITED);
        assert!(!waits(pid, 0) && !waits(-1, 0) && !waits(pid + 1, 0));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!waits(-1, 0));
    }
}
