//! What an app and its owner have in common: both sides look at it, on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::{AppId, Report};

/// Of an app's text the newest half is kept when it reaches twice this many bytes.
const OUTPUT_BYTES: usize = 32 << 10;

/// Where an app lays down what it has to tell, and finds what it is to do.
pub(crate) struct Desk {
    /// It is to stop.
    pub stop: Cell<bool>,
    /// It does what it is there for.
    pub ready: Cell<bool>,
    /// Tells what it has done so far.
    pub reporter: RefCell<Option<Box<dyn Fn() -> Report>>>,
    pub output: RefCell<Text>,
    /// There is output of which the owner has not been told.
    pub untold: Cell<bool>,
    /// Where the owner is told.
    pub written: Rc<RefCell<VecDeque<AppId>>>,
    pub id: AppId,
    /// How it ended.
    pub end: RefCell<Option<End>>,
}

impl Desk {
    /// Of an app whose owner is told by this queue that it has written.
    pub fn new(id: AppId, written: Rc<RefCell<VecDeque<AppId>>>) -> Desk {
        Desk {
            stop: Cell::default(),
            ready: Cell::default(),
            reporter: RefCell::default(),
            output: RefCell::default(),
            untold: Cell::default(),
            written,
            id,
            end: RefCell::default(),
        }
    }

    /// Adds to the output.
    pub fn write(&self, text: &str) {
        self.output.borrow_mut().push(text);
        if !self.untold.replace(true) {
            self.written.borrow_mut().push_back(self.id);
        }
    }
}

/// How an app ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub status: i32,
    /// Why, if it was its own failure or a panic.
    pub error: Option<String>,
}

/// Text that grows at its end and is forgotten at its start.
#[derive(Default)]
pub(crate) struct Text {
    kept: String,
    /// How many bytes were forgotten.
    forgotten: u64,
}

impl Text {
    pub fn push(&mut self, text: &str) {
        self.kept.push_str(text);
        if self.kept.len() >= 2 * OUTPUT_BYTES {
            let cut = self.boundary(self.kept.len() - OUTPUT_BYTES);
            self.kept.drain(..cut);
            self.forgotten += cut as u64;
        }
    }

    /// What came behind this many bytes, as far as it is kept, and how many bytes there were in all.
    pub fn since(&self, from: u64) -> (&str, u64) {
        let all = self.forgotten + self.kept.len() as u64;
        let skip = from
            .saturating_sub(self.forgotten)
            .min(self.kept.len() as u64);
        (&self.kept[self.boundary(skip as usize)..], all)
    }

    /// The first place from here on where a character begins.
    fn boundary(&self, at: usize) -> usize {
        (at..self.kept.len())
            .find(|at| self.kept.is_char_boundary(*at))
            .unwrap_or(self.kept.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_on_from_anywhere() {
        let mut text = Text::default();
        text.push("one\n");
        let (first, next) = text.since(0);
        assert_eq!((first, next), ("one\n", 4));
        text.push("zwö\n");
        assert_eq!(text.since(next), ("zwö\n", 9));
        assert_eq!(text.since(9), ("", 9));
        assert_eq!(text.since(1000), ("", 9));
    }

    #[test]
    fn the_oldest_text_goes_first() {
        let mut text = Text::default();
        for _ in 0..OUTPUT_BYTES {
            text.push("ö\n");
        }
        let (kept, all) = text.since(0);
        assert_eq!(all, 3 * OUTPUT_BYTES as u64);
        assert!((OUTPUT_BYTES - 2..2 * OUTPUT_BYTES).contains(&kept.len()));
        assert!(kept.ends_with("ö\n"));
    }
}
