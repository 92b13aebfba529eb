//! The labs that come with Vink: a folder each, with a page whose first line is its title.

use std::fs;
use std::path::{Path, PathBuf};

use vink_api::{ReadyLab, ReadyLabFile};

use crate::http_error::HttpError;

/// What is in each lab's folder.
const FILE: &str = "lab.yaml";
/// What is in the folder of all labs, in the sources and where they are installed.
const SCHEMA: &str = "lab.schema.json";

/// Where they are: above the executable, in the sources or in what was installed.
fn folder(executable: &Path) -> Option<PathBuf> {
    let places = executable
        .ancestors()
        .flat_map(|root| [root.join("share/vink/labs"), root.join("labs")]);
    places
        .filter(|folder| folder.join(SCHEMA).exists())
        .find(|folder| folder.is_dir())
}

/// All of them, by name; none if they are not installed.
pub(crate) fn labs(executable: &Path) -> Vec<ReadyLab> {
    let Some(folder) = folder(executable) else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut labs: Vec<ReadyLab> = entries.filter_map(|entry| lab(&entry.path())).collect();
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    labs
}

fn lab(folder: &Path) -> Option<ReadyLab> {
    if !folder.join(FILE).is_file() {
        return None;
    }
    let name = folder.file_name()?.to_str()?.to_owned();
    let page = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let line = page.lines().next().unwrap_or_default();
    let title = line.trim_start_matches('#').trim();
    let title = title.strip_prefix(&format!("{name}: ")).unwrap_or(title);
    Some(ReadyLab {
        title: title.to_owned(),
        folder: folder.to_str()?.to_owned(),
        file: FILE.to_owned(),
        name,
    })
}

/// The one of this name, with its text.
pub(crate) fn file(executable: &Path, name: &str) -> Result<ReadyLabFile, HttpError> {
    let labs = labs(executable);
    let Some(lab) = labs.iter().find(|lab| lab.name == name).cloned() else {
        let names = labs.iter().map(|lab| lab.name.as_str());
        return Err(HttpError::no("ready lab", name, names, "with this vink"));
    };
    let path = Path::new(&lab.folder).join(&lab.file);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| HttpError::host(&path.display().to_string(), error))?;
    Ok(ReadyLabFile {
        name: lab.name,
        folder: lab.folder,
        text,
    })
}
