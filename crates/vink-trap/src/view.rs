//! A machine's own view of the system: `/proc/net`, `/proc/sys/net` and `/sys/class/net`.
//!
//! The kernel in the image has these files. The program gets a copy of the contents as a real host
//! file for a placeholder, with which reading, seeking and the rest work natively. Such files are
//! made up when they are read: the copy is made anew whenever it is read from its start, and after
//! each write, which goes to the kernel. (Not when pread(2) reads it, which is not trapped.)
//! What is opened for writing alone is a Vink file like a socket. So is `/dev/net/tun`, whose frames wait as a
//! socket's do. A directory is a Vink file whose placeholder is a directory of the host.
//!
//! The other calls that look up a path (stat(2), access(2), readlink(2), ...) are the kernel's too if
//! the path is the machine's (`place`). So is fstat(2): programs such as cp(1) look whether they have
//! opened what they had found. For chdir(2) the host needs a directory of the same name.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use vink_kernel::TaskId;

use crate::notify::{Notification, Sent};
use crate::place::{Place, RANDOM, TUN};
use crate::process::{Entry, File};
use crate::serve::soften;
use crate::target;
use crate::turn::clocks::since_boot;
use crate::worker::Worker;
use crate::Error;

/// More than any of these files holds; a file that does not end is cut off.
const LARGEST: usize = 64 << 20;
const CHUNK: usize = 64 << 10;

