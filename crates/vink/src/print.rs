//! What commands print: text, JSON, tables.

use std::io::Write;

use serde::Serialize;

use crate::cli_error::CliError;

/// Text on standard output. A reader that has enough (`| head`) ends the command as a signal would.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    bytes(text.as_bytes())
}

/// The same, of a text that need not be UTF-8.
pub(crate) fn bytes(text: &[u8]) -> Result<(), CliError> {
    let mut to = std::io::stdout().lock();
    match to.write_all(text).and_then(|()| to.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Signal(libc::SIGPIPE))
        }
        done => done.map_err(CliError::host("standard output")),
    }
}

/// A line on standard output, written as format! does.
macro_rules! say {
    ($($line:tt)*) => {
        $crate::print::text(&format!("{}\n", format_args!($($line)*)))
    };
}
pub(crate) use say;

/// JSON for people and programs alike.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

/// JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CliError> {
    text(&pretty(value))
}

/// JSON on a line of its own.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), CliError> {
    text(&(serde_json::to_string(value).expect("plain data") + "\n"))
}

/// `1 machine`, `2 machines`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// How long something takes, roughly.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1}s"),
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 7200.0 => format!("{:.0}m", s / 60.0),
        s => format!("{:.0}h", s / 3600.0),
    }
}

/// Columns as wide as what is in them.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(head: impl IntoIterator<Item = &'a str>) -> Table {
        Table {
            rows: vec![head.into_iter().map(str::to_owned).collect()],
        }
    }

    pub(crate) fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:width$}  ");
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["A", "LONG"]);
        table.row(["wide cell".to_owned(), "x".to_owned()]);
        assert_eq!(table.text(), "A          LONG\nwide cell  x\n");
    }

    #[test]
    fn times() {
        assert_eq!(seconds(0.25), "0.2s");
        assert_eq!(seconds(61.0), "61s");
        assert_eq!(seconds(600.0), "10m");
        assert_eq!(count(1, "wire"), "1 wire");
        assert_eq!(count(0, "wire"), "0 wires");
    }
}
