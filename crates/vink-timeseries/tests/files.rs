//! What is written is read again, and by another's reader.

use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use vink_timeseries::{read, Cell, Format, Writer};

const NAMES: [&str; 3] = ["time", "cwnd, \"of\" a", "queue"];

/// More than a group of Parquet's has, with gaps.
fn rows() -> Vec<[Option<f64>; 3]> {
    let row = |i: u32| {
        let t = f64::from(i) * 0.001;
        [
            Some(t),
            (!i.is_multiple_of(3)).then_some(f64::from(i)),
            (i < 10).then_some(-0.1 * t),
        ]
    };
    (0..70_001).map(row).collect()
}

fn written(format: Format, rows: &[[Option<f64>; 3]]) -> Vec<u8> {
    let mut writer = Writer::new(format, &NAMES, Vec::new()).unwrap();
    for row in rows {
        writer.row(row).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn each_format_keeps_what_it_is_given() {
    for rows in [rows(), Vec::new(), rows()[..7].to_vec()] {
        for format in [Format::Csv, Format::JsonLines, Format::Parquet] {
            let table = read(format, &written(format, &rows)).unwrap();
            // An object that is not there has no names.
            if format != Format::JsonLines || !rows.is_empty() {
                assert_eq!(table.names, NAMES);
            }
            let cell = |cell: &Option<f64>| cell.map_or(Cell::Empty, Cell::Number);
            let wanted = rows.iter().map(|row| row.iter().map(cell).collect());
            let wanted: Vec<Vec<Cell>> = wanted.collect();
            assert!(table.rows == wanted, "{format:?}");
        }
    }
}

#[test]
fn another_reader_of_parquet_finds_the_same() {
    let rows = rows();
    let bytes = written(Format::Parquet, &rows);
    let dir = std::env::temp_dir().join(format!("vink-timeseries-{}", std::process::id()));
    std::fs::write(&dir, bytes).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&dir).unwrap()).unwrap();
    std::fs::remove_file(&dir).unwrap();
    let mut count = 0;
    for (found, wanted) in reader.get_row_iter(None).unwrap().zip(&rows) {
        let found = found.unwrap();
        for ((name, cell), (own, wanted)) in found.get_column_iter().zip(NAMES.iter().zip(wanted)) {
            let wanted = wanted.map_or(Field::Null, Field::Double);
            assert_eq!((name.as_str(), cell), (*own, &wanted));
        }
        count += 1;
    }
    assert_eq!(count, rows.len());
}

#[test]
fn what_others_write() {
    let text = "{\"time\":1,\"fields\":{\"cwnd\":10}}\n\n{\"time\":2,\"state\":\"open\"}\n";
    let table = read(Format::JsonLines, text.as_bytes()).unwrap();
    assert_eq!(table.names, ["time", "fields.cwnd", "state"]);
    assert_eq!(table.lines, [1, 3]);
    assert_eq!(table.rows[0][1..], [Cell::Number(10.0), Cell::Empty]);
    assert_eq!(table.rows[1][2], Cell::Text("open".to_owned()));
    let table = read(Format::Csv, b"a, b\n1,\n,x\n").unwrap();
    assert_eq!(table.rows[0], [Cell::Number(1.0), Cell::Empty]);
    assert_eq!(table.rows[1], [Cell::Empty, Cell::Text("x".to_owned())]);
}

#[test]
fn mistakes_are_named() {
    let error = |format, bytes: &[u8]| read(format, bytes).unwrap_err().to_string();
    assert!(error(Format::JsonLines, b"{}\nnone\n").starts_with("line 2: "));
    assert!(error(Format::Csv, b"a,b\n1\n").contains("line: 2"));
    let whole = written(Format::Parquet, &rows()[..9]);
    assert!(error(Format::Parquet, &whole[..whole.len() - 9]).contains("was not ended"));
    let broken = [b"PAR1", &[0xff; 20][..], &20u32.to_le_bytes(), b"PAR1"].concat();
    assert!(error(Format::Parquet, &broken).contains("can't be read"));
    let ending = Format::of(Path::new("a.xls")).unwrap_err();
    assert!(ending.contains("csv, jsonl"), "{ending}");
    assert_eq!(Format::of(Path::new("b/a.parquet")), Ok(Format::Parquet));
}
