//! Pages in large folios.
//!
//! A fork copies its parent's entry of each page, and undoes it when it ends, at 0.1 µs each: it looks at what Linux
//! knows of that page. Of a folio that has many pages it does so for all of them at once. So those parts of this
//! process's memory of which many pages are used are put into huge pages. Of a whole one a fork has one entry, until
//! it writes there; what is a part of one has entries for single pages, but of one folio.

use std::ops::Range;
use std::ptr::addr_of;

use vink_sys::maps::MapsLine;

use super::huge::{collapse, make_huge, HUGE};
use super::pagemap::{entries, PAGE, PRESENT};
use super::smaps;
use crate::Error;

/// For so many pages at least: as many as Linux maps of a file when one of them is read (`fault_around_bytes`).
const MANY: usize = 16;

/// A private mapping, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    pages: Range<usize>,
    /// What may be done to it, `PROT_*`.
    access: i32,
    of_file: bool,
}

impl Mapped {
    fn of(line: &MapsLine<'_>) -> Mapped {
        let may = |is: bool, right: i32| if is { right } else { 0 };
        Mapped {
            pages: line.range.start as usize..line.range.end as usize,
            access: libc::PROT_READ
                | may(line.is_writable(), libc::PROT_WRITE)
                | may(line.is_executable(), libc::PROT_EXEC),
            of_file: line.is_file(),
        }
    }

    /// Its parts, each of which is one huge page or lies within one.
    fn parts(self) -> impl Iterator<Item = Mapped> {
        let Range { start, end } = self.pages;
        let starts = (start - start % HUGE..end).step_by(HUGE);
        starts.map(move |block| Mapped {
            pages: block.max(start)..(block + HUGE).min(end),
            ..self.clone()
        })
    }
}

/// Puts what this process uses much of into large folios. It has one thread.
///
/// # Errors
/// [`Error::Host`]: its mappings can't be read.
pub(super) fn gather() -> Result<(), Error> {
    let here = 0u8;
    let stack = addr_of!(here) as usize;
    let smaps = smaps::read()?;
    let all = crowded(&smaps).into_iter();
    for part in all
        .filter(|mapped| !mapped.pages.contains(&stack))
        .flat_map(Mapped::parts)
    {
        let pages = entries(&part.pages).map_err(Error::host("reading /proc/self/pagemap"))?;
        if pages.filter(|entry| entry & PRESENT != 0).count() < MANY {
            continue;
        }
        if part.pages.len() == HUGE && !part.of_file {
            collapse(&part.pages);
        } else {
            // SAFETY: this is the only thread, and writes only its stack meanwhile, which is another mapping.
            unsafe { make_huge(&part.pages, part.access) };
        }
    }
    Ok(())
}

/// The mappings of this text of /proc/self/smaps of which many pages are in memory, and not in huge ones.
fn crowded(smaps: &str) -> Vec<Mapped> {
    let all = smaps::private(smaps).into_iter();
    let crowded = all.filter(|smap| smap.resident.saturating_sub(smap.huge) * 1024 / PAGE >= MANY);
    crowded.map(|smap| Mapped::of(&smap.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f00aa000000-7f00aa6da000 r-xp 00001000 fe:00 131 /a b/lib.so
Rss:                  64 kB
AnonHugePages:         0 kB
VmFlags: rd ex mr mw me
7f00aa6da000-7f00aa6db000 r--p 000db000 fe:00 131 /a b/lib.so
Rss:                   4 kB
AnonHugePages:         0 kB
7f00aa6db000-7f00aa6dd000 r--s 000dc000 fe:00 131 /a b/lib.so
Rss:                 640 kB
AnonHugePages:         0 kB
7f00ab000000-7f00ab800000 rw-p 00000000 00:00 0
Rss:                2112 kB
AnonHugePages:      2048 kB
7f00ac000000-7f00ac800000 rw-p 00000000 00:00 0
Rss:                4096 kB
AnonHugePages:      4096 kB
";

    #[test]
    fn what_has_many_small_pages_is_found() {
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let data = libc::PROT_READ | libc::PROT_WRITE;
        let expected = [
            (0x7f00_aa00_0000..0x7f00_aa6d_a000, code, true),
            (0x7f00_ab00_0000..0x7f00_ab80_0000, data, false),
        ];
        let expected = expected.map(|(pages, access, of_file)| Mapped {
            pages,
            access,
            of_file,
        });
        assert_eq!(crowded(SMAPS), expected);
    }

    #[test]
    fn parts_are_within_huge_pages() {
        let start = 64 * HUGE;
        let parts = |from: usize, to: usize| -> Vec<(usize, usize)> {
            let mapped = Mapped {
                pages: start + from..start + to,
                access: libc::PROT_READ,
                of_file: true,
            };
            let parts = mapped.parts().map(|part| part.pages);
            let parts = parts.map(|pages| (pages.start - start, pages.end - start));
            parts.collect()
        };
        assert_eq!(parts(0, PAGE), [(0, PAGE)]);
        assert_eq!(parts(0, HUGE), [(0, HUGE)]);
        let (first, last) = ((PAGE, HUGE), (2 * HUGE, 2 * HUGE + PAGE));
        assert_eq!(parts(first.0, last.1), [first, (HUGE, 2 * HUGE), last]);
    }
}
