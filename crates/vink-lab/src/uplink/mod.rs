//! Ways from a machine or a wire to the outside.
//!
//! An uplink is a TAP interface of the image's own driver (`tap`), whose frames a device of the worker moves
//! (`link`) to and from the host's side (`far`). Each kind of that has a file of its own. The TAP interface is a
//! machine's own (`outside`), or joined to an end of a wire in a machine that nobody sees (`backstage`).

mod backstage;
mod batch;
mod door;
mod far;
mod forward;
mod handshake;
mod host_tap;
mod link;
mod monitor;
mod outside;
mod packet;
mod passt;
mod passt_far;
mod poll;
mod qemu;
mod qemu_dgram;
mod shared;
mod stream;
mod tap;
mod udp;

pub use backstage::{Backstage, OutsideEnd};
pub use far::Line;
pub use forward::Forward;
pub use link::State;
pub use outside::Outside;
pub use passt::{Passt, Route, HELPER};
pub use shared::shared;
pub use vink_kernel::Half;

pub(crate) use tap::TUNSETIFF;
