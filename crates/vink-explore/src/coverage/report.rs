//! What was reached, as a user reads it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;

use super::edges::{Edge, State, Steps, FIGURE, RESETS};
use super::notes::Function;

/// A source file's lines that there is code of.
#[derive(Clone, Debug, Serialize)]
pub struct FileCoverage {
    /// `tcp_input.c`.
    pub name: String,
    /// Whether a line was reached, by its number.
    pub lines: BTreeMap<u32, bool>,
}

impl FileCoverage {
    pub(super) fn new(name: &str) -> FileCoverage {
        FileCoverage {
            name: name.to_owned(),
            lines: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, function: &Function, blocks: &[i64]) {
        for (line, block) in &function.lines {
            *self.lines.entry(*line).or_default() |= blocks[*block] > 0;
        }
    }

    /// How many lines were reached.
    pub fn reached(&self) -> usize {
        self.lines.values().filter(|reached| **reached).count()
    }

    /// The lines that were not: the first and the last one of each piece that has no other code in it.
    pub fn missing(&self) -> Vec<(u32, u32)> {
        let mut pieces: Vec<(u32, u32)> = Vec::new();
        let mut goes_on = false;
        for (line, is_reached) in &self.lines {
            match pieces.last_mut() {
                Some((_, end)) if goes_on && !is_reached => *end = *line,
                _ if !is_reached => pieces.push((*line, *line)),
                _ => {}
            }
            goes_on = !is_reached;
        }
        pieces
    }
}

/// What runs have reached.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageReport {
    /// The labs that were run.
    pub labs: Vec<String>,
    /// Lines of each file of TCP's.
    pub files: Vec<FileCoverage>,
    /// States, and whether a connection was in them.
    pub states: Vec<(&'static str, bool)>,
    /// RFC 9293's ways between them, figure 5, and whether one has gone along.
    pub edges: Vec<(String, bool)>,
    /// A RST's, which the figure leaves out.
    pub resets: Vec<(String, bool)>,
}

impl CoverageReport {
    pub(super) fn new(labs: Vec<String>, files: Vec<FileCoverage>, steps: &Steps<'_>) -> Self {
        let went = |edges: &[Edge]| {
            let edges = edges.iter();
            edges
                .map(|edge| (edge.to_string(), steps.has(edge)))
                .collect()
        };
        let states = State::ALL.iter();
        CoverageReport {
            labs,
            files,
            states: states
                .map(|state| (state.name(), steps.has_been_in(*state)))
                .collect(),
            edges: went(&FIGURE),
            resets: went(&RESETS),
        }
    }

    /// Lines that were reached, and all that there is code of.
    pub fn lines(&self) -> (usize, usize) {
        let files = self.files.iter();
        files.fold((0, 0), |(reached, all), file| {
            (reached + file.reached(), all + file.lines.len())
        })
    }

    /// A page; with `missing`, also which lines of each file were not reached.
    pub fn text(&self, missing: bool) -> String {
        let mut text = String::new();
        let (reached, all) = self.lines();
        let labs = self.labs.len();
        line(
            &mut text,
            format_args!(
                "{} of net/ipv4/tcp*.c reached by {labs} {}",
                share("lines", reached, all),
                if labs == 1 { "lab" } else { "labs" }
            ),
        );
        for file in &self.files {
            let (reached, all) = (file.reached(), file.lines.len());
            let share = percent(reached, all);
            line(
                &mut text,
                format_args!("  {:18} {reached:5} of {all:5}  {share:5.1} %", file.name),
            );
            if missing && reached < all {
                let pieces = file.missing();
                let pieces = pieces.iter().map(|(from, to)| match from == to {
                    true => from.to_string(),
                    false => format!("{from}-{to}"),
                });
                let pieces = pieces.collect::<Vec<_>>().join(" ");
                line(&mut text, format_args!("    not: {pieces}"));
            }
        }
        let states: Vec<_> = self
            .states
            .iter()
            .map(|(name, has)| (*name, *has))
            .collect();
        parts(&mut text, "states", &states);
        for (what, edges) in [
            ("edges of RFC 9293's figure 5", &self.edges),
            ("edges by a RST, which that leaves out", &self.resets),
        ] {
            let edges: Vec<_> = edges
                .iter()
                .map(|(name, has)| (name.as_str(), *has))
                .collect();
            parts(&mut text, what, &edges);
        }
        text
    }
}

/// How many of some were reached, and which were not.
fn parts(text: &mut String, what: &str, all: &[(&str, bool)]) {
    let reached = all.iter().filter(|(_, has)| *has).count();
    line(text, format_args!("{}", share(what, reached, all.len())));
    for (name, _) in all.iter().filter(|(_, has)| !has) {
        line(text, format_args!("  not: {name}"));
    }
}

fn share(what: &str, reached: usize, all: usize) -> String {
    format!(
        "{what}: {reached} of {all} ({:.1} %)",
        percent(reached, all)
    )
}

fn percent(part: usize, all: usize) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn line(text: &mut String, what: fmt::Arguments<'_>) {
    writeln!(text, "{what}").expect("memory");
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}: {}", self.from.name(), self.to.name(), self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_missing_are_told_in_pieces() {
        let mut file = FileCoverage::new("tcp.c");
        let function = Function {
            blocks: 3,
            lines: vec![(10, 0), (12, 1), (15, 1), (16, 0), (20, 2), (10, 1)],
            ..Function::default()
        };
        file.add(&function, &[4, 0, -1]);
        assert_eq!((file.reached(), file.lines.len()), (2, 5));
        assert_eq!(file.missing(), [(12, 15), (20, 20)]);
    }
}
