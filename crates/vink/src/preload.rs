//! The libraries that programs are started with (`LD_PRELOAD`): where they are, and in front of what.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A library of ours.
pub(crate) struct Preload {
    /// Its file.
    pub(crate) file: &'static str,
    /// The package that it is made from.
    pub(crate) package: &'static str,
    /// The option that needs it.
    pub(crate) option: &'static str,
}

impl Preload {
    /// `LD_PRELOAD` with it, in front of what is preloaded anyway.
    pub(crate) fn variable(&self) -> Result<OsString, Failure> {
        Ok(before(self.find()?, std::env::var_os("LD_PRELOAD")))
    }

    /// Beside vink, or where it is installed.
    fn find(&self) -> Result<PathBuf, Failure> {
        let vink = std::env::current_exe().map_err(Failure::host("finding vink"))?;
        let places = ["", "../lib/vink"].map(|folder| vink.with_file_name(folder).join(self.file));
        let found = places.iter().find(|path| path.exists());
        found.cloned().ok_or_else(|| {
            let Preload {
                file,
                package,
                option,
            } = self;
            let [here, there] = places.map(|place| place.display().to_string());
            Failure::Other(format!(
                "{option} needs {file}, which is neither {here} nor {there}: cargo build -p {package} makes it"
            ))
        })
    }
}

fn before(library: impl AsRef<Path>, others: Option<OsString>) -> OsString {
    let mut all = library.as_ref().as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stay() {
        assert_eq!(before("/a.so", None), "/a.so");
        assert_eq!(before("/a.so", Some("".into())), "/a.so");
        assert_eq!(before("/a.so", Some("b.so".into())), "/a.so:b.so");
    }
}
