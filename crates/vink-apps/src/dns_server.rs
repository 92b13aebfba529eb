//! A name server for the names of the lab (RFC 1035), which forwards no queries.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use simple_dns::rdata::{RData, A, AAAA, OPT, PTR, SOA};
use simple_dns::{
    Name, Packet, PacketFlag, Question, ResourceRecord, CLASS, OPCODE, QCLASS, QTYPE, RCODE, TYPE,
};

use crate::arguments::{Arguments, Opt, Syntax};
use crate::server::{self, serve, Answer, ListenAddress, Service};
use crate::{App, AppError, Calls, DnsReport, Names, Report, ServerReport};

const PORT: u16 = 53;
/// What a lab's names end with for those outside.
const DOMAIN: &str = "lab";
/// For how long an answer may be remembered, s: machines come and go.
const TTL: u32 = 5;
/// What a datagram may have without EDNS, and what we say that we take with it (RFC 6891).
const DATAGRAM: usize = 512;
const OUR_DATAGRAM: u16 = 1232;
/// Of any query.
const HEADER: usize = 12;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "dnsserver",
    purpose:
        "Answers for the names of the lab and their addresses (A, AAAA, PTR), UDP and TCP; port 53.",
    operands: "",
    options: &[
        server::PORT,
        server::BIND,
        server::TCP,
        server::UDP,
        Opt::new('d', "DOMAIN", "names may have it behind them, too (lab)"),
        Opt::new(
            'n',
            "",
            "denies all other names (NXDOMAIN) in the place of refusing to answer",
        ),
    ],
};

struct DnsServer {
    address: ListenAddress,
    zone: Zone,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let domain = |text: &str| match Name::new(text) {
        Ok(_) => Ok(text.trim_matches('.').to_ascii_lowercase()),
        Err(_) => Err("this is no name".to_owned()),
    };
    Ok(Box::new(DnsServer {
        address: ListenAddress::parse(arguments, PORT)?,
        zone: Zone {
            names: names.clone(),
            domain: arguments
                .value('d', domain)?
                .unwrap_or_else(|| DOMAIN.to_owned()),
            denies: arguments.has('n'),
        },
    }))
}

impl App for DnsServer {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let report = Rc::new(RefCell::new(DnsReport::default()));
        let seen = Rc::clone(&report);
        calls.publish(move || Report::Dns(seen.borrow().clone()));
        let statistics = Rc::new(RefCell::new(ServerReport::default()));
        let service = Responder {
            zone: self.zone.clone(),
            report,
        };
        serve(calls, &self.address, service, &statistics)
    }
}

struct Responder {
    zone: Zone,
    report: Rc<RefCell<DnsReport>>,
}

impl Service for Responder {
    /// What has come of the next query, its length first.
    type Talk = Vec<u8>;

    fn received(
        &mut self,
        _: &Calls<'_>,
        come: &mut Vec<u8>,
        data: &[u8],
        answer: &mut Answer,
    ) -> io::Result<bool> {
        come.extend_from_slice(data);
        let mut rest = come.as_slice();
        while let [high, low, behind @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(query) = behind.get(..length) else {
                break;
            };
            rest = &behind[length..];
            let Some(reply) = self.zone.reply(query, Some(u16::MAX.into()), &self.report) else {
                return Ok(false);
            };
            answer.push(&(reply.len() as u16).to_be_bytes());
            answer.push(&reply);
        }
        let over = come.len() - rest.len();
        come.drain(..over);
        Ok(true)
    }

    fn datagram(
        &mut self,
        _: &Calls<'_>,
        data: &[u8],
        _: SocketAddr,
        answer: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let reply = self.zone.reply(data, None, &self.report);
        let answered = reply.is_some();
        answer.extend(reply.unwrap_or_default());
        Ok(answered)
    }
}

/// What is known, and what is said of everything else.
#[derive(Clone)]
struct Zone {
    names: Names,
    /// In lower case, without dots around it.
    domain: String,
    denies: bool,
}

