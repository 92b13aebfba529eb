//! The picture: a connection's fields in columns, what has changed standing out, and beside them the program's terminal.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::num::NonZeroU16;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use vink_pcb::{Connection, Field, Layout, Process, Value};

use super::session::{named, title};
use crate::cli_error::CliError;
use crate::exec::{size, Raw};
use crate::print;

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
const PLAIN: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
/// A value that has just changed.
const CHANGED: &str = "\x1b[7m";

/// For how long a change stands out.
const FRESH: Duration = Duration::from_millis(700);
/// Characters of a column: a name and a value.
const COLUMN: usize = 38;
/// Characters of a value, at least.
const VALUE: usize = 12;
/// Connections that are remembered when they are no more.
const MOST_SHOWN: usize = 64;
/// Lines that are the headings'.
const HEAD: usize = 2;

/// A connection that is, or was.
struct Shown {
    machine: String,
    connection: Connection,
    fields: Vec<Field>,
    /// When each field last changed; `None`: it has been the same since the first look.
    changed: Vec<Option<Instant>>,
    samples: u64,
    closed: bool,
}

/// Our terminal.
pub(super) struct Screen {
    rows: u16,
    columns: u16,
    shown: Vec<Shown>,
    /// Which one is on top.
    current: usize,
    /// Lines that are above the first one.
    scrolled: usize,
    /// Fields that are 0, and addresses, too.
    everything: bool,
    program: Option<vt100::Parser>,
    /// Our terminal's mode as it was, put back when this is dropped.
    _raw: Raw,
}

impl Screen {
    /// Takes the terminal. `choose`: of all fields, those that say something.
    pub fn open(beside: bool, choose: bool) -> Result<Screen, CliError> {
        let raw = Raw::enter()?;
        print::text(ENTER)?;
        let mut screen = Screen {
            rows: 24,
            columns: 80,
            shown: Vec::new(),
            current: 0,
            scrolled: 0,
            everything: !choose,
            program: beside.then(vt100::Parser::default),
            _raw: raw,
        };
        screen.resize();
        Ok(screen)
    }

