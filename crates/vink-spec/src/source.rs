//! Where labs come from: files, texts, and JSON of the control API.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::diagnostic::{Diagnostic, Diagnostics, SourceSpan};
use crate::file::{read_file, LARGEST_FILE};
use crate::node::Node;
use crate::read::Reader;
use crate::{check, yaml, Lab, LabDiagnostic};

/// Finds what is wrong with a lab that this crate cannot know: what is there to run in it.
type Look<'a> = &'a dyn Fn(&Lab) -> Vec<LabDiagnostic>;

/// A lab that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The lab, with everything in it that it has generated.
    pub lab: Lab,
    /// What looks like a mistake.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a lab file. Its name without `.yaml`, `.yml` or `.vink.yaml` is the lab's, if the file
/// gives none; the paths in it are inside its folder.
pub fn read(path: &Path) -> Result<Reading, Diagnostics> {
    read_and(path, &|_| Vec::new())
}

/// The same; `look` finds what else is wrong with the lab, which is told with its place like all
/// other mistakes.
pub fn read_and(path: &Path, look: Look<'_>) -> Result<Reading, Diagnostics> {
    let file = path.display().to_string();
    let failed = |message: String, fix: &str| {
        Diagnostics(vec![Diagnostic {
            file: Some(file.clone()),
            span: SourceSpan::default(),
            excerpt: String::new(),
            path: String::new(),
            message,
            fix: fix.to_owned(),
            warning: false,
        }])
    };
    let about = std::fs::metadata(path);
    match &about {
        Err(error) => {
            let fix = "give the path of a lab file; `vink lab schema` tells what is in one";
            return Err(failed(format!("can't be read: {error}"), fix));
        }
        Ok(about) if about.is_dir() => {
            return Err(failed(
                "is a folder".to_owned(),
                "give the path of the lab file in it",
            ));
        }
        Ok(_) => {}
    }
    let bytes = read_file(path, LARGEST_FILE).map_err(|error| {
        let fix = match error.kind() {
            io::ErrorKind::FileTooLarge => "use `generate` for many machines",
            io::ErrorKind::InvalidInput | io::ErrorKind::WouldBlock => {
                "give the path of a lab file; `vink lab schema` tells what is in one"
            }
            _ => "look at its permissions",
        };
        failed(format!("can't be read: {error}"), fix)
    })?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = format!("line {line} is not UTF-8 text");
            return Err(failed(message, "save it as UTF-8"));
        }
    };
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut reading = read_all(&text, &file, Some(&folder), look)?;
    if reading.lab.name.is_empty() {
        reading.lab.name = name_of(path);
    }
    Ok(reading)
}

/// A lab's name, by its file's.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = [
        ".vink.yaml",
        ".vink.yml",
        ".clab.yaml",
        ".clab.yml",
        ".yaml",
        ".yml",
        ".json",
        ".graphml",
        ".gml",
    ]
    .iter()
    .find_map(|ending| name.strip_suffix(ending))
    .unwrap_or(&name);
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .map(|c| if usable(c) { c } else { '-' })
        .take(63)
        .collect();
    match name.trim_matches(['-', '.']) {
        "" => "lab".to_owned(),
        name => name.to_owned(),
    }
}

/// Reads a lab file's text. `file` is for messages; without a `folder`, what paths lead to is not
/// looked at.
pub fn read_text(text: &str, file: &str, folder: Option<&Path>) -> Result<Reading, Diagnostics> {
    read_all(text, file, folder, &|_| Vec::new())
}

/// The same; `look` finds what else is wrong with the lab, as in [`read_and`].
///
/// # Errors
/// What makes the lab unusable.
pub fn read_text_and(
    text: &str,
    file: &str,
    folder: Option<&Path>,
    look: Look<'_>,
) -> Result<Reading, Diagnostics> {
    read_all(text, file, folder, look)
}

fn read_all(
    text: &str,
    file: &str,
    folder: Option<&Path>,
    look: Look<'_>,
) -> Result<Reading, Diagnostics> {
    let (node, wrong) = yaml::parse(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut mistakes: Vec<Diagnostic> = wrong
        .into_iter()
        .map(|wrong| Diagnostic {
            file: None,
            span: wrong.span,
            excerpt: String::new(),
            path: String::new(),
            message: wrong.message,
            fix: wrong.fix,
            warning: false,
        })
        .collect();
    let mut lab = None;
    match node {
        Some(node) => lab = make(&node, folder, look, &mut mistakes),
        None if mistakes.is_empty() => {
            lab = make(
                &Node::null(SourceSpan::default()),
                folder,
                look,
                &mut mistakes,
            )
        }
        None => {}
    }
    let lines: Vec<&str> = text.lines().collect();
    for mistake in &mut mistakes {
        mistake.file = Some(file.to_owned());
        // A mark at the text's end may be behind its last line.
        let line = mistake.span.line.min(lines.len());
        if line < mistake.span.line {
            mistake.span.column = lines.last().map_or(1, |line| line.chars().count() + 1);
            mistake.span.line = line;
        }
        if line > 0 {
            mistake.excerpt = lines[line - 1].trim_end_matches('\r').to_owned();
            mistake.span.column = mistake.span.column.max(1);
        }
    }
    finish(lab, mistakes).map(|(lab, warnings)| Reading { lab, warnings })
}

/// Reads a lab that came as JSON: the same rules, with paths in the place of lines.
pub fn read_json(lab: &Value, folder: Option<&Path>) -> Result<Reading, Diagnostics> {
    let mut mistakes = Vec::new();
    let lab = make(&Node::from(lab), folder, &|_| Vec::new(), &mut mistakes);
    finish(lab, mistakes).map(|(lab, warnings)| Reading { lab, warnings })
}

/// Checks a lab that was put together otherwise: a running one with a change, say.
pub fn check_lab(lab: &Lab, folder: Option<&Path>) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut mistakes = Vec::new();
    for finding in check::check(lab, folder) {
        mistakes.push(finding.mistake(SourceSpan::default()));
    }
    finish(Some(()), mistakes).map(|((), warnings)| warnings)
}

fn make(
    node: &Node,
    folder: Option<&Path>,
    look: Look<'_>,
    mistakes: &mut Vec<Diagnostic>,
) -> Option<Lab> {
    let mut reader = Reader::default();
    // What follows from something that could not be read is no mistake of its own.
    reader.lost = !mistakes.is_empty();
    let lab = reader.lab(node);
    mistakes.append(&mut reader.mistakes);
    let lab = lab?;
    for mut finding in check::check(&lab, folder)
        .into_iter()
        .chain(look(&lab.expanded()))
    {
        if !(reader.lost && finding.may_follow) {
            finding.path = reader.written(&finding.path);
            let span = node.find(&finding.path, finding.key);
            mistakes.push(finding.mistake(span));
        }
    }
    Some(lab)
}

/// What was made, with warnings; or what is wrong.
fn finish<T>(
    made: Option<T>,
    mut mistakes: Vec<Diagnostic>,
) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
    mistakes.sort_by_key(|m| (m.span.line, m.span.column));
    // An alias repeats what is wrong in what it stands for.
    let mut seen = HashSet::new();
    mistakes.retain(|m| m.span.line == 0 || seen.insert((m.span, m.message.clone())));
    match made {
        Some(made) if mistakes.iter().all(|m| m.warning) => Ok((made, mistakes)),
        _ => Err(Diagnostics(mistakes)),
    }
}
