//! Guards within mappings.
//!
//! A stack's guard is a mapping of its own, and so is each stack then: a fork copies and undoes two for each, at 0.5 µs
//! both. Since Linux 6.13 a mapping may have guards within itself (`MADV_GUARD_INSTALL`, madvise(2)): so
//! stacks that lie side by side become one.

use std::ops::Range;

use vink_sys::maps::MapsLine;

use crate::Error;

/// Of Linux's mman-common.h.
const MADV_GUARD_INSTALL: i32 = 102;

/// Makes guards parts of the mappings that they guard, where the host can. This process has one thread.
///
/// # Errors
/// [`Error::Host`]: its mappings can't be read.
pub(super) fn merge() -> Result<(), Error> {
    let what = "reading /proc/self/maps";
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(Error::host(what))?;
    for guard in guards(&maps) {
        let (start, len) = (guard.start as *mut libc::c_void, guard.len());
        // SAFETY: pages that nothing uses, since they can't be: as they can't be afterwards.
        unsafe {
            if libc::mprotect(start, len, libc::PROT_READ | libc::PROT_WRITE) == 0
                && libc::madvise(start, len, MADV_GUARD_INSTALL) != 0
            {
                libc::mprotect(start, len, libc::PROT_NONE);
                break;
            }
        }
    }
    Ok(())
}

/// The guards of this text of /proc/self/maps that lie right before memory of no file and no name.
fn guards(maps: &str) -> Vec<Range<usize>> {
    let lines = maps.lines().filter_map(MapsLine::of);
    let plain: Vec<_> = lines
        .filter(|line| line.is_private() && !line.is_file() && line.name.is_empty())
        .collect();
    let pairs = plain.windows(2).filter(|pair| {
        let [guard, memory] = pair else { return false };
        let follows = guard.range.end == memory.range.start;
        let has_access = guard.is_readable() || guard.is_writable() || guard.is_executable();
        follows && !has_access && memory.is_data()
    });
    let guards = pairs.map(|pair| pair[0].range.start as usize..pair[0].range.end as usize);
    guards.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::mapping::{Mapping, Pages};

    const PAGE: usize = 4096;

    #[test]
    fn guards_of_memory_are_found() {
        let maps = "\
10000-11000 ---p 00000000 00:00 0
11000-51000 rw-p 00000000 00:00 0
51000-52000 ---p 00000000 00:00 0
53000-54000 rw-p 00000000 00:00 0
60000-61000 ---p 00000000 00:00 0
61000-62000 r--p 00000000 00:00 0
70000-71000 ---p 00000000 fe:00 131 /lib.so
71000-72000 rw-p 00000000 00:00 0
80000-81000 ---p 00000000 00:00 0
81000-82000 rw-p 00000000 00:00 0          [stack]
";
        let found = guards(maps);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0], 0x10000..0x11000);
    }

    #[test]
    fn a_merged_guard_guards() {
        let memory = Mapping::new(3 * PAGE).unwrap();
        memory.replace(PAGE..2 * PAGE, Pages::Guard).unwrap();
        memory.write(2 * PAGE, &[7]);
        merge().unwrap();
        let readable = |page: usize| {
            let mut byte = [0];
            let at = memory.start() as u64 + (page * PAGE) as u64;
            vink_sys::memory::read(std::process::id() as i32, at, &mut byte)
        };
        assert_eq!([0, 1, 2].map(readable), [true, false, true]);
    }
}
