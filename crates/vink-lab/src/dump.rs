//! A machine's interfaces and their addresses, as the kernel lists them (RTM_GETLINK, RTM_GETADDR
//! of rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use vink_kernel::Kernel;
use vink_spec::INTERFACE_NUMBERS;

use crate::{Error, NetworkConfig};
use vink_sys::netlink::{attributes, dump_request, messages, Part};

const IFLA_STATS64: u16 = 23;
const IFLA_CARRIER: u16 = 33;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// Bytes that the kernel puts into one answer at most, as ip(8) expects.
const ANSWER: usize = 32 << 10;

/// An interface as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) counters: Vec<(&'static str, u64)>,
}

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Qdisc {
    /// Of its interface.
    pub(crate) index: u32,
    pub(crate) handle: u32,
    pub(crate) is_root: bool,
    pub(crate) numbers: Vec<(&'static str, u64)>,
}

impl NetworkConfig {
    /// All interfaces but `lo`, without their addresses.
    pub(crate) fn links(&self, kernel: &mut Kernel) -> Result<Vec<Listed>, Error> {
        let mut all = Vec::new();
        // struct ifinfomsg.
        let links = dump_request(libc::RTM_GETLINK, &[0; 16]);
        self.dump(kernel, &links, |body| all.extend(link(body)))?;
        Ok(all)
    }

    /// All queueing disciplines; see tc(8).
    pub(crate) fn qdiscs(&self, kernel: &mut Kernel) -> Result<Vec<Qdisc>, Error> {
        let mut all = Vec::new();
        // struct tcmsg.
        let request = dump_request(libc::RTM_GETQDISC, &[0; 20]);
        self.dump(kernel, &request, |body| all.extend(qdisc(body)))?;
        Ok(all)
    }

    /// All interfaces but `lo`.
    pub(crate) fn interfaces(&self, kernel: &mut Kernel) -> Result<Vec<Listed>, Error> {
        let mut all = self.links(kernel)?;
        // struct ifaddrmsg.
        let addresses = dump_request(libc::RTM_GETADDR, &[0; 8]);
        self.dump(kernel, &addresses, |body| {
            let Some((index, address)) = address(body) else {
                return;
            };
            if let Some(its) = all.iter_mut().find(|listed| listed.index == index) {
                its.addresses.push(address);
            }
        })?;
        Ok(all)
    }

    /// Asks for a list and hands over the body of each message of it.
    fn dump(
        &self,
        kernel: &mut Kernel,
        request: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let what = || "listing interfaces".to_owned();
        let (bytes, len) = (request.as_ptr() as u64, request.len() as u64);
        let args = [self.socket(), bytes, len, 0, 0, 0];
        self.sys(kernel, libc::SYS_sendto, args, what)?;
        let mut answer = vec![0u8; ANSWER];
        loop {
            let flags = libc::MSG_DONTWAIT as u64;
            let (room, len) = (answer.as_mut_ptr() as u64, answer.len() as u64);
            let args = [self.socket(), room, len, flags, 0, 0];
            let got = self.sys(kernel, libc::SYS_recvfrom, args, what)? as usize;
            for part in messages(&answer[..got]) {
                match part {
                    Part::Message(body) => each(body),
                    Part::Done => return Ok(()),
                    Part::Error(errno) => {
                        let why = String::new();
                        let what = what();
                        return Err(Error::Refused { what, errno, why });
                    }
                }
            }
        }
    }
}

/// From the body of an RTM_NEWLINK.
fn link(body: &[u8]) -> Option<Listed> {
    let (header, rest) = body.split_at_checked(16)?;
    let flags = u32::from_ne_bytes(header[8..12].try_into().ok()?) as i32;
    if flags & libc::IFF_LOOPBACK != 0 {
        return None;
    }
    let mut listed = Listed {
        index: u32::from_ne_bytes(header[4..8].try_into().ok()?),
        up: flags & libc::IFF_UP != 0,
        ..Listed::default()
    };
    for (kind, value) in attributes(rest) {
        match kind {
            libc::IFLA_IFNAME => {
                let name = String::from_utf8_lossy(value);
                listed.name = name.trim_end_matches('\0').to_owned();
            }
            libc::IFLA_ADDRESS => listed.mac = value.try_into().unwrap_or_default(),
            IFLA_CARRIER => listed.carrier = value.first() == Some(&1),
            IFLA_STATS64 => {
                let words = value.chunks_exact(8);
                let numbers = words.map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes")));
                listed.counters = INTERFACE_NUMBERS.into_iter().zip(numbers).collect();
            }
            _ => {}
        }
    }
    Some(listed)
}

/// From the body of an RTM_NEWQDISC.
fn qdisc(body: &[u8]) -> Option<Qdisc> {
    const TC_H_ROOT: u32 = u32::MAX;
    let (header, rest) = body.split_at_checked(20)?;
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(four.try_into().ok()?))
    };
    let mut numbers = Vec::new();
    let statistics = attributes(rest).filter(|(kind, _)| *kind == TCA_STATS2);
    for (kind, value) in statistics.flat_map(|(_, value)| attributes(value)) {
        match kind {
            // struct gnet_stats_basic.
            TCA_STATS_BASIC => {
                let bytes = u64::from_ne_bytes(*value.first_chunk()?);
                numbers.push(("bytes", bytes));
                numbers.push(("packets", word(value, 8)?.into()));
            }
            // struct gnet_stats_queue.
            TCA_STATS_QUEUE => {
                let names = ["qlen", "backlog", "drops", "requeues", "overlimits"];
                for (at, name) in names.into_iter().enumerate() {
                    numbers.push((name, word(value, 4 * at)?.into()));
                }
            }
            _ => {}
        }
    }
    Some(Qdisc {
        index: word(header, 4)?,
        handle: word(header, 8)?,
        is_root: word(header, 12)? == TC_H_ROOT,
        numbers,
    })
}

/// From the body of an RTM_NEWADDR: an interface's index, and its own address there.
fn address(body: &[u8]) -> Option<(u32, IpNet)> {
    let (header, rest) = body.split_at_checked(8)?;
    let index = u32::from_ne_bytes(header[4..8].try_into().ok()?);
    let mut found = None;
    for (kind, value) in attributes(rest) {
        // The address of the other side, of a point-to-point link, comes first.
        if kind == libc::IFA_LOCAL || kind == libc::IFA_ADDRESS && found.is_none() {
            found = Some(value);
        }
    }
    let value = found?;
    let address = match value.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?)),
    };
    Some((index, IpNet::new(address, header[1]).ok()?))
}
