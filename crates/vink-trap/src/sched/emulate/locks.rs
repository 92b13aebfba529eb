//! Locks of files in virtual time: whether one would be granted at once, by `/proc/locks`. The
//! locks of flock(2) and those of an open file (`F_OFD_SETLKW`) the worker takes itself, by a copy
//! of the descriptor: they belong to the open file, not to a process.

use std::fs;
use std::os::fd::OwnedFd;

use vink_sched::block::{BlockCondition, ERESTARTSYS};
use vink_sched::locks::{holders, is_deadlock, range_of, LockedFile, Range};
use vink_sys::errno::EDEADLK;
use vink_sys::fd::{set_lock, try_flock, LockOwner};
use vink_sys::plain::FromBytes;

use crate::process_table::ProcessTable;
use crate::sched::{waits_in, Scheduler};
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

/// Which lock is waited for, and how to get it.
enum LockWait {
    /// flock(2) of a copy of the descriptor, and how.
    Flock(OwnedFd, i32),
    /// The lock of an open file: a copy of its descriptor.
    OpenFile(OwnedFd, libc::flock),
    /// A process's.
    Process(i32, LockedFile, Range),
}

/// Calls that wait for a lock, by thread and name, in the order in which they came.
#[derive(Default)]
pub(crate) struct Locks(Vec<(i32, u64, LockWait)>);

/// What a try to take a lock has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockAttempt {
    Taken,
    /// Another process or open file has it.
    Held,
    /// The host will say what is wrong, or has nothing against it.
    Pass,
}

/// What a process has open under a number, and the position in it.
fn locked_file_of(pid: i32, fd: i32) -> Option<(LockedFile, i64)> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let field = |name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    let mount = field("mnt_id:")?;
    let device = mounts.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        (fields.next() == Some(mount)).then(|| fields.nth(1))?
    })?;
    let (major, minor) = device.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let place = LockedFile {
        device: format!("{major:02x}:{minor:02x}"),
        inode: field("ino:")?.parse().ok()?,
    };
    Some((place, field("pos:")?.parse().ok()?))
}

impl LockWait {
    /// What a call waits for, if it may wait.
    fn of(table: &ProcessTable, call: SyscallCtx) -> Option<LockWait> {
        let pid = call.pid;
        let how = call.args[1] as i32;
        let copy = || table.borrow_descriptor(call.tid, call.args[0]);
        if call.nr == libc::SYS_flock {
            let waits = matches!(how, libc::LOCK_SH | libc::LOCK_EX);
            return waits.then(copy)?.map(|copy| LockWait::Flock(copy, how));
        }
        if !matches!(how, libc::F_SETLKW | libc::F_OFD_SETLKW) {
            return None;
        }
        let mut bytes = [0; size_of::<libc::flock>()];
        if !tracee::read(call.tid, call.args[2], &mut bytes) {
            return None;
        }
        let flock = libc::flock::from_bytes(&bytes)?;
        let copy = copy()?;
        if how == libc::F_OFD_SETLKW {
            let locks = i32::from(flock.l_type) != libc::F_UNLCK;
            return locks.then_some(LockWait::OpenFile(copy, flock));
        }
        let (place, position) = locked_file_of(pid, call.args[0] as i32)?;
        let size = fs::File::from(copy).metadata().ok()?.len() as i64;
        let range = range_of(&flock, position, size)?;
        Some(LockWait::Process(pid, place, range))
    }

    fn attempt(&self) -> LockAttempt {
        let done = match self {
            LockWait::Flock(copy, how) => try_flock(copy, *how),
            LockWait::OpenFile(copy, lock) => set_lock(copy, LockOwner::OpenFile, lock),
            LockWait::Process(pid, place, range) => {
                return match holders(&all_locks(), *pid, place, *range).is_empty() {
                    true => LockAttempt::Pass,
                    false => LockAttempt::Held,
                };
            }
        };
        match done.map_err(|error| error.raw_os_error()) {
            Ok(()) => LockAttempt::Taken,
            Err(Some(libc::EWOULDBLOCK | libc::EACCES)) => LockAttempt::Held,
            Err(_) => LockAttempt::Pass,
        }
    }
}

