//! A TCP stream is what was sent, in order, and ends once (P1).
//!
//! Apps' own calls are compared: what one end has given to its socket with what the other has from
//! it. Either may be ahead: a receiver has bytes before the sender's call returns. An end that has a
//! TCP of its own makes no such calls, so its streams are not compared.

use super::{Check, Property};
use crate::ends::ByEnds;
use crate::{AppCall, Moves, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Stream {
    /// By the sender's address and the receiver's.
    flows: ByEnds<Flow>,
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
        }
        let machine = world.programs[call.program].machine.as_str();
        let wrong = match call.moves {
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
