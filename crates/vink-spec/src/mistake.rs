//! What is wrong with a lab file: where, what, and what to write instead.

use std::fmt;

/// Mistakes that are shown at most; the rest is counted.
const SHOWN: usize = 50;

/// A part of a file's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its line, from 1; 0: nowhere.
    pub line: usize,
    /// Its first character's column, from 1.
    pub column: usize,
    /// How many characters of the line it has.
    pub length: usize,
}

/// Something wrong, or suspicious, in a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// The file; none for a lab that came otherwise.
    pub file: Option<String>,
    /// Where in the file.
    pub place: Place,
    /// That line.
    pub excerpt: String,
    /// Where in the lab: `machines.m1.interfaces.eth0.wire`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// The lab can be used all the same.
    pub warning: bool,
}

/// The mistakes of a lab that can't be used, in the order of their places.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistake {
    /// For programs: `line` and `column` are 0 where there is no file.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.file,
            "line": self.place.line,
            "column": self.place.column,
            "length": self.place.length,
            "path": self.path,
            "severity": if self.warning { "warning" } else { "error" },
            "message": self.message,
            "fix": self.fix,
        })
    }
}

impl fmt::Display for Mistake {
    /// As compilers do: `FILE:LINE:COLUMN: error: MESSAGE`, the line, and the fix. Without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            line,
            column,
            length,
        } = self.place;
        match (&self.file, line) {
            (Some(file), 0) => write!(f, "{file}: ")?,
            (Some(file), _) => write!(f, "{file}:{line}:{column}: ")?,
            (None, _) if self.path.is_empty() => write!(f, "the lab: ")?,
            (None, _) => write!(f, "{}: ", self.path)?,
        }
        let kind = if self.warning { "warning" } else { "error" };
        write!(f, "{kind}: {}", self.message)?;
        if line > 0 {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            // Tabs stay tabs, so that the marks stand below what they mean.
            let before: String = self
                .excerpt
                .chars()
                .take(column - 1)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let marks = "^".repeat(length.max(1));
            write!(
                f,
                "\n  {number} | {}\n  {margin} | {before}{marks}",
                self.excerpt
            )?;
        }
        if !self.fix.is_empty() {
            write!(f, "\n  fix: {}", self.fix)?;
        }
        Ok(())
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().take(SHOWN).enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            mistake.fmt(f)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Mistakes {}

/// The word that is most like another one, if there is one that may be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = match word.chars().count() {
        0..=2 => 1,
        3..=7 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= allowed && *distance < candidate.chars().count().max(2)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many characters must be put in, taken out, changed, or swapped with their neighbour (optimal string
/// alignment), whatever their case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (
        a.to_lowercase().chars().collect(),
        b.to_lowercase().chars().collect(),
    );
    if a.len().abs_diff(b.len()) > 3 {
        return usize::MAX;
    }
    let mut before = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = changed.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word() {
        let known = ["wire", "addresses", "mac", "up"];
        for (word, near) in [
            ("wires", Some("wire")),
            ("adresses", Some("addresses")),
            ("address", Some("addresses")),
            ("MAC", Some("mac")),
            ("wrie", Some("wire")),
            ("banana", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }
}
