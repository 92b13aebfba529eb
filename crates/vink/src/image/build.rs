//! `vink image build`: an image of a tree, of the package's tree with patches, or of a profile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::cannot;
use super::note::{gone, Note, Store};
use crate::cli_error::CliError;

/// The command line.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What --image and VINK_IMAGE call it; with a profile of the package's tree, the profile's name by default
    #[arg(long, required_unless_present = "profile")]
    name: Option<String>,
    /// A kernel tree of yours, which is only read
    #[arg(long, value_name = "DIR", conflicts_with = "patch")]
    tree: Option<PathBuf>,
    /// A patch to the package's tree, which is applied to a copy; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    patch: Vec<PathBuf>,
    /// Which package's tree is built, or patched; 6.12 by default
    #[arg(long, value_name = "VERSION", conflicts_with = "tree")]
    version: Option<String>,
    /// How much is in it: full, router, kvs, udp, coverage, or another file of stack/profiles
    #[arg(long)]
    profile: Option<String>,
}

/// The package's tree is that of this kernel unless said otherwise.
const VERSION: &str = "6.12";

/// Builds an image, or builds it again from what it was made of.
pub(super) fn build(store: &Store, arguments: &Arguments) -> Result<(), CliError> {
    let (name, profile) = (&arguments.name, &arguments.profile);
    let name = name.as_ref().or(profile.as_ref()).expect("one of them");
    check(name)?;
    let script = script()?;
    if let Some(profile) = profile {
        check_profile(&script, profile)?;
    }
    let before = store.note(name)?;
    let (mut note, tree) = if let Some(tree) = &arguments.tree {
        let tree = fs::canonicalize(tree).map_err(cannot("finding", tree))?;
        of_tree(tree)?
    } else if !arguments.patch.is_empty() {
        let version = arguments.version.as_deref().unwrap_or(VERSION);
        patched(
            store,
            &script,
            name,
            before.as_ref(),
            &arguments.patch,
            version,
        )?
    } else {
        match &before {
            None if profile.is_none() => {
                return Err(CliError::Other(format!(
                    "no image {name:?} yet: say what it is made of, by --tree, --patch or --profile"
                )))
            }
            Some(Note {
                tree: Some(tree), ..
            }) => of_tree(tree.clone())?,
            Some(note) if !note.patches.is_empty() => {
                let (patches, version) = (&note.patches, &note.version);
                patched(store, &script, name, before.as_ref(), patches, version)?
            }
            before => {
                let known = before.as_ref().map(|note| note.version.as_str());
                of_package(arguments.version.as_deref().or(known).unwrap_or(VERSION))
            }
        }
    };
    let known = before.as_ref().and_then(|before| before.profile.clone());
    note.profile = profile.clone().or(known);
    // Before the build: what was made of another release is not found by the new note.
    if before.is_some_and(|before| before.version != note.version) {
        store.remove(name)?;
    }
    store.keep(name, &note)?;
    run(
        store,
        &script,
        &[
            "--linux".as_ref(),
            tree.as_os_str(),
            "--profile".as_ref(),
            note.profile.as_deref().unwrap_or("full").as_ref(),
            "--name".as_ref(),
            name.as_ref(),
            "--out".as_ref(),
            store.images().as_os_str(),
        ],
    )
}

