//! What the host's files are to programs in virtual time: what the host says of them, but for what
//! differs from run to run, which are the times and the inode numbers of new files.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use vink_sys::errno::{self, EFAULT};
use vink_sys::fd;
use vink_sys::fs_credentials::FsCredentials;
use vink_sys::plain::{AsBytes, Zeroed};
use vink_sys::rustix::time::{clock_gettime, ClockId};
use vink_syscalls::{status, Status};

use crate::notification::Notification;
use crate::sched::determinism::file_times::{nanoseconds, FileTimes, SECOND};
use crate::sched::determinism::inode_numbers::{device, InodeNumbers};
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

/// Of a directory's entries, the most bytes that a call gives; more are for the next one.
const LIST: usize = 1 << 16;

/// What programs have seen of the host's files.
pub(crate) struct HostFiles {
    /// As which user the worker opens files.
    own: FsCredentials,
    times: FileTimes,
    numbers: InodeNumbers,
}

/// The file that a call asks about.
struct Target {
    /// The directory, or the file itself if there is no path.
    from: i32,
    path: Option<u64>,
    follow: bool,
    out: u64,
    /// Of statx(2): flags and mask.
    extended: Option<(u64, u64)>,
}

impl Target {
    /// The file that a call is about, opened by path only, under the rights of the thread. `None` if
    /// only the thread itself can tell; `own` are the worker's.
    fn open(&self, call: SyscallCtx, own: &FsCredentials) -> Option<File> {
        let tid = call.tid;
        let mut text = [0; libc::PATH_MAX as usize];
        let path = match self.path {
            Some(path) => {
                let len = tracee::read_string(tid, path, &mut text)?;
                &text[..len]
            }
            None => &[],
        };
        let pid = call.pid;
        let descriptor = format!("/proc/{pid}/fd/{}", self.from);
        let whole = match path {
            [] if self.from < 0 => return None,
            [] => return open(libc::AT_FDCWD, descriptor.into_bytes(), libc::O_PATH, 0),
            [b'/', ..] => path.to_vec(),
            _ => {
                let mut whole = tracee::directory(pid, self.from)?;
                whole.push(b'/');
                whole.extend(path);
                whole
            }
        };
        let root = format!("/proc/{tid}/root").into_bytes();
        let root = open(libc::AT_FDCWD, root, libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let flags = match self.follow {
            true => libc::O_PATH,
            false => libc::O_PATH | libc::O_NOFOLLOW,
        };
        let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
        let rights = FsCredentials::of(tid)?;
        rights.lend(own, || open(root.as_raw_fd(), whole, flags, resolve))?
    }
}

fn target_of(call: &Notification) -> Option<Target> {
    let [a, b, c, d, e, _] = call.args;
    let at = |from: u64, path, flags: u64, out, extended| {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
        let (from, path) = (from as i32, Some(path));
        Target {
            from,
            path,
            follow,
            out,
            extended,
        }
    };
    let here = libc::AT_FDCWD as u64;
    Some(match status(call.nr) {
        Status::Stat => at(here, a, 0, b, None),
        Status::Lstat => at(here, a, libc::AT_SYMLINK_NOFOLLOW as u64, b, None),
        Status::Fstatat => at(a, b, d, c, None),
        Status::Statx => at(a, b, c, e, Some((c, d))),
        Status::Fstat => Target {
            path: None,
            ..at(a, 0, 0, b, None)
        },
        Status::None => return None,
    })
}

impl HostFiles {
    /// # Errors
    /// The worker can't read of itself in `/proc`.
    pub(crate) fn new() -> Result<HostFiles, Error> {
        // By the clock that the host's stamps are of, which goes on at each of its ticks.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let start = i128::from(now.tv_sec) * SECOND + i128::from(now.tv_nsec);
        Ok(HostFiles {
            own: FsCredentials::own()
                .map_err(Error::of("reading the worker's user and groups in /proc"))?,
            times: FileTimes::new(start),
            numbers: InodeNumbers::new(start),
        })
    }

