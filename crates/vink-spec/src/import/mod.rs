//! Labs from other programs' files: containerlab's topologies, GraphML (the Internet Topology
//! Zoo's), GML.

mod containerlab;
mod gml;
mod graph;
mod graphml;

use std::path::Path;

use ipnet::IpNet;

use crate::diagnostic::{Diagnostic, Diagnostics, SourceSpan};
use crate::Lab;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A topology of containerlab: YAML.
    Containerlab,
    /// GraphML: XML.
    Graphml,
    /// Graph Modelling Language.
    Gml,
}

impl Format {
    /// By a file's name and text.
    pub fn of(file: &str, text: &str) -> Format {
        let name = file.to_ascii_lowercase();
        if name.ends_with(".graphml")
            || name.ends_with(".xml")
            || text.trim_start().starts_with('<')
        {
            Format::Graphml
        } else if name.ends_with(".gml") {
            Format::Gml
        } else {
            Format::Containerlab
        }
    }
}

/// What a graph, which has none of that itself, becomes.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Networks whose addresses its wires get; none: no addresses.
    pub addresses: Vec<IpNet>,
    /// Static routes along shortest paths, by delay and then by the number of wires.
    pub routes: bool,
}

/// A lab made of another program's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The lab.
    pub lab: Lab,
    /// What is not in it, or not as it was.
    pub warnings: Vec<String>,
}

/// Makes a lab of a text. `file` is for messages and, where the text has none, for the lab's name.
pub fn import(
    text: &str,
    file: &str,
    format: Format,
    options: &ImportOptions,
) -> Result<Imported, Diagnostics> {
    let mut imported = match format {
        Format::Containerlab => containerlab::import(text, file)?,
        Format::Graphml => graphml::read(text, file)?
            .lab(options)
            .map_err(|message| failed(file, message))?,
        Format::Gml => gml::read(text, file)?
            .lab(options)
            .map_err(|message| failed(file, message))?,
    };
    if imported.lab.name.is_empty() {
        imported.lab.name = crate::source::name_of(Path::new(file));
    }
    Ok(imported)
}

fn failed(file: &str, message: String) -> Diagnostics {
    wrong(
        text_place("", 0),
        file,
        message,
        "give it another network by --addresses",
    )
}

/// Where a byte of a text is.
fn text_place(text: &str, at: usize) -> (SourceSpan, String) {
    let at = at.min(text.len());
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let excerpt = text[start..].lines().next().unwrap_or_default().to_owned();
    let span = SourceSpan {
        line: if text.is_empty() { 0 } else { line },
        column: before[start..].chars().count() + 1,
        length: 1,
    };
    (span, excerpt)
}

/// One mistake.
fn wrong(
    (span, excerpt): (SourceSpan, String),
    file: &str,
    message: String,
    fix: &str,
) -> Diagnostics {
    Diagnostics(vec![Diagnostic {
        file: Some(file.to_owned()),
        span,
        excerpt,
        path: String::new(),
        message,
        fix: fix.to_owned(),
        warning: false,
    }])
}

/// Host names that are unique among those given so far, as like the wished ones as possible.
#[derive(Default)]
struct Names(std::collections::HashSet<String>);

impl Names {
    fn make(&mut self, wished: &str, otherwise: &str) -> String {
        let make = |wished: &str| {
            let mut name = String::new();
            for c in wished.to_lowercase().chars() {
                match plain(c) {
                    Some(letters) => name.push_str(letters),
                    None if c.is_ascii_alphanumeric() => name.push(c),
                    // One for several.
                    None if !name.ends_with('-') => name.push('-'),
                    None => {}
                }
            }
            // Room for a number, and for two of them in a wire's name.
            name.truncate(28);
            name.trim_matches('-').to_owned()
        };
        let base = [make(wished), make(otherwise), "m".to_owned()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        let mut name = base.clone();
        let mut number = 2;
        while !self.0.insert(name.clone()) {
            name = format!("{base}-{number}");
            number += 1;
        }
        name
    }
}

/// Letters that places have in Europe and America, without their marks.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'à' | 'á' | 'â' | 'ã' | 'å' | 'ą' | 'ă' => "a",
        'ä' | 'æ' => "ae",
        'ç' | 'ć' | 'č' => "c",
        'è' | 'é' | 'ê' | 'ë' | 'ę' | 'ě' => "e",
        'ì' | 'í' | 'î' | 'ï' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò' | 'ó' | 'ô' | 'õ' | 'ő' => "o",
        'ö' | 'ø' | 'œ' => "oe",
        'ř' => "r",
        'ś' | 'š' | 'ş' => "s",
        'ß' => "ss",
        'ù' | 'ú' | 'û' | 'ű' | 'ů' => "u",
        'ü' => "ue",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => return None,
    })
}
