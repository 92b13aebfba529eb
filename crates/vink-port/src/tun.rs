//! Numbers of linux/if_tun.h, for TAP devices of the host and of machines.

/// Makes the device, or opens it.
pub const TUNSETIFF: u64 = 0x4004_54ca;
/// What the reader of the frames can do.
pub const TUNSETOFFLOAD: u64 = 0x4004_54d0;

/// `TUN_F_CSUM`, `TSO4`, `TSO6`, `TSO_ECN`.
pub const TUN_F_TCP: u64 = 0x0f;
/// `USO4`, `USO6`, since Linux 6.2.
pub const TUN_F_UDP: u64 = 0x60;
