//! Netlink messages as bytes; see netlink(7) and rtnetlink(7).

/// `struct nlmsghdr`, in bytes.
const HEADER: usize = 16;
/// Messages and attributes start at multiples of this.
const ALIGN: usize = 4;

/// One request that is being put together. Attributes are appended in order; a nested one lasts as
/// long as the closure that fills it.
pub struct Message(Vec<u8>);

impl Message {
    /// A request of type `kind` (`RTM_*`) that wants an acknowledgement; `flags` are further
    /// `NLM_F_*`, `body` is the family's fixed part, such as `struct ifinfomsg`.
    pub fn new(kind: u16, flags: i32, body: &[u8]) -> Message {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    /// Appends bytes as they are.
    pub fn raw(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an attribute.
    pub fn attr(self, kind: u16, value: &[u8]) -> Message {
        self.nest(kind, |m| m.raw(value))
    }

    /// Appends an attribute with a NUL-terminated string.
    pub fn text(self, kind: u16, value: &str) -> Message {
        self.nest(kind, |m| m.raw(value.as_bytes()).raw(&[0]))
    }

    /// Appends an attribute that holds what `fill` appends.
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        self.pad();
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        let mut m = fill(self);
        let len = (m.0.len() - start) as u16;
        m.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        m.0[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        m.pad();
        m
    }

    /// The finished message.
    pub fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
    }
}

/// A request for a list of `kind` (`RTM_GET*`), which [`messages`] reads.
pub fn dump_request(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Message::new(kind, libc::NLM_F_DUMP, body).finish();
    // The list's end is the acknowledgement.
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

/// One of the messages of a list.
pub enum Part<'a> {
    /// Its fixed part and its attributes.
    Message(&'a [u8]),
    /// That was all.
    Done,
    /// A positive errno.
    Error(i32),
}

/// The messages that are in one answer to a [`dump_request`].
pub fn messages(mut answer: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(answer.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        let body = answer.get(HEADER..len)?;
        answer = answer
            .get(len.next_multiple_of(ALIGN)..)
            .unwrap_or_default();
        let number = || {
            body.get(..4)
                .map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
        };
        Some(match i32::from(kind) {
            libc::NLMSG_DONE => Part::Done,
            libc::NLMSG_ERROR => Part::Error(-number()?),
            _ => Part::Message(body),
        })
    })
}

/// The attributes behind a message's fixed part: kinds and values.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    const FLAGS: u16 = 0xc000;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind & !FLAGS, value))
    })
}

/// `struct ifinfomsg` for `index` (0: the interface is named by an attribute); `flags` are the
/// `IFF_*` to set, of those in `change`.
pub fn ifinfomsg(index: u32, flags: i32, change: i32) -> [u8; 16] {
    let mut b = [0; 16];
    b[4..8].copy_from_slice(&index.to_ne_bytes());
    b[8..12].copy_from_slice(&flags.to_ne_bytes());
    b[12..16].copy_from_slice(&change.to_ne_bytes());
    b
}

/// Reads an acknowledgement: `Ok`, or the errno (positive) with the kernel's own words. Needs
/// `NETLINK_CAP_ACK` on the socket, so that the request is not repeated in the answer.
pub fn acknowledged(reply: &[u8]) -> Result<(), (i32, String)> {
    let word = |at: usize| {
        reply
            .get(at..at + 4)
            .map(|b| i32::from_ne_bytes(b.try_into().expect("4 bytes")))
    };
    match word(HEADER) {
        Some(0) => Ok(()),
        Some(error) => Err((-error, explanation(&reply[HEADER + 4..]))),
        None => Err((
            libc::EBADMSG,
            format!("an acknowledgement of {} bytes", reply.len()),
        )),
    }
}

/// Finds `NLMSGERR_ATTR_MSG` behind the error number and the repeated header.
fn explanation(rest: &[u8]) -> String {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    for (kind, value) in attributes(rest.get(HEADER..).unwrap_or_default()) {
        if kind == NLMSGERR_ATTR_MSG {
            return String::from_utf8_lossy(value)
                .trim_end_matches('\0')
                .to_owned();
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_attributes_count_their_own_bytes() {
        let m = Message::new(16, 0, &[])
            .nest(18, |m| m.text(1, "some").attr(2, &[7]))
            .finish();
        // header, then 4 + (4 + 5, padded to 12) + (4 + 1, padded to 8)
        assert_eq!(m.len(), HEADER + 4 + 12 + 8);
        assert_eq!(m[..4], (m.len() as u32).to_ne_bytes());
        assert_eq!(m[16..20], [24, 0, 18, 0]);
        assert_eq!(m[20..32], *b"\x09\0\x01\0some\0\0\0\0");
        assert_eq!(m[32..40], [5, 0, 2, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn acknowledgements() {
        let mut reply = vec![0; 36];
        assert_eq!(acknowledged(&reply), Ok(()));
        reply[16..20].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        assert_eq!(acknowledged(&reply), Err((libc::EEXIST, String::new())));
        reply.extend_from_slice(b"\x08\0\x01\0why\0");
        assert_eq!(acknowledged(&reply), Err((libc::EEXIST, "why".to_owned())));
        reply.truncate(39);
        assert_eq!(acknowledged(&reply), Err((libc::EEXIST, String::new())));
        assert!(acknowledged(&[0; 3]).is_err());
    }
}
