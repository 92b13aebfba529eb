//! The backend of a kernel in the process: the C library's functions that programs call most save the
//! way by a signal (`dispatch`), and nothing depends on them.

use vink_shim::types::*;
use vink_shim::{args, finish, Backend, Given};

use crate::enter::enter;

/// Makes each call by [`enter`].
struct InProcess;

vink_shim::symbols!(InProcess, sockets);

/// The size of the kernel's signal set, in bytes.
const MASK: u64 = 8;

impl Backend for InProcess {
    #[inline(always)]
    fn call(nr: i64, args: [u64; 6], _next: impl FnOnce() -> i64) -> i64 {
        finish(enter(nr, args)) as i64
    }

    unsafe fn ppoll(
        fds: *mut pollfd,
        count: nfds_t,
        time: *const timespec,
        mask: *const sigset_t,
        next: impl FnOnce() -> c_int,
    ) -> c_int {
        // SAFETY: by the caller.
        let mut left = Left::new(unsafe { Given::given(time) });
        let call = args([fds as u64, count, left.address(), mask as u64, MASK]);
        Self::call(libc::SYS_ppoll, call, || next().into()) as c_int
    }

    unsafe fn pselect(
        end: c_int,
        readable: *mut fd_set,
        writable: *mut fd_set,
        odd: *mut fd_set,
        time: *const timespec,
        mask: *const sigset_t,
        next: impl FnOnce() -> c_int,
    ) -> c_int {
        // SAFETY: by the caller.
        let mut left = Left::new(unsafe { Given::given(time) });
        let sixth = [mask as u64, MASK];
        let [readable, writable, odd] = [readable, writable, odd].map(|set| set as u64);
        let (end, left, sixth) = (end as u64, left.address(), sixth.as_ptr() as u64);
        let call = [end, readable, writable, odd, left, sixth];
        Self::call(libc::SYS_pselect6, call, || next().into()) as c_int
    }
}

/// A time limit. The system call writes how much is left of it; the function leaves it as it is.
struct Left(Option<timespec>);

impl Left {
    fn new(given: Option<&timespec>) -> Left {
        Left(given.copied())
    }

    /// For the system call; 0: there is no limit.
    fn address(&mut self) -> u64 {
        self.0.as_mut().map_or(0, |left| (&raw mut *left) as u64)
    }
}
