//! The guardian: a process that ends what is left of a worker's programs when the worker was killed.
//!
//! A worker that ends in good order kills its programs. One that is killed (kill -9, the OOM killer) can't; the
//! host's kernel then kills its children, but not what those have started, which would find every
//! trapped call failing. The guardian waits for the end of a socket whose other end only the worker has. It
//! knows the programs by the namespaces that their machines' homes consist of: a process may leave
//! one of them, not all. It has these namespaces open, so that their numbers can't become another's.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::home::Namespaces;
use crate::Error;

/// In place of a namespace: the worker needs no guardian any more.
const DISMISSED: RawFd = -1;
/// Killed processes are given so many milliseconds to go; one that hangs in a driver may not.
const PATIENCE: u32 = 10_000;

/// The worker's side.
pub(crate) struct Guardian {
    pid: i32,
    socket: OwnedFd,
}

impl Guardian {
    /// Forks it off.
    pub(crate) fn start() -> Result<Guardian, Error> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: the call fills the two integers.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
            return Err(Error::last("socketpair() for a guardian"));
        }
        // SAFETY: both descriptors are new and nobody else's.
        let [socket, other] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let worker = std::process::id();
        // SAFETY: the child runs nothing but `guard`, which takes no lock that another thread may have:
        // glibc keeps the allocator usable over a fork.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last("fork() for a guardian")),
            0 => guard(worker, other.as_raw_fd()),
            pid => Ok(Guardian { pid, socket }),
        }
    }

    /// What is in these namespaces is to end with the worker, which keeps them open.
    pub(crate) fn mind(&self, namespaces: &Namespaces) {
        for fd in namespaces.of_programs() {
            self.tell(fd);
        }
    }

    fn tell(&self, fd: RawFd) {
        let (at, len) = ((&raw const fd).cast(), size_of::<RawFd>());
        // Fails if somebody has killed it.
        // SAFETY: the message is as long as said.
        unsafe { libc::send(self.socket.as_raw_fd(), at, len, libc::MSG_NOSIGNAL) };
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.tell(DISMISSED);
        // SAFETY: our child, whose status nobody wants.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// What the guardian does until it ends.
fn guard(worker: u32, socket: RawFd) -> ! {
    // SAFETY: numbers, a constant, and a set that lives here. No descriptor of the worker's is used
    // after this but the socket, which is 0 from here on: nobody shall wait for the end of an output
    // that only the guardian still has.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"vink-guardian".as_ptr());
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        libc::dup2(socket, 0);
        libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0);
    }
    let mut namespaces = Vec::new();
    loop {
        let mut fd: RawFd = 0;
        let (at, len) = ((&raw mut fd).cast(), size_of::<RawFd>());
        // SAFETY: the buffer is as long as said.
        let got = unsafe { libc::recv(0, at, len, 0) };
        match (got, fd) {
            (4, DISMISSED) => exit(),
            (4, fd) => namespaces.extend(File::open(format!("/proc/{worker}/fd/{fd}"))),
            _ => break,
        }
    }
    let inodes: Vec<u64> = namespaces
        .iter()
        .filter_map(|namespace| Some(namespace.metadata().ok()?.ino()))
        .collect();
    for _ in 0..PATIENCE {
        if !kill_all(&inodes) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    exit()
}

fn exit() -> ! {
    // SAFETY: ends the process at once, without what exit() would do for the worker.
    unsafe { libc::_exit(0) }
}

/// Kills every process that is in one of the namespaces. Whether there was any.
fn kill_all(inodes: &[u64]) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    let mut found = false;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // SAFETY: takes numbers; makes a descriptor.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if pidfd < 0 {
            continue;
        }
        // SAFETY: new, and nobody else's.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) };
        let within = ["net", "uts", "mnt"].iter().any(|kind| {
            let namespace = std::fs::metadata(format!("/proc/{pid}/ns/{kind}"));
            namespace.is_ok_and(|namespace| inodes.contains(&namespace.ino()))
        });
        if within {
            found = true;
            crate::worker::send_signal(&pidfd, libc::SIGKILL);
        }
    }
    found
}
