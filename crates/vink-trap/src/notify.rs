//! The listener of a seccomp filter: receive a trapped call, answer it, give it a descriptor.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use libc::seccomp_notif_resp;
use vink_sys::seccomp;

use crate::filter::AUDIT_ARCH_X86_64;
use crate::notification::{Notification, Reply};
use crate::trace::{End, Tracer};
use crate::Error;

/// One listener; serves every process that inherited the filter.
pub(crate) struct Listener {
    listener: seccomp::Listener,
    /// See [`Listener::wake_same_cpu`].
    same_cpu: Cell<bool>,
    tracer: Option<Rc<Tracer>>,
}

impl Listener {
    /// Takes a listener into service. The tracer sees all answers to its calls.
    pub(crate) fn new(fd: OwnedFd, tracer: Option<Rc<Tracer>>) -> Result<Listener, Error> {
        let sizes = "seccomp notifications of the sizes this program was built for";
        let listener = Listener {
            listener: seccomp::Listener::new(fd).map_err(Error::of(sizes))?,
            tracer,
            same_cpu: Cell::new(false),
        };
        listener.wake_same_cpu(true);
        Ok(listener)
    }

    /// Whether the worker and a program wait for each other: the woken one then runs on the
    /// processor of the other, which is about to wait.
    pub(crate) fn wake_same_cpu(&self, same_cpu: bool) {
        if self.same_cpu.replace(same_cpu) == same_cpu {
            return;
        }
        self.listener.wake_same_cpu(same_cpu);
    }

    /// The next trapped call; `None` if the one that made the listener readable is gone again.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        let n = match self.listener.receive() {
            Ok(n) => n,
            Err(error) => {
                return match error.raw_os_error() {
                    Some(libc::ENOENT | libc::EINTR) => Ok(None),
                    _ => Err(error),
                }
            }
        };
        Ok(Some(Notification {
            id: n.id,
            tid: n.pid as i32,
            nr: match n.data.arch {
                AUDIT_ARCH_X86_64 => i64::from(n.data.nr),
                _ => vink_syscalls::FOREIGN,
            },
            args: n.data.args,
        }))
    }

    /// Whether the call still waits for its answer: its thread is alive.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.listener.waits(id)
    }

    /// Lets the host do the call.
    pub(crate) fn continue_call(&self, id: u64) -> Reply {
        self.send(seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        })
    }

    /// Ends the call with `result`, negative errno on failure.
    pub(crate) fn answer(&self, id: u64, result: i64) -> Reply {
        let failed = (-4095..0).contains(&result);
        self.send(seccomp_notif_resp {
            id,
            val: if failed { 0 } else { result },
            error: if failed { result as i32 } else { 0 },
            flags: 0,
        })
    }

    fn send(&self, answer: seccomp_notif_resp) -> Reply {
        let traced = self.tracer.as_ref().and_then(|tracer| {
            let end = match (answer.flags, answer.error) {
                (0, 0) => End::Result(answer.val),
                (0, error) => End::Result(error.into()),
                _ => End::Passed,
            };
            Some((tracer, tracer.draft(answer.id, end)?))
        });
        let sent = match self.listener.answer(answer) {
            Ok(()) => Reply::Delivered,
            // ENOENT; nothing else is left to be wrong.
            _ => Reply::ThreadGone,
        };
        if let Some((tracer, draft)) = traced {
            tracer.finish(draft, sent, None);
        }
        sent
    }

    /// Gives the waiting process a copy of `fd` and ends its call with the new number, which is
    /// the lowest free one. `Err`: the process can't have it (EMFILE); the call still waits.
    pub(crate) fn answer_fd(&self, id: u64, fd: RawFd, cloexec: bool) -> Result<(Reply, i32), i32> {
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
    ) -> Result<(Reply, i32), i32> {
        self.add(id, fd, Some(at), cloexec, false)
    }

    fn add(
        &self,
        id: u64,
        fd: RawFd,
        at: Option<i32>,
        cloexec: bool,
        send: bool,
    ) -> Result<(Reply, i32), i32> {
        let error = match self.listener.add_fd(id, fd, at, cloexec, send) {
            Ok(new) => return Ok((Reply::Delivered, new)),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH | libc::EINPROGRESS) => Ok((Reply::ThreadGone, -1)),
            errno => Err(errno.unwrap_or(libc::EIO)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
