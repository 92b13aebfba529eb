//! Which pages of this process have been written (userfaultfd(2), `PAGEMAP_SCAN`; Linux 6.7).
//!
//! Pages are write-protected in a way that the kernel undoes by itself at the first write to each
//! (`UFFD_FEATURE_WP_ASYNC`). So no other thread is asked, and no right is needed. What is no longer
//! protected has been written. Nothing here allocates, but for [`Watch::new`].

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::done;
use crate::mapping::Mapping;

const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;

/// Pages of this process that are watched.
#[derive(Debug)]
pub struct Watch {
    faults: OwnedFd,
    pages: File,
}

/// `struct page_region`: pages that follow one another.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

impl Region {
    /// Of these.
    pub fn of(pages: Range<usize>) -> Region {
        Region {
            start: pages.start as u64,
            end: pages.end as u64,
            categories: 0,
        }
    }

    /// Their addresses.
    pub fn pages(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What is asked about pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Those that have memory. If they are protected, others count as well.
    Present,
    /// Those that have been written since they were protected.
    Written,
    /// The same, and they are protected again.
    Protect,
}

impl Asked {
    fn masks(self) -> [u64; 2] {
        match self {
            Asked::Present => [0, PAGE_IS_PRESENT | PAGE_IS_SWAPPED],
            // The kernel goes through page tables some times faster for this mask alone. Pages that have no memory
            // are written, too, until they are protected, if others of the same page table have some.
            Asked::Written | Asked::Protect => [PAGE_IS_WRITTEN, 0],
        }
    }
}

impl Watch {
    /// Of no page yet.
    ///
    /// # Errors
    /// As userfaultfd(2): the host has none, or an older one.
    pub fn new() -> io::Result<Watch> {
        let flags = libc::O_CLOEXEC | UFFD_USER_MODE_ONLY;
        // SAFETY: takes numbers only.
        let number = done(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
        // SAFETY: new, and nothing else has it.
        let faults = unsafe { OwnedFd::from_raw_fd(number as i32) };
        let mut api = [UFFD_API, UFFD_FEATURE_WP_ASYNC, 0];
        control(&faults, UFFDIO_API, &mut api)?;
        let pages = File::open("/proc/self/pagemap")?;
        let watch = Watch { faults, pages };
        // An older kernel has not heard of the question.
        watch.ask(0..0, Asked::Written, &mut [])?;
        watch.counts_faults()?;
        Ok(watch)
    }

    /// Makes sure that the first write to a protected page is one of [`faults`].
    fn counts_faults(&self) -> io::Result<()> {
        let page = Mapping::new(4096)?;
        page.write(0, &[1]);
        let start = page.start() as usize;
        let pages = start..start + page.len();
        self.cover(pages.clone())?;
        self.protect(pages)?;
        let before = faults();
        page.write(0, &[2]);
        match faults() > before {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }

    /// Watches these, too. All of them count as written until they are protected.
    ///
    /// # Errors
    /// As ioctl_userfaultfd(2): not all of it is mapped, or a page can't be watched.
    pub fn cover(&self, pages: Range<usize>) -> io::Result<()> {
        let (start, len) = (pages.start as u64, pages.len() as u64);
        let mut register = [start, len, UFFDIO_REGISTER_MODE_WP, 0];
        control(&self.faults, UFFDIO_REGISTER, &mut register)
    }

    /// Protects these: none has been written.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn protect(&self, pages: Range<usize>) -> io::Result<()> {
        let mut at = pages.start;
        while at < pages.end {
            // What it has written there is of no use.
            let mut regions = [Region::default(); 16];
            (_, at) = self.ask(at..pages.end, Asked::Protect, &mut regions)?;
        }
        Ok(())
    }

    /// Which of these pages it is that are asked for: how many regions, and the address up to which it
    /// was looked, since there may be more regions than there is room for.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn ask(
        &self,
        pages: Range<usize>,
        asked: Asked,
        into: &mut [Region],
    ) -> io::Result<(usize, usize)> {
        let [all_of, any_of] = asked.masks();
        let size = 12 * size_of::<u64>() as u64;
        let protect = match asked {
            Asked::Protect => PM_SCAN_WP_MATCHING,
            Asked::Present | Asked::Written => 0,
        };
        let mut question = [
            size,
            protect,
            pages.start as u64,
            pages.end as u64,
            0,
            into.as_mut_ptr() as u64,
            into.len() as u64,
            0,
            0,
            all_of,
            any_of,
            all_of | any_of,
        ];
        // SAFETY: a `struct pm_scan_arg`, which says how many regions may be written where.
        let found = unsafe { libc::ioctl(self.pages.as_raw_fd(), PAGEMAP_SCAN, &mut question) };
        Ok((done(found.into())? as usize, question[4] as usize))
    }
}

/// How many page faults this thread has had so far (getrusage(2)). If there are no more than before, it has written
/// to no page that was protected: asking which takes a hundred times longer.
pub fn faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: fills in the structure, of which zeroes are a value. It can't fail: the thread is there.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

/// An ioctl(2) of userfaultfd(2) whose structure is of numbers, none of them an address that is written to.
fn control<const N: usize>(fd: &OwnedFd, call: u64, with: &mut [u64; N]) -> io::Result<()> {
    // SAFETY: the call's structure has so many numbers; protecting pages changes none of them.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), call, with.as_mut_ptr()) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn what_is_written_is_told() {
        let Ok(watch) = Watch::new() else {
            return;
        };
        let mapping = Mapping::new(8 * PAGE).unwrap();
        let start = mapping.start() as usize;
        let all = start..start + mapping.len();
        mapping.write(PAGE, b"before");
        watch.cover(all.clone()).unwrap();
        let ask = |asked| {
            let mut regions = [Region::default(); 8];
            let (count, end) = watch.ask(all.clone(), asked, &mut regions).unwrap();
            assert_eq!(end, all.end);
            let places = |region: &Region| {
                let place = |at: u64| (at as usize - start) / PAGE;
                (place(region.start), place(region.end))
            };
            regions[..count].iter().map(places).collect::<Vec<_>>()
        };
        assert_eq!(ask(Asked::Present), vec![(1, 2)]);
        assert_eq!(ask(Asked::Written), vec![(0, 8)]);
        watch.protect(all.clone()).unwrap();
        assert_eq!(ask(Asked::Written), []);
        mapping.write(PAGE, b"behind");
        mapping.write(2 * PAGE, b"new");
        mapping.write(5 * PAGE, b"new");
        assert_eq!(ask(Asked::Written), [(1, 3), (5, 6)]);
        assert_eq!(ask(Asked::Protect), [(1, 3), (5, 6)]);
        assert_eq!(ask(Asked::Written), []);
        mapping.write(2 * PAGE, b"again");
        assert_eq!(ask(Asked::Written), vec![(2, 3)]);
        mapping.read(PAGE, &mut [0; 6]);
    }
}
