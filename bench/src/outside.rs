//! What other programs measure, which are told when: the Python package, by `python/bench.py`, and the page, by
//! `ui/bench/run.ts`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::side::Round;
use crate::BoxError;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Starts what measures this of the Python package, in the environment that `.ci/python` makes.
pub(crate) fn python(what: &str, vink: PathBuf) -> Result<Round, BoxError> {
    let mut command = Command::new(root().join(".ci/python"));
    command
        .args(["python", "bench.py", what])
        .current_dir(root().join("python"))
        .env("PYTHONPATH", "src")
        .env("VINK_EXECUTABLE", vink);
    rounds(command)
}

/// Starts what measures this of the page in a browser, with what `.ci/node` installs, and these options.
pub(crate) fn page(what: &str, vink: PathBuf, options: &[&str]) -> Result<Round, BoxError> {
    let mut command = Command::new(root().join(".ci/node"));
    command
        .args(["node", "bench/run.ts", "--rounds", what])
        .args(options)
        .env("VINK_EXECUTABLE", vink);
    rounds(command)
}

/// A program that prints a round's figures for each line that it reads.
fn rounds(mut command: Command) -> Result<Round, BoxError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    // It ends when no more is asked for, which is when this process ends.
    let mut orders = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    Ok(Box::new(move || {
        writeln!(orders, "round")?;
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(format!("what {name} started has ended: {}", child.wait()?).into());
        }
        let figures = line.split_whitespace().map(|word| word.parse().ok());
        Ok(figures.collect())
    }))
}
