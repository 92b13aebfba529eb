//! How long it takes from a changed line of the kernel to a program on it: edit, build, run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::side::Round;
use crate::BoxError;

/// What the image is called while it is there.
const NAME: &str = "bench-rebuild";
/// The file that is changed.
const FILE: &str = "net/ipv4/tcp_input.c";
/// A line of it, which gets another number each time.
const LINE: &str = "int sysctl_tcp_max_orphans __read_mostly = NR_FILE";

/// A tree of its own, and its image. Both are gone when dropped.
struct Tree {
    vink: PathBuf,
    folder: PathBuf,
    round: u32,
}

/// Makes a tree and its image, so that a round is the second build.
pub(crate) fn prepare(vink: PathBuf) -> Result<Round, BoxError> {
    let cache = vink_kernel::cache().ok_or("neither VINK_CACHE nor HOME is set")?;
    let pristine = cache.join("linux-source-6.12");
    let folder = cache.join(format!("{NAME}.{}", std::process::id()));
    // Links: a tree has 1.6 GB. The one file that is written to becomes a file of its own.
    let mut links = Command::new("cp");
    succeed("cp -al", links.arg("-al").args([&pristine, &folder]))?;
    let mut tree = Tree {
        vink,
        folder,
        round: 0,
    };
    tree.edit()?;
    let mut build = Command::new(&tree.vink);
    build.args(["image", "build", "--name", NAME, "--tree"]);
    succeed("vink image build", build.arg(&tree.folder))?;
    Ok(Box::new(move || {
        tree.edit()?;
        let start = Instant::now();
        for words in [
            &["image", "build", "--name", NAME][..],
            &["run", "--image", NAME, "--uplink", "none", "--", "true"],
        ] {
            succeed(&words.join(" "), Command::new(&tree.vink).args(words))?;
        }
        Ok(vec![Some(start.elapsed().as_secs_f64())])
    }))
}

impl Tree {
    /// Changes one line, so that its object is another.
    fn edit(&mut self) -> Result<(), BoxError> {
        let file = self.folder.join(FILE);
        let old = fs::read_to_string(&file)?;
        let start = old.find(LINE).ok_or("tcp_input.c is another")?;
        let end = start + old[start..].find('\n').ok_or("it ends in this line")?;
        self.round += 1;
        let line = format!("{LINE} + {};", self.round);
        // As editors do: the file that others have too is not written to.
        fs::remove_file(&file)?;
        let text = [&old[..start], &line, &old[end..]].concat();
        fs::write(&file, text)?;
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The figures are there already; what stays is named by the next run's error.
        let _ = Command::new(&self.vink)
            .args(["image", "rm", NAME])
            .output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn succeed(what: &str, command: &mut Command) -> Result<(), BoxError> {
    let output = command.output().map_err(|e| format!("{what}: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{what}: {}\n{said}", output.status).into());
    }
    Ok(())
}
