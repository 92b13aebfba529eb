//! What apps have to tell of what they did: as data, and as lines for people.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::series::Interval;

/// An app's statistics so far. Times are in seconds, amounts in bytes, rates in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Report {
    /// Of `echoserver`, `discardserver` and `httpserver`.
    Server(ServerReport),
    /// Of `echo`.
    Echo(EchoReport),
    /// Of `source` and `discard`.
    Source(SourceReport),
    /// Of `sink`.
    Sink(SinkReport),
    /// Of `http`.
    Http(HttpReport),
    /// Of `ping`.
    Ping(PingReport),
    /// Of `dnsserver`.
    Dns(DnsReport),
    /// Of `relay`.
    Relay(RelayReport),
    /// Of `stream`.
    Stream(StreamReport),
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
            Report::Source(report) => report.fmt(f),
            Report::Sink(report) => report.fmt(f),
            Report::Http(report) => report.fmt(f),
            Report::Ping(report) => report.fmt(f),
            Report::Dns(report) => report.fmt(f),
            Report::Relay(report) => report.fmt(f),
            Report::Stream(report) => report.fmt(f),
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

/// What a relay has passed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelayReport {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// TCP connections accepted so far; UDP: clients heard of.
    pub connections: u64,
    /// Of them, open now; UDP: not forgotten.
    pub open: u64,
    /// The target did not accept the connection; UDP: its host said that nothing listens there.
    pub refused: u64,
    /// TCP connections that ended with an error, such as a reset.
    pub errors: u64,
    /// Bytes passed on to the target, and to clients.
    pub passed: [u64; 2],
    /// UDP: datagrams passed on to the target, and to clients.
    pub datagrams: [u64; 2],
    /// UDP: datagrams that there was no room for.
    pub dropped: u64,
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [to, from] = self.passed;
        let (connections, open, refused) = (self.connections, self.open, self.refused);
        match self.protocol {
            Protocol::Tcp => writeln!(
                f,
                "{connections} connections ({open} open, {refused} refused, {} failed), {to} bytes to the target, \
                 {from} bytes back",
                self.errors
            ),
            Protocol::Udp => {
                let [there, back] = self.datagrams;
                writeln!(
                    f,
                    "{connections} clients ({open} open), {there} datagrams of {to} bytes to the target, {back} of \
                     {from} bytes back, {refused} refused, {} dropped",
                    self.dropped
                )
            }
        }
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

/// Of which protocol a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A connection.
    #[default]
    Tcp,
    /// Numbered datagrams.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        })
    }
}

/// What has come of numbered datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Datagrams that came, each counted once.
    pub packets: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Datagrams that came after one that was sent later.
    pub reordered: u64,
    /// Datagrams that came once more.
    pub duplicates: u64,
    /// The jitter of RFC 3550, section 6.4.1; of several flows the largest.
    pub jitter: f64,
}

impl fmt::Display for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (self.packets + self.lost).max(1) as f64;
        write!(
            f,
            "{} datagrams came, {} lost ({:.3} %), {} reordered, {} duplicates, jitter {:.3} ms",
            self.packets,
            self.lost,
            self.lost as f64 * 100.0 / all,
            self.reordered,
            self.duplicates,
            self.jitter * 1e3
        )
    }
}

/// How long datagrams were on the way, by the clocks of both ends: of use if these are one, as in
/// labs on one host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// The shortest time.
    pub min: f64,
    /// Their mean.
    pub avg: f64,
    /// The longest.
    pub max: f64,
}

/// What a source has sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceReport {
    /// Of all its flows.
    pub protocol: Protocol,
    /// How many there are.
    pub flows: u64,
    /// Bytes sent: without headers.
    pub bytes: u64,
    /// So long: of TCP, at the end, until the sink had read everything.
    pub seconds: f64,
    /// `bytes` by `seconds`, bits per second.
    pub rate: f64,
    /// TCP, at the end: segments sent again.
    pub retransmits: Option<u64>,
    /// TCP, at the end: the smoothed round trip time, mean of the flows.
    pub rtt: Option<f64>,
    /// UDP: datagrams sent.
    pub packets: Option<u64>,
    /// UDP, at the end: what the sink says has come.
    pub arrived: Option<Arrived>,
    /// If asked for.
    pub intervals: Vec<Interval>,
}

