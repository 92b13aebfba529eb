//! Sockets of the same ends, one after another: with TCP_REPAIR a connection goes on with another one,
//! of which nothing is told on the wire.

use crate::World;

/// How many segments a socket has sent, when it was looked at last.
#[derive(Clone, Copy, Default)]
pub(super) struct Socket(u64);

impl Socket {
    /// Whether this is another socket than before: it has sent fewer segments.
    pub fn is_another(&mut self, world: &World, socket: &[u8]) -> bool {
        let sent = world.field(socket, "segs_out").unwrap_or(0);
        sent < std::mem::replace(&mut self.0, sent)
    }
}
