//! Waiting for children in virtual time: whether a wait4(2) or waitid(2) would have to wait. If not, the host does it
//! and has all the rest: statuses, usage, who reaps whom. Nothing is guessed: `/proc` tells of each child what
//! the host's call would look at.

use std::collections::HashSet;
use std::fs;

use super::{states, Until};
use crate::interrupt::ERESTARTSYS;
use crate::notify::Notification;
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// `__WNOTHREAD`, `__WCLONE` and `__WALL` of `<linux/wait.h>`.
const WNOTHREAD: i32 = 0x2000_0000;
const WCLONE: i32 = i32::MIN;
const WALL: i32 = 0x4000_0000;

/// Whose end, or stop, is waited for. Numbers are those that the program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Any,
    Process(i32),
    Group(i32),
    /// By a number that the worker knows.
    Known(i32),
}

/// A call that may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) whom: Whom,
    /// `WEXITED`, `WSTOPPED`, `WCONTINUED` and how to choose.
    pub(crate) options: i32,
}

/// Who waits, and whose children may have something to tell.
#[derive(Default)]
pub(crate) struct Parents {
    /// Calls by thread and name, in the order in which they came.
    waiting: Vec<(i32, u64, Wanted)>,
    /// Processes whose children are to be looked at.
    news: HashSet<i32>,
    /// The same for all processes.
    news_for_all: bool,
    /// Processes that a signal has stopped.
    stopped: HashSet<i32>,
    /// ... that go on again, while no call has told that.
    continued: HashSet<i32>,
    /// Processes that a signal has stopped while we trace them, for the counter: their parents have not been told.
    untold: HashSet<i32>,
    /// Processes that trace others, and wait for much else.
    tracers: HashSet<i32>,
}

/// What a call would do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
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
    /// Of a stopped one 0 if that has been told.
    code: i32,
    /// It is a zombie with no other thread left.
    over: bool,
    /// It has gone on after a stop, and nobody has been told of that.
    continued: bool,
    /// It has stopped, of which the host tells only who traces it.
    untold: bool,
}

/// What a child means for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
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

impl Wanted {
    /// What a wait4(2) waits for, by a thread of a process in this group. `None`: it does not wait.
    pub(crate) fn of_wait4(pid: i32, options: i32, own_group: i32) -> Option<Wanted> {
        let whom = match pid {
            -1 => Whom::Any,
            0 => Whom::Group(own_group),
            ..-1 => Whom::Group(pid.checked_neg()?),
            _ => Whom::Process(pid),
        };
        let known = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | WNOTHREAD | WCLONE | WALL;
        let options = match options & !known {
            0 => options | libc::WEXITED,
            _ => return None,
        };
        Wanted::waiting(whom, options)
    }

    /// The same for waitid(2). `known` is the process of a descriptor.
    pub(crate) fn of_waitid(
        (kind, id): (u32, i32),
        options: i32,
        own_group: i32,
        known: impl Fn(i32) -> Option<i32>,
    ) -> Option<Wanted> {
        let whom = match kind {
            libc::P_ALL => Whom::Any,
            libc::P_PID if id > 0 => Whom::Process(id),
            libc::P_PGID if id > 0 => Whom::Group(id),
            libc::P_PGID if id == 0 => Whom::Group(own_group),
            libc::P_PIDFD => Whom::Known(known(id)?),
            _ => return None,
        };
        let events = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        let known = events | libc::WNOHANG | libc::WNOWAIT | WNOTHREAD | WCLONE | WALL;
        match options & events != 0 && options & !known == 0 {
            true => Wanted::waiting(whom, options),
            false => None, // to be refused
        }
    }

    fn waiting(whom: Whom, options: i32) -> Option<Wanted> {
        (options & libc::WNOHANG == 0).then_some(Wanted { whom, options })
    }

    /// What the call of this thread would do now, with what is known of children.
    fn outlook(&self, pid: i32, tid: i32, known: &Parents) -> Outlook {
        let threads = match self.options & WNOTHREAD {
            0 => target::threads(pid),
            _ => vec![tid],
        };
        let mut outlook = Outlook::Ends;
        for number in threads.iter().flat_map(|tid| target::children(pid, *tid)) {
            if !self.concerns(number) {
                continue;
            }
            let Some(child) = Child::look_at(number, known) else {
                continue;
            };
            match child.means(self.options) {
                Meaning::Ends if child.continued && !matches!(child.state, b'Z' | b'T') => {
                    return Outlook::Tells(number);
                }
                Meaning::Ends if child.untold => return Outlook::Tells(number),
                Meaning::Ends => return Outlook::Ends,
                Meaning::Waits => outlook = Outlook::Waits,
                Meaning::None => {}
            }
        }
        outlook
    }

