//! The machine's own view of the system: paths to `/proc/net`, `/proc/sys/net`, `/sys/class/net`, `/dev/net/tun` and to the
//! image's modules in `/sys/module` are looked up in the kernel, and what is opened there is a Vink file like a socket.

use std::cell::Cell;
use std::ffi::CString;

use vink_kernel::paths::{machine_path, module_directory};
use vink_syscalls::{open_flags, path_args, OpenFlags, PathArgs};

use crate::descriptors::{self, Entry};
use crate::enter::{make, own};
use crate::host;
use crate::state::{self, call};
use crate::thread::Thread;

const EFAULT: i64 = -(libc::EFAULT as i64);

thread_local! {
    /// This thread's task has its machine's sysfs.
    static HAS_SYSFS: Cell<bool> = const { Cell::new(false) };
}

/// Whether what a path begins with can lead to the machine's files.
fn may_lead_here(start: &[u8]) -> bool {
    [&b"/proc/"[..], b"/sys/", b"/dev/net"]
        .iter()
        .any(|beginning| start.starts_with(beginning))
}

/// Whether a path has what all names of the machine's files have: `/net`, or `/module/`. The C library opens files of `/sys` in
/// the middle of malloc(3): nothing may be allocated for those.
fn may_be_machines(path: &[u8]) -> bool {
    [&b"/net"[..], b"/module/"]
        .iter()
        .any(|name| path.windows(name.len()).any(|part| part == *name))
}

/// open(2), stat(2) and others that have a path.
pub(crate) fn look_up(thread: &Thread, nr: i64, mut args: [u64; 6]) -> i64 {
    let (from, path) = match path_args(nr) {
        PathArgs::At(path) => (None, path),
        PathArgs::Below(from, path) => (Some(from), path),
        PathArgs::None => return host::call(nr, args),
    };
    let directory = from.map_or(Entry::Host, |from| descriptors::get(args[from]));
    let mut start = [0u8; 8];
    let Some(length) = string(args[path], &mut start) else {
        return host::call(nr, args);
    };
    let start = &start[..length];
    // Of a descriptor itself, or below a directory of the kernel's.
    if let (Some(from), Entry::File(number), false) = (from, directory, start.starts_with(b"/")) {
        args[from] = number as u64;
        let result = ask(thread, nr, args);
        if result == 0 && nr == libc::SYS_newfstatat && start.is_empty() {
            own(args[2]);
        }
        return result;
    }
    if !may_lead_here(start) || state::is_orphan() {
        return host::call(nr, args);
    }
    let mut whole = [0u8; libc::PATH_MAX as usize];
    let Some(length) = string(args[path], &mut whole) else {
        return EFAULT;
    };
    if !may_be_machines(&whole[..length]) {
        return host::call(nr, args);
    }
    let own = host::call(libc::SYS_getpid, [0; 6]);
    let name = machine_path(&whole[..length], |number| i64::from(number) == own);
    let Some(name) = name.and_then(|name| CString::new(name).ok()) else {
        return host::call(nr, args);
    };
    if let Err(error) = state::stack(thread) {
        return error;
    }
    if name.as_bytes().starts_with(b"/sys/") {
        mount_sysfs(thread);
    }
    if let Some(module) = module_directory(name.as_bytes()) {
        let looks = [module.as_ptr() as u64, libc::F_OK as u64, 0, 0, 0, 0];
        if call(thread, libc::SYS_access, looks) != 0 {
            return host::call(nr, args);
        }
    }
    if let Some(from) = from {
        args[from] = libc::AT_FDCWD as u64;
    }
    args[path] = name.as_ptr() as u64;
    ask(thread, nr, args)
}

/// The kernel's answer.
fn ask(thread: &Thread, nr: i64, args: [u64; 6]) -> i64 {
    let flags = match open_flags(nr) {
        OpenFlags::Flags(at) => args[at],
        OpenFlags::How(at) => {
            let mut how = [0u64];
            if !host::read(&mut how, args[at]) {
                return EFAULT;
            }
            how[0]
        }
        OpenFlags::None => return call(thread, nr, args),
    };
    let cloexec = flags & libc::O_CLOEXEC as u64 != 0;
    make(thread, cloexec, || call(thread, nr, args))
}

/// A sysfs shows the network namespace that it was mounted in, and the one that all tasks begin with was mounted at
/// boot.
fn mount_sysfs(thread: &Thread) {
    if HAS_SYSFS.replace(true) {
        return;
    }
    let (name, place) = (c"sysfs".as_ptr() as u64, c"/sys".as_ptr() as u64);
    let flags = libc::CLONE_NEWNS as u64;
    call(thread, libc::SYS_unshare, [flags, 0, 0, 0, 0, 0]);
    call(thread, libc::SYS_mount, [name, place, name, 0, 0, 0]);
}

/// Reads a string of the program's: its length, or how much there is room for. `None`: it can't be read.
fn string(at: u64, into: &mut [u8]) -> Option<usize> {
    const PAGE: usize = 4096;
    let mut done = 0;
    while done < into.len() {
        let here = at as usize + done;
        let some = (PAGE - here % PAGE).min(into.len() - done);
        let part = &mut into[done..done + some];
        if !host::read(part, here as u64) {
            return None;
        }
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            return Some(done + end);
        }
        done += some;
    }
    Some(done)
}
