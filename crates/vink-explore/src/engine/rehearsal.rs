//! What a run needs of its process's memory, as another run has it.
//!
//! A fork has its parent's tables of pages, which are made when it begins and undone when it ends: that takes as
//! long as a good part of a run. And each page that it writes is a page fault, of which a good part is the way into
//! the host's kernel and back. So a fork makes the run without faults, and tells which pages of files it has used,
//! and which others it has written ([`Rehearsal::of`]). From then on the process has tables of files for those
//! only, and a fork has the host copy what it will write in a few calls ([`Rehearsal::provide`]). What a fork
//! writes depends on where in the run it begins. All that is written up to the end, so that is learned: what is
//! written behind most of the packets.
//!
//! Where many pages are used they become parts of huge ones ([`gather`]). Of other mappings of files a fork has no
//! tables, and looks for each page again, unless one page of the mapping has been written: so one of each is, with
//! what it has ([`keep_tables`]).
//!
//! All this is about time: a run that needs other pages gets these as ever.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::ptr::{read_volatile, write_volatile};

use serde::{Deserialize, Serialize};
use vink_sys::fd::pipe;
use vink_sys::maps::MapsLine;
use vink_sys::process::exit_now;

use super::folios::gather;
use super::pagemap::{entries, EXCLUSIVE, OF_FILE, PAGE, PRESENT};
use super::{guards, heap, smaps};
use crate::forks::{fork_for_run, write_all, Side};
use crate::run::Chooser;
use crate::runner::Runner;
use crate::{Error, Fate};

/// What was learned. Nothing, if the run has not come to its end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rehearsal {
    /// Of files.
    used: Vec<Range<usize>>,
    /// Of all others.
    written: Vec<Range<usize>>,
}

/// A private mapping that runs use or write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    pages: Range<usize>,
    /// Of a file, with nothing but what that has, and not to be written: what may be done to it, `PROT_*`.
    of_file: Option<i32>,
}

impl Rehearsal {
    /// Of this process, in which a run is about to begin.
    ///
    /// # Errors
    /// [`Error::Host`]: its mappings can't be read; as fork(2), and as of [`Runner::plain`].
    pub fn of(runner: &mut Runner) -> Result<Rehearsal, Error> {
        guards::merge()?;
        let all = mappings()?;
        for mapped in all.iter().filter(|mapped| mapped.of_file.is_some()) {
            advise(&mapped.pages, libc::MADV_DONTNEED);
        }
        let packets = runner.plain()?.departures.len();
        // What that has given back lies here and there.
        heap::settle();
        let (reads, writes) = pipe().map_err(Error::host("pipe(2)"))?;
        let learned: Rehearsal = match fork_for_run()? {
            Side::Child => {
                drop(reads);
                let left = packets * 5 / 6;
                runner.rehearse(Box::new(Behind { left }));
                let learned = learn(&all).unwrap_or_default();
                let told = serde_json::to_vec(&learned).expect("plain data");
                exit_now(i32::from(write_all(&writes, &told).is_err()))
            }
            Side::Parent(_process) => {
                drop(writes);
                let mut told = Vec::new();
                let read = File::from(reads).read_to_end(&mut told);
                read.map_err(Error::host("reading what a run says"))?;
                serde_json::from_slice(&told).unwrap_or_default()
            }
        };
        for pages in &learned.used {
            advise(pages, libc::MADV_POPULATE_READ);
        }
        gather()?;
        for mapped in mappings()? {
            if let Some(access) = mapped.of_file {
                keep_tables(&mapped.pages, access);
            }
        }
        Ok(learned)
    }

    /// Has the host copy the pages that a run writes.
    pub fn provide(&self) {
        for pages in &self.written {
            advise(pages, libc::MADV_POPULATE_WRITE);
        }
    }
}

/// Goes on in a fork behind so many packets, so that what is written from there on is that fork's own.
struct Behind {
    left: usize,
}

impl Chooser for Behind {
    fn choose(&mut self, _from: &str, _packet: u32) -> Option<Fate> {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            match fork_for_run() {
                // Without one, all is its own.
                Ok(Side::Child) | Err(_) => {}
                Ok(Side::Parent(mut forked)) => exit_now(i32::from(forked.wait().is_some())),
            }
        }
        None
    }
}

/// The private mappings of this process.
fn mappings() -> Result<Vec<Mapped>, Error> {
    Ok(all_mapped(&smaps::read()?))
}

