//! Samples: what the kernel's sockets are when it passes its tracepoints, written to a descriptor.
//!
//! A *recorder* has probes at some tracepoints whose first argument is a socket, and a buffer of its own, from which its
//! descriptor takes what it has room for; what comes faster is counted. It ends when nobody reads any more. What the bytes
//! mean is the reader's to know: the worker copies them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use serde::{Deserialize, Serialize};
pub(crate) use vink_kernel::Copied;
use vink_kernel::{Kernel, Passage, ProbeId};
use vink_trap::Worker;

use crate::Error;

/// Bytes that wait to be written by one recorder.
const MOST_WAITING: usize = 16 << 20;
/// Bytes of a sample before those of the socket.
const HEAD: usize = 36;
/// Bytes of a socket, at most: more is no socket.
const MOST_BYTES: usize = 1 << 16;

/// What is to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The names of tracepoints whose first argument is a `struct sock *`.
    pub points: Vec<String>,
    /// Bytes of each socket, 65,536 at most.
    pub bytes: usize,
    /// Only of those sockets that have this number of eight bytes at this offset.
    pub only: Option<(usize, u64)>,
}

/// A socket, at the moment when the kernel passed a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which one, of [`Recording::points`].
    pub point: usize,
    /// The date, in ns since 1970.
    pub date: u64,
    /// Where the socket is in the worker's memory.
    pub at: u64,
    /// How many samples were lost before this one, since they came faster than they were taken.
    pub missed: u64,
    /// The socket's bytes.
    pub bytes: Vec<u8>,
}

impl Sample {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend((self.bytes.len() as u32).to_le_bytes());
        to.extend((self.point as u64).to_le_bytes());
        to.extend(self.date.to_le_bytes());
        to.extend(self.at.to_le_bytes());
        to.extend(self.missed.to_le_bytes());
        to.extend(&self.bytes);
    }

    /// How long the first one is, if its length has come.
    fn len(bytes: &[u8]) -> Option<usize> {
        let len = u32::from_le_bytes(*bytes.first_chunk()?);
        Some(HEAD + len as usize)
    }

    fn read(bytes: &[u8]) -> Sample {
        let number = |i: usize| {
            let from = 4 + 8 * i;
            u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"))
        };
        Sample {
            point: number(0) as usize,
            date: number(1),
            at: number(2),
            missed: number(3),
            bytes: bytes[HEAD..].to_vec(),
        }
    }
}

/// Samples from a stream that comes in pieces.
#[derive(Default)]
pub struct Samples(VecDeque<u8>);

impl Samples {
    /// The next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.extend(piece);
    }

    /// The oldest sample that has come as a whole and was not taken yet.
    pub fn pop(&mut self) -> Option<Sample> {
        let head: Vec<u8> = self.0.iter().take(4).copied().collect();
        let len = Sample::len(&head).filter(|len| *len <= self.0.len())?;
        let bytes: Vec<u8> = self.0.drain(..len).collect();
        Some(Sample::read(&bytes))
    }
}

/// Writes samples.
struct Recorder {
    file: File,
    probes: Vec<ProbeId>,
    waiting: Vec<u8>,
    missed: u64,
    /// There is more than the descriptor has taken: it is waited for.
    waits: bool,
}

/// All recorders of a worker.
#[derive(Default)]
pub struct Recorders {
    all: Vec<Recorder>,
    /// Probes of others, and what they have found.
    taps: Vec<ProbeId>,
    tapped: Vec<Passage>,
    /// Passages that the kernel had not kept when it was last asked.
    not_kept: u64,
}

impl Recorders {
    /// From now on writes samples to this descriptor.
    ///
    /// # Errors
    /// [`Error::Refused`]: there is no such tracepoint, or the image has no probes, and nothing has begun.
    /// [`Error::Kernel`].
    pub fn start(
        &mut self,
        kernel: &mut Kernel,
        what: &Recording,
        to: OwnedFd,
    ) -> Result<(), Error> {
        let file = File::from(to);
        set_blocking(&file, false);
        let mut recorder = Recorder {
            file,
            probes: Vec::new(),
            waiting: Vec::new(),
            missed: 0,
            waits: false,
        };
        let copied = Copied {
            bytes: what.bytes.min(MOST_BYTES),
            only: what.only,
        };
        for name in &what.points {
            match kernel.probe(name, copied) {
                Ok(probe) => recorder.probes.push(probe),
                Err(error) => {
                    recorder.end(kernel)?;
                    return Err(refused(name, error));
                }
            }
        }
        self.all.push(recorder);
        Ok(())
    }

    /// A probe at a tracepoint, whose passages are [`Recorders::tapped`].
    ///
    /// # Errors
    /// As [`Recorders::start`].
    pub(crate) fn tap(
        &mut self,
        kernel: &mut Kernel,
        name: &str,
        copied: Copied,
    ) -> Result<ProbeId, Error> {
        let probe = kernel.probe(name, copied);
        let probe = probe.map_err(|error| refused(name, error))?;
        self.taps.push(probe);
        Ok(probe)
    }

