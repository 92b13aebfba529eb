//! Uplinks: how the frames of a machine or a wire leave the kernel, and come in.
//!
//! An uplink is a TAP interface of the image's driver (`tap`). A device of the worker (`device`)
//! moves its frames to and from a backend (`backend`). Each kind of backend has a file of its own.
//! The TAP interface is a machine's own (`attachment`), or is bridged to an end of a wire in a
//! hidden machine (`tc_bridge`).

mod attachment;
mod backend;
mod batch;
mod device;
mod forward;
mod handshake;
mod host_tap;
mod monitor;
mod packet;
mod passt;
mod passt_backend;
mod poll;
mod qemu;
mod qemu_dgram;
mod rendezvous;
mod shared;
mod stream;
mod tap;
mod tc_bridge;
mod udp;

pub use attachment::UplinkAttachment;
pub use backend::LinkState;
pub use device::UplinkState;
pub use forward::Forward;
pub use passt::{Passt, Route, HELPER};
pub use shared::shared;
pub use tc_bridge::{TcBridge, UplinkEnd};
pub use vink_kernel::Half;

pub(crate) use tap::TUNSETIFF;
