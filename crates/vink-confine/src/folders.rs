//! A file system that has a few folders of the one before, where they were, and nothing else.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vink_sys::mount::set_read_only;
use vink_sys::rustix::fs::CWD;
use vink_sys::rustix::mount::{
    mount, mount_change, move_mount, open_tree, unmount, MountFlags, MountPropagationFlags,
    MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use vink_sys::rustix::process::{chdir, pivot_root};

/// Where the new root is put together: it is there on any host, and covers nothing that is needed
/// meanwhile.
const PLACE: &str = "/proc";

/// Has this process, which is alone in its mount namespace, see these folders only, and these files
/// and folders, in which it writes nothing.
pub(crate) fn only(folders: &[PathBuf], readable: &[PathBuf]) -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let all = folders.iter().chain(readable);
    let trees: Vec<(OwnedFd, &PathBuf, bool)> = all
        .map(|path| Ok((tree(path)?, path, path.is_dir())))
        .collect::<io::Result<_>>()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", PLACE, "tmpfs", flags, c"size=64k,mode=0755")?;
    for (tree, path, is_folder) in trees {
        let below = Path::new(PLACE).join(path.strip_prefix("/").unwrap_or(path));
        if is_folder {
            std::fs::create_dir_all(&below)?;
        } else {
            std::fs::create_dir_all(below.parent().unwrap_or(&below))?;
            match File::create_new(&below) {
                // It is in a folder that is there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => drop(made?),
            }
        }
        let below = CString::new(below.as_os_str().as_bytes())?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, c"", CWD, below, flags)?;
    }
    for path in readable {
        let below = Path::new(PLACE).join(path.strip_prefix("/").unwrap_or(path));
        set_read_only(&CString::new(below.as_os_str().as_bytes())?)?;
    }
    chdir(PLACE)?;
    // The old root lies on the new one then, and is taken off.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

fn tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}
