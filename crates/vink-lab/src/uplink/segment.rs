//! A TCP segment in an Ethernet frame: where its parts are.

/// Bytes of the Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Bytes of the TCP header without options.
pub(super) const TCP: usize = 20;
pub(super) const TCP_PROTOCOL: u8 = 6;
/// More fragments, and the offset of this one (RFC 791, 3.1).
const FRAGMENT: u16 = 0x3fff;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;
/// FIN, SYN, RST, PSH, ACK and URG.
const FLAGS: u8 = 0x3f;

/// Addresses and ports as one side sends them. Those of IPv4 fill the first half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    addresses: [[u8; 16]; 2],
    ports: [[u8; 2]; 2],
}

impl Flow {
    /// As the other side sends them.
    pub(super) fn reversed(mut self) -> Flow {
        self.addresses.swap(0, 1);
        self.ports.swap(0, 1);
        self
    }
}

/// A segment over IPv4 without options or over IPv6 without extension headers, whole or truncated
/// behind its TCP header.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    /// From the Ethernet header on.
    pub(super) frame: &'a [u8],
    /// Bytes of the IP header.
    pub(super) header: usize,
    /// Where in it the addresses are, and how long one is.
    pub(super) addresses: usize,
    pub(super) size: usize,
    tcp: &'a [u8; TCP],
}

impl<'a> Segment<'a> {
    /// `None` if the frame is anything else.
    pub(super) fn of(frame: &'a [u8]) -> Option<Segment<'a>> {
        let ip = frame.get(ETHERNET..)?;
        let (header, addresses, size) = match (&frame[12..ETHERNET], ip.first()?) {
            ([0x08, 0x00], 0x45) if *ip.get(9)? == TCP_PROTOCOL => (20, 12, 4),
            ([0x86, 0xdd], first) if first >> 4 == 6 && *ip.get(6)? == TCP_PROTOCOL => (40, 8, 16),
            _ => return None,
        };
        let tcp = ip.get(header..)?.first_chunk()?;
        let segment = Segment {
            frame,
            header,
            addresses,
            size,
            tcp,
        };
        (size == 16 || segment.u16_of_ip(6) & FRAGMENT == 0).then_some(segment)
    }

    pub(super) fn flags(&self) -> u8 {
        self.tcp[13] & FLAGS
    }

    pub(super) fn sequence(&self) -> u32 {
        self.u32_of_tcp(4)
    }

    pub(super) fn acknowledged(&self) -> u32 {
        self.u32_of_tcp(8)
    }

    /// Whether it has data, by the length in its IP header.
    pub(super) fn has_data(&self) -> bool {
        let packet = match self.size {
            4 => usize::from(self.u16_of_ip(2)),
            _ => usize::from(self.u16_of_ip(4)) + self.header,
        };
        packet > self.header + usize::from(self.tcp[12] >> 4) * 4
    }

    pub(super) fn flow(&self) -> Flow {
        let addresses = &self.frame[ETHERNET + self.addresses..][..2 * self.size];
        let mut flow = Flow::default();
        for (to, from) in flow.addresses.iter_mut().zip(addresses.chunks(self.size)) {
            to[..self.size].copy_from_slice(from);
        }
        flow.ports = [[self.tcp[0], self.tcp[1]], [self.tcp[2], self.tcp[3]]];
        flow
    }

    fn u16_of_ip(&self, at: usize) -> u16 {
        let bytes = &self.frame[ETHERNET + at..];
        u16::from_be_bytes([bytes[0], bytes[1]])
    }

    fn u32_of_tcp(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.tcp[at..at + 4].try_into().expect("4 bytes"))
    }
}
