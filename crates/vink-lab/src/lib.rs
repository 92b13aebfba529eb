//! Machines, wires and programs of one worker.

mod address;
mod calls;
mod dump;
mod error;
mod files;
mod journal;
pub mod loader;
mod machine;
mod network_config;
mod numbers;
mod redirect;
mod rights;
mod route;
mod socket_probe;
mod speed;
mod uplink;
pub mod worker;

pub use address::Network;
pub use calls::CallsSetup;
pub use error::Error;
pub use journal::Journal;
pub use machine::{wire, End, Machine};
pub use network_config::NetworkConfig;
pub use numbers::{field, first_number, report_of, Numbered, Snapshot};
pub use rights::credentials;
pub use route::StaticRoute;
pub use socket_probe::{Sample, SampleDecoder, SocketProbes};
pub use speed::Speed;
pub use uplink::{
    configure_share, open_backend, shared, Forward, Half, LinkState, Passt, PortKeeper, Route,
    TcBridge, UplinkAttachment, UplinkEnd, UplinkState, HELPER,
};
