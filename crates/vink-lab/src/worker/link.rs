//! A lab worker as a child process, and the conversation with it, for whoever may wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use vink_kernel::Clock;

use super::channel::Channel;
use super::protocol::{Message, Request};
use super::Config;

/// A worker that this process has started. It ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    process: Child,
    channel: Channel,
}

impl Link {
    /// Starts `vink lab-worker` of this binary. Its standard error output is the caller's.
    ///
    /// # Errors
    /// As socketpair(2), fork(2), execve(2).
    pub fn spawn(vink: &Path, config: &Config) -> io::Result<Link> {
        Link::spawn_by(Command::new(vink), config)
    }

    /// The same with a command that the caller has prepared, to be run as another user, say.
    ///
    /// # Errors
    /// As [`Link::spawn`].
    pub fn spawn_by(mut command: Command, config: &Config) -> io::Result<Link> {
        let (socket, its) = UnixStream::pair()?;
        let number = its.as_raw_fd();
        command.arg("lab-worker");
        command.args(["--socket", &number.to_string()]);
        command.arg("--image").arg(&config.image);
        command.args(["--memory", &config.memory.to_string()]);
        command.args(["--cmdline", &config.cmdline]);
        if let Some(seed) = config.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        if config.clock == Clock::Virtual {
            command.arg("--virtual-time");
            let call = config.call.as_nanos().to_string();
            command.args(["--call", &call]);
            if config.rdtsc {
                command.arg("--rdtsc");
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: one system call without memory, between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        };
        let process = command.spawn()?;
        let channel = Channel::new(socket);
        Ok(Link { process, channel })
    }

    /// Sends a request with the descriptors that belong to it, and waits until it has gone.
    ///
    /// # Errors
    /// As sendmsg(2): [`io::ErrorKind::BrokenPipe`] if the worker has ended.
    pub fn send(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.channel.send_now(request, descriptors)
    }

    /// Waits for what the worker says next; `None` when it has ended.
    ///
    /// # Errors
    /// As recvmsg(2); [`io::ErrorKind::InvalidData`]: it is not of the protocol.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.channel.next()? {
                return Ok(Some(message));
            }
            match self.channel.receive() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }

    /// The socket, to be looked at, closed for one direction, or written to by those who know what they do.
    pub fn socket(&self) -> &UnixStream {
        self.channel.socket()
    }

    /// The worker's process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.process
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.channel.socket().shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}
