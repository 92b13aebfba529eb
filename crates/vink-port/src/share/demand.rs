//! Ports on demand: what the process with the stack asks for, the driver process passes on to the port
//! server (`server`), and the answers.
//!
//! A request is a verb, a protocol and a port. Its answer has the same, and an error number. Both go
//! over sockets that keep messages apart. The driver process also says by itself that it is there: it
//! has no ports on demand then, and the process with the stack asks for those that are bound once more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use vink_sys::poll::is_readable;
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::{recv, send, RecvFlags, SendFlags};

use super::guard::{Guard, Protocol};
use crate::poll::Poll;

/// Bytes of a request, and of its answer.
pub(super) const REQUEST: usize = 4;
pub(super) const ANSWER: usize = 8;

/// Requests that are served in a row.
const BUDGET: usize = 64;
/// How long the port server may take for one, in ms.
const SERVER_MS: i32 = 1000;
/// How long the process with the stack waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Reserve,
    Release,
    /// All that was had on demand; protocol and port mean nothing.
    ReleaseAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
}

impl Request {
    /// `None`: it is malformed.
    pub(super) fn read([verb, protocol, high, low]: [u8; REQUEST]) -> Option<Request> {
        let verb = match verb {
            b'+' => Verb::Reserve,
            b'-' => Verb::Release,
            b'0' => Verb::ReleaseAll,
            _ => return None,
        };
        let port = u16::from_be_bytes([high, low]);
        (port > 0).then_some(Request {
            verb,
            protocol: Protocol::of(protocol)?,
            port,
        })
    }

    fn bytes(self) -> [u8; REQUEST] {
        let verb = match self.verb {
            Verb::Reserve => b'+',
            Verb::Release => b'-',
            Verb::ReleaseAll => b'0',
        };
        let [high, low] = self.port.to_be_bytes();
        [verb, self.protocol.number(), high, low]
    }

    /// The answer to a request of these bytes.
    pub(super) fn answer(bytes: [u8; REQUEST], done: Result<(), i32>) -> [u8; ANSWER] {
        let mut answer = [0; ANSWER];
        let (request, error) = answer.split_at_mut(REQUEST);
        request.copy_from_slice(&bytes);
        error.copy_from_slice(&done.err().unwrap_or(0).to_ne_bytes());
        answer
    }
}

/// An answer: what was asked, and the error number or 0.
fn read(answer: [u8; ANSWER]) -> ([u8; REQUEST], i32) {
    let [a, b, c, d, e, f, g, h] = answer;
    ([a, b, c, d], i32::from_ne_bytes([e, f, g, h]))
}

/// One message of exactly so many bytes; `None`: none is there. An error: none will be.
fn next<const N: usize>(socket: &OwnedFd) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    loop {
        return match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(None),
            Ok((got, _)) if got == N => Ok(Some(bytes)),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error.into()),
        };
    }
}

/// The driver's side.
pub(super) struct Demand {
    /// To the process with the stack, and to the port server.
    stack: OwnedFd,
    server: OwnedFd,
    /// What the server holds.
    held: Vec<Request>,
    /// The server has ended.
    over: bool,
}