    /// The terminal has another size.
    pub fn resize(&mut self) {
        if let Some(size) = size() {
            (self.rows, self.columns) = (size.rows, size.columns);
        }
        let size = self.program_size();
        if let (Some(program), Some((rows, columns))) = (&mut self.program, size) {
            let some = |n: u16| NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN);
            program.screen_mut().set_size(some(rows), some(columns));
        }
    }

    /// The left part.
    pub fn program_size(&self) -> Option<(u16, u16)> {
        self.program.as_ref()?;
        Some((self.rows, (self.columns / 2).max(1)))
    }

    /// The program has written.
    pub fn program(&mut self, bytes: &[u8]) {
        if let Some(program) = &mut self.program {
            program.process(bytes);
        }
    }

    /// Keys that are for us; whether they say that it is enough.
    pub fn keys(&mut self, keys: &[u8]) -> bool {
        let page = usize::from(self.rows).saturating_sub(HEAD + 1);
        match keys {
            b"q" | b"\x03" | b"\x04" | b"\x1b" => return true,
            b"\t" => {
                self.current += 1;
                self.scrolled = 0;
            }
            b"a" => self.everything = !self.everything,
            b"\x1b[B" | b"j" => self.scrolled += 1,
            b"\x1b[A" | b"k" => self.scrolled = self.scrolled.saturating_sub(1),
            b"\x1b[6~" | b" " => self.scrolled += page,
            b"\x1b[5~" => self.scrolled = self.scrolled.saturating_sub(page),
            _ => {}
        }
        false
    }

    /// What there is at a look; everything else is no more.
    pub fn keep(&mut self, found: &[Connection]) {
        for shown in &mut self.shown {
            shown.closed |= !found.iter().any(|connection| shown.is(connection));
        }
    }

    /// There is nothing any more.
    pub fn close_all(&mut self) {
        self.keep(&[]);
    }

    /// A connection, as it is now.
    pub fn take(
        &mut self,
        layout: &Layout,
        fields: &[Field],
        machine: &str,
        connection: Connection,
    ) {
        let gone = layout.state(connection.state) == "CLOSE";
        if let Some(shown) = self.shown.iter_mut().find(|shown| shown.is(&connection)) {
            shown.renew(connection);
            shown.closed = gone;
            return;
        }
        // A new one takes the place of one that is no more.
        if let Some(closed) = self.shown.iter().position(|shown| shown.closed) {
            if self.shown.len() >= MOST_SHOWN {
                self.shown.remove(closed);
            }
        }
        self.shown.push(Shown {
            machine: machine.to_owned(),
            changed: vec![None; fields.len()],
            fields: fields.to_vec(),
            connection,
            samples: 1,
            closed: gone,
        });
    }

    /// Draws all of it.
    pub fn draw(&mut self, process: &Process, ended: Option<ExitStatus>) -> io::Result<()> {
        let left = self.program_size().map_or(0, |(_, columns)| columns);
        let from = if left == 0 { 0 } else { left + 1 };
        let width = usize::from(self.columns.saturating_sub(from));
        let lines = self.lines(process, width, ended);
        let mut frame = String::from("\x1b[?2026h\x1b[?25l");
        let program = self.program.as_ref().map(vt100::Parser::screen);
        let mut theirs = program.map(|screen| screen.rows_formatted(0, left));
        for row in 0..self.rows {
            let _ = write!(frame, "\x1b[{};1H{PLAIN}\x1b[K", row + 1);
            if let Some(line) = theirs.as_mut().and_then(Iterator::next) {
                frame += &line;
                let _ = write!(
                    frame,
                    "{PLAIN}\x1b[{};{}H{FAINT}│{PLAIN}",
                    row + 1,
                    left + 1
                );
            }
            if let Some(line) = lines.get(usize::from(row)) {
                frame += line;
            }
        }
        if let Some(screen) = program.filter(|screen| !screen.hide_cursor() && ended.is_none()) {
            let (row, column) = screen.cursor_position();
            let _ = write!(frame, "\x1b[{};{}H\x1b[?25h", row + 1, column + 1);
        }
        frame += "\x1b[?2026l";
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// The connection on top, in lines of this width.
    fn lines(&mut self, process: &Process, width: usize, ended: Option<ExitStatus>) -> Vec<String> {
        let rows = usize::from(self.rows);
        let count = self.shown.len();
        if count > 0 {
            self.current %= count;
        }
        let keys = match (&self.program, ended) {
            (Some(_), None) => String::new(),
            (Some(_), Some(status)) => format!("{status}; q: end, tab: next, a: all"),
            (None, _) => "q: end, tab: next, a: all".to_owned(),
        };
        let Some(shown) = self.shown.get(self.current) else {
            let text = cut(&format!("no connection yet   {keys}"), width);
            return vec![format!("{BOLD}{text}{PLAIN}")];
        };
        let over = if shown.closed { " (gone)" } else { "" };
        let first = title(process.layout(), &shown.machine, &shown.connection) + over;
        let place = format!("{} of {count}", self.current + 1);
        let second = format!("{place}, {} samples   {keys}", shown.samples);
        let mut lines = vec![
            format!("{BOLD}{}{PLAIN}", cut(&first, width)),
            format!("{FAINT}{}{PLAIN}", cut(&second, width)),
        ];
        let cells = shown.cells(process, self.everything);
        let columns = (width / COLUMN).max(1);
        let height = rows.saturating_sub(HEAD);
        // By columns, as ls has them, but for what does not fit.
        let length = cells.len().div_ceil(columns).max(height);
        self.scrolled = self.scrolled.min(length.saturating_sub(height));
        for row in self.scrolled..self.scrolled + height {
            let mut line = String::new();
            for column in 0..columns {
                if let Some(cell) = cells.get(column * length + row) {
                    line += &cell.text(COLUMN.min(width));
                }
            }
            lines.push(line);
        }
        lines
    }

    /// Gives the terminal back, with what the program had on it.
    pub fn close(self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        write!(out, "{LEAVE}")?;
        if let Some(program) = &self.program {
            let text = program.screen().contents();
            for line in text.trim_end().lines() {
                write!(out, "{line}\r\n")?;
            }
        }
        out.flush()
    }
}

