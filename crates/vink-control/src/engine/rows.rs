//! Rows of a time series: read from its file, also while that grows.
//!
//! Rows have ascending times, so those from a time on are found by bisecting the file. At most
//! [`LARGEST`] bytes are read for a request.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use vink_api::{RowsQuery, SeriesRows};
use vink_timeseries::{Cell, Format, Table};

use crate::http_error::HttpError;

/// Bytes of a file that are read for a request, and of a line at most.
const LARGEST: u64 = 16 << 20;
const LONGEST_LINE: u64 = 64 << 10;
/// Rows that are given: unless told otherwise, and at most.
const ROWS: usize = 2000;
const MOST_ROWS: usize = 20_000;

/// The file of a series, for reading.
pub(crate) fn open(path: &Path) -> Result<File, HttpError> {
    let host = |error| HttpError::host(&path.display().to_string(), error);
    let mut options = File::options();
    // A pipe in its place would block.
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(host)?;
    match file.metadata().map_err(host)?.is_file() {
        true => Ok(file),
        false => Err(HttpError::conflict(format!(
            "{} is no file any more",
            path.display()
        ))),
    }
}

/// Rows of the file that a series writes.
pub(crate) fn rows(path: &Path, query: &RowsQuery) -> Result<SeriesRows, HttpError> {
    let name = path.display().to_string();
    let host = |error| HttpError::host(&name, error);
    let format = Format::of(path).map_err(HttpError::invalid)?;
    let file = open(path)?;
    let length = file.metadata().map_err(host)?.len();
    let from = query.from.unwrap_or(f64::NEG_INFINITY);
    let to = query.to.unwrap_or(f64::INFINITY);
    let points = query.points.unwrap_or(ROWS).clamp(2, MOST_ROWS);
    let (bytes, mut more) = match format {
        Format::Parquet if length > LARGEST => {
            let error = format!("{name} has {length} bytes, and {LARGEST} are read at most");
            return Err(HttpError::conflict(error)
                .hint("of .csv and .jsonl parts can be read; vink plot reads all of a file"));
        }
        Format::Parquet => (part(&file, 0, length).map_err(host)?, false),
        Format::Csv | Format::JsonLines => {
            let lines = Lines { file, length };
            lines.from(from, format).map_err(host)?
        }
    };
    let table = match bytes.is_empty() {
        // A row has not come yet.
        true => Table::default(),
        false => vink_timeseries::read(format, &bytes).map_err(|error| {
            HttpError::conflict(format!("{name}: {error}")).hint(
                "a .parquet file can be read when the series has ended, .csv and .jsonl before",
            )
        })?,
    };
    let number = |cell: &Cell| match cell {
        Cell::Number(number) if number.is_finite() => Some(*number),
        _ => None,
    };
    let mut rows: Vec<Vec<Option<f64>>> = Vec::new();
    for row in &table.rows {
        match row.first().and_then(number) {
            Some(time) if time > to => {
                more = false;
                break;
            }
            Some(time) if time >= from => rows.push(row.iter().map(number).collect()),
            _ => {}
        }
    }
    Ok(SeriesRows {
        columns: table.names,
        stands_for: rows.len() as u64,
        rows: thinned(rows, points),
        more,
    })
}

fn part(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to.saturating_sub(from) as usize];
    let mut known = 0;
    while known < bytes.len() {
        match file.read_at(&mut bytes[known..], from + known as u64)? {
            // It was cut meanwhile.
            0 => break,
            count => known += count,
        }
    }
    bytes.truncate(known);
    Ok(bytes)
}

/// A file of lines.
struct Lines {
    file: File,
    length: u64,
}

impl Lines {
    /// The lines from this time on, behind the line of names if there is one, as far as they are whole
    /// and fit in; whether there are more.
    fn from(&self, time: f64, format: Format) -> io::Result<(Vec<u8>, bool)> {
        let head = match format {
            Format::Csv => self.line(0)?.len() as u64,
            _ => 0,
        };
        let mut bytes = part(&self.file, 0, head)?;
        // A line begins at `low`, and those before it are earlier. Those that begin at `high` or after it
        // are not.
        let (mut low, mut high) = (head, self.length);
        while time.is_finite() && low < high {
            let middle = low + (high - low) / 2;
            let at = self.next(middle, head)?;
            let line = match at < high {
                true => self.line(at)?,
                false => Vec::new(),
            };
            match first_number(&line, format) {
                Some(first) if first < time => low = at + line.len() as u64,
                _ => high = middle,
            }
        }
        let from = low;
        let to = (from + LARGEST).min(self.length);
        let mut rows = part(&self.file, from, to)?;
        let whole = rows.iter().rposition(|byte| *byte == b'\n');
        rows.truncate(whole.map_or(0, |end| end + 1));
        bytes.extend(rows);
        Ok((bytes, to < self.length))
    }

    /// Where a line begins: here, or the next one.
    fn next(&self, at: u64, head: u64) -> io::Result<u64> {
        if at <= head {
            return Ok(head);
        }
        Ok(at - 1 + self.line(at - 1)?.len() as u64)
    }

