//! The heap as runs need it: with room, so that no run maps memory, and such that what a run allocates lies together.
//!
//! The latter is about time: an engine copies, or puts back, each page that a run has written.

/// The heap has so much room to grow into, bytes.
const ROOM: usize = 32 << 20;
/// Larger than what programs give back: it comes from the end of the heap.
const LARGE: usize = 100_000;
/// Chunks differ by so much, bytes: malloc(3).
const STEP: usize = 16;
/// So much is taken at most, bytes: of another allocator than glibc's nothing is known.
const TAKEN: usize = 16 << 20;

/// Settles the heap before the first run.
pub(super) fn settle() {
    // SAFETY: numbers, and memory that is not used.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        // Optimised code must not leave both out.
        libc::free(std::hint::black_box(libc::malloc(ROOM)));
    }
    take_free_chunks();
}

/// Takes all chunks for good that have been given back, but for the end of the heap.
fn take_free_chunks() {
    // SAFETY: memory that is not used.
    unsafe {
        let end = libc::malloc(LARGE);
        let mut left = TAKEN;
        for size in (1..LARGE / STEP).rev().map(|steps| steps * STEP) {
            loop {
                let chunk = libc::malloc(size);
                if chunk.is_null() || chunk >= end || left < size {
                    libc::free(chunk);
                    break;
                }
                left -= size;
            }
        }
        libc::free(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of small chunks there are so many in a page.
    #[test]
    fn what_is_allocated_lies_together() {
        let small = || Box::new([1u8; 200]);
        let mut all: Vec<_> = (0..10_000).map(|_| small()).collect();
        // Each second one is free.
        let mut keep = false;
        all.retain(|_| {
            keep = !keep;
            keep
        });
        settle();
        let new: Vec<_> = (0..1000).map(|_| small()).collect();
        let places = || {
            new.iter()
                .map(|chunk| std::ptr::from_ref(&**chunk) as usize)
        };
        let (first, last) = (places().min(), places().max());
        let span = last.expect("chunks") - first.expect("chunks");
        assert!(span < 2 * 1000 * 216, "{span}");
        drop(all);
    }
}
