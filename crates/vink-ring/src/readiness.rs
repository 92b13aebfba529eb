//! Readiness entries: what the worker publishes of a descriptor, for an epoll_wait(2) that need not
//! ask the host.

use crate::atomic::{AtomicU64, Ordering};

/// The events that are published (`EPOLL*`).
pub const PUBLISHED: u32 = (libc::EPOLLIN
    | libc::EPOLLPRI
    | libc::EPOLLOUT
    | libc::EPOLLERR
    | libc::EPOLLHUP
    | libc::EPOLLRDHUP) as u32;

/// Of these, the edges for a thread that waits for room alone; all others are for one that waits
/// for data.
const OUTWARD: u32 = (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;
const INWARD: u32 = PUBLISHED & !(libc::EPOLLOUT as u32);

/// Errors, and what they make of a connection.
const ENDED: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// For room: it has been taken.
const TAKEN: u64 = u32::MAX as u64;

/// Bytes that the heads of a send's buffers may take of a socket's room.
const SEND_HEADS: u32 = 4096;

const KNOWN: u64 = 1 << 15;
const SHARED: u64 = 1 << 14;
/// One file more that the number has meant.
const SERIAL: u64 = 1 << 32;

/// A descriptor's. Only the worker writes it, but for the room.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub struct ReadinessEntry {
    /// How many files the number has meant before; whether anything is known, and whether other
    /// descriptors may have the same file; what is true of it.
    state: AtomicU64,
    /// How often it became ready in each of two ways.
    edges: AtomicU64,
    /// Send credit: bytes that a send can't fail to take, and in the upper half when that was
    /// ([`crate::SharedRing::syscall_seq`]); a sender takes all of it.
    credit: AtomicU64,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Tells the file from others that the number has meant before.
    pub serial: u32,
    /// `None`: the host knows better.
    pub events: Option<u32>,
    /// Other descriptors may have the file, too: it may stay open when this one is closed.
    pub shared: bool,
    /// How often it became ready.
    pub edges: Edges,
}

/// How often a file became ready since its readiness is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges(u64);

impl Edges {
    /// Those of a file whose readiness has just begun to be published.
    pub const FIRST: Edges = Edges(0);
    /// Those of nothing that there is.
    pub const NONE: Edges = Edges(u64::MAX);

    /// Whether it has become ready since, for a thread that waits for `wanted` (`EPOLL*`).
    pub fn has_any_since(self, seen: Edges, wanted: u32) -> bool {
        let differs = self.0 ^ seen.0;
        let room = wanted & libc::EPOLLOUT as u32 != 0;
        let data = wanted & INWARD & !OUTWARD != 0;
        // Errors are in both.
        (data && differs >> 32 != 0) || ((room || !data) && differs as u32 != 0)
    }
}

impl ReadinessEntry {
    /// What it says now.
    pub fn read(&self) -> Readiness {
        // In this order: what it says of the events is no older than the edges.
        let edges = Edges(self.edges.load(Ordering::Acquire));
        let state = self.state.load(Ordering::Acquire);
        Readiness {
            serial: (state >> 32) as u32,
            events: (state & KNOWN != 0).then_some(state as u32 & PUBLISHED),
            shared: state & SHARED != 0,
            edges,
        }
    }

    /// Tells what is true, and of what (`EPOLL*`) it has become so again.
    pub fn publish(&self, events: u32, again: u32, shared: bool) {
        // A thread that knows of these is not to succeed in sending.
        if events & ENDED != 0 {
            self.credit.store(0, Ordering::Release);
        }
        let serial = self.state.load(Ordering::Relaxed) & !(SERIAL - 1);
        let shared = if shared { SHARED } else { 0 };
        let state = serial | KNOWN | shared | u64::from(events & PUBLISHED);
        self.state.store(state, Ordering::SeqCst);
        let edges = self.edges.load(Ordering::Relaxed);
        let [inward, outward] = [(edges >> 32) as u32, edges as u32];
        let inward = inward.wrapping_add(u32::from(again & INWARD != 0));
        let outward = outward.wrapping_add(u32::from(again & OUTWARD != 0));
        let edges = u64::from(inward) << 32 | u64::from(outward);
        self.edges.store(edges, Ordering::Release);
    }

    /// A send can't fail to take so many bytes, as long as no more calls are trapped.
    pub fn publish_credit(&self, traps: u32, room: u32) {
        let room = u64::from(traps) << 32 | u64::from(room);
        self.credit.store(room, Ordering::Release);
    }

    /// Whether it has been taken by a send that is on its way.
    pub fn is_credit_taken(&self) -> bool {
        self.credit.load(Ordering::Relaxed) == TAKEN
    }

