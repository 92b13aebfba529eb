//! What the worker reads from and writes to a trapped process: its memory, and its `/proc`.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::ptr::null;

/// Copies from the thread's memory. False if not all of it is readable.
pub(crate) fn read(tid: i32, address: u64, into: &mut [u8]) -> bool {
    let local = vector(into.as_mut_ptr().cast(), into.len());
    let remote = vector(address as *mut libc::c_void, into.len());
    // SAFETY: the local vector is the slice; the remote one is checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    copied == into.len() as isize
}

/// As [`read`] from several places, in this order: how many bytes could be read.
pub(crate) fn read_parts(tid: i32, parts: &mut [(u64, &mut [u8])]) -> usize {
    let local = |part: &mut (u64, &mut [u8])| vector(part.1.as_mut_ptr().cast(), part.1.len());
    let local: Vec<libc::iovec> = parts.iter_mut().map(local).collect();
    let remote: Vec<libc::iovec> = parts
        .iter()
        .map(|p| vector(p.0 as *mut libc::c_void, p.1.len()))
        .collect();
    let count = parts.len() as libc::c_ulong;
    // SAFETY: the local vectors are the slices, the remote ones are checked by the kernel; as many as said.
    let copied =
        unsafe { libc::process_vm_readv(tid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// So many bytes from there on, in whosever memory.
fn vector(base: *mut libc::c_void, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base,
        iov_len: length,
    }
}

/// Copies a NUL-terminated string, or as much of it as there is room for, from the thread's memory:
/// its length without the NUL. `None` if it is not readable.
pub(crate) fn read_string(tid: i32, address: u64, into: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    while len < into.len() {
        // Up to the page's end: what is behind it may not be there.
        let at = address.wrapping_add(len as u64);
        let room = (4096 - at % 4096) as usize;
        let end = into.len().min(len + room.min(256));
        if !read(tid, at, &mut into[len..end]) {
            return None;
        }
        if let Some(nul) = into[len..end].iter().position(|b| *b == 0) {
            return Some(len + nul);
        }
        len = end;
    }
    Some(len)
}

/// Reads a 64-bit number.
pub(crate) fn read_u64(tid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(tid, address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

/// Whether the two processes have one memory (kcmp(2)).
pub(crate) fn share_memory(pid: i32, other: i32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, other, KCMP_VM, 0, 0) == 0 }
}

/// Copies to the thread's memory. False if not all of it is writable.
pub(crate) fn write(tid: i32, address: u64, from: &[u8]) -> bool {
    let local = vector(from.as_ptr().cast_mut().cast(), from.len());
    let remote = vector(address as *mut libc::c_void, from.len());
    // SAFETY: the local vector is the slice, and only read; the remote one is checked by the kernel.
    let copied = unsafe { libc::process_vm_writev(tid, &local, 1, &remote, 1, 0) };
    copied == from.len() as isize
}

/// As [`write`] to several places, in this order: how many bytes could be written.
pub(crate) fn write_parts(tid: i32, parts: &[(u64, &[u8])]) -> usize {
    let local = |part: &(u64, &[u8])| vector(part.1.as_ptr().cast_mut().cast(), part.1.len());
    let local: Vec<libc::iovec> = parts.iter().map(local).collect();
    let remote: Vec<libc::iovec> = parts
        .iter()
        .map(|p| vector(p.0 as *mut libc::c_void, p.1.len()))
        .collect();
    let count = parts.len() as libc::c_ulong;
    // SAFETY: the local vectors are the slices, and only read; the remote ones are checked by the kernel; as many as said.
    let copied =
        unsafe { libc::process_vm_writev(tid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// The process and the parent process of a thread; `None` if it is gone.
pub(crate) fn kin(tid: i32) -> Option<(i32, i32)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let field = |name: &str| -> Option<i32> {
        let line = status.lines().find(|l| l.starts_with(name))?;
        line[name.len()..].trim().parse().ok()
    };
    Some((field("Tgid:")?, field("PPid:")?))
}

/// The number of a thread in its own pid namespace; `None` if it is gone.
pub(crate) fn own_number(tid: i32) -> Option<i32> {
    own_number_of_kind(tid, "NSpid:")
}

/// As which user a thread opens files; `None` if it is gone.
pub(crate) fn user(tid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The children that a thread made and that have not been reaped.
pub(crate) fn children(pid: i32, tid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    let list = list.unwrap_or_default();
    list.split_ascii_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The threads of a process, in the order of their making as far as numbers tell it.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let mut all = numbers_in(&format!("/proc/{pid}/task"));
    all.sort_unstable();
    all
}

/// The same of its process (`NStgid:`), group (`NSpgid:`) and so on; see proc_pid_status(5).
pub(crate) fn own_number_of_kind(pid: i32, name: &str) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The thread of a process that knows itself by this number.
pub(crate) fn thread_by_own_number(pid: i32, number: i32) -> Option<i32> {
    let mut all = threads(pid).into_iter();
    all.find(|tid| own_number(*tid) == Some(number))
}

/// The process that one of this process's descriptors stands for (pidfd_open(2)), unless that is never to wait
/// (`PIDFD_NONBLOCK`).
pub(crate) fn process_of_pidfd(pid: i32, number: i32) -> Option<i32> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
    let flags = i32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
    match flags & libc::O_NONBLOCK {
        0 => field("Pid:")?.trim().parse().ok(),
        _ => None,
    }
}

/// Whether the process has this thread.
pub(crate) fn has_thread(pid: i32, tid: i32) -> bool {
    fs::symlink_metadata(format!("/proc/{pid}/task/{tid}")).is_ok()
}

/// Device and inode of what the process has open under a number; `None` if nothing.
pub(crate) fn descriptor(pid: i32, number: i32) -> Option<(u64, u64)> {
    let path = CString::new(format!("/proc/{pid}/fd/{number}")).expect("no zero in there");
    // SAFETY: all zero is a valid value of this plain structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a terminated string, and a structure to fill.
    let found = unsafe { libc::stat(path.as_ptr(), &mut stat) } == 0;
    found.then_some((stat.st_dev, stat.st_ino))
}

/// The network namespace that a thread is in: what tells it from others, and itself, open. `None` if
/// that can't be known.
pub(crate) fn network(tid: i32) -> Option<((u64, u64), fs::File)> {
    let file = fs::File::open(format!("/proc/{tid}/ns/net")).ok()?;
    let found = file.metadata().ok()?;
    Some(((found.dev(), found.ino()), file))
}

/// The numbers that the process has open.
pub(crate) fn descriptors(pid: i32) -> Vec<i32> {
    numbers_in(&format!("/proc/{pid}/fd"))
}

/// The numbers that are names in a directory.
fn numbers_in(path: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(number).collect()
}

/// The path of a directory that the process has open under a number, or is in (`AT_FDCWD`).
pub(crate) fn directory(pid: i32, number: i32) -> Option<Vec<u8>> {
    let link = match number {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        number => format!("/proc/{pid}/fd/{number}"),
    };
    fs::read_link(link)
        .ok()
        .map(|path| path.into_os_string().into_vec())
}

/// Whether what the process has open under a number is an epoll instance.
pub(crate) fn is_epoll(pid: i32, number: i32) -> bool {
    let link = fs::read_link(format!("/proc/{pid}/fd/{number}"));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
}

/// Device and inode of an open file.
pub(crate) fn identity(file: RawFd) -> (u64, u64) {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure.
    unsafe { libc::fstat(file, &mut stat) };
    (stat.st_dev, stat.st_ino)
}

/// Whether an execve(2) of the process closes the descriptor.
pub(crate) fn closes_on_exec(pid: i32, number: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| i32::from_str_radix(octal.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// Whether the process has the file of this device and inode mapped.
pub(crate) fn maps(pid: i32, (device, inode): (u64, u64)) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let device = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
    let inode = inode.to_string();
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        fields.next() == Some(&device) && fields.next() == Some(&inode)
    })
}

/// Whether the process may have one more descriptor.
pub(crate) fn has_room(pid: i32, pidfd: &OwnedFd) -> bool {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills the structure.
    if unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, null(), &mut limit) } < 0 {
        return true; // can't be told
    }
    let limit = limit.rlim_cur.min(i32::MAX as u64) as i32;
    // The lowest free number is taken first, so the highest is mostly free as long as any is.
    // SAFETY: makes a descriptor.
    let highest = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), limit - 1, 0) };
    if highest < 0 {
        return limit > 0;
    }
    // SAFETY: new, and nobody else's.
    drop(unsafe { OwnedFd::from_raw_fd(highest as RawFd) });
    (0..limit).any(|number| descriptor(pid, number).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    fn me() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn memory() {
        let mut there = *b"some bytes";
        let mut here = [0; 4];
        let address = &raw mut there as u64;
        assert!(read(me(), address + 5, &mut here));
        assert_eq!(&here, b"byte");
        assert!(write(me(), address, b"SOME"));
        assert_eq!(&there, b"SOME bytes");
        assert!(!read(me(), 8, &mut here));
        assert!(!write(me(), 8, &here));
        assert_eq!(read_u64(me(), 8), None);
        let (mut first, mut second) = ([0; 4], [0; 5]);
        let mut parts = [
            (address, &mut first[..]),
            (address + 5, &mut second[..]),
            (8, &mut []),
        ];
        assert_eq!(read_parts(me(), &mut parts), 9);
        assert_eq!((&first, &second), (b"SOME", b"bytes"));
        let mut parts = [(address, &mut first[..]), (8, &mut second[..])];
        assert_eq!(read_parts(me(), &mut parts), 4);
        let parts: [(u64, &[u8]); 2] = [(address, b"more"), (address + 5, b"text")];
        assert_eq!(write_parts(me(), &parts), 8);
        assert_eq!(&there, b"more texts");
        assert_eq!(write_parts(me(), &[parts[0], (8, b"text")]), 4);
        let text = c"/proc/net/dev";
        let mut short = [0; 6];
        assert_eq!(read_string(me(), text.as_ptr() as u64, &mut short), Some(6));
        assert_eq!(&short, b"/proc/");
        let mut long = [0; 300];
        assert_eq!(read_string(me(), text.as_ptr() as u64, &mut long), Some(13));
        assert_eq!(read_string(me(), 8, &mut long), None);
    }

    #[test]
    fn relations() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        // SAFETY: returns a number.
        let tid = unsafe { libc::gettid() };
        assert_eq!(kin(pid), Some((pid, me())));
        assert_eq!(kin(tid).unwrap().0, me());
        // SAFETY: returns a number.
        assert_eq!(own_number(tid), Some(unsafe { libc::gettid() }));
        assert!(threads(me()).contains(&tid) && threads(pid) == [pid]);
        assert_eq!(own_number_of_kind(tid, "NStgid:"), Some(me()));
        assert_eq!(thread_by_own_number(me(), tid), Some(tid));
        assert_eq!(thread_by_own_number(pid, tid), None);
        let pidfd = crate::launch::open_pidfd(pid).unwrap();
        assert_eq!(process_of_pidfd(me(), pidfd.as_raw_fd()), Some(pid));
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(pidfd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(process_of_pidfd(me(), pidfd.as_raw_fd()), None);
        assert_eq!(process_of_pidfd(me(), 0), None);
        assert!(children(me(), tid).contains(&pid));
        assert!(has_thread(me(), tid) && !has_thread(pid, tid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(me(), tid).contains(&pid));
        assert_eq!(kin(pid), None);
    }

    #[test]
    fn shared_memory() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // SAFETY: returns a number.
        let tid = unsafe { libc::gettid() };
        assert!(share_memory(me(), tid) && !share_memory(me(), child.id() as i32));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn networks() {
        let (key, file) = network(me()).unwrap();
        assert_eq!(descriptor(me(), file.as_raw_fd()), Some(key));
        assert!(network(0).is_none());
    }

    #[test]
    fn room() {
        let mut cat = Command::new("cat");
        let cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = cat.spawn().unwrap();
        // Once it has echoed something, it opens nothing more.
        let mut echo = [0];
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut echo)
            .unwrap();
        let pid = child.id() as i32;
        let pidfd = crate::launch::open_pidfd(pid).unwrap();
        for (limit, room) in [(64, true), (3, false), (1, false), (0, false)] {
            let limit = libc::rlimit64 {
                rlim_cur: limit,
                rlim_max: 64,
            };
            // SAFETY: reads the structure.
            let done =
                unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
            assert_eq!((done, has_room(pid, &pidfd)), (0, room));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn mappings() {
        let path = std::env::temp_dir().join(format!("vink-trap-maps-{}", me()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        fs::remove_file(path).unwrap();
        file.set_len(4096).unwrap();
        let identity = identity(file.as_raw_fd());
        assert!(!maps(me(), identity));
        // SAFETY: a new mapping, and its end.
        let mapped = unsafe {
            let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
            let start = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, shared, fd, 0);
            let mapped = maps(me(), identity);
            assert_eq!(libc::munmap(start, 4096), 0);
            mapped
        };
        assert!(mapped && !maps(me(), identity));
        assert!(closes_on_exec(me(), file.as_raw_fd()) && !closes_on_exec(me(), 0));
    }

    #[test]
    fn open_files() {
        let a = fs::File::open("/proc/self/status").unwrap();
        let b = a.try_clone().unwrap();
        let c = fs::File::open("/dev/null").unwrap();
        let id = |f: &fs::File| descriptor(me(), f.as_raw_fd());
        assert_eq!(id(&a), id(&b));
        assert_ne!(id(&a), id(&c));
        assert_eq!(descriptor(me(), 1_000_000), None);
        let all = descriptors(me());
        assert!([&a, &b, &c].iter().all(|f| all.contains(&f.as_raw_fd())));
        assert!(!all.contains(&1_000_000));
    }
}
