//! What happened in a run of a lab, written down: to be repeated, compared, and shown by other
//! programs.
//!
//! # Theory of operation
//!
//! A run is a sequence of [`Record`]s: packets at interfaces, system calls of programs, and what
//! became of the programs. The worker gives them to a [`Writer`], which puts them into a *journal*
//! (`journal`) and into a *digest* (`digest`): two runs are the same if their digests are. A
//! [`Manifest`] beside the journal says what was run, by hashes, and what came of it.
//!
//! Packets and calls have one order, that in which they happened, and their times count. What a
//! program has written and how it has ended is told by the worker when it looks, which it does at
//! moments of its own: each program has a *strand* of its own, without times, so that nothing of
//! when it looked gets into the digest. So has what breakpoints do.
//!
//! [`first_difference`] finds where two journals part; [`perfetto`] and [`pcapng`] show one to
//! other programs.
//!
//! An [`Index`] beside a journal finds any moment of the run, and a [`History`] tells of it.
//!
//! Nothing here knows of kernels or labs; docs/replay.md has the formats.

mod behaviour;
mod bytes;
mod difference;
mod digest;
mod history;
mod index;
mod journal;
mod look;
mod manifest;
mod packet_file;
mod pcapng;
mod perfetto;
mod protobuf;
mod record;
mod stop;
mod summary;

pub use behaviour::{first_difference_in_behaviour, Parting};
pub use difference::{first_difference, first_difference_before, Difference, Side};
pub use digest::{Digest, Hash};
pub use history::{Count, Flight, History, Numbered, Parts, Snapshot, Timeline};
pub use index::{index_of, kind, Bin, Counters, Index, Keyframe, Ran, UnderWay, KINDS, MARKS};
pub use journal::{Mark, Reader, Tail, Writer};
pub use look::{look, Look, CLASSES};
pub use manifest::{hash_file, Executed, Manifest, Parent, Totals, What, FORMAT};
pub use packet_file::{FilePacket, PacketFile};
pub use pcapng::pcapng;
pub use perfetto::perfetto;
pub use record::{Event, LostBy, PacketOutcome, Part, Record, Request, Typed, BREAKPOINTS};
pub use stop::{Stop, Stopping};
pub use summary::summary;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host refused.
    #[error("{what}: {error}")]
    Host {
        /// What was tried.
        what: String,
        /// What it said.
        error: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{what}: {why}")]
    Format {
        /// Which file.
        what: String,
        /// What was found, and what to do.
        why: String,
    },
}

impl Error {
    pub(crate) fn host(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        |error| Error::Host { what, error }
    }
}
