//! A process at a wire without an image.
//!
//! A wire can lead to another process, by two rings in memory that both share ([`Half`], [`Line`]).
//! Here is what such a process needs that has no kernel: an end of its own ([`End`]), the place
//! where two processes meet ([`Rendezvous`], [`Broker`]), the host's sides of uplinks (each a
//! [`Backend`]), and the loop between an end and a backend ([`Driver`]).

mod backend;
mod batch;
mod bpf;
mod broker;
mod driver;
mod end;
mod error;
mod half;
mod hello;
mod host_tap;
mod line;
mod monitor;
mod packet;
mod poll;
mod process;
mod qemu;
mod qemu_dgram;
mod rendezvous;
mod sealed;
mod segment;
mod share;
mod stream;
pub mod tun;
mod udp;
mod xdp;

pub use backend::{Backend, Deliver, LinkState, Offloads, Stop, HEADER, LARGEST};
pub use broker::Broker;
pub use driver::{Counts, Driver};
pub use end::{End, Taken, LARGEST_SHARED};
pub use error::Error;
pub use half::{halves, Half};
pub use host_tap::HostTap;
pub use line::{Direction, Line, PeerState, SIZE};
pub use packet::PacketBackend;
pub use poll::{Poll, Timer, INPUT, ROOM};
pub use process::{is_ready, said_with, Backoff, DriverProcess, HostEnds, Launch, READY};
pub use qemu::{failure, take, QemuBackend};
pub use qemu_dgram::QemuDgramBackend;
pub use rendezvous::Rendezvous;
pub use sealed::{Keys, SealedBackend, KEY};
pub use segment::complete;
pub use share::{Asked, Ephemeral, Grant, PortAsker, PortServer, ShareBackend, ShareRequest};
pub use stream::{Gone, Stream};
pub use udp::UdpBackend;
pub use xdp::XdpBackend;
