//! Which paths lead to the machine's own files, and what their names are in the kernel.
//!
//! `/proc/net`, `/proc/sys/net`, `/sys/class/net`, `/sys/devices/virtual/net` and `/dev/net/tun` have the same names there. A
//! process has its `net` below its number, which is another one in the kernel; the one of the
//! calling task stands for those of all processes in the same network.

use std::ffi::{CStr, CString};

use crate::target;
use crate::worker::Worker;

/// Of the host's directories above the machine's files those from which a relative path may come
/// to them: what it may begin with.
const BEGINNINGS: [&[u8]; 11] = [
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
    b"..",
];
/// The longest of them, with what ends it.
const LOOK: usize = 16;

/// What a program opens to make itself a TUN or TAP interface.
pub(crate) const TUN: &[u8] = b"/dev/net/tun";

/// Devices that give random numbers.
pub(crate) const RANDOM: [&CStr; 2] = [c"/dev/random", c"/dev/urandom"];

/// A file of the machine's.
pub(crate) struct Place {
    /// The kernel's number of the directory that the path starts from, or `AT_FDCWD`.
    pub(crate) directory: i32,
    pub(crate) path: CString,
    /// The path started from a directory of the host's.
    pub(crate) relative: bool,
}

impl Worker {
    /// Where a path in the thread's memory leads to, from the directory that it has open under the number
    /// `from`; `None` if that is none of the machine's business.
    pub(crate) fn locate(&self, tid: i32, from: i32, path: u64) -> Option<Place> {
        let mut start = [0; LOOK];
        let len = target::read_string(tid, path, &mut start)?;
        let start = &start[..len];
        let process = &self.processes[&self.threads[&tid].pid];
        let relative = start.first() != Some(&b'/');
        let entry = match relative && from != libc::AT_FDCWD {
            true => process.table.get(from as u64),
            false => None,
        };
        let entry = entry.filter(|entry| entry.file.named);
        // Most paths lead elsewhere, and need not be read to their end.
        let wanders = relative && process.wanders;
        if entry.is_none() && !wanders && !may_lead_here(start) {
            return None;
        }
        let mut whole = [0; libc::PATH_MAX as usize];
        let len = target::read_string(tid, path, &mut whole)?;
        let whole = &whole[..len];
        if let Some(entry) = entry {
            let path = CString::new(whole).ok()?;
            let directory = entry.number;
            let relative = false;
            return Some(Place {
                directory,
                path,
                relative,
            });
        }
        let path = match relative {
            true => {
                let mut path = target::directory(process.pid, from)?;
                path.push(b'/');
                path.extend(whole);
                path
            }
            false => whole.to_vec(),
        };
        let neighbour = |number| self.is_neighbour(tid, number);
        let path = follow(&path, |parts| {
            let own = place(parts, neighbour);
            own.or_else(|| {
                self.turn
                    .as_ref()
                    .and_then(|_| place_in_virtual_time(parts))
            })
        })?;
        Some(Place {
            directory: libc::AT_FDCWD,
            path: CString::new(path).ok()?,
            relative,
        })
    }

    /// Whether this is the number of a process or a thread in the same network as the thread.
    fn is_neighbour(&self, tid: i32, number: i32) -> bool {
        let network = |tid| {
            let thread = self.threads.get(&tid)?;
            Some((self.processes[&thread.pid].machine, thread.network))
        };
        let number = self.number_of(tid, number);
        number.is_some_and(|number| network(number) == network(tid))
    }
}

/// Whether an absolute path that has no links and dots in it leads to the machine's files.
pub(crate) fn is_place(path: &[u8]) -> bool {
    translate(path, |_| true).is_some()
}

/// Whether a path that begins like this can lead to the machine's files at all.
fn may_lead_here(start: &[u8]) -> bool {
    let parts = || start.split(|byte| *byte == b'/');
    let Some(first) = parts().find(|part| !part.is_empty() && *part != b".") else {
        return false;
    };
    let number = first.iter().all(u8::is_ascii_digit);
    number || BEGINNINGS.contains(&first)
}

/// The kernel's name of an absolute path, if it is one of the machine's files: `/proc/net` and what is in it, for
/// example. `neighbour` says whether a process or thread of this number is in the same network.
pub fn translate(path: &[u8], neighbour: impl Fn(i32) -> bool) -> Option<Vec<u8>> {
    follow(path, |parts| place(parts, &neighbour))
}

/// Walks along a path, until `place` says that it has come to a place of the machine's, and on from there.
fn follow(path: &[u8], place: impl Fn(&[&[u8]]) -> Option<&'static [u8]>) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut name: Option<Vec<u8>> = None;
    let mut below = 0;
    let all = path.split(|byte| *byte == b'/');
    for part in all.filter(|part| !part.is_empty() && *part != b".") {
        match (&mut name, part) {
            // Out of the machine's files again.
            (Some(_), b"..") if below == 0 => {
                name = None;
                match parts.pop() {
                    Some(b"net") if parts == [b"proc"] => parts.push(b"self"),
                    _ => {}
                }
            }
            (Some(name), part) => {
                name.push(b'/');
                name.extend(part);
                below += 1;
            }
            // Up to here no link leads sideways, and ".." is what it looks like.
            (None, b"..") => drop(parts.pop()),
            (None, part) => {
                parts.push(part);
                name = place(&parts).map(<[u8]>::to_vec);
            }
        }
    }
    let mut name = name?;
    if path.ends_with(b"/") || path.ends_with(b"/.") {
        name.push(b'/');
    }
    Some(name)
}