/// A profile is a file beside the script.
fn check_profile(script: &Path, profile: &str) -> Result<(), CliError> {
    let folder = script.with_file_name("profiles");
    let entries = fs::read_dir(&folder).map_err(cannot("reading", &folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut known: Vec<_> = names
        .filter_map(|name| Some(name.strip_suffix(".config")?.to_owned()))
        .collect();
    known.sort();
    match known.iter().any(|known| known == profile) {
        true => Ok(()),
        false => Err(CliError::Other(format!(
            "no profile {profile:?} in {}: there are {}",
            folder.display(),
            known.join(", ")
        ))),
    }
}

/// A name is a part of file names, and must not look like a release.
fn check(name: &str) -> Result<(), CliError> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    match fits {
        true => Ok(()),
        false => Err(CliError::Other(format!(
            "{name:?} can't be an image's name: a letter comes first, then letters, digits, '.', '_' and '-'"
        ))),
    }
}

/// `stack/build`: in $VINK_ROOT, or in a folder above the executable or above this one, or where
/// `make install` puts it below such a folder.
fn script() -> Result<PathBuf, CliError> {
    let mut roots: Vec<PathBuf> = Vec::new();
    match std::env::var_os("VINK_ROOT") {
        Some(root) => roots.push(root.into()),
        None => {
            let places = [std::env::current_exe(), std::env::current_dir()];
            for place in places.into_iter().flatten() {
                roots.extend(place.ancestors().map(Path::to_owned));
            }
        }
    }
    roots
        .iter()
        .flat_map(|root| ["stack/build", "share/vink/stack/build"].map(|script| root.join(script)))
        .find(|script| script.exists())
        .ok_or_else(|| {
            CliError::Other(
                "no stack/build in VINK_ROOT, above the executable or above this folder: set VINK_ROOT to \
                 where Vink's own source is"
                    .to_owned(),
            )
        })
}

/// Runs stack/build, whose words are the user's to read.
fn run(store: &Store, script: &Path, arguments: &[&std::ffi::OsStr]) -> Result<(), CliError> {
    let status = Command::new(script)
        .args(arguments)
        .env("VINK_CACHE", store.cache())
        .status()
        .map_err(cannot("running", script))?;
    match status.success() {
        true => Ok(()),
        false => Err(CliError::Other(
            "the image was not built: see above".to_owned(),
        )),
    }
}

fn of_tree(tree: PathBuf) -> Result<(Note, PathBuf), CliError> {
    let path = tree.join("Makefile");
    let makefile = fs::read_to_string(&path).map_err(cannot("reading", &path))?;
    let value = |key| {
        let line = makefile
            .lines()
            .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        line.map(str::trim)
    };
    let (Some(major), Some(minor)) = (value("VERSION"), value("PATCHLEVEL")) else {
        return Err(CliError::Other(format!(
            "{} is no kernel tree: its Makefile has no VERSION",
            tree.display()
        )));
    };
    let note = Note {
        version: format!("{major}.{minor}"),
        tree: Some(tree.clone()),
        patches: Vec::new(),
        patched: Vec::new(),
        edition: String::new(),
        profile: None,
    };
    Ok((note, tree))
}

/// The package's tree, which the script knows by its version.
fn of_package(version: &str) -> (Note, PathBuf) {
    let note = Note {
        version: version.to_owned(),
        tree: None,
        patches: Vec::new(),
        patched: Vec::new(),
        edition: String::new(),
        profile: None,
    };
    (note, version.into())
}

/// The package's tree with patches: a copy by hard links, of which patched files are the image's own.
/// Only files that the patches make different from what they were are written, so that only what
/// depends on these is compiled.
fn patched(
    store: &Store,
    script: &Path,
    name: &str,
    before: Option<&Note>,
    patches: &[PathBuf],
    version: &str,
) -> Result<(Note, PathBuf), CliError> {
    if store.pristine(version).is_err() {
        run(store, script, &["--linux".as_ref(), version.as_ref()])?;
    }
    let pristine = store.pristine(version)?;
    let edition = store.edition(version)?;
    let folder = store.folder(name);
    let tree = folder.join("tree");
    let copied =
        before.filter(|note| note.version == version && note.edition == edition && tree.exists());

    let mut kept = Vec::new();
    let mut paths = BTreeSet::new();
    for patch in patches {
        let text = fs::read(patch).map_err(cannot("reading", patch))?;
        paths.extend(touched(&text));
        kept.push(fs::canonicalize(patch).map_err(cannot("finding", patch))?);
    }
    // Aside, so that patches that do not apply change nothing.
    let aside = Aside::new(store.images().join(format!("{name}.patched")))?;
    for path in &paths {
        copy(&pristine.join(path), &aside.0.join(path))?;
    }
    for patch in &kept {
        apply(patch, &aside.0, &pristine)?;
    }

    if copied.is_none() {
        fs::create_dir_all(&folder).map_err(cannot("making", &folder))?;
        hard_links(&pristine, &tree)?;
    }
    let before = copied
        .map(|note| note.patched.iter().cloned())
        .into_iter()
        .flatten();
    for path in before.chain(paths.iter().cloned()).collect::<BTreeSet<_>>() {
        let from = match paths.contains(&path) {
            true => aside.0.join(&path),
            false => pristine.join(&path),
        };
        replace(&from, &tree.join(&path))?;
    }
    let note = Note {
        version: version.to_owned(),
        tree: None,
        patches: kept,
        patched: paths.into_iter().collect(),
        edition,
        profile: None,
    };
    Ok((note, tree))
}

/// A folder for a while.
struct Aside(PathBuf);

impl Aside {
    fn new(folder: PathBuf) -> Result<Aside, CliError> {
        gone(fs::remove_dir_all(&folder)).map_err(cannot("removing", &folder))?;
        fs::create_dir_all(&folder).map_err(cannot("making", &folder))?;
        Ok(Aside(folder))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // If it stays, the next one takes its place.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The paths that a patch names; those that it only seems to name are nowhere in the tree.
fn touched(patch: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(patch);
    let mut paths = BTreeSet::new();
    for line in text.lines() {
        let path = if let Some(path) = line
            .strip_prefix("--- ")
            .or_else(|| line.strip_prefix("+++ "))
        {
            // Up to a timestamp; below "a" or "b".
            path.split('\t')
                .next()
                .and_then(|path| path.split_once('/'))
                .map(|(_, path)| path)
        } else {
            ["rename from ", "rename to ", "copy from ", "copy to "]
                .iter()
                .find_map(|start| line.strip_prefix(start))
        };
        let Some(path) = path.map(str::trim).filter(|path| !path.is_empty()) else {
            continue;
        };
        if Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            paths.insert(path.to_owned());
        }
    }
    // --- /dev/null
    paths.remove("dev/null");
    paths.remove("null");
    paths
}

/// Patches copies of a tree's files. The tree itself is only named.
fn apply(patch: &Path, copies: &Path, tree: &Path) -> Result<(), CliError> {
    let output = Command::new("patch")
        .args([
            "-p1",
            "--batch",
            "--forward",
            "--no-backup-if-mismatch",
            "--reject-file=-",
        ])
        .arg("--directory")
        .arg(copies)
        .arg("--input")
        .arg(patch)
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                CliError::Other("patch is not here: apt-get install patch".to_owned())
            }
            _ => CliError::host("patch")(error),
        })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(CliError::Other(format!(
            "{} does not apply to {}:\n{}{}",
            patch.display(),
            tree.display(),
            String::from_utf8_lossy(&output.stdout).trim_end(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        ))),
    }
}

