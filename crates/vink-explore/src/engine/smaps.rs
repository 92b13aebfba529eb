//! This process's private mappings, and how much memory they have: `/proc/self/smaps`, proc_pid_smaps(5).

use vink_sys::maps::MapsLine;

use crate::Error;

/// A private mapping that can be read.
pub(super) struct Smap<'a> {
    pub line: MapsLine<'a>,
    /// In memory, kB.
    pub resident: usize,
    /// Of that, what is not as its file has it, or of no file, kB.
    pub anonymous: usize,
    /// Of that, what is in huge pages, kB.
    pub huge: usize,
}

/// The file's text.
///
/// # Errors
/// [`Error::Host`]: it can't be read.
pub(super) fn read() -> Result<String, Error> {
    let path = "/proc/self/smaps";
    std::fs::read_to_string(path).map_err(Error::host(format!("reading {path}")))
}

/// The mappings of such a text.
pub(super) fn private(smaps: &str) -> Vec<Smap<'_>> {
    let mut all: Vec<Smap<'_>> = Vec::new();
    let mut is_wanted = false;
    for text in smaps.lines() {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if !first.ends_with(':') {
            let line = MapsLine::of(text).filter(|line| line.is_private() && line.is_readable());
            is_wanted = line.is_some();
            all.extend(line.map(|line| Smap {
                line,
                resident: 0,
                anonymous: 0,
                huge: 0,
            }));
        } else if let Some(last) = all.last_mut().filter(|_| is_wanted) {
            let field = match first {
                "Rss:" => &mut last.resident,
                "Anonymous:" => &mut last.anonymous,
                "AnonHugePages:" => &mut last.huge,
                _ => continue,
            };
            *field = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
    }
    all
}
