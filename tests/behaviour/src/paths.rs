//! Where the tests find what was built, and where they may put files.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The workspace's root.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("tests/behaviour is in the workspace")
}

/// The command: `$VINK_BIN`, or the one of the same build as the running test.
///
/// # Panics
/// There is none.
pub fn vink() -> PathBuf {
    if let Some(path) = std::env::var_os("VINK_BIN") {
        return path.into();
    }
    built("vink", "vink", "VINK_BIN")
}

/// The library for programs with the stack in their own process: `$VINK_PRELOAD`, or the one of the same build.
///
/// # Panics
/// There is none.
pub fn preload() -> PathBuf {
    if let Some(path) = std::env::var_os("VINK_PRELOAD") {
        return path.into();
    }
    built("libvink_preload.so", "vink-preload", "VINK_PRELOAD")
}

/// The library for programs that post calls in shared memory: of the same build.
///
/// # Panics
/// There is none.
pub fn quick() -> PathBuf {
    built("libvink_quick.so", "vink-quick", "VINK_BIN")
}

/// A file of a package of the workspace, of the same build as the running test.
fn built(file: &str, package: &str, variable: &str) -> PathBuf {
    let test = std::env::current_exe().expect("/proc is mounted");
    // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM
    let folders = test.ancestors().skip(1).take(2);
    let mut paths = folders.map(|folder| folder.join(file));
    let found = paths.find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!("{file} not found: run `cargo build -p {package}` first, or set {variable}")
    })
}

/// The image under test: `$VINK_IMAGE`, or the one in build/.
///
/// # Panics
/// There is none.
pub fn image() -> PathBuf {
    let path = std::env::var_os("VINK_IMAGE")
        .map_or_else(|| root().join("build/libvink-linux-6.12.so"), PathBuf::from);
    let found = path.canonicalize();
    found.unwrap_or_else(|e| panic!("{}: {e}: run `make stack` first", path.display()))
}

/// A folder of this user's that other users can read, unlike what is below a home: the same one in
/// every run, so that nothing piles up.
///
/// # Panics
/// It can't be made, or another process was first.
pub fn stage() -> PathBuf {
    // SAFETY: takes no arguments and can't fail.
    let user = unsafe { libc::geteuid() };
    let path = std::env::temp_dir().join(format!("vink-tests-{user}"));
    // One of several tests at once will be first.
    let _ = fs::DirBuilder::new().mode(0o755).create(&path);
    let found = fs::symlink_metadata(&path);
    match found {
        Ok(m) if m.is_dir() && m.uid() == user && m.mode() & 0o022 == 0 => path,
        other => panic!("{}: not a folder of mine: {other:?}", path.display()),
    }
}

/// Links or copies a file to a folder, under its own name: on the stage, every user can read it.
///
/// # Panics
/// It can't be read.
pub fn place(from: &Path, folder: &Path) -> PathBuf {
    let to = folder.join(from.file_name().expect("a file"));
    let _ = fs::remove_file(&to); // of an earlier run
    if fs::hard_link(from, &to).is_err() {
        fs::copy(from, &to).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    }
    to
}