const EACCES: i64 = -(libc::EACCES as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EISDIR: i64 = -(libc::EISDIR as i64);
const ENFILE: i64 = -(libc::ENFILE as i64);

/// A call that looks up a path: which of its arguments are what.
struct LookUp {
    /// The directory's descriptor.
    from: Option<usize>,
    path: usize,
    /// Another string.
    name: Option<usize>,
    /// Where the result goes, and how long it is.
    out: Option<(usize, Room)>,
}

enum Room {
    /// So many bytes.
    Bytes(usize),
    /// What this argument says at most; the call's result tells.
    Argument(usize),
}

fn look_up(nr: i64) -> Option<LookUp> {
    let stat = Room::Bytes(size_of::<libc::stat>());
    let (from, path, name, out) = match nr {
        libc::SYS_stat | libc::SYS_lstat => (None, 0, None, Some((1, stat))),
        libc::SYS_newfstatat => (Some(0), 1, None, Some((2, stat))),
        libc::SYS_statx => {
            let statx = Room::Bytes(size_of::<libc::statx>());
            (Some(0), 1, None, Some((4, statx)))
        }
        libc::SYS_access => (None, 0, None, None),
        libc::SYS_faccessat | libc::SYS_faccessat2 => (Some(0), 1, None, None),
        libc::SYS_readlink => (None, 0, None, Some((1, Room::Argument(2)))),
        libc::SYS_readlinkat => (Some(0), 1, None, Some((2, Room::Argument(3)))),
        libc::SYS_getxattr | libc::SYS_lgetxattr => {
            (None, 0, Some(1), Some((2, Room::Argument(3))))
        }
        libc::SYS_listxattr | libc::SYS_llistxattr => (None, 0, None, Some((1, Room::Argument(2)))),
        _ => return None,
    };
    Some(LookUp {
        from,
        path,
        name,
        out,
    })
}

impl Worker {
    /// A call that looks up a path.
    pub(crate) fn look_up(&mut self, call: Notification) -> Result<(), Error> {
        let Some(LookUp {
            from,
            path,
            name,
            out,
        }) = look_up(call.nr)
        else {
            return self.pass(call);
        };
        let start = from.map_or(libc::AT_FDCWD, |from| call.args[from] as i32);
        let Some(place) = self.locate(call.tid, start, call.args[path]) else {
            return self.look_at_hosts(call);
        };
        let task = match self.task_at(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return self.answer(call, result),
        };
        let mut args = call.args;
        if let Some(from) = from {
            args[from] = place.directory as u64;
        }
        args[path] = place.path.as_ptr() as u64;
        // As long as an attribute's name may be; the last byte stays zero.
        let mut text = [0; 257];
        if let Some(name) = name {
            if target::read_string(call.tid, call.args[name], &mut text[..256]).is_none() {
                return self.answer(call, EFAULT);
            }
            args[name] = text.as_ptr() as u64;
        }
        let mut buffer = Vec::new();
        if let Some((at, room)) = &out {
            let len = match room {
                Room::Bytes(bytes) => *bytes,
                Room::Argument(n) => {
                    args[*n] = args[*n].min(CHUNK as u64);
                    args[*n] as usize
                }
            };
            buffer.resize(len, 0);
            args[*at] = buffer.as_mut_ptr() as u64;
        }
        let result = self.call(task, call.nr, args)?;
        let Some((at, room)) = out.filter(|_| result >= 0) else {
            return self.answer(call, result);
        };
        if let Room::Argument(_) = room {
            // Of no room at all, it is how much would be needed.
            buffer.truncate(result as usize);
        }
        match target::write(call.tid, call.args[at], &buffer) {
            true => self.answer(call, result),
            false => self.answer(call, EFAULT),
        }
    }

    /// chdir(2): the host must have a directory of this name to go to.
    pub(crate) fn change_directory(&mut self, call: Notification) -> Result<(), Error> {
        let Some(place) = self.locate(call.tid, libc::AT_FDCWD, call.args[0]) else {
            return self.pass(call);
        };
        let task = match self.task_at(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return self.answer(call, result),
        };
        let [path, root] = [place.path.as_c_str(), c"/"].map(|path| path.as_ptr() as u64);
        let result = self.call(task, libc::SYS_chdir, [path, 0, 0, 0, 0, 0])?;
        self.call(task, libc::SYS_chdir, [root, 0, 0, 0, 0, 0])?;
        if result < 0 {
            return self.answer(call, result);
        }
        let there = Path::new(OsStr::from_bytes(place.path.as_bytes()));
        self.go_to(call, there.is_dir())
    }

    /// fchdir(2) of a Vink file.
    pub(crate) fn change_to(&mut self, call: Notification) -> Result<(), Error> {
        let pid = self.threads[&call.tid].pid;
        let path = target::directory(pid, call.args[0] as i32);
        self.go_to(call, path.is_some_and(|path| path != b"/"))
    }

    /// Lets the host change to a directory of the machine's if it has one of this name.
    fn go_to(&mut self, call: Notification, has: bool) -> Result<(), Error> {
        if !has {
            self.note_unsupported(call.nr);
            return self.answer(call, EACCES);
        }
        let pid = self.threads[&call.tid].pid;
        self.process_mut(pid).wanders = true;
        self.pass(call)
    }

    /// The thread's task, ready to look up a place.
    fn task_at(&mut self, tid: i32, place: &Place) -> Result<Result<TaskId, i64>, Error> {
        if place.path.as_bytes().starts_with(b"/sys/") {
            self.mount_sysfs(tid)?;
        }
        if RANDOM.contains(&place.path.as_c_str()) {
            self.make_random_devices(tid)?;
        }
        match self.task_of(tid) {
            Ok(task) => Ok(Ok(task)),
            Err(error) => soften(error).map(Err),
        }
    }

    /// open(2), openat(2) and openat2(2).
    pub(crate) fn open(&mut self, call: Notification) -> Result<(), Error> {
        let (from, path) = match call.nr {
            libc::SYS_open => (libc::AT_FDCWD, call.args[0]),
            _ => (call.args[0] as i32, call.args[1]),
        };
        let Some(place) = self.locate(call.tid, from, path) else {
            return self.pass(call);
        };
        // `struct open_how`: flags, mode, resolve.
        let mut how = [0; 24];
        let mut flags = match call.nr {
            libc::SYS_open => call.args[1],
            libc::SYS_openat => call.args[2],
            _ if call.args[3] >= 24 && target::read(call.tid, call.args[2], &mut how) => {
                u64::from_ne_bytes(how[..8].try_into().expect("eight bytes"))
            }
            // The host will say what is wrong.
            _ => return self.pass(call),
        };
        let cloexec = flags & libc::O_CLOEXEC as u64 != 0;
        let write_only = flags as i32 & libc::O_ACCMODE == libc::O_WRONLY;
        // What can be named can be read here, and must be.
        flags &= !libc::O_PATH as u64;
        how[..8].copy_from_slice(&flags.to_ne_bytes());
        if place.relative {
            // For the kernel it does not start from there.
            how[16] &= !((libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT) as u8);
        }
        let task = match self.task_at(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return self.answer(call, result),
        };
        let (from, path) = (place.directory as u64, place.path.as_ptr() as u64);
        let number = match call.nr {
            libc::SYS_openat2 => {
                let how_at = how.as_ptr() as u64;
                let args = [from, path, how_at, how.len() as u64, 0, 0];
                self.call(task, call.nr, args)?
            }
            _ => self.call(task, libc::SYS_openat, [from, path, flags, 0, 0, 0])?,
        };
        if number < 0 {
            return self.answer(call, number);
        }
        let number = number as i32;
        let pid = self.threads[&call.tid].pid;
        let tells_of_boot =
            self.turn.is_some() && matches!(place.path.as_bytes(), b"/proc/uptime" | b"/proc/stat");
        let is_device = place.path.as_bytes() == TUN || RANDOM.contains(&place.path.as_c_str());
        let file = if is_device || write_only {
            File::uncopied().map_err(|_| ENFILE)
        } else {
            match self.contents(task, number)? {
                Ok(contents) if tells_of_boot => {
                    let file = copy(&since_boot(&contents)).map_err(|_| ENFILE);
                    file.inspect(|file| file.timer.set(libc::CLOCK_BOOTTIME))
                }
                Ok(contents) => copy(&contents).map_err(|_| ENFILE),
                Err(EISDIR) => File::directory(pid, &place.path).map_err(|_| ENFILE),
                Err(error) => Err(error),
            }
        };
        match file {
            Ok(file) => {
                let entry = Entry { file, number };
                if is_device && self.table_of(call.tid).is_followed() {
                    self.follow(call.tid, &entry)?;
                }
                if self.install(call, entry, cloexec)? == Sent::Gone {
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
        if let (Ok(mut contents), Some(copy)) =
            (self.contents(task, entry.number)?, &entry.file.copy)
        {
            if entry.file.timer.get() == libc::CLOCK_BOOTTIME {
                contents = since_boot(&contents);
            }
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

    /// getdents64(2) of a directory. Where in it the program is, only the placeholder knows: lseek(2) is
    /// not trapped.
    pub(crate) fn list(&mut self, call: Notification, entry: &Entry) -> Result<(), Error> {
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = soften(error)?;
                return self.answer(call, result);
            }
        };
        let (end, number) = (entry.file.placeholder.program_end(), entry.number as u64);
        // SAFETY: takes numbers.
        let offset = unsafe { libc::lseek(end, 0, libc::SEEK_CUR) };
        let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
        self.call(task, libc::SYS_lseek, to)?;
        let mut list = vec![0; (call.args[2] as u32 as usize).min(CHUNK)];
        let (into, len) = (list.as_mut_ptr() as u64, list.len() as u64);
        let result = self.call(task, call.nr, [number, into, len, 0, 0, 0])?;
        list.truncate(usize::try_from(result).unwrap_or(0));
        if !target::write(call.tid, call.args[1], &list) {
            return self.answer(call, EFAULT);
        }
        let here = [number, 0, libc::SEEK_CUR as u64, 0, 0, 0];
        let offset = self.call(task, libc::SYS_lseek, here)?;
        // SAFETY: takes numbers.
        unsafe { libc::lseek(end, offset, libc::SEEK_SET) };
        self.answer(call, result)
    }

    /// Sees to it that the kernel has these devices.
    fn make_random_devices(&mut self, tid: i32) -> Result<(), Error> {
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(drop),
        };
        for (path, number) in RANDOM.iter().zip(RANDOM_NUMBERS) {
            let kind = u64::from(libc::S_IFCHR | 0o666);
            let args = [path.as_ptr() as u64, kind, number, 0, 0, 0];
            // It may have them.
            self.call(task, libc::SYS_mknod, args)?;
        }
        Ok(())
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

/// See random(4).
const RANDOM_NUMBERS: [libc::dev_t; 2] = [libc::makedev(1, 8), libc::makedev(1, 9)];

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
