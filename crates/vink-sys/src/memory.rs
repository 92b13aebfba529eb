//! The memory of other threads (process_vm_readv(2)). Addresses are theirs: the kernel checks them.

use std::io::{self, IoSlice, IoSliceMut};

use crate::done;

/// Copies from a thread's memory. False if not all of it is readable.
pub fn read(tid: i32, address: u64, into: &mut [u8]) -> bool {
    try_read(tid, address, into).is_ok()
}

/// The same, and why not.
///
/// # Errors
/// As process_vm_readv(2); `EFAULT`, too, if some of it could be read.
pub fn try_read(tid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let there = [remote(address, into.len())];
    match readv(tid, &mut [IoSliceMut::new(into)], &there)? {
        copied if copied == there[0].iov_len => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// As [`read`], as far as it is readable from its start on: how many bytes.
pub fn read_some(tid: i32, address: u64, into: &mut [u8]) -> usize {
    let there = [remote(address, into.len())];
    readv(tid, &mut [IoSliceMut::new(into)], &there).unwrap_or(0)
}

/// As [`read`] from several places, in this order: how many bytes could be read.
pub fn read_parts(tid: i32, parts: &mut [(u64, &mut [u8])]) -> usize {
    let there: Vec<_> = parts.iter().map(|p| remote(p.0, p.1.len())).collect();
    let mut here: Vec<_> = parts.iter_mut().map(|p| IoSliceMut::new(p.1)).collect();
    readv(tid, &mut here, &there).unwrap_or(0)
}

/// Copies to a thread's memory. False if not all of it is writable.
pub fn write(tid: i32, address: u64, from: &[u8]) -> bool {
    write_some(tid, address, from) == from.len()
}

/// The same, as far as it is writable from its start on: how many bytes.
pub fn write_some(tid: i32, address: u64, from: &[u8]) -> usize {
    writev(tid, &[IoSlice::new(from)], &[remote(address, from.len())])
}

/// As [`write`] to several places, in this order: how many bytes could be written.
pub fn write_parts(tid: i32, parts: &[(u64, &[u8])]) -> usize {
    let there: Vec<_> = parts.iter().map(|p| remote(p.0, p.1.len())).collect();
    let here: Vec<_> = parts.iter().map(|p| IoSlice::new(p.1)).collect();
    writev(tid, &here, &there)
}

/// So many bytes from there on, in the thread's memory.
fn remote(address: u64, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: length,
    }
}

fn readv(tid: i32, here: &mut [IoSliceMut<'_>], there: &[libc::iovec]) -> io::Result<usize> {
    let (local, count) = (here.as_mut_ptr().cast(), here.len() as libc::c_ulong);
    let (remote, places) = (there.as_ptr(), there.len() as libc::c_ulong);
    // SAFETY: an IoSliceMut is an iovec, of a slice that may be written; the kernel checks the
    // addresses of the other thread. There are as many of both as said.
    let copied = unsafe { libc::process_vm_readv(tid, local, count, remote, places, 0) };
    done(copied as i64).map(|copied| copied as usize)
}

fn writev(tid: i32, here: &[IoSlice<'_>], there: &[libc::iovec]) -> usize {
    let (local, count) = (here.as_ptr().cast(), here.len() as libc::c_ulong);
    let (remote, places) = (there.as_ptr(), there.len() as libc::c_ulong);
    // SAFETY: an IoSlice is an iovec, of a slice that is only read; the kernel checks the addresses
    // of the other thread. There are as many of both as said.
    let copied = unsafe { libc::process_vm_writev(tid, local, count, remote, places, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Copies a NUL-terminated string, or as much of it as there is room for, from the thread's memory:
/// its length without the NUL. `None` if it is not readable.
pub fn read_string(tid: i32, address: u64, into: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    while len < into.len() {
        // Up to the page's end: what is behind it may not be there.
        let at = address.wrapping_add(len as u64);
        let room = (4096 - at % 4096) as usize;
        let end = into.len().min(len + room.min(256));
        if !read(tid, at, &mut into[len..end]) {
            return None;
        }
        if let Some(nul) = into[len..end].iter().position(|b| *b == 0) {
            return Some(len + nul);
        }
        len = end;
    }
    Some(len)
}

/// Reads a 64-bit number.
pub fn read_u64(tid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(tid, address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn memory() {
        let mut there = *b"some bytes";
        let mut here = [0; 4];
        let address = &raw mut there as u64;
        assert!(read(me(), address + 5, &mut here));
        assert_eq!(&here, b"byte");
        assert!(write(me(), address, b"SOME"));
        assert_eq!(&there, b"SOME bytes");
        assert!(!read(me(), 8, &mut here));
        assert!(!write(me(), 8, &here));
        assert_eq!(read_u64(me(), 8), None);
        let (mut first, mut second) = ([0; 4], [0; 5]);
        let mut parts = [
            (address, &mut first[..]),
            (address + 5, &mut second[..]),
            (8, &mut []),
        ];
        assert_eq!(read_parts(me(), &mut parts), 9);
        assert_eq!((&first, &second), (b"SOME", b"bytes"));
        let mut parts = [(address, &mut first[..]), (8, &mut second[..])];
        assert_eq!(read_parts(me(), &mut parts), 4);
        let parts: [(u64, &[u8]); 2] = [(address, b"more"), (address + 5, b"text")];
        assert_eq!(write_parts(me(), &parts), 8);
        assert_eq!(&there, b"more texts");
        assert_eq!(write_parts(me(), &[parts[0], (8, b"text")]), 4);
        let text = c"/proc/net/dev";
        let mut short = [0; 6];
        assert_eq!(read_string(me(), text.as_ptr() as u64, &mut short), Some(6));
        assert_eq!(&short, b"/proc/");
        let mut long = [0; 300];
        assert_eq!(read_string(me(), text.as_ptr() as u64, &mut long), Some(13));
        assert_eq!(read_string(me(), 8, &mut long), None);
    }
}
