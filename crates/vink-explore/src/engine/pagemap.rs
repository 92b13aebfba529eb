//! What the host knows of this process's pages: `/proc/self/pagemap`, proc_pid_pagemap(5).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A page's size on x86-64, bytes.
pub(super) const PAGE: usize = 4096;

/// Bits of an entry: the page has memory; which is a file's; no other process has the same.
pub(super) const PRESENT: u64 = 1 << 63;
pub(super) const OF_FILE: u64 = 1 << 61;
pub(super) const EXCLUSIVE: u64 = 1 << 56;

/// The entries of these pages.
///
/// # Errors
/// The file can't be read.
pub(super) fn entries(pages: &Range<usize>) -> io::Result<impl Iterator<Item = u64>> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut bytes = vec![0; pages.len() / PAGE * size_of::<u64>()];
    let at = (pages.start / PAGE * size_of::<u64>()) as u64;
    pagemap.read_exact_at(&mut bytes, at)?;
    let count = pages.len() / PAGE;
    Ok((0..count).map(move |page| {
        let entry = &bytes[page * size_of::<u64>()..][..size_of::<u64>()];
        u64::from_ne_bytes(entry.try_into().expect("eight bytes"))
    }))
}
