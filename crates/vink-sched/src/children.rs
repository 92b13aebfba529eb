//! Waiting for children (wait4(2), waitid(2)): what a call waits for, and whether it would have to
//! wait, by what is known of each child.

use vink_sys::procfs::StatFields;

/// `__WNOTHREAD`, `__WCLONE` and `__WALL` of `<linux/wait.h>`.
const WNOTHREAD: i32 = 0x2000_0000;
const WCLONE: i32 = i32::MIN;
const WALL: i32 = 0x4000_0000;

/// The process or group whose end, or stop, is waited for. Numbers are those that the program
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// Any child.
    Any,
    /// This process.
    Process(i32),
    /// Any of this process group.
    Group(i32),
    /// By a number that the worker knows.
    Known(i32),
}

/// A call that may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSpec {
    /// Which children.
    pub target: WaitTarget,
    /// `WEXITED`, `WSTOPPED`, `WCONTINUED` and how to choose.
    pub options: i32,
}

/// What a call would do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Its thread would wait.
    Waits,
    /// It tells something, or that there is no such child.
    Ends,
    /// It tells that this child goes on again, or, if we trace it, has stopped.
    Tells(i32),
}

/// What is known of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The host's number of it.
    pub pid: i32,
    /// As in proc_pid_stat(5).
    pub state: u8,
    /// The signal that its end sends to its parent.
    pub exit_signal: i32,
    /// Of a stopped one 0 if that has been reported.
    pub code: i32,
    /// It is a zombie with no other thread left.
    pub over: bool,
    /// It was continued after a stop, which has not been reported.
    pub continued: bool,
    /// It has stopped, which the host reports to its tracer only.
    pub unreported: bool,
}

/// What a child means for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// The call ends with this one.
    Ends,
    /// It may, later.
    Waits,
    /// Nothing.
    None,
}

impl WaitSpec {
    /// What a wait4(2) waits for, by a thread of a process in this group. `None`: it does not wait.
    pub fn of_wait4(pid: i32, options: i32, own_group: i32) -> Option<WaitSpec> {
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
    pub fn of_waitid(
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

    /// Whether only children of the calling thread count, not those of its process.
    pub fn is_for_own_children(&self) -> bool {
        self.options & WNOTHREAD != 0
    }

    /// Whether what the call tells is told once more to the next one.
    pub fn leaves_news(&self) -> bool {
        self.options & libc::WNOWAIT != 0
    }

    /// What the call would do now, by the children that it is about.
    pub fn outcome(&self, children: impl Iterator<Item = Child>) -> WaitOutcome {
        let mut outlook = WaitOutcome::Ends;
        for child in children {
            match child.means(self.options) {
                ChildState::Ends if child.continued && !matches!(child.state, b'Z' | b'T') => {
                    return WaitOutcome::Tells(child.pid);
                }
                ChildState::Ends if child.unreported => return WaitOutcome::Tells(child.pid),
                ChildState::Ends => return WaitOutcome::Ends,
                ChildState::Waits => outlook = WaitOutcome::Waits,
                ChildState::None => {}
            }
        }
        outlook
    }
}

impl Child {
    /// What a child is by its stat file, as far as that tells: proc_pid_stat(5).
    pub fn parse(pid: i32, stat: &str) -> Option<Child> {
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
    pub fn means(&self, options: i32) -> ChildState {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
