//! Arguments as text: what they are, and what they point to in the program's memory.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::names::{self, flags, name};
use vink_syscalls::Shape;

use crate::notification::Notification;
use crate::scm_rights;
use crate::tracee;

/// Bytes of a buffer, and members of a list, that are shown.
const BYTES: usize = 32;
const MEMBERS: usize = 8;
/// Options of which the value, a `struct sock_fprog`, points to a program.
const FILTERS: [i32; 2] = [libc::SO_ATTACH_FILTER, libc::SO_ATTACH_REUSEPORT_CBPF];
/// Nothing is mapped below, by default (`vm.mmap_min_addr`).
const LOWEST: u64 = 1 << 16;
/// Variables that are counted.
const MOST_VARIABLES: u64 = 1000;

/// A call, and which of its process's descriptors are Vink's.
pub(super) struct Printer<'a> {
    pub(super) call: &'a Notification,
    pub(super) is_vink: &'a dyn Fn(i32) -> bool,
    /// Shows addresses. Where a program has something is no part of what it does: another variable
    /// of the environment moves its stack.
    pub(super) addresses: bool,
}

impl Printer<'_> {
    /// Argument `n` before the call; `None` if only its end will tell.
    pub(super) fn before(&self, n: usize, shape: Shape) -> Option<String> {
        let args = &self.call.args;
        let arg = args[n];
        let int = arg as u32 as i32;
        Some(match shape {
            Shape::Out(_)
            | Shape::OutVector(_)
            | Shape::OutAddress(_)
            | Shape::OutMessage
            | Shape::OutMessages
            | Shape::OutOption(_) => return None,
            Shape::Int => int.to_string(),
            Shape::Size => arg.to_string(),
            Shape::Hex => hexadecimal(arg),
            Shape::At => self.pointer(arg),
            Shape::Fd => self.fd(int),
            Shape::Name(of) => name(names::list(of), int as u32 as u64),
            Shape::Flags(of) => flags(names::list(of), arg & 0xffff_ffff),
            Shape::Type => {
                let (kind, rest) = (arg & 0xf, arg & 0xffff_fff0);
                let bar = if rest != 0 { "|" } else { "" };
                let rest = if rest != 0 {
                    flags(names::TYPE_FLAGS, rest)
                } else {
                    String::new()
                };
                name(names::TYPES, kind) + bar + &rest
            }
            Shape::Protocol => match args[0] as i32 {
                libc::AF_INET | libc::AF_INET6 => name(names::PROTOCOLS, arg),
                libc::AF_NETLINK => name(names::NETLINKS, arg),
                libc::AF_PACKET => format!("htons({:#06x})", (int as u16).swap_bytes()),
                _ => int.to_string(),
            },
            Shape::Text => self.text(arg),
            Shape::Texts => self.texts(arg),
            Shape::Variables => self.variables(arg),
            Shape::In(len) => self.bytes(arg, args[len]),
            Shape::InVector(count) => self.vectors(arg, args[count], u64::MAX),
            Shape::InAddress(len) => self.address(arg, args[len] as u32),
            Shape::Length => match self.u32(arg) {
                Some(length) => format!("[{length}]"),
                None => self.pointer(arg),
            },
            Shape::Offset => match tracee::read_u64(self.call.tid, arg) {
                Some(offset) if arg != 0 => format!("[{}]", offset as i64),
                _ => self.pointer(arg),
            },
            Shape::InMessage => self.message(arg, u64::MAX),
            Shape::InMessages(count) => self.messages(arg, args[count], false),
            Shape::OptionName => name(names::options(args[1]), arg & 0xffff_ffff),
            Shape::InOption(len) => self.option(arg, args[len]),
            Shape::Request => match names::REQUESTS
                .iter()
                .find(|(n, _)| *n == arg & 0xffff_ffff)
            {
                Some((_, name)) => (*name).to_owned(),
                None => format!("{:#x}", arg as u32),
            },
            Shape::Requested => self.requested(args[1] as u32, arg),
            Shape::Commanded => match args[1] as i32 {
                libc::F_SETFL => flags(names::FILE_FLAGS, arg & 0xffff_ffff),
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETOWN => int.to_string(),
                libc::F_GETFL | libc::F_GETOWN => return Some(String::new()),
                _ => self.pointer_or_number(arg),
            },
            Shape::Polled(count) => self.polled(arg, args[count] & 0xffff_ffff),
            Shape::Set => match self.set(arg) {
                Some(set) => self.list(set.len(), set.iter().map(|fd| self.fd(*fd))),
                None => self.pointer(arg),
            },
            Shape::Timespec => self.time(arg, 9),
            Shape::Timeval => self.time(arg, 6),
            Shape::CloneArgs => match tracee::read_u64(self.call.tid, arg) {
                Some(set) => format!("{{flags={}}}", flags(names::CLONES, set)),
                None => self.pointer(arg),
            },
        })
    }

    /// Argument `n` when the call has ended with this result: for those that it fills in.
    pub(super) fn after(&self, n: usize, shape: Shape, result: i64) -> String {
        let args = &self.call.args;
        let arg = args[n];
        let Ok(result) = u64::try_from(result) else {
            return self.pointer(arg);
        };
        match shape {
            Shape::Out(most) => self.bytes(arg, result.min(args[most])),
            Shape::OutVector(count) => self.vectors(arg, args[count], result),
            Shape::OutMessage => self.message(arg, result),
            Shape::OutMessages => self.messages(arg, result, true),
            Shape::OutAddress(len) => match self.u32(args[len]) {
                Some(len) if arg != 0 => self.address(arg, len),
                _ => self.pointer(arg),
            },
            Shape::OutOption(len) => match self.u32(args[len]) {
                Some(len) => self.option(arg, len.into()),
                None => self.pointer(arg),
            },
            _ => self.pointer(arg),
        }
    }

    /// What a call that waits for readiness found, for behind its result.
    pub(super) fn found(&self, n: usize, shape: Shape) -> Option<String> {
        let arg = self.call.args[n];
        match shape {
            Shape::Polled(count) => {
                let count = self.call.args[count].min(1024) as usize;
                let ready: Vec<String> = (0..count)
                    .filter_map(|i| {
                        let pollfd =
                            tracee::read_u64(self.call.tid, arg.wrapping_add(8 * i as u64))?;
                        let events = pollfd >> 48;
                        (events != 0)
                            .then(|| format!("{}: {}", pollfd as i32, flags(names::POLLED, events)))
                    })
                    .collect();
                (!ready.is_empty()).then(|| self.list(ready.len(), ready.into_iter()))
            }
            Shape::Set => {
                let set = self.set(arg).filter(|set| !set.is_empty())?;
                let what = ["", "in", "out", "except"].get(n).unwrap_or(&"");
                let list = self.list(set.len(), set.iter().map(i32::to_string));
                Some(format!("{what} {list}"))
            }
            _ => None,
        }
    }

    /// What points to something that is not shown.
    fn pointer(&self, address: u64) -> String {
        match address {
            0 => "NULL".to_owned(),
            _ if !self.addresses => "&".to_owned(),
            address => hexadecimal(address),
        }
    }

    /// An argument that may be either.
    fn pointer_or_number(&self, arg: u64) -> String {
        match arg {
            1..LOWEST => hexadecimal(arg),
            _ => self.pointer(arg),
        }
    }

    /// A descriptor's number, and whether it is Vink's.
    pub(super) fn fd(&self, fd: i32) -> String {
        match fd {
            libc::AT_FDCWD => "AT_FDCWD".to_owned(),
            _ if (self.is_vink)(fd) => format!("{fd}<vink>"),
            _ => fd.to_string(),
        }
    }

    fn u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        tracee::read(self.call.tid, address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    fn read(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        tracee::read(self.call.tid, address, &mut bytes).then_some(bytes)
    }

    fn bytes(&self, address: u64, len: u64) -> String {
        let shown = len.min(BYTES as u64) as usize;
        match self.read(address, shown) {
            Some(bytes) if address != 0 => quote(&bytes, len > shown as u64),
            _ => self.pointer(address),
        }
    }

    fn text(&self, address: u64) -> String {
        let mut bytes = [0; 256];
        match tracee::read_string(self.call.tid, address, &mut bytes) {
            Some(len) => quote(&bytes[..len], len == bytes.len()),
            None => self.pointer(address),
        }
    }

    fn texts(&self, address: u64) -> String {
        let mut texts = Vec::new();
        while texts.len() <= MEMBERS {
            let at = address.wrapping_add(8 * texts.len() as u64);
            match tracee::read_u64(self.call.tid, at) {
                Some(0) => break,
                Some(text) => texts.push(self.text(text)),
                None => return self.pointer(address),
            }
        }
        self.list(texts.len(), texts.into_iter())
    }

    fn variables(&self, address: u64) -> String {
        let text = |n| tracee::read_u64(self.call.tid, address.wrapping_add(8 * n));
        let count = (0..MOST_VARIABLES).take_while(|n| text(*n).is_some_and(|text| text != 0));
        match text(0) {
            Some(_) => format!("/* {} vars */", count.count()),
            None => self.pointer(address),
        }
    }

    /// Members in brackets, as many as are worth showing.
    fn list(&self, len: usize, members: impl Iterator<Item = String>) -> String {
        let mut text = String::from("[");
        for (n, member) in members.take(MEMBERS).enumerate() {
            text += if n > 0 { ", " } else { "" };
            text += &member;
        }
        text += if len > MEMBERS { ", ...]" } else { "]" };
        text
    }

    /// `struct iovec`s, of whose buffers `filled` bytes in all are of interest.
    fn vectors(&self, address: u64, count: u64, mut filled: u64) -> String {
        let shown = count.min(MEMBERS as u64 + 1) as usize;
        let Some(bytes) = self.read(address, 16 * shown) else {
            return self.pointer(address);
        };
        let buffers = bytes.chunks_exact(16).map(|vector| {
            let (base, len) = (number(&vector[..8]), number(&vector[8..]));
            let here = len.min(filled);
            filled -= here;
            self.bytes(base, here)
        });
        self.list(shown, buffers)
    }

    fn address(&self, address: u64, len: u32) -> String {
        match self.read(address, len.min(128) as usize) {
            Some(bytes) if address != 0 => socket_address(&bytes),
            _ => self.pointer(address),
        }
    }

    /// A `struct msghdr`, of whose buffers `filled` bytes in all are of interest.
    fn message(&self, address: u64, filled: u64) -> String {
        let Some(header) = self.read(address, 56) else {
            return self.pointer(address);
        };
        let word = |n: usize| number(&header[8 * n..8 * n + 8]);
        let mut text = String::from("{");
        if word(0) != 0 {
            let _ = write!(text, "{}, ", self.address(word(0), word(1) as u32));
        }
        text += &self.vectors(word(2), word(3), filled);
        if word(4) != 0 && word(5) != 0 {
            let _ = write!(text, ", control={}", self.control(word(4), word(5)));
        }
        if word(6) as u32 != 0 {
            let _ = write!(
                text,
                ", flags={}",
                flags(names::MESSAGE_FLAGS, word(6) & 0xffff_ffff)
            );
        }
        text + "}"
    }

    /// `struct mmsghdr`s; with lengths if they have been filled in.
    fn messages(&self, address: u64, count: u64, filled: bool) -> String {
        let shown = count.min(MEMBERS as u64 + 1);
        let messages = (0..shown).map(|n| {
            let at = address.wrapping_add(64 * n);
            let len = self.u32(at.wrapping_add(56)).unwrap_or(0);
            match filled {
                true => self.message(at, len.into()),
                false => self.message(at, u64::MAX),
            }
        });
        self.list(shown as usize, messages)
    }

    /// The headers of control data, and the descriptors among it.
    fn control(&self, address: u64, len: u64) -> String {
        let Some(bytes) = self.read(address, len.min(4096) as usize) else {
            return self.pointer(address);
        };
        let items: Vec<String> = scm_rights::control(&bytes)
            .map(|(level, kind, data)| match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let fds = data.chunks_exact(4).map(|fd| number(fd) as i32);
                    let fds = self.list(data.len() / 4, fds.map(|fd| self.fd(fd)));
                    format!("SCM_RIGHTS {fds}")
                }
                _ => {
                    let (level, data) = (level as u32 as u64, data.len());
                    let kind = name(names::options(level), kind as u32 as u64);
                    format!("{} {kind}: {data} bytes", name(names::LEVELS, level))
                }
            })
            .collect();
        self.list(items.len(), items.into_iter())
    }

    /// A socket option's value: text, or what looks like integers.
    fn option(&self, address: u64, len: u64) -> String {
        let len = len & 0xffff_ffff;
        let args = &self.call.args;
        let (level, name) = (args[1] as i32, args[2] as i32);
        if level == libc::SOL_SOCKET && FILTERS.contains(&name) && len == 16 {
            return match (
                self.u32(address),
                tracee::read_u64(self.call.tid, address.wrapping_add(8)),
            ) {
                (Some(count), Some(at)) => self.bytes(at, u64::from(count & 0xffff) * 8),
                _ => self.pointer(address),
            };
        }
        if names::is_text(args[1], args[2]) || !len.is_multiple_of(4) || len > 16 {
            return self.bytes(address, len);
        }
        let Some(bytes) = self.read(address, len as usize).filter(|_| address != 0) else {
            return self.pointer(address);
        };
        let integers = bytes
            .chunks_exact(4)
            .map(|i| (number(i) as i32).to_string());
        self.list(bytes.len() / 4, integers)
    }

    fn requested(&self, request: u32, arg: u64) -> String {
        const WITHOUT_NAME: [u32; 3] = [0x8912, 0x8946, 0x8970];
        match request {
            0x5421 | 0x5452 => match self.u32(arg) {
                Some(on) => format!("[{on}]"),
                None => self.pointer(arg),
            },
            // A `struct ifreq`, which begins with the interface's name, whatever comes behind it.
            0x8910..=0x89af if !WITHOUT_NAME.contains(&request) => match self.read(arg, 16) {
                Some(name) => {
                    let len = name.iter().position(|b| *b == 0).unwrap_or(16);
                    format!("{{{}, ...}}", quote(&name[..len], false))
                }
                None => self.pointer(arg),
            },
            _ => self.pointer_or_number(arg),
        }
    }

    fn polled(&self, address: u64, count: u64) -> String {
        let shown = count.min(MEMBERS as u64 + 1) as usize;
        let Some(bytes) = self.read(address, 8 * shown) else {
            return self.pointer(address);
        };
        let members = bytes.chunks_exact(8).map(|pollfd| {
            let pollfd = number(pollfd);
            let events = flags(names::POLLED, pollfd >> 32 & 0xffff);
            format!("{{{}, {events}}}", self.fd(pollfd as i32))
        });
        self.list(shown, members)
    }

    /// The descriptors in a set of select(2).
    fn set(&self, address: u64) -> Option<Vec<i32>> {
        let count = (self.call.args[0] as i32).clamp(0, 4096);
        if address == 0 {
            return None;
        }
        let bytes = self.read(address, (count as usize).div_ceil(64) * 8)?;
        let is_in = |fd: &i32| bytes[*fd as usize / 8] & 1 << (fd % 8) != 0;
        Some((0..count).filter(is_in).collect())
    }

    /// Seconds, with so many decimal places.
    fn time(&self, address: u64, places: usize) -> String {
        let there = |at| tracee::read_u64(self.call.tid, at);
        match (there(address), there(address.wrapping_add(8))) {
            (Some(seconds), Some(part)) => {
                let text = format!("{}.{:0places$}", seconds as i64, part as i64);
                format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => self.pointer(address),
        }
    }
}

