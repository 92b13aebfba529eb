//! Frames of the host's, which come in the place of packets that it took.
//!
//! A packet that is taken ([`Verdict::take`](crate::Verdict::take)) is gone from the kernel. When
//! the kernel has done what there was to do, the host says what comes of all that it took
//! ([`Kernel::on_taken`]), on the thread's own stack; these frames go on at once, before the kernel
//! counts as idle, so that a virtual clock stands meanwhile. By the real clock the caller has its turn now
//! and then, if that goes on and on.

use std::ops::Range;

use vink_abi::{VINK_CALL_WIRE_PUT, VINK_PACKET_ARRIVAL, VINK_PACKET_DEPARTURE, VINK_PACKET_LOSS};

use crate::{EndId, Error, Kernel, LossCause, PacketKind, PacketQuery};

/// Has frames come in the place of the packets that were taken. The time is that of
/// [`Kernel::now`], in ns.
pub type Replace = Box<dyn FnMut(u64, &mut Puts) + Send>;

/// Frames on their way into a kernel, in order.
#[derive(Default)]
pub struct Puts {
    frames: Vec<(EndId, u32, Range<usize>)>,
    bytes: Vec<u8>,
    /// How many of them the kernel has.
    given: usize,
    /// Packets that were lost, whose bytes are wanted.
    lost: Vec<(EndId, Vec<u8>)>,
    tells: bool,
    /// A packet was taken since the last turn.
    taken: bool,
    replace: Option<Replace>,
}

impl Puts {
    /// A frame from its Ethernet header on, as if the interface had sent it.
    pub fn departs(&mut self, end: EndId, frame: &[u8]) {
        self.push(end, VINK_PACKET_DEPARTURE, frame);
    }

    /// A frame from its Ethernet header on, as if the wire had carried it to the interface.
    pub fn arrives(&mut self, end: EndId, frame: &[u8]) {
        self.push(end, VINK_PACKET_ARRIVAL, frame);
    }

    /// A packet was taken, and nothing comes in its place: it is told as lost, if such events are.
    pub fn loses(&mut self, end: EndId, frame: &[u8]) {
        if self.tells {
            self.lost.push((end, frame.to_vec()));
        }
    }

    fn push(&mut self, end: EndId, kind: u32, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.frames.push((end, kind, start..self.bytes.len()));
    }

    /// A packet was taken.
    pub(crate) fn has_taken(&mut self) {
        self.taken = true;
    }

    /// For the image.
    pub(crate) fn next(&mut self) -> Option<vink_abi::Put> {
        let Some((end, kind, range)) = self.frames.get(self.given) else {
            self.frames.clear();
            self.bytes.clear();
            self.given = 0;
            return None;
        };
        self.given += 1;
        let bytes = &self.bytes[range.clone()];
        Some(vink_abi::Put {
            end: end.0,
            kind: *kind,
            len: bytes.len() as u32,
            bytes: bytes.as_ptr().cast(),
        })
    }
}

impl Kernel {
    /// Sets the function that says what comes in the place of packets that were taken. It is called
    /// when the kernel has nothing else to do, with all of them.
    pub fn on_taken(&mut self, replace: Replace) {
        self.host.puts.borrow_mut().replace = Some(replace);
    }

    /// Has these frames go on, although no packet was taken. They go when the kernel next runs.
    ///
    /// # Errors
    /// Those of [`Kernel::run`]; [`Error::Errno`]: the image was built before it could take frames.
    pub fn put(&mut self, fill: impl FnOnce(&mut Puts)) -> Result<(), Error> {
        {
            let mut puts = self.host.puts.borrow_mut();
            puts.tells = !self.told.is_empty();
            fill(&mut puts);
        }
        self.tell_lost();
        self.control("put frames on a wire", VINK_CALL_WIRE_PUT, [0; 6])
            .map(drop)
    }

    /// After the kernel's turn: whether packets were taken, and it is to have another turn.
    #[inline]
    pub(crate) fn replace_taken(&mut self) -> bool {
        if !self.host.puts.borrow().taken {
            return false;
        }
        let now = self.now();
        let mut puts = self.host.puts.borrow_mut();
        puts.taken = false;
        puts.tells = !self.told.is_empty();
        if let Some(mut replace) = puts.replace.take() {
            replace(now, &mut puts);
            puts.replace = Some(replace);
        }
        drop(puts);
        self.tell_lost();
        true
    }

    /// Events of what was taken and lost, where they are wanted.
    fn tell_lost(&mut self) {
        let lost = std::mem::take(&mut self.host.puts.borrow_mut().lost);
        for (end, frame) in lost {
            let (mask, most) = self.told.get(&end).copied().unwrap_or_default();
            if mask & VINK_PACKET_LOSS == 0 {
                continue;
            }
            self.host.packets.borrow_mut().push(PacketQuery {
                time: self.now(),
                end,
                kind: PacketKind::Loss(LossCause::Pod),
                len: frame.len() as u32,
                bytes: &frame[..frame.len().min(most.into())],
                headless: false,
                put: false,
                mark: 0,
                socket: &[],
            });
        }
    }
}
