//! Huge pages.
//!
//! Files have them on few hosts. So pages of a file are copied to memory that has them, and put where they were: they
//! stay what they are, but are of no file.

use std::ops::Range;
use std::ptr::{copy_nonoverlapping, null_mut};

/// A huge page's size on x86-64, bytes.
pub(super) const HUGE: usize = 2 << 20;

/// Puts pages into huge pages, with this access (`PROT_*`), which they have: whole ones, or a part of one. `false`:
/// the host has none, or does not let a program run what it has written: all is as before.
///
/// # Safety
/// Nothing writes these pages meanwhile, and this thread's stack is not among them.
pub(super) unsafe fn make_huge(pages: &Range<usize>, access: i32) -> bool {
    let (offset, len) = (pages.start % HUGE, pages.len());
    let whole = (offset + len).next_multiple_of(HUGE);
    // SAFETY: a new mapping, of which no other part of this process knows. It takes the place of pages of this
    // process's that have the same content, in one call: a thread that reads them or runs them finds the same
    // before and behind it.
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let room = libc::mmap(null_mut(), whole + HUGE, rights, kind, -1, 0);
        if room == libc::MAP_FAILED {
            return false;
        }
        let block = (room as usize).next_multiple_of(HUGE) as *mut u8;
        let copy = block.add(offset);
        libc::madvise(block.cast(), whole, libc::MADV_HUGEPAGE);
        copy_nonoverlapping(pages.start as *const u8, copy, len);
        let is_ready = libc::madvise(block.cast(), whole, libc::MADV_COLLAPSE) == 0
            && libc::mprotect(copy.cast(), len, access) == 0;
        let is_put = is_ready && {
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let to = pages.start as *mut libc::c_void;
            libc::mremap(copy.cast(), len, len, how, to) != libc::MAP_FAILED
        };
        // What is left of it.
        libc::munmap(room, whole + HUGE);
        is_put
    }
}

/// Makes this block of memory that is of no file a huge page. `false`: the host has none, or can't.
pub(super) fn collapse(block: &Range<usize>) -> bool {
    // SAFETY: a part of this process's memory, which stays what it is.
    unsafe { libc::madvise(block.start as *mut _, block.len(), libc::MADV_COLLAPSE) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// A file of so many huge pages that is mapped where one begins.
    fn mapped(count: usize) -> Range<usize> {
        let path = std::env::temp_dir().join(format!("vink-huge-{}", std::process::id()));
        let bytes: Vec<u8> = (0..count * HUGE).map(|at| (at / 4096) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let len = count * HUGE;
        // SAFETY: new mappings, which stay.
        unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let room = libc::mmap(null_mut(), len + HUGE, libc::PROT_NONE, kind, -1, 0);
            let start = (room as usize).next_multiple_of(HUGE);
            let kind = libc::MAP_PRIVATE | libc::MAP_FIXED;
            let fd = file.as_raw_fd();
            let put = libc::mmap(start as *mut _, len, libc::PROT_READ, kind, fd, 0);
            assert_eq!(put as usize, start);
            start..start + len
        }
    }

    #[test]
    fn what_is_in_huge_pages_is_the_same() {
        let pages = mapped(2);
        // SAFETY: nothing writes this mapping.
        let is_huge = unsafe { make_huge(&pages, libc::PROT_READ) };
        for page in pages.clone().step_by(4096) {
            // SAFETY: a page that is mapped, and stays so.
            let byte = unsafe { *(page as *const u8) };
            assert_eq!(byte, ((page - pages.start) / 4096) as u8);
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{:x}-{:x} r--p", pages.start, pages.end);
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        assert_eq!(line.contains("vink-huge"), !is_huge, "{line}");
    }

    #[test]
    fn a_part_of_one_goes_on_to_be_written() {
        let memory = vink_sys::mapping::Mapping::new(HUGE).unwrap();
        let bytes: Vec<u8> = (0..HUGE).map(|at| (at / 4096) as u8).collect();
        memory.write(0, &bytes);
        let start = memory.start() as usize;
        // Within two blocks it would be two parts.
        let end = (start + 4096).next_multiple_of(HUGE).min(start + HUGE);
        // SAFETY: of this test alone.
        unsafe { make_huge(&(start..end), libc::PROT_READ | libc::PROT_WRITE) };
        let mut found = vec![0; HUGE];
        memory.read(0, &mut found);
        assert!(found == bytes);
        memory.write(4095, &[7, 7]);
        memory.read(4095, &mut found[..2]);
        assert_eq!(found[..2], [7, 7]);
    }
}
