//! The rules that keep packets to shared ports from the host's stack, which would answer them with
//! resets: a table of nf_tables, by nfnetlink.
//!
//! The table has an owner, the socket that has made it (`NFT_TABLE_F_OWNER`, Linux 5.12). No other
//! process changes it, and it goes with the socket, however this process ends.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use vink_sys::netlink::Message;
use vink_sys::rustix::net::netlink::{SocketAddrNetlink, NETFILTER};
use vink_sys::rustix::net::{
    bind, getsockname, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags,
    SocketType,
};

use super::guard::Protocol;
use super::ports::Reserved;

// Of linux/netfilter/nfnetlink.h and nf_tables.h.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NFTABLES: u16 = 10;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;
/// IPv4 and IPv6.
const INET: u8 = 1;
const OWNER: u32 = 2;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// Registers: one of 16 bytes, and two of 4 in a row.
const WIDE: u32 = 1;
const FIRST: u32 = 8;
const SECOND: u32 = 9;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// Before connections are tracked, as chains of type filter at `raw` are.
const PRIORITY: i32 = -300;
const PRE_ROUTING: u32 = 0;
const LOCAL_OUT: u32 = 3;
/// An element of lists.
const ELEMENT: u16 = 1;
/// `inet_proto . inet_service`, as nft(8) names it when it lists the set.
const KEY_TYPE: u32 = 12 << 6 | 13;
/// Ports of one message: an attribute has at most 64 KiB.
const CHUNK: usize = 1000;

const SET: &str = "ports";
const IN: &str = "in";
const OUT: &str = "out";

/// The table. It is gone with this, and with the same of all other processes.
pub struct Rules {
    socket: OwnedFd,
    table: String,
}

impl Rules {
    /// Drops what comes to these ports at these addresses, before the host's stack has it, and has what
    /// leaves from them not tracked as connections of the host's.
    ///
    /// # Errors
    /// As the host's nf_tables has it: what is missing there, or a right.
    pub fn load(addresses: &[IpAddr], ports: &Reserved) -> io::Result<Rules> {
        match Rules::with(addresses, ports, true) {
            // A host that tracks no connections has no `notrack` either.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                Rules::with(addresses, ports, false)
            }
            loaded => loaded,
        }
    }

    fn with(addresses: &[IpAddr], ports: &Reserved, untracked: bool) -> io::Result<Rules> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(NETFILTER))?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let own: SocketAddrNetlink = getsockname(&socket)?.try_into()?;
        let name = format!("vink-share-{}", own.pid());
        let mut batch = Batch::new();
        batch.add(NEW_TABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, |m| {
            number(m.text(1, &name), 2, OWNER)
        });
        batch.add(NEW_SET, libc::NLM_F_CREATE, |m| {
            let m = m.text(1, &name).text(2, SET);
            let m = number(number(m, 3, 0), 4, KEY_TYPE);
            number(number(m, 5, 8), 10, 1)
        });
        let keys: Vec<[u8; 8]> = [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .flat_map(|protocol| {
                let numbers = ports.of(protocol).iter();
                numbers.map(move |port| key(protocol, port))
            })
            .collect();
        for keys in keys.chunks(CHUNK) {
            batch.add(NEW_ELEMENTS, libc::NLM_F_CREATE, |m| {
                elements(m, &name, keys)
            });
        }
        for (chain, hook) in [(IN, PRE_ROUTING), (OUT, LOCAL_OUT)] {
            batch.add(NEW_CHAIN, libc::NLM_F_CREATE, |m| {
                let m = m.text(1, &name).text(3, chain);
                m.nest(4, |m| number(number(m, 1, hook), 2, PRIORITY as u32))
                    .text(7, "filter")
            });
        }
        for is_v4 in [true, false] {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
            batch.add(NEW_RULE, flags, |m| {
                let m = m.text(1, &name).text(2, IN);
                m.nest(4, |m| verdict(is_later_fragment(m, is_v4), ACCEPT))
            });
        }
        for address in addresses {
            let mut rule = |chain, of_sender, end: &dyn Fn(Message) -> Message| {
                let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
                batch.add(NEW_RULE, flags, |m| {
                    let m = m.text(1, &name).text(2, chain);
                    m.nest(4, |m| end(is_shared(m, *address, of_sender)))
                });
            };
            rule(IN, false, &|m| verdict(counter(m), DROP));
            if untracked {
                rule(OUT, true, &|m| expression(m, "notrack", |m| m));
            }
        }
        batch.commit(&socket)?;
        Ok(Rules {
            socket,
            table: name,
        })
    }

    /// The same table for another process.
    ///
    /// # Errors
    /// The host is out of descriptors.
    pub fn try_clone(&self) -> io::Result<Rules> {
        Ok(Rules {
            socket: self.socket.try_clone()?,
            table: self.table.clone(),
        })
    }

    /// One more port, or one less.
    ///
    /// # Errors
    /// As nf_tables has it: it takes `CAP_NET_ADMIN`.
    pub fn change(&self, protocol: Protocol, port: u16, add: bool) -> io::Result<()> {
        let (kind, flags) = match add {
            true => (NEW_ELEMENTS, libc::NLM_F_CREATE),
            false => (DELETE_ELEMENTS, 0),
        };
        let mut batch = Batch::new();
        batch.add(kind, flags, |m| {
            elements(m, &self.table, &[key(protocol, port)])
        });
        batch.commit(&self.socket)
    }
}

/// Elements of the set of a table.
fn elements(m: Message, table: &str, keys: &[[u8; 8]]) -> Message {
    m.text(1, table).text(2, SET).nest(3, |m| {
        keys.iter().fold(m, |m, key| {
            m.nest(ELEMENT, |m| m.nest(1, |m| m.attr(1, key)))
        })
    })
}

