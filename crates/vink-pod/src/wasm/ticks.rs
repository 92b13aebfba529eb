//! What interrupts WebAssembly that takes too long: an epoch that a thread raises each millisecond.
//!
//! Theory of operation: compiled code compares the engine's epoch with its store's deadline at each
//! function and loop, and calls back where it has passed. So a crossing costs nothing for it but the
//! deadline. While no pod is crossed the thread rests, and [`crossing`] wakes it. It looks once more
//! a tick after it has said that it rests: what another thread has stored is seen by then.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::Duration;

/// From one epoch to the next.
pub const TICK: Duration = Duration::from_millis(1);
/// Ticks without a crossing until it rests.
const IDLE: u32 = 100;

/// A pod was crossed since the last tick.
static CROSSED: AtomicBool = AtomicBool::new(false);
static RESTS: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread, once. `raise` raises the epoch.
///
/// # Errors
/// A sentence: the host gives no thread.
pub fn start(raise: fn()) -> Result<(), String> {
    if THREAD.get().is_some() {
        return Ok(());
    }
    let thread = thread::Builder::new()
        .name("pod-ticks".to_owned())
        .spawn(move || tick(raise))
        .map_err(|error| format!("starting the thread that limits a pod's time: {error}"))?;
    // Another thread may have been first: then two raise it, and time is looked at more often.
    let _ = THREAD.set(thread.thread().clone());
    Ok(())
}

/// A pod is crossed, or still is.
#[inline]
pub fn crossing() {
    CROSSED.store(true, Relaxed);
    if RESTS.load(Relaxed) {
        RESTS.store(false, SeqCst);
        if let Some(thread) = THREAD.get() {
            thread.unpark();
        }
    }
}

fn tick(raise: fn()) {
    let mut idle = 0;
    loop {
        thread::sleep(TICK);
        raise();
        match CROSSED.swap(false, SeqCst) {
            true => idle = 0,
            false => idle += 1,
        }
        if idle < IDLE {
            continue;
        }
        RESTS.store(true, SeqCst);
        thread::sleep(TICK);
        while RESTS.load(SeqCst) && !CROSSED.load(SeqCst) {
            thread::park();
        }
        RESTS.store(false, SeqCst);
        idle = 0;
    }
}