    /// The result of stat(2) and the like, of a file of the host's. `None`: it is the host's to
    /// say. `date` is the programs', in ns.
    pub(crate) fn stat(&mut self, call: SyscallCtx, date: i64) -> Option<i64> {
        let target = target_of(&call)?;
        let file = target.open(call, &self.own)?;
        let mask = target
            .extended
            .map_or(libc::STATX_BASIC_STATS, |(_, mask)| mask as u32);
        let mut found =
            fd::statx(&file, mask | libc::STATX_BASIC_STATS | libc::STATX_BTIME).ok()?;
        let identity = (device(&found), found.stx_ino);
        let mut times = stamps(&mut found).map(|stamp| nanoseconds(stamp));
        found.stx_ino = self.numbers.shown(&found);
        self.times.show(identity, &mut times, date);
        let split = |time: i128| {
            (
                time.div_euclid(SECOND) as i64,
                time.rem_euclid(SECOND) as u32,
            )
        };
        let written = if target.extended.is_some() {
            for (stamp, time) in stamps(&mut found).into_iter().zip(times) {
                (stamp.tv_sec, stamp.tv_nsec) = split(time);
            }
            tracee::write(call.tid, target.out, found.as_bytes())
        } else {
            let stat = stat_of(&found, times.map(split));
            tracee::write(call.tid, target.out, stat.as_bytes())
        };
        Some(if written { 0 } else { EFAULT })
    }

    /// The result of getdents64(2) of a directory of the host's.
    pub(crate) fn getdents(&mut self, call: SyscallCtx, directory: &OwnedFd) -> i64 {
        let mut list = vec![0; (call.args[2] as u32 as usize).min(LIST)];
        let len = match fd::getdents(directory, &mut list) {
            Ok(len) => len,
            Err(error) => return errno::of(&error),
        };
        self.numbers.renumber(directory, &mut list[..len]);
        match tracee::write(call.tid, call.args[1], &list[..len]) {
            true => len as i64,
            false => EFAULT,
        }
    }
}

/// What stat(2) says of a file, by what statx(2) says: with these times of reading, writing and change.
fn stat_of(found: &libc::statx, times: [(i64, u32); 4]) -> libc::stat {
    let mut stat = libc::stat::zeroed();
    let [atime, mtime, ctime, _] = times;
    stat.st_dev = device(found);
    stat.st_rdev = libc::makedev(found.stx_rdev_major, found.stx_rdev_minor);
    stat.st_ino = found.stx_ino;
    stat.st_nlink = found.stx_nlink.into();
    stat.st_mode = found.stx_mode.into();
    (stat.st_uid, stat.st_gid) = (found.stx_uid, found.stx_gid);
    stat.st_size = found.stx_size as i64;
    stat.st_blksize = found.stx_blksize.into();
    stat.st_blocks = found.stx_blocks as i64;
    (stat.st_atime, stat.st_atime_nsec) = (atime.0, atime.1.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (mtime.0, mtime.1.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (ctime.0, ctime.1.into());
    stat
}

fn stamps(found: &mut libc::statx) -> [&mut libc::statx_timestamp; 4] {
    [
        &mut found.stx_atime,
        &mut found.stx_mtime,
        &mut found.stx_ctime,
        &mut found.stx_btime,
    ]
}

/// openat2(2).
fn open(from: i32, path: Vec<u8>, flags: i32, resolve: u64) -> Option<File> {
    let path = CString::new(path).ok()?;
    fd::open_resolving(from, &path, flags, resolve).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_calls_say_the_same_of_a_file() {
        for path in ["/etc/passwd", "/", "/dev/null", "/proc/self/exe"] {
            let flags = libc::O_PATH | libc::O_NOFOLLOW;
            let file = open(libc::AT_FDCWD, path.into(), flags, 0).expect(path);
            let mut found = fd::statx(&file, libc::STATX_BASIC_STATS).expect(path);
            let times = stamps(&mut found).map(|time| (time.tv_sec, time.tv_nsec));
            let stat = fd::stat(file.as_raw_fd()).expect(path);
            assert_eq!(stat_of(&found, times).as_bytes(), stat.as_bytes(), "{path}");
        }
    }
}
