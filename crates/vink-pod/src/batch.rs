//! What crosses a wall: calls of a pod, and what it has said meanwhile.

use std::ops::Range;

use vink_sys::process::thread_cpu_time;

/// How many counters a pod has (`vink_count()`).
pub const COUNTERS: usize = 16;

/// Bytes by which `pod_packet()` may make a frame longer.
pub const ROOM: usize = 256;

/// Bytes of a line of the log.
const LINE: usize = 1000;

/// Which of a pod's functions a call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Entry {
    /// `pod_init()`; the bytes are the configuration.
    Init = 0,
    /// `pod_packet()`; the bytes are the frame, the argument is the direction.
    Packet = 1,
    /// `pod_stream()`; the bytes are the unit, the argument is the flags.
    Stream = 2,
    /// `pod_timer()`; no bytes.
    Timer = 3,
}

/// A call of one of a pod's functions.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which.
    pub entry: Entry,
    /// Its direction or flags.
    pub argument: u32,
    /// Where its bytes are in [`Batch::bytes`].
    pub bytes: Range<usize>,
    /// What it returned. Of a packet: `POD_PASS`, `POD_DROP`, or the frame's new length, and the
    /// frame is [`Call::changed`].
    pub answer: i32,
    /// Where the changed frame is in [`Batch::emitted_bytes`].
    pub changed: Range<usize>,
}

/// What a pod has emitted by one `vink_emit()`.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// During which call, as an index of [`Batch::calls`].
    pub call: usize,
    /// `where`.
    pub output: u32,
    /// Where its bytes are in [`Batch::emitted_bytes`].
    pub bytes: Range<usize>,
}

/// Calls that cross a wall together, in order, and what came back. It is kept and used again: it
/// allocates nothing once it has grown.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lab's clock, ns: what `vink_now()` says.
    pub now: u64,
    /// The calls.
    pub calls: Vec<Call>,
    /// The calls' bytes.
    pub bytes: Vec<u8>,
    /// What was emitted, in order.
    pub emitted: Vec<Emitted>,
    /// The bytes of it, and of changed frames.
    pub emitted_bytes: Vec<u8>,
    /// Lines of the pod's log.
    pub log: Vec<String>,
    /// What was added to the counters.
    pub counted: [i64; COUNTERS],
    /// The last `vink_timer()`: when, or 0 for not any more.
    pub timer: Option<u64>,
    /// How many of the calls have their answers, when the pod has ended meanwhile.
    pub done: usize,
    /// Cycles of the processor that the crossing took, both ways and the pod's code. Of WebAssembly in
    /// a lab that repeats: its instructions.
    pub cycles: u64,
    /// [`Batch::time`] is wanted, which costs system calls.
    pub wants_time: bool,
    /// A processor's time that the crossing took, ns: of this thread and of the pod's process.
    pub time: u64,
}

impl Batch {
    /// Empties it, for calls at this time.
    pub fn clear(&mut self, now: u64) {
        self.now = now;
        self.calls.clear();
        self.bytes.clear();
        self.emitted.clear();
        self.emitted_bytes.clear();
        self.log.clear();
        self.counted = [0; COUNTERS];
        self.timer = None;
        self.done = 0;
        self.cycles = 0;
        self.wants_time = false;
        self.time = 0;
    }

    /// Adds a call with these bytes.
    pub fn push(&mut self, entry: Entry, argument: u32, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.calls.push(Call {
            entry,
            argument,
            bytes: start..self.bytes.len(),
            answer: 0,
            changed: 0..0,
        });
    }

    /// Crosses into a pod that is a part of this thread, and takes the time if it is wanted.
    pub(crate) fn timed<R>(&mut self, cross: impl FnOnce(&mut Batch) -> R) -> R {
        if !self.wants_time {
            return cross(self);
        }
        let before = thread_cpu_time();
        let crossed = cross(self);
        self.time = (thread_cpu_time() - before).as_nanos() as u64;
        crossed
    }
}

/// The lines of what a pod has logged, or printed.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = String> + '_ {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| clean(line, LINE))
}

/// Text of a pod's: what is printed is harmless, and not long.
pub(crate) fn clean(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    let chars = text.chars();
    chars
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
