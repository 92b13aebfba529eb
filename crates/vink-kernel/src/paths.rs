//! Which paths lead to a machine's own files, and what their names are in the kernel.
//!
//! `/proc/net`, `/proc/sys/net`, `/sys/class/net`, `/sys/devices/virtual/net` and `/dev/net/tun`
//! have the same names there. A process has its `net` below its number, which is another one in the
//! kernel; the one of the calling task stands for those of all processes in the same network.
//!
//! A module's directory in `/sys/module` is the kernel's if the image has the module, and the
//! host's otherwise: programs look there for KVM, AppArmor and others that are the host's.
//! `/sys/module` itself is the host's.

use std::borrow::Cow;
use std::ffi::CString;

/// Where the modules' directories are.
pub const MODULES: &[u8] = b"/sys/module";

/// What a program opens to make itself a TUN or TAP interface.
pub const TUN: &[u8] = b"/dev/net/tun";

/// The module's directory that a kernel's name of a file is in: the file is the machine's only if
/// the kernel has that.
pub fn module_directory(name: &[u8]) -> Option<CString> {
    let rest = name.strip_prefix(MODULES)?.strip_prefix(b"/")?;
    let module = rest.split(|byte| *byte == b'/').next()?;
    CString::new([MODULES, b"/", module].concat()).ok()
}

/// The kernel's name of an absolute path, if it is one of the machine's files: `/proc/net` and what
/// is in it, for example. `neighbour` says whether a process or thread of this number is in the
/// same network. Whether the kernel has the module of a [`module_directory`] is not checked.
pub fn machine_path(path: &[u8], neighbour: impl Fn(i32) -> bool) -> Option<Vec<u8>> {
    follow(path, |parts| virtual_name(parts, &neighbour))
}

/// Walks along a path, until `place` says that it has come to a place of the machine's, and on from
/// there.
pub fn follow(
    path: &[u8],
    place: impl Fn(&[&[u8]]) -> Option<Cow<'static, [u8]>>,
) -> Option<Vec<u8>> {
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
                name = place(&parts).map(Cow::into_owned);
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
pub fn virtual_name(
    parts: &[&[u8]],
    neighbour: impl Fn(i32) -> bool,
) -> Option<Cow<'static, [u8]>> {
    let near = |number: &[u8]| {
        let number = std::str::from_utf8(number).ok();
        number.and_then(|n| n.parse().ok()).is_some_and(&neighbour)
    };
    let name: &[u8] = match parts {
        [b"proc", b"net"] => b"/proc/net",
        [b"proc", b"self" | b"thread-self", b"net"] => b"/proc/self/net",
        [b"proc", b"self", b"task", _, b"net"] => b"/proc/self/net",
        [b"proc", pid, b"net"] if near(pid) => b"/proc/self/net",
        [b"proc", pid, b"task", _, b"net"] if near(pid) => b"/proc/self/net",
        [b"proc", b"sys", b"net"] => b"/proc/sys/net",
        [b"sys", b"class", b"net"] => b"/sys/class/net",
        [b"dev", b"net", b"tun"] => TUN,
        [b"sys", b"devices", b"virtual", b"net"] => b"/sys/devices/virtual/net",
        [b"sys", b"module", module] => return Some([MODULES, b"/", module].concat().into()),
        _ => return None,
    };
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Option<String> {
        let name = machine_path(path.as_bytes(), |number| number == 77);
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
            ("/sys/module/ipv6/parameters", "/sys/module/ipv6/parameters"),
            ("/sys/module/kvm/../ipv6/", "/sys/module/ipv6/"),
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
            "/sys/module/",
            "/sys/class/net/../..",
            "/proc/net/../status",
            "/proc/sys/net/../../../etc/passwd",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
    }

    #[test]
    fn modules() {
        for (path, module) in [
            ("/sys/module/ipv6", Some(c"/sys/module/ipv6")),
            ("/sys/module/ipv6/", Some(c"/sys/module/ipv6")),
            ("/sys/module/ipv6/parameters/x", Some(c"/sys/module/ipv6")),
            ("/sys/class/net", None),
            ("/sys/module", None),
        ] {
            assert_eq!(module_directory(path.as_bytes()).as_deref(), module);
        }
    }
}
