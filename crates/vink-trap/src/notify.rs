//! The listener of a seccomp filter: receive a trapped call, answer it, give it a descriptor.

use std::cell::Cell;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, seccomp_notif_sizes};

use crate::calls::FOREIGN;
use crate::filter::AUDIT_ARCH_X86_64;
use crate::trace::{End, Tracer};
use crate::Error;

const RECV: libc::c_ulong = iowr(3, 0, size_of::<seccomp_notif>());
const SEND: libc::c_ulong = iowr(3, 1, size_of::<seccomp_notif_resp>());
const ID_VALID: libc::c_ulong = iowr(1, 2, size_of::<u64>());
const ADDFD: libc::c_ulong = iowr(1, 3, size_of::<seccomp_notif_addfd>());
const SET_FLAGS: libc::c_ulong = iowr(1, 4, size_of::<u64>());

/// `_IOC(direction, '!', number, size)` of `<linux/seccomp.h>`.
const fn iowr(direction: u64, number: u64, size: usize) -> libc::c_ulong {
    direction << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number
}

const FD_SYNC_WAKE_UP: u64 = 1;
const ADDFD_SETFD: u32 = 1;
const ADDFD_SEND: u32 = 2;

/// A trapped call: who waits, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    /// Names the waiting call at its listener.
    pub(crate) id: u64,
    /// The waiting thread, in our pid namespace.
    pub(crate) tid: i32,
    pub(crate) nr: i64,
    pub(crate) args: [u64; 6],
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The thread has it.
    Taken,
    /// The thread is dead.
    Gone,
}

/// One listener; serves every process that inherited the filter.
pub(crate) struct Listener {
    fd: OwnedFd,
    /// See [`Listener::wake_near`].
    near: Cell<bool>,
    tracer: Option<Rc<Tracer>>,
}

