//! Virtual machines at a wire: the back-end of a virtio network device, by vhost-user.
//!
//! QEMU (the front-end) shares the guest's memory with this process, which takes frames out of the
//! guest's queues and puts frames into them ([`VhostUserBackend`]). The header in front of a frame
//! is the one that frames have in a shared ring, so large ones pass whole. Neither guest nor
//! front-end is trusted.

mod backend;
mod queue;
mod session;

pub use backend::VhostUserBackend;
