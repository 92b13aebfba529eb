//! The memory that a kernel lives in: one aligned mapping that costs nothing until it is touched.

use std::ptr::{null_mut, without_provenance_mut, NonNull};

use vink_abi::{VINK_ARENA_ALIGN, VINK_ARENA_MIN};

use crate::Error;

/// Where the kernel's memory is in runs that repeat. Kernels hash the addresses of what they have:
/// neighbours, by their interface's, are listed in that order. Far from where hosts put programs,
/// heaps, libraries and stacks.
const PLACE: usize = 0x1000_0000_0000;

/// A mapping of zeroed memory, unmapped on drop.
pub(crate) struct Arena {
    start: NonNull<libc::c_void>,
    len: usize,
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
        // SAFETY: a new private anonymous mapping touches nothing that exists.
        let raw = unsafe {
            libc::mmap(
                if fixed {
                    without_provenance_mut(PLACE)
                } else {
                    null_mut()
                },
                span,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            let why = std::io::Error::last_os_error();
            return Err(fail(format!(
                "mmap: {why}; raise the limit (ulimit -v) or ask for less"
            )));
        }
        let head = raw.align_offset(align);
        let start = raw.wrapping_byte_add(head);
        let tail = start.wrapping_byte_add(len);
        // SAFETY: head and tail are the parts of the new mapping outside [start, start + len),
        // which no other process can expect to inherit.
        unsafe {
            if head > 0 {
                libc::munmap(raw, head);
            }
            if align > head {
                libc::munmap(tail, align - head);
            }
            // A fork is about to execute a program: no page table of the arena's is worth copying.
            libc::madvise(start, len, libc::MADV_DONTFORK);
        }
        Ok(Arena {
            start: NonNull::new(start).expect("mmap gave a null address"),
            len,
        })
    }

    /// Its first byte.
    pub fn start(&self) -> *mut libc::c_void {
        self.start.as_ptr()
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this arena's own, and its kernel never runs again.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
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
        // SAFETY: the last byte of the mapping.
        let last = unsafe { *arena.start().cast::<u8>().add(arena.len() as usize - 1) };
        assert_eq!(last, 0);
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
