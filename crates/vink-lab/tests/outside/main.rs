//! Uplinks, each in a host's network that the test makes itself.

mod bulk;
mod common;
mod host;
mod qemu;
mod wires;
mod workers;
