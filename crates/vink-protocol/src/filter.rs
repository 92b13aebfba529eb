//! Compiled capture filters.

use serde::{Deserialize, Serialize};

/// Processor time in seconds that libpcap may take for an expression.
pub const MAX_COMPILE_SECONDS: u64 = 5;

/// An instruction of the BSD packet filter: `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// An expression as in pcap-filter(7), and its program of the packet filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The expression.
    pub text: String,
    /// The program.
    pub code: Vec<Instruction>,
}

impl Filter {
    /// The error for an expression whose compiler was killed at its limit of processor time.
    pub fn too_long() -> String {
        format!(
            "libpcap has not compiled it within {MAX_COMPILE_SECONDS} s of processor time: name networks and ranges of ports \
             (net, portrange) in the place of single ones, or share it out among several"
        )
    }
}
