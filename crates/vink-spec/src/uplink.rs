//! The outside end of a wire.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a wire is joined to outside the box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Uplink {
    /// The host's networks, without root, by passt(1): gives addresses and a default route to the machine at
    /// the wire's other end.
    Passt {
        /// Ports of the host that lead inside: `[ADDRESS:]PORT:PORT[/udp]`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        publish: Vec<String>,
    },
    /// A TAP device of the host of this name.
    Tap(String),
    /// An interface of the host, by AF_PACKET.
    Interface(String),
    /// A unix stream socket in QEMU's framing (`-netdev stream`) at this path, which Vink listens on.
    Qemu(String),
    /// A unix datagram socket (`-netdev dgram`) at this path.
    QemuDgram(String),
    /// Another Vink, by UDP.
    Udp {
        /// Where datagrams are received.
        #[schemars(with = "String")]
        listen: SocketAddr,
        /// Where they are sent to.
        #[schemars(with = "String")]
        peer: SocketAddr,
    },
}

impl Uplink {
    /// The word that it is written with in a lab file.
    pub fn kind(&self) -> &'static str {
        match self {
            Uplink::Passt { .. } => "passt",
            Uplink::Tap(_) => "tap",
            Uplink::Interface(_) => "interface",
            Uplink::Qemu(_) => "qemu",
            Uplink::QemuDgram(_) => "qemu-dgram",
            Uplink::Udp { .. } => "udp",
        }
    }
}