/// The package's tree without its bytes. An editor that writes into such a file and does not
/// replace it writes into the package's tree, which is not made for that.
fn hard_links(from: &Path, to: &Path) -> Result<(), CliError> {
    let new = to.with_extension("new");
    for old in [&new, &to.to_owned()] {
        gone(fs::remove_dir_all(old)).map_err(cannot("removing", old))?;
    }
    let status = Command::new("cp")
        .args(["--archive", "--link", "--no-target-directory"])
        .args([from, &new])
        .status()
        .map_err(CliError::host("cp"))?;
    if !status.success() {
        return Err(CliError::Other(format!(
            "copying {} failed: see above",
            from.display()
        )));
    }
    fs::rename(&new, to).map_err(cannot("making", to))
}

/// A copy with the age of now and the mode of `from`. What is not there is not there afterwards.
fn copy(from: &Path, to: &Path) -> Result<(), CliError> {
    gone(fs::remove_file(to)).map_err(cannot("removing", to))?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(cannot("making", folder))?;
    }
    gone(fs::copy(from, to).map(drop)).map_err(cannot("copying", from))
}

/// The same, unless it is so already.
fn replace(from: &Path, to: &Path) -> Result<(), CliError> {
    let same = match (fs::read(from), fs::read(to)) {
        (Ok(a), Ok(b)) => a == b,
        (Err(_), Err(_)) => true,
        _ => false,
    };
    if same {
        return Ok(());
    }
    copy(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_its_files() {
        let patch = b"From: x\n\n--- /dev/null\n+++ b/net/new.c\t2026-01-01\n\
            --- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n--- a/../../etc/passwd\nrename from net/a.c\n";
        let names: Vec<_> = touched(patch).into_iter().collect();
        assert_eq!(names, ["net/a.c", "net/ipv4/tcp.c", "net/new.c"]);
    }

    #[test]
    fn names_are_no_releases() {
        assert!(check("daytona").is_ok() && check("a-b_c.1").is_ok());
        assert!(check("6.12").is_err() && check("a/b").is_err() && check("").is_err());
    }
}
