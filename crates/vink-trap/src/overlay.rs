//! Files of a machine in folders where the host has none of that name.
//!
//! They are written to a tmpfs, which then lies under a read-only overlay of the nearest folder
//! that the host has. So that folder can't be written to by the machine's programs.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use vink_sys::rustix::fs::{chmod, fchmod, mkdir, open, Mode, OFlags};

use crate::mounts::{c, escaped, mount_overlay, mount_points, with_staging};
use crate::Error;

/// Where the files lie on the workbench.
const LAYER: &str = "/proc/layer";

/// New files in one folder of the host, with nothing left to be looked up or allocated.
#[derive(Debug)]
pub(crate) struct FileOverlay {
    /// To be made in this order, with these permissions.
    folders: Vec<(CString, libc::mode_t)>,
    files: Vec<(CString, Vec<u8>)>,
    options: CString,
    pub(crate) target: CString,
}

/// What has to be done for these files, of which the host has none. `covered` are those that get a
/// mount of their own in any case.
///
/// # Errors
/// [`Error::Folder`]: such a file can't be.
pub(crate) fn file_overlays(
    files: &[(PathBuf, Vec<u8>)],
    covered: &[&Path],
) -> Result<Vec<FileOverlay>, Error> {
    let mut by_folder: BTreeMap<PathBuf, Vec<(PathBuf, &[u8])>> = BTreeMap::new();
    for (path, text) in files {
        let bad = |why: &str| Error::Folder {
            folder: path.clone(),
            why: why.to_owned(),
        };
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let zero = path.as_os_str().as_bytes().contains(&0);
        if zero || !path.is_absolute() || !path.components().all(is_plain) {
            return Err(bad("a machine's file has an absolute path, without `..`"));
        }
        if path.is_dir() {
            return Err(bad("a machine's file, but on the host it is a folder"));
        }
        let mut above = path.ancestors().skip(1);
        let found = above.find(|folder| folder.exists());
        let there = found.unwrap_or(Path::new("/"));
        let below = path.strip_prefix(there).expect("an ancestor").to_owned();
        let there = fs::canonicalize(there).map_err(|e| bad(&e.to_string()))?;
        if there == Path::new("/") || !there.is_dir() {
            return Err(bad(
                "the host has no folder that it could appear in: choose another one, such as /etc",
            ));
        }
        by_folder.entry(there).or_default().push((below, text));
    }
    let made = by_folder.into_iter();
    made.map(|(folder, files)| FileOverlay::new(&folder, files, covered))
        .collect()
}

impl FileOverlay {
    fn new(
        folder: &Path,
        files: Vec<(PathBuf, &[u8])>,
        covered: &[&Path],
    ) -> Result<FileOverlay, Error> {
        let bad = |why: String| Error::Folder {
            folder: folder.to_owned(),
            why,
        };
        let points = mount_points().map_err(|e| bad(format!("/proc/self/mountinfo: {e}")))?;
        // What is mounted in there would not be seen any more.
        let is_hidden = |point: &&PathBuf| {
            point.ancestors().skip(1).any(|above| above == folder)
                && !covered.contains(&point.as_path())
        };
        if let Some(point) = points.iter().find(is_hidden) {
            return Err(bad(format!(
                "a machine's file shall appear here that the host has not, and {} is mounted there: \
                 make an empty file on the host for it to take the place of",
                point.display()
            )));
        }
        let mode = fs::metadata(folder).map_err(|e| bad(e.to_string()))?;
        let mut folders = BTreeMap::from([(PathBuf::from(LAYER), mode.permissions().mode())]);
        let mut written = Vec::new();
        for (below, text) in files {
            let path = Path::new(LAYER).join(below);
            for above in path.ancestors().skip(1) {
                if above.starts_with(LAYER) {
                    folders.entry(above.to_owned()).or_insert(0o755);
                }
            }
            written.push((c(path.as_os_str()), text.to_vec()));
        }
        let mut options = format!("lowerdir={LAYER}:").into_bytes();
        options.extend(escaped(folder));
        let folders = folders.into_iter();
        Ok(FileOverlay {
            folders: folders
                .map(|(path, mode)| (c(path.as_os_str()), mode & 0o7777))
                .collect(),
            files: written,
            options: c(OsStr::from_bytes(&options)),
            target: c(folder.as_os_str()),
        })
    }

    /// In a child between fork and exec, in a mount namespace of its own. Async-signal-safe.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        with_staging(c"mode=755,size=64M", || {
            for (path, mode) in &self.folders {
                mkdir(path, Mode::RWXU)?;
                chmod(path, Mode::from_raw_mode(*mode))?;
            }
            for (path, text) in &self.files {
                write(path, text)?;
            }
            mount_overlay(&self.options, &self.target)
        })
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        let target = self.target.to_string_lossy();
        format!("mounting an overlay for files that the host's {target} has not")
    }
}

/// Writes a new file, for all to read. Async-signal-safe.
pub(crate) fn write(path: &CStr, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
    let mut rest = text;
    while !rest.is_empty() {
        match vink_sys::rustix::io::write(&file, rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    Ok(fchmod(&file, Mode::from_raw_mode(0o644))?)
}
