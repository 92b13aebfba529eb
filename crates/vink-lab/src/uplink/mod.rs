//! Uplinks: how the frames of a machine or a wire leave the kernel, and come in.
//!
//! An uplink is a TAP interface of the image's driver (`tap`). A device of the worker (`device`)
//! moves its frames to and from a backend (`vink_port::Backend`).
//! The TAP interface is a machine's own (`attachment`), or is bridged to an end of a wire in a
//! hidden machine (`tc_bridge`). A machine with the host's address has only some ports
//! (`port_keeper`).

mod attachment;
mod device;
mod fins;
mod forward;
mod handshake;
mod passt;
mod passt_backend;
mod port_keeper;
mod segment;
pub(crate) mod share;
mod shared;
mod tap;
mod tc_bridge;

pub use attachment::{open_backend, UplinkAttachment};
pub use device::UplinkState;
pub use forward::Forward;
pub use passt::{Passt, Route, HELPER};
pub use port_keeper::PortKeeper;
pub use share::configure as configure_share;
pub use shared::shared;
pub use tc_bridge::{TcBridge, UplinkEnd};
pub use vink_port::{Half, LinkState};
