//! Lab files of older versions: they are read today, and as the same labs.
//!
//! A file of tests/older is named by the day and the commit of a version. That version has read `NAME.yaml`, and has
//! written `NAME.json`, a lab in each line, as it has understood them and as its recordings have them, and
//! `NAME.saved.yaml`, as `vink lab save` does. Together they have every key. These files stay as they are. A change of
//! the lab file adds some, written by the version before the next one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vink_spec::{read_text, Lab};

/// The files of lab files that versions have read, not those that they have written.
fn versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/older");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .expect("tests/older")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_str().is_some_and(|path| path.ends_with(".yaml")))
        .filter(|path| path.with_extension("json").exists())
        .collect();
    found.sort();
    found
}

/// The labs of a file.
fn labs(path: &Path) -> Vec<Lab> {
    let text = fs::read_to_string(path).expect("a file");
    text.split("---\n")
        .map(
            |lab| match read_text(lab, &path.display().to_string(), None) {
                Ok(reading) => reading.lab,
                Err(mistakes) => panic!("{}: {mistakes}\n{lab}", path.display()),
            },
        )
        .collect()
}

#[test]
fn they_are_the_same_labs() {
    let versions = versions();
    assert!(versions.len() >= 6, "{versions:?}");
    for path in versions {
        let name = path.display();
        let labs = labs(&path);
        let understood = fs::read_to_string(path.with_extension("json")).expect("a file");
        let understood: Vec<&str> = understood.lines().collect();
        assert_eq!(labs.len(), understood.len(), "{name}");
        for (lab, then) in labs.iter().zip(understood) {
            let value: Value = serde_json::from_str(then).expect("JSON");
            assert_eq!(serde_json::to_value(lab).expect("JSON"), value, "{name}");
            let recorded: Lab = serde_json::from_str(then).expect(then);
            assert_eq!(&recorded, lab, "{name}");
        }
        assert_eq!(
            self::labs(&path.with_extension("saved.yaml")),
            labs,
            "{name}"
        );
    }
}

/// The one thing that was read once and is not any more: until 2026-11-25 a time without a unit was one of seconds, and
/// a rate one of bits per second.
#[test]
fn what_may_have_another_meaning_is_refused_with_both() {
    for (setting, fixes) in [
        ("delay: 5", ["5ms", "5s"]),
        ("rate: 9600", ["9600bit", "9600mbit"]),
        ("loss: 1", ["1%", "100%"]),
    ] {
        let lab = format!(
            "machines: {{a: {{interfaces: {{e: {{wire: w}}}}}}}}\nwires: {{w: {{{setting}}}}}"
        );
        let said = read_text(&lab, "lab.yaml", None)
            .expect_err(&lab)
            .to_string();
        assert!(fixes.iter().all(|fix| said.contains(fix)), "{said}");
    }
}
