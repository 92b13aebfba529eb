//! Copies between this process and another one's memory, exact to the page where it ends.

use std::ffi::c_void;

const PAGE: u64 = 4096;

/// Which way [`copy`] goes.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// From the other process (process_vm_readv(2)).
    Read,
    /// To the other process (process_vm_writev(2)).
    Write,
}

/// Copies `len` bytes between `local` and address `remote` of the process `space`. The number of
/// bytes copied, counted from the start; short at the first page that can't be reached.
///
/// # Safety
/// `local` must be valid for `len` bytes, for writing if `way` is [`Way::Read`].
pub(crate) unsafe fn copy(way: Way, space: u64, local: *mut c_void, remote: u64, len: u64) -> u64 {
    let Ok(pid) = libc::pid_t::try_from(space) else {
        return 0;
    };
    let mut done = 0;
    let mut by_page = false;
    while done < len {
        let at = remote.wrapping_add(done);
        let want = match by_page {
            false => len - done,
            true => (len - done).min(PAGE - at % PAGE),
        };
        // SAFETY: [done, done + want) lies in [0, len), which the caller vouches for.
        let got = unsafe { copy_once(way, pid, local.byte_add(done as usize), at, want) };
        done += got;
        if got < want && by_page {
            break;
        }
        // The system reports what it copied by whole requests: ask again page by page.
        by_page = got < want;
    }
    done
}

/// # Safety
/// As [`copy`].
unsafe fn copy_once(way: Way, pid: i32, local: *mut c_void, remote: u64, len: u64) -> u64 {
    let here = libc::iovec {
        iov_base: local,
        iov_len: len as usize,
    };
    let there = libc::iovec {
        iov_base: remote as *mut c_void,
        iov_len: len as usize,
    };
    // SAFETY: `here` is valid by contract; `there` is only an address to the system.
    let copied = unsafe {
        match way {
            Way::Read => libc::process_vm_readv(pid, &here, 1, &there, 1, 0),
            Way::Write => libc::process_vm_writev(pid, &here, 1, &there, 1, 0),
        }
    };
    u64::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, the last one out of reach.
    struct Pages(*mut c_void);

    impl Pages {
        fn new() -> Pages {
            // SAFETY: a new mapping.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    3 * PAGE as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: its last page.
            let error = unsafe {
                let last = start.byte_add(2 * PAGE as usize);
                libc::mprotect(last, PAGE as usize, libc::PROT_NONE)
            };
            assert_eq!(error, 0);
            Pages(start)
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the mapping made in new().
            unsafe { libc::munmap(self.0, 3 * PAGE as usize) };
        }
    }

    fn own_pid() -> u64 {
        u64::from(std::process::id())
    }

    #[test]
    fn a_transfer_ends_exactly_at_the_bad_page() {
        let pages = Pages::new();
        let mut local = vec![7u8; 3 * PAGE as usize];
        for (from, len, want) in [
            (0, 2 * PAGE, 2 * PAGE),
            (0, 2 * PAGE + 1, 2 * PAGE),
            (100, 3 * PAGE - 100, 2 * PAGE - 100),
            (2 * PAGE - 1, 2, 1),
            (2 * PAGE, 1, 0),
        ] {
            let remote = pages.0 as u64 + from;
            for way in [Way::Write, Way::Read] {
                // SAFETY: `local` has three pages, `len` is at most that.
                let done = unsafe { copy(way, own_pid(), local.as_mut_ptr().cast(), remote, len) };
                assert_eq!(done, want, "{len} bytes at {from}");
            }
        }
    }

    #[test]
    fn bad_addresses_and_bad_spaces_copy_nothing() {
        let mut byte = 0u8;
        let local = (&raw mut byte).cast();
        let pid = own_pid();
        for (space, remote) in [
            (pid, 8),
            (pid, 1 << 63),
            (pid, u64::MAX),
            (u64::MAX, 4096),
            (i32::MAX as u64, 4096),
        ] {
            // SAFETY: one byte at `local`.
            assert_eq!(unsafe { copy(Way::Read, space, local, remote, 1) }, 0);
        }
    }
}
