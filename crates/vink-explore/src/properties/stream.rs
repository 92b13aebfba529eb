//! A TCP stream is what was sent, in order, and ends once (P1).
//!
//! Apps' own calls are compared: what one end has given to its socket with what the other has from
//! it. Either may be ahead: a receiver has bytes before the sender's call returns. An end that has a
//! TCP of its own makes no such calls, so its streams are not compared.
//!
//! Nor are they when one connection of a client's is accepted twice. That is so where the first one is
//! reset before the client knows that there was any: the data of its SYN may be delivered twice
//! (RFC 7413, 2.1), and what was sent in answer is gone.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{AppCall, Moves, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Stream {
    /// By the sender's address and the receiver's.
    flows: ByEnds<Flow>,
    /// How often a connection has been accepted, by its server's address and its client's.
    accepted: ByEnds<u32>,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// What was sent and not compared yet, or received and not compared yet.
    sent: Vec<u8>,
    received: Vec<u8>,
    /// How many bytes have been compared.
    same: u64,
    /// The sender has ended it.
    closed: bool,
    /// The receiver has found its end.
    ended: bool,
}

impl Flow {
    /// Compares as far as both are known; what is wrong.
    fn compare(&mut self) -> Option<String> {
        let known = self.sent.len().min(self.received.len());
        let both = self.sent.iter().zip(&self.received);
        if let Some(at) = both.take(known).position(|(one, other)| one != other) {
            return Some(format!(
                "byte {} of the stream is {:#04x}; {:#04x} was sent",
                self.same + at as u64,
                self.received[at],
                self.sent[at]
            ));
        }
        self.sent.drain(..known);
        self.received.drain(..known);
        self.same += known as u64;
        None
    }
}

impl Property for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn says(&self) -> &'static str {
        "The bytes of a stream come as they were sent, in order, and end once (RFC 9293, 3.10.7.4)."
    }

    fn call(&mut self, world: &World, call: &AppCall<'_>) -> Check {
        let Some((local, remote)) = call.ends.filter(|ends| !world.is_foreign(ends.1.ip())) else {
            return Ok(());
        };
        // The same ends again: another connection.
        let is_over = |flow: &Flow| flow.closed;
        if call.nr == libc::SYS_connect && self.flows.get(&(local, remote)).is_some_and(is_over) {
            self.flows.remove(&(local, remote));
            self.flows.remove(&(remote, local));
            self.accepted.remove(&(remote, local));
        }
        if let libc::SYS_accept | libc::SYS_accept4 = call.nr {
            *self.accepted.entry((local, remote)).or_default() += 1;
        }
        let both = [(local, remote), (remote, local)];
        let is_twice = both
            .iter()
            .any(|ends| self.accepted.get(ends).is_some_and(|times| *times > 1));
        let machine = world.programs[call.program].machine.as_str();
        let wrong = match call.moves {
            Moves::Sent | Moves::Received if is_twice => None,
            Moves::Nothing => None,
            Moves::Sent => {
                let flow = self.flows.entry((local, remote)).or_default();
                flow.sent.extend(call.data);
                flow.compare()
            }
            Moves::Closes => {
                self.flows.entry((local, remote)).or_default().closed = true;
                None
            }
            Moves::Received => {
                let flow = self.flows.entry((remote, local)).or_default();
                flow.received.extend(call.data);
                match call.data.is_empty() {
                    _ if flow.ended && !call.data.is_empty() => {
                        Some("bytes came behind its end".to_owned())
                    }
                    true => {
                        flow.ended = true;
                        let missing = flow.sent.len();
                        (missing > 0)
                            .then(|| format!("it ended {missing} bytes before what was sent"))
                            .or_else(|| {
                                (!flow.closed).then(|| {
                                    "it ended though the sender had not closed it".to_owned()
                                })
                            })
                    }
                    false => flow.compare(),
                }
            }
        };
        match wrong {
            None => Ok(()),
            Some(wrong) => {
                let what = format!("The stream from {remote} to {local}: {wrong}.");
                Err(self.broken(world, machine, what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Program;

    /// Both ends' calls: the end, the call, what it does, and with which bytes.
    type Call<'a> = (bool, i64, Moves, &'a [u8]);

    const ACCEPT: Call<'_> = (false, libc::SYS_accept4, Moves::Nothing, b"");
    const CONNECT: Call<'_> = (true, libc::SYS_connect, Moves::Nothing, b"");
    const ANSWER: Call<'_> = (false, libc::SYS_sendto, Moves::Sent, b"answer");
    const CLOSE: Call<'_> = (false, libc::SYS_close, Moves::Closes, b"");
    const READ: Call<'_> = (true, libc::SYS_recvfrom, Moves::Received, b"answer");
    const END: Call<'_> = (true, libc::SYS_recvfrom, Moves::Received, b"");

    /// Whether the streams of a connection are as they are to be.
    fn is_good(calls: &[Call<'_>]) -> bool {
        let client: SocketAddr = "10.0.0.1:9".parse().unwrap();
        let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
        let mut world = World::of_ends(&["client"]);
        world.programs.push(Program {
            machine: "client".to_owned(),
            name: "p".to_owned(),
            words: Vec::new(),
            output: String::new(),
            ended: None,
        });
        let mut property = Stream::default();
        calls.iter().all(|(is_client, nr, moves, data)| {
            let call = AppCall {
                time: 0,
                program: 0,
                nr: *nr,
                args: [0; 6],
                result: data.len() as i64,
                ends: Some(match is_client {
                    true => (client, server),
                    false => (server, client),
                }),
                data,
                moves: *moves,
            };
            property.call(&world, &call).is_ok()
        })
    }

    #[test]
    fn a_stream_ends_when_all_has_come() {
        assert!(is_good(&[CONNECT, ACCEPT, ANSWER, CLOSE, READ, END]));
        assert!(!is_good(&[CONNECT, ACCEPT, ANSWER, CLOSE, END]));
        assert!(!is_good(&[CONNECT, ACCEPT, ANSWER, READ, END]));
    }

    #[test]
    fn a_connection_that_is_accepted_twice_is_not_compared() {
        let twice = [ACCEPT, ANSWER, CLOSE, ACCEPT, ANSWER, CLOSE, READ, END];
        assert!(is_good(&twice));
        // But the next one of the same ends is.
        let closes = (true, libc::SYS_close, Moves::Closes, &b""[..]);
        let next = [closes, CONNECT, ACCEPT, ANSWER, CLOSE, END];
        assert!(!is_good(&[&twice[..], &next].concat()));
    }
}
