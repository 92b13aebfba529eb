//! Rings of packet sockets (packet(7), `PACKET_RX_RING`) in memory that other processes can map.
//!
//! The kernel makes a ring of blocks of its arena. [`Kernel::map_ring`] puts their contents into a
//! memory file, whose pages then take the blocks' place in the arena: the kernel finds them where
//! it left them, and so does each process that maps the file. The socket is held open meanwhile, so
//! that the blocks can't be freed before [`Kernel::unmap_ring`] has put private memory in their
//! place.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

use vink_abi::{Block, VINK_CALL_RING_MAP, VINK_CALL_RING_POLL, VINK_CALL_RING_UNMAP};
use vink_sys::fd::in_memory_sealed;
use vink_sys::mapping::Pages;

use crate::arena::Arena;
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
    fn new(blocks: Vec<Block>, arena: &Arena) -> io::Result<Ring> {
        let len = blocks.iter().map(|block| block.len).sum();
        // Shortened by the program, it would be a fault in the kernel.
        let memory = in_memory_sealed(c"packet ring", len)?;
        let ring = Ring {
            memory,
            len,
            blocks,
        };
        for (block, at) in ring.places() {
            let mut bytes = vec![0; block.len as usize];
            arena.read(block.start, &mut bytes);
            ring.memory.write_all_at(&bytes, at)?;
        }
        for (block, at) in ring.places() {
            let pages = Pages::Shared(ring.memory.as_fd(), at);
            if let Err(error) = arena.replace(block.start, block.len as usize, pages) {
                ring.make_private(arena)?;
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
    fn make_private(&self, arena: &Arena) -> io::Result<()> {
        for (block, at) in self.places() {
            let mut bytes = vec![0; block.len as usize];
            self.memory.read_exact_at(&mut bytes, at)?;
            arena.replace(block.start, bytes.len(), Pages::Zeroes)?;
            arena.write(block.start, &bytes);
        }
        Ok(())
    }
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
            start: null_mut(),
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
        match Ring::new(blocks, &self.host.arena) {
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
        let done = mapped.make_private(&self.host.arena);
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