fn all_locks() -> String {
    fs::read_to_string("/proc/locks").unwrap_or_default()
}

/// What becomes of a call that locks.
pub(in crate::sched) enum LockOutcome {
    Answer(i64),
    Block(BlockCondition),
    /// It is nothing that may wait, or the host says what is wrong.
    Host,
}

impl Locks {
    /// flock(2), and fcntl(2) with `F_SETLKW` and `F_OFD_SETLKW`. `blocked` says which calls still
    /// wait.
    pub(in crate::sched) fn lock(
        &mut self,
        table: &ProcessTable,
        blocked: impl Fn(i32, u64) -> bool,
        call: SyscallCtx,
    ) -> LockOutcome {
        let Some(wait) = LockWait::of(table, call) else {
            return LockOutcome::Host;
        };
        match wait.attempt() {
            LockAttempt::Taken => LockOutcome::Answer(0),
            LockAttempt::Pass => LockOutcome::Host,
            LockAttempt::Held if self.would_be_deadlock(&blocked, &wait) => {
                LockOutcome::Answer(EDEADLK)
            }
            LockAttempt::Held => {
                self.0.push((call.tid, call.id, wait));
                LockOutcome::Block(BlockCondition {
                    on_signal: ERESTARTSYS,
                    ..BlockCondition::forever()
                })
            }
        }
    }

    fn would_be_deadlock(&self, blocked: impl Fn(i32, u64) -> bool, wait: &LockWait) -> bool {
        let LockWait::Process(pid, place, range) = wait else {
            return false;
        };
        let all = all_locks();
        let waits_for = |other: i32| {
            let of_other = self.0.iter().filter(|(tid, id, _)| blocked(*tid, *id));
            let held = of_other.filter_map(|(_, _, wait)| match wait {
                LockWait::Process(pid, place, range) if *pid == other => {
                    Some(holders(&all, *pid, place, *range))
                }
                _ => None,
            });
            held.flatten().collect()
        };
        is_deadlock(*pid, holders(&all, *pid, place, *range), waits_for)
    }

    /// Tries again for those that wait: the calls that need not any more, and with which result;
    /// `None`: they are dispatched again.
    fn retry(&mut self, blocked: impl Fn(i32, u64) -> bool) -> Vec<(i32, u64, Option<i64>)> {
        let mut woken = Vec::new();
        self.0.retain(|(tid, id, wait)| {
            if !blocked(*tid, *id) {
                return false;
            }
            match wait.attempt() {
                LockAttempt::Held => return true,
                LockAttempt::Taken => woken.push((*tid, *id, Some(0))),
                LockAttempt::Pass => woken.push((*tid, *id, None)),
            };
            false
        });
        woken
    }
}

impl Scheduler {
    /// Wakes threads that wait for locks that have become free.
    pub(in crate::sched) fn retry_locks(&mut self) {
        for (tid, id, result) in self.locks.retry(waits_in(&self.blocked)) {
            self.wake(tid, id, result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use vink_sys::fd::range_lock;

    #[test]
    fn an_open_file_is_found_among_the_locks() {
        let me = std::process::id() as i32;
        let path = std::env::temp_dir().join(format!("vink-trap-locks-{me}"));
        let file = fs::File::create_new(&path).unwrap();
        fs::remove_file(path).unwrap();
        let (place, position) = locked_file_of(me, file.as_raw_fd()).unwrap();
        assert_eq!(position, 0);
        let lock = range_lock(libc::F_WRLCK, libc::SEEK_SET, 3, 4);
        set_lock(&file, LockOwner::Process, &lock).unwrap();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let range = |start, end| Range {
            write: false,
            start,
            end,
        };
        assert_eq!(holders(&locks, 0, &place, range(6, 9)), [me]);
        assert_eq!(holders(&locks, me, &place, range(6, 9)), []);
        assert_eq!(holders(&locks, 0, &place, range(7, 9)), []);
    }
}
