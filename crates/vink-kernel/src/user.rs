//! Copies between this process and another one's memory, exact to the page where it ends.
//!
//! The kernel reads a call's arguments piece by piece, of which many stand side by side (those of
//! sendmsg(2) on the caller's stack, for example), and each piece is a system call here. So what is
//! around a small one is read with it, and kept until the kernel is entered again, or writes: until
//! then it is one instant, as far as any program can tell.

use std::cell::RefCell;
use std::ffi::c_void;

const PAGE: u64 = 4096;
/// What is small, and what is read with it.
const SMALL: u64 = 128;
const AROUND: usize = 1024;

/// A piece of another process's memory as it was read last.
struct PrefetchCache {
    space: u64,
    start: u64,
    /// How much of it is known.
    len: u64,
    bytes: [u8; AROUND],
}

thread_local! {
    static NEAR: RefCell<PrefetchCache> = const {
        RefCell::new(PrefetchCache {
            space: 0,
            start: 0,
            len: 0,
            bytes: [0; AROUND],
        })
    };
}

/// From now on memory is read anew.
pub(crate) fn forget() {
    NEAR.with_borrow_mut(|prefetched| prefetched.len = 0);
}

impl PrefetchCache {
    /// Where in the bytes such a piece is, if it is there.
    fn place_of(&self, space: u64, at: u64, len: u64) -> Option<usize> {
        let offset = at.checked_sub(self.start)?;
        let is_there = space == self.space && offset + len <= self.len;
        is_there.then_some(offset as usize)
    }

    /// Reads what is around such a piece.
    fn read(&mut self, space: u64, pid: i32, at: u64, len: u64) -> Option<usize> {
        self.len = 0;
        let start = at & !(AROUND as u64 / 4 - 1);
        let end = (start + AROUND as u64).min((at & !(PAGE - 1)) + PAGE);
        if at + len > end {
            return None;
        }
        let around = end - start;
        let bytes = self.bytes.as_mut_ptr().cast();
        // SAFETY: there is room for that many bytes.
        if unsafe { copy_once(Way::Read, pid, bytes, start, around) } < around {
            return None;
        }
        (self.space, self.start, self.len) = (space, start, around);
        Some((at - start) as usize)
    }
}

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
    match way {
        Way::Write => forget(),
        Way::Read if (1..=SMALL).contains(&len) && remote < u64::MAX - PAGE => {
            let is_read = NEAR.with_borrow_mut(|prefetched| {
                let known = prefetched.place_of(space, remote, len);
                let place = known.or_else(|| prefetched.read(space, pid, remote, len))?;
                let bytes = &prefetched.bytes[place..place + len as usize];
                // SAFETY: `local` has room for them, by contract.
                unsafe { local.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
                Some(())
            });
            if is_read.is_some() {
                return len;
            }
        }
        Way::Read => {}
    }
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
    fn small_pieces_are_read_once_until_they_may_be_others() {
        let pages = Pages::new();
        let (pid, at) = (own_pid(), pages.0 as u64 + 2 * PAGE - 100);
        let read = |from: u64, len: u64| {
            let mut bytes = [0xffu8; 128];
            // SAFETY: there is room for that many bytes.
            let done = unsafe { copy(Way::Read, pid, bytes.as_mut_ptr().cast(), at + from, len) };
            (done, bytes[0])
        };
        // SAFETY: in the second page, which is this test's.
        let set = |value: u8| unsafe { (at as *mut u8).write_volatile(value) };
        forget();
        set(1);
        assert_eq!((read(0, 8), read(92, 8)), ((8, 1), (8, 0)));
        // Up to the page that is out of reach.
        assert_eq!(
            (read(96, 8), read(100, 4), read(0, 128)),
            ((4, 0), (0, 0xff), (100, 1))
        );
        read(0, 8);
        set(2);
        assert_eq!(read(0, 8), (8, 1));
        forget();
        assert_eq!(read(0, 8), (8, 2));
        set(3);
        let mut byte = 4u8;
        // SAFETY: one byte.
        unsafe { copy(Way::Write, pid, (&raw mut byte).cast(), at + 1, 1) };
        assert_eq!((read(0, 8), read(1, 1)), ((8, 3), (1, 4)));
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
