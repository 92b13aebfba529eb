//! What `/proc` says of processes and threads: proc_pid_stat(5), proc_pid_status(5),
//! proc_pid_schedstat(5), and their directories.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use crate::maps::MapsLine;
use crate::pidfd;
use crate::process::limit;

/// The state of a process or thread in its stat file's text, of which the first 64 bytes suffice.
pub fn stat_state(stat: &[u8]) -> Option<u8> {
    // The name may contain anything.
    let name_end = stat.iter().rposition(|b| *b == b')')?;
    stat.get(name_end + 2).copied()
}

/// The fields of a stat file's text from the state on, which is the third.
#[derive(Clone, Copy)]
pub struct StatFields<'a>(&'a str);

impl<'a> StatFields<'a> {
    /// `None`: this is no such text.
    pub fn parse(stat: &'a str) -> Option<StatFields<'a>> {
        let (_, rest) = stat.rsplit_once(") ")?;
        Some(StatFields(rest))
    }

    /// `R`, `S`, `D`, `T`, `t`, `Z` and so on.
    pub fn state(self) -> Option<u8> {
        self.0.bytes().next()
    }

    /// A field by its number in proc_pid_stat(5), where the state is 3.
    pub fn get<T: std::str::FromStr>(self, number: usize) -> Option<T> {
        let mut fields = self.0.split_ascii_whitespace();
        fields.nth(number.checked_sub(3)?)?.parse().ok()
    }

    /// How long it has had a processor, to the host's tick.
    pub fn cpu_time(self) -> Duration {
        let ticks = |number| self.get::<u64>(number).unwrap_or(0);
        Duration::from_millis((ticks(14) + ticks(15)) * 10)
    }
}

/// What a status file's text says under a name, which ends with a colon.
pub fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim())
}

/// What the host's scheduler has given a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// How long it has run.
    pub ran: Duration,
    /// How long it was runnable, and not running.
    pub delayed: Duration,
}

impl SchedStat {
    /// The account in the text of a schedstat file.
    pub fn parse(text: &str) -> Option<SchedStat> {
        let mut fields = text.split_ascii_whitespace();
        let mut next = || Some(Duration::from_nanos(fields.next()?.parse().ok()?));
        Some(SchedStat {
            ran: next()?,
            delayed: next()?,
        })
    }

    /// What has come on top since then.
    pub fn since(self, before: SchedStat) -> SchedStat {
        SchedStat {
            ran: self.ran.saturating_sub(before.ran),
            delayed: self.delayed.saturating_sub(before.delayed),
        }
    }
}

/// The account of the thread that opened it, from there on.
pub struct SchedStatFile(File);

impl SchedStatFile {
    /// The calling thread's.
    ///
    /// # Errors
    /// The host keeps none, or it is not to be read.
    pub fn open() -> io::Result<SchedStatFile> {
        File::open("/proc/thread-self/schedstat").map(SchedStatFile)
    }

    /// As it is now; one system call.
    pub fn read(&self) -> Option<SchedStat> {
        let mut text = [0u8; 80];
        let len = self.0.read_at(&mut text, 0).ok()?;
        SchedStat::parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// The process and the parent process of a thread; `None` if it is gone.
pub fn tgid_and_ppid(tid: i32) -> Option<(i32, i32)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let field = |name| status_field(&status, name)?.parse().ok();
    Some((field("Tgid:")?, field("PPid:")?))
}

/// The number of a thread in its own pid namespace; `None` if it is gone.
pub fn ns_pid(tid: i32) -> Option<i32> {
    ns_pid_of_kind(tid, "NSpid:")
}

/// The children that a thread made and that have not been reaped.
pub fn children(pid: i32, tid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    let list = list.unwrap_or_default();
    list.split_ascii_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The threads of a process, in the order of their making as far as numbers tell it.
pub fn threads(pid: i32) -> Vec<i32> {
    let mut all = numbers_in(&format!("/proc/{pid}/task"));
    all.sort_unstable();
    all
}

/// The same of its process (`NStgid:`), group (`NSpgid:`) and so on; see proc_pid_status(5).
pub fn ns_pid_of_kind(pid: i32, name: &str) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status_field(&status, name)?
        .split_ascii_whitespace()
        .next_back()?
        .parse()
        .ok()
}

/// Whether a process (0: one that has no number here) is in this one's PID namespace; `None` if this
/// one has no `/proc`. It is in this one or in one below, as it has a number here.
pub fn shares_pid_namespace(pid: i32) -> Option<bool> {
    let depth = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some(
            status_field(&status, "NSpid:")?
                .split_ascii_whitespace()
                .count(),
        )
    };
    let own = depth("self")?;
    Some(pid != 0 && depth(&pid.to_string()) == Some(own))
}

