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

use crate::calls::Calls;
use crate::decision::Decision;
use crate::fd_table::Entry;
use crate::file::{File, FileKind};
use crate::kernel_runner::{CHUNK, RANDOM};
use crate::notification::Reply;
use crate::process_table::ProcessTable;
use crate::sched::determinism::uptime::since_boot;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::virtual_paths::VirtualPath;
use crate::Error;

impl ProcessTable {
    /// A process changes to the host's directory of the same name as the machine's, if there is one.
    pub(crate) fn chdir_on_host(&mut self, pid: i32, has: bool) -> Decision {
        if !has {
            return Decision::Unsupported(EACCES);
        }
        self.note_cwd_in_procfs(pid);
        Decision::Host
    }
}

impl Tasks {
    /// The result of a call that looks up a path, if that is one of the machine's.
    pub(crate) fn look_up(
        &mut self,
        is_virtual: bool,
        call: SyscallCtx,
    ) -> Result<Option<i64>, Error> {
        let (from, path) = match path_args(call.nr) {
            PathArgs::At(path) => (None, path),
            PathArgs::Below(from, path) => (Some(from), path),
            PathArgs::None => return Ok(None),
        };
        // Another string is the name of an extended attribute.
        let mut others = shapes(call.nr).unwrap_or_default().iter().enumerate();
        let name = others.find(|(n, shape)| *n > path && **shape == Shape::Text);
        let start = from.map_or(libc::AT_FDCWD, |from| call.args[from] as i32);
        let Some(place) = self.resolve_path(is_virtual, call.tid, start, call.args[path])? else {
            return Ok(None);
        };
        let task = match self.task_for_path(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return Ok(Some(result)),
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
                return Ok(Some(EFAULT));
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
        let result = self.kernel.run_call(task, call.nr, args)?;
        let Some((at, _)) = out.filter(|_| result >= 0) else {
            return Ok(Some(result));
        };
        if let Output::Bytes(..) = output(call.nr) {
            // Of no room at all, it is how much would be needed.
            buffer.truncate(result as usize);
        }
        Ok(Some(
            match tracee::write(call.tid, call.args[at], &buffer) {
                true => result,
                false => EFAULT,
            },
        ))
    }

    /// chdir(2): the host must have a directory of this name to go to.
    pub(crate) fn chdir(&mut self, is_virtual: bool, call: SyscallCtx) -> Result<Decision, Error> {
        let Some(place) = self.resolve_path(is_virtual, call.tid, libc::AT_FDCWD, call.args[0])?
        else {
            return Ok(Decision::Host);
        };
        let task = match self.task_for_path(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return Ok(Decision::Answer(result)),
        };
        let [path, root] = [place.path.as_c_str(), c"/"].map(|path| path.as_ptr() as u64);
        let result = self
            .kernel
            .run_call(task, libc::SYS_chdir, [path, 0, 0, 0, 0, 0])?;
        self.kernel
            .run_call(task, libc::SYS_chdir, [root, 0, 0, 0, 0, 0])?;
        if result < 0 {
            return Ok(Decision::Answer(result));
        }
        let there = Path::new(OsStr::from_bytes(place.path.as_bytes()));
        Ok(self.table.chdir_on_host(call.pid, there.is_dir()))
    }

    /// The thread's task, ready to look up a place.
    fn task_for_path(
        &mut self,
        tid: i32,
        place: &VirtualPath,
    ) -> Result<Result<TaskId, i64>, Error> {
        if place.path.as_bytes().starts_with(b"/sys/") && !self.table.mark_sysfs(tid) {
            if let Ok(task) = self.try_task_of(tid)? {
                self.kernel.mount_sysfs(task)?;
            }
        }
        if RANDOM.contains(&place.path.as_c_str()) {
            if let Ok(task) = self.try_task_of(tid)? {
                self.kernel.make_random_devices(task)?;
            }
        }
        self.try_task_of(tid)
    }

    /// A call on a file that the program has a copy of. What the kernel need not know of is the
    /// host's.
    pub(crate) fn io_on_copy(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
    ) -> Result<Decision, Error> {
        let end = entry.file.placeholder.program_end();
        // The offset is common to all descriptors of the copy, the program's and this one.
        let offset = fd::offset(end);
        let writes = call.nr == libc::SYS_write;
        let reads = is_plain_io(call.nr) && blocks(call.nr) == Blocks::Reads;
        let begins = reads && offset == 0;
        if !writes && !begins {
            return Ok(Decision::Host);
        }
        let task = match self.try_task_of(call.tid)? {
            Ok(task) => task,
            Err(result) => return Ok(Decision::Answer(result)),
        };
        let mut written = 0;
        if writes {
            let mut text = vec![0; (call.args[2] as usize).min(CHUNK)];
            if !tracee::read(call.tid, call.args[1], &mut text) {
                return Ok(Decision::Answer(EFAULT));
            }
            let (from, len) = (text.as_ptr() as u64, text.len() as u64);
            let number = entry.number as u64;
            let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
            self.kernel.run_call(task, libc::SYS_lseek, to)?;
            written = self
                .kernel
                .run_call(task, libc::SYS_write, [number, from, len, 0, 0, 0])?;
        }
        if let (Ok(mut contents), Some(copy)) = (
            self.kernel.read_file(task, entry.number)?,
            entry.file.copy(),
        ) {
            if entry.file.timer.get() == libc::CLOCK_BOOTTIME {
                contents = since_boot(&contents);
            }
            // Out of memory: the old contents must do.
            let _ = copy.set_len(0).and(copy.write_all_at(&contents, 0));
        }
        if !writes {
            return Ok(Decision::Host);
        }
        if written > 0 {
            fd::set_offset(end, offset + written);
        }
        Ok(Decision::Answer(written))
    }

    /// The result of getdents64(2) of a directory. Where in it the program is, only the placeholder knows:
    /// lseek(2) is not trapped.
    pub(crate) fn getdents(&mut self, call: SyscallCtx, entry: &Entry) -> Result<i64, Error> {
        let task = match self.try_task_of(call.tid)? {
            Ok(task) => task,
            Err(result) => return Ok(result),
        };
        let (end, number) = (entry.file.placeholder.program_end(), entry.number as u64);
        let offset = fd::offset(end);
        let to = [number, offset as u64, libc::SEEK_SET as u64, 0, 0, 0];
        self.kernel.run_call(task, libc::SYS_lseek, to)?;
        let mut list = vec![0; (call.args[2] as u32 as usize).min(CHUNK)];
        let (into, len) = (list.as_mut_ptr() as u64, list.len() as u64);
        let result = self
            .kernel
            .run_call(task, call.nr, [number, into, len, 0, 0, 0])?;
        list.truncate(usize::try_from(result).unwrap_or(0));
        if !tracee::write(call.tid, call.args[1], &list) {
            return Ok(EFAULT);
        }
        let here = [number, 0, libc::SEEK_CUR as u64, 0, 0, 0];
        let offset = self.kernel.run_call(task, libc::SYS_lseek, here)?;
        fd::set_offset(end, offset);
        Ok(result)
    }
}

impl Calls {
    /// open(2), openat(2) and openat2(2).
    pub(crate) fn open(&mut self, call: SyscallCtx) -> Result<Decision, Error> {
        let (from, path) = match path_args(call.nr) {
            PathArgs::At(path) => (libc::AT_FDCWD, call.args[path]),
            PathArgs::Below(from, path) => (call.args[from] as i32, call.args[path]),
            PathArgs::None => return Ok(Decision::Host),
        };
        let is_virtual = self.clock.is_virtual();
        let found = self.tasks.resolve_path(is_virtual, call.tid, from, path)?;
        let Some(place) = found else {
            return Ok(Decision::Host);
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
            _ => return Ok(Decision::Host),
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
        let task = match self.tasks.task_for_path(call.tid, &place)? {
            Ok(task) => task,
            Err(result) => return Ok(Decision::Answer(result)),
        };
        let (from, path) = (place.directory as u64, place.path.as_ptr() as u64);
        let number = match form {
            OpenFlags::How(_) => {
                let how_at = how.as_ptr() as u64;
                let args = [from, path, how_at, how.len() as u64, 0, 0];
                self.tasks.kernel.run_call(task, call.nr, args)?
            }
            _ => {
                self.tasks
                    .kernel
                    .run_call(task, libc::SYS_openat, [from, path, flags, 0, 0, 0])?
            }
        };
        if number < 0 {
            return Ok(Decision::Answer(number));
        }
        let number = number as i32;
        let pid = call.pid;
        let tells_of_boot =
            is_virtual && matches!(place.path.as_bytes(), b"/proc/uptime" | b"/proc/stat");
        let is_device = place.path.as_bytes() == TUN || RANDOM.contains(&place.path.as_c_str());
        let file = if is_device || write_only {
            self.make_file(pid, FileKind::Procfs).map_err(|_| ENFILE)
        } else {
            match self.tasks.kernel.read_file(task, number)? {
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
                if is_device && self.tasks.table.fd_table(call.pid).mirrors_edges() {
                    self.mirror_edges(call.tid, &entry)?;
                }
                if self.install(call, entry, cloexec)? == Reply::ThreadGone {
                    self.tasks.close_fd(call.tid, number)?;
                }
                Ok(Decision::Done)
            }
            Err(result) => {
                self.tasks.close_fd(call.tid, number)?;
                Ok(Decision::Answer(result))
            }
        }
    }
}

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
