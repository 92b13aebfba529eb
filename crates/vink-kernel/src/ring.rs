//! Rings of packet sockets (packet(7), `PACKET_RX_RING`) in memory that other processes can map.
//!
//! The kernel makes a ring of blocks of its arena. [`Kernel::map_ring`] puts their contents into a
//! memory file, whose pages then take the blocks' place in the arena: the kernel finds them where
//! it left them, and so does each process that maps the file. The socket is held open meanwhile, so
//! that the blocks can't be freed before [`Kernel::unmap_ring`] has put private memory in their
//! place.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{null_mut, slice_from_raw_parts};

use vink_abi::{Block, VINK_CALL_RING_MAP, VINK_CALL_RING_POLL, VINK_CALL_RING_UNMAP};

use crate::{Error, Kernel, TaskId};

/// Rings are mostly of fewer blocks than this.
const ROOM: usize = 64;

/// A ring mapped by [`Kernel::map_ring`]. Only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingId(u64);

/// The memory of a mapped ring.
pub struct Ring {
    memory: File,
    len: u64,
    blocks: Vec<Block>,
}

impl Ring {
    /// The file to be mapped, from its start on, with `MAP_SHARED`. Its length can't be changed.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Its length in bytes: what Linux demands of an mmap(2) of the socket, a multiple of the page
    /// size.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Moves the blocks' contents to a file.
    fn new(blocks: Vec<Block>) -> io::Result<Ring> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: makes a descriptor, which is then owned once.
        let memory = unsafe {
            let fd = libc::memfd_create(c"packet ring".as_ptr(), flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        let ring = Ring {
            memory,
            len: blocks.iter().map(|block| block.len).sum(),
            blocks,
        };
        ring.memory.set_len(ring.len)?;
        for (block, at) in ring.places() {
            // SAFETY: the image says that the block is there, and it isn't running.
            let bytes = unsafe { &*slice_from_raw_parts(block.start.cast(), block.len as usize) };
            ring.memory.write_all_at(bytes, at)?;
        }
        // Shortened by the program, it would be a fault in the kernel.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes numbers.
        if unsafe { libc::fcntl(ring.memory.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        for (block, at) in ring.places() {
            let shared = libc::MAP_SHARED;
            if let Err(error) = map(block, shared, ring.memory.as_raw_fd(), at) {
                ring.make_private()?;
                return Err(error);
            }
        }
        Ok(ring)
    }

    /// Blocks, and where in the file they are.
    fn places(&self) -> impl Iterator<Item = (&Block, u64)> {
        self.blocks.iter().scan(0, |end, block| {
            let at = *end;
            *end += block.len;
            Some((block, at))
        })
    }

    /// Puts private memory with the same contents in the place of the file's.
    fn make_private(&self) -> io::Result<()> {
        for (block, at) in self.places() {
            map(block, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
            // SAFETY: the block is the image's, mapped just now, and the image isn't running.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(block.start.cast::<u8>(), block.len as usize)
            };
            self.memory.read_exact_at(bytes, at)?;
        }
        Ok(())
    }
}

/// Puts other memory in the place of a block; if that fails, all is as it was.
fn map(block: &Block, flags: i32, file: i32, at: u64) -> io::Result<()> {
    let len = block.len as usize;
    let flags = flags | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: replaces whole pages of the arena, where the image says that the block is, and
    // undoes for them what the arena says to forks.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(block.start, len, protection, flags, file, at as libc::off_t);
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::madvise(start, len, libc::MADV_DONTFORK);
    }
    Ok(())
}

impl Kernel {
    /// Maps the rings of a packet socket, a descriptor of the task's, as mmap(2) would. The socket
    /// stays open until [`Kernel::unmap_ring`].
    ///
    /// # Errors
    /// As [`Kernel::call`]. [`Error::Errno`]: `EBADF`; `ENODEV`, not a packet socket; `EINVAL`, it
    /// has no ring; what memfd_create(2) and mmap(2) give.
    pub fn map_ring(&mut self, t: TaskId, fd: i32) -> Result<RingId, Error> {
        let empty = Block {
            start: null_mut::<c_void>(),
            len: 0,
        };
        let cookie = self.new_id().get();
        let mut blocks = vec![empty; ROOM];
        loop {
            let room = blocks.len();
            let into = blocks.as_mut_ptr() as u64;
            let args = [fd as u64, cookie, into, room as u64, 0, 0];
            let count = self.call(t, VINK_CALL_RING_MAP.into(), args)?;
            let count = usize::try_from(count).map_err(|_| errno(-count as i32))?;
            blocks.resize(count, empty);
            if count <= room {
                break;
            }
        }
        match Ring::new(blocks) {
            Ok(ring) => {
                self.rings.insert(RingId(cookie), ring);
                Ok(RingId(cookie))
            }
            Err(error) => {
                self.forget_ring(cookie)?;
                Err(errno(error.raw_os_error().unwrap_or(libc::EIO)))
            }
        }
    }

    /// A mapped ring.
    pub fn ring(&self, ring: RingId) -> Option<&Ring> {
        self.rings.get(&ring)
    }

    /// The readiness of the socket that the ring is of (`EPOLL*`), open elsewhere or not.
    ///
    /// # Errors
    /// [`Error::Errno`] `ENOENT`: it isn't mapped. As [`Kernel::run`].
    pub fn poll_ring(&mut self, ring: RingId) -> Result<u32, Error> {
        let nr = VINK_CALL_RING_POLL;
        let events = self.control("poll a packet ring", nr, [ring.0, 0, 0, 0, 0, 0])?;
        Ok(events as u32)
    }

    /// Undoes [`Kernel::map_ring`]. A process that still has the ring's file mapped sees it as it
    /// was.
    ///
    /// # Errors
    /// [`Error::Errno`]: `ENOENT`, it isn't mapped; what mmap(2) gives, and all is as it was. As
    /// [`Kernel::run`].
    pub fn unmap_ring(&mut self, ring: RingId) -> Result<(), Error> {
        let mapped = self.rings.get(&ring).ok_or(errno(libc::ENOENT))?;
        let done = mapped.make_private();
        done.map_err(|error| errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        self.rings.remove(&ring);
        self.forget_ring(ring.0)
    }

    fn forget_ring(&mut self, cookie: u64) -> Result<(), Error> {
        let nr = VINK_CALL_RING_UNMAP;
        self.control("unmap a packet ring", nr, [cookie, 0, 0, 0, 0, 0])
            .map(drop)
    }
}

fn errno(errno: i32) -> Error {
    let what = "map a packet ring";
    Error::Errno { what, errno }
}
