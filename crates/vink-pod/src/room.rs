//! What a pod may still say in a crossing: all walls count it alike.

use crate::Limits;

/// What each unit, frame and line costs beside its bytes: many of none are many, too.
pub(crate) const RECORD: usize = 16;
/// For those of a pod that says little.
pub(crate) const LEAST: usize = 64 << 10;

/// What may still be emitted and logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    bytes: usize,
    records: usize,
}

impl Room {
    /// Of one crossing.
    pub(crate) fn new(limits: &Limits) -> Room {
        Room {
            bytes: limits.emit,
            records: records(limits),
        }
    }

    /// Takes so many bytes that are emitted; `None`: there is no room for them.
    pub(crate) fn emit(&mut self, len: usize) -> Option<()> {
        self.bytes = self.bytes.checked_sub(len)?;
        self.records = self.records.checked_sub(record(len))?;
        Some(())
    }

    /// Takes a text that is logged, each line of which is one.
    pub(crate) fn log(&mut self, text: &[u8]) -> Option<()> {
        let more = text.iter().filter(|byte| **byte == b'\n').count();
        self.emit(text.len())?;
        self.records = self.records.checked_sub(more * RECORD)?;
        Some(())
    }
}

/// Bytes for all records of one crossing.
pub(crate) fn records(limits: &Limits) -> usize {
    2 * limits.emit + LEAST
}

fn record(len: usize) -> usize {
    (RECORD + len).next_multiple_of(RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_costs_something() {
        let limits = Limits {
            emit: 100,
            ..Limits::default()
        };
        let most = records(&limits) / RECORD;
        let mut room = Room::new(&limits);
        assert!((0..most).all(|_| room.emit(0).is_some()));
        assert!(room.emit(0).is_none());
        let mut room = Room::new(&limits);
        let lines = [b'\n'; 50];
        assert!(room.log(&lines).is_some() && room.log(&lines).is_some());
        assert!(room.emit(1).is_none());
        // Lines of nothing cost more than bytes do.
        let limits = Limits {
            emit: 1 << 20,
            ..limits
        };
        assert!(Room::new(&limits).log(&vec![b'\n'; 1 << 20]).is_none());
    }
}
