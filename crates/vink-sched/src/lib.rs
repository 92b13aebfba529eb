//! Virtual time's decisions: which thread runs, what waits for what, and when time passes.
//!
//! Nothing here makes a system call or reads a clock. What a decision needs of the threads that it
//! is about, such as a word in their memory, it asks of [`Tracees`]; what time it is, the caller
//! says. So a decision depends on nothing else, a run repeats, and a test needs no programs.
//! `vink-trap` carries the decisions out.
//!
//! - Which thread comes next, and which may run beside it: [`run_queue`], [`batch`], [`conflict`].
//! - What a blocked thread waits for: [`block`], and for calls that the host would do with its own
//!   order and clock, [`futex`], [`timers`], [`locks`], [`children`].
//! - Programs that wait for nothing and never end: [`livelock`].

pub mod batch;
pub mod block;
pub mod children;
pub mod conflict;
pub mod futex;
pub mod livelock;
pub mod locks;
pub mod run_queue;
pub mod timers;

use vink_sys::errno::{EFAULT, EINVAL};

/// A call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// Names the call among all.
    pub id: u64,
    /// The host's number of the thread.
    pub tid: i32,
    /// The system call's number.
    pub nr: i64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Threads of programs, as far as decisions depend on them.
pub trait Tracees {
    /// Reads a thread's memory. False: not all of it can be read.
    fn read(&self, tid: i32, address: u64, bytes: &mut [u8]) -> bool;

    /// Writes into a thread's memory. False: not all of it can be written.
    fn write(&mut self, tid: i32, address: u64, bytes: &[u8]) -> bool;

    /// Whether the thread waits in this call.
    fn is_blocked(&self, tid: i32, call: u64) -> bool;

    /// After which process a thread's memory is named: several processes may have the same.
    fn memory(&mut self, tid: i32) -> i32;

    /// What is mapped in a thread's memory, as proc_pid_maps(5) has it.
    fn maps(&self, tid: i32) -> String;

    /// The thread that a process knows by this number.
    fn thread_numbered(&self, pid: i32, number: i32) -> Option<i32>;

    /// Whether a signal is pending for a thread of a process, or for the process.
    fn is_signal_pending(&self, pid: i32, tid: i32, signal: i32) -> bool;
}

/// What time it is for a call. All times are in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On the scheduler's clock, by which deadlines are.
    pub now: u64,
    /// What `CLOCK_MONOTONIC` shows.
    pub monotonic: u64,
    /// What `CLOCK_REALTIME` shows.
    pub realtime: u64,
    /// The deadline of a call that is dispatched again: it stays what it was.
    pub resumed: Option<Option<u64>>,
}

impl Times {
    /// Until when a call waits that may last so many ns: from its first dispatch on.
    pub fn deadline(&self, lasting: Option<u64>) -> Option<u64> {
        let new = || lasting.map(|ns| self.now.saturating_add(ns));
        self.resumed.unwrap_or_else(new)
    }
}

/// Two words of a thread's memory, as `struct timespec` and `struct timeval` have them.
///
/// # Errors
/// The call's result: `-EFAULT`.
fn read_pair(tracees: &impl Tracees, tid: i32, address: u64) -> Result<(i64, i64), i64> {
    let mut bytes = [0; 16];
    if !tracees.read(tid, address, &mut bytes) {
        return Err(EFAULT);
    }
    let (first, second) = bytes.split_at(8);
    let half = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    Ok((half(first), half(second)))
}

/// The duration in a `struct timespec` of the thread's, in ns.
///
/// # Errors
/// The call's result: `-EFAULT`, `-EINVAL`.
fn read_timespec(tracees: &impl Tracees, tid: i32, address: u64) -> Result<u64, i64> {
    match read_pair(tracees, tid, address)? {
        (secs @ 0.., ns @ 0..1_000_000_000) => Ok((secs as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(ns as u64)),
        _ => Err(EINVAL),
    }
}

/// Seconds and ns, as `struct timespec` has them.
pub fn timespec(ns: u64) -> [u8; 16] {
    pair(ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Two words in memory.
pub fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    bytes[8..].copy_from_slice(&second.to_ne_bytes());
    bytes
}
