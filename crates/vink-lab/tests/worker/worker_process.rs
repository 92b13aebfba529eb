//! A lab worker as a child process, and the client's side of its protocol.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use vink_protocol::{Channel, Message, Request, WorkerConfig};
use vink_sys::child::{prepare, Step};

/// A worker that this process has started. It ends when this is dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    process: Child,
    channel: Channel,
}

impl WorkerProcess {
    /// Starts a worker by a prepared command, to be run as another user, say.
    pub fn spawn(mut command: Command, config: &WorkerConfig) -> io::Result<WorkerProcess> {
        let (socket, its) = UnixStream::pair()?;
        let number = its.as_raw_fd();
        command.arg(number.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        prepare(&mut command, [Step::Keep(number)]);
        let process = command.spawn()?;
        let mut channel = Channel::new(socket);
        channel.send_now(config, &[])?;
        Ok(WorkerProcess { process, channel })
    }

    /// Sends a request with the descriptors that belong to it, and waits until it has gone.
    pub fn send(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.channel.send_now(request, descriptors)
    }

    /// Waits for what the worker says next; `None` when it has ended.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.channel.next_message()? {
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

    /// The socket, to be closed for one direction, or written to.
    pub fn socket(&self) -> &UnixStream {
        self.channel.socket()
    }

    /// The worker's process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.process
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.channel.socket().shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}
