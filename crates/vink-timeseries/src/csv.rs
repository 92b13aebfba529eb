//! CSV, as in RFC 4180.

use crate::{Cell, Error, Table};

/// A row as a line.
pub(crate) fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).expect("memory");
    let bytes = writer.into_inner().expect("memory");
    String::from_utf8(bytes).expect("texts make a text")
}

pub(crate) fn read(bytes: &[u8]) -> Result<Table, Error> {
    let malformed = |error: csv::Error| Error::Malformed(error.to_string());
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let names = reader.headers().map_err(malformed)?;
    let mut table = Table {
        names: names.iter().map(str::to_owned).collect(),
        ..Table::default()
    };
    for record in reader.records() {
        let record = record.map_err(malformed)?;
        let cells = record.iter().map(|cell| match cell.parse() {
            Ok(number) => Cell::Number(number),
            Err(_) if cell.is_empty() => Cell::Empty,
            Err(_) => Cell::Text(cell.to_owned()),
        });
        table.rows.push(cells.collect());
        let line = record.position().map_or(0, csv::Position::line);
        table.lines.push(line);
    }
    Ok(table)
}
