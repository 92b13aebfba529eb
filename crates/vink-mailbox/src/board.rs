//! Boards: what the worker knows of a descriptor's readiness, for an epoll_wait(2) that need not ask the host.

use std::sync::atomic::{AtomicU64, Ordering};

/// What boards tell of (`EPOLL*`).
pub const TOLD: u32 = (libc::EPOLLIN
    | libc::EPOLLPRI
    | libc::EPOLLOUT
    | libc::EPOLLERR
    | libc::EPOLLHUP
    | libc::EPOLLRDHUP) as u32;

/// Of these, what is an edge to who waits for room alone; all others are to who waits for data.
const OUTWARD: u32 = (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;
const INWARD: u32 = TOLD & !(libc::EPOLLOUT as u32);

const KNOWN: u64 = 1 << 15;
const SHARED: u64 = 1 << 14;
/// One file more that the number has meant.
const SERIAL: u64 = 1 << 32;

/// A descriptor's. Only the worker writes it.
#[repr(C)]
pub struct Board {
    /// How many files the number has meant before; whether anything is known, and whether other descriptors may have the
    /// same file; what is true of it.
    state: AtomicU64,
    /// How often it became ready in each of two ways.
    edges: AtomicU64,
}

/// What a board says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Tells the file from others that the number has meant before.
    pub serial: u32,
    /// `None`: the host knows better.
    pub events: Option<u32>,
    /// Other descriptors may have the file, too: it may stay open when this one is closed.
    pub shared: bool,
    /// How often it became ready.
    pub edges: Edges,
}

/// How often a file became ready since it has been told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges(u64);

impl Edges {
    /// Those of a file that has just begun to be told of.
    pub const FIRST: Edges = Edges(0);
    /// Those of nothing that there is.
    pub const NONE: Edges = Edges(u64::MAX);

    /// Whether it has become ready since, for one who waits for `wanted` (`EPOLL*`).
    pub fn has_any_since(self, seen: Edges, wanted: u32) -> bool {
        let differs = self.0 ^ seen.0;
        let room = wanted & libc::EPOLLOUT as u32 != 0;
        let data = wanted & INWARD & !OUTWARD != 0;
        // Errors are in both.
        (data && differs >> 32 != 0) || ((room || !data) && differs as u32 != 0)
    }
}

impl Board {
    /// What it says now.
    pub fn read(&self) -> Notice {
        // In this order: what it says of the events is no older than the edges.
        let edges = Edges(self.edges.load(Ordering::Acquire));
        let state = self.state.load(Ordering::Acquire);
        Notice {
            serial: (state >> 32) as u32,
            events: (state & KNOWN != 0).then_some(state as u32 & TOLD),
            shared: state & SHARED != 0,
            edges,
        }
    }

    /// Tells what is true, and of what (`EPOLL*`) it has become so again.
    pub fn tell(&self, events: u32, again: u32, shared: bool) {
        let serial = self.state.load(Ordering::Relaxed) & !(SERIAL - 1);
        let shared = if shared { SHARED } else { 0 };
        let state = serial | KNOWN | shared | u64::from(events & TOLD);
        self.state.store(state, Ordering::SeqCst);
        let edges = self.edges.load(Ordering::Relaxed);
        let [inward, outward] = [(edges >> 32) as u32, edges as u32];
        let inward = inward.wrapping_add(u32::from(again & INWARD != 0));
        let outward = outward.wrapping_add(u32::from(again & OUTWARD != 0));
        let edges = u64::from(inward) << 32 | u64::from(outward);
        self.edges.store(edges, Ordering::Release);
    }

    /// The number does not mean what it has meant.
    pub fn renew(&self) {
        let serial = self.state.load(Ordering::Relaxed) & !(SERIAL - 1);
        self.edges.store(0, Ordering::Relaxed);
        self.state
            .store(serial.wrapping_add(SERIAL), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;
    const OUT: u32 = libc::EPOLLOUT as u32;

    fn board() -> Board {
        Board {
            state: AtomicU64::new(0),
            edges: AtomicU64::new(0),
        }
    }

    #[test]
    fn what_is_told_is_read() {
        let board = board();
        assert_eq!((board.read().serial, board.read().events), (0, None));
        board.tell(IN | libc::EPOLLRDHUP as u32, 0, false);
        let notice = board.read();
        assert_eq!(notice.events, Some(IN | libc::EPOLLRDHUP as u32));
        assert!(!notice.shared);
        board.tell(0, 0, true);
        assert!(board.read().shared && board.read().events == Some(0));
        board.renew();
        let notice = board.read();
        assert_eq!((notice.serial, notice.events), (1, None));
        assert_eq!(notice.edges, Edges::FIRST);
        board.tell(OUT, 0, false);
        assert_eq!(board.read().serial, 1);
    }

    #[test]
    fn edges_are_for_whom_they_concern() {
        let board = board();
        let first = board.read().edges;
        board.tell(IN | OUT, IN, false);
        let data = board.read().edges;
        assert!(data.has_any_since(first, IN) && data.has_any_since(first, IN | OUT));
        assert!(!data.has_any_since(first, OUT) && !data.has_any_since(data, IN));
        board.tell(IN | OUT, OUT, false);
        let room = board.read().edges;
        assert!(room.has_any_since(data, OUT) && room.has_any_since(data, IN | OUT));
        assert!(!room.has_any_since(data, IN));
        board.tell(libc::EPOLLHUP as u32, libc::EPOLLHUP as u32, false);
        let end = board.read().edges;
        for wanted in [0, IN, OUT] {
            assert!(end.has_any_since(room, wanted));
            assert!(end.has_any_since(Edges::NONE, wanted));
        }
    }
}