    /// What is there up to the end of the line.
    fn line(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut line = part(&self.file, at, (at + LONGEST_LINE).min(self.length))?;
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end + 1);
        }
        Ok(line)
    }
}

/// The time of a row.
fn first_number(line: &[u8], format: Format) -> Option<f64> {
    let text = std::str::from_utf8(line).ok()?;
    match format {
        Format::Csv => text.split(',').next()?.trim().parse().ok(),
        _ => {
            let row: serde_json::Map<_, _> = serde_json::from_str(text).ok()?;
            row.get("time")?.as_f64()
        }
    }
}

/// At most so many rows: of each part of the time the least and the greatest numbers.
fn thinned(rows: Vec<Vec<Option<f64>>>, most: usize) -> Vec<Vec<Option<f64>>> {
    if rows.len() <= most {
        return rows;
    }
    let parts = most / 2;
    let mut thin = Vec::with_capacity(most);
    for part in 0..parts {
        let these = &rows[part * rows.len() / parts..(part + 1) * rows.len() / parts];
        let (first, last) = (&these[0], &these[these.len() - 1]);
        let (mut early, mut late) = (first.clone(), last.clone());
        for (column, cell) in early.iter_mut().enumerate().skip(1) {
            let numbers = || {
                let numbered = these.iter().enumerate();
                numbered.filter_map(|(at, row)| Some((at, row.get(column).copied().flatten()?)))
            };
            let least = numbers().min_by(|a, b| a.1.total_cmp(&b.1));
            let greatest = numbers().max_by(|a, b| a.1.total_cmp(&b.1));
            let [one, other] = match (least, greatest) {
                (Some(least), Some(greatest)) if least.0 <= greatest.0 => [least.1, greatest.1],
                (Some(least), Some(greatest)) => [greatest.1, least.1],
                _ => continue,
            };
            *cell = Some(one);
            if let Some(cell) = late.get_mut(column) {
                *cell = Some(other);
            }
        }
        thin.extend([early, late]);
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a file of this name, from and to these times.
    fn of(name: &str, text: &str, query: &RowsQuery) -> SeriesRows {
        let own = format!("vink-rows-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(own);
        std::fs::write(&path, text).expect("a file");
        let found = rows(&path, query).map_err(|error| error.problem.error);
        std::fs::remove_file(&path).expect("it was there");
        found.expect("rows")
    }

    fn between(from: f64, to: f64) -> RowsQuery {
        RowsQuery {
            from: Some(from),
            to: Some(to),
            points: None,
        }
    }

    #[test]
    fn rows_are_found_by_their_times() {
        let mut csv = "time,\"a, b\",window\n".to_owned();
        let mut json = String::new();
        for at in 0..2000 {
            csv += &format!(
                "{},{},{}\n",
                f64::from(at) / 10.0,
                at * 2,
                "1".repeat(at as usize % 7)
            );
            json += &format!("{{\"time\":{},\"window\":{at}}}\n", f64::from(at) / 10.0);
        }
        // One that is not whole yet.
        let cut = csv.clone() + "200.0,7";
        for text in [&csv, &cut] {
            for at in 0..2000_u32 {
                let time = f64::from(at) / 10.0;
                let found = of("one.csv", text, &between(time, time + 0.25));
                assert_eq!(found.columns, ["time", "a, b", "window"]);
                assert_eq!(found.rows.len(), 3.min(2000 - at as usize), "{at}");
                assert_eq!(found.rows[0][..2], [Some(time), Some(f64::from(at * 2))]);
            }
        }
        let found = of("two.jsonl", &json, &between(77.05, 78.0));
        let times: Vec<_> = found.rows.iter().map(|row| row[0]).collect();
        assert_eq!((times.len(), times[0]), (10, Some(77.1)));
        assert_eq!(
            of("three.csv", "time,a\n", &RowsQuery::default())
                .rows
                .len(),
            0
        );
        assert_eq!(of("four.jsonl", "", &RowsQuery::default()).rows.len(), 0);
        assert_eq!(of("five.csv", &csv, &between(500.0, 900.0)).rows.len(), 0);
    }

    #[test]
    fn of_many_rows_the_peaks_are_left() {
        let row = |at: u32| match at {
            777 => "777,-5\n".to_owned(),
            4321 => "4321,1000\n".to_owned(),
            _ => format!("{at},{}\n", at % 3),
        };
        let text: String = (0..10_000).map(row).collect();
        let query = RowsQuery {
            points: Some(100),
            ..RowsQuery::default()
        };
        let found = of("peaks.csv", &format!("time,n\n{text}"), &query);
        assert_eq!((found.rows.len(), found.stands_for), (100, 10_000));
        let numbers: Vec<f64> = found.rows.iter().filter_map(|row| row[1]).collect();
        assert!(numbers.contains(&-5.0) && numbers.contains(&1000.0));
        let times: Vec<f64> = found.rows.iter().filter_map(|row| row[0]).collect();
        assert!(times.is_sorted());
        assert_eq!((times[0], times[99]), (0.0, 9999.0));
    }
}
