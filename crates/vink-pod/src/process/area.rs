//! The memory that a pod's process shares with the worker: a page of numbers, the calls, and what the
//! pod has said. Read by both sides; the worker believes nothing in it.

/// `pause(2)` is how the pod's process crosses the wall: its filter stops it there until it is
/// answered. The call's first argument says why it crosses.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It waits for calls. The second argument is a number that was asked for, while it starts.
    Done = 0,
    /// The pod can't be loaded: [`TEXT`] says why.
    NotLoaded = 1,
    /// A fault of the pod's code: [`TEXT`] says which, and where.
    Fault = 2,
    /// It has emitted more than it may.
    Emit = 3,
    /// It got no memory, and then faulted.
    Memory = 4,
    /// A pointer that it gave to `vink_emit()` is not its own.
    EmitArgument = 5,
    /// The same of `vink_log()`.
    LogArgument = 6,
    /// It has called abort(3).
    Abort = 7,
    /// `vink_count()` has no such counter.
    CountArgument = 8,
}

/// `vink_now()`, 8 bytes.
pub const NOW: usize = 0;
/// How many calls there are, 4 bytes.
pub const CALLS: usize = 8;
/// How many have their answers, 4 bytes.
pub const DONE: usize = 12;
/// Bytes at [`Sizes::output`], 4 bytes.
pub const SAID: usize = 16;
/// Whether `vink_timer()` was called, 4 bytes.
pub const TIMER_SET: usize = 20;
/// Its last argument, 8 bytes.
pub const TIMER: usize = 24;
/// The 16 counters, 8 bytes each.
pub const COUNTED: usize = 32;
/// How many there are.
pub const COUNTERS: usize = 16;
/// A text, and its length in 4 bytes before it.
pub const TEXT_LEN: usize = 160;
/// See [`TEXT_LEN`].
pub const TEXT: usize = 164;
/// Its room.
pub const TEXT_ROOM: usize = 1024;
/// Where the calls start.
pub const INPUT: usize = 4096;

/// Before the bytes of each call: which function, its argument, the bytes' length and their room; then
/// the answer, 4 bytes each.
pub const CALL: usize = 32;
/// Where the answer is in that.
pub const ANSWER: usize = 16;

/// Before the bytes of all that is said: [`EMITTED`] or [`LOGGED`], the call, the output, and the
/// bytes' length, 4 bytes each.
pub const RECORD: usize = 16;
/// See [`RECORD`].
pub const EMITTED: u32 = 0;
/// See [`RECORD`].
pub const LOGGED: u32 = 1;

/// How large the parts are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the calls.
    pub input: usize,
    /// Of what the pod says.
    pub output: usize,
}

impl Sizes {
    /// Of all of it, in whole pages.
    pub fn all(self) -> usize {
        (INPUT + self.input + self.output).next_multiple_of(4096)
    }

    /// Where the output starts.
    pub fn output_at(self) -> usize {
        INPUT + self.input
    }
}

/// The next place for a call or a record behind so many bytes.
pub fn aligned(at: usize) -> usize {
    at.next_multiple_of(16)
}
