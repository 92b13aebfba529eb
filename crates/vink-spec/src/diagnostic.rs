//! What is wrong with a lab file: where, what, and what to write instead.

use std::borrow::Cow;
use std::fmt;

/// Diagnostics that are shown at most; the rest is counted.
const SHOWN: usize = 50;
/// Characters of a line that are shown at most.
const WIDEST: usize = 160;

/// A part of a file's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    /// Its line, from 1; 0: nowhere.
    pub line: usize,
    /// Its first character's column, from 1.
    pub column: usize,
    /// How many characters of the line it has.
    pub length: usize,
}

/// Something wrong, or suspicious, in a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The file; none for a lab that came otherwise.
    pub file: Option<String>,
    /// Where in the file.
    pub span: SourceSpan,
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
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostic {
    /// For programs: `line` and `column` are 0 where there is no file.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.file,
            "line": self.span.line,
            "column": self.span.column,
            "length": self.span.length,
            "path": self.path,
            "severity": if self.warning { "warning" } else { "error" },
            "message": self.message,
            "fix": self.fix,
        })
    }
}

impl fmt::Display for Diagnostic {
    /// As compilers do: `FILE:LINE:COLUMN: error: MESSAGE`, the line, and the fix. Without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceSpan {
            line,
            column,
            length,
        } = self.span;
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
            let (shown, skipped) = window(&self.excerpt, column);
            // Tabs stay tabs, so that the marks stand below what they mean.
            let before: String = shown
                .chars()
                .take(column - 1 - skipped)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let room = shown.chars().count().saturating_sub(before.chars().count());
            let marks = "^".repeat(length.min(room).max(1));
            write!(f, "\n  {number} | {shown}\n  {margin} | {before}{marks}")?;
        }
        if !self.fix.is_empty() {
            write!(f, "\n  fix: {}", self.fix)?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
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

impl std::error::Error for Diagnostics {}

/// The part of a line around a column (from 1) that is worth printing, and how many characters
/// fewer are in front of the column.
fn window(line: &str, column: usize) -> (Cow<'_, str>, usize) {
    const DOTS: &str = "...";
    if line.chars().count() <= WIDEST {
        return (line.into(), 0);
    }
    // What is left out takes more room than the dots in its place.
    let start = match column.saturating_sub(WIDEST / 2) {
        start if start > DOTS.len() => start,
        _ => 0,
    };
    let part: String = line.chars().skip(start).take(WIDEST).collect();
    let head = if start > 0 { DOTS } else { "" };
    let tail = if line.chars().count() > start + WIDEST {
        DOTS
    } else {
        ""
    };
    (format!("{head}{part}{tail}").into(), start - head.len())
}

/// The word that is most like another one, if there is one that may be meant: by how many
/// characters must be put in, taken out, changed, or swapped with their neighbour (optimal string
/// alignment), whatever their case.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = match word.chars().count() {
        0..=2 => 1,
        3..=7 => 2,
        _ => 3,
    };
    let word = word.to_lowercase();
    let distance = |candidate: &str| strsim::osa_distance(&word, &candidate.to_lowercase());
    known
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= allowed && *distance < candidate.chars().count().max(2)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::{nearest, Diagnostic, SourceSpan, WIDEST};

    #[test]
    fn a_long_line_is_shown_in_part() {
        for at in [1, 2, 50, 80, 83, 84, 85, 500, 990] {
            let mut line = vec!['x'; 1000];
            line[at - 1] = '!';
            let mistake = Diagnostic {
                file: None,
                span: SourceSpan {
                    line: 7,
                    column: at,
                    length: 1000,
                },
                excerpt: line.into_iter().collect(),
                path: String::new(),
                message: "no".to_owned(),
                fix: String::new(),
                warning: false,
            };
            let text = mistake.to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[1].len() <= WIDEST + 20, "{text}");
            assert_eq!(lines[1].find('!'), lines[2].find('^'), "{text}");
            assert!(lines[2].len() <= lines[1].len(), "{text}");
        }
    }

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