/// Messages that come into force together.
struct Batch {
    bytes: Vec<u8>,
    last: u32,
}

impl Batch {
    fn new() -> Batch {
        let mut batch = Batch {
            bytes: Vec::new(),
            last: 0,
        };
        batch.edge(BATCH_BEGIN);
        batch
    }

    fn push(&mut self, mut message: Vec<u8>) {
        // Its number, which the answer has.
        message[8..12].copy_from_slice(&self.last.to_ne_bytes());
        self.bytes.extend(message);
    }

    fn edge(&mut self, kind: u16) {
        // struct nfgenmsg: a family, version 0, the subsystem.
        let [high, low] = NFTABLES.to_be_bytes();
        let mut message = Message::new(kind, 0, &[0, 0, high, low]).finish();
        // Not answered.
        message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        self.push(message);
    }

    fn add(&mut self, kind: u16, flags: i32, fill: impl FnOnce(Message) -> Message) {
        let message = Message::new(NFTABLES << 8 | kind, flags, &[INET, 0, 0, 0]);
        self.last += 1;
        self.push(fill(message).finish());
    }

    /// Sends all, and reads the answers.
    fn commit(mut self, socket: &OwnedFd) -> io::Result<()> {
        let last = self.last;
        self.edge(BATCH_END);
        send(socket, &self.bytes, SendFlags::empty())?;
        let mut buffer = [0; 16 << 10];
        loop {
            let (got, _) = recv(socket, &mut buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..got];
            while let Some(header) = rest.first_chunk::<20>() {
                let word = |at: usize| {
                    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                };
                let (number, error) = (word(8), word(16) as i32);
                if error != 0 {
                    return Err(io::Error::from_raw_os_error(-error));
                }
                if number == last {
                    return Ok(());
                }
                let length = (word(0) as usize).next_multiple_of(4).max(header.len());
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}

/// A protocol and a port, as two registers have them.
fn key(protocol: Protocol, port: u16) -> [u8; 8] {
    let [high, low] = port.to_be_bytes();
    [protocol.number(), 0, 0, 0, high, low, 0, 0]
}

/// An attribute that is a number.
fn number(m: Message, kind: u16, value: u32) -> Message {
    m.attr(kind, &value.to_be_bytes())
}

fn expression(m: Message, name: &str, fill: impl FnOnce(Message) -> Message) -> Message {
    m.nest(ELEMENT, |m| m.text(1, name).nest(2, fill))
}

/// A packet is a later fragment, which has no ports: some Linux take its data for them.
fn is_later_fragment(m: Message, is_v4: bool) -> Message {
    let (family, at, mask) = match is_v4 {
        true => (libc::NFPROTO_IPV4, 6, 0x1fff_u16),
        // Behind the header of 40 bytes is that of fragments.
        false => (libc::NFPROTO_IPV6, 42, 0xfff8),
    };
    let mut m = equals(meta(m, META_NFPROTO, WIDE), &[family as u8]);
    if !is_v4 {
        let next = load(m, NETWORK_HEADER, 6, 1, WIDE);
        m = equals(next, &[libc::IPPROTO_FRAGMENT as u8]);
    }
    let m = load(m, NETWORK_HEADER, at, 2, WIDE);
    let m = expression(m, "bitwise", |m| {
        let m = number(number(number(m, 1, WIDE), 2, WIDE), 3, 2);
        m.nest(4, |m| m.attr(1, &mask.to_be_bytes()))
            .nest(5, |m| m.attr(1, &[0, 0]))
    });
    compare(m, UNEQUAL, &[0, 0])
}

/// A packet's receiver, or its sender, is one of the ports at this address.
fn is_shared(m: Message, address: IpAddr, of_sender: bool) -> Message {
    let (family, bytes, at) = match address {
        IpAddr::V4(a) => (libc::NFPROTO_IPV4, a.octets().to_vec(), [16, 12]),
        IpAddr::V6(a) => (libc::NFPROTO_IPV6, a.octets().to_vec(), [24, 8]),
    };
    let port = if of_sender { 0 } else { 2 };
    let m = equals(meta(m, META_NFPROTO, WIDE), &[family as u8]);
    let m = load(
        m,
        NETWORK_HEADER,
        at[usize::from(of_sender)],
        bytes.len() as u32,
        WIDE,
    );
    let m = equals(m, &bytes);
    let m = meta(m, META_L4PROTO, FIRST);
    let m = load(m, TRANSPORT_HEADER, port, 2, SECOND);
    expression(m, "lookup", |m| number(m.text(1, SET), 2, FIRST))
}

fn meta(m: Message, key: u32, register: u32) -> Message {
    expression(m, "meta", |m| number(number(m, 1, register), 2, key))
}

/// Bytes of a header into a register.
fn load(m: Message, header: u32, at: u32, length: u32, register: u32) -> Message {
    expression(m, "payload", |m| {
        number(
            number(number(number(m, 1, register), 2, header), 3, at),
            4,
            length,
        )
    })
}

/// The wide register has these bytes.
fn equals(m: Message, bytes: &[u8]) -> Message {
    compare(m, EQUAL, bytes)
}

fn compare(m: Message, how: u32, bytes: &[u8]) -> Message {
    expression(m, "cmp", |m| {
        number(number(m, 1, WIDE), 2, how).nest(3, |m| m.attr(1, bytes))
    })
}

fn counter(m: Message) -> Message {
    expression(m, "counter", |m| m)
}

fn verdict(m: Message, code: u32) -> Message {
    expression(m, "immediate", |m| {
        number(m, 1, 0).nest(2, |m| m.nest(2, |m| number(m, 1, code)))
    })
}
