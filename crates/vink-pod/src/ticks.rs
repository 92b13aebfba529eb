//! A thread that looks at pods while they are crossed, so that none takes longer than it may.
//!
//! Theory of operation: the thread looks, and sleeps for as long as it says. So a crossing costs nothing
//! for it but a word in memory. When no pod was crossed for a while the thread rests, and the next
//! crossing wakes it. It sleeps once more after it has said that it rests: what another thread has stored
//! is seen by then.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::Duration;

use vink_sys::process::set_slice;

/// From one look to the next, where a pod's time is looked at.
pub const TICK: Duration = Duration::from_millis(1);
/// What the thread takes of a processor at once, which says how soon it gets one.
const SLICE: Duration = Duration::from_micros(100);
/// Looks without a crossing until it rests.
const IDLE: u32 = 100;

/// The thread.
pub struct Ticks {
    /// A pod was crossed since the last look.
    crossed: AtomicBool,
    rests: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Ticks {
    pub const fn new() -> Ticks {
        Ticks {
            crossed: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Starts the thread, once. `look` says how long it sleeps then.
    ///
    /// # Errors
    /// A sentence: the host gives no thread.
    pub fn start(
        &'static self,
        name: &str,
        look: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<(), String> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Before the pod that it is to end. Without it, it is on time most of the time.
                let _ = set_slice(SLICE);
                self.tick(look);
            })
            .map_err(|error| format!("starting the thread that limits a pod's time: {error}"))?;
        // Another thread may have been first: then two look.
        let _ = self.thread.set(thread.thread().clone());
        Ok(())
    }

    /// A pod is crossed, or still is.
    #[inline]
    pub fn crossing(&self) {
        self.crossed.store(true, Relaxed);
        if self.rests.load(Relaxed) {
            self.rests.store(false, SeqCst);
            self.wake();
        }
    }

    /// Has the thread look now, if it sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn tick(&self, mut look: impl FnMut() -> Duration) {
        let mut idle = 0;
        loop {
            thread::park_timeout(look());
            match self.crossed.swap(false, SeqCst) {
                true => idle = 0,
                false => idle += 1,
            }
            if idle < IDLE {
                continue;
            }
            self.rests.store(true, SeqCst);
            thread::sleep(TICK);
            while self.rests.load(SeqCst) && !self.crossed.load(SeqCst) {
                thread::park();
            }
            self.rests.store(false, SeqCst);
            idle = 0;
        }
    }
}
