//! Waiting for children in virtual time: whether a wait4(2) or waitid(2) would have to wait. If
//! not, the host does it and has all the rest: statuses, usage, which process reaps which. Nothing
//! is guessed: `/proc` says of each child what the host's call would see.

use std::collections::HashSet;
use std::fs;

use vink_sched::block::{BlockCondition, ERESTARTSYS};
use vink_sched::children::{Child, WaitOutcome, WaitSpec, WaitTarget};

use crate::process_table::ProcessTable;
use crate::sched::determinism::tsc::VirtualTsc;
use crate::sched::{thread_states, waits_in, Scheduler};
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

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

/// What becomes of a call that waits for a child.
pub(in crate::sched) enum ChildWait {
    /// It waits.
    Block(BlockCondition),
    /// The host does it, and does not wait.
    Host,
    /// The host does it, and may wait.
    HostMayBlock,
}

impl Parents {
    /// A process has been stopped, or traces another one.
    pub(in crate::sched) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty() || !self.tracers.is_empty()
    }

    /// wait4(2) and waitid(2).
    pub(in crate::sched) fn wait(&mut self, call: SyscallCtx) -> ChildWait {
        let pid = call.pid;
        if self.tracers.contains(&pid) {
            return ChildWait::HostMayBlock;
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
            return ChildWait::Host;
        };
        match outcome(&wanted, pid, call.tid, self) {
            WaitOutcome::Waits => {
                self.waiting.push((call.tid, call.id, wanted));
                ChildWait::Block(BlockCondition {
                    on_signal: ERESTARTSYS,
                    ..BlockCondition::forever()
                })
            }
            WaitOutcome::Tells(child) if !wanted.leaves_news() => {
                self.continued.remove(&child);
                self.unreported.remove(&child);
                ChildWait::Host
            }
            WaitOutcome::Ends | WaitOutcome::Tells(_) => ChildWait::Host,
        }
    }

    /// Takes out the calls of parents that wait for a child that has changed state: thread and name.
    /// Those that are not `blocked` any more are forgotten.
    fn take_woken(
        &mut self,
        table: &ProcessTable,
        blocked: impl Fn(i32, u64) -> bool,
    ) -> Vec<(i32, u64)> {
        let mut woken = Vec::new();
        if self.news.is_empty() && !self.news_for_all {
            return woken;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|(tid, id, wanted)| {
            if !blocked(*tid, *id) {
                return false;
            }
            let pid = table.pid_of(*tid);
            if !self.news_for_all && !self.news.contains(&pid)
                || outcome(wanted, pid, *tid, self) == WaitOutcome::Waits
            {
                return true;
            }
            woken.push((*tid, *id));
            false
        });
        self.waiting = waiting;
        self.news.clear();
        self.news_for_all = false;
        woken
    }

    /// There is something to tell to the parent of this process, which may be gone altogether.
    fn has_news(&mut self, pid: i32) {
        let parent = tracee::tgid_and_ppid(pid).map(|(_, parent)| parent);
        match parent {
            Some(parent) => drop(self.news.insert(parent)),
            None => self.news_for_all = true,
        }
    }

    /// The process has ended.
    pub(in crate::sched) fn note_exit(&mut self, pid: i32) {
        self.stopped.remove(&pid);
        self.unreported.remove(&pid);
        self.continued.remove(&pid);
        self.tracers.remove(&pid);
        self.has_news(pid);
    }

    /// A signal has stopped a thread of the process, which may be traced for the counter.
    pub(in crate::sched) fn note_stop(&mut self, pid: i32, is_traced: bool) {
        self.stopped.insert(pid);
        self.continued.remove(&pid);
        if is_traced {
            self.unreported.insert(pid);
        }
        self.has_news(pid);
    }

    /// Of those that were stopped some may go on. The counter may hold some.
    pub(in crate::sched) fn note_continued(&mut self, counter: Option<&VirtualTsc>) {
        let goes = |pid: &i32| match thread_states::state_of(*pid, *pid) {
            Some(b'T') => false,
            Some(b't') => counter.is_none_or(|c| !c.holds(*pid)),
            _ => true,
        };
        let going: Vec<i32> = self.stopped.iter().copied().filter(goes).collect();
        for pid in going {
            self.stopped.remove(&pid);
            self.unreported.remove(&pid);
            self.continued.insert(pid);
            self.has_news(pid);
        }
    }

    /// The process calls ptrace(2).
    pub(in crate::sched) fn note_tracer(&mut self, pid: i32) {
        self.tracers.insert(pid);
    }
}

impl Scheduler {
    /// Wakes parents that wait for a child that has changed state.
    pub(in crate::sched) fn wake_waiting_parents(&mut self, table: &ProcessTable) {
        for (tid, id) in self.parents.take_woken(table, waits_in(&self.blocked)) {
            self.wake(tid, id, None);
        }
    }
}

/// What the call of this thread would do now, with what is known of children.
fn outcome(wanted: &WaitSpec, pid: i32, tid: i32, known: &Parents) -> WaitOutcome {
    let threads = match wanted.is_for_own_children() {
        false => tracee::threads(pid),
        true => vec![tid],
    };
    let all = threads.iter().flat_map(|tid| tracee::children(pid, *tid));
    let concerned = all.filter(|child| concerns(wanted, *child));
    wanted.outcome(concerned.filter_map(|child| inspect(child, known)))
}

fn concerns(wanted: &WaitSpec, child: i32) -> bool {
    match wanted.target {
        WaitTarget::Any => true,
        WaitTarget::Known(known) => known == child,
        WaitTarget::Process(pid) => tracee::ns_pid_of_kind(child, "NStgid:") == Some(pid),
        WaitTarget::Group(group) => tracee::ns_pid_of_kind(child, "NSpgid:") == Some(group),
    }
}

/// What is known of a child; `None` if it is gone.
fn inspect(pid: i32, known: &Parents) -> Option<Child> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut child = Child::parse(pid, &stat)?;
    child.over = child.state == b'Z' && tracee::threads(pid) == [pid];
    child.continued = known.continued.contains(&pid);
    child.unreported = child.state == b't' && known.unreported.contains(&pid);
    Some(child)
}

#[cfg(test)]
mod tests {
    use vink_sys::process::{kill, waitid};

    use super::*;
    use std::process::{Command, Stdio};

    /// `__WNOTHREAD`, `__WCLONE` and `__WALL` of `<linux/wait.h>`.
    const WNOTHREAD: i32 = 0x2000_0000;
    const WCLONE: i32 = i32::MIN;
    const WALL: i32 = 0x4000_0000;

    fn wanted(pid: i32, options: i32) -> WaitSpec {
        WaitSpec::of_wait4(pid, options, 77).unwrap()
    }

    #[test]
    fn children_of_this_process() {
        let me = std::process::id() as i32;
        let tid = vink_sys::process::gettid();
        // Other tests have children, too: of other threads.
        let waits = |pid, options| {
            let wanted = wanted(pid, options | WNOTHREAD);
            outcome(&wanted, me, tid, &Parents::default()) == WaitOutcome::Waits
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
