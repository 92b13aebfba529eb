//! Copies between this process and another one's memory, exact to the page where it ends.
//!
//! The kernel reads a call's arguments piece by piece, of which many stand side by side (those of
//! sendmsg(2) on the caller's stack, for example), and each piece is a system call here. So what is
//! around a small one is read with it, and kept until the kernel is entered again, or writes: until
//! then it is one instant, as far as any program can tell.

use std::cell::RefCell;
use std::ops::Range;

use vink_sys::memory;

const PAGE: u64 = 4096;
/// What is small, and what is read with it.
const SMALL: usize = 128;
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
        if !memory::read(pid, start, &mut self.bytes[..around as usize]) {
            return None;
        }
        (self.space, self.start, self.len) = (space, start, around);
        Some((at - start) as usize)
    }
}

/// Copies from address `from` of the process `space` (process_vm_readv(2)). The number of bytes
/// copied, counted from the start; short at the first page that can't be reached.
pub(crate) fn read(space: u64, from: u64, into: &mut [u8]) -> usize {
    let Ok(pid) = i32::try_from(space) else {
        return 0;
    };
    let len = into.len();
    if (1..=SMALL).contains(&len) && from < u64::MAX - PAGE {
        let is_read = NEAR.with_borrow_mut(|prefetched| {
            let known = prefetched.place_of(space, from, len as u64);
            let place = known.or_else(|| prefetched.read(space, pid, from, len as u64))?;
            into.copy_from_slice(&prefetched.bytes[place..place + len]);
            Some(())
        });
        if is_read.is_some() {
            return len;
        }
    }
    exactly(from, len, |at, part| {
        memory::read_some(pid, at, &mut into[part])
    })
}

/// The same to address `to` of the process (process_vm_writev(2)).
pub(crate) fn write(space: u64, to: u64, from: &[u8]) -> usize {
    let Ok(pid) = i32::try_from(space) else {
        return 0;
    };
    forget();
    exactly(to, from.len(), |at, part| {
        memory::write_some(pid, at, &from[part])
    })
}

/// Copies parts, from or to a remote address, until one is short at a page that can't be reached.
fn exactly(remote: u64, len: usize, mut copy: impl FnMut(u64, Range<usize>) -> usize) -> usize {
    let mut done = 0;
    let mut by_page = false;
    while done < len {
        let at = remote.wrapping_add(done as u64);
        let want = match by_page {
            false => len - done,
            true => (len - done).min((PAGE - at % PAGE) as usize),
        };
        let got = copy(at, done..done + want);
        done += got;
        if got < want && by_page {
            break;
        }
        // The system reports what it copied by whole requests: ask again page by page.
        by_page = got < want;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::mapping::{Mapping, Pages};

    /// Three pages, the last one out of reach.
    fn pages() -> (Mapping, u64) {
        let page = PAGE as usize;
        let pages = Mapping::new(3 * page).expect("pages");
        let last = 2 * page..3 * page;
        pages.replace(last, Pages::Guard).expect("a guard");
        let start = pages.start() as u64;
        (pages, start)
    }

    fn own_pid() -> u64 {
        u64::from(std::process::id())
    }

    #[test]
    fn a_transfer_ends_exactly_at_the_bad_page() {
        let (_pages, start) = pages();
        let page = PAGE as usize;
        let mut local = vec![7u8; 3 * page];
        for (from, len, want) in [
            (0, 2 * page, 2 * page),
            (0, 2 * page + 1, 2 * page),
            (100, 3 * page - 100, 2 * page - 100),
            (2 * page - 1, 2, 1),
            (2 * page, 1, 0),
        ] {
            let remote = start + from as u64;
            let written = write(own_pid(), remote, &local[..len]);
            let read = read(own_pid(), remote, &mut local[..len]);
            assert_eq!([written, read], [want; 2], "{len} bytes at {from}");
        }
    }

    #[test]
    fn small_pieces_are_read_once_until_they_may_be_others() {
        let (pages, start) = pages();
        let in_page = 2 * PAGE as usize - 100;
        let (pid, at) = (own_pid(), start + in_page as u64);
        let read = |from: u64, len: usize| {
            let mut bytes = [0xffu8; 128];
            (read(pid, at + from, &mut bytes[..len]), bytes[0])
        };
        let set = |value: u8| pages.write(in_page, &[value]);
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
        write(pid, at + 1, &[4]);
        assert_eq!((read(0, 8), read(1, 1)), ((8, 3), (1, 4)));
    }

    #[test]
    fn bad_addresses_and_bad_spaces_copy_nothing() {
        let pid = own_pid();
        for (space, remote) in [
            (pid, 8),
            (pid, 1 << 63),
            (pid, u64::MAX),
            (u64::MAX, 4096),
            (i32::MAX as u64, 4096),
        ] {
            assert_eq!(read(space, remote, &mut [0]), 0);
        }
    }
}
