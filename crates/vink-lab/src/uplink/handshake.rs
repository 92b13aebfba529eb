//! The third segment of TCP's handshake, where passt does not send it.
//!
//! A client of the host's connects to a forwarded port; passt sends a SYN to the machine, gets a
//! SYN and ACK, and (until September 2024) sends nothing before the client does. The machine never
//! learns that there is a connection, and a server that speaks first, as for SMTP or MySQL, waits
//! for ever. So the link answers in passt's place, but only when the machine repeats itself, after
//! a second: what passt reads together with the first SYN and ACK, such as what the server says, it
//! would lose. Where passt has answered too, an ACK that comes twice does no harm.

use std::collections::VecDeque;

use super::segment::{Segment, ACK, ETHERNET, SYN, TCP, TCP_PROTOCOL};

/// In units of passt's window scale, 256 bytes: until its first segment tells more.
const WINDOW: u16 = 256;

/// Handshakes under way that are remembered.
const MOST: usize = 256;

/// The ACKs of SYNs and ACKs that the machine has sent once.
#[derive(Default)]
pub(crate) struct Handshakes(VecDeque<Vec<u8>>);

impl Handshakes {
    /// What the machine is to be answered to this segment of its own, if anything.
    pub(crate) fn answer(&mut self, segment: Segment<'_>) -> Option<Vec<u8>> {
        let answer = acknowledgement(segment)?;
        if let Some(index) = self.0.iter().position(|known| *known == answer) {
            return self.0.remove(index);
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(answer);
        None
    }
}

/// The ACK of a segment that is a SYN and ACK; `None` if it is anything else.
fn acknowledgement(asked: Segment<'_>) -> Option<Vec<u8>> {
    if asked.flags() != SYN | ACK {
        return None;
    }
    let (length, addresses, size) = (asked.header, asked.addresses, asked.size);
    let mut answer = asked.frame[..ETHERNET + length + TCP].to_vec();
    answer[..12].rotate_left(6);
    let (header, segment) = answer[ETHERNET..].split_at_mut(length);
    header[addresses..][..2 * size].rotate_left(size);
    segment[..4].rotate_left(2);
    // What it expects is what it gets, and the other way round.
    segment[4..8].copy_from_slice(&asked.acknowledged().to_be_bytes());
    segment[8..12].copy_from_slice(&asked.sequence().wrapping_add(1).to_be_bytes());
    segment[12] = (TCP as u8 / 4) << 4;
    segment[13] = ACK;
    segment[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    segment[16..TCP].fill(0);
    let pseudo = [0, TCP_PROTOCOL, 0, TCP as u8];
    let sum = checksum(&[&header[addresses..][..2 * size], &pseudo, segment]);
    segment[16..18].copy_from_slice(&sum);
    if size == 4 {
        // Neither identification nor, below, a flow label: they differ from one time to the next.
        header[4..6].fill(0);
        header[2..4].copy_from_slice(&((length + TCP) as u16).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum);
    } else {
        header[1..4].fill(0);
        header[4..6].copy_from_slice(&(TCP as u16).to_be_bytes());
    }
    Some(answer)
}

/// See RFC 1071. All parts have an even length.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let pairs = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u32 = pairs
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ACK of a frame.
    fn acknowledgement(frame: &[u8]) -> Option<Vec<u8>> {
        super::acknowledgement(Segment::of(frame)?)
    }

    /// A SYN and ACK with an option, from 10.0.2.15:7 to 10.0.2.2:4096, of sequence 0xffffffff.
    fn v4() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 15, 8, 0];
        frame.extend([0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 2, 15, 10, 0, 2, 2]);
        frame.extend([0, 7, 0x10, 0, 255, 255, 255, 255, 0, 0, 1, 0]);
        frame.extend([0x60, SYN | ACK, 1, 2, 3, 4, 0, 0, 2, 4, 5, 180]);
        frame
    }

    #[test]
    fn answers() {
        let answer = acknowledgement(&v4()).expect("an answer");
        assert_eq!(answer[..12], [2, 0, 0, 0, 0, 15, 2, 0, 0, 0, 0, 2]);
        assert_eq!(answer.len(), 14 + 40);
        assert_eq!(answer[16..18], [0, 40]);
        assert_eq!(answer[26..34], [10, 0, 2, 2, 10, 0, 2, 15]);
        assert_eq!(answer[34..38], [0x10, 0, 0, 7]);
        assert_eq!(answer[38..46], [0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(answer[46..48], [0x50, ACK]);
        // A sum over what has its own sum in it is nothing.
        assert_eq!(checksum(&[&answer[14..34]]), [0, 0]);
        let pseudo = [0, TCP_PROTOCOL, 0, 20];
        let whole: [&[u8]; 3] = [&answer[26..34], &pseudo, &answer[34..]];
        assert_eq!(checksum(&whole), [0, 0]);
    }

    #[test]
    fn ipv6() {
        let mut frame = v4()[..14].to_vec();
        frame[12..].copy_from_slice(&[0x86, 0xdd]);
        frame.extend([0x60, 0, 0, 0, 0, 24, TCP_PROTOCOL, 64]);
        frame.extend([[0xfd; 16], [0xfe; 16]].concat());
        frame.extend(&v4()[34..]);
        let answer = acknowledgement(&frame).expect("an answer");
        assert_eq!(answer.len(), 14 + 60);
        assert_eq!(answer[18..20], [0, 20]);
        assert_eq!(answer[22..54], [[0xfe; 16], [0xfd; 16]].concat());
        let pseudo = [0, TCP_PROTOCOL, 0, 20];
        let whole: [&[u8]; 3] = [&answer[22..54], &pseudo, &answer[54..]];
        assert_eq!(checksum(&whole), [0, 0]);
    }

    #[test]
    fn the_second_time() {
        let mut handshakes = Handshakes::default();
        let mut answer = |frame: &[u8]| handshakes.answer(Segment::of(frame).expect("a segment"));
        let numbered = |n: u16| {
            let mut frame = v4();
            frame[36..38].copy_from_slice(&n.to_be_bytes());
            frame
        };
        assert_eq!(answer(&numbered(1)), None);
        assert_eq!(answer(&numbered(2)), None);
        assert_eq!(answer(&numbered(1)), acknowledgement(&numbered(1)));
        assert_eq!(answer(&numbered(1)), None);
        for n in 10..10 + MOST as u16 {
            assert_eq!(answer(&numbered(n)), None);
        }
        // Forgotten.
        assert_eq!(answer(&numbered(2)), None);
        assert_eq!(handshakes.0.len(), MOST);
    }

    #[test]
    fn ignores_everything_else() {
        let good = v4();
        for end in 0..14 + 40 {
            assert_eq!(acknowledgement(&good[..end]), None, "{end} bytes");
        }
        // Not IP, not TCP, options in the IP header, other flags.
        for (at, byte) in [
            (12, 9),
            (23, 17),
            (14, 0x46),
            (47, 0x02),
            (47, 0x10),
            (47, 0x13),
        ] {
            let mut other = good.clone();
            other[at] = byte;
            assert_eq!(acknowledgement(&other), None, "{byte:#x} at {at}");
        }
    }
}
