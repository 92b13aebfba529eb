//! How two kernel trees differ: which files, and the text of it.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use super::cannot;
use crate::cli_error::CliError;

/// A file that is not the same in both trees, or in one of them only.
pub(super) struct Change {
    /// Below the tree.
    pub path: String,
    /// Its mode in the old tree, in the new one.
    modes: (Option<u32>, Option<u32>),
}

/// The files that differ, in order of their paths. What builds and editors leave in a tree is none of it.
pub(super) fn changes(old: &Path, new: &Path) -> Result<Vec<Change>, CliError> {
    let mut found = Vec::new();
    compare(old, new, "", &mut found)?;
    Ok(found)
}

fn compare(old: &Path, new: &Path, below: &str, found: &mut Vec<Change>) -> Result<(), CliError> {
    let names: BTreeSet<String> = names(&old.join(below))?
        .into_iter()
        .chain(names(&new.join(below))?)
        .collect();
    for name in names {
        let path = match below {
            "" => name,
            _ => format!("{below}/{name}"),
        };
        let (a, b) = (about(&old.join(&path))?, about(&new.join(&path))?);
        if a.as_ref().or(b.as_ref()).is_some_and(Metadata::is_dir) {
            if a.is_some() || !is_leftover(&path) {
                compare(old, new, &path, found)?;
            }
            continue;
        }
        let same = match (&a, &b) {
            (Some(a), Some(b)) => {
                (a.dev(), a.ino()) == (b.dev(), b.ino())
                    || mode(a) == mode(b) && is_same(a, b, &old.join(&path), &new.join(&path))?
            }
            (None, Some(_)) => is_leftover(&path),
            _ => false,
        };
        if !same {
            found.push(Change {
                modes: (a.as_ref().map(mode), b.as_ref().map(mode)),
                path,
            });
        }
    }
    Ok(())
}

/// None for a folder that is not there. What is no UTF-8 is no file of Linux.
fn names(folder: &Path) -> Result<Vec<String>, CliError> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.file_name().into_string().ok()))
            .filter_map(Result::transpose)
            .collect::<io::Result<_>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
    .map_err(cannot("reading", folder))
}

fn about(path: &Path) -> Result<Option<Metadata>, CliError> {
    match fs::symlink_metadata(path) {
        Ok(data) => Ok(Some(data)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("reading", path)(error)),
    }
}

/// As git has it.
fn mode(data: &Metadata) -> u32 {
    if data.is_symlink() {
        0o120_000
    } else if data.permissions().mode() & 0o100 != 0 {
        0o100_755
    } else {
        0o100_644
    }
}

fn is_same(a: &Metadata, b: &Metadata, old: &Path, new: &Path) -> Result<bool, CliError> {
    if a.is_symlink() {
        let target = |path: &Path| fs::read_link(path).map_err(cannot("reading", path));
        return Ok(target(old)? == target(new)?);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    let read = |path: &Path, data: &Metadata| {
        let mut bytes = Vec::with_capacity(data.len() as usize);
        File::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(cannot("reading", path))?;
        Ok::<_, CliError>(bytes)
    };
    Ok(read(old, a)? == read(new, b)?)
}

/// What the kernel's own .gitignore leaves out, by and large: objects, generated files, backups.
fn is_leftover(path: &str) -> bool {
    const ENDS: [&str; 22] = [
        ".a", ".bc", ".bin", ".cmd", ".dtb", ".dwo", ".elf", ".gz", ".ko", ".lst", ".map", ".mod",
        ".mod.c", ".o", ".order", ".orig", ".patch", ".rej", ".so", ".symvers", ".xz", "~",
    ];
    const FOLDERS: [&str; 2] = ["include/config", "include/generated"];
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with('.')
        || ENDS.iter().any(|end| name.ends_with(end))
        || matches!(path, "vmlinux" | "System.map" | "tags" | "cscope.out")
        || FOLDERS.contains(&path)
        || path.starts_with("arch/") && path.ends_with("/include/generated")
}

impl Change {
    /// The change as `git diff` writes it.
    pub(super) fn diff(&self, old: &Path, new: &Path) -> Result<Vec<u8>, CliError> {
        let path = &self.path;
        if self.modes.0 == Some(0o120_000) || self.modes.1 == Some(0o120_000) {
            let text =
                format!("{path} is a symbolic link in one of the trees: make that change by git");
            return Err(CliError::Other(text));
        }
        let mut text = format!("diff --git a/{path} b/{path}\n");
        match self.modes {
            (Some(old), Some(new)) if old != new => {
                text += &format!("old mode {old:o}\nnew mode {new:o}\n");
            }
            (None, Some(new)) => text += &format!("new file mode {new:o}\n"),
            (Some(old), None) => text += &format!("deleted file mode {old:o}\n"),
            _ => {}
        }
        let side = |letter: char, tree: &Path, mode: Option<u32>| match mode {
            Some(_) => (tree.join(path), format!("{letter}/{path}")),
            None => ("/dev/null".into(), "/dev/null".to_owned()),
        };
        let (old, old_label) = side('a', old, self.modes.0);
        let (new, new_label) = side('b', new, self.modes.1);
        // A label without a tab would get a timestamp.
        let output = Command::new("diff")
            .args(["-u", "-p", "--label", &old_label, "--label", &new_label])
            .args([old, new])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(CliError::host("diff"))?;
        // 1: they differ; 2: they are no text, or worse.
        if !matches!(output.status.code(), Some(0 | 1)) || output.stdout.starts_with(b"Binary") {
            return Err(CliError::Other(format!(
                "{path} is no text: a patch can't hold it"
            )));
        }
        let mut all = text.into_bytes();
        all.extend(output.stdout);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::is_leftover;

    #[test]
    fn objects_are_left_over_and_sources_are_not() {
        for path in [
            "net/ipv4/tcp.o",
            "include/generated",
            ".config",
            "vmlinux",
            "a/.x.cmd",
            "a.c.orig",
        ] {
            assert!(is_leftover(path), "{path}");
        }
        for path in [
            "net/ipv4/tcp_new.c",
            "include/net/generated",
            "net/vmlinux",
            "Makefile",
        ] {
            assert!(!is_leftover(path), "{path}");
        }
    }
}
