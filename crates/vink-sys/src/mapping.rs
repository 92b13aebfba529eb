//! Memory of this process's own, by whole pages (mmap(2)).

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null_mut, NonNull};

const PAGE: usize = 4096;

/// Pages that can be read and written, unmapped on drop. Other code reaches them by their address,
/// at its own risk: as of a cell, nothing here makes a reference to what is in them.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: pages are of no thread.
unsafe impl Send for Mapping {}

/// What can be mapped.
#[derive(Clone, Copy, Debug)]
pub enum Pages<'a> {
    /// Zeroes. A page takes memory when it is written first.
    Zeroes,
    /// A file's bytes from this offset on, shared with all that map them.
    Shared(BorrowedFd<'a>, u64),
    /// Zeroes, shared with what the process forks.
    Common,
    /// None: an access ends with a SIGSEGV.
    Guard,
}

/// No page.
impl Default for Mapping {
    fn default() -> Mapping {
        Mapping {
            start: NonNull::dangling(),
            len: 0,
        }
    }
}

impl Mapping {
    /// Maps so many bytes of zeroes.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn new(len: usize) -> io::Result<Mapping> {
        Mapping::near(null_mut(), len)
    }

    /// The same at this address, unless something is there already.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn near(address: *mut c_void, len: usize) -> io::Result<Mapping> {
        let start = map(Place::Near(address), len, Pages::Zeroes)?;
        Ok(Mapping { start, len })
    }

    /// Its first byte.
    pub fn start(&self) -> *mut c_void {
        self.start.as_ptr()
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "mapped memory is seldom empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Two mappings: of the first so many bytes, and of the rest.
    ///
    /// # Panics
    /// They are no whole pages, or more than there are.
    pub fn split_at(mut self, len: usize) -> (Mapping, Mapping) {
        assert_eq!(len % PAGE, 0, "pages are whole");
        let (start, rest) = self.part(&(len..self.len));
        self.len = len;
        (self, Mapping { start, len: rest })
    }

    /// Puts others in the place of some of its pages. If that fails, all is as it was.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn replace(&self, part: Range<usize>, with: Pages<'_>) -> io::Result<()> {
        map(Place::Of(self, &part), part.len(), with).map(drop)
    }

    /// Zeroes pages, and gives their memory back.
    pub fn discard(&self, part: Range<usize>) {
        self.advise(&part, libc::MADV_DONTNEED);
    }

    /// Pages that a fork(2) does not copy, until they are replaced.
    pub fn keep_from_forks(&self, part: Range<usize>) {
        self.advise(&part, libc::MADV_DONTFORK);
    }

    /// Pages that a fork(2) copies, as it does by default.
    pub fn give_to_forks(&self, part: Range<usize>) {
        self.advise(&part, libc::MADV_DOFORK);
    }

    /// Copies bytes from there.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let (from, len) = self.part(&(at..at + into.len()));
        // SAFETY: so many bytes are mapped, if not as a guard, and as many may be written.
        unsafe { from.cast().copy_to(NonNull::from(into).cast::<u8>(), len) };
    }

    /// Copies bytes there.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let (to, len) = self.part(&(at..at + bytes.len()));
        // SAFETY: so many bytes are mapped, if not as a guard, and no reference is to them.
        unsafe { to.cast().copy_from(NonNull::from(bytes).cast::<u8>(), len) };
    }

    /// Where a part is, and how long.
    fn part(&self, part: &Range<usize>) -> (NonNull<c_void>, usize) {
        let is_inside = part.start <= part.end && part.end <= self.len;
        assert!(is_inside, "{part:?} of {} bytes", self.len);
        let at = |start: std::num::NonZero<usize>| start.saturating_add(part.start);
        (self.start.map_addr(at), part.len())
    }

    fn advise(&self, part: &Range<usize>, advice: i32) {
        let (start, len) = self.part(part);
        // SAFETY: concerns these pages alone, in which nothing has a reference. At worst the advice is
        // not taken.
        unsafe { libc::madvise(start.as_ptr(), len, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: these pages alone, in which nothing has a reference.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

/// Where pages are mapped.
enum Place<'a> {
    /// At this address, or elsewhere.
    Near(*mut c_void),
    /// In the place of others.
    Of(&'a Mapping, &'a Range<usize>),
}

fn map(place: Place<'_>, len: usize, pages: Pages<'_>) -> io::Result<NonNull<c_void>> {
    let (address, fixed) = match place {
        Place::Near(address) => (address, 0),
        Place::Of(mapping, part) => (mapping.part(part).0.as_ptr(), libc::MAP_FIXED),
    };
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (access, flags, file, offset) = match pages {
        Pages::Zeroes => (access, private, -1, 0),
        Pages::Shared(file, offset) => (access, libc::MAP_SHARED, file.as_raw_fd(), offset),
        Pages::Common => (
            access,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        ),
        Pages::Guard => (libc::PROT_NONE, private, -1, 0),
    };
    // SAFETY: pages that are new, or that replace those of a mapping, in which nothing has a reference.
    let start = unsafe { libc::mmap(address, len, access, flags | fixed, file, offset as i64) };
    match NonNull::new(start) {
        Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn parts() {
        let mapping = Mapping::new(3 * PAGE).unwrap();
        let (first, rest) = mapping.split_at(PAGE);
        let taken = Mapping::near(first.start(), PAGE).unwrap();
        assert_ne!(taken.start(), first.start());
        first.write(PAGE - 2, b"ab");
        rest.write(0, b"cd");
        let word = |mapping: &Mapping, at| {
            let mut bytes = [0; 2];
            mapping.read(at, &mut bytes);
            bytes
        };
        assert_eq!((word(&first, PAGE - 2), word(&rest, 0)), (*b"ab", *b"cd"));
        drop(first);
        let file = crate::fd::in_memory_sealed(c"test", PAGE as u64).unwrap();
        for part in [0..PAGE, PAGE..2 * PAGE] {
            rest.replace(part, Pages::Shared(file.as_fd(), 0)).unwrap();
        }
        rest.write(7, b"ef");
        assert_eq!(word(&rest, PAGE + 7), *b"ef");
        rest.replace(0..PAGE, Pages::Zeroes).unwrap();
        assert_eq!((word(&rest, 7), word(&rest, PAGE + 7)), ([0; 2], *b"ef"));
        rest.write(7, b"gh");
        rest.discard(0..PAGE);
        assert_eq!(word(&rest, 7), [0; 2]);
        rest.replace(0..PAGE, Pages::Guard).unwrap();
        let me = std::process::id() as i32;
        assert!(!crate::memory::read(me, rest.start() as u64, &mut [0]));
        assert!(std::panic::catch_unwind(|| word(&Mapping::default(), 0)).is_err());
    }
}
