//! Messages between the control process and its agent on another host, `vink lab-host`, as JSON in
//! frames of a stream (`vink-control/src/host/mux.rs` has the frames).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Request, WorkerConfig};

/// The version of these messages. Requests are in them, so both sides are the same `vink`, too.
pub const HOST_VERSION: u32 = 1;

/// To a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToHost {
    /// Nothing, but the sender is there.
    Alive,
    /// Starts a worker. [`FromHost::Started`], or [`FromHost::Ended`].
    Start {
        /// Its number, which no other has had.
        worker: u64,
        /// The image: a path there, or a name; none: the usual one. That of the configuration says nothing.
        image: Option<String>,
        /// What it is started with.
        config: WorkerConfig,
        /// The stream of what it says.
        messages: u32,
        /// The stream of what its watchdog says.
        watchdog: u32,
    },
    /// A request to a worker.
    Ask {
        /// Which.
        worker: u64,
        /// The request.
        request: Request,
        /// What comes along.
        given: Vec<Given>,
    },
    /// Ends a worker. [`FromHost::Ended`].
    End {
        /// Which.
        worker: u64,
    },
    /// Binds a UDP socket. [`FromHost::Bound`].
    Bind {
        /// Its number, which no other has had.
        socket: u64,
        /// An address of IPv6.
        v6: bool,
        /// The first port that is tried; none: any.
        port: Option<u16>,
    },
    /// The size of a terminal.
    Resize {
        /// Its stream.
        stream: u32,
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
}

/// A descriptor that comes along with a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// At its end.
    Nothing,
    /// A pipe from this stream.
    Input(u32),
    /// A pipe to this stream.
    Output(u32),
    /// A terminal, whose other side is this stream.
    Terminal {
        /// The stream, both ways.
        stream: u32,
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
    /// The same as this one of the message.
    Same(usize),
    /// A socket that was bound, which is given once.
    Socket(u64),
    /// One of the three descriptors of a half of a wire between two workers there. Each is given
    /// once.
    Half {
        /// The wire's number, which no other has had.
        wire: u64,
        /// 0 or 1.
        side: usize,
        /// 0, 1 or 2.
        part: usize,
    },
}

/// From a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromHost {
    /// The first one.
    Hello(Hello),
    /// Nothing, but the sender is there.
    Alive,
    /// A worker's process runs.
    Started {
        /// Which.
        worker: u64,
        /// The process, by its number there.
        pid: u32,
        /// The image's path there.
        image: String,
    },
    /// A worker's process is gone, or there was none.
    Ended {
        /// Which.
        worker: u64,
        /// How, and what it said last.
        how: String,
        /// Processes that are still there, though killed.
        left: Vec<i32>,
    },
    /// What came of binding a socket.
    Bound {
        /// Its number.
        socket: u64,
        /// Its port, or why there is none.
        port: Result<u16, String>,
    },
}

/// What a host is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`HOST_VERSION`].
    pub version: u32,
    /// [`crate::VERSION`].
    pub protocol: u32,
    /// The version of `vink` there.
    pub vink: String,
    /// The address by which ssh has come.
    pub address: Option<IpAddr>,
    /// The environment of its programs.
    pub env: Vec<(String, String)>,
    /// Where its programs begin.
    pub folder: String,
}