impl Listener {
    /// Takes a listener into service. All that ends its calls is told to the tracer.
    pub(crate) fn new(fd: OwnedFd, tracer: Option<Rc<Tracer>>) -> Result<Listener, Error> {
        let mut sizes = seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: the operation fills the structure it is given.
        let done = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0,
                &mut sizes,
            )
        };
        if done < 0 {
            return Err(Error::last("seccomp(SECCOMP_GET_NOTIF_SIZES)"));
        }
        // The kernel writes as much as it knows of: a larger structure would overrun ours.
        if usize::from(sizes.seccomp_notif) != size_of::<seccomp_notif>()
            || usize::from(sizes.seccomp_notif_resp) != size_of::<seccomp_notif_resp>()
        {
            return Err(Error::System {
                what: "seccomp notifications of the sizes this program was built for",
                errno: libc::EPROTO,
            });
        }
        let listener = Listener {
            fd,
            tracer,
            near: Cell::new(false),
        };
        listener.wake_near(true);
        Ok(listener)
    }

    /// Whether the worker and a program wait for each other: who is woken runs on the processor of the other, who is about to
    /// wait.
    pub(crate) fn wake_near(&self, near: bool) {
        if self.near.replace(near) == near {
            return;
        }
        let flags = if near { FD_SYNC_WAKE_UP } else { 0 };
        // A hint for the scheduler since Linux 6.6; without it everything works, more slowly.
        // SAFETY: this request takes its flags by value.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), SET_FLAGS, flags) };
    }

    /// The next trapped call; `None` if the one that made the listener readable is gone again.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: all zero is a valid value of this plain structure.
        let mut n: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is of the size that the kernel uses, and zeroed as it demands.
        if unsafe { libc::ioctl(self.fd.as_raw_fd(), RECV, &mut n) } < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Notification {
            id: n.id,
            tid: n.pid as i32,
            nr: match n.data.arch {
                AUDIT_ARCH_X86_64 => i64::from(n.data.nr),
                _ => FOREIGN,
            },
            args: n.data.args,
        }))
    }

    /// Whether the call still waits for its answer: its thread is alive.
    pub(crate) fn waits(&self, id: u64) -> bool {
        // SAFETY: reads a number that outlives the call.
        let ask = || unsafe { libc::ioctl(self.fd.as_raw_fd(), ID_VALID, &raw const id) };
        uninterrupted(ask) == 0
    }

    /// Lets the host do the call.
    pub(crate) fn let_pass(&self, id: u64) -> Sent {
        self.send(seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        })
    }

    /// Ends the call with `result`, negative errno on failure.
    pub(crate) fn answer(&self, id: u64, result: i64) -> Sent {
        let failed = (-4095..0).contains(&result);
        self.send(seccomp_notif_resp {
            id,
            val: if failed { 0 } else { result },
            error: if failed { result as i32 } else { 0 },
            flags: 0,
        })
    }

    fn send(&self, mut answer: seccomp_notif_resp) -> Sent {
        let traced = self.tracer.as_ref().and_then(|tracer| {
            let end = match (answer.flags, answer.error) {
                (0, 0) => End::Result(answer.val),
                (0, error) => End::Result(error.into()),
                _ => End::Passed,
            };
            Some((tracer, tracer.draft(answer.id, end)?))
        });
        // SAFETY: the structure is of the size that the kernel uses.
        let send = || unsafe { libc::ioctl(self.fd.as_raw_fd(), SEND, &mut answer) };
        let sent = match uninterrupted(send) {
            0 => Sent::Taken,
            // ENOENT; nothing else is left to be wrong.
            _ => Sent::Gone,
        };
        if let Some((tracer, draft)) = traced {
            tracer.finish(draft, sent, None);
        }
        sent
    }

    /// Gives the waiting process a copy of `fd` and ends its call with the new number, which is
    /// the lowest free one. `Err`: the process can't have it (EMFILE); the call still waits.
    pub(crate) fn answer_fd(&self, id: u64, fd: RawFd, cloexec: bool) -> Result<(Sent, i32), i32> {
        let tracer = self.tracer.as_ref();
        let traced = tracer.and_then(|tracer| Some((tracer, tracer.draft(id, End::Descriptor)?)));
        let added = self.add(id, fd, None, cloexec, true);
        if let (Some((tracer, draft)), Ok((sent, new))) = (traced, added) {
            tracer.finish(draft, sent, Some(new));
        }
        added
    }

    /// Gives the waiting process a copy of `fd` under the number `at`, which is closed first.
    /// The call still waits.
    pub(crate) fn put_fd(
        &self,
        id: u64,
        fd: RawFd,
        at: i32,
        cloexec: bool,
    ) -> Result<(Sent, i32), i32> {
        self.add(id, fd, Some(at), cloexec, false)
    }

    fn add(
        &self,
        id: u64,
        fd: RawFd,
        at: Option<i32>,
        cloexec: bool,
        send: bool,
    ) -> Result<(Sent, i32), i32> {
        let mut request = seccomp_notif_addfd {
            id,
            flags: if at.is_some() { ADDFD_SETFD } else { 0 } | if send { ADDFD_SEND } else { 0 },
            srcfd: fd as u32,
            newfd: at.unwrap_or(0) as u32,
            newfd_flags: if cloexec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: the structure is of the size that the request's number carries.
        let add = || unsafe { libc::ioctl(self.fd.as_raw_fd(), ADDFD, &mut request) };
        let new = uninterrupted(add);
        if new >= 0 {
            return Ok((Sent::Taken, new));
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH | libc::EINPROGRESS) => Ok((Sent::Gone, -1)),
            errno => Err(errno.unwrap_or(libc::EIO)),
        }
    }
}

/// Makes a request until no signal for the worker, stopped and continued perhaps, is in its way: it
/// has done nothing then.
fn uninterrupted(mut request: impl FnMut() -> i32) -> i32 {
    loop {
        let done = request();
        if done >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return done;
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