impl Shown {
    /// Whether it is the same one: an address in memory may be used again.
    fn is(&self, other: &Connection) -> bool {
        let own = &self.connection;
        let ends = (own.local.port(), own.remote) == (other.local.port(), other.remote);
        own.at == other.at && ends
    }

    fn renew(&mut self, now: Connection) {
        let at = Instant::now();
        for (field, changed) in self.fields.iter().zip(&mut self.changed) {
            if field.read(&self.connection.bytes) != field.read(&now.bytes) {
                *changed = Some(at);
            }
        }
        self.connection = now;
        self.samples += 1;
    }

    /// What is to be seen: first that which moves, then what is TCP's own, then what all sockets have.
    fn cells(&self, process: &Process, everything: bool) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell> = Vec::new();
        for (field, changed) in self.fields.iter().zip(&self.changed) {
            let Some(raw) = field.read(&self.connection.bytes) else {
                continue;
            };
            if everything || changed.is_some() || says_something(&raw) {
                cells.push(Cell {
                    name: &field.name,
                    value: named(process, raw).to_string(),
                    depth: field.path.len() - field.name.len(),
                    moves: changed.is_some(),
                    fresh: changed.is_some_and(|at| at.elapsed() < FRESH),
                });
            }
        }
        cells.sort_by_key(|cell| (!cell.moves, cell.depth));
        cells
    }
}

/// Not 0, no address and no list.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Unsigned(number) => *number != 0,
        Value::Signed(number) => *number != 0,
        Value::Bool(yes) => *yes,
        Value::Text(text) => !text.is_empty(),
        Value::Pointer(_) | Value::List(_) => false,
    }
}

/// A field on the screen.
struct Cell<'a> {
    name: &'a str,
    value: String,
    /// How much of its path is that of structures that the connection's extends.
    depth: usize,
    /// It has changed since the first look.
    moves: bool,
    /// It has changed just now.
    fresh: bool,
}

impl Cell<'_> {
    /// In so many characters; the value is what matters, and of a long name its end.
    fn text(&self, width: usize) -> String {
        let room = width.saturating_sub(2);
        let value = cut(&self.value, room.saturating_sub(VALUE).max(VALUE));
        let name = room.saturating_sub(value.chars().count() + 1);
        let skip = self.name.chars().count().saturating_sub(name);
        let short: String = self.name.chars().skip(skip).collect();
        let style = match (self.fresh, self.moves) {
            (true, _) => CHANGED,
            (false, true) => BOLD,
            (false, false) => "",
        };
        format!(" {short:name$} {style}{value}{PLAIN} ")
    }
}

/// Its beginning.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, value: &str, width: usize) -> String {
        let cell = Cell {
            name,
            value: value.to_owned(),
            depth: 0,
            moves: false,
            fresh: false,
        };
        cell.text(width).replace(PLAIN, "")
    }

    #[test]
    fn a_cell_is_as_wide_as_its_column() {
        assert_eq!(cell("snd_cwnd", "10", 20), " snd_cwnd        10 ");
        let long = cell("a_name_that_is_long", "12345678", 20);
        assert_eq!(long, " t_is_long 12345678 ");
        let longer = cell("name", "1234567890123456789", 20);
        assert_eq!(longer.chars().count(), 20, "{longer:?}");
    }

    #[test]
    fn what_changes_stands_out() {
        let cell = Cell {
            name: "snd_cwnd",
            value: "11".to_owned(),
            depth: 0,
            moves: true,
            fresh: true,
        };
        assert!(cell.text(20).contains(&format!("{CHANGED}11{PLAIN}")));
        let cell = Cell {
            fresh: false,
            ..cell
        };
        assert!(cell.text(20).contains(&format!("{BOLD}11{PLAIN}")));
    }
}