    /// Takes the credit, if it is as much; then there is none until the worker publishes some
    /// again.
    #[inline]
    pub fn take_credit(&self, traps: u32, bytes: usize) -> bool {
        let told = self.credit.load(Ordering::Relaxed);
        let (of, room) = ((told >> 32) as u32, told as u32);
        let takes = of == traps && told != TAKEN && bytes <= room as usize;
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let take = || self.credit.compare_exchange(told, TAKEN, acquire, relaxed);
        takes && take().is_ok()
    }

    /// Takes so much of the credit, if there is as much. For the only thread that runs.
    #[inline]
    pub fn take_some_credit(&self, traps: u32, bytes: usize) -> bool {
        let told = self.credit.load(Ordering::Relaxed);
        let (of, room) = ((told >> 32) as u32, told as u32);
        let left = (room as usize).checked_sub(bytes);
        let Some(left) = left.filter(|_| of == traps && told != TAKEN) else {
            return false;
        };
        // The next one needs heads for its buffers, too.
        self.publish_credit(traps, (left as u32).saturating_sub(SEND_HEADS));
        true
    }

    /// The number does not mean what it has meant.
    pub fn reset(&self) {
        self.credit.store(0, Ordering::Relaxed);
        let serial = self.state.load(Ordering::Relaxed) & !(SERIAL - 1);
        self.edges.store(0, Ordering::Relaxed);
        self.state
            .store(serial.wrapping_add(SERIAL), Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;
    const OUT: u32 = libc::EPOLLOUT as u32;

    fn entry() -> ReadinessEntry {
        ReadinessEntry {
            state: AtomicU64::new(0),
            edges: AtomicU64::new(0),
            credit: AtomicU64::new(0),
        }
    }

    #[test]
    fn room_is_taken_once() {
        let entry = entry();
        assert!(!entry.take_credit(0, 1));
        entry.publish_credit(7, 100);
        assert!(
            !entry.take_credit(8, 100) && !entry.take_credit(7, 101) && !entry.is_credit_taken()
        );
        assert!(entry.take_credit(7, 100) && entry.is_credit_taken() && !entry.take_credit(7, 1));
        entry.publish_credit(7, 100);
        entry.publish(IN | OUT, 0, false);
        assert!(entry.take_credit(7, 1));
        entry.publish_credit(7, 100);
        entry.publish(IN | OUT | libc::EPOLLERR as u32, 0, false);
        assert!(!entry.take_credit(7, 1));
        entry.publish_credit(7, 100);
        entry.reset();
        assert!(!entry.take_credit(7, 1));
    }

    #[test]
    fn room_is_taken_in_parts() {
        let entry = entry();
        entry.publish_credit(7, 10_000);
        assert!(!entry.take_some_credit(8, 1) && !entry.take_some_credit(7, 10_001));
        assert!(entry.take_some_credit(7, 1000) && !entry.take_some_credit(7, 4905));
        assert!(entry.take_some_credit(7, 4904) && !entry.take_some_credit(7, 1));
        entry.publish_credit(7, 100);
        assert!(entry.take_credit(7, 1) && !entry.take_some_credit(7, 1));
    }

    #[test]
    fn what_is_told_is_read() {
        let entry = entry();
        assert_eq!((entry.read().serial, entry.read().events), (0, None));
        entry.publish(IN | libc::EPOLLRDHUP as u32, 0, false);
        let readiness = entry.read();
        assert_eq!(readiness.events, Some(IN | libc::EPOLLRDHUP as u32));
        assert!(!readiness.shared);
        entry.publish(0, 0, true);
        assert!(entry.read().shared && entry.read().events == Some(0));
        entry.reset();
        let readiness = entry.read();
        assert_eq!((readiness.serial, readiness.events), (1, None));
        assert_eq!(readiness.edges, Edges::FIRST);
        entry.publish(OUT, 0, false);
        assert_eq!(entry.read().serial, 1);
    }

    #[test]
    fn edges_are_for_those_they_concern() {
        let entry = entry();
        let first = entry.read().edges;
        entry.publish(IN | OUT, IN, false);
        let data = entry.read().edges;
        assert!(data.has_any_since(first, IN) && data.has_any_since(first, IN | OUT));
        assert!(!data.has_any_since(first, OUT) && !data.has_any_since(data, IN));
        entry.publish(IN | OUT, OUT, false);
        let room = entry.read().edges;
        assert!(room.has_any_since(data, OUT) && room.has_any_since(data, IN | OUT));
        assert!(!room.has_any_since(data, IN));
        entry.publish(libc::EPOLLHUP as u32, libc::EPOLLHUP as u32, false);
        let end = entry.read().edges;
        for wanted in [0, IN, OUT] {
            assert!(end.has_any_since(room, wanted));
            assert!(end.has_any_since(Edges::NONE, wanted));
        }
    }
}