/// The private mappings of this text of /proc/self/smaps.
fn all_mapped(text: &str) -> Vec<Mapped> {
    let all = smaps::private(text).into_iter();
    let all = all.filter_map(|smap| mapped(&smap.line).map(|mapped| (smap.anonymous, mapped)));
    let wanted = all.filter(|(anonymous, mapped)| mapped.of_file.is_none() || *anonymous == 0);
    wanted.map(|(_, mapped)| mapped).collect()
}

/// A private mapping, if it is one that is used.
fn mapped(line: &MapsLine<'_>) -> Option<Mapped> {
    let of_file = match (line.is_writable(), line.is_executable()) {
        (true, _) => None,
        _ if !line.is_file() => return None,
        (_, false) => Some(libc::PROT_READ),
        (_, true) => Some(libc::PROT_READ | libc::PROT_EXEC),
    };
    Some(Mapped {
        pages: line.range.start as usize..line.range.end as usize,
        of_file,
    })
}

/// What this process, which has made a run, has used and written of its mappings.
fn learn(all: &[Mapped]) -> io::Result<Rehearsal> {
    let mut learned = Rehearsal::default();
    for Mapped { pages, of_file } in all {
        let into = match of_file {
            Some(_) => &mut learned.used,
            None => &mut learned.written,
        };
        let wanted = match of_file {
            Some(_) => PRESENT,
            None => PRESENT | EXCLUSIVE,
        };
        for (page, entry) in pages.clone().step_by(PAGE).zip(entries(pages)?) {
            let is_other = of_file.is_none() && entry & OF_FILE != 0;
            if entry & wanted != wanted || is_other {
                continue;
            }
            match into.last_mut() {
                Some(last) if last.end == page => last.end += PAGE,
                _ => into.push(page..page + PAGE),
            }
        }
    }
    Ok(learned)
}

/// madvise(2) that is about time only: what an older host does not know is not done.
fn advise(pages: &Range<usize>, advice: i32) {
    // SAFETY: a mapping of this process, whose content stays as it is: it loses tables of a file's pages that are
    // as the file is, or gets its pages.
    unsafe { libc::madvise(pages.start as *mut _, pages.len(), advice) };
}

/// Writes one byte of it, which stays as it was. If the host does not let a program's own code be written, forks
/// take longer.
fn keep_tables(pages: &Range<usize>, access: i32) {
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

    const SMAPS: &str = "\
7f00aa000000-7f00aa0da000 r-xp 00001000 fe:00 131 /a b/lib.so
Size:                872 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f00aa0da000-7f00aa0db000 r--p 000db000 fe:00 131 /a b/lib.so
Anonymous:             4 kB
7f00aa0db000-7f00aa0dd000 rw-p 000dc000 fe:00 131 /a b/lib.so
Anonymous:             4 kB
7f00aa0dd000-7f00aa0de000 r-xs 00000000 fe:00 132 /c
Anonymous:             0 kB
7f00ab000000-7f00ab001000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
";

    #[test]
    fn mappings_of_files_are_told_from_others() {
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let expected = [
            (0x7f00_aa00_0000..0x7f00_aa0d_a000, Some(code)),
            (0x7f00_aa0d_b000..0x7f00_aa0d_d000, None),
            (0x7f00_ab00_0000..0x7f00_ab00_1000, None),
        ];
        let expected = expected.map(|(pages, of_file)| Mapped { pages, of_file });
        assert_eq!(all_mapped(SMAPS), expected);
    }

    #[test]
    fn code_runs_as_before() {
        for mapped in mappings().expect("the mappings of this process") {
            if let Some(access) = mapped.of_file {
                keep_tables(&mapped.pages, access);
            }
        }
        let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
        assert!(!maps.contains("rwxp"), "{maps}");
    }

    #[test]
    fn what_is_written_is_learned() {
        let len = 4 * PAGE;
        let memory = vink_sys::mapping::Mapping::new(len).unwrap();
        let start = memory.start() as usize;
        memory.write(0, &[1; 4 * PAGE]);
        let all = [Mapped {
            pages: start..start + len,
            of_file: None,
        }];
        let written = || {
            let Rehearsal { written, .. } = learn(&all).unwrap();
            let page = |address: usize| (address - start) / PAGE;
            let pages = written.iter();
            let pages = pages.map(|pages| (page(pages.start), page(pages.end)));
            pages.collect::<Vec<_>>()
        };
        assert_eq!(written(), [(0, 4)]);
        match fork_for_run().unwrap() {
            // It has the same pages, until it is ended.
            Side::Child => loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            },
            Side::Parent(_forked) => {
                assert_eq!(written(), []);
                memory.write(PAGE, &[2]);
                memory.write(2 * PAGE, &[2]);
                assert_eq!(written(), [(1, 3)]);
            }
        }
    }
}
