//! A process for each branch; its parent waits for its end.
//!
//! A fork has the page tables of its parent but for those of files: each page of the program and of the image
//! would be looked for again, some hundred in each run. A mapping of a file of which one page has been written
//! is copied with its tables, so one page of each is written once, with what it has ([`keep_tables`]).

use std::fs;
use std::ops::Range;
use std::ptr::{read_volatile, write_volatile};

use vink_sys::process::exit_now;

use super::copier::{Branches, Copier};
use crate::forks::{fork_for_run, Side};
use crate::Error;

/// See the head of the file.
pub(super) struct Fork;

impl Fork {
    /// Of this process.
    ///
    /// # Errors
    /// [`Error::Host`]: its mappings can't be read.
    pub fn new() -> Result<Fork, Error> {
        let maps = fs::read_to_string("/proc/self/maps")
            .map_err(Error::host("reading /proc/self/maps"))?;
        maps.lines()
            .filter_map(of_file)
            .for_each(|(pages, access)| keep_tables(pages, access));
        Ok(Fork)
    }
}

impl Copier for Fork {
    fn branch(
        &self,
        _depth: usize,
        count: usize,
        branches: &mut dyn Branches,
    ) -> Result<Option<usize>, Error> {
        for branch in 0..count {
            if !branches.wants(branch) {
                continue;
            }
            match fork_for_run()? {
                Side::Child => return Ok(Some(branch)),
                Side::Parent(mut forked) => {
                    if let Some(how) = forked.wait() {
                        branches.died(branch, how);
                    }
                }
            }
        }
        Ok(None)
    }

    fn end(&self, _depth: usize) -> ! {
        exit_now(0)
    }
}

/// A private mapping of a file that is not written, if this line of /proc/self/maps has one, and what may be done
/// to it.
fn of_file(line: &str) -> Option<(Range<usize>, i32)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let access = match words.next()? {
        "r--p" => libc::PROT_READ,
        "r-xp" => libc::PROT_READ | libc::PROT_EXEC,
        _ => return None,
    };
    let number = |text| usize::from_str_radix(text, 16).ok();
    let pages = number(start)?..number(end)?;
    let is_file = words.nth(2)? != "0";
    is_file.then_some((pages, access))
}

/// Writes one byte of it, which stays as it was. If the host does not let a program's own code be written, forks
/// take longer.
fn keep_tables(pages: Range<usize>, access: i32) {
    let start = pages.start as *mut u8;
    // SAFETY: a mapping of this process, which goes on to be what it was: a thread that reads it, or runs it,
    // meanwhile finds the same. Its first page is one of the file, since a loader has mapped it.
    unsafe {
        if libc::mprotect(start.cast(), pages.len(), access | libc::PROT_WRITE) == 0 {
            write_volatile(start, read_volatile(start));
            libc::mprotect(start.cast(), pages.len(), access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_are_told_from_others() {
        let line = "7f00aa000000-7f00aa0da000 r-xp 00001000 fe:00 131 /a b/lib.so";
        let pages = 0x7f00_aa00_0000..0x7f00_aa0d_a000;
        let access = libc::PROT_READ | libc::PROT_EXEC;
        assert_eq!(of_file(line), Some((pages, access)));
        assert_eq!(of_file(&line.replace("r-xp", "rw-p")), None);
        assert_eq!(of_file(&line.replace("r-xp", "r-xs")), None);
        let vdso = "7ffc0-7ffc2 r-xp 00000000 00:00 0 [vdso]";
        assert_eq!(of_file(vdso), None);
    }

    #[test]
    fn code_runs_as_before() {
        Fork::new().expect("the mappings of this process");
        let maps = fs::read_to_string("/proc/self/maps").expect("mappings");
        assert!(!maps.contains("rwxp"), "{maps}");
        assert!(maps.lines().filter_map(of_file).count() > 1, "{maps}");
    }
}