    fn concerns(&self, child: i32) -> bool {
        match self.whom {
            Whom::Any => true,
            Whom::Known(known) => known == child,
            Whom::Process(pid) => target::own_number_of_kind(child, "NStgid:") == Some(pid),
            Whom::Group(group) => target::own_number_of_kind(child, "NSpgid:") == Some(group),
        }
    }
}

impl Child {
    fn look_at(pid: i32, known: &Parents) -> Option<Child> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut child = Child::parse(pid, &stat)?;
        child.over = child.state == b'Z' && target::threads(pid) == [pid];
        child.continued = known.continued.contains(&pid);
        child.untold = child.state == b't' && known.untold.contains(&pid);
        Some(child)
    }

    /// See proc_pid_stat(5); the fields are counted from the state, which is the third.
    fn parse(pid: i32, stat: &str) -> Option<Child> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Child {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            exit_signal: fields.get(38 - 3)?.parse().ok()?,
            code: fields.get(52 - 3)?.parse().ok()?,
            over: false,
            continued: false,
            untold: false,
        })
    }

    /// As `wait_consider_task()` of the kernel's kernel/exit.c.
    fn means(&self, options: i32) -> Meaning {
        let cloned = self.exit_signal != libc::SIGCHLD;
        if options & WALL == 0 && cloned != (options & WCLONE != 0) {
            return Meaning::None;
        }
        let asks = |option| options & option != 0;
        let ends = match self.state {
            b'X' => return Meaning::None,
            b'Z' if self.over && !asks(libc::WEXITED) => return Meaning::None,
            b'Z' => self.over,
            b'T' | b't' => asks(libc::WSTOPPED) && (self.code != 0 || self.untold),
            _ => asks(libc::WCONTINUED) && self.continued,
        };
        match ends {
            true => Meaning::Ends,
            false => Meaning::Waits,
        }
    }
}

impl Worker {
    /// wait4(2) and waitid(2).
    pub(crate) fn wait_for_child(&mut self, call: Notification) -> Result<(), Error> {
        let pid = self.threads[&call.tid].pid;
        if self.parents().tracers.contains(&pid) {
            return self.pass_that_may_wait(call);
        }
        let [first, second, third, fourth, ..] = call.args;
        let group = target::own_number_of_kind(pid, "NSpgid:").unwrap_or(0);
        let wanted = match call.nr {
            libc::SYS_wait4 => Wanted::of_wait4(first as i32, third as i32, group),
            _ => {
                let whom = (first as u32, second as i32);
                let known = |fd| target::process_of_pidfd(pid, fd);
                Wanted::of_waitid(whom, fourth as i32, group, known)
            }
        };
        let Some(wanted) = wanted else {
            return self.pass(call);
        };
        match wanted.outlook(pid, call.tid, self.parents()) {
            Outlook::Waits => {
                self.parents().waiting.push((call.tid, call.id, wanted));
                let until = Until {
                    interrupted: ERESTARTSYS,
                    ..Until::forever()
                };
                self.park(call, until);
                Ok(())
            }
            Outlook::Tells(child) if wanted.options & libc::WNOWAIT == 0 => {
                self.parents().continued.remove(&child);
                self.parents().untold.remove(&child);
                self.pass(call)
            }
            Outlook::Ends | Outlook::Tells(_) => self.pass(call),
        }
    }

