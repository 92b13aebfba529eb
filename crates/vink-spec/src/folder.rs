//! Files that a lab names are inside its folder: a foreign lab cannot show others to its machines.

use std::path::{Component, Path, PathBuf};

/// Why a path of a lab can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It begins with `/`, or has `..` in it, so that it leads out by its looks.
    #[error("`{0}` may lead out of the lab's folder: write a path relative to the lab file, without `..`")]
    Outside(String),
    /// A symbolic link on it leads out.
    #[error("`{0}` leads out of the lab's folder by a symbolic link, to {1}: put what is needed into the folder")]
    Link(String, String),
    /// It is not there, or can't be read.
    #[error("`{0}` in the lab's folder can't be used ({1}): make it, or write another path")]
    Missing(String, String),
}

/// Whether a path looks like one inside a folder.
pub(crate) fn looks_inside(path: &str) -> Result<(), PathError> {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    match Path::new(path).components().all(inside) {
        true => Ok(()),
        false => Err(PathError::Outside(path.to_owned())),
    }
}

/// The words of an app with the whole path of its shared object: `so:FILE` is in `folder`, which is the lab file's, unless
/// its path is absolute.
pub fn app_words(words: &[String], folder: &Path) -> Vec<String> {
    let mut words = words.to_vec();
    if let Some(first) = words.first_mut() {
        if let Some(file) = first.strip_prefix("so:") {
            *first = format!("so:{}", folder.join(file).display());
        }
    }
    words
}

/// What a path of a lab in `folder` stands for, with all symbolic links followed: inside the
/// folder, and there.
pub fn inside(folder: &Path, path: &str) -> Result<PathBuf, PathError> {
    looks_inside(path)?;
    let real = |of: &Path| {
        std::fs::canonicalize(of)
            .map_err(|error| PathError::Missing(path.to_owned(), error.to_string()))
    };
    // Files named without a folder are in "".
    let folder = real(if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    })?;
    let found = real(&folder.join(path))?;
    match found.starts_with(&folder) {
        true => Ok(found),
        false => Err(PathError::Link(
            path.to_owned(),
            found.display().to_string(),
        )),
    }
}
