//! Mounts on the host, as a machine's files need them: the place where they are made, overlays, and
//! paths as mount(2) and proc(5) write them.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use vink_sys::rustix::mount::{mount, unmount, MountFlags, UnmountFlags};

/// Where a tmpfs lies over the host's while files are generated: it is on every host, and no file
/// of a machine goes there.
pub(crate) const STAGING: &CStr = c"/proc";

/// Nothing there is a device, or executed.
pub(crate) const FILES_ONLY: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// Mounts a read-only overlay. Async-signal-safe.
pub(crate) fn mount_overlay(options: &CStr, target: &CStr) -> io::Result<()> {
    let flags = MountFlags::RDONLY;
    Ok(mount(c"overlay", target, c"overlay", flags, options)?)
}

/// Does something while a tmpfs is at [`STAGING`], which is then unmounted from sight.
/// Async-signal-safe.
pub(crate) fn with_staging(
    options: &CStr,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    mount(c"tmpfs", STAGING, c"tmpfs", FILES_ONLY, options)?;
    let done = work();
    let _ = unmount(STAGING, UnmountFlags::DETACH);
    done
}

/// Where something is mounted on the host.
pub(crate) fn mount_points() -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let points = mounts
        .split(|b| *b == b'\n')
        .filter_map(|line| line.split(|b| *b == b' ').nth(4));
    Ok(points
        .map(|point| PathBuf::from(std::ffi::OsString::from_vec(unescaped(point))))
        .collect())
}

/// A path as the host gave it: without zeros.
pub(crate) fn c(path: &OsStr) -> CString {
    CString::new(path.as_bytes()).expect("a path without zeros")
}

/// A path among overlayfs's options.
pub(crate) fn escaped(path: &Path) -> Vec<u8> {
    let mut escaped = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if b"\\:,".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

/// A path from mountinfo, which has `\040` for a space; see proc(5).
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        let octal = others.get(..3).filter(|_| *first == b'\\');
        let number = octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
        match number {
            Some(number) => {
                plain.push(number);
                rest = &others[3..];
            }
            None => {
                plain.push(*first);
                rest = others;
            }
        }
    }
    plain
}