    /// Those who wait for children of whom there is something to tell go on.
    pub(crate) fn look_at_children(&mut self) {
        let parents = self.parents();
        if parents.news.is_empty() && !parents.news_for_all {
            return;
        }
        let mut parents = std::mem::take(parents);
        let mut waiting = std::mem::take(&mut parents.waiting);
        waiting.retain(|(tid, id, wanted)| {
            if !self.is_parked(*tid, *id) {
                return false;
            }
            let pid = self.threads[tid].pid;
            if !parents.news_for_all && !parents.news.contains(&pid)
                || wanted.outlook(pid, *tid, &parents) == Outlook::Waits
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
        let parent = target::kin(pid).map(|(_, parent)| parent);
        let parents = self.parents();
        match parent {
            Some(parent) => drop(parents.news.insert(parent)),
            None => parents.news_for_all = true,
        }
    }

    /// The process has ended.
    pub(super) fn note_end(&mut self, pid: i32) {
        let parents = self.parents();
        parents.stopped.remove(&pid);
        parents.untold.remove(&pid);
        parents.continued.remove(&pid);
        parents.tracers.remove(&pid);
        self.has_news(pid);
    }

    /// A signal has stopped a thread of the process.
    pub(super) fn note_stop(&mut self, pid: i32) {
        let traces = self.turn.as_ref().is_some_and(|t| t.counter.is_some());
        let parents = self.parents();
        parents.stopped.insert(pid);
        parents.continued.remove(&pid);
        if traces {
            parents.untold.insert(pid);
        }
        self.has_news(pid);
    }

    /// Of those that were stopped some may go on.
    pub(super) fn look_for_going_on(&mut self) {
        if self.parents().stopped.is_empty() {
            return;
        }
        let counter = self.turn.as_ref().and_then(|turn| turn.counter.clone());
        let goes = |pid: &i32| match states::of(*pid, *pid) {
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
            self.parents().untold.remove(&pid);
            self.parents().continued.insert(pid);
            self.has_news(pid);
        }
    }

    /// The process calls ptrace(2).
    pub(super) fn note_tracer(&mut self, pid: i32) {
        self.parents().tracers.insert(pid);
    }

    fn parents(&mut self) -> &mut Parents {
        &mut self.turn.as_mut().expect("virtual time").parents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn wanted(pid: i32, options: i32) -> Wanted {
        Wanted::of_wait4(pid, options, 77).unwrap()
    }

    #[test]
    fn calls() {
        let whom = |pid| Wanted::of_wait4(pid, 0, 77).map(|w| (w.whom, w.options));
        assert_eq!(whom(-1), Some((Whom::Any, libc::WEXITED)));
        assert_eq!(whom(0), Some((Whom::Group(77), libc::WEXITED)));
        assert_eq!(whom(-5), Some((Whom::Group(5), libc::WEXITED)));
        assert_eq!(whom(5), Some((Whom::Process(5), libc::WEXITED)));
        assert_eq!(whom(i32::MIN), None);
        assert_eq!(Wanted::of_wait4(-1, libc::WNOHANG, 77), None);
        assert_eq!(Wanted::of_wait4(-1, libc::WNOWAIT, 77), None);

        let whom = |kind, id, options| {
            let wanted = Wanted::of_waitid((kind, id), options, 77, |fd| (fd == 3).then_some(9));
            wanted.map(|w| w.whom)
        };
        assert_eq!(whom(libc::P_ALL, 0, libc::WEXITED), Some(Whom::Any));
        assert_eq!(whom(libc::P_PID, 5, libc::WSTOPPED), Some(Whom::Process(5)));
        assert_eq!(whom(libc::P_PGID, 0, libc::WEXITED), Some(Whom::Group(77)));
        assert_eq!(whom(libc::P_PIDFD, 3, libc::WEXITED), Some(Whom::Known(9)));
        assert_eq!(whom(libc::P_PIDFD, 4, libc::WEXITED), None);
        assert_eq!(whom(libc::P_PID, 0, libc::WEXITED), None);
        assert_eq!(whom(libc::P_ALL, 0, libc::WNOWAIT), None);
        assert_eq!(whom(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG), None);
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
            untold: false,
        };
        let (exited, stopped) = (libc::WEXITED, libc::WSTOPPED);
        assert_eq!(child(b'Z', 0).means(exited), Meaning::Ends);
        assert_eq!(child(b'Z', 0).means(stopped), Meaning::None);
        assert_eq!(child(b'X', 0).means(exited), Meaning::None);
        assert_eq!(child(b'S', 0).means(exited), Meaning::Waits);
        assert_eq!(child(b'T', 19).means(exited), Meaning::Waits);
        assert_eq!(child(b'T', 19).means(exited | stopped), Meaning::Ends);
        assert_eq!(child(b'T', 0).means(exited | stopped), Meaning::Waits);
        let leader = Child {
            over: false,
            ..child(b'Z', 0)
        };
        assert_eq!(leader.means(exited), Meaning::Waits);
        let going = Child {
            continued: true,
            ..child(b'S', 0)
        };
        assert_eq!(going.means(exited), Meaning::Waits);
        assert_eq!(going.means(libc::WCONTINUED), Meaning::Ends);
        let cloned = Child {
            exit_signal: 0,
            ..child(b'Z', 0)
        };
        assert_eq!(cloned.means(exited), Meaning::None);
        assert_eq!(cloned.means(exited | WCLONE), Meaning::Ends);
        assert_eq!(cloned.means(exited | WALL), Meaning::Ends);
        assert_eq!(child(b'Z', 0).means(exited | WCLONE), Meaning::None);
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
        // SAFETY: returns a number.
        let tid = unsafe { libc::gettid() };
        // Other tests have children, too: of other threads.
        let waits = |pid, options| {
            let wanted = wanted(pid, options | WNOTHREAD);
            wanted.outlook(me, tid, &Parents::default()) == Outlook::Waits
        };
        assert!(!waits(-1, 0));
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        assert!(waits(-1, 0) && waits(pid, libc::WUNTRACED) && waits(-1, WALL));
        assert!(!waits(pid + 1, 0) && !waits(-pid, 0) && !waits(pid, WCLONE));
        // SAFETY: takes numbers, and fills nothing; the child is ours.
        let told = |signal, what| unsafe {
            libc::kill(pid, signal);
            let mut info = std::mem::zeroed();
            let options = what | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, pid as u32, &mut info, options), 0);
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
