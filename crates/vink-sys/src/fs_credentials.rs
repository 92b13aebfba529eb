//! As which user, and in which groups, a thread accesses files: credentials(7), setfsuid(2).

use std::fs;
use std::io;

use rustix::process::{
    dumpable_behavior, getpid, getppid, kill_process, parent_process_death_signal,
    set_dumpable_behavior, set_parent_process_death_signal, DumpableBehavior, Gid, Pid, Signal,
};
use rustix::thread::set_thread_groups;

use crate::process::gettid;
use crate::procfs::status_field;

/// The user and the groups that permissions of files are looked at for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsCredentials {
    user: u32,
    group: u32,
    supplementary: Vec<u32>,
}

impl FsCredentials {
    /// A thread's; `None` if it is gone.
    pub fn of(tid: i32) -> Option<FsCredentials> {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let numbers = |name| {
            let field = status_field(&status, name)?;
            let numbers = field.split_ascii_whitespace().map(str::parse);
            numbers.collect::<Result<Vec<u32>, _>>().ok()
        };
        // Real, effective, saved, and that for files.
        Some(FsCredentials {
            user: *numbers("Uid:")?.get(3)?,
            group: *numbers("Gid:")?.get(3)?,
            supplementary: numbers("Groups:")?,
        })
    }

    /// The calling thread's.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn own() -> io::Result<FsCredentials> {
        FsCredentials::of(gettid()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Does something on the calling thread with these in place of its `own` ones, and without
    /// root's rights to files unless these are root's (capabilities(7)). `None`: it may not have them.
    pub fn lend<T>(&self, own: &FsCredentials, work: impl FnOnce() -> T) -> Option<T> {
        if self == own {
            return Some(work());
        }
        let lent = Lent::begin(self, own);
        lent.complete.then(work)
    }

    /// Whether the calling thread has these in place of the `other` ones now.
    fn take_on(&self, other: &FsCredentials) -> bool {
        let groups = self.supplementary == other.supplementary || {
            let groups = self.supplementary.iter().map(|n| Gid::from_raw(*n));
            set_thread_groups(&groups.collect::<Vec<_>>()).is_ok()
        };
        // These calls say what there was before, and -1 changes nothing.
        // SAFETY: they take numbers, and are of the calling thread alone.
        let (group, user) = unsafe {
            libc::setfsgid(self.group);
            libc::setfsuid(self.user);
            (libc::setfsgid(u32::MAX), libc::setfsuid(u32::MAX))
        };
        groups && (group as u32, user as u32) == (self.group, self.user)
    }
}

/// A thread has another one's credentials until this is dropped. What the kernel takes from a process
/// whose credentials change is given back then: whether it can be dumped, and its parent-death signal
/// (prctl(2)).
struct Lent<'a> {
    other: &'a FsCredentials,
    own: &'a FsCredentials,
    /// All of them.
    complete: bool,
    dumpable: DumpableBehavior,
    parent: Option<Pid>,
    death_signal: Option<Signal>,
}

impl Lent<'_> {
    fn begin<'a>(other: &'a FsCredentials, own: &'a FsCredentials) -> Lent<'a> {
        let mut lent = Lent {
            other,
            own,
            complete: false,
            dumpable: dumpable_behavior().unwrap_or(DumpableBehavior::NotDumpable),
            parent: getppid(),
            death_signal: parent_process_death_signal().unwrap_or(None),
        };
        lent.complete = other.take_on(own);
        lent
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let back = self.own.take_on(self.other);
        assert!(
            back,
            "a thread may have the user and the groups again that it had"
        );
        let _ = set_dumpable_behavior(self.dumpable);
        if let Some(signal) = self.death_signal {
            let _ = set_parent_process_death_signal(Some(signal));
            // It may have ended meanwhile.
            if getppid() != self.parent {
                let _ = kill_process(getpid(), signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{chown, PermissionsExt};

    use super::*;
    use crate::process::is_root;

    fn nobody(supplementary: &[u32]) -> FsCredentials {
        FsCredentials {
            user: 65534,
            group: 65534,
            supplementary: supplementary.to_vec(),
        }
    }

    /// A process of root's opens what the borrowed user may, and then everything again. One of another user may borrow none.
    #[test]
    fn files_are_anothers_for_a_while() {
        let own = FsCredentials::own().unwrap();
        assert_eq!(own.lend(&own, || 7), Some(7));
        if !is_root() {
            assert_eq!(nobody(&[]).lend(&own, || 7), None);
            assert_eq!(FsCredentials::own().unwrap(), own);
            return;
        }
        let name = format!("vink-lent-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        File::create(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        chown(&file, Some(0), Some(4711)).unwrap();
        set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
        let before = (dumpable_behavior().unwrap(), parent_process_death_signal());
        for (groups, may) in [(&[][..], false), (&[4711], true), (&[4712], false)] {
            let opened = nobody(groups).lend(&own, || File::open(&file).is_ok());
            assert_eq!(opened, Some(may), "{groups:?}");
            assert_eq!(FsCredentials::own().unwrap(), own);
            assert!(File::open(&file).is_ok());
            assert_eq!(
                before,
                (dumpable_behavior().unwrap(), parent_process_death_signal())
            );
        }
        fs::remove_file(&file).unwrap();
    }
}
