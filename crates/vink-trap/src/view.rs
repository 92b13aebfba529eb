//! A machine's own view of the system: `/proc/net`, `/proc/sys/net` and `/sys/class/net`.
//!
//! The kernel in the image has these files. The program gets a copy of the contents as a real host
//! file for a placeholder, with which reading, seeking and the rest work natively. Such files are
//! made up when they are read: the copy is made anew whenever it is read from its start, and after
//! each write, which goes to the kernel. (Not when pread(2) reads it, which is not trapped; and
//! fstat(2) gives the copy's size, where Linux gives 0.) What is opened for writing alone is a Vink
//! file like a socket. A directory is a Vink file whose placeholder is a directory of the host.
//!
//! Only open(2) and openat(2) look there: stat(2), access(2) and readlink(2) are not trapped, and
//! find the files of an empty network namespace.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use vink_kernel::TaskId;

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

const EISDIR: i64 = -(libc::EISDIR as i64);
const ENFILE: i64 = -(libc::ENFILE as i64);

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
        if flags & libc::O_ACCMODE == libc::O_WRONLY {
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
        // What can be named can be read here, and must be.
        let flags = flags & !libc::O_PATH;
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
        let number = number as i32;
        let file = match self.contents(task, number)? {
            Ok(contents) => copy(&contents).map_err(|_| ENFILE),
            Err(EISDIR) => File::directory(&path).map_err(|_| ENFILE),
            Err(error) => Err(error),
        };
        match file {
            Ok(file) => {
                if self.install(call, Entry { file, number }, cloexec)? == Sent::Gone {
                    self.close_own(call.tid, number)?;
                }
                Ok(())
            }
            Err(result) => {
                self.close_own(call.tid, number)?;
                self.answer(call, result)
            }
        }
    }

    /// All that can be read of a file of the kernel's, or the error if that is nothing.
    fn contents(&mut self, task: TaskId, number: i32) -> Result<Result<Vec<u8>, i64>, Error> {
        let mut contents = Vec::new();
        loop {
            let old = contents.len();
            contents.resize(old + CHUNK, 0);
            let into = contents[old..].as_mut_ptr() as u64;
            let args = [number as u64, into, CHUNK as u64, old as u64, 0, 0];
            let got = self.call(task, libc::SYS_pread64, args)?;
            contents.truncate(old + usize::try_from(got).unwrap_or(0));
            if got < 0 && contents.is_empty() {
                return Ok(Err(got));
            }
            if got <= 0 || contents.len() > LARGEST {
                return Ok(Ok(contents));
            }
        }
    }

    /// A call on a file that the program has a copy of. What the kernel need not know of is the
    /// host's.
    pub(crate) fn use_copy(&mut self, call: Notification, entry: &Entry) -> Result<(), Error> {
        let end = entry.file.placeholder.program_end();
        // The offset is common to all descriptors of the copy, the program's and this one.
        // SAFETY: takes numbers.
        let offset = unsafe { libc::lseek(end, 0, libc::SEEK_CUR) };
        let writes = call.nr == libc::SYS_write;
        let begins = matches!(call.nr, libc::SYS_read | libc::SYS_readv) && offset == 0;
        if !writes && !begins {
            return self.pass(call);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = soften(error)?;
                return self.answer(call, result);
            }
        };
        let mut written = 0;
        if writes {
            let mut text = vec![0; (call.args[2] as usize).min(CHUNK)];
            if !target::read(call.tid, call.args[1], &mut text) {
                return self.answer(call, -i64::from(libc::EFAULT));
            }
            let (from, len) = (text.as_ptr() as u64, text.len() as u64);
            let number = entry.number as u64;
            let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
            self.call(task, libc::SYS_lseek, to)?;
            written = self.call(task, libc::SYS_write, [number, from, len, 0, 0, 0])?;
        }
        if let (Ok(contents), Some(copy)) = (self.contents(task, entry.number)?, &entry.file.copy) {
            // Out of memory: the old contents must do.
            let _ = copy.set_len(0).and(copy.write_all_at(&contents, 0));
        }
        if !writes {
            return self.pass(call);
        }
        if written > 0 {
            // SAFETY: takes numbers.
            unsafe { libc::lseek(end, offset + written, libc::SEEK_SET) };
        }
        self.answer(call, written)
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
}

/// A file of which the program gets these contents, for reading.
fn copy(contents: &[u8]) -> std::io::Result<Rc<File>> {
    // SAFETY: makes a descriptor, which is then owned once.
    let file = unsafe {
        let fd = libc::memfd_create(c"vink".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all_at(contents, 0)?;
    let again = std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(File::copied(file, again.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let file = copy(b"contents").unwrap();
        let path = format!("/proc/self/fd/{}", file.placeholder.program_end());
        assert_eq!(std::fs::read(path).unwrap(), b"contents");
        // SAFETY: one byte, as said.
        let written =
            unsafe { libc::write(file.placeholder.program_end(), c"x".as_ptr().cast(), 1) };
        assert_eq!(written, -1);
    }
}