/// The thread of a process that knows itself by this number.
pub fn thread_by_ns_pid(pid: i32, number: i32) -> Option<i32> {
    let mut all = threads(pid).into_iter();
    all.find(|tid| ns_pid(*tid) == Some(number))
}

/// The process that one of this process's descriptors stands for (pidfd_open(2)), unless that is
/// never to wait (`PIDFD_NONBLOCK`).
pub fn process_of_pidfd(pid: i32, number: i32) -> Option<i32> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    let flags = i32::from_str_radix(status_field(&info, "flags:")?, 8).ok()?;
    match flags & libc::O_NONBLOCK {
        0 => status_field(&info, "Pid:")?.parse().ok(),
        _ => None,
    }
}

/// Whether the process has this thread.
pub fn has_thread(pid: i32, tid: i32) -> bool {
    fs::symlink_metadata(format!("/proc/{pid}/task/{tid}")).is_ok()
}

/// Device and inode of what the process has open under a number; `None` if nothing.
pub fn descriptor(pid: i32, number: i32) -> Option<(u64, u64)> {
    let found = fs::metadata(format!("/proc/{pid}/fd/{number}")).ok()?;
    Some((found.dev(), found.ino()))
}

/// The network namespace that a thread is in: what tells it from others, and itself, open. `None`
/// if that can't be known.
pub fn network(tid: i32) -> Option<((u64, u64), fs::File)> {
    let file = fs::File::open(format!("/proc/{tid}/ns/net")).ok()?;
    let found = file.metadata().ok()?;
    Some(((found.dev(), found.ino()), file))
}

