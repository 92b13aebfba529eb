//! Labs in which stock images are explored, and what is known of what they break.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// What a story says that ends with Linux's own mistake: docs/mutants.md.
const MISTAKE: &str = "a tail loss probe, which it sent after that recovery, was not needed";
/// Of a property that connections break that end at one end only, as they may: docs/mutants.md.
const STALL: &str = "the property \"stall\" does not hold";
/// The lab in which Linux gives a connection up because of one lost probe, and what its program says
/// then: docs/mutants.md.
const PROBED: &str = "Lab zero-window on ";
const GIVEN_UP: &str = "Connection timed out (os error 110)";
/// Some connections of these labs last so long.
pub const STALL_TIMEOUT: &str = "--stall-timeout=1500s";

/// The lab files of a folder of tests/.
pub fn labs(folder: &str) -> Vec<PathBuf> {
    let folder = root().join("tests").join(folder);
    let entries = fs::read_dir(&folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut labs: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    labs.sort();
    labs
}

/// Which properties are checked in the lab of this file.
pub fn properties(name: &str) -> &'static [&'static str] {
    // splice(2), urgent data and MSG_TRUNC move bytes that the property `stream` does not see.
    match name.starts_with("ways") {
        true => &["--property=panic", "--property=stall", "--property=outcome"],
        false => &[],
    }
}

/// The stories of what was found there, but for those that are explained; and how many these are.
pub fn unexplained(found: &Path) -> (Vec<String>, usize) {
    let Ok(found) = fs::read_dir(found) else {
        return (Vec::new(), 0);
    };
    let story = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path().join("story.txt");
        fs::read_to_string(path).expect("a story")
    };
    let (explained, others): (Vec<_>, Vec<_>) =
        found.map(story).partition(|story| is_explained(story));
    (others, explained.len())
}

/// Whether docs/mutants.md tells the reason of a story.
pub fn is_explained(story: &str) -> bool {
    let is_reset = |line: &str| line.contains("[R]") || line.contains("[R.]");
    let has_reset = |what: &str| {
        let mut lines = story.lines();
        lines.any(|line| line.contains(what) && is_reset(line))
    };
    let is_half_open = has_reset(" is lost: TCP ") || has_reset(" loses (TCP_RESET): TCP ");
    let is_given_up = story.starts_with(PROBED) && story.contains(GIVEN_UP);
    story.contains(MISTAKE) || story.contains(STALL) && (is_half_open || is_given_up)
}
