//! Files that the kernel reports readiness of, by the cookie of their watch.

use std::rc::{Rc, Weak};

use vink_kernel::{Numbered, TaskId};

use crate::fd_table::Entry;
use crate::file::File;
use crate::kernel_runner::KernelRunner;
use crate::placeholder::WATCHED;
use crate::Error;

/// How many there may be before those that are gone are looked for.
const FIRST_SWEEP: usize = 64;

/// Watched files. Cookies are never used again: 0 is no file's.
pub(crate) struct Watches {
    files: Numbered<u64, Weak<File>>,
    last: u64,
    sweep_at: usize,
}

impl Default for Watches {
    fn default() -> Watches {
        Watches {
            files: Numbered::default(),
            last: 0,
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl Watches {
    /// The readiness of a file now, asked on a task that has it and no call in progress; an error,
    /// if it can't be watched. It is watched from now on.
    pub(crate) fn ask(
        &mut self,
        kernel: &mut KernelRunner,
        task: TaskId,
        entry: &Entry,
    ) -> Result<i64, Error> {
        let number = entry.number as u64;
        if entry.file.cookie.get() != 0 {
            let args = [number, 0, 0, 0, 0, 0];
            return kernel.run_call(task, vink_abi::VINK_CALL_POLL.into(), args);
        }
        let cookie = self.add(&entry.file);
        let args = [number, cookie, WATCHED.into(), 0, 0, 0];
        let result = kernel.run_call(task, vink_abi::VINK_CALL_WATCH.into(), args)?;
        if result >= 0 {
            entry.file.cookie.set(cookie);
        }
        Ok(result)
    }

    /// The cookie for a watch of this file.
    fn add(&mut self, file: &Rc<File>) -> u64 {
        self.last += 1;
        // Each time that there are twice as many as lived last time.
        if self.files.len() >= self.sweep_at {
            self.files.retain(|_, file| file.strong_count() > 0);
            self.sweep_at = 2 * self.files.len() + FIRST_SWEEP;
        }
        self.files.insert(self.last, Rc::downgrade(file));
        self.last
    }

    /// The file of a watch; `None` if it is gone.
    pub(crate) fn file(&mut self, cookie: u64) -> Option<Rc<File>> {
        let file = self.files.get(&cookie).and_then(Weak::upgrade);
        if file.is_none() {
            self.files.remove(&cookie);
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_gone_are_not_kept() {
        let mut watches = Watches::default();
        let file = File::new(i32::MAX).unwrap();
        let cookie = watches.add(&file);
        for _ in 0..10 * FIRST_SWEEP {
            let gone = watches.add(&File::new(i32::MAX).unwrap());
            assert!(watches.files.len() <= FIRST_SWEEP + 2);
            assert!(watches.file(gone).is_none());
        }
        assert!(Rc::ptr_eq(&watches.file(cookie).unwrap(), &file));
    }
}
