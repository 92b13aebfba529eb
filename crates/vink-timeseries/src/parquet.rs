//! Apache Parquet, in its simplest form: optional doubles, neither compressed nor encoded.
//!
//! Rows are kept until a group of them is full, and then written column by column; the description
//! of all groups is the end of the file. <https://parquet.apache.org/docs/file-format/>

use std::io::{self, Write};

use crate::thrift::{Fields, Value};
use crate::{Cell, Error, Table};

/// What a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// Rows of a group.
const GROUP: usize = 1 << 16;

// Numbers of parquet.thrift.
const INT32: i64 = 1;
const INT64: i64 = 2;
const FLOAT: i64 = 4;
const DOUBLE: i64 = 5;
const OPTIONAL: i64 = 1;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DATA_PAGE: i64 = 0;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct File {
    columns: Vec<Vec<Option<f64>>>,
    at: usize,
    rows: usize,
    groups: Vec<Vec<u8>>,
    names: Vec<String>,
}

impl File {
    pub(crate) fn begin(names: &[String], to: &mut impl Write) -> io::Result<File> {
        to.write_all(MAGIC)?;
        Ok(File {
            columns: vec![Vec::new(); names.len()],
            at: MAGIC.len(),
            rows: 0,
            groups: Vec::new(),
            names: names.to_vec(),
        })
    }

    pub(crate) fn row(&mut self, row: &[Option<f64>], to: &mut impl Write) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(*cell);
        }
        match self.columns.first() {
            Some(first) if first.len() >= GROUP => self.group(to),
            _ => Ok(()),
        }
    }

    /// Writes the rows that are kept.
    fn group(&mut self, to: &mut impl Write) -> io::Result<()> {
        let rows = self.columns.first().map_or(0, Vec::len);
        if rows == 0 {
            return Ok(());
        }
        let start = self.at;
        let mut chunks = Vec::new();
        for (name, column) in self.names.iter().zip(&mut self.columns) {
            let (page_at, page) = (self.at as i64, page(column));
            to.write_all(&page)?;
            self.at += page.len();
            column.clear();
            let size = page.len() as i64;
            let about = Fields::default()
                .i32(1, DOUBLE as i32)
                .list_of_i32(2, &[PLAIN, RLE])
                .list_of_texts(3, &[name])
                .i32(4, 0)
                .i64(5, rows as i64)
                .i64(6, size)
                .i64(7, size)
                .i64(9, page_at);
            chunks.push(Fields::default().i64(2, page_at).fields(3, about).end());
        }
        let group = Fields::default()
            .list_of_fields(1, &chunks)
            .i64(2, (self.at - start) as i64)
            .i64(3, rows as i64);
        self.groups.push(group.end());
        self.rows += rows;
        Ok(())
    }

    pub(crate) fn end(&mut self, names: &[String], to: &mut impl Write) -> io::Result<()> {
        self.group(to)?;
        let root = Fields::default()
            .text(4, "series")
            .i32(5, names.len() as i32);
        let mut schema = vec![root.end()];
        for name in names {
            let column = Fields::default()
                .i32(1, DOUBLE as i32)
                .i32(3, OPTIONAL as i32)
                .text(4, name);
            schema.push(column.end());
        }
        let footer = Fields::default()
            .i32(1, 1)
            .list_of_fields(2, &schema)
            .i64(3, self.rows as i64)
            .list_of_fields(4, &self.groups)
            .text(6, concat!("vink ", env!("CARGO_PKG_VERSION")))
            .end();
        to.write_all(&footer)?;
        to.write_all(&(footer.len() as u32).to_le_bytes())?;
        to.write_all(MAGIC)
    }
}

/// A column's rows: a header, which of them there are, and their numbers.
fn page(column: &[Option<f64>]) -> Vec<u8> {
    let levels = levels(column);
    let mut data = (levels.len() as u32).to_le_bytes().to_vec();
    data.extend(levels);
    for number in column.iter().flatten() {
        data.extend(number.to_le_bytes());
    }
    let size = data.len() as i32;
    let about = Fields::default()
        .i32(1, column.len() as i32)
        .i32(2, PLAIN)
        .i32(3, RLE)
        .i32(4, RLE);
    let mut page = Fields::default()
        .i32(1, DATA_PAGE as i32)
        .i32(2, size)
        .i32(3, size)
        .fields(5, about)
        .end();
    page.append(&mut data);
    page
}

/// Which rows there are: eight to a byte, in one run.
fn levels(column: &[Option<f64>]) -> Vec<u8> {
    let bytes = column.chunks(8).map(|eight| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (bit, cell)| {
            byte | u8::from(cell.is_some()) << bit
        })
    });
    let bytes: Vec<u8> = bytes.collect();
    let mut levels = Vec::new();
    let mut head = bytes.len() << 1 | 1;
    while head >= 0x80 {
        levels.push(head as u8 | 0x80);
        head >>= 7;
    }
    levels.push(head as u8);
    levels.extend(bytes);
    levels
}

