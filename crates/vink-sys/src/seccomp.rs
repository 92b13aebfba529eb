//! Seccomp filters (seccomp(2)), and the listener of one (seccomp_unotify(2)): receive a trapped
//! call, answer it, give it a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, seccomp_notif_sizes};

use crate::done;
use crate::plain::Zeroed;

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

/// Puts a filter in place, for this thread and for what it makes; it can't be taken off. `is_logged`:
/// the host's audit log is told of the calls that it does not allow, as far as
/// `kernel.seccomp.actions_logged` says so. `no_new_privs` is to be set before, for a thread without
/// `CAP_SYS_ADMIN`.
///
/// # Errors
/// As `SECCOMP_SET_MODE_FILTER`.
pub fn apply(filter: &[libc::sock_filter], is_logged: bool) -> io::Result<()> {
    let flags = match is_logged {
        true => libc::SECCOMP_FILTER_FLAG_LOG,
        false => 0,
    };
    install(filter, flags).map(drop)
}

/// The same of a filter that traps calls (`SECCOMP_RET_USER_NOTIF`): the listener's descriptor, for
/// [`Listener::new`] in the process that answers.
///
/// # Errors
/// As `SECCOMP_SET_MODE_FILTER`; `EBUSY` if this thread has a listener already.
pub fn apply_listened(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let listener = install(filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: the kernel has just made it, for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as RawFd) })
}

fn install(filter: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<u64> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let what = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: as many instructions as said, which the kernel reads and checks.
    done(unsafe { libc::syscall(libc::SYS_seccomp, what, flags, &raw const program) })
}

/// A listener of a kernel whose notifications are as large as the structures here.
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes a filter's listener.
    ///
    /// # Errors
    /// As `SECCOMP_GET_NOTIF_SIZES`; `EPROTO` if the kernel's structures are of other sizes: it
    /// writes as much as it knows of, and more would overrun them.
    pub fn new(listener: OwnedFd) -> io::Result<Listener> {
        let mut sizes = seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        let what = libc::SECCOMP_GET_NOTIF_SIZES;
        // SAFETY: the operation fills the structure it is given.
        done(unsafe { libc::syscall(libc::SYS_seccomp, what, 0, &mut sizes) })?;
        match usize::from(sizes.seccomp_notif) == size_of::<seccomp_notif>()
            && usize::from(sizes.seccomp_notif_resp) == size_of::<seccomp_notif_resp>()
        {
            true => Ok(Listener(listener)),
            false => Err(io::Error::from_raw_os_error(libc::EPROTO)),
        }
    }

    /// The next trapped call.
    ///
    /// # Errors
    /// `ENOENT` if the one that made the listener readable is gone again.
    #[inline]
    pub fn receive(&self) -> io::Result<seccomp_notif> {
        let mut notification = seccomp_notif::zeroed();
        self.request(RECV, &mut notification)?;
        Ok(notification)
    }

    /// Answers a call.
    ///
    /// # Errors
    /// `ENOENT` if its thread is gone.
    #[inline]
    pub fn answer(&self, mut answer: seccomp_notif_resp) -> io::Result<()> {
        uninterrupted(|| self.request(SEND, &mut answer)).map(|_| ())
    }

    /// Whether a call still waits for its answer.
    pub fn waits(&self, mut id: u64) -> bool {
        uninterrupted(|| self.request(ID_VALID, &mut id)).is_ok()
    }

    /// Gives the process of a waiting call a copy of `fd`: its number there, which is `at`, closed
    /// first, or else the lowest free one. `send`: the call is answered with it.
    ///
    /// # Errors
    /// As `SECCOMP_IOCTL_NOTIF_ADDFD`.
    pub fn add_fd(
        &self,
        id: u64,
        fd: RawFd,
        at: Option<i32>,
        cloexec: bool,
        send: bool,
    ) -> io::Result<i32> {
        let mut add = seccomp_notif_addfd {
            id,
            flags: if at.is_some() { ADDFD_SETFD } else { 0 } | if send { ADDFD_SEND } else { 0 },
            srcfd: fd as u32,
            newfd: at.unwrap_or(0) as u32,
            newfd_flags: if cloexec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        uninterrupted(|| self.request(ADDFD, &mut add))
    }

    /// Whether the waker's processor is the one that a thread goes on at, be it one that waits for
    /// the listener or for an answer. A hint for the scheduler, since Linux 6.6.
    pub fn wake_same_cpu(&self, same: bool) {
        let flags = if same { FD_SYNC_WAKE_UP } else { 0 };
        // SAFETY: this request takes its flags by value.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FLAGS, flags) };
    }

    #[inline]
    fn request(&self, what: libc::c_ulong, with: &mut impl Argument) -> io::Result<i32> {
        // SAFETY: each of the requests above is made with the structure whose size its number
        // carries, and the kernel knows of no larger ones.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), what, &raw mut *with) };
        done(result.into()).map(|result| result as i32)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the requests above are made with.
trait Argument {}
impl Argument for seccomp_notif {}
impl Argument for seccomp_notif_resp {}
impl Argument for seccomp_notif_addfd {}
impl Argument for u64 {}

/// Repeats a request as long as signals interrupt it.
fn uninterrupted<T>(mut request: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match request() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
