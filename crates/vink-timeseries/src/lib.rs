//! Tables of numbers by time, as files: CSV, JSON lines, Parquet.
//!
//! A [`Writer`] writes rows of numbers below names; a number can be missing. [`read`] gives back a
//! [`Table`]; it takes what other programs write too, CSV and JSON lines with texts in them, and
//! Parquet as far as [`read`] says.

mod csv;
mod json;
mod parquet;
mod thrift;

use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

/// What a file of rows looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line of names, and a line for each row; see RFC 4180.
    Csv,
    /// A JSON object for each row, on a line of its own.
    JsonLines,
    /// Apache Parquet: columns of doubles, neither compressed nor encoded. It can be read when it
    /// was ended.
    Parquet,
}

/// The endings of files by which formats are known.
pub const ENDINGS: [&str; 4] = ["csv", "jsonl", "ndjson", "parquet"];

impl Format {
    /// By a file's ending.
    ///
    /// # Errors
    /// It has another ending: which ones are known.
    pub fn of(path: &Path) -> Result<Format, String> {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        ending.parse()
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(ending: &str) -> Result<Format, String> {
        match ending {
            "csv" => Ok(Format::Csv),
            "jsonl" | "ndjson" => Ok(Format::JsonLines),
            "parquet" => Ok(Format::Parquet),
            other => Err(format!(
                "{other:?} is no ending of a series' file: {}",
                ENDINGS.join(", ")
            )),
        }
    }
}

/// A table's cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Empty,
    /// A number.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// What was read from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns' names.
    pub names: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// The lines that they were in, if they were.
    pub lines: Vec<u64>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host refused to read it.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// It is not what its ending says, or too much so.
    #[error("{0}")]
    Malformed(String),
}

/// Reads a table. Of JSON lines, objects in objects have columns `outer.inner`. Of Parquet, columns
/// of numbers as a [`Writer`] writes them: flat, `PLAIN`, not compressed.
///
/// # Errors
/// [`Error::Host`]; [`Error::Malformed`]: where, and why.
pub fn read(format: Format, bytes: &[u8]) -> Result<Table, Error> {
    match format {
        Format::Csv => csv::read(bytes),
        Format::JsonLines => json::read(bytes),
        Format::Parquet => parquet::read(bytes),
    }
}

/// Writes rows.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    names: Vec<String>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Csv,
    JsonLines,
    Parquet(parquet::File),
}

impl<W: Write> Writer<W> {
    /// A file with these columns.
    ///
    /// # Errors
    /// Its beginning can't be written.
    pub fn new(format: Format, names: &[&str], mut to: W) -> io::Result<Writer<W>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let body = match format {
            Format::Csv => {
                to.write_all(csv::line(names.iter().map(String::as_str)).as_bytes())?;
                Body::Csv
            }
            Format::JsonLines => Body::JsonLines,
            Format::Parquet => Body::Parquet(parquet::File::begin(&names, &mut to)?),
        };
        Ok(Writer { to, names, body })
    }

    /// Adds a row with a number, or nothing, for each column.
    ///
    /// # Errors
    /// It can't be written.
    pub fn row(&mut self, row: &[Option<f64>]) -> io::Result<()> {
        match &mut self.body {
            Body::Csv => {
                let cells = row.iter().map(|cell| match cell {
                    Some(number) => number.to_string(),
                    None => String::new(),
                });
                let cells: Vec<String> = cells.collect();
                let line = csv::line(cells.iter().map(String::as_str));
                self.to.write_all(line.as_bytes())
            }
            Body::JsonLines => self.to.write_all(json::line(&self.names, row).as_bytes()),
            Body::Parquet(file) => file.row(row, &mut self.to),
        }
    }

    /// Has what was written so far come to its readers; of Parquet, nothing does before its end.
    ///
    /// # Errors
    /// It can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Its end can't be written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Body::Parquet(file) = &mut self.body {
            file.end(&self.names, &mut self.to)?;
        }
        self.to.flush()?;
        Ok(self.to)
    }
}
