//! Editing a line on a terminal, here or at the other end of a network, and reading lines where
//! there is none.
//!
//! The line is shown in one row of the terminal; a longer one scrolls sideways. A terminal that is
//! not known to understand more gets nothing but characters and backspaces, and a line can be
//! edited at its end only.

use std::collections::VecDeque;
use std::mem::take;

use unicode_width::UnicodeWidthChar;

/// Bytes that a line may have.
pub(crate) const LONGEST_LINE: usize = 65_536;
/// Lines that are remembered.
pub(crate) const HISTORY: usize = 1000;

/// What a byte has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to be done yet.
    More,
    /// The line is finished.
    Line(String),
    /// It is finished, and longer than [`LONGEST_LINE`].
    TooLong,
    /// ^C: the line is given up.
    Interrupt,
    /// ^D on an empty line.
    End,
    /// The word before the cursor is to be completed: call [`Editor::complete`].
    Complete,
}

/// How the other end shows things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// It shows by itself what is typed, or is no screen.
    None,
    /// Characters and backspaces.
    Plain,
    /// A terminal of the VT100's kind with so many columns.
    Full(usize),
}

/// Where in a key's bytes we are.
enum Key {
    Start,
    Escape,
    /// After `ESC [` or `ESC O`, with the digits so far.
    Sequence(Vec<u8>),
}

/// Reads a line.
pub(crate) struct Editor {
    pub(crate) screen: Screen,
    prompt: String,
    line: Vec<char>,
    cursor: usize,
    /// The first character shown.
    first: usize,
    /// Bytes so far, also those that were thrown away.
    bytes: usize,
    /// Of a character that is not complete (UTF-8), or of the line where nothing is edited.
    partial: Vec<u8>,
    key: Key,
    history: VecDeque<String>,
    /// Which line of the history is shown; its length: none, and then what was typed.
    at: usize,
    typed: String,
    output: Vec<u8>,
}

impl Editor {
    /// With an empty line and without a history.
    pub(crate) fn new() -> Editor {
        Editor {
            screen: Screen::None,
            prompt: String::new(),
            line: Vec::new(),
            cursor: 0,
            first: 0,
            bytes: 0,
            partial: Vec::new(),
            key: Key::Start,
            history: VecDeque::new(),
            at: 0,
            typed: String::new(),
            output: Vec::new(),
        }
    }

    /// Lines of earlier sessions, oldest first.
    pub(crate) fn remember(&mut self, past: VecDeque<String>) {
        self.at = past.len();
        self.history = past;
    }

