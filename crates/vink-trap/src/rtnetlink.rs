//! Network namespaces that rtnetlink(7) messages name, by a descriptor or a process of the host's.
//!
//! `ip link set veth1 netns NAME` sends the number of a descriptor in the payload of a message,
//! where the kernel looks it up among the task's. So such a message is copied, with a number in it
//! that the task has for the same namespace, and the copy is sent. All others go as they are.

use vink_syscalls::{blocks, shapes, Blocks, Shape};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

/// Longer messages go as they are; ip(8)'s are of a few hundred bytes.
const LONGEST: usize = 64 << 10;
const IOVEC: usize = size_of::<libc::iovec>();
/// Of `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER: usize = 16;
/// Of `struct nlattr`.
const ATTRIBUTE: usize = 4;

/// Where a message names a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    /// Of the attribute's type, 2 bytes before its value.
    at: usize,
    /// The attribute for a descriptor, into which one for a process is turned.
    by_descriptor: u16,
    is_process: bool,
}

impl Tasks {
    /// The result of a call on an rtnetlink socket, if it sends a message that has to be changed: it
    /// is sent.
    pub(crate) fn send_changed(
        &mut self,
        call: SyscallCtx,
        to: &Entry,
    ) -> Result<Option<i64>, Error> {
        let message = match shapes(call.nr) {
            Some([_, Shape::InMessage, ..]) => gather(call.tid, call.args[1]),
            Some([_, Shape::In(len), ..]) => {
                let len = usize::try_from(call.args[*len]).unwrap_or(usize::MAX);
                fetch(call.tid, call.args[1], len)
            }
            _ => return Ok(None),
        };
        let Some(mut message) = message else {
            return Ok(None);
        };
        let references = references(&message);
        if references.is_empty() {
            return Ok(None);
        }
        let Ok(task) = self.try_task_of(call.tid)? else {
            return Ok(None);
        };
        let mut opened = Vec::new();
        for reference in references {
            let value = reference.at + 2;
            let number = &message[value..value + 4];
            let number = i32::from_ne_bytes(number.try_into().expect("four bytes"));
            let key = match reference.is_process {
                true => {
                    let pid = self.table.number_of(call.tid, number);
                    // The one that its first thread was last seen in.
                    let pid = pid.filter(|pid| self.table.has_process(*pid));
                    pid.and_then(|pid| tracee::network(pid).map(|(key, _)| key))
                }
                false => tracee::descriptor(call.pid, number),
            };
            // What is no namespace of ours is none at all.
            let found = match key {
                Some(key) => self.open_network(task, key).or_else(to_errno_result)?,
                None => -1,
            };
            opened.extend(u64::try_from(found).ok());
            let kind = reference.by_descriptor.to_ne_bytes();
            message[reference.at..value].copy_from_slice(&kind);
            message[value..value + 4].copy_from_slice(&(found as i32).to_ne_bytes());
        }
        let flags = match blocks(call.nr) {
            Blocks::Sends(Some(flags)) => call.args[flags],
            _ => 0,
        };
        let (from, len) = (message.as_ptr() as u64, message.len() as u64);
        let args = [to.number as u64, from, len, flags, 0, 0];
        let sent = self.kernel.run_call(task, libc::SYS_sendto, args)?;
        for number in opened {
            self.kernel
                .run_call(task, libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
        }
        Ok(Some(sent))
    }
}

fn fetch(tid: i32, address: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; Some(len).filter(|len| *len <= LONGEST)?];
    tracee::read(tid, address, &mut bytes).then_some(bytes)
}

/// What a `struct msghdr` of the thread sends.
fn gather(tid: i32, message: u64) -> Option<Vec<u8>> {
    let vector = tracee::read_u64(tid, message.wrapping_add(16))?;
    let count = tracee::read_u64(tid, message.wrapping_add(24))?;
    let count = usize::try_from(count).ok().filter(|n| *n <= 64)?;
    let mut whole = Vec::new();
    for part in fetch(tid, vector, count * IOVEC)?.chunks_exact(IOVEC) {
        let (address, len) = part.split_at(8);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let len = usize::try_from(word(len)).ok()?;
        whole.extend(fetch(tid, word(address), len)?);
    }
    (whole.len() <= LONGEST).then_some(whole)
}

/// All that the messages name.
fn references(messages: &[u8]) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(header) = messages.get(start..start + HEADER) {
        let len = u32::from_ne_bytes(header[..4].try_into().expect("four bytes")) as usize;
        let kind = u16::from_ne_bytes(header[4..6].try_into().expect("two bytes"));
        let end = match start.checked_add(len) {
            Some(end) if len >= HEADER && end <= messages.len() => end,
            _ => break,
        };
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_GETLINK | libc::RTM_SETLINK => {
                in_link(messages, start + HEADER, end, &mut found);
            }
            libc::RTM_NEWNSID | libc::RTM_DELNSID | libc::RTM_GETNSID => {
                for (kind, at, end) in attributes(messages, start + HEADER + 4, end) {
                    push(&mut found, (kind, at, end), NETNSA_PID, NETNSA_FD);
                }
            }
            _ => {}
        }
        start += len.next_multiple_of(4);
    }
    found
}

