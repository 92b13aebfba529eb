//! Inode numbers of files that were made since the worker began: the host's depend on what else it
//! does, and show numbers of the run's own instead, in the order in which programs first look at the files.
//!
//! Files that are older show the host's: they are the same in the next run. So do those of file systems
//! that don't tell when a file was made, as procfs, but for pipes and sockets.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::OwnedFd;

use vink_sys::fd;

use crate::sched::determinism::file_times::nanoseconds;

/// Above the numbers of file systems that count from 1.
const FIRST: u64 = 1 << 40;
/// Of `struct linux_dirent64`, getdents64(2): where the number, the entry's length and its name are.
const D_INO: usize = 0;
const D_RECLEN: usize = 16;
const D_NAME: usize = 19;

/// The device of a file.
pub(in crate::sched) fn device(found: &libc::statx) -> u64 {
    libc::makedev(found.stx_dev_major, found.stx_dev_minor)
}

/// The numbers that were given.
pub(crate) struct InodeNumbers {
    /// The time of the host's clock that files have, when this began, in ns.
    start: i128,
    /// By device and inode: when the file was made, for the host gives numbers again, and which one it shows.
    given: HashMap<(u64, u64), (i128, u64)>,
    last: u64,
}

impl InodeNumbers {
    pub(crate) fn new(start: i128) -> InodeNumbers {
        InodeNumbers {
            start,
            given: HashMap::new(),
            last: FIRST,
        }
    }

    /// The inode number that a file shows. Of it is known at least what stat(2) says, and when it was made.
    pub(crate) fn shown(&mut self, found: &libc::statx) -> u64 {
        let kind = u32::from(found.stx_mode) & libc::S_IFMT;
        let has_birth = found.stx_mask & libc::STATX_BTIME != 0;
        let made = match kind {
            _ if has_birth => nanoseconds(&found.stx_btime),
            // None is of an earlier run, and the host gives a number once.
            libc::S_IFIFO | libc::S_IFSOCK => self.start,
            _ => return found.stx_ino,
        };
        if made < self.start {
            return found.stx_ino;
        }
        let given = self.given.entry((device(found), found.stx_ino));
        let (when, number) = given.or_insert((i128::MIN, 0));
        if *when != made {
            self.last += 1;
            (*when, *number) = (made, self.last);
        }
        *number
    }

    /// Puts the numbers that files show into a list of a directory's entries, as getdents64(2) gives it.
    pub(crate) fn renumber(&mut self, directory: &OwnedFd, list: &mut [u8]) {
        // Nothing new is in a directory that has not changed.
        let found = fd::statx(directory, libc::STATX_CTIME);
        if found.is_ok_and(|found| nanoseconds(&found.stx_ctime) < self.start) {
            return;
        }
        let mut rest = list;
        while let Some(len) = length(rest) {
            let (entry, others) = rest.split_at_mut(len);
            rest = others;
            let Ok(name) = CStr::from_bytes_until_nul(&entry[D_NAME..]) else {
                return;
            };
            let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
            let Ok(found) = fd::statx_entry(directory, name, mask) else {
                continue;
            };
            // What is mounted there has another one.
            let number = &mut entry[D_INO..D_INO + 8];
            if *number == found.stx_ino.to_ne_bytes() {
                number.copy_from_slice(&self.shown(&found).to_ne_bytes());
            }
        }
    }
}

/// The length of a list's first entry.
fn length(list: &[u8]) -> Option<usize> {
    let field = list.get(D_RECLEN..D_RECLEN + 2)?;
    let len = usize::from(u16::from_ne_bytes([field[0], field[1]]));
    (len > D_NAME && len <= list.len()).then_some(len)
}
