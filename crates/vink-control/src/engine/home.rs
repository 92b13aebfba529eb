//! A machine's own folder among the lab's: files that the host has none of, and what its programs leave.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::lab::Lab;
use crate::fault::Fault;

impl Lab {
    fn home(&self, machine: &str) -> PathBuf {
        self.runtime.join("machines").join(machine)
    }

    /// What the environment tells programs of where they are: the lab, the machine, and a folder for sockets and the
    /// like, which is gone with the lab.
    pub(super) fn whereabouts(&self, machine: &str) -> [(String, String); 3] {
        let run = self.home(machine).join("run");
        // Who needs it will say so.
        let _ = fs::create_dir_all(&run);
        [
            ("VINK_LAB", self.name.clone()),
            ("VINK_MACHINE", machine.to_owned()),
            ("VINK_RUN", run.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// Takes those of a new machine's files out that the host has no counterpart of, and puts them into a folder, which
    /// is answered: the machine's root, unless there are none.
    pub(super) fn put_new_files(
        &self,
        machine: &str,
        files: &mut Vec<(String, String)>,
    ) -> Result<Option<PathBuf>, Fault> {
        let root = self.home(machine).join("root");
        let _ = fs::remove_dir_all(&root);
        let (there, new): (Vec<_>, Vec<_>) = std::mem::take(files)
            .into_iter()
            .partition(|(path, _)| Path::new(path).exists());
        *files = there;
        for (path, text) in &new {
            let of = || format!("file {path} of {machine}");
            let below: PathBuf = Path::new(path)
                .components()
                .skip(1)
                .map(|part| match part {
                    Component::Normal(name) => Ok(name),
                    _ => Err(Fault::invalid(format!(
                        "{}: not an absolute path without ..",
                        of()
                    ))),
                })
                .collect::<Result<_, _>>()?;
            let target = root.join(below);
            let made = target
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&target, text));
            made.map_err(|error| Fault::host(&of(), error))?;
        }
        Ok((!new.is_empty()).then_some(root))
    }
}
