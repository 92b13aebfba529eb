//! Locks of files in virtual time: whether one would be granted at once, by `/proc/locks`. The
//! locks of flock(2) and those of an open file (`F_OFD_SETLKW`) the worker takes itself, by a copy
//! of the descriptor: they belong to the open file, not to a process.

use std::fs;
use std::os::fd::OwnedFd;

use vink_sys::errno::EDEADLK;
use vink_sys::fd::{set_lock, try_flock, LockOwner};
use vink_sys::plain::FromBytes;

use super::{BlockCondition, VirtualWorker};
use crate::interrupt::ERESTARTSYS;
use crate::notify::Notification;
use crate::tracee;
use crate::Error;

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

/// A lock of a range of a file that a process has, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    write: bool,
    start: u64,
    /// The last byte.
    end: u64,
}

/// A file as `/proc/locks` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockedFile {
    /// `08:01`, the device of the file system.
    device: String,
    inode: u64,
}

/// What a flock structure says: fcntl(2). `position` and `size` are those of the open file. `None`:
/// not a lock to wait for, or nonsense, which the host refuses.
fn range_of(flock: &libc::flock, position: i64, size: i64) -> Option<Range> {
    let base = match i32::from(flock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => position,
        libc::SEEK_END => size,
        _ => return None,
    };
    let start = base.checked_add(flock.l_start)?;
    let (start, end) = match flock.l_len {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(flock.l_len - 1)?),
        _ => (start.checked_add(flock.l_len)?, start - 1),
    };
    Some(Range {
        write: match i32::from(flock.l_type) {
            libc::F_WRLCK => true,
            libc::F_RDLCK => false,
            _ => return None,
        },
        start: start.try_into().ok()?,
        end: end.try_into().ok()?,
    })
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

/// The owners of the locks that conflict with a wanted one: process ids, -1 for an open file's.
fn holders(locks: &str, pid: i32, place: &LockedFile, wanted: Range) -> Vec<i32> {
    let holder = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        // Those that wait have an arrow here.
        if !matches!(fields.next()?, "POSIX" | "OFDLCK") {
            return None;
        }
        let write = fields.nth(1)? == "WRITE";
        let holder: i32 = fields.next()?.parse().ok()?;
        let (device, inode) = fields.next()?.rsplit_once(':')?;
        let start: u64 = fields.next()?.parse().ok()?;
        let end = match fields.next()? {
            "EOF" => u64::MAX,
            end => end.parse().ok()?,
        };
        let conflicts = holder != pid
            && device == place.device
            && inode.parse() == Ok(place.inode)
            && (write || wanted.write)
            && start <= wanted.end
            && wanted.start <= end;
        conflicts.then_some(holder)
    };
    locks.lines().filter_map(holder).collect()
}

/// Whether a process that waits for these would wait for itself: `waits_for` says which processes a
/// process waits for.
fn is_deadlock(pid: i32, holders: Vec<i32>, waits_for: impl Fn(i32) -> Vec<i32>) -> bool {
    let (mut seen, mut open) = (Vec::new(), holders);
    while let Some(holder) = open.pop() {
        if holder == pid {
            return true;
        }
        if !seen.contains(&holder) {
            seen.push(holder);
            open.extend(waits_for(holder));
        }
    }
    false
}

impl LockWait {
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

impl VirtualWorker<'_> {
    /// flock(2), and fcntl(2) with `F_SETLKW` and `F_OFD_SETLKW`. False: nothing that may wait.
    pub(crate) fn lock(&mut self, call: Notification) -> Result<bool, Error> {
        let Some(wait) = self.wait_of(call) else {
            return Ok(false);
        };
        match wait.attempt() {
            LockAttempt::Taken => self.answer(call, 0)?,
            LockAttempt::Pass => return Ok(false),
            LockAttempt::Held => {
                if self.would_be_deadlock(&wait) {
                    return self.answer(call, EDEADLK).map(|()| true);
                }
                self.locks().0.push((call.tid, call.id, wait));
                let condition = BlockCondition {
                    on_signal: ERESTARTSYS,
                    ..BlockCondition::forever()
                };
                self.block(call, condition);
            }
        }
        Ok(true)
    }