/// What is said of a question.
enum Lookup {
    /// There is such a name: these are its records of the wanted type, if any.
    Known(Vec<RData<'static>>),
    /// There is none, and we would know.
    Unknown,
    /// It is for others to say.
    Foreign,
}

impl Zone {
    /// The reply to a query, of at most so many bytes (`None`: as many as a datagram to this client
    /// may have). `None`: it deserves none.
    fn reply(
        &self,
        query: &[u8],
        room: Option<usize>,
        report: &RefCell<DnsReport>,
    ) -> Option<Vec<u8>> {
        let mut report = report.borrow_mut();
        let head = query.get(..HEADER)?;
        let (id, is_query) = (u16::from_be_bytes([head[0], head[1]]), head[2] & 0x80 == 0);
        if !is_query {
            // Else two servers could answer each other for ever.
            return None;
        }
        report.queries += 1;
        let Ok(query) = Packet::parse(query) else {
            report.malformed += 1;
            let mut reply = Packet::new_reply(id);
            *reply.rcode_mut() = RCODE::FormatError;
            return reply.build_bytes_vec().ok();
        };
        let mut reply = Packet::new_reply(id);
        *reply.opcode_mut() = query.opcode();
        if query.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        let mut most = DATAGRAM;
        // Its version is not looked at: simple-dns 0.13 takes it from where the flags are, so that
        // it seems to be 128 with DNSSEC's. As there is no version but 0, that changes nothing.
        if let Some(edns) = query.opt() {
            most = most.max(usize::from(edns.udp_packet_size.min(OUR_DATAGRAM)));
            *reply.opt_mut() = Some(OPT {
                opt_codes: Vec::new(),
                udp_packet_size: OUR_DATAGRAM,
                version: 0,
            });
        }
        *reply.rcode_mut() = match query.questions.as_slice() {
            _ if query.opcode() != OPCODE::StandardQuery => RCODE::NotImplemented,
            [question] => {
                reply.questions.push(question.clone());
                self.answer(question, &mut reply)
            }
            _ => RCODE::FormatError,
        };
        match reply.rcode() {
            RCODE::NoError => report.answered += 1,
            RCODE::NameError => report.unknown += 1,
            RCODE::Refused => report.refused += 1,
            _ => report.malformed += 1,
        }
        let bytes = reply.build_bytes_vec_compressed().ok();
        match bytes {
            Some(bytes) if bytes.len() <= room.unwrap_or(most) => Some(bytes),
            Some(_) => {
                // The client comes again, over TCP.
                reply.answers.clear();
                reply.name_servers.clear();
                reply.set_flags(PacketFlag::TRUNCATION);
                reply.build_bytes_vec_compressed().ok()
            }
            None => {
                let mut sorry = Packet::new_reply(id);
                *sorry.rcode_mut() = RCODE::ServerFailure;
                sorry.build_bytes_vec().ok()
            }
        }
    }

    /// Answers a question; how it went.
    fn answer<'q>(&self, question: &Question<'q>, reply: &mut Packet<'q>) -> RCODE {
        let name = question.qname.to_string().to_ascii_lowercase();
        let is_ours = matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY);
        let finding = match is_ours {
            true => self.find(&name, question.qtype),
            false => Lookup::Foreign,
        };
        let (records, code) = match finding {
            Lookup::Known(records) => (records, RCODE::NoError),
            Lookup::Unknown => (Vec::new(), RCODE::NameError),
            Lookup::Foreign => return RCODE::Refused,
        };
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        if records.is_empty() {
            reply.name_servers.extend(self.authority(&name));
        }
        let record = |data| ResourceRecord::new(question.qname.clone(), CLASS::IN, TTL, data);
        reply.answers.extend(records.into_iter().map(record));
        code
    }

    fn find(&self, name: &str, kind: QTYPE) -> Lookup {
        let wants = |this| matches!(kind, QTYPE::ANY) || kind == QTYPE::TYPE(this);
        if let Some(address) = reverse(name) {
            let Some(address) = address else {
                return Lookup::Unknown;
            };
            let names = self.names.names(address);
            if names.is_empty() {
                return Lookup::Unknown;
            }
            let full = names.iter().filter_map(|name| {
                let name = Name::new(&format!("{name}.{}", self.domain))
                    .ok()?
                    .into_owned();
                Some(RData::PTR(PTR(name)))
            });
            return Lookup::Known(full.filter(|_| wants(TYPE::PTR)).collect());
        }
        let inside = name
            .strip_suffix(self.domain.as_str())
            .and_then(|rest| rest.strip_suffix('.'));
        // As it is, or without the domain.
        let addresses = [Some(name), inside].into_iter().flatten();
        let Some(addresses) = addresses.filter_map(|n| self.names.addresses(n)).next() else {
            return match name {
                _ if name == self.domain => Lookup::Known(Vec::new()),
                _ if inside.is_some() || self.denies || !name.contains('.') => Lookup::Unknown,
                _ => Lookup::Foreign,
            };
        };
        let record = |address: IpAddr| match address {
            IpAddr::V4(a) => wants(TYPE::A).then(|| RData::A(A::from(a))),
            IpAddr::V6(a) => wants(TYPE::AAAA).then(|| RData::AAAA(AAAA::from(a))),
        };
        Lookup::Known(addresses.into_iter().filter_map(record).collect())
    }

    /// Says for how long it may be remembered that there is nothing (RFC 2308).
    fn authority(&self, name: &str) -> Option<ResourceRecord<'static>> {
        let inside = name.strip_suffix(self.domain.as_str())?;
        (inside.is_empty() || inside.ends_with('.')).then_some(())?;
        let zone = Name::new(&self.domain).ok()?.into_owned();
        let soa = SOA {
            mname: zone.clone(),
            rname: zone.clone(),
            serial: 1,
            refresh: 3600,
            retry: 600,
            expire: 86400,
            minimum: TTL,
        };
        Some(ResourceRecord::new(zone, CLASS::IN, TTL, RData::SOA(soa)))
    }
}

