//! Where a lab's views are kept: `LAB.views.yjs`, and on request `LAB.views.json`, whose lines a version control system
//! can compare.
//!
//! A file is written beside its place and then moved there, so that at any moment, and on a full disk, there is a whole
//! one: the old or the new.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use yrs::any::Number;
use yrs::Any;

/// The files of one lab.
pub(super) struct Files {
    folder: PathBuf,
    lab: String,
}

impl Files {
    pub(super) fn new(folder: PathBuf, lab: &str) -> Files {
        let lab = lab.to_owned();
        Files { folder, lab }
    }

    pub(super) fn binary(&self) -> PathBuf {
        self.folder.join(format!("{}.views.yjs", self.lab))
    }

    pub(super) fn json(&self) -> PathBuf {
        self.folder.join(format!("{}.views.json", self.lab))
    }

    /// The document as it was left; nothing if there was none.
    pub(super) fn load(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.binary()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Has this file hold these bytes, or, with an error, what it has held.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    // One that was left in the middle.
    let _ = fs::remove_file(&new);
    let written = (|| {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// The parts with sorted keys, one entry to a line.
pub(super) fn to_json(parts: &HashMap<String, Any>) -> String {
    let mut text = "{".to_owned();
    let sorted: std::collections::BTreeMap<_, _> = parts.iter().collect();
    for (place, (part, value)) in sorted.into_iter().enumerate() {
        text += if place == 0 { "\n" } else { ",\n" };
        text += &format!("  {}: ", quoted(part));
        match value {
            Any::Map(entries) if !entries.is_empty() => {
                let sorted: std::collections::BTreeMap<_, _> = entries.iter().collect();
                let lines: Vec<String> = sorted
                    .into_iter()
                    .map(|(key, value)| format!("    {}: {}", quoted(key), written(value)))
                    .collect();
                text += &format!("{{\n{}\n  }}", lines.join(",\n"));
            }
            value => text += &written(value),
        }
    }
    text + "\n}\n"
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value in one line.
fn written(value: &Any) -> String {
    match value {
        Any::Null | Any::Undefined | Any::Buffer(_) => "null".to_owned(),
        Any::Bool(value) => value.to_string(),
        Any::Number(Number::Int(value)) => value.to_string(),
        Any::Number(Number::Float(value)) if value.is_finite() => value.to_string(),
        Any::Number(Number::Float(_)) => "null".to_owned(),
        Any::String(text) => quoted(text),
        Any::Array(values) => {
            let values: Vec<String> = values.iter().map(written).collect();
            format!("[{}]", values.join(", "))
        }
        Any::Map(entries) => {
            let sorted: std::collections::BTreeMap<_, _> = entries.iter().collect();
            let entries: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}: {}", quoted(key), written(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_before() {
        let folder = std::env::temp_dir().join(format!("vink-views-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let files = Files::new(folder.clone(), "lab");
        assert_eq!(files.load().expect("no file is no error"), None);
        replace(&files.binary(), b"one").expect("it is written");
        // What a process that was killed has left does not matter.
        fs::write(folder.join(".lab.views.yjs.new"), b"tw").expect("a file");
        replace(&files.binary(), b"two").expect("it is written");
        assert_eq!(files.load().expect("a file").as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        // Where nothing can be written, the old one stays.
        let new = folder.join(".lab.views.yjs.new");
        fs::create_dir(&new).expect("a folder in its place");
        assert!(replace(&files.binary(), b"three").is_err());
        assert_eq!(files.load().expect("a file").as_deref(), Some(&b"two"[..]));
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn json_is_sorted_and_an_entry_is_a_line() {
        let point = Any::from(vec![Any::from(1.5), Any::from(-2)]);
        let stroke = HashMap::from([("b".to_owned(), Any::Null), ("a".to_owned(), point.clone())]);
        let positions = HashMap::from([
            ("r2".to_owned(), point),
            ("r1\"".to_owned(), Any::from(stroke)),
        ]);
        let parts = HashMap::from([
            ("positions".to_owned(), Any::from(positions)),
            ("notes".to_owned(), Any::from("a\nb")),
            (
                "whiteboard".to_owned(),
                Any::from(HashMap::<String, Any>::new()),
            ),
        ]);
        let text = to_json(&parts);
        let wanted = r#"{
  "notes": "a\nb",
  "positions": {
    "r1\"": {"a": [1.5, -2], "b": null},
    "r2": [1.5, -2]
  },
  "whiteboard": {}
}
"#;
        assert_eq!(text, wanted);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
