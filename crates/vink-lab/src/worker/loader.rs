//! Pods are loaded apart: no packet waits for a compiler or a dynamic loader.
//!
//! One thread loads them, one after the other, as long as the worker lives: a pod's process ends with
//! the thread that has started it. What is loaded waits until the worker's loop comes by, which a
//! descriptor tells it to. By a virtual clock pods are loaded in the loop, and no time passes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use vink_pod::Loaded;
use vink_spec::PodSpec;
use vink_sys::fd::pipe_that_never_waits;

use super::path::load_pod;

/// A pod that is to be loaded.
pub(super) struct Job {
    /// The request's number, whose answer waits for it.
    pub(super) request: u64,
    pub(super) pod: String,
    pub(super) what: PodSpec,
    pub(super) file: String,
    /// The lab's clock, ns.
    pub(super) now: u64,
}

/// A pod that was loaded, or why it was not.
pub(super) type Outcome = (Job, Result<Loaded, String>);

/// The thread, and what it has loaded.
pub(super) struct Loader {
    jobs: Sender<Job>,
    done: Arc<Mutex<VecDeque<Outcome>>>,
    /// Readable when something is done.
    told: File,
}

impl Loader {
    /// Starts the thread.
    ///
    /// # Errors
    /// As pipe2(2) and clone(2).
    pub(super) fn start() -> io::Result<Loader> {
        let (told, tells) = pipe_that_never_waits()?;
        let (jobs, work) = channel();
        let done = Arc::default();
        let loaded = Arc::clone(&done);
        let (told, tells) = (File::from(told), File::from(tells));
        thread::Builder::new()
            .name("pod-loader".to_owned())
            .spawn(move || load_all(&work, &loaded, &tells))?;
        Ok(Loader { jobs, done, told })
    }

    /// What becomes readable when something is done.
    pub(super) fn told(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }

    /// Has a pod loaded.
    pub(super) fn load(&self, job: Job) {
        // The thread ends with this.
        let _ = self.jobs.send(job);
    }

    /// What is done.
    pub(super) fn done(&self) -> VecDeque<Outcome> {
        let mut buffer = [0; 64];
        while matches!((&self.told).read(&mut buffer), Ok(1..)) {}
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *done)
    }
}

fn load_all(jobs: &Receiver<Job>, done: &Mutex<VecDeque<Outcome>>, mut tells: &File) {
    while let Ok(job) = jobs.recv() {
        let loaded = load_pod(&job.what, Path::new(&job.file), job.now, false);
        let loaded = loaded.map_err(|error| error.to_string());
        let mut queue = done.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back((job, loaded));
        // Full: it is readable.
        let _ = tells.write(&[0]);
    }
}
