//! Code in huge pages.
//!
//! A fork has to find each page of the program that it uses, by its own tables; of a huge page it has one entry,
//! which its parent's tables give it. So forks take a tenth less. Files have huge pages on few hosts. So code is
//! copied to memory that has them, and put where it was: it stays what it is, but is of no file.

use std::ops::Range;
use std::ptr::{copy_nonoverlapping, null_mut};

/// A huge page's size on x86-64, bytes.
pub(super) const HUGE: usize = 2 << 20;

/// Puts pages of a file, which begin and end as huge ones do, into huge pages, with this access (`PROT_*`). `false`:
/// the host has none, or does not let a program run what it has written: all is as before.
pub(super) fn make_huge(pages: &Range<usize>, access: i32) -> bool {
    let len = pages.len();
    // SAFETY: a new mapping, of which no other part of this process knows. It takes the place of pages of this
    // process's that have the same content, in one call: a thread that reads them or runs them finds the same
    // before and behind it. None changes them meanwhile: they can't be written.
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let room = libc::mmap(null_mut(), len + HUGE, rights, kind, -1, 0);
        if room == libc::MAP_FAILED {
            return false;
        }
        let copy = (room as usize).next_multiple_of(HUGE) as *mut u8;
        libc::madvise(copy.cast(), len, libc::MADV_HUGEPAGE);
        copy_nonoverlapping(pages.start as *const u8, copy, len);
        let is_ready = libc::madvise(copy.cast(), len, libc::MADV_COLLAPSE) == 0
            && libc::mprotect(copy.cast(), len, access) == 0;
        let is_put = is_ready && {
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let to = pages.start as *mut libc::c_void;
            libc::mremap(copy.cast(), len, len, how, to) != libc::MAP_FAILED
        };
        // What is left of it.
        libc::munmap(room, len + HUGE);
        is_put
    }
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
        let is_huge = make_huge(&pages, libc::PROT_READ);
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
}
