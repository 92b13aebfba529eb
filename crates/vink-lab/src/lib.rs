//! Machines, wires and programs of one worker.

mod address;
mod admin;
mod dump;
mod error;
mod files;
mod journal;
mod machine;
mod message;
mod redirect;
mod route;
mod samples;
mod speed;
mod uplink;
pub mod worker;

pub use address::Network;
pub use admin::Admin;
pub use error::Error;
pub use journal::Journal;
pub use machine::{wire, End, Machine};
pub use samples::{Recorders, Recording, Sample, Samples};
pub use speed::Speed;
pub use uplink::{
    shared, Backstage, Forward, Half, Line, Outside, OutsideEnd, Passt, Route, State, HELPER,
};
