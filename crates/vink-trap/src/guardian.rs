//! The guardian: a process that ends what is left of a worker's programs when the worker was killed.
//!
//! A worker that ends in good order kills its programs. One that is killed (kill -9, the OOM killer) can't; the
//! host's kernel then kills its children, but not what those have started, which would find every
//! trapped call failing. The guardian waits for the end of a socket whose other end only the worker has. It
//! knows the programs by the namespaces that their machines' homes consist of: a process may leave
//! one of them, not all. It has these namespaces open, so that their numbers can't become another's.
//! Helpers of the worker that are no programs, such as passt, it knows by their pidfds: a helper that ends by
//! itself at the end of a socket may hang just then.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::home::Namespaces;
use crate::{target, Error};

/// What the worker tells, with a descriptor: programs are in this namespace.
const NAMESPACE: u8 = 0;
/// This process is a helper.
const HELPER: u8 = 1;
/// The worker needs no guardian any more; without a descriptor.
const DISMISSED: u8 = 2;
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
        // SAFETY: the child runs nothing but `guard`, which takes no lock that another thread may have:
        // glibc keeps the allocator usable over a fork.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last("fork() for a guardian")),
            0 => guard(other.as_raw_fd()),
            pid => Ok(Guardian { pid, socket }),
        }
    }

    /// What is in these namespaces is to end with the worker.
    pub(crate) fn mind(&self, namespaces: &Namespaces) {
        for namespace in namespaces.of_programs() {
            self.tell(NAMESPACE, Some(namespace));
        }
    }

    /// The process of this pidfd is to end with the worker.
    pub(crate) fn mind_helper(&self, pidfd: BorrowedFd<'_>) {
        self.tell(HELPER, Some(pidfd));
    }

    fn tell(&self, what: u8, about: Option<BorrowedFd<'_>>) {
        // Fails if somebody has killed it.
        let _ = send(self.socket.as_fd(), what, about);
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.tell(DISMISSED, None);
        // SAFETY: our child, whose status nobody wants.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// What the guardian does until it ends.
fn guard(socket: RawFd) -> ! {
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
    // SAFETY: open from here on until the end of the process.
    let socket = unsafe { BorrowedFd::borrow_raw(0) };
    let (mut namespaces, mut helpers) = (Vec::new(), Vec::new());
    loop {
        match receive(socket) {
            Ok((NAMESPACE, about)) => namespaces.extend(about),
            Ok((HELPER, about)) => helpers.extend(about),
            Ok((DISMISSED, _)) => exit(),
            _ => break,
        }
    }
    for helper in &helpers {
        crate::worker::send_signal(helper, libc::SIGKILL);
    }
    let namespaces = namespaces.iter();
    let inodes: Vec<u64> = namespaces
        .map(|namespace| target::identity(namespace.as_raw_fd()).1)
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

/// Room for one descriptor beside a message; see cmsg(3).
#[repr(C)]
struct Rights {
    header: libc::cmsghdr,
    fd: RawFd,
}

/// With the length of what it has.
fn rights(fd: RawFd) -> Rights {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut header: libc::cmsghdr = unsafe { zeroed() };
    header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<RawFd>()) as _;
    header.cmsg_level = libc::SOL_SOCKET;
    header.cmsg_type = libc::SCM_RIGHTS;
    Rights { header, fd }
}

/// A message of a byte, and a descriptor (unix(7)).
fn send(socket: BorrowedFd<'_>, what: u8, about: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let what = [what];
    let mut data = IoSlice::new(&what);
    let mut rights = about.map(|fd| rights(fd.as_raw_fd()));
    // SAFETY: all zero is a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = (&raw mut data).cast();
    message.msg_iovlen = 1;
    if let Some(rights) = &mut rights {
        message.msg_control = (&raw mut *rights).cast();
        message.msg_controllen = size_of::<Rights>() as _;
    }
    // SAFETY: an IoSlice is an iovec; all that the message points to lives here.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The next message; an error at the end of all.
fn receive(socket: BorrowedFd<'_>) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut what = [0];
    let mut data = IoSliceMut::new(&mut what);
    let mut rights = rights(-1);
    // SAFETY: all zero is a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = (&raw mut data).cast();
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut rights).cast();
    message.msg_controllen = size_of::<Rights>() as _;
    // SAFETY: an IoSliceMut is an iovec; all that the message points to lives here.
    match unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) } {
        1.. => {}
        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
        _ => return Err(io::Error::last_os_error()),
    }
    let came = message.msg_controllen as usize >= size_of::<libc::cmsghdr>();
    // SAFETY: new, and nobody else's: the one kind of control message that this socket carries.
    let about = came.then(|| unsafe { OwnedFd::from_raw_fd(rights.fd) });
    Ok((what[0], about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_their_descriptors() {
        let mut ends = [-1; 2];
        // SAFETY: the call fills the two integers, which are nobody else's.
        let [a, b] = unsafe {
            let made = libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ends.as_mut_ptr());
            assert_eq!(made, 0);
            ends.map(|end| OwnedFd::from_raw_fd(end))
        };
        let file = std::fs::File::open("/dev/null").unwrap();
        send(a.as_fd(), HELPER, Some(file.as_fd())).unwrap();
        send(a.as_fd(), DISMISSED, None).unwrap();
        drop(a);
        let (what, about) = receive(b.as_fd()).unwrap();
        let identities = [about.unwrap().as_raw_fd(), file.as_raw_fd()].map(target::identity);
        assert_eq!((what, identities[0]), (HELPER, identities[1]));
        let (what, about) = receive(b.as_fd()).unwrap();
        assert_eq!((what, about.is_none()), (DISMISSED, true));
        assert!(receive(b.as_fd()).is_err());
    }
}
