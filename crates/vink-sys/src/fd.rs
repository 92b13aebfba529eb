//! What an open file is and has; files without names.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::{Errno, FdFlags};

use crate::plain::Zeroed;
use crate::{done, numbered};

/// fstat(2).
///
/// # Errors
/// As fstat(2).
pub fn stat(fd: RawFd) -> io::Result<libc::stat> {
    let mut found = libc::stat::zeroed();
    // SAFETY: the call fills the structure.
    done(unsafe { libc::fstat(fd, &mut found) }.into()).map(|_| found)
}

/// statx(2) of an open file, which libc's structure shows as the kernel wrote it.
///
/// # Errors
/// As statx(2).
pub fn statx(fd: impl AsFd, mask: u32) -> io::Result<libc::statx> {
    let mut found = libc::statx::zeroed();
    let (number, flags) = (fd.as_fd().as_raw_fd(), libc::AT_EMPTY_PATH);
    // SAFETY: an empty path; the call fills the structure.
    done(unsafe { libc::statx(number, c"".as_ptr(), flags, mask, &mut found) }.into())
        .map(|_| found)
}

/// statx(2) of an entry of an open directory, and not of what a symbolic link leads to.
///
/// # Errors
/// As statx(2).
pub fn statx_entry(directory: impl AsFd, name: &CStr, mask: u32) -> io::Result<libc::statx> {
    let mut found = libc::statx::zeroed();
    let number = directory.as_fd().as_raw_fd();
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    // SAFETY: the name ends with a zero byte; the call fills the structure.
    done(unsafe { libc::statx(number, name.as_ptr(), flags, mask, &mut found) }.into())
        .map(|_| found)
}

/// getdents64(2), from the offset of an open directory on: how many bytes of entries there are.
///
/// # Errors
/// As getdents64(2).
pub fn getdents(directory: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let number = directory.as_fd().as_raw_fd();
    // SAFETY: the call writes no more than there is room for.
    let len = unsafe { libc::syscall(libc::SYS_getdents64, number, into.as_mut_ptr(), into.len()) };
    done(len).map(|len| len as usize)
}

/// Device and inode of an open file; zeros if there is none.
pub fn identity(fd: RawFd) -> (u64, u64) {
    stat(fd).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino))
}

/// The flags of an open file (`F_GETFL`); -1 if there is none.
pub fn flags(fd: RawFd) -> i32 {
    let flags = numbered(fd).and_then(|fd| Ok(rustix::fs::fcntl_getfl(fd)?));
    flags.map_or(-1, |flags| flags.bits() as i32)
}

/// Sets the flags of an open file (`F_SETFL`).
///
/// # Errors
/// As fcntl(2).
pub fn set_flags(fd: impl AsFd, flags: i32) -> io::Result<()> {
    let flags = OFlags::from_bits_retain(flags as u32);
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// Lets executed programs inherit a descriptor or not (`F_SETFD`). Async-signal-safe.
///
/// # Errors
/// As fcntl(2): there is none of this number.
pub fn set_cloexec(fd: RawFd, closed: bool) -> io::Result<()> {
    let flags = match closed {
        true => FdFlags::CLOEXEC,
        false => FdFlags::empty(),
    };
    Ok(rustix::io::fcntl_setfd(numbered(fd)?, flags)?)
}

/// The offset of an open file; below 0 if it has none, as a pipe.
pub fn offset(fd: RawFd) -> i64 {
    let offset = numbered(fd).and_then(|fd| Ok(rustix::fs::tell(fd)?));
    offset.map_or(-1, |offset| offset as i64)
}

/// Sets the offset of an open file; one that has none stays as it is.
pub fn set_offset(fd: RawFd, offset: i64) {
    let _ = numbered(fd).map(|fd| rustix::fs::seek(fd, SeekFrom::Start(offset as u64)));
}

/// A further descriptor of an open file, which executed programs inherit unless `cloexec`.
///
/// # Errors
/// As fcntl(2).
pub fn duplicate(fd: RawFd, cloexec: bool) -> io::Result<OwnedFd> {
    let fd = numbered(fd)?;
    Ok(match cloexec {
        true => rustix::io::fcntl_dupfd_cloexec(fd, 0)?,
        false => rustix::io::dup(fd)?,
    })
}

/// A further descriptor of an open file, of this number or a higher one, which no executed program
/// inherits.
///
/// # Errors
/// As fcntl(2).
pub fn duplicate_above(fd: impl AsFd, least: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, least)?)
}

