//! No wall: the pod is part of the worker. For measurements of what the walls cost.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

use crate::calls::Native;
use crate::load::{cycles, initialised, Loaded, Source};
use crate::{Batch, Fault, Limits, LoadError, Pod, Wall};

struct Bare {
    native: Native,
    /// Open: its path is the object's name for dlopen(3), and must be no other's.
    _memory: File,
    limits: Limits,
    bytes: u64,
}

/// Loads a shared object.
///
/// # Errors
/// [`LoadError`].
pub fn load(source: &Source<'_>) -> Result<Loaded, LoadError> {
    let wrong = |why: String| LoadError::File {
        path: source.file.to_owned(),
        why,
    };
    crate::alone::enter(Wall::None).map_err(|why| LoadError::Host {
        wall: Wall::None,
        why,
    })?;
    let bytes = std::fs::read(source.file).map_err(|error| wrong(error.to_string()))?;
    // A file of its own: dlopen(3) would give the same object twice.
    // SAFETY: a terminated name.
    let memory = unsafe { libc::memfd_create(c"pod".as_ptr(), libc::MFD_CLOEXEC) };
    if memory < 0 {
        return Err(wrong(std::io::Error::last_os_error().to_string()));
    }
    // SAFETY: a descriptor that nothing else has.
    let mut memory = unsafe { File::from_raw_fd(memory) };
    memory
        .write_all(&bytes)
        .map_err(|error| wrong(error.to_string()))?;
    let object = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let bare = Bare {
        native: Native::open(&object, source.file)?,
        _memory: memory,
        limits: source.limits.clone(),
        bytes: bytes.len() as u64,
    };
    initialised(Box::new(bare), source)
}

impl Pod for Bare {
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        batch.timed(|batch| {
            let start = cycles();
            let done = self.native.make(batch, &self.limits);
            batch.cycles = cycles() - start;
            done
        })
    }

    fn wall(&self) -> Wall {
        Wall::None
    }

    fn memory(&self) -> u64 {
        self.bytes
    }
}
