//! Which paths of a program lead to the machine's own files ([`vink_kernel::paths`]), from where the
//! program is, and which do so in virtual time only.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::CString;

use vink_kernel::paths::{follow, machine_path, module_directory, virtual_name, MODULES};

use crate::kernel_runner::RANDOM;
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

/// Of the host's directories above the machine's files those from which a relative path may come
/// to them: what it may begin with.
const BEGINNINGS: [&[u8]; 12] = [
    b"dev",
    b"proc",
    b"sys",
    b"net",
    b"self",
    b"thread-self",
    b"task",
    b"class",
    b"devices",
    b"virtual",
    b"module",
    b"..",
];
/// The longest of them, with what ends it.
const LOOK: usize = 16;

/// A file of the machine's.
pub(crate) struct VirtualPath {
    /// The kernel's number of the directory that the path starts from, or `AT_FDCWD`.
    pub(crate) directory: i32,
    pub(crate) path: CString,
    /// The path started from a directory of the host's.
    pub(crate) relative: bool,
}

impl Tasks {
    /// Where a path in the thread's memory leads to, from the directory that it has open under the
    /// number `from`; `None` if that is none of the machine's business.
    pub(crate) fn resolve_path(
        &mut self,
        is_virtual: bool,
        tid: i32,
        from: i32,
        path: u64,
    ) -> Result<Option<VirtualPath>, Error> {
        let to_modules = Cell::new(false);
        let place = self.virtual_path_of(is_virtual, (tid, from, path), &to_modules);
        if to_modules.get() {
            // From there a relative path may begin with any module's name.
            let pid = self.table.pid_of(tid);
            self.table.note_cwd_in_procfs(pid);
        }
        let module = place.as_ref().and_then(|place| {
            let is_absolute = place.directory == libc::AT_FDCWD;
            is_absolute.then(|| module_directory(place.path.as_bytes()))?
        });
        let Some(module) = module else {
            return Ok(place);
        };
        let has_file = match self.try_task_of(tid)? {
            Ok(task) => self.kernel.has_file(task, &module)?,
            Err(_) => false,
        };
        Ok(place.filter(|_| has_file))
    }

    /// As [`Tasks::resolve_path`], whether or not the kernel has the module. `to_modules`: it
    /// leads to `/sys/module`, or along there.
    fn virtual_path_of(
        &self,
        is_virtual: bool,
        (tid, from, path): (i32, i32, u64),
        to_modules: &Cell<bool>,
    ) -> Option<VirtualPath> {
        let mut start = [0; LOOK];
        let len = tracee::read_string(tid, path, &mut start)?;
        let start = &start[..len];
        let process = self.table.process_of(tid);
        let relative = start.first() != Some(&b'/');
        let entry = match relative && from != libc::AT_FDCWD {
            true => process.table.get(from as u64),
            false => None,
        };
        let entry = entry.filter(|entry| entry.file.is_procfs());
        // Most paths lead elsewhere, and need not be read to their end.
        let from_procfs = relative && process.cwd_in_procfs;
        if entry.is_none() && !from_procfs && !may_be_virtual(start) {
            return None;
        }
        let mut whole = [0; libc::PATH_MAX as usize];
        let len = tracee::read_string(tid, path, &mut whole)?;
        let whole = &whole[..len];
        if let Some(entry) = entry {
            let path = CString::new(whole).ok()?;
            let directory = entry.number;
            let relative = false;
            return Some(VirtualPath {
                directory,
                path,
                relative,
            });
        }
        let path = match relative {
            true => {
                let mut path = tracee::directory(process.pid, from)?;
                path.push(b'/');
                path.extend(whole);
                path
            }
            false => whole.to_vec(),
        };
        let neighbour = |number| self.table.is_in_same_netns(tid, number);
        let path = follow(&path, |parts| {
            if matches!(parts, [b"sys", b"module"]) {
                to_modules.set(true);
            }
            let own = virtual_name(parts, neighbour);
            let in_virtual_time = || virtual_name_in_virtual_time(parts);
            own.or_else(|| is_virtual.then(in_virtual_time).flatten())
        })?;
        Some(VirtualPath {
            directory: libc::AT_FDCWD,
            path: CString::new(path).ok()?,
            relative,
        })
    }
}

/// Whether relative paths from this directory, which has no links and dots in its path, may lead to
/// the machine's files however they begin.
pub(crate) fn may_lead_to_procfs(path: &[u8]) -> bool {
    path == MODULES || machine_path(path, |_| true).is_some()
}

/// Whether a path that begins like this can lead to the machine's files at all.
fn may_be_virtual(start: &[u8]) -> bool {
    let parts = || start.split(|byte| *byte == b'/');
    let Some(first) = parts().find(|part| !part.is_empty() && *part != b".") else {
        return false;
    };
    let number = first.iter().all(u8::is_ascii_digit);
    number || BEGINNINGS.contains(&first)
}

/// The same for files about time, chance or the host's processors.
fn virtual_name_in_virtual_time(parts: &[&[u8]]) -> Option<Cow<'static, [u8]>> {
    let name: &[u8] = match parts {
        [b"proc", b"uptime"] => b"/proc/uptime",
        [b"proc", b"loadavg"] => b"/proc/loadavg",
        [b"proc", b"stat"] => b"/proc/stat",
        [b"proc", b"cpuinfo"] => b"/proc/cpuinfo",
        [b"proc", b"interrupts"] => b"/proc/interrupts",
        [b"proc", b"softirqs"] => b"/proc/softirqs",
        [b"proc", b"sys", b"kernel", b"random"] => b"/proc/sys/kernel/random",
        [b"sys", b"devices", b"system", b"cpu"] => b"/sys/devices/system/cpu",
        [b"dev", b"random"] => RANDOM[0].to_bytes(),
        [b"dev", b"urandom"] => RANDOM[1].to_bytes(),
        _ => return None,
    };
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_virtual_time() {
        let name = |path: &str| follow(path.as_bytes(), virtual_name_in_virtual_time);
        for path in [
            "/proc/uptime",
            "/dev/urandom",
            "/sys/devices/system/cpu/online",
        ] {
            assert_eq!(name(path).as_deref(), Some(path.as_bytes()));
        }
        for path in ["/proc/net/dev", "/proc/self/stat", "/dev/null"] {
            assert_eq!(name(path), None, "{path}");
        }
        assert!(machine_path(b"/proc/uptime", |_| true).is_none());
        assert!(may_lead_to_procfs(b"/sys/module") && !may_lead_to_procfs(b"/sys"));
    }

    #[test]
    fn beginnings() {
        let look = |path: &str| may_be_virtual(&path.as_bytes()[..path.len().min(LOOK)]);
        for path in [
            "/proc/net",
            "//sys",
            "net/dev",
            "./net",
            "thread-self/net/dev",
            "123/net",
            "../../sys",
            "/..",
        ] {
            assert!(look(path), "{path}");
        }
        for path in [
            "",
            "/",
            "/usr/lib/net",
            "network",
            "procfs/net",
            "a/../net",
            ".",
        ] {
            assert!(!look(path), "{path}");
        }
    }
}
