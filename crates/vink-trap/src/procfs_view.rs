//! A machine's own view of the system: `/proc/net`, `/proc/sys/net`, `/sys/class/net`, and
//! `/sys/module` of the image's modules.
//!
//! The kernel in the image has these files. The program gets a copy of the contents as a real host
//! file for a placeholder, with which reading, seeking and the rest work natively. Such files are
//! made up when they are read: the copy is made anew whenever it is read from its start, and after
//! each write, which goes to the kernel. (Not when pread(2) reads it, which is not trapped.) What
//! is opened for writing alone is a Vink file like a socket. So is `/dev/net/tun`, whose frames
//! wait as a socket's do. A directory is a Vink file whose placeholder is a directory of the host.
//!
//! The other calls that look up a path (stat(2), access(2), readlink(2), ...) are the kernel's too
//! if the path is the machine's (`virtual_paths`). So is fstat(2): programs such as cp(1) check
//! whether they have opened the file that they had found. For chdir(2) the host needs a directory
//! of the same name.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use vink_kernel::paths::TUN;
use vink_kernel::TaskId;
use vink_sys::errno::{EACCES, EFAULT, EISDIR, ENFILE};
use vink_sys::fd;

use vink_syscalls::{
    blocks, is_plain_io, open_flags, output, path_args, shapes, Blocks, OpenFlags, Output,
    PathArgs, Shape,
};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file::{File, FileKind};
use crate::notification::Reply;
use crate::sched::uptime::since_boot;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::virtual_paths::{VirtualPath, RANDOM};
use crate::worker::Worker;
use crate::Error;

/// More than any of these files holds; a file that does not end is cut off.
const MAX_FILE: usize = 64 << 20;
const CHUNK: usize = 64 << 10;

