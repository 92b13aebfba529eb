//! ping: ICMP echoes (RFC 792, RFC 4443) over a raw socket, IPv4 and IPv6.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::calls::family;
use crate::round_trips::RoundTrips;
use crate::{App, AppError, Calls, Names, PingReport, Report, Socket, Target};

/// `SOL_RAW` and its one option, of raw(7).
const SOL_RAW: i32 = 255;
const ICMP_FILTER: i32 = 1;
/// The same of RFC 3542.
const ICMP6_FILTER: i32 = 1;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "ping",
    purpose: "Sends ICMP echo requests and measures how long the answers take.",
    operands: "HOST",
    options: &[
        Opt::new('c', "COUNT", "so many requests (else until stopped)"),
        Opt::new('i', "TIME", "from one to the next (1s)"),
        Opt::new('s', "SIZE", "so many bytes of data (56)"),
        Opt::new('W', "TIME", "waits so long for the last answer (1s)"),
        Opt::new('t', "TTL", "passes so many machines at most"),
        Opt::new('q', "", "writes no line for each answer"),
        arguments::IPV4,
        arguments::IPV6,
    ],
};

struct Ping {
    target: Target,
    count: Option<u64>,
    interval: Duration,
    size: usize,
    timeout: Duration,
    ttl: Option<u8>,
    quiet: bool,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let host = arguments.operand(0).unwrap_or_default();
    let size = |text: &str| match arguments::size(text)? {
        size @ 0..=65000 => Ok(size as usize),
        _ => Err("at most 65000 bytes".to_owned()),
    };
    let second = Duration::from_secs(1);
    Ok(Box::new(Ping {
        target: Target::parse(host, names, arguments.ipv6()?)?,
        count: arguments.number('c', 1)?,
        interval: arguments.value('i', arguments::time)?.unwrap_or(second),
        size: arguments.value('s', size)?.unwrap_or(56),
        timeout: arguments.value('W', arguments::time)?.unwrap_or(second),
        ttl: arguments.number('t', 1)?,
        quiet: arguments.has('q'),
    }))
}

/// What is known so far.
#[derive(Default)]
struct Progress {
    report: PingReport,
    times: RoundTrips,
    /// When requests were sent that are not answered, by their sequence number.
    pending: HashMap<u16, Duration>,
}

impl Progress {
    fn report(&self) -> PingReport {
        let [min, avg, max, mdev] = self.times.summary();
        PingReport {
            min,
            avg,
            max,
            mdev,
            ..self.report.clone()
        }
    }
}

impl App for Ping {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let to = self.target.at(calls, 0)?;
        let progress = Rc::new(RefCell::new(Progress {
            report: PingReport {
                host: self.target.text.clone(),
                ..PingReport::default()
            },
            ..Progress::default()
        }));
        let seen = Rc::clone(&progress);
        calls.publish(move || Report::Ping(seen.borrow().report()));
        let socket = self.socket(calls, to)?;
        let (host, address) = (&self.target.text, to.ip());
        calls.print(&format!("PING {host} ({address}): {} bytes\n", self.size));
        calls.ready();
        let pinger = Pinger {
            calls,
            socket,
            to,
            // Two at once on one machine are told apart by it.
            id: calls.call(libc::SYS_getpid, [0; 6])? as u16,
            quiet: self.quiet,
            progress: &progress,
        };
        let mut next = calls.now()?;
        let mut number = 0;
        while self.count.is_none_or(|count| number < count) {
            calls.sleep_until(next)?;
            pinger.send(number as u16, self.size)?;
            number += 1;
            next += self.interval;
            let last = self.count == Some(number);
            let until = if last {
                calls.now()? + self.timeout
            } else {
                next
            };
            pinger.listen(until, last)?;
        }
        let received = progress.borrow().report.received;
        Ok(i32::from(received == 0))
    }
}