impl fmt::Display for SourceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} flows of {}: {} bytes sent in {:.3} s, {:.3} Mbit/s",
            self.flows,
            self.protocol,
            self.bytes,
            self.seconds,
            self.rate / 1e6
        )?;
        if let (Some(retransmits), Some(rtt)) = (self.retransmits, self.rtt) {
            let rtt = rtt * 1e3;
            writeln!(f, "{retransmits} segments sent again, rtt {rtt:.3} ms")?;
        }
        if let Some(arrived) = &self.arrived {
            writeln!(f, "{arrived}")?;
        }
        write_intervals(f, &self.intervals)
    }
}

/// What a sink has read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkReport {
    /// Flows so far.
    pub flows: u64,
    /// Of them, not ended.
    pub open: u64,
    /// TCP flows that ended with an error, such as a reset.
    pub errors: u64,
    /// Bytes of all flows: without headers.
    pub bytes: u64,
    /// Each flow, in the order of their start; of those that have ended the newest 1,000.
    pub list: Vec<FlowReport>,
}

/// A flow as its receiver sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// The sender's address and port.
    pub from: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Bytes that came: without headers.
    pub bytes: u64,
    /// From the beginning (UDP: the first datagram) to the last byte.
    pub seconds: f64,
    /// `bytes` by `seconds`, bits per second.
    pub rate: f64,
    /// Whether it has ended.
    pub ended: bool,
    /// UDP: which datagrams.
    pub arrived: Option<Arrived>,
    /// UDP: how long they were on the way.
    pub delay: Option<Delay>,
    /// If asked for.
    pub intervals: Vec<Interval>,
}

impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} flows ({} open, {} failed), {} bytes",
            self.flows, self.open, self.errors, self.bytes
        )?;
        for flow in &self.list {
            writeln!(
                f,
                "{} from {}: {} bytes in {:.3} s, {:.3} Mbit/s",
                flow.protocol,
                flow.from,
                flow.bytes,
                flow.seconds,
                flow.rate / 1e6
            )?;
            if let Some(arrived) = &flow.arrived {
                writeln!(f, "  {arrived}")?;
            }
            if let Some(delay) = &flow.delay {
                let [min, avg, max] = [delay.min, delay.avg, delay.max].map(|s| s * 1e3);
                writeln!(f, "  delay min/avg/max = {min:.3}/{avg:.3}/{max:.3} ms")?;
            }
            write_intervals(f, &flow.intervals)?;
        }
        Ok(())
    }
}

fn write_intervals(f: &mut fmt::Formatter<'_>, intervals: &[Interval]) -> fmt::Result {
    for interval in intervals {
        let rate = interval.rate / 1e6;
        writeln!(
            f,
            "  from {:.3} s: {} bytes, {rate:.3} Mbit/s",
            interval.start, interval.bytes
        )?;
    }
    Ok(())
}

/// Requests to a web server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpReport {
    /// Requests that were answered as they should.
    pub requests: u64,
    /// Requests that failed: no connection, no answer in time, or another one than success.
    pub errors: u64,
    /// Connections made, or tried.
    pub connections: u64,
    /// Bytes of pages received.
    pub received: u64,
    /// From the start to the last answer.
    pub seconds: f64,
    /// Answers per second.
    pub rate: f64,
    /// How long the answered ones took, connection included where there was none.
    pub latency: Latency,
}

