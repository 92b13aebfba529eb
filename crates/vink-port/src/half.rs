//! One end of a wire between two processes, on its way: three descriptors.
//!
//! Each direction is a sealed memory file: a page of control words (`struct vink_pipe`), and a ring
//! of frames. A byte on the socket says "look", its end that the other process is gone: there is
//! one descriptor to wait for, and nothing to be cleaned up by the surviving process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use vink_sys::fd::in_memory_sealed;

use crate::line::{CONTROL, SIZE};

/// One end of a wire between two processes, before a process is at it.
#[derive(Debug)]
pub struct Half {
    /// What this end sends.
    pub(crate) sends: OwnedFd,
    /// What it receives.
    pub(crate) receives: OwnedFd,
    pub(crate) bell: OwnedFd,
}

/// Makes both ends of a wire between two processes. Their maker must not keep either: the end of a
/// process shows when the last descriptor of its half is closed.
///
/// # Errors
/// As memfd_create(2), ftruncate(2), fcntl(2), socketpair(2).
pub fn halves() -> io::Result<[Half; 2]> {
    let [there, back] = [memory()?, memory()?];
    let (a, b) = UnixStream::pair()?;
    let half = |sends, receives, bell: UnixStream| Half {
        sends,
        receives,
        bell: bell.into(),
    };
    Ok([
        half(there.try_clone()?, back.try_clone()?, a),
        half(back, there, b),
    ])
}

impl Half {
    /// To send it to another process by `SCM_RIGHTS`, in this order.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [&self.sends, &self.receives, &self.bell].map(AsFd::as_fd)
    }

    /// What was sent.
    pub fn from_descriptors([sends, receives, bell]: [OwnedFd; 3]) -> Half {
        Half {
            sends,
            receives,
            bell,
        }
    }

    /// Its doorbell: readable when the other process has said something, or is gone.
    pub fn into_bell(self) -> OwnedFd {
        self.bell
    }
}

/// Makes the memory of one direction.
fn memory() -> io::Result<OwnedFd> {
    Ok(in_memory_sealed(c"vink wire", (CONTROL + SIZE) as u64)?.into())
}
