//! A lab that runs during a benchmark, driven by `vink` as a user drives it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::programs::Directory;
use crate::side::die_with_parent;
use crate::BoxError;

/// A lab with a control process of its own, which ends with this.
pub(crate) struct Lab {
    vink: PathBuf,
    directory: Directory,
}

impl Lab {
    /// Brings up a lab file's text.
    pub fn up(file: &str) -> Result<Lab, BoxError> {
        let lab = Lab {
            vink: std::env::current_exe()?.with_file_name("vink"),
            directory: Directory::new()?,
        };
        lab.write("lab.yaml", file)?;
        lab.vink(&["lab", "up"])?;
        Ok(lab)
    }

    /// Writes a file of the lab's folder.
    pub fn write(&self, name: &str, text: &str) -> Result<(), BoxError> {
        let path = self.directory.path().join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    /// `vink` with these arguments, in the lab's folder, ending with this process.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.vink);
        command
            .args(words)
            .current_dir(self.directory.path())
            .env("VINK_RUNTIME", self.directory.path().join("run"))
            .stdin(Stdio::null());
        // SAFETY: one system call, with no memory involved.
        unsafe { command.pre_exec(die_with_parent) };
        command
    }

    /// Runs `vink`: what it wrote.
    pub fn vink(&self, words: &[&str]) -> Result<String, BoxError> {
        let output = self.command(words).stderr(Stdio::inherit()).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err(format!("vink {}: {}", words.join(" "), output.status).into()),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.vink(&["lab", "down", "--all"]);
    }
}
