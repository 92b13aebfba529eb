//! The worker in a process of its own, and what it did last if it dies or stands still.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Options;

/// Bytes of the log that are kept, and lines of it that are shown.
const KEPT: usize = 1 << 20;
const SHOWN: usize = 60;
/// A worker that has no call to answer for so long hangs, or its programs do.
const EXIT_TIMEOUT_MS: i32 = 150_000;

pub(crate) type Work = fn(&Options, Log) -> Result<(), BoxError>;
pub(crate) type BoxError = Box<dyn std::error::Error>;

/// Memory that both processes share: how many bytes were written, then the last of them, in a ring.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    written: *const AtomicU64,
}

impl Log {
    fn map(file: &OwnedFd) -> io::Result<Log> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: a fresh mapping, that is kept for as long as the process lives.
        let start = unsafe { libc::mmap(null_mut(), KEPT + 8, prot, libc::MAP_SHARED, fd, 0) };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Log {
                written: start.cast(),
            }),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        // SAFETY: mapped for ever, and only used as an atomic.
        unsafe { (*self.written).load(Ordering::Acquire) }
    }

    fn ring(&self) -> *mut u8 {
        // SAFETY: behind the counter, in the same mapping.
        unsafe { self.written.add(1).cast_mut().cast() }
    }

    /// The last lines.
    fn tail(&self) -> String {
        let end = self.written() as usize;
        let bytes: Vec<u8> = (end.saturating_sub(KEPT)..end)
            // SAFETY: within the ring; the writer has ended, or a line more or less does not matter.
            .map(|n| unsafe { self.ring().add(n % KEPT).read_volatile() })
            .collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let start = self.written() as usize;
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: within the ring, of which this is the only writer.
            unsafe { self.ring().add((start + n) % KEPT).write_volatile(*byte) };
        }
        // SAFETY: mapped for ever, and only used as an atomic.
        unsafe { (*self.written).store((start + bytes.len()) as u64, Ordering::Release) };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In the worker's process: does the work.
pub(crate) fn work(log: i32, options: &Options, work: Work) -> Result<(), BoxError> {
    // SAFETY: inherited for this, and owned here alone.
    let file = unsafe { OwnedFd::from_raw_fd(log) };
    work(options, Log::map(&file)?)
}

/// Starts the worker's process and watches it to its end.
pub(crate) fn over(name: &str, options: &Options) -> Result<(), BoxError> {
    // Without close-on-exec, for the process to inherit.
    // SAFETY: makes a descriptor, which is then owned once.
    let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"log".as_ptr(), 0)) };
    let file = File::from(file);
    file.set_len(KEPT as u64 + 8)?;
    let file = OwnedFd::from(file);
    let log = Log::map(&file)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(name)
        .args(["--log", &file.as_raw_fd().to_string()]);
    command.args(["--seed", &options.seed.to_string()]);
    match options.rounds {
        Some(rounds) => command.args(["--rounds", &rounds.to_string()]),
        None => command.args(["--seconds", &options.duration().to_string()]),
    };
    let mut child = command.spawn()?;
    // SAFETY: makes a descriptor of a child that has not been reaped.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if pidfd < 0 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: new, and owned here alone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as i32) };
    let mut seen = log.written();
    let stuck = loop {
        let mut end = libc::pollfd {
            fd: pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure, as said.
        let ended = unsafe { libc::poll(&mut end, 1, EXIT_TIMEOUT_MS) };
        let now = log.written();
        if ended > 0 || ended == 0 && now == seen {
            break ended == 0;
        }
        seen = now;
    };
    if stuck {
        child.kill()?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    eprintln!("the last calls:\n{}", log.tail());
    let why = if stuck {
        format!("the worker stood still for {} s", EXIT_TIMEOUT_MS / 1000)
    } else {
        format!("the worker's process: {status}")
    };
    let seed = options.seed;
    Err(format!("{why}; again: vink-stress {name} --seed {seed}").into())
}
