//! A program of the suite: a shell file of `tests/compat/programs`, with a few words about it at its head.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BoxError;

/// What the head of a file says, in lines such as `# packages: curl wget`; the first line is its title.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The file's name without `.sh`.
    pub name: String,
    /// What is run and what it does, for the table.
    pub title: String,
    /// Debian packages that it needs.
    pub packages: Vec<String>,
    /// What the server is waited for: `tcp/8080`, or a text that it writes.
    pub ready: Vec<String>,
    /// Why the host can't be asked; what is expected is in a file then.
    pub expected: Option<String>,
    /// Why it is not run with the stack in its processes.
    pub not_in_process: Option<String>,
    /// Why it is not expected to repeat in virtual time.
    pub not_repeated: Option<String>,
    /// It executes rdtsc, so that it repeats only with a virtual time stamp counter.
    pub reads_counter: bool,
    /// Part of `make test`.
    pub short: bool,
    /// The file.
    pub path: PathBuf,
}

impl Program {
    /// Reads the head of a program's file.
    pub fn read(path: &Path) -> Result<Program, BoxError> {
        let say = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = fs::read_to_string(path).map_err(|e| say(&e))?;
        let stem = path.file_stem().unwrap_or_default();
        let mut program = Program {
            name: stem.to_string_lossy().into_owned(),
            path: path.to_owned(),
            ..Program::default()
        };
        let head = text.lines().map_while(|line| line.strip_prefix("# "));
        for (i, line) in head.enumerate() {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            match line.split_once(": ").unwrap_or((line, "")) {
                _ if i == 0 => program.title = line.trim_end_matches('.').to_owned(),
                ("packages", text) => program.packages = words(text),
                ("listens", text) => program.ready.extend::<Vec<_>>(words(text)),
                ("says", text) => program.ready.push(text.to_owned()),
                ("expected", text) => program.expected = Some(text.to_owned()),
                ("not in-process", text) => program.not_in_process = Some(text.to_owned()),
                ("not repeated", text) => program.not_repeated = Some(text.to_owned()),
                ("reads the time stamp counter", "") => program.reads_counter = true,
                ("short", "") => program.short = true,
                _ => return Err(say(&format!("what is \"# {line}\" in its head?")).into()),
            }
        }
        if program.title.is_empty() {
            return Err(say(&"its first line must say what it is: # TITLE").into());
        }
        Ok(program)
    }

    /// Files that it needs beside its own, if there are any.
    pub fn folder(&self) -> Option<PathBuf> {
        Some(self.path.with_extension("")).filter(|folder| folder.is_dir())
    }
}

/// All programs of a folder, by name.
pub(crate) fn all(folder: &Path) -> Result<Vec<Program>, BoxError> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "sh"));
    paths.sort();
    paths.iter().map(|path| Program::read(path)).collect()
}
