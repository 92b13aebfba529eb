//! How a driver process is started: `vink driver`, by the process that has the wire or by one that
//! starts both.

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use vink_sys::child::{prepare, Step};
use vink_sys::fd::pipe;
use vink_sys::socket::seqpacket_pair;

/// What it writes to its standard output once it has opened what it leads to, and given up its
/// rights.
pub const READY: &str = "ready";

/// The pauses before a driver is started again: none at first, and 5 s at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);
    /// One that has run for so long has nothing to do with those before it.
    const LONG: Duration = Duration::from_secs(10);

    /// The pause after one that has run for so long.
    pub fn after(&mut self, ran: Duration) -> Duration {
        if ran >= Backoff::LONG {
            *self = Backoff::default();
        }
        let pause = match self.0 {
            0 => Duration::ZERO,
            n => (Backoff::FIRST * 2_u32.pow((n - 1).min(16))).min(Backoff::LONGEST),
        };
        self.0 += 1;
        pause
    }
}

/// What a driver is started with: the socket by which it asks for its end of the wire
/// ([`Rendezvous::asker`](crate::Rendezvous::asker)), that by which it is asked for ports, and a pipe
/// whose end is its own. Those that are started one after the other are started with the same.
#[derive(Debug)]
pub struct Launch {
    socket: OwnedFd,
    ports: Option<OwnedFd>,
    reads: OwnedFd,
    _writes: OwnedFd,
}

/// The ends of a driver's sockets that the process with the wire has.
#[derive(Debug)]
pub struct HostEnds {
    /// For [`Rendezvous::host`](crate::Rendezvous::host).
    pub wire: OwnedFd,
    /// For [`PortAsker`](crate::PortAsker), if there are ports on demand.
    pub ports: Option<OwnedFd>,
}

impl HostEnds {
    /// The same for another process.
    ///
    /// # Errors
    /// The host is out of descriptors.
    pub fn try_clone(&self) -> io::Result<HostEnds> {
        Ok(HostEnds {
            wire: self.wire.try_clone()?,
            ports: self.ports.as_ref().map(OwnedFd::try_clone).transpose()?,
        })
    }
}

impl Launch {
    /// Makes it, and the sockets' other ends. All that were started end when this is dropped, and when
    /// this process ends.
    ///
    /// # Errors
    /// As pipe2(2) and socketpair(2).
    pub fn new(on_demand: bool) -> io::Result<(Launch, HostEnds)> {
        let (host, socket) = UnixStream::pair()?;
        let (reads, writes) = pipe()?;
        let (ours, its) = match on_demand {
            true => {
                let (ours, its) = seqpacket_pair()?;
                (Some(ours), Some(its))
            }
            false => (None, None),
        };
        let launch = Launch {
            socket: socket.into(),
            ports: its,
            reads,
            _writes: writes,
        };
        let ends = HostEnds {
            wire: host.into(),
            ports: ours,
        };
        Ok((launch, ends))
    }

    /// The command that starts one: `vink driver` with these words, [`READY`] in its standard
    /// output.
    pub fn command(&self, executable: &Path, words: &[String]) -> Command {
        let [socket, lifeline] = [&self.socket, &self.reads].map(|fd| fd.as_fd().as_raw_fd());
        let mut command = Command::new(executable);
        command
            .arg("driver")
            .args(words)
            .args(["--socket", &socket.to_string()])
            .args(["--lifeline", &lifeline.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut ports = socket;
        if let Some(fd) = &self.ports {
            ports = fd.as_fd().as_raw_fd();
            command.args(["--demand", &ports.to_string()]);
        }
        let steps = [
            Step::Session,
            Step::UnblockAll,
            Step::CloseOthers,
            Step::Keep(socket),
            Step::Keep(ports),
            Step::Keep(lifeline),
        ];
        prepare(&mut command, steps);
        command
    }
}

/// Waits until a driver says that it is ready, and what else it says with it; `None` if it has ended
/// before.
pub fn is_ready(output: ChildStdout) -> Option<String> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).ok()?;
    said_with(&line)
}

/// What a driver's line says with the word [`READY`]; `None` if it does not say that.
pub fn said_with(line: &str) -> Option<String> {
    let rest = line.trim_end().strip_prefix(READY)?;
    Some(rest.trim_start().to_owned())
}

/// A driver that is not started again; ended and waited for when dropped.
#[derive(Debug)]
pub struct DriverProcess {
    child: Child,
    launch: Option<Launch>,
}

impl DriverProcess {
    /// Starts it, and waits until it is ready; the sockets' other ends, and what it said with that. What
    /// is wrong it says itself on this process's standard error.
    ///
    /// # Errors
    /// As fork(2) and execve(2); `Other`: it has ended.
    pub fn start(
        executable: &Path,
        words: &[String],
        on_demand: bool,
    ) -> io::Result<(DriverProcess, HostEnds, String)> {
        let (launch, host) = Launch::new(on_demand)?;
        let mut child = launch.command(executable, words).spawn()?;
        let Some(said) = child.stdout.take().and_then(is_ready) else {
            let status = child.wait()?;
            return Err(io::Error::other(format!("it has ended ({status})")));
        };
        let process = DriverProcess {
            child,
            launch: Some(launch),
        };
        Ok((process, host, said))
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        // It ends by itself, and takes away what it has made.
        drop(self.launch.take());
        if !ends(self.child.id()) {
            // That it has ended meanwhile is as good.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Whether a child ends within a second.
fn ends(pid: u32) -> bool {
    let pidfd = vink_sys::pidfd::open(pid as i32);
    pidfd.is_ok_and(|pidfd| vink_sys::poll::is_readable(&pidfd, 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses() {
        let mut backoff = Backoff::default();
        let (short, long) = (Duration::from_millis(3), Duration::from_secs(11));
        let ms = [(); 4].map(|()| backoff.after(short).as_millis());
        assert_eq!(ms, [0, 50, 100, 200]);
        for _ in 0..100 {
            assert!(backoff.after(short) <= Backoff::LONGEST);
        }
        assert_eq!(backoff.after(short), Backoff::LONGEST);
        assert_eq!(backoff.after(long), Duration::ZERO);
    }
}
