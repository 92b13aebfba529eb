//! Reading that is given up: a question about a run may read much of its journal, and its answer may be waited for no more.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Ends the reading of all that have it, as soon as it is set.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Nothing more is to be read.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file that can be read until it is stopped. Then reading fails.
#[derive(Debug)]
pub struct Stopping {
    file: File,
    stop: Stop,
}

impl Stopping {
    /// Reads this file until then.
    pub fn new(file: File, stop: Stop) -> Stopping {
        Stopping { file, stop }
    }
}

impl Read for Stopping {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        match self.stop.0.load(Ordering::Relaxed) {
            true => Err(Error::other("given up, since the answer is not waited for")),
            false => self.file.read(to),
        }
    }
}
