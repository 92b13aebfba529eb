//! Rings of packet sockets that programs have mapped, and numbers that stand for their files
//! meanwhile (`packet_ring`).

use std::cell::Cell;
use std::rc::{Rc, Weak};

use vink_kernel::RingId;

use crate::file::File;

/// A ring that some process may have mapped.
pub(crate) struct Mapped {
    pub(crate) ring: RingId,
    /// The socket, if a program still has it open.
    pub(crate) file: Weak<File>,
    /// The program whose processes may have it.
    pub(crate) program: usize,
    /// Device and inode of the ring's file.
    pub(crate) identity: (u64, u64),
    /// The process that was last seen to have it: mostly it still has.
    pub(crate) holder: Cell<i32>,
}

/// A placeholder's number that stands for its ring's file.
pub(crate) struct Lent {
    pub(crate) fd: i32,
    pub(crate) file: Rc<File>,
    /// The ring's.
    pub(crate) identity: (u64, u64),
    /// The thread whose mmap(2) passed through.
    pub(crate) tid: i32,
}
