//! A record of calls for a run that is written down: which thread made them, and when, on the
//! kernel's clock.
//!
//! Nothing of it depends on the host: threads are numbered in the order of their first calls, and a
//! time is that of the clock and the number of packets that the kernel had reported.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use vink_syscalls::{kind, sched_class, shapes, status, Kind, Sched, Shape, Status};

use crate::notification::Notification;
use crate::tracee;

/// Bytes of a call's that are reported at most.
const MOST_BYTES: u64 = 1 << 20;
/// Buffers of a call's that are reported at most (`IOV_MAX`).
const MOST_BUFFERS: u64 = 1024;

/// A time of a kernel: that on its clock in ns, and how many packets it has reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceTime {
    /// [`vink_kernel::Kernel::now`].
    pub time: u64,
    /// [`vink_kernel::Kernel::reported_packets`].
    pub packets: u64,
}

/// Something about a program's thread.
#[derive(Debug)]
pub enum TraceEvent<'a> {
    /// It makes its first call.
    Thread {
        /// Its number, from 1 on in the order of first calls.
        thread: u64,
        /// Where it runs.
        machine: &'a str,
        /// The first thread of its process: its own number if it is that.
        process: u64,
    },
    /// It has executed a file.
    Executed {
        /// Which thread.
        thread: u64,
        /// The file's path, as the host's kernel has it.
        path: PathBuf,
        /// The file; none if it can't be read.
        file: Option<File>,
    },
    /// A call of its has ended.
    Call {
        /// Which thread.
        thread: u64,
        /// When it was made, on the kernel's clock in ns.
        began: u64,
        /// The call and its result, as [`crate::Worker::trace_calls`] writes it.
        text: &'a str,
        /// What the host was given to write, 1 MiB at most.
        written: &'a [u8],
    },
}

/// What is called for each of these.
pub type TraceSubscriber = Box<dyn FnMut(TraceTime, TraceEvent<'_>)>;

/// Makes the events of calls, and passes them on.
pub(super) struct Emitter {
    to: RefCell<TraceSubscriber>,
    pub(super) now: Cell<TraceTime>,
    threads: RefCell<HashMap<i32, Known>>,
    last: Cell<u64>,
}

/// A thread that has made a call.
struct Known {
    pid: i32,
    number: u64,
    /// What its process ran when it began to execute another file.
    executes: Option<(u64, u64)>,
}

impl Emitter {
    pub(super) fn new(to: TraceSubscriber) -> Emitter {
        Emitter {
            to: RefCell::new(to),
            now: Cell::default(),
            threads: RefCell::default(),
            last: Cell::new(0),
        }
    }

    /// A thread makes a call: its number.
    pub(super) fn begin(&self, call: &Notification, pid: i32, machine: &str) -> u64 {
        let mut threads = self.threads.borrow_mut();
        let number = match threads.get(&call.tid).filter(|known| known.pid == pid) {
            Some(known) => known.number,
            None => {
                let number = self.last.get() + 1;
                self.last.set(number);
                let first = threads.get(&pid).filter(|_| call.tid != pid);
                let process = first.map_or(number, |first| first.number);
                let known = Known {
                    pid,
                    number,
                    executes: None,
                };
                threads.insert(call.tid, known);
                self.emit(TraceEvent::Thread {
                    thread: number,
                    machine,
                    process,
                });
                number
            }
        };
        let known = threads.get_mut(&call.tid).expect("just found");
        if let Some(before) = known.executes.take() {
            self.has_executed(number, pid, before);
        }
        if kind(call.nr) == Kind::Exec {
            known.executes = Some(executable(pid).unwrap_or_default());
        }
        number
    }

    fn has_executed(&self, thread: u64, pid: i32, before: (u64, u64)) {
        if executable(pid).is_none_or(|now| now == before) {
            return;
        }
        let path = format!("/proc/{pid}/exe");
        self.emit(TraceEvent::Executed {
            thread,
            path: std::fs::read_link(&path).unwrap_or_default(),
            file: File::open(&path).ok(),
        });
    }

    /// A call has ended.
    pub(super) fn end(&self, thread: u64, began: u64, text: &str, written: &[u8]) {
        self.emit(TraceEvent::Call {
            thread,
            began,
            text,
            written,
        });
    }

    /// A process has ended.
    pub(super) fn died(&self, pid: i32) {
        self.threads
            .borrow_mut()
            .retain(|_, known| known.pid != pid);
    }

    fn emit(&self, what: TraceEvent<'_>) {
        (self.to.borrow_mut())(self.now.get(), what);
    }
}

/// What a process runs.
fn executable(pid: i32) -> Option<(u64, u64)> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}

/// A line as it is in each run. Whether the worker changes the times of a file of the host's
/// depends on whether another process has changed it, and when.
pub(super) fn without_chance(nr: i64, line: &str) -> Cow<'_, str> {
    let is_status = status(nr) != Status::None;
    match line.strip_suffix(") = 0").filter(|_| is_status) {
        Some(call) => format!("{call}) = (host)").into(),
        None => line.into(),
    }
}

/// What a call that is the host's gives it to write.
pub(super) fn written(call: &Notification) -> Vec<u8> {
    let [_, at, len, ..] = call.args;
    let mut bytes = Vec::new();
    let mut take = |at: u64, len: u64| {
        let old = bytes.len();
        let room = MOST_BYTES.saturating_sub(old as u64);
        bytes.resize(old + len.min(room) as usize, 0);
        if !tracee::read(call.tid, at, &mut bytes[old..]) {
            bytes.truncate(old);
        }
    };
    match shapes(call.nr) {
        // vmsplice(2) gives pages, not bytes.
        _ if sched_class(call.nr) == Sched::HostMayBlock => {}
        Some([_, Shape::In(2), ..]) => take(at, len),
        Some([_, Shape::InVector(2), ..]) => {
            for i in 0..len.min(MOST_BUFFERS) {
                let vector = at.wrapping_add(16 * i);
                let base = tracee::read_u64(call.tid, vector);
                let length = tracee::read_u64(call.tid, vector.wrapping_add(8));
                if let (Some(base), Some(length)) = (base, length) {
                    take(base, length);
                }
            }
        }
        _ => {}
    }
    bytes
}