const NETNSA_PID: u16 = 2;
const NETNSA_FD: u16 = 3;
/// What the kernel has called the attribute with the other end of a pair, in all kinds of them.
const PEER: u16 = 1;

/// In what follows a `struct nlmsghdr`, or is an end of a pair: a `struct ifinfomsg` and
/// attributes.
fn in_link(bytes: &[u8], start: usize, end: usize, found: &mut Vec<Reference>) {
    for (kind, at, end) in attributes(bytes, start + HEADER, end) {
        push(
            found,
            (kind, at, end),
            libc::IFLA_NET_NS_PID,
            libc::IFLA_NET_NS_FD,
        );
        if kind != libc::IFLA_LINKINFO {
            continue;
        }
        let mut is_pair = false;
        for (kind, at, end) in attributes(bytes, at, end) {
            let name = bytes[at..end].split(|b| *b == 0).next();
            match kind {
                libc::IFLA_INFO_KIND => {
                    is_pair = [&b"veth"[..], b"vxcan", b"netkit"].contains(&name.unwrap_or(b""));
                }
                libc::IFLA_INFO_DATA if is_pair => {
                    for (kind, at, end) in attributes(bytes, at, end) {
                        if kind == PEER {
                            in_link(bytes, at, end, found);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// Adds an attribute, if it is one of the two.
fn push(
    found: &mut Vec<Reference>,
    (kind, at, end): (u16, usize, usize),
    by_process: u16,
    by_descriptor: u16,
) {
    if (kind == by_process || kind == by_descriptor) && end - at == 4 {
        found.push(Reference {
            at: at - 2,
            by_descriptor,
            is_process: kind == by_process,
        });
    }
}

/// Type, start and end of each attribute's value.
fn attributes(
    bytes: &[u8],
    start: usize,
    end: usize,
) -> impl Iterator<Item = (u16, usize, usize)> + '_ {
    let mut next = start;
    std::iter::from_fn(move || {
        let header = bytes.get(next..next + ATTRIBUTE)?;
        let len = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let (value, over) = (next + ATTRIBUTE, next + len);
        next += len.next_multiple_of(4);
        (len >= ATTRIBUTE && over <= end).then_some((kind, value, over))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((ATTRIBUTE + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    fn link(attributes: &[Vec<u8>]) -> Vec<u8> {
        [vec![0; HEADER], attributes.concat()].concat()
    }

    /// The values that would be changed.
    fn named(bytes: &[u8]) -> Vec<(u8, bool)> {
        let all = references(bytes);
        all.iter()
            .map(|r| (bytes[r.at + 2], r.is_process))
            .collect()
    }

    #[test]
    fn what_messages_name() {
        let fd = attribute(libc::IFLA_NET_NS_FD, &[7, 0, 0, 0]);
        let pid = attribute(libc::IFLA_NET_NS_PID, &[8, 0, 0, 0]);
        let mtu = attribute(libc::IFLA_MTU, &[9, 0, 0, 0]);
        let pair = |kind: &[u8]| {
            let data = attribute(PEER, &link(&[mtu.clone(), fd.clone()]));
            let kind = attribute(libc::IFLA_INFO_KIND, kind);
            let info = [kind, attribute(libc::IFLA_INFO_DATA, &data)].concat();
            link(&[pid.clone(), attribute(libc::IFLA_LINKINFO, &info)])
        };
        let set = message(libc::RTM_SETLINK, &link(&[mtu.clone(), fd.clone()]));
        assert_eq!(named(&set), [(7, false)]);
        let new = message(libc::RTM_NEWLINK, &pair(b"veth\0"));
        assert_eq!(named(&new), [(8, true), (7, false)]);
        assert_eq!(named(&[set.clone(), new].concat()).len(), 3);
        let other = message(libc::RTM_NEWLINK, &pair(b"vlan\0"));
        assert_eq!(named(&other), [(8, true)]);
        let id = [vec![0; 4], attribute(NETNSA_FD, &[5, 0, 0, 0])].concat();
        assert_eq!(named(&message(libc::RTM_GETNSID, &id)), [(5, false)]);
        assert_eq!(named(&message(libc::RTM_NEWROUTE, &link(&[fd]))), []);
        for cut in 0..set.len() {
            assert_eq!(named(&set[..cut]), []);
        }
    }
}
