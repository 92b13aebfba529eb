//! A FIN waits in the link until passt has acknowledged the data before it.
//!
//! passt (the one of January 2025, and those before) takes a FIN without data for the end of what
//! it has, and does not look at its sequence number. If the host's socket had no room for all that
//! came before, the machine's stack would send the rest again; passt has closed the socket by then,
//! and the peer reads an end that is too early. So the machine's FIN stays here until passt has
//! acknowledged all data before it, and a FIN that the machine repeats meanwhile is dropped. A FIN
//! that has data is left alone: passt looks at the sequence numbers of data.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use super::segment::{Flow, Segment, ACK, FIN, SYN};

/// Flows whose last acknowledgement is known, at most: one for each place in a table. Of a flow
/// that had to make place for another, a FIN does not wait.
const PLACES: usize = 1024;
/// FINs that wait, at most; the oldest goes then.
const MOST: usize = 256;

/// A FIN of the machine's.
struct Waiting {
    flow: Flow,
    sequence: u32,
    frame: Vec<u8>,
}

/// The FINs that passt is not given yet.
pub(super) struct Fins {
    hasher: RandomState,
    /// What passt has acknowledged last of a flow of the machine's.
    acknowledged: Box<[(Flow, u32)]>,
    waiting: VecDeque<Waiting>,
    /// What is to be sent.
    due: Vec<Vec<u8>>,
}

impl Default for Fins {
    fn default() -> Fins {
        Fins {
            hasher: RandomState::new(),
            acknowledged: vec![Default::default(); PLACES].into(),
            waiting: VecDeque::new(),
            due: Vec::new(),
        }
    }
}

impl Fins {
    /// Whether a segment of the machine's is a FIN that has to wait; it is kept then.
    pub(super) fn keeps(&mut self, segment: Segment<'_>) -> bool {
        let sequence = segment.sequence();
        if segment.flags() & SYN != 0 {
            // Another connection than the one that had this flow before.
            let flow = segment.flow();
            self.waiting.retain(|fin| fin.flow != flow);
            *self.place(flow) = (flow, sequence.wrapping_add(1));
            return false;
        }
        if segment.flags() & FIN == 0 || segment.has_data() {
            return false;
        }
        let flow = segment.flow();
        let (known, acknowledged) = *self.place(flow);
        if known != flow || reaches(acknowledged, sequence) {
            return false;
        }
        if self.waiting.iter().any(|fin| fin.flow == flow) {
            return true;
        }
        if self.waiting.len() == MOST {
            let oldest = self.waiting.pop_front();
            self.due.extend(oldest.map(|fin| fin.frame));
        }
        self.waiting.push_back(Waiting {
            flow,
            sequence,
            frame: segment.frame.to_vec(),
        });
        true
    }

    /// A frame of passt's.
    pub(super) fn learn(&mut self, frame: &[u8]) {
        let Some(segment) = Segment::of(frame).filter(|segment| segment.flags() & ACK != 0) else {
            return;
        };
        let (flow, acknowledged) = (segment.flow().reversed(), segment.acknowledged());
        *self.place(flow) = (flow, acknowledged);
        let may_go = |fin: &Waiting| fin.flow == flow && reaches(acknowledged, fin.sequence);
        if let Some(index) = self.waiting.iter().position(may_go) {
            let fin = self.waiting.remove(index);
            self.due.extend(fin.map(|fin| fin.frame));
        }
    }

    /// A FIN that passt may be given now.
    pub(super) fn due(&mut self) -> Option<Vec<u8>> {
        self.due.pop()
    }

    fn place(&mut self, flow: Flow) -> &mut (Flow, u32) {
        let hash = self.hasher.hash_one(flow);
        &mut self.acknowledged[hash as usize % PLACES]
    }
}