/// The kernel's name of a directory that is the machine's, with all that is in it.
fn place(parts: &[&[u8]], neighbour: impl Fn(i32) -> bool) -> Option<&'static [u8]> {
    let near = |number: &[u8]| {
        let number = std::str::from_utf8(number).ok();
        number.and_then(|n| n.parse().ok()).is_some_and(&neighbour)
    };
    match parts {
        [b"proc", b"net"] => Some(b"/proc/net"),
        [b"proc", b"self" | b"thread-self", b"net"] => Some(b"/proc/self/net"),
        [b"proc", b"self", b"task", _, b"net"] => Some(b"/proc/self/net"),
        [b"proc", pid, b"net"] if near(pid) => Some(b"/proc/self/net"),
        [b"proc", pid, b"task", _, b"net"] if near(pid) => Some(b"/proc/self/net"),
        [b"proc", b"sys", b"net"] => Some(b"/proc/sys/net"),
        [b"sys", b"class", b"net"] => Some(b"/sys/class/net"),
        [b"dev", b"net", b"tun"] => Some(TUN),
        [b"sys", b"devices", b"virtual", b"net"] => Some(b"/sys/devices/virtual/net"),
        _ => None,
    }
}

/// The same of what tells of time, of chance or of the host's processors.
fn place_in_virtual_time(parts: &[&[u8]]) -> Option<&'static [u8]> {
    match parts {
        [b"proc", b"uptime"] => Some(b"/proc/uptime"),
        [b"proc", b"loadavg"] => Some(b"/proc/loadavg"),
        [b"proc", b"stat"] => Some(b"/proc/stat"),
        [b"proc", b"cpuinfo"] => Some(b"/proc/cpuinfo"),
        [b"proc", b"interrupts"] => Some(b"/proc/interrupts"),
        [b"proc", b"softirqs"] => Some(b"/proc/softirqs"),
        [b"proc", b"sys", b"kernel", b"random"] => Some(b"/proc/sys/kernel/random"),
        [b"sys", b"devices", b"system", b"cpu"] => Some(b"/sys/devices/system/cpu"),
        [b"dev", b"random"] => Some(RANDOM[0].to_bytes()),
        [b"dev", b"urandom"] => Some(RANDOM[1].to_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Option<String> {
        let name = translate(path.as_bytes(), |number| number == 77);
        name.map(|name| String::from_utf8(name).unwrap())
    }

    #[test]
    fn names() {
        for (path, kernels) in [
            ("/proc/net", "/proc/net"),
            ("/proc/net/", "/proc/net/"),
            ("//proc/./net/dev", "/proc/net/dev"),
            ("/proc/self/net/tcp", "/proc/self/net/tcp"),
            ("/proc/thread-self/net", "/proc/self/net"),
            ("/proc/self/task/5/net/tcp", "/proc/self/net/tcp"),
            ("/proc/77/net/tcp", "/proc/self/net/tcp"),
            ("/proc/77/task/78/net/", "/proc/self/net/"),
            ("/proc/1/../sys/net/ipv4", "/proc/sys/net/ipv4"),
            ("/dev/net/tun", "/dev/net/tun"),
            ("/sys/class/net/lo/mtu", "/sys/class/net/lo/mtu"),
            ("/sys/class/net/lo/../lo", "/sys/class/net/lo/../lo"),
            ("/sys/devices/virtual/net/.", "/sys/devices/virtual/net/"),
            ("/../sys/class//net", "/sys/class/net"),
            ("/sys/class/net/../net/lo", "/sys/class/net/lo"),
            ("/proc/net/../net/dev", "/proc/self/net/dev"),
        ] {
            assert_eq!(name(path).as_deref(), Some(kernels), "{path}");
        }
        for path in [
            "",
            "/",
            "/proc/network",
            "/proc/self/status",
            "/proc/sys/kernel",
            "/dev/net",
            "/dev/net/tun0",
            "/proc/76/net",
            "/proc/net77/net",
            "/etc/proc/net",
            "/sys/class",
            "/sys/class/net/../..",
            "/proc/net/../status",
            "/proc/sys/net/../../../etc/passwd",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
    }

    #[test]
    fn names_in_virtual_time() {
        let name = |path: &str| follow(path.as_bytes(), place_in_virtual_time);
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
        assert!(translate(b"/proc/uptime", |_| true).is_none());
    }

    #[test]
    fn beginnings() {
        let look = |path: &str| may_lead_here(&path.as_bytes()[..path.len().min(LOOK)]);
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
