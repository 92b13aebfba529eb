//! Socket probes: samples of the kernel's sockets, taken at its tracepoints and written to a
//! descriptor.
//!
//! A *sample stream* has probes at tracepoints whose first argument is a `struct sock`, and a
//! buffer, which is written to its descriptor as far as there is room; samples that do not fit are
//! counted. A stream ends when its reader has closed the descriptor. The worker copies the sockets'
//! bytes; the reader decodes them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};

pub(crate) use vink_kernel::Copied;
use vink_kernel::{Kernel, ProbeHit, ProbeId};
use vink_protocol::ProbeRequest;
use vink_sys::fd::set_blocking;
use vink_trap::Worker;

use crate::Error;

/// Bytes that one stream may buffer.
const MAX_BUFFERED: usize = 16 << 20;
/// Bytes of a sample before those of the socket.
const HEAD: usize = 36;
/// The most bytes of one socket.
const MAX_SOCKET_BYTES: usize = 1 << 16;

/// A socket's bytes when the kernel passed a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The tracepoint, by its index in [`ProbeRequest::points`].
    pub point: usize,
    /// The date, in ns since 1970.
    pub date: u64,
    /// The socket's address in the worker's memory.
    pub at: u64,
    /// Samples lost before this one for lack of room.
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

    /// The length of the first sample, if the bytes have it already.
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
pub struct SampleDecoder(VecDeque<u8>);

impl SampleDecoder {
    /// The next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.extend(piece);
    }

    /// The next complete sample.
    pub fn pop(&mut self) -> Option<Sample> {
        let head: Vec<u8> = self.0.iter().take(4).copied().collect();
        let len = Sample::len(&head).filter(|len| *len <= self.0.len())?;
        let bytes: Vec<u8> = self.0.drain(..len).collect();
        Some(Sample::read(&bytes))
    }
}

/// Probes whose samples go to one descriptor.
struct SampleStream {
    file: File,
    probes: Vec<ProbeId>,
    waiting: Vec<u8>,
    missed: u64,
    /// Waits until the descriptor is writable.
    waits: bool,
}

/// All socket probes of a worker.
#[derive(Default)]
pub struct SocketProbes {
    streams: Vec<SampleStream>,
    /// Probes of time series, and their passages.
    taps: Vec<ProbeId>,
    tapped: Vec<ProbeHit>,
    /// The kernel's counter of lost passages when it was last read.
    not_kept: u64,
}

impl SocketProbes {
    /// Starts a stream of samples to this descriptor.
    ///
    /// # Errors
    /// [`Error::Refused`]: there is no such tracepoint, or the image has no probes; nothing was started.
    /// [`Error::Kernel`].
    pub fn start(
        &mut self,
        kernel: &mut Kernel,
        what: &ProbeRequest,
        to: OwnedFd,
    ) -> Result<(), Error> {
        let file = File::from(to);
        let _ = set_blocking(&file, false);
        let mut stream = SampleStream {
            file,
            probes: Vec::new(),
            waiting: Vec::new(),
            missed: 0,
            waits: false,
        };
        let copied = Copied {
            bytes: what.bytes.min(MAX_SOCKET_BYTES),
            only: what.only,
        };
        for name in &what.points {
            match kernel.probe(name, copied) {
                Ok(probe) => stream.probes.push(probe),
                Err(error) => {
                    stream.end(kernel)?;
                    return Err(refused(name, error));
                }
            }
        }
        self.streams.push(stream);
        Ok(())
    }

    /// Sets a probe at a tracepoint, whose passages [`SocketProbes::tapped`] returns.
    ///
    /// # Errors
    /// As [`SocketProbes::start`].
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

    /// Removes such a probe.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn end_tap(&mut self, kernel: &mut Kernel, probe: ProbeId) -> Result<(), Error> {
        self.taps.retain(|its| *its != probe);
        Ok(kernel.end_probe(probe)?)
    }

    /// The passages since the last call.
    pub(crate) fn tapped(&mut self) -> Vec<ProbeHit> {
        std::mem::take(&mut self.tapped)
    }

    /// Takes the kernel's passages, and writes as much as the descriptors take. To be called after
    /// each step of the worker.
    ///
    /// # Errors
    /// Those of the worker and its kernel.
    pub fn look_after(&mut self, worker: &mut Worker) -> Result<(), Error> {
        if self.streams.is_empty() && self.taps.is_empty() {
            return Ok(());
        }
        self.take(worker.kernel());
        let mut ended = Vec::new();
        for (i, stream) in self.streams.iter_mut().enumerate() {
            let gone = stream.write().is_err();
            let waits = !gone && !stream.waiting.is_empty();
            if waits != stream.waits {
                stream.waits = waits;
                match waits {
                    true => worker.watch_fd_writable(stream.file.as_fd())?,
                    false => worker.unwatch_fd(stream.file.as_fd()),
                }
            }
            if gone {
                ended.push(i);
            }
        }
        for i in ended.into_iter().rev() {
            self.streams.remove(i).end(worker.kernel())?;
        }
        Ok(())
    }

    /// Ends all streams, after their buffers are written or their readers have gone.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn finish(&mut self, kernel: &mut Kernel) -> Result<(), Error> {
        self.take(kernel);
        for mut stream in self.streams.drain(..) {
            let _ = set_blocking(&stream.file, true);
            // Fails if the reader has gone.
            let _ = stream.write();
            stream.end(kernel)?;
        }
        Ok(())
    }

    fn take(&mut self, kernel: &mut Kernel) {
        let not_kept = kernel.missed_passages();
        let lost = not_kept - std::mem::replace(&mut self.not_kept, not_kept);
        for stream in &mut self.streams {
            stream.missed += lost;
        }
        while let Some(hit) = kernel.next_passage() {
            if self.taps.contains(&hit.probe) {
                self.tapped.push(hit);
                continue;
            }
            let date = kernel.date(hit.time);
            let whose = self.streams.iter_mut().find_map(|stream| {
                let mut probes = stream.probes.iter();
                let point = probes.position(|probe| *probe == hit.probe)?;
                Some((stream, point))
            });
            if let Some((stream, point)) = whose {
                stream.take(Sample {
                    point,
                    date,
                    at: hit.args[0],
                    missed: 0,
                    bytes: hit.bytes,
                });
            }
        }
    }
}

impl SampleStream {
    fn take(&mut self, mut sample: Sample) {
        if self.waiting.len() > MAX_BUFFERED {
            self.missed += 1;
            return;
        }
        sample.missed = std::mem::take(&mut self.missed);
        sample.write(&mut self.waiting);
    }

    /// Writes as much as the descriptor takes.
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
            let mut reader = SampleDecoder::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                reader.push(piece);
                found.extend(std::iter::from_fn(|| reader.pop()));
            }
            assert_eq!(found, samples);
        }
    }
}
