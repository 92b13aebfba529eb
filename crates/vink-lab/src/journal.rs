//! Writes down what happens in a worker: packets, calls and programs, in the order in which they
//! happen.
//!
//! The kernel tells of packets later than the worker of calls, but of each call it is known how
//! many packets there had been: so calls wait until those packets have been taken, and the order is
//! that of the run, whenever the worker looked.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use vink_kernel::PacketEvent;
use vink_record::{Event, Hash, PacketOutcome, Record, Totals, Writer};
use vink_trap::{TraceEvent, TraceTime, Worker};

use crate::Error;

/// Bytes of a packet that are kept: enough for a line about it.
const HEAD: usize = 160;

/// What programs have done, and how many packets there had been.
type Calls = Rc<RefCell<VecDeque<(u64, Record)>>>;

/// A journal that is being written.
pub struct Journal {
    writer: Writer,
    calls: Calls,
    /// Packets that were taken from the kernel.
    taken: u64,
    /// Packets that the kernel had not kept when it was last asked.
    not_kept: u64,
}

impl Journal {
    /// From now on writes down the calls of programs that are started; packets and what becomes of
    /// programs as they are told. The name is for errors.
    pub fn start(worker: &mut Worker, to: File, name: impl Into<String>) -> Journal {
        let calls = Calls::default();
        let queue = calls.clone();
        let mut hashes = Hashes::default();
        worker.subscribe_to_calls(Box::new(move |at: TraceTime, what| {
            let event = event(what, &mut hashes);
            let time = at.time;
            let record = Record { time, event };
            queue.borrow_mut().push_back((at.packets, record));
        }));
        let kernel = worker.kernel();
        Journal {
            writer: Writer::new(Box::new(BufWriter::new(to)), name, kernel.date(0)),
            calls,
            taken: kernel.taken_packets(),
            not_kept: kernel.missed_packets(),
        }
    }

    /// A packet that was taken from the kernel: each has to be told, in their order. `None`: at an
    /// interface that has gone.
    pub fn packet(&mut self, place: Option<&str>, packet: &PacketEvent) {
        self.calls_before(self.taken);
        self.taken += 1;
        let Some(place) = place else { return };
        let outcome = match packet.kind.names() {
            ("departure", _) => PacketOutcome::Departure,
            ("arrival", _) => PacketOutcome::Arrival,
            (_, reason) => PacketOutcome::Loss(reason.unwrap_or_default()),
        };
        self.writer.add(&Record {
            time: packet.time,
            event: Event::Packet {
                place: place.to_owned(),
                outcome,
                length: packet.len,
                hash: Hash::number(&packet.bytes),
                head: packet.bytes[..packet.bytes.len().min(HEAD)].to_vec(),
            },
        });
    }

    /// All packets that there are have been told; the kernel has not kept so many.
    pub fn caught_up(&mut self, missed: u64) {
        self.calls_before(u64::MAX);
        let lost = missed - std::mem::replace(&mut self.not_kept, missed);
        if lost > 0 {
            self.writer.missed(lost);
        }
    }

    /// Something else: about a program as a whole, say.
    pub fn event(&mut self, time: u64, event: Event) {
        self.writer.add(&Record { time, event });
    }

    /// What was told until now is in the file: a journal that is cut short there is whole until then.
    pub fn flush(&mut self) {
        self.calls_before(u64::MAX);
        self.writer.flush();
    }

    /// The run is about to be ended while something was still to be done at that time.
    pub fn unfinished(&mut self) {
        self.writer.unfinished();
    }

    /// Ends it, at this time.
    ///
    /// # Errors
    /// [`Error::Record`]: it could not be written.
    pub fn finish(mut self, now: u64) -> Result<Totals, Error> {
        self.calls_before(u64::MAX);
        Ok(self.writer.finish(now)?)
    }

    fn calls_before(&mut self, packets: u64) {
        let mut calls = self.calls.borrow_mut();
        while calls.front().is_some_and(|(before, _)| *before <= packets) {
            if let Some((_, record)) = calls.pop_front() {
                self.writer.add(&record);
            }
        }
    }
}

/// Hashes of programs' files, by identity and date of change.
#[derive(Default)]
struct Hashes(HashMap<PathBuf, (std::time::SystemTime, u64, Hash)>);

impl Hashes {
    fn of(&mut self, path: &Path, mut file: File) -> Option<Hash> {
        let status = file.metadata().ok()?;
        let (changed, length) = (status.modified().ok()?, status.len());
        match self.0.get(path) {
            Some((then, before, hash)) if (*then, *before) == (changed, length) => Some(*hash),
            _ => {
                let hash = Hash::of_reader(&mut file).ok()?;
                self.0.insert(path.to_owned(), (changed, length, hash));
                Some(hash)
            }
        }
    }
}

fn event(what: TraceEvent<'_>, hashes: &mut Hashes) -> Event {
    match what {
        TraceEvent::Thread {
            thread,
            machine,
            process,
        } => Event::Thread {
            thread,
            machine: machine.to_owned(),
            process,
        },
        TraceEvent::Executed { thread, path, file } => Event::Executed {
            thread,
            hash: file.and_then(|file| hashes.of(&path, file)),
            path: path.to_string_lossy().into_owned(),
        },
        TraceEvent::Call {
            thread,
            began,
            text,
            written,
        } => Event::Call {
            thread,
            began,
            text: text.to_owned(),
            hash: match written {
                [] => 0,
                bytes => Hash::number(bytes),
            },
        },
    }
}