pub(crate) fn read(bytes: &[u8]) -> Result<Table, Error> {
    let wrong = |why: &str| Error::Malformed(why.to_owned());
    let foot = bytes
        .strip_suffix(MAGIC)
        .and_then(|rest| rest.split_last_chunk::<4>())
        .filter(|_| bytes.starts_with(MAGIC));
    let (rest, len) = foot.ok_or_else(|| {
        wrong("it is no Parquet file, or it was not ended: a series' is when the series or its lab has ended")
    })?;
    let len = u32::from_le_bytes(*len) as usize;
    let broken = || wrong("its description can't be read");
    let start = rest.len().checked_sub(len).ok_or_else(broken)?;
    let about = Value::take(&mut &rest[start..]).ok_or_else(broken)?;
    let schema = about.list(2).split_first().ok_or_else(broken)?.1;
    let mut table = Table::default();
    for column in schema {
        let name = column.text(4).ok_or_else(broken)?;
        if column.int(5).unwrap_or(0) > 0 {
            return Err(Error::Malformed(format!(
                "its column {name} has columns in it: only flat ones can be read"
            )));
        }
        table.names.push(name);
    }
    for group in about.list(4) {
        let rows = group.int(3).ok_or_else(broken)?;
        let rows = usize::try_from(rows).map_err(|_| broken())?;
        let first = table.rows.len();
        for (at, (chunk, column)) in group.list(1).iter().zip(schema).enumerate() {
            let name = &table.names[at];
            let cells = chunk
                .field(3)
                .ok_or_else(broken)
                .and_then(|chunk| cells(bytes, chunk, column, rows).ok_or_else(|| {
                    Error::Malformed(format!(
                        "its column {name} is compressed, encoded, or not of numbers: only plain numbers can be read"
                    ))
                }))?;
            if at == 0 {
                let columns = table.names.len();
                let empty = || vec![Cell::Empty; columns];
                table.rows.extend(cells.iter().map(|_| empty()));
            }
            for (row, cell) in table.rows[first..].iter_mut().zip(cells) {
                row[at] = cell;
            }
        }
    }
    Ok(table)
}

/// A column of a group; `None`: it is written otherwise.
fn cells(bytes: &[u8], chunk: &Value, column: &Value, rows: usize) -> Option<Vec<Cell>> {
    if chunk.int(4)? != 0 {
        return None;
    }
    let kind = chunk.int(1)?;
    let mut from = bytes.get(usize::try_from(chunk.int(9)?).ok()?..)?;
    let mut cells = Vec::new();
    while cells.len() < rows {
        let head = Value::take(&mut from)?;
        let mut data = from.split_off(..usize::try_from(head.int(3)?).ok()?)?;
        let about = head.field(5)?;
        if head.int(1)? != DATA_PAGE || about.int(2)? != i64::from(PLAIN) {
            return None;
        }
        let count = usize::try_from(about.int(1)?).ok()?;
        let there = match column.int(3)? {
            OPTIONAL => {
                let len = u32::from_le_bytes(*data.first_chunk()?) as usize;
                let levels = data.split_off(..4 + len)?;
                which(&levels[4..], count)?
            }
            _ => vec![true; count],
        };
        for there in there {
            cells.push(match there {
                true => Cell::Number(number(&mut data, kind)?),
                false => Cell::Empty,
            });
        }
    }
    Some(cells)
}

/// Which of so many rows there are: runs of one bit, or of bits eight to a byte.
fn which(mut levels: &[u8], count: usize) -> Option<Vec<bool>> {
    let mut which = Vec::new();
    while which.len() < count {
        let mut head = 0usize;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = *levels.split_off_first()?;
            head |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let len = head >> 1;
        if head & 1 == 1 {
            let bytes = levels.split_off(..len)?;
            which.extend((0..8 * len).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1));
        } else {
            let one = *levels.split_off_first()? & 1 == 1;
            which.extend(std::iter::repeat_n(one, len.min(count)));
        }
    }
    which.truncate(count);
    Some(which)
}

fn number(from: &mut &[u8], kind: i64) -> Option<f64> {
    fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
        from.split_off(..N)?.try_into().ok()
    }
    Some(match kind {
        INT32 => i32::from_le_bytes(take(from)?).into(),
        INT64 => i64::from_le_bytes(take(from)?) as f64,
        FLOAT => f32::from_le_bytes(take(from)?).into(),
        DOUBLE => f64::from_le_bytes(take(from)?),
        _ => return None,
    })
}