/// The address that a name below `in-addr.arpa` or `ip6.arpa` stands for: `None`, it is none of
/// these; `Some(None)`, it is not all of an address.
fn reverse(name: &str) -> Option<Option<IpAddr>> {
    let v4 = || {
        let parts = name.strip_suffix(".in-addr.arpa")?;
        let text: Vec<_> = parts.rsplit('.').collect();
        Some(text.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::from))
    };
    let v6 = || {
        let parts = name.strip_suffix(".ip6.arpa")?;
        let digits: Option<Vec<_>> = parts.rsplit('.').map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 32);
        let number = digits.map(|digits| digits.iter().fold(0, |n, d| n << 4 | u128::from(*d)));
        Some(number.map(|number| IpAddr::from(Ipv6Addr::from(number))))
    };
    v4().or_else(v6)
}

fn digit(text: &str) -> Option<u8> {
    match text.len() {
        1 => u8::from_str_radix(text, 16).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let names = Names::default();
        let list = |texts: &[&str]| -> Vec<IpAddr> {
            let parse = |text: &&str| text.parse().expect("an address");
            texts.iter().map(parse).collect()
        };
        names.set("m1", list(&["10.0.0.1", "fd00::1"]));
        names.set("v4only", list(&["10.0.0.2"]));
        let many = (0..200).map(|n| IpAddr::from([10, 1, 0, n]));
        names.set("many", many);
        Zone {
            names,
            domain: "lab".into(),
            denies: false,
        }
    }

    fn query(name: &str, kind: TYPE) -> Packet<'_> {
        let mut query = Packet::new_query(77);
        let name = Name::new(name).expect("a name");
        let question = Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
        query.questions.push(question);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        query
    }

    /// The reply's bytes, read once more, and what is counted.
    fn ask(zone: &Zone, query: &Packet<'_>) -> (Packet<'static>, DnsReport) {
        let report = RefCell::default();
        let bytes = query.build_bytes_vec().expect("bytes");
        let reply = zone.reply(&bytes, None, &report).expect("a reply");
        let reply = Packet::parse(Vec::leak(reply)).expect("a packet");
        assert_eq!(reply.id(), 77);
        assert!(reply.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_DESIRED));
        (reply, report.into_inner())
    }

    fn addresses(packet: &Packet<'_>) -> Vec<IpAddr> {
        let address = |record: &ResourceRecord<'_>| match &record.rdata {
            RData::A(a) => Ipv4Addr::from(a.address).into(),
            RData::AAAA(a) => Ipv6Addr::from(a.address).into(),
            other => panic!("{other:?}"),
        };
        packet.answers.iter().map(address).collect()
    }

    #[test]
    fn names_have_addresses_with_and_without_the_domain() {
        let zone = zone();
        for name in ["m1", "M1.lab", "m1.LAB."] {
            for (kind, address) in [(TYPE::A, "10.0.0.1"), (TYPE::AAAA, "fd00::1")] {
                let (reply, report) = ask(&zone, &query(name, kind));
                assert_eq!(reply.rcode(), RCODE::NoError);
                assert!(reply.has_flags(PacketFlag::AUTHORITATIVE_ANSWER));
                assert_eq!(addresses(&reply), [address.parse::<IpAddr>().expect("one")]);
                // As it was asked for, whatever the case of its letters.
                assert_eq!(reply.answers[0].name, Name::new(name).expect("a name"));
                assert_eq!((report.queries, report.answered), (1, 1));
            }
        }
    }

    #[test]
    fn what_there_is_not_is_said_in_different_ways() {
        let mut zone = zone();
        for (name, kind, code, soa) in [
            ("v4only.lab", TYPE::AAAA, RCODE::NoError, 1),
            ("m1.lab", TYPE::MX, RCODE::NoError, 1),
            ("lab", TYPE::A, RCODE::NoError, 1),
            ("nobody.lab", TYPE::A, RCODE::NameError, 1),
            ("nobody", TYPE::A, RCODE::NameError, 0),
            ("www.m1.lab", TYPE::A, RCODE::NameError, 1),
            ("example.com", TYPE::A, RCODE::Refused, 0),
            ("m1.notlab", TYPE::A, RCODE::Refused, 0),
        ] {
            let (reply, _) = ask(&zone, &query(name, kind));
            assert_eq!(reply.rcode(), code, "{name}");
            assert!(reply.answers.is_empty(), "{name}");
            assert_eq!(reply.name_servers.len(), soa, "{name}");
        }
        zone.denies = true;
        let (reply, _) = ask(&zone, &query("example.com", TYPE::A));
        assert_eq!(reply.rcode(), RCODE::NameError);
    }

    #[test]
    fn addresses_have_names() {
        let zone = zone();
        let zeroes = "0.".repeat(27);
        let v6 = format!("1.{zeroes}0.0.d.f.ip6.arpa");
        for name in ["1.0.0.10.in-addr.arpa", v6.as_str()] {
            let (reply, _) = ask(&zone, &query(name, TYPE::PTR));
            assert_eq!(reply.rcode(), RCODE::NoError, "{name}");
            let RData::PTR(PTR(found)) = &reply.answers[0].rdata else {
                panic!("a PTR")
            };
            assert_eq!(found.to_string(), "m1.lab");
        }
        for name in ["99.0.0.10.in-addr.arpa", "10.in-addr.arpa", "x.ip6.arpa"] {
            let (reply, _) = ask(&zone, &query(name, TYPE::PTR));
            assert_eq!(reply.rcode(), RCODE::NameError, "{name}");
        }
    }

    #[test]
    fn the_table_may_change() {
        let zone = zone();
        zone.names.remove("m1");
        assert_eq!(
            ask(&zone, &query("m1", TYPE::A)).0.rcode(),
            RCODE::NameError
        );
        zone.names.set("m1", [IpAddr::from([10, 9, 9, 9])]);
        let (reply, _) = ask(&zone, &query("m1", TYPE::A));
        assert_eq!(addresses(&reply), [IpAddr::from([10, 9, 9, 9])]);
    }

    #[test]
    fn what_does_not_fit_is_truncated() {
        let zone = zone();
        let mut query = query("many", TYPE::A);
        let (reply, _) = ask(&zone, &query);
        assert!(reply.has_flags(PacketFlag::TRUNCATION) && reply.answers.is_empty());
        assert!(reply.opt().is_none());
        *query.opt_mut() = Some(OPT {
            opt_codes: Vec::new(),
            udp_packet_size: 4096,
            version: 0,
        });
        let (reply, _) = ask(&zone, &query);
        assert!(reply.has_flags(PacketFlag::TRUNCATION));
        assert_eq!(reply.opt().expect("EDNS").udp_packet_size, OUR_DATAGRAM);
        let bytes = query.build_bytes_vec().expect("bytes");
        let whole = zone.reply(&bytes, Some(65535), &RefCell::default());
        let whole = whole.expect("a reply");
        assert_eq!(Packet::parse(&whole).expect("a packet").answers.len(), 200);
    }

    #[test]
    fn nonsense_is_answered_or_not() {
        let zone = zone();
        let report = RefCell::default();
        let ask = |bytes: &[u8]| zone.reply(bytes, None, &report);
        assert_eq!(ask(b""), None);
        assert_eq!(ask(&[0; 11]), None);
        // A reply.
        let reply = Packet::new_reply(1).build_bytes_vec().expect("bytes");
        assert_eq!(ask(&reply), None);
        // Two questions, none, and the end within one.
        let code = |reply: Option<Vec<u8>>| reply.expect("a reply")[3] & 15;
        let mut two = query("m1", TYPE::A);
        two.questions.push(two.questions[0].clone());
        assert_eq!(code(ask(&two.build_bytes_vec().expect("bytes"))), 1);
        let none = Packet::new_query(1).build_bytes_vec().expect("bytes");
        assert_eq!(code(ask(&none)), 1);
        let whole = query("m1", TYPE::A).build_bytes_vec().expect("bytes");
        for end in HEADER..whole.len() {
            assert_eq!(code(ask(&whole[..end])), 1, "{end} bytes");
        }
        // A name that points to itself, and any byte changed.
        let mut loops = whole.clone();
        loops[12..14].copy_from_slice(&[0xc0, 12]);
        ask(&loops);
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                ask(&changed);
            }
        }
        let mut update = query("m1", TYPE::A);
        *update.opcode_mut() = OPCODE::Update;
        assert_eq!(code(ask(&update.build_bytes_vec().expect("bytes"))), 4);
    }
}
