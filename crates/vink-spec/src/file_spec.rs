//! Files that programs of a machine find, and paths in the lab's folder.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{both, put, sign, Object, Phase, Plan};
use crate::check::Check;
use crate::folder::{inside, looks_inside};
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::Lab;

/// What is in a file of a machine, or in a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileSpec {
    /// This text.
    Text(String),
    /// What is in this file.
    From {
        /// A path relative to the lab file, not outside its folder.
        from: String,
    },
}

/// A file that programs find.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChange {
    /// The machine.
    pub machine: String,
    /// Its absolute path.
    pub path: String,
    /// None: it goes.
    pub new: Option<FileSpec>,
    /// Whether there was another one of this path.
    pub replaces: bool,
}

impl Object for FileChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        for (name, was, is) in plan.machines_that_stay() {
            for (path, old, new) in both(&was.files, &is.files) {
                steps.push(FileChange {
                    machine: name.to_owned(),
                    path: path.clone(),
                    new: new.cloned(),
                    replaces: old.is_some(),
                });
            }
        }
        for step in steps {
            plan.step(Phase::Files, step);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        lab.machine(&self.machine, |m| put(&mut m.files, &self.path, &self.new));
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = sign(&self.new, self.replaces);
        write!(f, "{sign} file {} of {}", self.path, self.machine)
    }
}

impl Reader {
    pub(crate) fn file(&mut self, node: &Node) -> Option<FileSpec> {
        match &node.kind {
            Kind::Map(_) => self
                .fields(node, "a file", |r, f| {
                    let from = r.needed(f, (node, "from", "path/of/the/file"), Reader::text)?;
                    Some(FileSpec::From { from })
                })
                .flatten(),
            _ if node.is_null() => Some(FileSpec::Text(String::new())),
            _ => self.text(node).map(FileSpec::Text),
        }
    }
}

impl<'a> Check<'a> {
    pub(crate) fn file(&mut self, path: &'a str, spec: &'a FileSpec) {
        let below = |folder: &str| path == folder || path.starts_with(&format!("{folder}/"));
        if !path.starts_with('/') || path.ends_with('/') {
            let fix = "write it like /etc/motd";
            self.add(format!("{path:?} is not the absolute path of a file"), fix)
                .key = true;
        } else if path.split('/').any(|step| step == ".." || step == ".") || path.contains("//") {
            let fix = "write it without `.`, `..` and `//`";
            self.add(format!("{path:?} is not the shortest path of a file"), fix)
                .key = true;
        } else if ["/proc", "/sys", "/dev"].into_iter().any(below) {
            let fix = "for /proc/sys use `sysctls`";
            self.add(format!("{path} is the kernel's"), fix).key = true;
        }
        if let FileSpec::From { from } = spec {
            self.at("from", |c| c.inside(from, Some(false)));
        }
    }

    /// A path in the lab's folder: a folder or a file, if it matters.
    pub(crate) fn inside(&mut self, path: &str, folder: Option<bool>) {
        let found = match self.folder {
            Some(folder) => inside(folder, path),
            None => looks_inside(path).map(|()| Path::new("").to_owned()),
        };
        match found {
            Err(error) => {
                let error = error.to_string();
                let (message, fix) = error.split_once(": ").unwrap_or((&error, ""));
                self.add(message, fix);
            }
            Ok(found) => {
                let fits = folder.is_none_or(|folder| folder == found.is_dir());
                if self.folder.is_some() && !fits {
                    let (is, needed) = match folder {
                        Some(true) => ("not a folder", "a folder"),
                        _ => ("a folder", "a file"),
                    };
                    self.add(
                        format!("`{path}` is {is}"),
                        format!("write the path of {needed}"),
                    );
                }
            }
        }
    }
}
