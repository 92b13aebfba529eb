//! A machine's own view of the system: `/proc/net`, `/proc/sys/net` and `/sys/class/net`.
//!
//! The kernel in the image has these files. What is opened for reading is read to its end there and
//! then, and the program gets a copy as a real file, with which everything works natively. (Such
//! files are made up when they are read; one that stays open and is read again shows the old
//! contents.) What is opened for writing is a Vink file, so that each write reaches the kernel. A
//! directory is a Vink file whose placeholder is a directory of the host.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::notify::{Notification, Sent};
use crate::process::{Entry, File};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// Where the machine's own files are.
const PLACES: [&[u8]; 5] = [
    b"/proc/net",
    b"/proc/self/net",
    b"/proc/sys/net",
    b"/sys/class/net",
    b"/sys/devices/virtual/net",
];

/// More than any of these files holds; a file that does not end is cut off.
const LARGEST: usize = 64 << 20;
const CHUNK: usize = 64 << 10;

fn is_ours(path: &[u8]) -> bool {
    PLACES.iter().any(|place| {
        let rest = path.strip_prefix(*place);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    })
}

impl Worker {
    /// open(2) and openat(2).
    pub(crate) fn open(&mut self, call: Notification) -> Result<(), Error> {
        let (path, flags) = match call.nr {
            libc::SYS_open => (call.args[0], call.args[1] as i32),
            _ => (call.args[1], call.args[2] as i32),
        };
        let table = &self.processes[&self.threads[&call.tid].pid].table;
        // The kernel's number, if it is a directory of the kernel's.
        let parent = match call.nr {
            libc::SYS_openat => table.get(call.args[0]).map(|entry| entry.number),
            _ => None,
        };
        let below = parent.is_some();
        let mut start = [0; 6];
        let ours = match target::read_string(call.tid, path, &mut start) {
            // Most paths are neither, and need not be read to their end.
            Some(_) if !below && !start.starts_with(b"/proc/") && !start.starts_with(b"/sys/") => {
                None
            }
            Some(_) => {
                let mut whole = [0; libc::PATH_MAX as usize];
                let path = target::read_string(call.tid, path, &mut whole);
                let path = path.map(|len| &whole[..len]);
                let path = path.filter(|p| is_ours(p) || below && p.first() != Some(&b'/'));
                path.and_then(|p| CString::new(p).ok())
            }
            None => None,
        };
        let Some(path) = ours else {
            return self.pass(call);
        };
        if path.as_bytes().starts_with(b"/sys/") {
            self.mount_sysfs(call.tid)?;
        }
        let cloexec = flags & libc::O_CLOEXEC != 0;
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            let mut args = call.args;
            if let Some(parent) = parent {
                args[0] = parent as u64;
            }
            return self.make(call, args, cloexec);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = soften(error)?;
                return self.answer(call, result);
            }
        };
        let directory = parent.unwrap_or(libc::AT_FDCWD);
        let args = [
            directory as u64,
            path.as_ptr() as u64,
            flags as u64,
            0,
            0,
            0,
        ];
        let number = self.call(task, libc::SYS_openat, args)?;
        if number < 0 {
            return self.answer(call, number);
        }
        let mut contents = Vec::new();
        let end = loop {
            let old = contents.len();
            contents.resize(old + CHUNK, 0);
            let into = contents[old..].as_mut_ptr() as u64;
            let args = [number as u64, into, CHUNK as u64, 0, 0, 0];
            let got = self.call(task, libc::SYS_read, args)?;
            contents.truncate(old + usize::try_from(got).unwrap_or(0));
            if got <= 0 || contents.len() > LARGEST {
                break got;
            }
        };
        if end == -i64::from(libc::EISDIR) {
            let file = File::directory(&path)?;
            let number = number as i32;
            if self.install(call, Entry { file, number }, cloexec)? == Sent::Gone {
                self.close_own(call.tid, number)?;
            }
            return Ok(());
        }
        self.call(task, libc::SYS_close, [number as u64, 0, 0, 0, 0, 0])?;
        if end < 0 && contents.is_empty() {
            return self.answer(call, end);
        }
        match copy(&contents) {
            Ok(file) => self.give(call, file.as_raw_fd(), cloexec),
            Err(_) => self.answer(call, -i64::from(libc::ENFILE)),
        }
    }

    /// Lets the thread's task see its machine's sysfs. A sysfs shows the network namespace that it
    /// was mounted in, and the one that all tasks begin with was mounted at boot.
    fn mount_sysfs(&mut self, tid: i32) -> Result<(), Error> {
        let thread = self.threads.get_mut(&tid).expect("it makes a call");
        if std::mem::replace(&mut thread.has_sysfs, true) {
            return Ok(());
        }
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(drop),
        };
        let (name, place) = (c"sysfs".as_ptr() as u64, c"/sys".as_ptr() as u64);
        let flags = libc::CLONE_NEWNS as u64;
        self.call(task, libc::SYS_unshare, [flags, 0, 0, 0, 0, 0])?;
        self.call(task, libc::SYS_mount, [name, place, name, 0, 0, 0])?;
        Ok(())
    }

    /// Ends the call with a host file.
    fn give(&mut self, call: Notification, file: RawFd, cloexec: bool) -> Result<(), Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        match listener.answer_fd(call.id, file, cloexec) {
            Ok(_) => Ok(()),
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }
}

/// A file with these contents, open for reading.
fn copy(contents: &[u8]) -> std::io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, which is then owned once.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"vink".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all(contents)?;
    let again = std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(again.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn places() {
        for path in [
            "/proc/net",
            "/proc/net/",
            "/proc/net/dev",
            "/proc/self/net/tcp",
            "/sys/class/net/lo/mtu",
        ] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in [
            "",
            "/",
            "/proc/network",
            "/proc/self/status",
            "/proc/sys/kernel",
            "proc/net",
            "/etc/proc/net",
        ] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn copies_are_for_reading() {
        let mut file = std::fs::File::from(copy(b"contents").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "contents");
        assert!(file.write_all(b"more").is_err());
    }
}