/// How a time is distributed: `p90` is what 90 % are not above, exact to 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// Of 90 %.
    pub p90: f64,
    /// Of 99 %.
    pub p99: f64,
    /// Of 99.9 %.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl fmt::Display for HttpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} requests answered, {} failed, {} connections, {} bytes in {:.3} s, {:.1} a second",
            self.requests, self.errors, self.connections, self.received, self.seconds, self.rate
        )?;
        let l = &self.latency;
        let ms = [l.min, l.avg, l.p50, l.p90, l.p99, l.p999, l.max].map(|s| s * 1e3);
        let [min, avg, p50, p90, p99, p999, max] = ms;
        writeln!(
            f,
            "latency min/avg/p50/p90/p99/p99.9/max = \
             {min:.3}/{avg:.3}/{p50:.3}/{p90:.3}/{p99:.3}/{p999:.3}/{max:.3} ms"
        )
    }
}

/// ICMP echoes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingReport {
    /// As it was given.
    pub host: String,
    /// Requests sent.
    pub sent: u64,
    /// Answers, each counted once.
    pub received: u64,
    /// Answers that came once more.
    pub duplicates: u64,
    /// Errors in the place of an answer, such as that a host is unreachable.
    pub errors: u64,
    /// The shortest round trip.
    pub min: f64,
    /// Their mean.
    pub avg: f64,
    /// The longest.
    pub max: f64,
    /// Their standard deviation.
    pub mdev: f64,
}

impl fmt::Display for PingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.sent - self.received;
        let percent = lost as f64 * 100.0 / self.sent.max(1) as f64;
        writeln!(f, "--- {} ping statistics ---", self.host)?;
        writeln!(
            f,
            "{} packets transmitted, {} received, {} duplicates, {} errors, {percent:.3}% packet loss",
            self.sent, self.received, self.duplicates, self.errors
        )?;
        let ms = [self.min, self.avg, self.max, self.mdev].map(|s| s * 1e3);
        let [min, avg, max, mdev] = ms;
        writeln!(
            f,
            "rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms"
        )
    }
}

/// What a name server was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DnsReport {
    /// Queries so far.
    pub queries: u64,
    /// Of them, those for names that there are, whether or not they have what was asked for.
    pub answered: u64,
    /// Those for names that there are not (NXDOMAIN).
    pub unknown: u64,
    /// Those for names that are for others to say (REFUSED).
    pub refused: u64,
    /// Those that can't be read or are of a kind that isn't known (FORMERR, NOTIMP).
    pub malformed: u64,
}

impl fmt::Display for DnsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} queries: {} answered, {} for unknown names, {} refused, {} malformed",
            self.queries, self.answered, self.unknown, self.refused, self.malformed
        )
    }
}

/// A stream through pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReport {
    /// Since the server was asked.
    pub seconds: f64,
    /// Units that came from the server.
    pub units: u64,
    /// Cycles of the pod that makes units and of those that are shared.
    pub shared_cycles: u64,
    /// The tiers, by name.
    pub tiers: BTreeMap<String, TierReport>,
}

/// What a tier of a stream has got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierReport {
    /// Units that came.
    pub offered: u64,
    /// Units that left in time.
    pub delivered: u64,
    /// Units that left too late.
    pub late: u64,
    /// Units that were left out before work was spent on them.
    pub shed: u64,
    /// Units whose pod has ended.
    pub lost: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Cycles of its pods' crossings, and its part of the shared ones'.
    pub cycles: u64,
    /// A processor's time of them.
    pub time: f64,
    /// Which part of its units it gets now, 0 to 1.
    pub share: f64,
    /// Listeners now.
    pub listeners: u64,
    /// Units that a listener did not take in time, of all listeners together.
    pub missed: u64,
    /// Crossings of its own pods' walls.
    pub crossings: u64,
    /// Which of its pods has ended, and why.
    pub ended: Option<String>,
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} units in {:.3} s", self.units, self.seconds)?;
        for (name, tier) in &self.tiers {
            let each = tier.time * 1e6 / (tier.delivered + tier.late).max(1) as f64;
            writeln!(
                f,
                "{name}: {} of {} in time, {} late, {} shed, {} lost, {} missed by listeners, {} bytes, {each:.1} us a unit",
                tier.delivered, tier.offered, tier.late, tier.shed, tier.lost, tier.missed, tier.bytes
            )?;
        }
        Ok(())
    }
}