/// Eight bytes at most, as a number.
fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(all)
}

/// In hexadecimal, as flags and addresses are shown.
fn hexadecimal(number: u64) -> String {
    match number {
        0 => "0".to_owned(),
        number => format!("{number:#x}"),
    }
}

fn quote(bytes: &[u8], more: bool) -> String {
    let dots = if more { "..." } else { "" };
    format!("\"{}\"{dots}", bytes.escape_ascii())
}

/// A `struct sockaddr` of any family.
fn socket_address(bytes: &[u8]) -> String {
    let Some(family) = bytes.get(..2).map(|f| number(f) as i32) else {
        return format!("{{{}}}", quote(bytes, false));
    };
    let port = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    let kind = name(names::FAMILIES, family as u64);
    let rest = match family {
        libc::AF_INET if bytes.len() >= 8 => {
            let address: [u8; 4] = bytes[4..8].try_into().expect("four bytes");
            SocketAddrV4::new(Ipv4Addr::from(address), port(bytes)).to_string()
        }
        libc::AF_INET6 if bytes.len() >= 24 => {
            let address: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            let scope = bytes.get(24..28).map_or(0, |s| number(s) as u32);
            SocketAddrV6::new(Ipv6Addr::from(address), port(bytes), 0, scope).to_string()
        }
        libc::AF_UNIX => {
            let path = &bytes[2..];
            // An abstract name begins with a NUL and ends with the address.
            let end = path
                .iter()
                .skip(1)
                .position(|b| *b == 0)
                .map_or(path.len(), |n| n + 1);
            match path.first() {
                Some(0) | None => quote(path, false),
                Some(_) => quote(&path[..end], false),
            }
        }
        libc::AF_NETLINK if bytes.len() >= 12 => {
            format!(
                "pid={} groups={:#x}",
                number(&bytes[4..8]),
                number(&bytes[8..12])
            )
        }
        libc::AF_PACKET if bytes.len() >= 8 => {
            let interface = number(&bytes[4..8]);
            format!("protocol={:#06x} interface={interface}", port(bytes))
        }
        _ => quote(&bytes[2..], false),
    };
    format!("{{{kind} {rest}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let text = |family: i32, rest: &[u8]| {
            socket_address(&[&(family as u16).to_ne_bytes()[..], rest].concat())
        };
        let v4 = [0, 80, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(text(libc::AF_INET, &v4), "{AF_INET 10.1.2.3:80}");
        assert_eq!(text(libc::AF_INET, &v4[..3]), r#"{AF_INET "\x00P\n"}"#);
        let mut v6 = [0; 26];
        (v6[1], v6[21], v6[22]) = (53, 1, 7);
        assert_eq!(text(libc::AF_INET6, &v6), "{AF_INET6 [::1%7]:53}");
        assert_eq!(
            text(libc::AF_UNIX, b"/run/x\0\0\0"),
            r#"{AF_UNIX "/run/x"}"#
        );
        assert_eq!(text(libc::AF_UNIX, b"\0name"), r#"{AF_UNIX "\x00name"}"#);
        assert_eq!(text(libc::AF_UNIX, b""), r#"{AF_UNIX ""}"#);
        assert_eq!(
            text(libc::AF_NETLINK, &[0, 0, 5, 0, 0, 0, 3, 0, 0, 0]),
            "{AF_NETLINK pid=5 groups=0x3}"
        );
        assert_eq!(text(99, b"x"), r#"{99 "x"}"#);
        assert_eq!(socket_address(b"x"), r#"{"x"}"#);
        assert_eq!(socket_address(b""), r#"{""}"#);
    }

    /// Argument `n` of a call of our own, before it and after its result.
    fn shown(nr: i64, args: [u64; 6], n: usize, result: i64) -> String {
        let call = Notification {
            id: 0,
            tid: vink_sys::process::gettid(),
            nr,
            args,
        };
        let printer = Printer {
            call: &call,
            is_vink: &|fd| fd == 3,
            addresses: true,
        };
        let shape = vink_syscalls::shapes(nr).unwrap()[n];
        let before = printer.before(n, shape);
        before.unwrap_or_else(|| printer.after(n, shape, result))
    }

    #[test]
    fn numbers() {
        let socket = |args: [u64; 3]| {
            let args = [args[0], args[1], args[2], 0, 0, 0];
            [0, 1, 2]
                .map(|n| shown(libc::SYS_socket, args, n, 0))
                .join(", ")
        };
        assert_eq!(
            socket([2, 0x80801, 6]),
            "AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, IPPROTO_TCP"
        );
        assert_eq!(socket([16, 3, 0]), "AF_NETLINK, SOCK_RAW, NETLINK_ROUTE");
        assert_eq!(
            socket([17, 2, 0x300]),
            "AF_PACKET, SOCK_DGRAM, htons(0x0003)"
        );
        assert_eq!(shown(libc::SYS_close, [3, 0, 0, 0, 0, 0], 0, 0), "3<vink>");
        assert_eq!(shown(libc::SYS_close, [4, 0, 0, 0, 0, 0], 0, 0), "4");
        assert_eq!(
            shown(libc::SYS_close, [u64::MAX, 0, 0, 0, 0, 0], 0, 0),
            "-1"
        );
    }

    #[test]
    fn memory() {
        let text = b"some\ttext that is longer than what is shown";
        let (at, len) = (text.as_ptr() as u64, text.len() as u64);
        let start = r#""some\ttext that is longer than wh"..."#;
        assert_eq!(shown(libc::SYS_write, [1, at, len, 0, 0, 0], 1, 0), start);
        assert_eq!(
            shown(libc::SYS_read, [1, at, len, 0, 0, 0], 1, 4),
            r#""some""#
        );
        assert_eq!(
            shown(libc::SYS_read, [1, at, len, 0, 0, 0], 1, -5),
            format!("{at:#x}")
        );
        for bad in [0, 8, 0xffff_8000_0000_0000, u64::MAX] {
            for (nr, count) in [
                (libc::SYS_write, 3),
                (libc::SYS_sendmsg, 3),
                (libc::SYS_recvmmsg, 5),
                (libc::SYS_ppoll, 4),
                (libc::SYS_select, 5),
                (libc::SYS_setsockopt, 5),
                (libc::SYS_execve, 3),
                (libc::SYS_ioctl, 3),
            ] {
                for n in 0..count {
                    let args = [bad; 6];
                    assert!(shown(nr, args, n, 1).len() < 500);
                }
            }
        }
    }

    #[test]
    fn structures() {
        let on = [1i32, 5];
        let at = on.as_ptr() as u64;
        let linger = [3, libc::SOL_SOCKET as u64, libc::SO_LINGER as u64, at, 8, 0];
        assert_eq!(shown(libc::SYS_setsockopt, linger, 2, 0), "SO_LINGER");
        assert_eq!(shown(libc::SYS_setsockopt, linger, 3, 0), "[1, 5]");
        // `struct sock_fprog`: the program, not where it is.
        let program = [0x06u64, 0x16];
        let filter = [2, program.as_ptr() as u64];
        let attach = libc::SO_ATTACH_FILTER as u64;
        let args = [
            3,
            libc::SOL_SOCKET as u64,
            attach,
            filter.as_ptr() as u64,
            16,
            0,
        ];
        assert_eq!(
            shown(libc::SYS_setsockopt, args, 3, 0),
            r#""\x06\x00\x00\x00\x00\x00\x00\x00\x16\x00\x00\x00\x00\x00\x00\x00""#
        );
        let polled = [libc::pollfd {
            fd: 3,
            events: libc::POLLIN,
            revents: 0,
        }];
        let args = [polled.as_ptr() as u64, 1, 0, 0, 0, 0];
        assert_eq!(shown(libc::SYS_poll, args, 0, 0), "[{3<vink>, POLLIN}]");
        let set = [0b1001_0000u64];
        let args = [8, set.as_ptr() as u64, 0, 0, 0, 0];
        assert_eq!(shown(libc::SYS_select, args, 1, 0), "[4, 7]");
        let data = *b"data";
        let vector = [data.as_ptr() as u64, 4];
        let header = [
            0,
            0,
            vector.as_ptr() as u64,
            1,
            0,
            0,
            libc::MSG_TRUNC as u64,
        ];
        let args = [3, header.as_ptr() as u64, 0, 0, 0, 0];
        assert_eq!(
            shown(libc::SYS_sendmsg, args, 1, 0),
            r#"{["data"], flags=MSG_TRUNC}"#
        );
        assert_eq!(
            shown(libc::SYS_recvmsg, args, 1, 2),
            r#"{["da"], flags=MSG_TRUNC}"#
        );
        let time = [1u64, 500_000];
        let args = [0, 0, 0, 0, time.as_ptr() as u64, 0];
        assert_eq!(shown(libc::SYS_select, args, 4, 0), "1.5s");
    }
}
