//! The port server: a process that reserves ports of the host when it is asked, and gives them up.
//!
//! It has what that takes: the right to change the host's rules, and to bind low ports, if the process
//! before it had that. So it sees no packets, and what it reads is three numbers at a time. It ends with
//! the process that asks.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::{recv, send, RecvFlags, SendFlags};

use super::demand::{Request, Verb, ANSWER, REQUEST};
use super::guard::Protocol;
use super::ports::Reserved;
use super::receive::filter_by;
use super::rules::Rules;

/// Ports that are had on demand at the same time.
const MOST: usize = 256;

/// Reserves ports for the process at the other end of its socket.
pub struct PortServer {
    channel: OwnedFd,
    reserved: Reserved,
    rules: Rules,
    /// One for each of the addresses.
    receivers: Vec<OwnedFd>,
    demanded: HashSet<(Protocol, u16)>,
}

impl PortServer {
    /// Beside those of `reserved`, which are not given up.
    pub(super) fn new(
        channel: OwnedFd,
        reserved: Reserved,
        rules: Rules,
        receivers: Vec<OwnedFd>,
    ) -> PortServer {
        PortServer {
            channel,
            reserved,
            rules,
            receivers,
            demanded: HashSet::new(),
        }
    }

    /// Answers until the other process has ended. It says first that it is there.
    pub fn run(mut self) {
        if send(&self.channel, &[0; ANSWER], SendFlags::NOSIGNAL).is_err() {
            return;
        }
        loop {
            let mut bytes = [0; REQUEST];
            match recv(&self.channel, &mut bytes, RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                Ok((REQUEST, _)) => {}
                // It has ended, or is no more what it was.
                _ => return,
            }
            let done = match Request::read(bytes) {
                Some(request) => self.serve(request),
                None => Err(libc::EINVAL),
            };
            let answer = Request::answer(bytes, done);
            if send(&self.channel, &answer, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    }

    /// Does what is asked, or answers why not, as bind(2) has it.
    fn serve(&mut self, request: Request) -> Result<(), i32> {
        let (protocol, port) = (request.protocol, request.port);
        match request.verb {
            Verb::Reserve if self.reserved.of(protocol).has(port) => Ok(()),
            Verb::Reserve if self.demanded.len() == MOST => Err(libc::ENOBUFS),
            Verb::Reserve => {
                let reserved = self.reserved.reserve(port, &[protocol]);
                reserved.map_err(|(_, error)| number(&error))?;
                self.demanded.insert((protocol, port));
                let taken = self.rules.change(protocol, port, true);
                let taken = taken.and_then(|()| self.filter());
                taken.map_err(|error| {
                    self.release(protocol, port);
                    number(&error)
                })
            }
            Verb::Release => {
                if self.demanded.contains(&(protocol, port)) {
                    self.release(protocol, port);
                }
                Ok(())
            }
            Verb::ReleaseAll => {
                for (protocol, port) in self.demanded.clone() {
                    self.release(protocol, port);
                }
                Ok(())
            }
        }
    }

    /// Has the sockets receive for the ports that there are.
    fn filter(&self) -> io::Result<()> {
        let addresses: &[IpAddr] = self.reserved.addresses();
        for (receiver, address) in self.receivers.iter().zip(addresses) {
            filter_by(receiver, *address, &self.reserved)?;
        }
        Ok(())
    }

    /// Gives a port up, at last to programs of the host.
    fn release(&mut self, protocol: Protocol, port: u16) {
        self.demanded.remove(&(protocol, port));
        // That it was not there is as good.
        let _ = self.rules.change(protocol, port, false);
        self.reserved.release(port, protocol);
        // Else packets come that the other process passes on to no one.
        let _ = self.filter();
    }
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