impl Demand {
    /// Says to the process with the stack that it is there.
    pub(super) fn new(stack: OwnedFd, server: OwnedFd) -> io::Result<Demand> {
        // If it has no room for that, it has not read what was said before either.
        let _ = send(
            &stack,
            &[0; ANSWER],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
        Ok(Demand {
            stack,
            server,
            held: Vec::new(),
            over: false,
        })
    }

    /// Waits until the server says that it is there; false: it has ended.
    pub(super) fn awaits_server(&self) -> bool {
        is_readable(&self.server, -1) && matches!(next::<ANSWER>(&self.server), Ok(Some(_)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Serves what the process with the stack asks.
    pub(super) fn serve(&mut self, guard: &mut Guard, poll: &Poll) {
        // It says nothing by itself, but that it is there.
        while !self.over {
            match next::<ANSWER>(&self.server) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => self.over = true,
            }
        }
        for _ in 0..BUDGET {
            let bytes = match next::<REQUEST>(&self.stack) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return,
                Err(_) => {
                    // No process will ask any more; it would always be readable.
                    let _ = poll.remove(&self.stack);
                    return;
                }
            };
            let done = match Request::read(bytes) {
                Some(request) => self.pass_on(request, guard),
                None => Err(libc::EINVAL),
            };
            let answer = Request::answer(bytes, done);
            // A stack that has no room for answers does not read them.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(&self.stack, &answer, flags);
        }
    }

    fn pass_on(&mut self, request: Request, guard: &mut Guard) -> Result<(), i32> {
        let (protocol, port) = (request.protocol, request.port);
        let same = |held: &Request| (held.protocol, held.port) == (protocol, port);
        match request.verb {
            // From the start, or it has been asked for before.
            Verb::Reserve if guard.has(protocol, port) => return Ok(()),
            Verb::Release if !self.held.iter().any(same) => return Ok(()),
            // No more passes from here on.
            Verb::Release => {
                self.held.retain(|held| !same(held));
                guard.set(protocol, port, false);
            }
            Verb::ReleaseAll => {
                for held in self.held.drain(..) {
                    guard.set(held.protocol, held.port, false);
                }
            }
            Verb::Reserve => {}
        }
        self.ask_server(request)?;
        if request.verb == Verb::Reserve {
            self.held.push(request);
            guard.set(protocol, port, true);
        }
        Ok(())
    }

    fn ask_server(&mut self, request: Request) -> Result<(), i32> {
        let bytes = request.bytes();
        let ask = || {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            send(&self.server, &bytes, flags).ok()?;
            is_readable(&self.server, SERVER_MS).then_some(())?;
            next::<ANSWER>(&self.server).ok().flatten().map(read)
        };
        match ask() {
            Some((about, 0)) if about == bytes => Ok(()),
            Some((about, error)) if about == bytes => Err(error),
            _ => {
                self.over = true;
                Err(libc::ENETDOWN)
            }
        }
    }
}

/// Asks a driver process for ports, on behalf of a stack.
pub struct PortAsker(OwnedFd);

/// What the driver process has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is another one than before, and has none of the ports.
    Anew,
    /// It has reserved the port, which was not waited for: UDP or TCP, and the number.
    Late(bool, u16),
    /// It has answered.
    Other,
}

impl PortAsker {
    /// By the other end of the driver's socket. What was had before is given up.
    pub fn new(socket: OwnedFd) -> PortAsker {
        let asker = PortAsker(socket);
        asker.say(Verb::ReleaseAll, false, 1);
        asker
    }

    fn say(&self, verb: Verb, udp: bool, port: u16) -> Option<[u8; REQUEST]> {
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        let request = Request {
            verb,
            protocol,
            port,
        };
        let bytes = request.bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.0, &bytes, flags).ok()?;
        Some(bytes)
    }

    /// Asks for a port, and waits for the answer, for a second at most. `said` is told what else the
    /// driver says meanwhile.
    ///
    /// # Errors
    /// The error number of bind(2) on the host; `ENOBUFS`: there are too many; `ENETDOWN`: the driver
    /// does not answer.
    pub fn reserve(&self, udp: bool, port: u16, mut said: impl FnMut(Asked)) -> Result<(), i32> {
        let bytes = self.say(Verb::Reserve, udp, port).ok_or(libc::ENETDOWN)?;
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match next::<ANSWER>(&self.0).map(|answer| answer.map(read)) {
                Ok(Some((about, 0))) if about == bytes => return Ok(()),
                Ok(Some((about, error))) if about == bytes => return Err(error),
                Ok(Some(other)) => said(meaning(other)),
                Ok(None) => {
                    let left = until.saturating_duration_since(Instant::now());
                    // Rounded up, so that it does not spin at the end.
                    let ms = left.as_micros().div_ceil(1000) as i32;
                    if !is_readable(&self.0, ms) && left.is_zero() {
                        return Err(libc::ENETDOWN);
                    }
                }
                Err(_) => return Err(libc::ENETDOWN),
            }
        }
    }

    /// Gives a port up.
    pub fn release(&self, udp: bool, port: u16) {
        self.say(Verb::Release, udp, port);
    }

    /// What the driver has said; `None`: nothing more.
    pub fn heard(&self) -> Option<Asked> {
        let answer = next::<ANSWER>(&self.0).ok().flatten()?;
        Some(meaning(read(answer)))
    }
}

/// Readable when the driver has said something.
impl AsFd for PortAsker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn meaning((about, error): ([u8; REQUEST], i32)) -> Asked {
    match (about, Request::read(about)) {
        ([0, 0, 0, 0], _) => Asked::Anew,
        (_, Some(request)) if error == 0 && request.verb == Verb::Reserve => {
            Asked::Late(request.protocol == Protocol::Udp, request.port)
        }
        _ => Asked::Other,
    }
}