/// Whether all before a sequence number is acknowledged (RFC 9293, 3.4: modulo 2^32).
fn reaches(acknowledged: u32, sequence: u32) -> bool {
    acknowledged.wrapping_sub(sequence) as i32 >= 0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A segment from 10.0.2.15 to 10.0.2.2, or back.
    pub(crate) fn segment(
        out: bool,
        port: u16,
        numbers: [u32; 2],
        flags: u8,
        data: &[u8],
    ) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 15, 8, 0];
        let length = 40 + data.len() as u16;
        frame.extend([0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        let mut ends = [([10, 0, 2, 15], 7), ([10, 0, 2, 2], port)];
        if !out {
            ends.reverse();
        }
        frame.extend(ends.iter().flat_map(|(address, _)| *address));
        frame.extend(ends.iter().flat_map(|(_, port)| port.to_be_bytes()));
        frame.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        frame.extend([0x50, flags, 1, 2, 3, 4, 0, 0]);
        frame.extend(data);
        frame
    }

    pub(crate) fn fin(port: u16, sequence: u32) -> Vec<u8> {
        segment(true, port, [sequence, 1], FIN | ACK, b"")
    }

    pub(crate) fn acknowledgement(port: u16, number: u32) -> Vec<u8> {
        segment(false, port, [1, number], ACK, b"")
    }

    /// Whether a frame is kept.
    fn keeps(fins: &mut Fins, frame: &[u8]) -> bool {
        Segment::of(frame).is_some_and(|segment| fins.keeps(segment))
    }

    #[test]
    fn waits_for_the_data_before_it() {
        // The sequence number wraps in between.
        let [first, last] = [0xffff_fff0, 0x20];
        let mut fins = Fins::default();
        fins.learn(&acknowledgement(1, first));
        assert!(keeps(&mut fins, &fin(1, last)));
        assert!(keeps(&mut fins, &fin(1, last)), "once more");
        fins.learn(&acknowledgement(1, last - 1));
        fins.learn(&acknowledgement(2, last));
        assert_eq!(fins.due(), None);
        fins.learn(&acknowledgement(1, last));
        assert_eq!((fins.due(), fins.due()), (Some(fin(1, last)), None));
        // passt lost it, or its answer: what comes again goes.
        assert!(!keeps(&mut fins, &fin(1, last)));
    }

    #[test]
    fn does_not_wait_without_need() {
        let mut fins = Fins::default();
        assert!(!keeps(&mut fins, &fin(1, 100)), "nothing is known");
        fins.learn(&acknowledgement(1, 50));
        for (flags, data) in [(ACK, &b""[..]), (ACK, b"data"), (FIN | ACK, b"data")] {
            let other = segment(true, 1, [100, 1], flags, data);
            assert!(!keeps(&mut fins, &other), "{flags:#x}, {data:?}");
        }
        let whole = fin(1, 100);
        for end in 0..14 + 40 {
            assert!(!keeps(&mut fins, &whole[..end]), "{end} bytes");
        }
        let mut fragment = whole.clone();
        fragment[21] = 1;
        assert!(!keeps(&mut fins, &fragment));
        assert!(keeps(&mut fins, &whole));
    }

    #[test]
    fn ports_are_used_again() {
        let mut fins = Fins::default();
        fins.learn(&acknowledgement(1, 50));
        assert!(keeps(&mut fins, &fin(1, 100)));
        assert!(!keeps(
            &mut fins,
            &segment(true, 1, [7000, 0], SYN | ACK, b"")
        ));
        fins.learn(&acknowledgement(1, 7001));
        assert_eq!(fins.due(), None, "of the connection before");
        assert!(!keeps(&mut fins, &fin(1, 7001)));
        assert!(keeps(&mut fins, &fin(1, 7002)));
    }

    #[test]
    fn has_an_end() {
        let mut fins = Fins::default();
        let mut waiting = Vec::new();
        for port in 1..=2 * PLACES as u16 {
            fins.learn(&acknowledgement(port, 50));
            if keeps(&mut fins, &fin(port, 100)) {
                waiting.push(port);
            }
        }
        assert_eq!(fins.waiting.len(), MOST);
        // All that did not fit have gone on.
        for port in &waiting[..waiting.len() - MOST] {
            assert!(fins.due.contains(&fin(*port, 100)), "{port}");
        }
    }
}