    /// What is to be shown since the last time.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        take(&mut self.output)
    }

    /// Begins a new line.
    pub(crate) fn prompt(&mut self, prompt: &str) {
        self.prompt = prompt.to_owned();
        self.output.extend(prompt.as_bytes());
    }

    /// What shows this above the line, and the line below it again.
    pub(crate) fn above(&mut self, bytes: &[u8]) -> Vec<u8> {
        if bytes.is_empty() {
            return Vec::new();
        }
        match self.screen {
            Screen::Full(_) => self.output.extend(b"\r\x1b[K"),
            Screen::Plain | Screen::None => self.output.extend(b"\n"),
        }
        self.output.extend(bytes);
        if !bytes.ends_with(b"\n") {
            self.output.push(b'\n');
        }
        self.show();
        self.output()
    }

    /// Shows prompt and line again.
    fn show(&mut self) {
        match self.screen {
            Screen::Full(_) => self.redraw(),
            Screen::Plain => {
                let line: String = self.line.iter().collect();
                self.output.extend(self.prompt.as_bytes());
                self.output.extend(line.as_bytes());
            }
            Screen::None => self.output.extend(self.prompt.as_bytes()),
        }
    }

    /// Takes a byte.
    pub(crate) fn byte(&mut self, byte: u8) -> Step {
        if self.screen == Screen::None {
            return self.unedited(byte);
        }
        match std::mem::replace(&mut self.key, Key::Start) {
            Key::Start => self.start(byte),
            Key::Escape => {
                match byte {
                    b'[' | b'O' => self.key = Key::Sequence(Vec::new()),
                    b'b' => self.move_to(self.word_left()),
                    b'f' => self.move_to(self.word_right()),
                    _ => {}
                }
                Step::More
            }
            Key::Sequence(mut digits) => {
                match byte {
                    b'0'..=b'9' | b';' if digits.len() < 8 => {
                        digits.push(byte);
                        self.key = Key::Sequence(digits);
                    }
                    _ => self.sequence(&digits, byte),
                }
                Step::More
            }
        }
    }

    fn unedited(&mut self, byte: u8) -> Step {
        match byte {
            b'\r' | b'\n' => {
                let line = take(&mut self.partial);
                match std::mem::take(&mut self.bytes) > LONGEST_LINE {
                    true => Step::TooLong,
                    false => Step::Line(String::from_utf8_lossy(&line).into_owned()),
                }
            }
            0x03 => {
                self.clear();
                Step::Interrupt
            }
            0x04 if self.bytes == 0 => Step::End,
            0x7f => {
                self.partial.pop();
                self.bytes = self.partial.len();
                Step::More
            }
            0x15 => {
                self.clear();
                Step::More
            }
            byte => {
                self.bytes += 1;
                if self.bytes <= LONGEST_LINE {
                    self.partial.push(byte);
                }
                Step::More
            }
        }
    }

    /// What is left of a line when nothing more comes: it counts, without its end.
    pub(crate) fn rest(&mut self) -> Step {
        match self.bytes {
            0 => Step::End,
            _ => self.byte(b'\n'),
        }
    }

    fn clear(&mut self) {
        self.line.clear();
        self.partial.clear();
        self.cursor = 0;
        self.first = 0;
        self.bytes = 0;
        self.key = Key::Start;
        self.at = self.history.len();
    }

    fn start(&mut self, byte: u8) -> Step {
        if byte >= 0x80 || !self.partial.is_empty() {
            self.character(byte);
            return Step::More;
        }
        match byte {
            b'\r' | b'\n' => return self.finish(),
            0x01 => self.move_to(0),
            0x02 => self.move_to(self.cursor.saturating_sub(1)),
            0x03 => {
                self.output.extend(b"^C\n");
                self.clear();
                return Step::Interrupt;
            }
            0x04 if self.line.is_empty() => {
                self.output.extend(b"\n");
                return Step::End;
            }
            0x04 => self.remove(self.cursor, self.cursor + 1),
            0x05 => self.move_to(self.line.len()),
            0x06 => self.move_to(self.cursor + 1),
            0x08 | 0x7f => self.remove(self.cursor.saturating_sub(1), self.cursor),
            b'\t' => return Step::Complete,
            0x0b => self.remove(self.cursor, self.line.len()),
            0x0c => {
                if let Screen::Full(_) = self.screen {
                    self.output.extend(b"\x1b[H\x1b[2J");
                    self.redraw();
                }
            }
            0x0e => self.recall(self.at + 1),
            0x10 => self.recall(self.at.wrapping_sub(1)),
            0x15 => self.remove(0, self.cursor),
            0x17 => self.remove(self.word_left(), self.cursor),
            0x1b => self.key = Key::Escape,
            0x20..=0x7e => self.insert(&[char::from(byte)]),
            _ => {}
        }
        Step::More
    }

    /// A byte of a character of several; one that can't be any is thrown away.
    fn character(&mut self, byte: u8) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let character: Vec<char> = text.chars().collect();
                self.partial.clear();
                self.insert(&character);
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => self.partial.clear(),
        }
    }

    fn sequence(&mut self, digits: &[u8], last: u8) {
        match (digits, last) {
            (_, b'A') => self.recall(self.at.wrapping_sub(1)),
            (_, b'B') => self.recall(self.at + 1),
            (b"1;5" | b"5", b'C') => self.move_to(self.word_right()),
            (b"1;5" | b"5", b'D') => self.move_to(self.word_left()),
            (_, b'C') => self.move_to(self.cursor + 1),
            (_, b'D') => self.move_to(self.cursor.saturating_sub(1)),
            (_, b'H') | (b"1" | b"7", b'~') => self.move_to(0),
            (_, b'F') | (b"4" | b"8", b'~') => self.move_to(self.line.len()),
            (b"3", b'~') => self.remove(self.cursor, self.cursor + 1),
            _ => {}
        }
    }

    fn finish(&mut self) -> Step {
        self.output.extend(b"\n");
        let line: String = self.line.iter().collect();
        let too_long = self.bytes > LONGEST_LINE;
        self.clear();
        if too_long {
            return Step::TooLong;
        }
        if !line.trim().is_empty() && self.history.back() != Some(&line) {
            self.history.push_back(line.clone());
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.at = self.history.len();
        Step::Line(line)
    }

    fn insert(&mut self, characters: &[char]) {
        let bytes: usize = characters.iter().map(|c| c.len_utf8()).sum();
        self.bytes += bytes;
        if self.bytes > LONGEST_LINE {
            self.output.push(0x07);
            return;
        }
        let at_end = self.cursor == self.line.len();
        let tail = self.line.split_off(self.cursor);
        self.line.extend(characters);
        self.cursor = self.line.len();
        self.line.extend(tail);
        let fits = match self.screen {
            Screen::Full(columns) => self.first == 0 && self.fits(columns),
            _ => true,
        };
        if at_end && fits {
            let text: String = characters.iter().collect();
            self.output.extend(text.as_bytes());
        } else {
            self.redraw();
        }
    }

    fn remove(&mut self, from: usize, to: usize) {
        let to = to.min(self.line.len());
        if from >= to {
            return;
        }
        let at_end = to == self.line.len() && self.cursor == to;
        let removed: Vec<char> = self.line.drain(from..to).collect();
        self.bytes = self.line.iter().map(|c| c.len_utf8()).sum();
        self.cursor = from;
        if self.screen == Screen::Plain && at_end {
            for _ in 0..width(&removed) {
                self.output.extend(b"\x08 \x08");
            }
        } else {
            self.redraw();
        }
    }

    fn move_to(&mut self, cursor: usize) {
        // A plain screen can't show where the cursor is.
        if self.screen != Screen::Plain {
            self.cursor = cursor.min(self.line.len());
            self.redraw();
        }
    }

    fn word_left(&self) -> usize {
        let before = &self.line[..self.cursor];
        let end = before.iter().rposition(|c| !c.is_whitespace());
        let end = end.map_or(0, |end| end + 1);
        let start = before[..end].iter().rposition(|c| c.is_whitespace());
        start.map_or(0, |start| start + 1)
    }

    fn word_right(&self) -> usize {
        let after = &self.line[self.cursor..];
        let start = after.iter().position(|c| !c.is_whitespace());
        let start = start.unwrap_or(after.len());
        let end = after[start..].iter().position(|c| c.is_whitespace());
        self.cursor + end.map_or(after.len(), |end| start + end)
    }

    fn recall(&mut self, at: usize) {
        if at > self.history.len() {
            return;
        }
        if self.at == self.history.len() {
            self.typed = self.line.iter().collect();
        }
        self.at = at;
        let text = self.history.get(at).unwrap_or(&self.typed).clone();
        self.replace(&text);
    }

    fn replace(&mut self, text: &str) {
        let before = width(&self.line);
        self.line = text.chars().collect();
        self.bytes = text.len();
        self.cursor = self.line.len();
        if self.screen == Screen::Plain {
            for _ in 0..before {
                self.output.extend(b"\x08 \x08");
            }
            self.output.extend(text.as_bytes());
        } else {
            self.redraw();
        }
    }

    /// The line up to the cursor.
    pub(crate) fn before_cursor(&self) -> String {
        self.line[..self.cursor].iter().collect()
    }

    /// Puts one of these in the place of what begins at byte `start` and ends at the cursor; if
    /// there are several, as much as they have in common, and if that is nothing new, shows them.
    pub(crate) fn complete(&mut self, start: usize, candidates: &[String]) {
        let before = self.before_cursor();
        let typed = &before[start..];
        let Some(first) = candidates.first() else {
            self.output.push(0x07);
            return;
        };
        let mut common = first.as_str();
        for other in candidates {
            let same = common
                .chars()
                .zip(other.chars())
                .take_while(|(a, b)| a == b);
            let bytes = same.map(|(a, _)| a.len_utf8()).sum();
            common = &common[..bytes];
        }
        let Some(more) = common.strip_prefix(typed) else {
            return;
        };
        let mut more: Vec<char> = more.chars().collect();
        if candidates.len() == 1 && !common.ends_with('/') {
            more.push(' ');
        }
        if !more.is_empty() {
            self.insert(&more);
            return;
        }
        self.output.extend(b"\n");
        self.output.extend(candidates.join("  ").as_bytes());
        self.output.extend(b"\n");
        self.show();
    }

    /// Columns for the line, of which one stays free for the cursor.
    fn room(&self, columns: usize) -> usize {
        let prompt: Vec<char> = self.prompt.chars().collect();
        columns.saturating_sub(width(&prompt) + 1).max(1)
    }

    /// Whether all of the line can be shown.
    fn fits(&self, columns: usize) -> bool {
        let room = self.room(columns);
        self.line.len() <= room && width(&self.line) <= room
    }

    /// Shows the part of the line around the cursor, in one row.
    pub(crate) fn redraw(&mut self) {
        let Screen::Full(columns) = self.screen else {
            return;
        };
        let room = self.room(columns);
        self.first = match self.fits(columns) {
            true => 0,
            false => self
                .first
                .clamp(self.cursor.saturating_sub(room), self.cursor),
        };
        while width(&self.line[self.first..self.cursor]) > room {
            self.first += 1;
        }
        let mut shown = 0;
        let visible: String = self.line[self.first..]
            .iter()
            .take_while(|c| {
                shown += c.width().unwrap_or(0);
                shown <= room
            })
            .collect();
        let column = columns.saturating_sub(room + 1) + width(&self.line[self.first..self.cursor]);
        let row = format!("\r{}{visible}\x1b[K\r", self.prompt);
        self.output.extend(row.as_bytes());
        if column > 0 {
            self.output.extend(format!("\x1b[{column}C").as_bytes());
        }
    }
}

