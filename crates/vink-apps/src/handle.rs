//! The state that an app shares with its owner, on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use vink_kernel::{Clock, Fiber};
use vink_pod::OpenPaths;

use crate::{AppId, Report};

/// An app's output is cut to its newest half when it reaches twice this many bytes.
const OUTPUT_BYTES: usize = 32 << 10;

/// An app's output, report and result, and its owner's request to stop.
pub(crate) struct AppHandle {
    /// The owner has asked it to stop.
    pub stop: Cell<bool>,
    /// It is ready: a server listens, say.
    pub ready: Cell<bool>,
    /// Makes its report.
    pub reporter: RefCell<Option<Box<dyn Fn() -> Report>>>,
    pub output: RefCell<Text>,
    /// There is output that is not in `written` yet.
    pub unreported: Cell<bool>,
    /// The owner's queue of apps that have written.
    pub written: Rc<RefCell<VecDeque<AppId>>>,
    pub id: AppId,
    /// Its kernel's.
    pub clock: Clock,
    /// How it ended.
    pub end: RefCell<Option<End>>,
    /// Is told of its calls.
    pub observer: Option<Observer>,
    /// Where it finds paths of streams.
    pub paths: Option<Rc<dyn OpenPaths>>,
}

/// Is told of a call that an app has made: which app, the call's number and arguments, and its raw
/// result. It may make calls of that app's, which it is not told of.
pub type Observer = Rc<dyn Fn(&Fiber, AppId, i64, [u64; 6], i64)>;

impl AppHandle {
    /// For an app whose output is announced by this queue.
    pub fn new(
        id: AppId,
        clock: Clock,
        written: Rc<RefCell<VecDeque<AppId>>>,
        observer: Option<Observer>,
        paths: Option<Rc<dyn OpenPaths>>,
    ) -> AppHandle {
        AppHandle {
            stop: Cell::default(),
            ready: Cell::default(),
            reporter: RefCell::default(),
            output: RefCell::default(),
            unreported: Cell::default(),
            written,
            id,
            clock,
            end: RefCell::default(),
            observer,
            paths,
        }
    }

    /// Adds to the output.
    pub fn write(&self, text: &str) {
        self.output.borrow_mut().push(text);
        if !self.unreported.replace(true) {
            self.written.borrow_mut().push_back(self.id);
        }
    }
}

/// How an app ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub status: i32,
    /// Why, if it gave up or panicked.
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

    /// What came behind this many bytes, as far as it is kept, and how many bytes there were in
    /// all.
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