/// The numbers that the process has open.
pub fn descriptors(pid: i32) -> Vec<i32> {
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
pub fn directory(pid: i32, number: i32) -> Option<Vec<u8>> {
    let link = match number {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        number => format!("/proc/{pid}/fd/{number}"),
    };
    fs::read_link(link)
        .ok()
        .map(|path| path.into_os_string().into_vec())
}

/// Whether what the process has open under a number is an epoll instance.
pub fn is_epoll(pid: i32, number: i32) -> bool {
    let link = fs::read_link(format!("/proc/{pid}/fd/{number}"));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
}

/// Whether an execve(2) of the process closes the descriptor.
pub fn closes_on_exec(pid: i32, number: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = status_field(&info, "flags:");
    let flags = flags.and_then(|octal| i32::from_str_radix(octal, 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// Whether the process has the file of this device and inode mapped.
pub fn maps(pid: i32, (device, inode): (u64, u64)) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let device = (libc::major(device), libc::minor(device));
    let mut lines = maps.lines().filter_map(MapsLine::of);
    lines.any(|line| line.device == device && line.inode == inode)
}

/// Whether the process may have one more descriptor.
pub fn has_room(pid: i32, pidfd: &OwnedFd) -> bool {
    let Ok(limit) = limit(pid, libc::RLIMIT_NOFILE) else {
        return true; // can't be told
    };
    let limit = limit.rlim_cur.min(i32::MAX as u64) as i32;
    // The lowest free number is taken first, so the highest is mostly free as long as any is.
    if pidfd::copy_fd(pidfd, limit - 1).is_err() {
        return limit > 0;
    }
    (0..limit).any(|number| descriptor(pid, number).is_none())
}

/// The host kernel's release, as `uname -r` has it, but not what a personality(2) makes of it.
///
/// # Errors
/// The file can't be read: its name is part of the message.
pub fn kernel_release() -> io::Result<String> {
    const FILE: &str = "/proc/sys/kernel/osrelease";
    let release = std::fs::read_to_string(FILE);
    let release =
        release.map_err(|error| io::Error::new(error.kind(), format!("{FILE}: {error}")))?;
    Ok(release.trim().to_owned())
}

/// The first two numbers of a release's name. What is no number is less than all.
pub fn kernel_version(release: &str) -> (Option<u32>, Option<u32>) {
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().ok());
    (numbers.next().flatten(), numbers.next().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use crate::fd::{identity, set_flags};
    use crate::process::{gettid, set_limit};

    fn me() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn relations() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let tid = gettid();
        assert_eq!(tgid_and_ppid(pid), Some((pid, me())));
        assert_eq!(tgid_and_ppid(tid).unwrap().0, me());
        assert_eq!(ns_pid(tid), Some(gettid()));
        assert!(threads(me()).contains(&tid) && threads(pid) == [pid]);
        assert_eq!(ns_pid_of_kind(tid, "NStgid:"), Some(me()));
        assert_eq!(shares_pid_namespace(pid), Some(true));
        assert_eq!(shares_pid_namespace(0), Some(false));
        assert_eq!(thread_by_ns_pid(me(), tid), Some(tid));
        assert_eq!(thread_by_ns_pid(pid, tid), None);
        let pidfd = pidfd::open(pid).unwrap();
        assert_eq!(process_of_pidfd(me(), pidfd.as_raw_fd()), Some(pid));
        set_flags(&pidfd, libc::O_NONBLOCK).unwrap();
        assert_eq!(process_of_pidfd(me(), pidfd.as_raw_fd()), None);
        assert_eq!(process_of_pidfd(me(), 0), None);
        assert!(children(me(), tid).contains(&pid));
        assert!(has_thread(me(), tid) && !has_thread(pid, tid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(me(), tid).contains(&pid));
        assert_eq!(tgid_and_ppid(pid), None);
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
        let pidfd = pidfd::open(pid).unwrap();
        for (limit, room) in [(64, true), (3, false), (1, false), (0, false)] {
            let limit = libc::rlimit {
                rlim_cur: limit,
                rlim_max: 64,
            };
            set_limit(pid, libc::RLIMIT_NOFILE, &limit).unwrap();
            assert_eq!(has_room(pid, &pidfd), room);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn mappings() {
        let [file, mapped] = ["/dev/null", "/proc/self/exe"].map(|path| File::open(path).unwrap());
        assert!(!maps(me(), identity(file.as_raw_fd())));
        assert!(maps(me(), identity(mapped.as_raw_fd())));
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

    #[test]
    fn stat_files() {
        let text = "7 (a) b) R) S 1 7 7 0 -1 0 0 0 0 0 3 4 0 0\n";
        assert_eq!(stat_state(text.as_bytes()), Some(b'S'));
        let fields = StatFields::parse(text).unwrap();
        assert_eq!((fields.state(), fields.get(4)), (Some(b'S'), Some(1)));
        assert_eq!(fields.cpu_time(), Duration::from_millis(70));
        assert_eq!(fields.get::<i32>(40), None);
        assert!(StatFields::parse("").is_none());
    }

    #[test]
    fn accounts() {
        let account = SchedStat {
            ran: Duration::from_nanos(1_010_775),
            delayed: Duration::from_nanos(880_811),
        };
        assert_eq!(SchedStat::parse("1010775 880811 2\n"), Some(account));
        assert_eq!(SchedStat::parse("0\n"), None);
        assert!(SchedStatFile::open().unwrap().read().is_some());
    }
}
