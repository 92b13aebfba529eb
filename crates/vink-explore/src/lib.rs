//! Searches the orders of events of a lab: every packet's fate is a choice, and what must hold is
//! checked in every run.
//!
//! # Theory of operation
//!
//! A lab whose programs are all virtualized processes, on one worker, with a virtual clock and
//! nothing outside, is all inside one process: the kernel's memory, the apps' stacks and heaps. So
//! a copy of the process is a copy of the lab. `lab` refuses any other one, and makes it as a lab
//! worker would.
//!
//! `run` drives it: the kernel works until all machines wait, then its clock goes to the next
//! timer. Each packet that an interface sends is asked about where breakpoints are, and there a
//! schedule ([`Deviation`]) decides. Properties ([`properties`]) look on.
//!
//! `search` tries all schedules of up to so many deviations, by an `engine`. At each packet the process forks, in
//! the middle of the kernel's question, for each fate that the packet may have; the child goes on
//! with that answer to the end of its run, while its parent waits, and then lets the packet pass. A
//! schedule so costs what comes behind its last deviation. Each processor has a process that goes
//! along the run without faults; whichever comes to a first deviation first takes it.
//!
//! Programs of the host can't be copied. A lab that has some waits at its begin, and each run is a fork of that in
//! which a worker serves them (`stack`, `trapped`), from the beginning on (`engine::rerun`).
//!
//! `against` runs the same schedules on another image, or of another lab, and compares what both answer.
//!
//! What a child finds it writes into a pipe, in one piece. `shrink` tries to do with less of a
//! schedule that breaks a property, and `story` writes down what is left: for users, as a lab file,
//! for packetdrill, for Wireshark.

pub mod against;
mod calls;
mod coverage;
mod cursor;
mod ends;
mod engine;
mod error;
mod fate;
mod fields;
mod forks;
mod happened;
mod lab;
mod lab_file;
mod linear;
mod manifest;
mod options;
mod packet;
mod packetdrill;
mod pcapng;
pub mod properties;
mod recording;
mod refusal;
mod run;
mod runner;
mod saved;
mod search;
mod shrink;
mod stack;
mod story;
mod trapped;
mod world;

pub use coverage::{Coverage, CoverageReport, Edge, FileCoverage, State, FIGURE, RESETS};
pub use engine::copier::CopierKind;
pub use error::Error;

pub use fate::{Deviation, Fate, Schedule, BEHIND_LIMIT};
pub use happened::{happened, Happened, What};
pub use lab::{Surroundings, BEGIN};
pub use lab_file::with_breakpoints;
pub use manifest::{Manifest, OtherImage, OtherLab, MANIFEST};
pub use options::{blocks, options};
pub use packet::{behind, is_searched, segment, Packet, Point, Segment, SEARCHED};
pub use packetdrill::script;
pub use pcapng::pcapng;
pub use properties::{Check, Property, Violation};
pub use recording::{RecordedCall, RecordedPacket, Recording};
pub use refusal::refusals;
pub use run::{Limits, Outcome};
pub use runner::Runner;
pub use search::{search, Found, Progress, Searched, Wanted};
pub use story::{said, Story};
pub use world::{AppCall, End, Ended, Ending, Fault, Moves, Program, World, Written};
