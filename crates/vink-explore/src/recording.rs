//! All that has happened in a run: packets and calls, in their order, with a digest.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use vink_kernel::PacketKind;

use crate::{AppCall, Fate, Moves, Packet, Point, Written};

/// A run as it was.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Packets at interfaces.
    pub packets: Vec<RecordedPacket>,
    /// Calls of apps on sockets.
    pub calls: Vec<RecordedCall>,
    /// What programs have written.
    #[serde(default)]
    pub lines: Vec<Written>,
}

/// What happened to a packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedPacket {
    /// When, ns.
    pub time: u64,
    /// Where: the interface's place among all that are at wires.
    pub end: usize,
    /// What.
    pub point: Point,
    /// Why it was lost.
    pub reason: Option<String>,
    /// The frame; of one that was dropped without an Ethernet header, what is behind that.
    pub frame: Vec<u8>,
    /// It has no Ethernet header.
    pub headless: bool,
    /// Its number among those that are searched and that this interface sends.
    pub number: Option<u32>,
    /// What the schedule has done to it.
    pub fate: Option<Fate>,
}

/// A call of an app.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedCall {
    /// When it returned, ns.
    pub time: u64,
    /// The program's place among all.
    pub program: usize,
    /// `libc::SYS_*`.
    pub nr: i64,
    /// Its first argument: mostly a descriptor.
    pub fd: u64,
    /// The raw result.
    pub result: i64,
    /// Of a TCP socket that is connected: its own address and its peer's.
    pub ends: Option<(std::net::SocketAddr, std::net::SocketAddr)>,
    /// What it has done with data.
    pub moves: Moves,
    /// The BLAKE3 of the data that it has moved.
    pub data: String,
}

impl RecordedPacket {
    /// The frame; one without an Ethernet header gets one, with the addresses 0.
    pub fn with_header(&self) -> Cow<'_, [u8]> {
        if !self.headless {
            return Cow::Borrowed(&self.frame);
        }
        let version = self.frame.first().map_or(0, |byte| byte >> 4);
        let kind: [u8; 2] = if version == 6 { [0x86, 0xdd] } else { [8, 0] };
        let header = [[0; 12].as_slice(), &kind].concat();
        Cow::Owned([&header, self.frame.as_slice()].concat())
    }
}

impl Recording {
    pub(crate) fn packet(
        &mut self,
        packet: &Packet<'_>,
        kind: &PacketKind,
        headless: bool,
        number: Option<u32>,
        fate: Option<Fate>,
    ) {
        self.packets.push(RecordedPacket {
            time: packet.time,
            end: packet.end,
            point: packet.point,
            reason: kind.names().1,
            frame: packet.frame.to_vec(),
            headless,
            number,
            fate,
        });
    }

    pub(crate) fn call(&mut self, call: &AppCall<'_>) {
        self.calls.push(RecordedCall {
            time: call.time,
            program: call.program,
            nr: call.nr,
            fd: call.args[0],
            result: call.result,
            ends: call.ends,
            moves: call.moves,
            data: blake3::hash(call.data).to_hex().to_string(),
        });
    }

    /// A hash of all of it: two runs that have the same are the same.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("plain data");
        blake3::hash(&bytes).to_hex().to_string()
    }
}
