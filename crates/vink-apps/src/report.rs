//! What apps have to tell of what they did: as data, and as lines for people.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An app's statistics so far. Times are in seconds, amounts in bytes, rates in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Report {
    /// Of `echoserver` and `discardserver`.
    Server(ServerReport),
    /// Of `echo`.
    Echo(EchoReport),
    /// Of an app that isn't built in: whatever it likes.
    Other {
        /// Its own words.
        value: serde_json::Value,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Server(report) => report.fmt(f),
            Report::Echo(report) => report.fmt(f),
            Report::Other { value } => writeln!(f, "{value}"),
        }
    }
}

/// What a server has served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReport {
    /// TCP connections so far.
    pub connections: u64,
    /// Of them, open now.
    pub open: u64,
    /// TCP connections that ended with an error, such as a reset.
    pub errors: u64,
    /// UDP datagrams received.
    pub datagrams: u64,
    /// Bytes received, TCP and UDP.
    pub received: u64,
    /// Bytes sent, TCP and UDP.
    pub sent: u64,
}

impl fmt::Display for ServerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} connections ({} open, {} failed), {} datagrams, {} bytes received, {} bytes sent",
            self.connections, self.open, self.errors, self.datagrams, self.received, self.sent
        )
    }
}

/// Round trips, and how long they took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EchoReport {
    /// Messages sent.
    pub sent: u64,
    /// Messages that came back as they were.
    pub received: u64,
    /// Messages that came back changed.
    pub wrong: u64,
    /// The shortest round trip.
    pub min: f64,
    /// Their mean.
    pub avg: f64,
    /// The longest.
    pub max: f64,
    /// Their standard deviation.
    pub mdev: f64,
}

impl fmt::Display for EchoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} messages sent, {} came back, {} changed",
            self.sent, self.received, self.wrong
        )?;
        let ms = [self.min, self.avg, self.max, self.mdev].map(|s| s * 1e3);
        let [min, avg, max, mdev] = ms;
        writeln!(
            f,
            "rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms"
        )
    }
}
