//! Where images with names are kept, and what is noted of each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cannot;
use crate::cli_error::CliError;
use crate::print;

/// Of what an image was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// Which kernel's: "6.12".
    pub version: String,
    /// The user's kernel tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// Patches to the package's tree, in order: where they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PathBuf>,
    /// The files that they change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patched: Vec<String>,
    /// Which edition of the package was patched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub edition: String,
    /// How much is in it; none: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl Note {
    /// Whether its source is not the package's.
    pub(super) fn is_changed(&self) -> bool {
        self.tree.is_some() || !self.patches.is_empty()
    }

    /// In a line.
    pub(super) fn made_of(&self) -> String {
        match &self.tree {
            Some(tree) => tree.display().to_string(),
            None if self.patches.is_empty() => "-".to_owned(),
            None => {
                let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
                let names: Vec<_> = self.patches.iter().map(name).collect();
                names.join(" ".as_ref()).to_string_lossy().into_owned()
            }
        }
    }
}

/// `$VINK_CACHE`, `~/.cache/vink`:
///
/// | | |
/// |---|---|
/// | `linux-source-6.12/` | the package's tree |
/// | `build/linux-6.12-NAME/o` | objects |
/// | `images/libvink-linux-6.12-NAME.so` | an image |
/// | `images/NAME/note.json` | of what it was made |
/// | `images/NAME/patches/`, `images/NAME/tree/` | the patches, and the package's tree with them |
pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn find() -> Result<Store, CliError> {
        let cache = vink_kernel::cache().ok_or_else(|| {
            CliError::Other("nowhere to keep images: neither VINK_CACHE nor HOME is set".to_owned())
        })?;
        // Other programs are started elsewhere.
        let cache = std::path::absolute(&cache).map_err(cannot("finding", &cache))?;
        Ok(Store(cache))
    }

    pub(super) fn cache(&self) -> &Path {
        &self.0
    }

    pub(super) fn images(&self) -> PathBuf {
        self.0.join("images")
    }

    /// The folder of an image's own files.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.images().join(name)
    }

    pub(super) fn image(&self, name: &str, version: &str) -> PathBuf {
        self.images()
            .join(format!("libvink-linux-{version}-{name}.so"))
    }

    /// The package's tree of a version, if it has been unpacked.
    pub(super) fn pristine(&self, version: &str) -> Result<PathBuf, CliError> {
        let tree = self.0.join(format!("linux-source-{version}"));
        match tree.join("Makefile").exists() {
            true => Ok(tree),
            false => Err(CliError::Other(format!(
                "{} is not here, the package's tree: `make stack` unpacks it",
                tree.display()
            ))),
        }
    }

    /// Tells one edition of the package from another.
    pub(super) fn edition(&self, version: &str) -> Result<String, CliError> {
        let stamp = self.0.join(format!("linux-source-{version}.stamp"));
        fs::read_to_string(&stamp).map_err(cannot("reading", &stamp))
    }

    /// What is noted of an image, if there is one of this name.
    pub(super) fn note(&self, name: &str) -> Result<Option<Note>, CliError> {
        let path = self.folder(name).join("note.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| CliError::Other(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("reading", &path)(error)),
        }
    }

    /// What is noted of an image that there must be.
    pub(super) fn noted(&self, name: &str) -> Result<Note, CliError> {
        self.note(name)?.ok_or_else(|| {
            CliError::Other(format!(
                "no image {name:?} of yours: `vink image build` makes them, `vink image list` lists them"
            ))
        })
    }

    pub(super) fn keep(&self, name: &str, note: &Note) -> Result<(), CliError> {
        let folder = self.folder(name);
        let path = folder.join("note.json");
        fs::create_dir_all(&folder).map_err(cannot("making", &folder))?;
        fs::write(&path, print::pretty(note)).map_err(cannot("writing", &path))
    }

    /// The tree that an image was made of.
    pub(super) fn source(&self, name: &str) -> Result<PathBuf, CliError> {
        let note = self.noted(name)?;
        let tree = match note.tree {
            Some(tree) => tree,
            None if note.patches.is_empty() => return self.pristine(&note.version),
            None => self.folder(name).join("tree"),
        };
        match tree.join("Makefile").exists() {
            true => Ok(tree),
            false => Err(CliError::Other(format!(
                "{} is gone, of which the image {name} was made",
                tree.display()
            ))),
        }
    }

    /// Removes an image and all that was kept for it; not a tree of the user's.
    pub(super) fn remove(&self, name: &str) -> Result<(), CliError> {
        let note = self.noted(name)?;
        let objects = self
            .0
            .join("build")
            .join(format!("linux-{}-{name}", note.version));
        let image = self.image(name, &note.version);
        let folder = self.folder(name);
        gone(fs::remove_file(&image))
            .and_then(|()| gone(fs::remove_file(image.with_extension("tree"))))
            .and_then(|()| {
                gone(fs::remove_file(objects.with_file_name(format!(
                    "linux-{}-{name}.lock",
                    note.version
                ))))
            })
            .and_then(|()| gone(fs::remove_dir_all(&objects)))
            // The next build finds a whole tree or none, though this ends halfway.
            .and_then(|()| gone(fs::rename(folder.join("tree"), folder.join("tree.new"))))
            .and_then(|()| gone(fs::remove_dir_all(folder.join("tree.new"))))
            // Last: as long as it is there, a removal that failed can be repeated.
            .and_then(|()| fs::remove_dir_all(&folder))
            .map_err(CliError::host(format!("removing image {name}")))
    }
}

/// That something has not been there is as good as its removal.
pub(super) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