impl Ping {
    fn socket<'c>(&self, calls: &'c Calls<'_>, to: SocketAddr) -> Result<Socket<'c>, AppError> {
        let protocol = match to {
            SocketAddr::V4(_) => libc::IPPROTO_ICMP,
            SocketAddr::V6(_) => libc::IPPROTO_ICMPV6,
        };
        let socket = calls.socket(family(to), libc::SOCK_RAW, protocol);
        let socket = socket.map_err(AppError::during("open a raw socket"))?;
        match to {
            SocketAddr::V4(_) => {
                // A bit that is set keeps its type out.
                let types = !(1u32 << ECHO_REPLY | 1 << UNREACHABLE | 1 << EXCEEDED);
                socket.set_option(SOL_RAW, ICMP_FILTER, &types)?;
                if let Some(ttl) = self.ttl {
                    socket.set_option(libc::IPPROTO_IP, libc::IP_TTL, &i32::from(ttl))?;
                }
            }
            SocketAddr::V6(_) => {
                let mut types = [u32::MAX; 8];
                for wanted in [1, 2, 3, ECHO_REPLY_6] {
                    types[usize::from(wanted / 32)] &= !(1u32 << (wanted % 32));
                }
                socket.set_option(libc::IPPROTO_ICMPV6, ICMP6_FILTER, &types)?;
                let level = libc::IPPROTO_IPV6;
                socket.set_option(level, libc::IPV6_RECVHOPLIMIT, &1i32)?;
                if let Some(ttl) = self.ttl {
                    socket.set_option(level, libc::IPV6_UNICAST_HOPS, &i32::from(ttl))?;
                }
            }
        }
        Ok(socket)
    }
}

const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
const UNREACHABLE: u8 = 3;
const EXCEEDED: u8 = 11;
const ECHO_6: u8 = 128;
const ECHO_REPLY_6: u8 = 129;

struct Pinger<'c> {
    calls: &'c Calls<'c>,
    socket: Socket<'c>,
    to: SocketAddr,
    id: u16,
    quiet: bool,
    progress: &'c RefCell<Progress>,
}

