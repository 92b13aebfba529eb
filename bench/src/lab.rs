//! A lab that runs during a benchmark, driven by `vink` as a user drives it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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

    /// The lab's folder.
    pub fn folder(&self) -> &Path {
        self.directory.path()
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

    /// Has the switch box carry out a line: what it said.
    pub fn shell(&self, line: &str) -> Result<String, BoxError> {
        self.vink(&["shell", "-c", line])
    }

    /// Ends the app of this name that was started last: what it says of its run.
    pub fn end(&self, app: &str) -> Result<String, BoxError> {
        let all = self.status()?;
        let programs = all["programs"].as_array();
        let found = programs.and_then(|all| {
            let its = |p: &&serde_json::Value| p["words"][0] == app;
            all.iter().rev().find(its)?["id"].as_u64()
        });
        let id = found.ok_or_else(|| format!("no {app} runs"))?;
        let lines = [format!("kill {id}"), format!("wait {id}")];
        self.vink(&["shell", "-c", &lines[0], "-c", &lines[1]])?;
        self.shell(&format!("show program {id}"))
    }

    /// The process of a machine's worker.
    pub fn pid(&self, machine: &str) -> Result<libc::pid_t, BoxError> {
        let all = self.status()?;
        let machines = all["machines"].as_array();
        let its = |m: &&serde_json::Value| m["name"] == machine;
        let pid = machines.and_then(|all| all.iter().find(its)?["pid"].as_i64());
        Ok(pid.ok_or_else(|| format!("no process of {machine}"))? as libc::pid_t)
    }

    fn status(&self) -> Result<serde_json::Value, BoxError> {
        Ok(serde_json::from_str(&self.vink(&["lab", "ps", "--json"])?)?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.vink(&["lab", "down", "--all"]);
    }
}
