//! What clients of views were told lately, once for all of them: each client reads on from its own place.
//!
//! It is bounded in messages and in bytes, however slowly a client reads. One that has fallen behind what is kept is told
//! so, and gets the whole document instead.

use std::collections::VecDeque;

use axum::body::Bytes;

/// How many messages are kept, and how many bytes; the last one is kept in any case.
const MOST: usize = 1024;
const MOST_BYTES: usize = 2 << 20;

#[derive(Default)]
pub(super) struct Recent {
    /// With the connection that each came from.
    messages: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The number of the first one.
    first: u64,
}

/// What a client has not read is not kept any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missed;

impl Recent {
    pub(super) fn push(&mut self, from: u64, message: Bytes) {
        self.bytes += message.len();
        self.messages.push_back((from, message));
        while self.messages.len() > MOST || (self.bytes > MOST_BYTES && self.messages.len() > 1) {
            let gone = self.messages.pop_front();
            self.bytes -= gone.map_or(0, |(_, message)| message.len());
            self.first += 1;
        }
    }

    /// The number of the next message that comes.
    pub(super) fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// The next message at or behind `place` that is not this connection's own; the place is moved behind it.
    pub(super) fn next(&self, own: u64, place: &mut u64) -> Result<Option<Bytes>, Missed> {
        let passed = place.checked_sub(self.first).ok_or(Missed)?;
        for (from, message) in self.messages.iter().skip(passed as usize) {
            *place += 1;
            if *from != own {
                return Ok(Some(message.clone()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_one_who_is_behind_is_told() {
        let mut recent = Recent::default();
        let mut place = recent.end();
        for from in [1, 2, 1] {
            recent.push(from, vec![from as u8].into());
        }
        let read = |recent: &Recent, place: &mut u64| recent.next(1, place);
        assert_eq!(read(&recent, &mut place), Ok(Some(vec![2].into())));
        assert_eq!(read(&recent, &mut place), Ok(None));
        assert_eq!(place, recent.end());
        for _ in 0..5 {
            recent.push(2, vec![0; MOST_BYTES / 4].into());
            assert!(recent.bytes <= MOST_BYTES);
        }
        assert_eq!(read(&recent, &mut place), Err(Missed));
        for _ in 0..2 * MOST {
            recent.push(2, vec![0].into());
        }
        assert_eq!((recent.messages.len(), recent.bytes), (MOST, MOST));
        // One that is larger than all that is kept is told all the same.
        let mut place = recent.end();
        recent.push(2, vec![0; 2 * MOST_BYTES].into());
        assert!(matches!(read(&recent, &mut place), Ok(Some(_))));
        assert_eq!(recent.messages.len(), 1);
    }
}