    /// Takes the probe away.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn end_tap(&mut self, kernel: &mut Kernel, probe: ProbeId) -> Result<(), Error> {
        self.taps.retain(|its| *its != probe);
        Ok(kernel.end_probe(probe)?)
    }

    /// What probes of others have found since this was last asked.
    pub(crate) fn tapped(&mut self) -> Vec<Passage> {
        std::mem::take(&mut self.tapped)
    }

    /// Takes what the kernel has passed, and writes what there is room for. To be called after each step of the worker.
    ///
    /// # Errors
    /// Those of the worker and its kernel.
    pub fn look_after(&mut self, worker: &mut Worker) -> Result<(), Error> {
        if self.all.is_empty() && self.taps.is_empty() {
            return Ok(());
        }
        self.take(worker.kernel());
        let mut ended = Vec::new();
        for (i, recorder) in self.all.iter_mut().enumerate() {
            let gone = recorder.write().is_err();
            let waits = !gone && !recorder.waiting.is_empty();
            if waits != recorder.waits {
                recorder.waits = waits;
                match waits {
                    true => worker.attend_to_room(recorder.file.as_fd())?,
                    false => worker.ignore(recorder.file.as_fd()),
                }
            }
            if gone {
                ended.push(i);
            }
        }
        for i in ended.into_iter().rev() {
            self.all.remove(i).end(worker.kernel())?;
        }
        Ok(())
    }

    /// Ends all recorders, when all of what they have is written or nobody reads any more.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn finish(&mut self, kernel: &mut Kernel) -> Result<(), Error> {
        self.take(kernel);
        for mut recorder in self.all.drain(..) {
            set_blocking(&recorder.file, true);
            // Who has gone wants nothing more.
            let _ = recorder.write();
            recorder.end(kernel)?;
        }
        Ok(())
    }

    fn take(&mut self, kernel: &mut Kernel) {
        let not_kept = kernel.missed_passages();
        let lost = not_kept - std::mem::replace(&mut self.not_kept, not_kept);
        for recorder in &mut self.all {
            recorder.missed += lost;
        }
        while let Some(passage) = kernel.next_passage() {
            if self.taps.contains(&passage.probe) {
                self.tapped.push(passage);
                continue;
            }
            let date = kernel.date(passage.time);
            let whose = self.all.iter_mut().find_map(|recorder| {
                let mut probes = recorder.probes.iter();
                let point = probes.position(|probe| *probe == passage.probe)?;
                Some((recorder, point))
            });
            if let Some((recorder, point)) = whose {
                recorder.take(Sample {
                    point,
                    date,
                    at: passage.args[0],
                    missed: 0,
                    bytes: passage.bytes,
                });
            }
        }
    }
}

impl Recorder {
    fn take(&mut self, mut sample: Sample) {
        if self.waiting.len() > MOST_WAITING {
            self.missed += 1;
            return;
        }
        sample.missed = std::mem::take(&mut self.missed);
        sample.write(&mut self.waiting);
    }

    /// Writes as much as there is room for.
    fn write(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let done = loop {
            if sent == self.waiting.len() {
                break Ok(());
            }
            match self.file.write(&self.waiting[sent..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.waiting.drain(..sent);
        done
    }

    fn end(self, kernel: &mut Kernel) -> Result<(), Error> {
        for probe in self.probes {
            kernel.end_probe(probe)?;
        }
        Ok(())
    }
}

/// Why there is no probe at this tracepoint.
fn refused(name: &str, error: vink_kernel::Error) -> Error {
    let vink_kernel::Error::Errno { errno, .. } = error else {
        return error.into();
    };
    let why = match errno {
        libc::ESRCH => "this kernel has no such tracepoint",
        libc::ENOSYS => "the image was built before Vink had probes: build it again",
        _ => "",
    };
    Error::Refused {
        what: format!("recording sockets at {name}"),
        errno,
        why: why.to_owned(),
    }
}

/// See fcntl(2), `O_NONBLOCK`.
fn set_blocking(file: &File, blocking: bool) {
    // SAFETY: takes a descriptor and numbers.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        let flags = match blocking {
            true => flags & !libc::O_NONBLOCK,
            false => flags | libc::O_NONBLOCK,
        };
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_what_they_were_however_they_are_cut() {
        let samples = [0, 1, 70].map(|size| Sample {
            point: size,
            date: u64::MAX - 1,
            at: 0x7f00_0000_1000,
            missed: size as u64 * 3,
            bytes: vec![size as u8; size],
        });
        let mut stream = Vec::new();
        for sample in &samples {
            sample.write(&mut stream);
        }
        for size in 1..=stream.len() {
            let mut reader = Samples::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                reader.push(piece);
                found.extend(std::iter::from_fn(|| reader.pop()));
            }
            assert_eq!(found, samples);
        }
    }
}