impl Worker {
    /// A call that looks up a path.
    pub(crate) fn look_up(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (from, path) = match path_args(call.nr) {
            PathArgs::At(path) => (None, path),
            PathArgs::Below(from, path) => (Some(from), path),
            PathArgs::None => return self.passthrough(call),
        };
        // Another string is the name of an extended attribute.
        let mut others = shapes(call.nr).unwrap_or_default().iter().enumerate();
        let name = others.find(|(n, shape)| *n > path && **shape == Shape::Text);
        let start = from.map_or(libc::AT_FDCWD, |from| call.args[from] as i32);
        let Some(place) = self.resolve_path(call.tid, start, call.args[path])? else {
            return self.stat_on_host(call);
        };
        let task = match self.task_for_path(call.tid, &place)? {
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
        if let Some((name, _)) = name {
            if tracee::read_string(call.tid, call.args[name], &mut text[..256]).is_none() {
                return self.answer(call, EFAULT);
            }
            args[name] = text.as_ptr() as u64;
        }
        let mut buffer = Vec::new();
        let out = match output(call.nr) {
            Output::None => None,
            Output::Stat(at) => Some((at, size_of::<libc::stat>())),
            Output::Statx(at) => Some((at, size_of::<libc::statx>())),
            Output::Bytes(at, room) => {
                args[room] = args[room].min(CHUNK as u64);
                Some((at, args[room] as usize))
            }
        };
        if let Some((at, len)) = out {
            buffer.resize(len, 0);
            args[at] = buffer.as_mut_ptr() as u64;
        }
        let result = self.kernel_call(task, call.nr, args)?;
        let Some((at, _)) = out.filter(|_| result >= 0) else {
            return self.answer(call, result);
        };
        if let Output::Bytes(..) = output(call.nr) {
            // Of no room at all, it is how much would be needed.
            buffer.truncate(result as usize);
        }
        match tracee::write(call.tid, call.args[at], &buffer) {
            true => self.answer(call, result),
            false => self.answer(call, EFAULT),
        }
    }

    /// chdir(2): the host must have a directory of this name to go to.
    pub(crate) fn chdir(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let Some(place) = self.resolve_path(call.tid, libc::AT_FDCWD, call.args[0])? else {
            return self.passthrough(call);
        };
        let task = match self.task_for_path(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return self.answer(call, result),
        };
        let [path, root] = [place.path.as_c_str(), c"/"].map(|path| path.as_ptr() as u64);
        let result = self.kernel_call(task, libc::SYS_chdir, [path, 0, 0, 0, 0, 0])?;
        self.kernel_call(task, libc::SYS_chdir, [root, 0, 0, 0, 0, 0])?;
        if result < 0 {
            return self.answer(call, result);
        }
        let there = Path::new(OsStr::from_bytes(place.path.as_bytes()));
        self.chdir_on_host(call, there.is_dir())
    }

    /// fchdir(2) of a Vink file.
    pub(crate) fn fchdir(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let pid = call.pid;
        let path = tracee::directory(pid, call.args[0] as i32);
        self.chdir_on_host(call, path.is_some_and(|path| path != b"/"))
    }

    /// Changes to the host's directory of the same name as the machine's, if there is one.
    fn chdir_on_host(&mut self, call: SyscallCtx, has: bool) -> Result<(), Error> {
        if !has {
            self.statistics.count_unsupported(call.nr);
            return self.answer(call, EACCES);
        }
        let pid = call.pid;
        self.table.note_cwd_in_procfs(pid);
        self.passthrough(call)
    }

    /// The thread's task, ready to look up a place.
    fn task_for_path(
        &mut self,
        tid: i32,
        place: &VirtualPath,
    ) -> Result<Result<TaskId, i64>, Error> {
        if place.path.as_bytes().starts_with(b"/sys/") {
            self.mount_sysfs(tid)?;
        }
        if RANDOM.contains(&place.path.as_c_str()) {
            self.make_random_devices(tid)?;
        }
        match self.task_of(tid) {
            Ok(task) => Ok(Ok(task)),
            Err(error) => to_errno_result(error).map(Err),
        }
    }

    /// open(2), openat(2) and openat2(2).
    pub(crate) fn open(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (from, path) = match path_args(call.nr) {
            PathArgs::At(path) => (libc::AT_FDCWD, call.args[path]),
            PathArgs::Below(from, path) => (call.args[from] as i32, call.args[path]),
            PathArgs::None => return self.passthrough(call),
        };
        let Some(place) = self.resolve_path(call.tid, from, path)? else {
            return self.passthrough(call);
        };
        // `struct open_how`: flags, mode, resolve.
        let mut how = [0; 24];
        let form = open_flags(call.nr);
        let mut flags = match form {
            OpenFlags::Flags(at) => call.args[at],
            OpenFlags::How(at)
                if call.args[at + 1] >= 24 && tracee::read(call.tid, call.args[at], &mut how) =>
            {
                u64::from_ne_bytes(how[..8].try_into().expect("eight bytes"))
            }
            // The host will say what is wrong.
            _ => return self.passthrough(call),
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
        let task = match self.task_for_path(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return self.answer(call, result),
        };
        let (from, path) = (place.directory as u64, place.path.as_ptr() as u64);
        let number = match form {
            OpenFlags::How(_) => {
                let how_at = how.as_ptr() as u64;
                let args = [from, path, how_at, how.len() as u64, 0, 0];
                self.kernel_call(task, call.nr, args)?
            }
            _ => self.kernel_call(task, libc::SYS_openat, [from, path, flags, 0, 0, 0])?,
        };
        if number < 0 {
            return self.answer(call, number);
        }
        let number = number as i32;
        let pid = call.pid;
        let tells_of_boot = self.clock.is_virtual()
            && matches!(place.path.as_bytes(), b"/proc/uptime" | b"/proc/stat");
        let is_device = place.path.as_bytes() == TUN || RANDOM.contains(&place.path.as_c_str());
        let file = if is_device || write_only {
            File::of_kind(self.fd_limit_for(call.pid), FileKind::Procfs).map_err(|_| ENFILE)
        } else {
            match self.read_kernel_file(task, number)? {
                Ok(contents) if tells_of_boot => {
                    let file = copy_of(&since_boot(&contents)).map_err(|_| ENFILE);
                    file.inspect(|file| file.timer.set(libc::CLOCK_BOOTTIME))
                }
                Ok(contents) => copy_of(&contents).map_err(|_| ENFILE),
                Err(EISDIR) => File::directory(pid, &place.path).map_err(|_| ENFILE),
                Err(error) => Err(error),
            }
        };
        match file {
            Ok(file) => {
                let entry = Entry { file, number };
                if is_device && self.table.fd_table(call.pid).mirrors_edges() {
                    self.mirror_edges(call.tid, &entry)?;
                }
                if self.install(call, entry, cloexec)? == Reply::ThreadGone {
                    self.close_kernel_fd(call.tid, number)?;
                }
                Ok(())
            }
            Err(result) => {
                self.close_kernel_fd(call.tid, number)?;
                self.answer(call, result)
            }
        }
    }

    /// All that can be read of a file of the kernel's, or the error if that is nothing.
    fn read_kernel_file(
        &mut self,
        task: TaskId,
        number: i32,
    ) -> Result<Result<Vec<u8>, i64>, Error> {
        let mut contents = Vec::new();
        loop {
            let old = contents.len();
            contents.resize(old + CHUNK, 0);
            let into = contents[old..].as_mut_ptr() as u64;
            let args = [number as u64, into, CHUNK as u64, old as u64, 0, 0];
            let got = self.kernel_call(task, libc::SYS_pread64, args)?;
            contents.truncate(old + usize::try_from(got).unwrap_or(0));
            if got < 0 && contents.is_empty() {
                return Ok(Err(got));
            }
            if got <= 0 || contents.len() > MAX_FILE {
                return Ok(Ok(contents));
            }
        }
    }

    /// A call on a file that the program has a copy of. What the kernel need not know of is the
    /// host's.
    pub(crate) fn io_on_copy(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let end = entry.file.placeholder.program_end();
        // The offset is common to all descriptors of the copy, the program's and this one.
        let offset = fd::offset(end);
        let writes = call.nr == libc::SYS_write;
        let reads = is_plain_io(call.nr) && blocks(call.nr) == Blocks::Reads;
        let begins = reads && offset == 0;
        if !writes && !begins {
            return self.passthrough(call);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = to_errno_result(error)?;
                return self.answer(call, result);
            }
        };
        let mut written = 0;
        if writes {
            let mut text = vec![0; (call.args[2] as usize).min(CHUNK)];
            if !tracee::read(call.tid, call.args[1], &mut text) {
                return self.answer(call, -i64::from(libc::EFAULT));
            }
            let (from, len) = (text.as_ptr() as u64, text.len() as u64);
            let number = entry.number as u64;
            let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
            self.kernel_call(task, libc::SYS_lseek, to)?;
            written = self.kernel_call(task, libc::SYS_write, [number, from, len, 0, 0, 0])?;
        }
        if let (Ok(mut contents), Some(copy)) = (
            self.read_kernel_file(task, entry.number)?,
            entry.file.copy(),
        ) {
            if entry.file.timer.get() == libc::CLOCK_BOOTTIME {
                contents = since_boot(&contents);
            }
            // Out of memory: the old contents must do.
            let _ = copy.set_len(0).and(copy.write_all_at(&contents, 0));
        }
        if !writes {
            return self.passthrough(call);
        }
        if written > 0 {
            fd::set_offset(end, offset + written);
        }
        self.answer(call, written)
    }

    /// getdents64(2) of a directory. Where in it the program is, only the placeholder knows:
    /// lseek(2) is not trapped.
    pub(crate) fn getdents(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = to_errno_result(error)?;
                return self.answer(call, result);
            }
        };
        let (end, number) = (entry.file.placeholder.program_end(), entry.number as u64);
        let offset = fd::offset(end);
        let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
        self.kernel_call(task, libc::SYS_lseek, to)?;
        let mut list = vec![0; (call.args[2] as u32 as usize).min(CHUNK)];
        let (into, len) = (list.as_mut_ptr() as u64, list.len() as u64);
        let result = self.kernel_call(task, call.nr, [number, into, len, 0, 0, 0])?;
        list.truncate(usize::try_from(result).unwrap_or(0));
        if !tracee::write(call.tid, call.args[1], &list) {
            return self.answer(call, EFAULT);
        }
        let here = [number, 0, libc::SEEK_CUR as u64, 0, 0, 0];
        let offset = self.kernel_call(task, libc::SYS_lseek, here)?;
        fd::set_offset(end, offset);
        self.answer(call, result)
    }

    /// Sees to it that the kernel has these devices.
    fn make_random_devices(&mut self, tid: i32) -> Result<(), Error> {
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(drop),
        };
        for (path, number) in RANDOM.iter().zip(RANDOM_NUMBERS) {
            let kind = u64::from(libc::S_IFCHR | 0o666);
            let args = [path.as_ptr() as u64, kind, number, 0, 0, 0];
            // It may have them.
            self.kernel_call(task, libc::SYS_mknod, args)?;
        }
        Ok(())
    }

    /// Lets the thread's task see its machine's sysfs. A sysfs shows the network namespace that it
    /// was mounted in, and the one that all tasks begin with was mounted at boot.
    fn mount_sysfs(&mut self, tid: i32) -> Result<(), Error> {
        if self.table.mark_sysfs(tid) {
            return Ok(());
        }
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(drop),
        };
        let (name, place) = (c"sysfs".as_ptr() as u64, c"/sys".as_ptr() as u64);
        let flags = libc::CLONE_NEWNS as u64;
        self.kernel_call(task, libc::SYS_unshare, [flags, 0, 0, 0, 0, 0])?;
        self.kernel_call(task, libc::SYS_mount, [name, place, name, 0, 0, 0])?;
        Ok(())
    }
}

/// See random(4).
const RANDOM_NUMBERS: [libc::dev_t; 2] = [libc::makedev(1, 8), libc::makedev(1, 9)];

/// A file of which the program gets these contents, for reading.
fn copy_of(contents: &[u8]) -> std::io::Result<Rc<File>> {
    let file = fd::in_memory(c"vink")?;
    file.write_all_at(contents, 0)?;
    let again = std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(File::copied(file, again.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_for_reading() {
        let file = copy_of(b"contents").unwrap();
        let path = format!("/proc/self/fd/{}", file.placeholder.program_end());
        assert_eq!(std::fs::read(path).unwrap(), b"contents");
        let end = fd::duplicate(file.placeholder.program_end(), true).unwrap();
        assert!(std::fs::File::from(end).write_at(b"x", 0).is_err());
    }
}
