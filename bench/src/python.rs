//! The Python package: `python/bench.py` measures, here it is told when.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::side::Round;
use crate::BoxError;

/// Starts what measures this, in the environment that `.ci/python` makes.
pub(crate) fn prepare(what: &str, vink: PathBuf) -> Result<Round, BoxError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut child = Command::new(root.join(".ci/python"))
        .args(["python", "bench.py", what])
        .current_dir(root.join("python"))
        .env("PYTHONPATH", "src")
        .env("VINK_EXECUTABLE", vink)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!(".ci/python: {error}"))?;
    // It ends when no more is asked for, which is when this process ends.
    let mut orders = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    Ok(Box::new(move || {
        writeln!(orders, "round")?;
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(format!("python/bench.py ended: {}", child.wait()?).into());
        }
        let figures = line.split_whitespace().map(|word| word.parse().ok());
        Ok(figures.collect())
    }))
}