/// Closes what this program was started with beside the standard descriptors and these: whatever it
/// opens itself, no executed program inherits, and that is left alone.
pub fn close_inherited(keep: &[RawFd]) {
    let Ok(all) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let names = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = names.collect();
    for number in numbers {
        let inherited = rustix::io::fcntl_getfd(match numbered(number) {
            Ok(fd) => fd,
            Err(_) => continue,
        });
        let inherited = inherited.is_ok_and(|flags| flags.is_empty());
        if number > 2 && inherited && !keep.contains(&number) {
            // SAFETY: no part of this program has opened it, so none uses it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// A file in memory that no executed program inherits (memfd_create(2)).
///
/// # Errors
/// As memfd_create(2).
pub fn in_memory(name: &CStr) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(rustix::fs::memfd_create(name, flags)?.into())
}

/// A file in memory of a size that nothing can change.
///
/// # Errors
/// As memfd_create(2), ftruncate(2) and `F_ADD_SEALS`.
pub fn in_memory_sealed(name: &CStr, size: u64) -> io::Result<File> {
    use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(size)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// openat2(2) from a directory (`AT_FDCWD`: the current one); no executed program inherits it.
///
/// # Errors
/// As openat2(2), but not `EAGAIN`: below a root, that is a `..` beside a rename(2) or a mount(2)
/// of whatever on this host, and it is tried again.
pub fn open_resolving(from: RawFd, path: &CStr, flags: i32, resolve: u64) -> io::Result<File> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    let resolve = ResolveFlags::from_bits_retain(resolve);
    loop {
        match rustix::fs::openat2(numbered(from)?, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            opened => return Ok(opened?.into()),
        }
    }
}

/// A pipe's ends, for reading and for writing, that never wait.
///
/// # Errors
/// As pipe2(2).
pub fn pipe_that_never_waits() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::{pipe_with, PipeFlags};
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// tee(2) that does not wait: how many bytes of a pipe are in the other one, too.
///
/// # Errors
/// As tee(2).
pub fn tee(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    let flags = rustix::pipe::SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::tee(from, to, len, flags)?)
}

/// splice(2) that does not wait, at the files' offsets.
///
/// # Errors
/// As splice(2).
pub fn splice(from: RawFd, to: RawFd, len: usize) -> io::Result<usize> {
    let flags = rustix::pipe::SpliceFlags::NONBLOCK;
    let (from, to) = (numbered(from)?, numbered(to)?);
    Ok(rustix::pipe::splice(from, None, to, None, len, flags)?)
}

/// Locks a file for this open one alone, when no other has it locked (flock(2)).
///
/// # Errors
/// As flock(2).
pub fn lock(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(fd, FlockOperation::LockExclusive)?)
}

/// flock(2) by the operation's number; does not wait.
///
/// # Errors
/// As flock(2).
pub fn try_flock(fd: impl AsFd, operation: i32) -> io::Result<()> {
    let operation = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => FlockOperation::NonBlockingLockShared,
        libc::LOCK_EX => FlockOperation::NonBlockingLockExclusive,
        libc::LOCK_UN => FlockOperation::NonBlockingUnlock,
        _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
    };
    Ok(rustix::fs::flock(fd, operation)?)
}

/// Sets a lock of an open file's range (`F_SETLK`, `F_OFD_SETLK`), which does not wait.
///
/// # Errors
/// As fcntl(2).
pub fn set_lock(fd: impl AsFd, whose: LockOwner, lock: &libc::flock) -> io::Result<()> {
    let what = match whose {
        LockOwner::Process => libc::F_SETLK,
        LockOwner::OpenFile => libc::F_OFD_SETLK,
    };
    // SAFETY: reads the structure.
    done(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), what, lock) }.into()).map(|_| ())
}

/// A lock of a range, or none, as fcntl(2) takes it: its kind (`F_RDLCK`, `F_WRLCK`, `F_UNLCK`), what
/// the range is counted from (`SEEK_SET`, `SEEK_CUR`, `SEEK_END`), where it begins and how many bytes it has
/// (0: to the end).
pub fn range_lock(kind: i32, whence: i32, start: i64, length: i64) -> libc::flock {
    let mut lock = libc::flock::zeroed();
    lock.l_type = kind as i16;
    lock.l_whence = whence as i16;
    lock.l_start = start;
    lock.l_len = length;
    lock
}

/// What a lock of a range ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// The process that set it.
    Process,
    /// The open file that it was set with.
    OpenFile,
}

/// Whether reads and writes wait (`O_NONBLOCK`), for all descriptors of the open file.
///
/// # Errors
/// As fcntl(2).
pub fn set_blocking(fd: impl AsFd, blocking: bool) -> io::Result<()> {
    let flags = flags(fd.as_fd().as_raw_fd());
    let flags = match blocking {
        true => flags & !libc::O_NONBLOCK,
        false => flags | libc::O_NONBLOCK,
    };
    set_flags(fd, flags)
}

/// For how many bytes a pipe has room.
///
/// # Errors
/// As of `F_GETPIPE_SZ`, fcntl(2): it is none.
pub fn pipe_size(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}

/// Gives a pipe room for so many bytes.
///
/// # Errors
/// As of `F_SETPIPE_SZ`, fcntl(2): it is none, or the host lets pipes have less.
pub fn set_pipe_size(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    rustix::pipe::fcntl_setpipe_size(fd, bytes)?;
    Ok(())
}

/// A pipe's ends, for reading and for writing, that no executed program inherits.
///
/// # Errors
/// As pipe2(2).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe()?;
    Ok((read.into(), write.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_path_with_dots_opens_beside_renames() {
        let folder = std::env::temp_dir().join(format!("vink-renames-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let names = ["a", "b"].map(|name| folder.join(name));
                std::fs::write(&names[0], "").expect("a file");
                while !over.load(Ordering::Relaxed) {
                    std::fs::rename(&names[0], &names[1]).expect("a rename");
                    std::fs::rename(&names[1], &names[0]).expect("a rename");
                }
            });
            let root = File::open("/").expect("the root");
            let (flags, resolve) = (libc::O_PATH, libc::RESOLVE_IN_ROOT);
            for _ in 0..20_000 {
                let opened = open_resolving(root.as_raw_fd(), c"/proc/../etc", flags, resolve);
                if let Err(error) = opened {
                    over.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}