impl Pinger<'_> {
    fn send(&self, number: u16, size: usize) -> Result<(), AppError> {
        let mut packet = vec![0; 8 + size];
        packet[0] = if self.to.is_ipv6() { ECHO_6 } else { ECHO };
        packet[4..6].copy_from_slice(&self.id.to_be_bytes());
        packet[6..8].copy_from_slice(&number.to_be_bytes());
        for (at, byte) in packet[8..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        if self.to.is_ipv4() {
            // ICMPv6's is the kernel's work, as it has addresses in it.
            let sum = checksum(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let now = self.calls.now()?;
        {
            let progress = &mut *self.progress.borrow_mut();
            progress.report.sent += 1;
            progress.pending.insert(number, now);
        }
        match self.socket.send_to(&packet, 0, self.to) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error.into()),
            // As if it were lost; there may be a way later.
            Err(error) => {
                self.progress.borrow_mut().report.errors += 1;
                self.say(format_args!("icmp_seq={}: {error}", number.wrapping_add(1)));
                Ok(())
            }
        }
    }

    /// Takes what comes until then, or until nothing is waited for any more.
    fn listen(&self, until: Duration, only_pending: bool) -> Result<(), AppError> {
        let mut buffer = vec![0; 66_000];
        loop {
            if only_pending && self.progress.borrow().pending.is_empty() {
                return Ok(());
            }
            let left = until.saturating_sub(self.calls.now()?);
            if !self.socket.is_readable(left)? {
                return Ok(());
            }
            let received = self.socket.recv_message(&mut buffer, libc::MSG_DONTWAIT);
            let Ok((len, from, control)) = received else {
                // An error that waited on the socket is told with it.
                continue;
            };
            let now = self.calls.now()?;
            let packet = &buffer[..len];
            match from.ip() {
                IpAddr::V4(_) => {
                    let header = usize::from(packet.first().map_or(0, |b| b & 15)) * 4;
                    let ttl = packet.get(8).copied();
                    self.received(packet.get(header..), from.ip(), ttl.map(i32::from), now);
                }
                IpAddr::V6(_) => {
                    let of = (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT);
                    let ttl = control.filter(|c| (c.level, c.kind) == of);
                    self.received(Some(packet), from.ip(), ttl.map(|c| c.value()), now);
                }
            }
        }
    }

    /// An ICMP message, its sender, the hops that it could still have made.
    fn received(&self, packet: Option<&[u8]>, from: IpAddr, ttl: Option<i32>, now: Duration) {
        let Some(packet @ [kind, code, _, _, rest @ ..]) = packet else {
            return;
        };
        let (reply, inner) = match from {
            // What an error is about begins with an IP header, behind four bytes.
            IpAddr::V4(_) => (ECHO_REPLY, rest.get(4).map(|b| 4 + usize::from(b & 15) * 4)),
            IpAddr::V6(_) => (ECHO_REPLY_6, Some(4 + 40)),
        };
        let is_reply = *kind == reply;
        let echo = match is_reply {
            true => Some(rest),
            // The request's own head, and then the same words.
            false => inner.and_then(|at| rest.get(at + 4..)),
        };
        let words = echo.and_then(|echo| Some((word(echo, 0)?, word(echo, 2)?)));
        let Some((_, number)) = words.filter(|(id, _)| *id == self.id) else {
            return;
        };
        let sent = self.progress.borrow_mut().pending.remove(&number);
        let sequence = number.wrapping_add(1);
        if !is_reply {
            if sent.is_some() {
                self.progress.borrow_mut().report.errors += 1;
                let why = describe(from, *kind, *code);
                self.say(format_args!("From {from}: icmp_seq={sequence} {why}"));
            }
            return;
        }
        let Some(sent) = sent else {
            self.progress.borrow_mut().report.duplicates += 1;
            self.say(format_args!(
                "{} bytes from {from}: icmp_seq={sequence} (duplicate)",
                packet.len()
            ));
            return;
        };
        {
            let progress = &mut *self.progress.borrow_mut();
            progress.report.received += 1;
            progress.times.add(now - sent);
        }
        let ttl = ttl.map_or_else(String::new, |ttl| format!(" ttl={ttl}"));
        let ms = (now - sent).as_secs_f64() * 1e3;
        let bytes = packet.len();
        self.say(format_args!(
            "{bytes} bytes from {from}: icmp_seq={sequence}{ttl} time={ms:.3} ms"
        ));
    }

    fn say(&self, line: std::fmt::Arguments<'_>) {
        if !self.quiet {
            self.calls.print(&format!("{line}\n"));
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(two.try_into().ok()?))
}

/// The Internet checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What an ICMP error says.
fn describe(from: IpAddr, kind: u8, code: u8) -> String {
    let words = match (from, kind, code) {
        (IpAddr::V4(_), UNREACHABLE, 0) => "Destination Net Unreachable",
        (IpAddr::V4(_), UNREACHABLE, 1) => "Destination Host Unreachable",
        (IpAddr::V4(_), UNREACHABLE, 2) => "Destination Protocol Unreachable",
        (IpAddr::V4(_), UNREACHABLE, 4) => "Fragmentation Needed",
        (IpAddr::V4(_), UNREACHABLE, 9 | 10 | 13) => "Packet Filtered",
        (IpAddr::V4(_), EXCEEDED, 0) => "Time To Live Exceeded",
        (IpAddr::V6(_), 1, 0) => "No Route",
        (IpAddr::V6(_), 1, 1) => "Administratively Prohibited",
        (IpAddr::V6(_), 1, 3) => "Address Unreachable",
        (IpAddr::V6(_), 2, _) => "Packet Too Big",
        (IpAddr::V6(_), 3, 0) => "Hop Limit Exceeded",
        _ => return format!("ICMP type {kind}, code {code}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_rfc() {
        // RFC 1071, 3: the sum of these is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        assert_eq!(checksum(&[1]), !0x0100);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
