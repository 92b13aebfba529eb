//! The memory that a kernel lives in: one aligned mapping that costs nothing until it is touched.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{null_mut, without_provenance_mut};

use vink_abi::{VINK_ARENA_ALIGN, VINK_ARENA_MIN};
use vink_sys::mapping::{Mapping, Pages};

use crate::Error;

/// Where the kernel's memory is in runs that repeat. Kernels hash the addresses of what they have:
/// neighbours, by their interface's, are listed in that order. Far from where hosts put programs,
/// heaps, libraries and stacks.
const PLACE: usize = 0x1000_0000_0000;

/// A mapping of zeroed memory. By default there is none.
#[derive(Default)]
pub(crate) struct Arena {
    pages: Mapping,
    /// Pages that the kernel does not need are not given back.
    keeps: Cell<bool>,
}

impl Arena {
    /// Maps `bytes`, rounded up to [`VINK_ARENA_ALIGN`]: at [`PLACE`] if nothing is there and that
    /// is asked for.
    ///
    /// # Errors
    /// [`Error::Arena`]: below [`VINK_ARENA_MIN`], or mmap(2) refused.
    pub fn new(bytes: u64, fixed: bool) -> Result<Arena, Error> {
        let fail = |why: String| Error::Arena { bytes, why };
        if bytes < VINK_ARENA_MIN {
            return Err(fail(format!(
                "a kernel needs {VINK_ARENA_MIN} bytes or more"
            )));
        }
        let align = VINK_ARENA_ALIGN as usize;
        let (len, span) = usize::try_from(bytes)
            .ok()
            .and_then(|n| n.checked_next_multiple_of(align))
            .and_then(|len| Some((len, len.checked_add(align)?)))
            .ok_or_else(|| fail("more than the address space".into()))?;
        let place = match fixed {
            true => without_provenance_mut(PLACE),
            false => null_mut(),
        };
        let whole = Mapping::near(place, span).map_err(|why| {
            fail(format!(
                "mmap: {why}; raise the limit (ulimit -v) or ask for less"
            ))
        })?;
        let head = whole.start().align_offset(align);
        let (arena, _) = whole.split_at(head).1.split_at(len);
        // A fork is about to execute a program: no page table of the arena's is worth copying.
        arena.keep_from_forks(0..len);
        Ok(Arena {
            pages: arena,
            keeps: Cell::new(false),
        })
    }

    /// Its first byte.
    pub fn start(&self) -> *mut c_void {
        self.pages.start()
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    /// How many bytes it has from an address on.
    pub fn len_from(&self, address: *const c_void) -> usize {
        let offset = address.addr().checked_sub(self.start().addr());
        offset.map_or(0, |offset| self.pages.len().saturating_sub(offset))
    }

    /// Where so many bytes are in it; panics if they are not.
    fn part(&self, address: *const c_void, len: usize) -> Range<usize> {
        let has = self.len_from(address);
        assert!(len <= has, "{len} bytes at {address:?}: it has {has}");
        let at = self.pages.len() - has;
        at..at + len
    }

    /// Copies bytes from there.
    pub fn read(&self, address: *const c_void, into: &mut [u8]) {
        self.pages.read(self.part(address, into.len()).start, into);
    }

    /// Copies bytes there.
    pub fn write(&self, address: *const c_void, bytes: &[u8]) {
        self.pages
            .write(self.part(address, bytes.len()).start, bytes);
    }

    /// From now on a fork(2) copies it, as it does not by default, and it keeps all pages that it has.
    pub fn give_to_forks(&self) {
        self.keeps.set(true);
        self.pages.give_to_forks(0..self.pages.len());
    }

    /// Gives pages back, of which the kernel needs the content no more.
    pub fn release(&self, start: *const c_void, len: usize) {
        if self.keeps.get() {
            return;
        }
        self.pages.discard(self.part(start, len));
    }

    /// Puts other memory in the place of some pages; if that fails, all is as it was.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn replace(&self, start: *const c_void, len: usize, with: Pages<'_>) -> io::Result<()> {
        let part = self.part(start, len);
        self.pages.replace(part.clone(), with)?;
        self.pages.keep_from_forks(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_rounded_and_zero() {
        let arena = Arena::new(VINK_ARENA_MIN + 1, false).expect("an arena");
        assert_eq!(arena.start() as u64 % VINK_ARENA_ALIGN, 0);
        assert_eq!(arena.len(), VINK_ARENA_MIN + VINK_ARENA_ALIGN);
        let (len, mut last) = (arena.len() as usize, [1]);
        arena.read(arena.start().wrapping_byte_add(len - 1), &mut last);
        assert_eq!(last, [0]);
        assert_eq!(arena.len_from(arena.start().wrapping_byte_add(len)), 0);
        assert_eq!(arena.len_from(arena.start().wrapping_byte_sub(1)), 0);
    }

    #[test]
    fn is_where_it_is_wanted_if_nothing_is_there() {
        let arenas = [(); 2].map(|()| Arena::new(VINK_ARENA_MIN, true).expect("an arena"));
        let places = arenas.each_ref().map(|arena| arena.start() as usize);
        assert_eq!(places[0], PLACE);
        assert_ne!(places[1], PLACE);
    }

    #[test]
    fn refuses_sizes_that_cannot_be() {
        for bytes in [0, VINK_ARENA_MIN - 1, 1 << 60, u64::MAX] {
            assert!(
                matches!(Arena::new(bytes, false), Err(Error::Arena { .. })),
                "{bytes}"
            );
        }
    }
}
