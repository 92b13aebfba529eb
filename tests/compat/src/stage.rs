//! Folders: what programs need is made once, and each run has a copy of its own that belongs to its user.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::compare::User;
use crate::program::Program;
use crate::side::Side;
use crate::BoxError;

/// Where all users find the suite and the image, and where runs have their folders.
pub(crate) struct Stage {
    pub suite: PathBuf,
    pub image: PathBuf,
    /// The interposer for programs with the stack in their own process.
    pub preload: PathBuf,
    /// The interposer for programs that post calls in shared memory.
    pub quick: PathBuf,
    /// `$PATH` of the programs.
    pub path: String,
    root: PathBuf,
    keep: bool,
}

/// A folder that is gone when it is dropped, unless it shall be kept.
pub(crate) struct Folder {
    pub path: PathBuf,
    keep: Cell<bool>,
    may_keep: bool,
}

const NOBODY: u32 = 65534;

impl Stage {
    /// `keep`: folders of failed runs stay.
    pub fn new(keep: bool) -> Result<Stage, BoxError> {
        let root = vink_tests::stage().join(format!("compat-{}", std::process::id()));
        fs::create_dir(&root).map_err(|e| format!("{}: {e}", root.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(Stage {
            suite: vink_tests::place(&std::env::current_exe()?, &root),
            image: vink_tests::place(&vink_tests::image(), &root),
            preload: vink_tests::place(&vink_tests::preload(), &root),
            quick: vink_tests::place(&vink_tests::quick(), &root),
            path: format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"),
            root,
            keep,
        })
    }

    /// The user to become for that.
    pub fn become_user(&self, user: User) -> vink_tests::User {
        // SAFETY: takes no arguments and can't fail.
        match (user, unsafe { libc::geteuid() }) {
            (User::Nobody, 0) => vink_tests::User::Nobody,
            _ => vink_tests::User::Same,
        }
    }

    /// Checks that all packages are there, and makes what the program's runs start with.
    pub fn prepare(&self, program: &Program) -> Result<Folder, BoxError> {
        let missing: Vec<_> = program.packages.iter().filter(|p| !installed(p)).collect();
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|p| p.as_str()).collect();
            return Err(format!("not installed: apt-get install {}", names.join(" ")).into());
        }
        let folder = Folder {
            path: self.root.join(&program.name),
            keep: false.into(),
            may_keep: self.keep,
        };
        match program.folder() {
            Some(files) => copy(&files, &folder.path)?,
            None => fs::create_dir(&folder.path)?,
        }
        let prelude = vink_tests::root().join("tests/compat/prelude.sh");
        fs::copy(prelude, folder.path.join("prelude.sh"))?;
        fs::copy(
            &program.path,
            folder.path.join(format!("{}.sh", program.name)),
        )?;
        let made = Command::new("bash")
            .args(["-euo", "pipefail", "prelude.sh", &program.name, "prepare"])
            .current_dir(&folder.path)
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .output()?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(format!("preparing it: {}: {said}", made.status).into());
        }
        Ok(folder)
    }

    /// A copy of what was prepared, for one run.
    pub fn folder(
        &self,
        prepared: &Folder,
        program: &Program,
        side: Side,
        user: User,
    ) -> Result<Folder, BoxError> {
        let name = format!("{}-{}-{side:?}", program.name, user.name());
        let path = self.root.join(name);
        copy(&prepared.path, &path)?;
        if self.become_user(user) == vink_tests::User::Nobody {
            give_away(&path)?;
        }
        Ok(Folder {
            path,
            keep: false.into(),
            may_keep: self.keep,
        })
    }

    /// A copy of the ready labs, for one run.
    pub fn labs(&self) -> Result<Folder, BoxError> {
        let path = self.root.join("labs");
        copy(&vink_tests::root().join("labs"), &path)?;
        Ok(Folder {
            path,
            keep: false.into(),
            may_keep: self.keep,
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing is left to be told if this fails.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

impl Folder {
    /// A file's text.
    pub fn read(&self, name: &str) -> Result<String, BoxError> {
        let path = self.path.join(name);
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Something went wrong here: leaves it, if that was asked for.
    pub fn keep(&self) {
        self.keep.set(self.may_keep);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep.get() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn installed(package: &str) -> bool {
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output();
    // Without dpkg, the packages are unknown; the program will say what it lacks.
    asked.map_or(true, |output| output.stdout == b"installed")
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<(), BoxError> {
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("cp -a {} {}: {status}", from.display(), to.display()).into()),
    }
}

/// Makes the user `nobody` the owner of a folder and all that is in it.
fn give_away(path: &Path) -> Result<(), BoxError> {
    lchown(path, Some(NOBODY), Some(NOBODY))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path())?;
        }
    }
    Ok(())
}
