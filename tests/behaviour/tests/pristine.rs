//! The kernel trees that the images are built from are the packages', byte for byte: no file changed,
//! none missing, none added.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vink_tests::root;

#[test]
fn the_tree_of_6_12_is_unmodified() {
    is_unmodified("6.12");
}

#[test]
fn the_tree_of_6_1_is_unmodified() {
    is_unmodified("6.1");
}

fn is_unmodified(version: &str) {
    let tree = tree(version);
    let tarball = format!("/usr/src/linux-source-{version}.tar.xz");
    // xz(1) rather than a library: it decompresses on all processors.
    let mut xz = Command::new("xz")
        .args(["--decompress", "--stdout", "--threads=0", &tarball])
        .stdout(Stdio::piped())
        .spawn()
        .expect("xz");
    let mut archive = tar::Archive::new(xz.stdout.take().expect("a pipe"));

    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for entry in archive.entries().expect(&tarball) {
        let mut entry = entry.expect(&tarball);
        let name = entry.path().expect("a name").into_owned();
        // All names begin with linux-source-VERSION/.
        let name: PathBuf = name.components().skip(1).collect();
        if name.as_os_str().is_empty() {
            continue;
        }
        if let Err(what) = compare(&mut entry, &tree.join(&name)) {
            wrong.push(format!("{}: {what}", name.display()));
        }
        known.insert(name);
    }
    assert!(xz.wait().expect("xz").success(), "{tarball} is damaged");
    assert!(known.len() > 50_000, "only {} files in it", known.len());
    added(&tree, Path::new(""), &known, &mut wrong);

    assert!(
        wrong.is_empty(),
        "{} is not what {tarball} has ({} differences): remove it and run `make stack LINUX={version}`\n{}",
        tree.display(),
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

/// The tree that the build says it used.
fn tree(version: &str) -> PathBuf {
    let note = root().join(format!("build/libvink-linux-{version}.tree"));
    match fs::read_to_string(&note) {
        Ok(path) => path.trim_end().into(),
        Err(e) => panic!(
            "{}: {e}: run `make stack LINUX={version}` first",
            note.display()
        ),
    }
}

/// Compares one entry of the archive with the file of that name.
fn compare(entry: &mut tar::Entry<impl Read>, path: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(path).map_err(|_| "missing".to_owned())?;
    let kind = entry.header().entry_type();
    if kind.is_dir() {
        return match found.is_dir() {
            true => Ok(()),
            false => Err("not a folder".into()),
        };
    }
    if kind.is_symlink() {
        let wanted = entry.link_name().ok().flatten();
        return match fs::read_link(path).ok() {
            target if target.as_deref() == wanted.as_deref() => Ok(()),
            target => Err(format!("a link to {target:?}, not to {wanted:?}")),
        };
    }
    if !kind.is_file() || !found.is_file() {
        return Err(format!("a {:?}, not a {kind:?}", found.file_type()));
    }
    if found.len() != entry.size() {
        return Err(format!("{} bytes, not {}", found.len(), entry.size()));
    }
    let executable = |mode: u32| mode & 0o100 != 0;
    if executable(found.permissions().mode()) != executable(entry.header().mode().unwrap_or(0)) {
        return Err("the executable bit differs".into());
    }
    let mut wanted = Vec::with_capacity(found.len() as usize);
    entry.read_to_end(&mut wanted).map_err(|e| e.to_string())?;
    let mut is = Vec::with_capacity(wanted.len());
    File::open(path)
        .and_then(|mut f| f.read_to_end(&mut is))
        .map_err(|e| e.to_string())?;
    match is == wanted {
        true => Ok(()),
        false => Err("other content".into()),
    }
}

/// Finds what is in the tree's folder `at` and below but not in the archive.
fn added(tree: &Path, at: &Path, known: &BTreeSet<PathBuf>, wrong: &mut Vec<String>) {
    for entry in fs::read_dir(tree.join(at)).expect("the tree") {
        let entry = entry.expect("the tree");
        let name = at.join(entry.file_name());
        if !known.contains(&name) {
            wrong.push(format!("{}: not in the package", name.display()));
        } else if entry.file_type().expect("the tree").is_dir() {
            added(tree, &name, known, wrong);
        }
    }
}