    fn wait_of(&self, call: Notification) -> Option<LockWait> {
        let pid = self.worker.threads[&call.tid].pid;
        let how = call.args[1] as i32;
        let copy = || self.dup_tracee_fd(call.tid, call.args[0]);
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

    fn would_be_deadlock(&mut self, wait: &LockWait) -> bool {
        let LockWait::Process(pid, place, range) = wait else {
            return false;
        };
        let all = all_locks();
        let waits_for = |other: i32| {
            let waits = self.worker.clock.sched().locks.0.iter();
            let of_other = waits.filter(|(tid, id, _)| self.is_blocked(*tid, *id));
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

    /// Wakes threads that wait for locks that have become free.
    pub(super) fn retry_locks(&mut self) {
        if self.locks().0.is_empty() {
            return;
        }
        let mut locks = std::mem::take(self.locks());
        locks.0.retain(|(tid, id, wait)| {
            if !self.is_blocked(*tid, *id) {
                return false;
            }
            match wait.attempt() {
                LockAttempt::Held => return true,
                LockAttempt::Taken => self.wake(*tid, *id, Some(0)),
                LockAttempt::Pass => self.wake(*tid, *id, None),
            };
            false
        });
        *self.locks() = locks;
    }

    fn locks(&mut self) -> &mut Locks {
        &mut self.worker.clock.sched_mut().locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use vink_sys::plain::Zeroed;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 10 08:01:7 100 199\n\
                         1: -> POSIX  ADVISORY  WRITE 13 08:01:7 0 EOF\n\
                         2: OFDLCK ADVISORY  READ -1 08:01:7 300 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 11 08:01:7 0 EOF\n\
                         4: POSIX  ADVISORY  READ 12 08:01:8 0 EOF\n";

    fn flock(kind: i32, whence: i32, start: i64, length: i64) -> libc::flock {
        let mut flock = libc::flock::zeroed();
        flock.l_type = kind as i16;
        flock.l_whence = whence as i16;
        flock.l_start = start;
        flock.l_len = length;
        flock
    }

    #[test]
    fn ranges() {
        let range = |kind, whence, start, length| {
            range_of(&flock(kind, whence, start, length), 50, 1000)
                .map(|r| (r.write, r.start, r.end))
        };
        let eof = i64::MAX as u64;
        let (read, write) = (libc::F_RDLCK, libc::F_WRLCK);
        assert_eq!(range(read, libc::SEEK_SET, 10, 5), Some((false, 10, 14)));
        assert_eq!(range(write, libc::SEEK_CUR, 10, 0), Some((true, 60, eof)));
        assert_eq!(range(write, libc::SEEK_END, 0, -10), Some((true, 990, 999)));
        assert_eq!(range(write, libc::SEEK_SET, 5, -10), None);
        assert_eq!(range(write, libc::SEEK_SET, i64::MAX, 2), None);
        assert_eq!(range(libc::F_UNLCK, libc::SEEK_SET, 0, 0), None);
        assert_eq!(range(read, 9, 0, 0), None);
    }

    #[test]
    fn what_is_in_the_way() {
        let place = |inode| LockedFile {
            device: "08:01".into(),
            inode,
        };
        let held = |pid, inode, write, start, end| {
            holders(LOCKS, pid, &place(inode), Range { write, start, end })
        };
        assert_eq!(held(1, 7, false, 0, 99), []);
        assert_eq!(held(1, 7, false, 0, 100), [10]);
        assert_eq!(held(1, 7, false, 199, 500), [10]);
        assert_eq!(held(1, 7, true, 0, 500), [10, -1]);
        assert_eq!(held(10, 7, true, 0, 299), []);
        assert_eq!(held(10, 7, true, 0, u64::MAX), [-1]);
        assert_eq!(held(1, 8, false, 0, 9), []);
        assert_eq!(held(1, 8, true, 5, 9), [12]);
        assert_eq!(held(1, 9, true, 5, 9), []);
    }

    #[test]
    fn a_thread_that_waits_for_itself() {
        let waits = |pid| match pid {
            2 => vec![3],
            3 => vec![4, 1],
            5 => vec![6],
            6 => vec![5],
            _ => Vec::new(),
        };
        assert!(is_deadlock(1, vec![-1, 2], waits));
        assert!(!is_deadlock(2, vec![5], waits));
        assert!(!is_deadlock(1, vec![4], waits));
    }

    #[test]
    fn an_open_file_is_found_among_the_locks() {
        let me = std::process::id() as i32;
        let path = std::env::temp_dir().join(format!("vink-trap-locks-{me}"));
        let file = fs::File::create_new(&path).unwrap();
        fs::remove_file(path).unwrap();
        let (place, position) = locked_file_of(me, file.as_raw_fd()).unwrap();
        assert_eq!(position, 0);
        let lock = flock(libc::F_WRLCK, libc::SEEK_SET, 3, 4);
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