/// Columns that these take.
fn width(characters: &[char]) -> usize {
    characters.iter().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal with one row shows, and where its cursor is.
    #[derive(Default)]
    struct Row {
        cells: Vec<char>,
        cursor: usize,
    }

    impl Row {
        fn write(&mut self, bytes: &[u8]) {
            let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                match c {
                    '\r' => self.cursor = 0,
                    '\n' => *self = Row::default(),
                    '\x08' => self.cursor -= 1,
                    '\x07' => {}
                    '\x1b' => {
                        assert_eq!(chars.next(), Some('['));
                        let mut number = String::new();
                        match chars.find(|c| {
                            if c.is_ascii_digit() {
                                number.push(*c);
                            }
                            !c.is_ascii_digit()
                        }) {
                            Some('K') => self.cells.truncate(self.cursor),
                            Some('C') => self.cursor += number.parse::<usize>().expect("a number"),
                            other => panic!("{other:?}"),
                        }
                    }
                    c => {
                        if self.cells.len() <= self.cursor {
                            self.cells.resize(self.cursor + 1, ' ');
                        }
                        self.cells[self.cursor] = c;
                        self.cursor += 1;
                    }
                }
            }
        }

        fn text(&self) -> String {
            self.cells.iter().collect::<String>().trim_end().to_owned()
        }
    }

    fn typed(editor: &mut Editor, bytes: &[u8]) -> Vec<Step> {
        let steps = bytes.iter().map(|&byte| editor.byte(byte));
        steps.filter(|step| *step != Step::More).collect()
    }

    fn line(text: &str) -> Step {
        Step::Line(text.to_owned())
    }

    fn with(screen: Screen) -> Editor {
        let mut editor = Editor::new();
        editor.screen = screen;
        editor.prompt("> ");
        editor
    }

    #[test]
    fn editing() {
        for (keys, expected) in [
            (&b"abc\r"[..], "abc"),
            (b"abd\x7fc\r", "abc"),
            (b"bc\x01a\r", "abc"),
            (b"ac\x1b[Db\r", "abc"),
            (b"ac\x1bODb\x05d\r", "abcd"),
            (b"xabc\x01\x04\r", "abc"),
            (b"xabc\x1b[1~\x1b[3~\r", "abc"),
            (b"new machin\x17wire\r", "new wire"),
            (b"x y\x15abc\r", "abc"),
            (b"abcxyz\x1b[D\x1b[D\x1b[D\x0b\r", "abc"),
            (b"new wire\x1bb\x1b[1;5Dmy \x1b[1;5C x\r", "my new x wire"),
            ("gr\u{fc}n\r".as_bytes(), "gr\u{fc}n"),
            (b"a\xff\xc3\x28b\r", "ab"),
            (b"a\x1b[Zb\x1b[99999999999999m\r", "ab99999m"),
        ] {
            let mut editor = with(Screen::Full(80));
            let steps = typed(&mut editor, keys);
            // The last one shows that a sequence without end ends.
            assert_eq!(
                steps[0],
                line(expected),
                "{:?}",
                String::from_utf8_lossy(keys)
            );
        }
    }

    #[test]
    fn what_is_shown_is_what_is_there() {
        for columns in [80, 12] {
            let mut editor = with(Screen::Full(columns));
            let mut row = Row::default();
            let keys = b"wire set w1 loss 1%\x01new \x1b[C\x1b[C\x7f\x05 from\x17\x1b[D\x1b[D\x1b[Dx\x0b\x02y";
            for &key in keys {
                editor.byte(key);
                row.write(&editor.output());
                assert!(row.cells.len() < columns);
                let line: String = editor.line[editor.first..].iter().collect();
                let room = columns - 3;
                let visible: String = line.chars().take(room).collect();
                assert_eq!(row.text(), format!("> {}", visible).trim_end());
                assert_eq!(row.cursor, 2 + editor.cursor - editor.first);
            }
        }
    }

    #[test]
    fn a_plain_screen_gets_no_sequences() {
        let mut editor = with(Screen::Plain);
        let mut row = Row::default();
        for &key in b"show mu\x7fachines\x1b[Dx\x17wires" {
            editor.byte(key);
            let output = editor.output();
            assert!(!output.contains(&0x1b));
            row.write(&output);
        }
        assert_eq!(row.text(), "> show wires");
        assert_eq!(editor.byte(b'\r'), line("show wires"));
        editor.prompt("> ");
        typed(&mut editor, b"x\x10");
        row.write(&editor.output());
        assert_eq!(row.text(), "> show wires");
    }

    #[test]
    fn history() {
        let mut editor = with(Screen::Full(80));
        assert_eq!(typed(&mut editor, b"one\rtwo\rtwo\r \r").len(), 4);
        assert_eq!(typed(&mut editor, b"\x1b[A\x1b[A\x1b[A\r"), [line("one")]);
        assert_eq!(
            typed(&mut editor, b"half\x10\x10\x0e\x0e\r"),
            [line("half")]
        );
        assert_eq!(
            typed(&mut editor, b"\x10\x03\x0e\r"),
            [Step::Interrupt, line("")]
        );
    }

    #[test]
    fn above_the_line() {
        let mut editor = with(Screen::Full(80));
        let mut row = Row::default();
        typed(&mut editor, b"show");
        row.write(&editor.output());
        let output = editor.above(b"[1] done");
        let (before, after) = output.split_at(output.len() / 2);
        assert!(before.starts_with(b"\r\x1b[K[1]"), "{before:?}");
        row.write(before);
        row.write(after);
        assert_eq!((row.text().as_str(), row.cursor), ("> show", 6));
        assert!(editor.above(b"").is_empty());
        editor.screen = Screen::Plain;
        assert_eq!(editor.above(b"x\n"), b"\nx\n> show");
    }

    #[test]
    fn earlier_sessions() {
        let mut editor = with(Screen::Full(80));
        editor.remember(["one".to_owned(), "two".to_owned()].into());
        assert_eq!(typed(&mut editor, b"\x10\x10\r"), [line("one")]);
    }

    #[test]
    fn ends() {
        let mut editor = with(Screen::Full(80));
        assert_eq!(typed(&mut editor, b"\x04"), [Step::End]);
        assert_eq!(typed(&mut editor, b"ab\x03"), [Step::Interrupt]);
        assert_eq!(typed(&mut editor, b"\t"), [Step::Complete]);
        assert_eq!(typed(&mut editor, b"\r"), [line("")]);
    }

    #[test]
    fn without_a_screen() {
        let mut editor = Editor::new();
        assert_eq!(
            typed(&mut editor, b"one\ntwo\x08\r"),
            [line("one"), line("two\x08")]
        );
        assert_eq!(typed(&mut editor, b"a\tb\x1b[A\n"), [line("a\tb\x1b[A")]);
        assert_eq!(typed(&mut editor, b"abd\x7fc\n"), [line("abc")]);
        assert_eq!(
            typed(&mut editor, b"x\x15y\nz\x03\x04"),
            [line("y"), Step::Interrupt, Step::End]
        );
        assert_eq!(typed(&mut editor, b"last"), []);
        assert_eq!(editor.rest(), line("last"));
        assert_eq!(editor.rest(), Step::End);
        assert!(editor.output().is_empty());
    }

    #[test]
    fn long_lines() {
        for screen in [Screen::None, Screen::Plain, Screen::Full(80)] {
            let mut editor = with(screen);
            let long = vec![b'x'; 10 * LONGEST_LINE];
            assert_eq!(typed(&mut editor, &long), []);
            assert!(editor.line.len() <= LONGEST_LINE && editor.partial.len() <= LONGEST_LINE);
            assert_eq!(
                typed(&mut editor, b"\nshow\n"),
                [Step::TooLong, line("show")]
            );
            assert_eq!(typed(&mut editor, &long[..LONGEST_LINE]), []);
            assert_eq!(typed(&mut editor, b"\n").len(), 1);
        }
    }

    #[test]
    fn completion() {
        let mut editor = with(Screen::Full(80));
        let names = ["machine".to_owned(), "machines".to_owned()];
        typed(&mut editor, b"show m");
        editor.complete(5, &names);
        assert_eq!(editor.before_cursor(), "show machine");
        editor.output();
        editor.complete(5, &names);
        let shown = String::from_utf8(editor.output()).expect("UTF-8");
        assert!(shown.starts_with("\nmachine  machines\n"), "{shown:?}");
        editor.complete(5, &names[..1]);
        assert_eq!(editor.before_cursor(), "show machine ");
        editor.complete(13, &[]);
        assert_eq!(editor.before_cursor(), "show machine ");
    }
}
