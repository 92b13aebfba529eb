//! A machine's home on the host: the namespaces that its programs share, and the files that they
//! find in place of the host's.
//!
//! The first program of a machine makes its home between fork and exec: an empty network namespace,
//! a UTS namespace with the machine's name, a mount namespace with its files; for an ordinary user
//! a user namespace around them. Later programs join it. It ends with the worker and its programs.
//!
//! Files are bind mounts, so they need no interposition, and nothing changes on the host. Those
//! generated are written to a tmpfs that no path leads to. A folder of the host in which a file
//! shall appear that is not there gets a read-only overlay.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::null;

use crate::addition::{additions, Addition};
use crate::turn::pids::First;
use crate::Error;

/// Where a tmpfs lies over the host's while files are generated: it is on every host, and no file
/// of a machine goes there.
pub(crate) const WORKBENCH: &CStr = c"/proc";

/// How programs on a machine see the system around them; see [`Worker::furnish`](crate::Worker::furnish).
#[derive(Clone, Debug, Default)]
pub struct Home {
    name: Option<String>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Also if the host has none.
    put: Vec<(PathBuf, Vec<u8>)>,
    root: Option<PathBuf>,
}

impl Home {
    /// The host's name and the host's files.
    pub fn new() -> Home {
        Home::default()
    }

    /// What uname(2) and gethostname(2) tell: 1 to 64 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Home {
        self.name = Some(name.into());
        self
    }

    /// Programs find this text in the file of this path. If the host has no such file, neither
    /// have they.
    pub fn file(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Home {
        self.files.push((path.into(), text.into()));
        self
    }

    /// The same, but they have it also if the host has no such file. Then the nearest folder that the host has
    /// can't be written to by them. The path is absolute.
    pub fn put(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Home {
        self.put.push((path.into(), text.into()));
        self
    }

    /// Each file below this folder appears at the same path below `/`, in place of the host's and of
    /// those of [`Home::file`] and [`Home::put`]. It is the same file: what programs write to it is in the folder.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Home {
        self.root = Some(folder.into());
        self
    }

    /// What has to be done for it.
    pub(crate) fn plan(&self) -> Result<Furniture, Error> {
        let mut furniture = Furniture {
            name: self.name.as_ref().map(|n| n.as_bytes().to_vec()),
            ..Furniture::default()
        };
        let mut own = None;
        if let Some(folder) = &self.root {
            let cannot = |e: std::io::Error| Error::Folder {
                folder: folder.clone(),
                why: e.to_string(),
            };
            let folder = fs::canonicalize(folder).map_err(cannot)?;
            furniture.shadow(&folder)?;
            own = Some(folder);
        }
        let is_given = |path: &Path| {
            let below = path.strip_prefix("/").unwrap_or(path);
            own.as_ref().is_some_and(|own| own.join(below).exists())
        };
        let mut new = Vec::new();
        let mut covered: Vec<&Path> = Vec::new();
        for (path, text) in self.files.iter().chain(&self.put) {
            if is_given(path) {
                continue;
            }
            if path.is_file() {
                let text = text.clone();
                let target = c(path.as_os_str());
                furniture.files.push(Generated { text, target });
                covered.push(path);
            } else if self.put.iter().any(|(put, _)| put == path) {
                new.push((path.clone(), text.clone()));
            }
        }
        furniture.additions = additions(&new, &covered)?;
        Ok(furniture)
    }
}

/// The steps of furnishing, with nothing left to be looked up or allocated.
#[derive(Debug, Default)]
pub(crate) struct Furniture {
    name: Option<Vec<u8>>,
    additions: Vec<Addition>,
    overlays: Vec<Overlay>,
    binds: Vec<Bind>,
    files: Vec<Generated>,
}

/// A folder of the host, seen through one of the machine's.
#[derive(Debug)]
struct Overlay {
    options: CString,
    target: CString,
}

#[derive(Debug)]
struct Bind {
    source: CString,
    target: CString,
}

#[derive(Debug)]
struct Generated {
    text: Vec<u8>,
    target: CString,
}

/// Which step of [`Furniture::set_up`] failed; errno tells why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Name,
    Private,
    /// A `/proc` of the machine's own.
    Proc,
    /// This mount; they are counted through all lists.
    Mount(usize),
}

impl Furniture {
    /// In a child between fork and exec, in new UTS and mount namespaces. `own_pids`: and in a new pid namespace.
    pub(crate) fn set_up(&self, own_pids: bool) -> Result<(), Failed> {
        // SAFETY: async-signal-safe calls, with strings that are NUL-terminated and outlive them, on
        // namespaces that nobody else is in.
        unsafe {
            if let Some(name) = &self.name {
                if libc::sethostname(name.as_ptr().cast(), name.len()) < 0 {
                    return Err(Failed::Name);
                }
            }
            if self.additions.is_empty()
                && self.overlays.is_empty()
                && self.binds.is_empty()
                && self.files.is_empty()
                && !own_pids
            {
                return Ok(());
            }
            let down_only = libc::MS_REC | libc::MS_SLAVE;
            if mount(null(), c"/", null(), down_only, null()) < 0 {
                return Err(Failed::Private);
            }
            if own_pids {
                let proc = c"proc".as_ptr();
                let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                if mount(proc, c"/proc", proc, flags, null()) < 0 {
                    return Err(Failed::Proc);
                }
            }
            let mut index = 0;
            let mut step = |done: bool| {
                index += 1;
                done.then_some(()).ok_or(Failed::Mount(index - 1))
            };
            for addition in &self.additions {
                step(addition.set_up())?;
            }
            let overlay = c"overlay".as_ptr();
            for Overlay { options, target } in &self.overlays {
                let flags = libc::MS_RDONLY;
                step(mount(overlay, target, overlay, flags, options.as_ptr()) == 0)?;
            }
            let bind = libc::MS_BIND;
            for Bind { source, target } in &self.binds {
                step(mount(source.as_ptr(), target, null(), bind, null()) == 0)?;
            }
            for Generated { text, target } in &self.files {
                step(generate(text, target))?;
            }
        }
        Ok(())
    }

    /// Sees to it that each file below the folder appears below `/`.
    fn shadow(&mut self, folder: &Path) -> Result<(), Error> {
        let mut overlaid = BTreeSet::new();
        self.walk(folder, Path::new("/"), &mut overlaid)?;
        for place in &overlaid {
            if place.ancestors().skip(1).any(|a| overlaid.contains(a)) {
                continue;
            }
            let target = c(place.as_os_str());
            let below = place.strip_prefix("/").expect("absolute");
            let mut options = b"lowerdir=".to_vec();
            options.extend(escaped(&folder.join(below)));
            options.push(b':');
            options.extend(escaped(place));
            let options = CString::new(options).expect("paths without zeros");
            self.overlays.push(Overlay { options, target });
        }
        // What an overlay shows already.
        self.binds.retain(|bind| {
            let target = Path::new(OsStr::from_bytes(bind.target.to_bytes()));
            !target.ancestors().any(|a| overlaid.contains(a))
        });
        self.no_hidden_mounts(folder, &overlaid)
    }

    /// Binds the files in `from` to those in `to`; what is missing there makes `to` overlaid.
    fn walk(
        &mut self,
        from: &Path,
        to: &Path,
        overlaid: &mut BTreeSet<PathBuf>,
    ) -> Result<(), Error> {
        let bad = |path: &Path, why: String| Error::Folder {
            folder: path.to_owned(),
            why,
        };
        let unreadable = |e: std::io::Error| bad(from, e.to_string());
        for entry in fs::read_dir(from).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let here = fs::metadata(&source).map_err(|e| bad(&source, e.to_string()))?;
            if !here.is_file() && !here.is_dir() {
                return Err(bad(&source, "neither a file nor a folder".into()));
            }
            let kind = |is_dir| if is_dir { "a folder" } else { "a file" };
            match fs::metadata(&target) {
                Ok(there) if there.is_dir() != here.is_dir() => {
                    return Err(bad(
                        &source,
                        format!(
                            "is {}, but the host's {} is {}",
                            kind(here.is_dir()),
                            target.display(),
                            kind(there.is_dir())
                        ),
                    ))
                }
                Ok(_) if here.is_dir() => self.walk(&source, &target, overlaid)?,
                Ok(_) => self.binds.push(Bind {
                    source: c(source.as_os_str()),
                    target: c(target.as_os_str()),
                }),
                Err(_) if to == Path::new("/") => {
                    return Err(bad(
                        &source,
                        format!(
                            "the host has no {} that it could take the place of: make an empty one",
                            target.display()
                        ),
                    ))
                }
                Err(_) => {
                    overlaid.insert(to.to_owned());
                }
            }
        }
        Ok(())
    }

    /// An overlay shows one file system: what is mounted deeper in that folder would be hidden.
    fn no_hidden_mounts(&self, folder: &Path, overlaid: &BTreeSet<PathBuf>) -> Result<(), Error> {
        if overlaid.is_empty() {
            return Ok(());
        }
        let unreadable = |e: std::io::Error| Error::Folder {
            folder: folder.to_owned(),
            why: format!("/proc/self/mountinfo: {e}"),
        };
        for point in mount_points().map_err(unreadable)? {
            let mut above = point.ancestors().skip(1);
            let Some(place) = above.find(|a| overlaid.contains(*a)) else {
                continue;
            };
            let below = point.strip_prefix("/").expect("absolute");
            if point.is_file() && folder.join(below).is_file() {
                continue;
            }
            return Err(Error::Folder {
                folder: folder.to_owned(),
                why: format!(
                    "it has files that the host's {} has not, and {} is mounted there: make empty \
                     files on the host for them to take the place of",
                    place.display(),
                    point.display()
                ),
            });
        }
        Ok(())
    }

    /// What a failed step was about, for messages.
    pub(crate) fn describe(&self, failed: Failed) -> String {
        let text = |s: &CStr| s.to_string_lossy().into_owned();
        match failed {
            Failed::Name => {
                let name = self.name.as_deref().unwrap_or_default();
                format!("sethostname({:?})", String::from_utf8_lossy(name))
            }
            Failed::Private => {
                "making mounts private (in a chroot, its root must be mounted)".into()
            }
            Failed::Proc => {
                "mounting a /proc of the machine's own, for virtual time (an ordinary user \
                             can if nothing is mounted below the host's /proc)"
                    .into()
            }
            Failed::Mount(mut index) => {
                if let Some(addition) = self.additions.get(index) {
                    return addition.describe();
                }
                index -= self.additions.len();
                if let Some(overlay) = self.overlays.get(index) {
                    return format!(
                        "mounting an overlay ({}) for files that the host's {} has not",
                        text(&overlay.options),
                        text(&overlay.target)
                    );
                }
                index -= self.overlays.len();
                if let Some(bind) = self.binds.get(index) {
                    return format!(
                        "mounting {} over {}",
                        text(&bind.source),
                        text(&bind.target)
                    );
                }
                index -= self.binds.len();
                format!("mounting a file over {}", text(&self.files[index].target))
            }
        }
    }
}

/// mount(2).
///
/// # Safety
/// Pointers must be null or NUL-terminated strings.
pub(crate) unsafe fn mount(
    source: *const libc::c_char,
    target: &CStr,
    kind: *const libc::c_char,
    flags: libc::c_ulong,
    options: *const libc::c_char,
) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { libc::mount(source, target.as_ptr(), kind, flags, options.cast()) }
}

/// Mounts a new file with this text over the target: one of a tmpfs, which then goes out of sight.
/// Async-signal-safe.
fn generate(text: &[u8], target: &CStr) -> bool {
    const FILE: &CStr = c"/proc/file";
    // SAFETY: async-signal-safe calls, with strings that are NUL-terminated and outlive them.
    unsafe {
        let tmpfs = c"tmpfs".as_ptr();
        let options = c"mode=700,size=1M".as_ptr();
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        if mount(tmpfs, WORKBENCH, tmpfs, flags, options) < 0 {
            return false;
        }
        let fd = libc::open(
            FILE.as_ptr(),
            libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC,
            0o644,
        );
        let written = libc::write(fd, text.as_ptr().cast(), text.len()) == text.len() as isize
            && libc::fchmod(fd, 0o644) == 0;
        libc::close(fd);
        let done = written && mount(FILE.as_ptr(), target, null(), libc::MS_BIND, null()) == 0;
        // Whatever went wrong is in errno, which this must not change.
        let errno = *libc::__errno_location();
        libc::umount2(WORKBENCH.as_ptr(), libc::MNT_DETACH);
        *libc::__errno_location() = errno;
        done
    }
}

/// A machine's namespaces, held open so that further programs can join them.
pub(crate) struct Namespaces {
    /// To be entered in this order, and what each is.
    spaces: Vec<(OwnedFd, libc::c_int)>,
    /// The root folder, in that mount namespace.
    root: OwnedFd,
    /// Of its pid namespace, if it has one.
    first: Option<First>,
}

impl Namespaces {
    /// Of a process that has just made them, and the first one of a new pid namespace that it is in.
    pub(crate) fn of(pid: i32, first: Option<First>) -> std::io::Result<Namespaces> {
        let mut spaces = Vec::new();
        for (name, kind) in [
            ("user", libc::CLONE_NEWUSER),
            ("net", libc::CLONE_NEWNET),
            ("uts", libc::CLONE_NEWUTS),
            ("mnt", libc::CLONE_NEWNS),
            ("pid", libc::CLONE_NEWPID),
        ] {
            let path = format!("/proc/{pid}/ns/{name}");
            // Nobody can enter the user namespace that he is in.
            if fs::metadata(&path)?.ino() != fs::metadata(format!("/proc/self/ns/{name}"))?.ino() {
                spaces.push((fs::File::open(&path)?.into(), kind));
            }
        }
        let root = fs::File::open(format!("/proc/{pid}/root"))?.into();
        Ok(Namespaces {
            spaces,
            root,
            first,
        })
    }

    /// Those by which the programs within can be told from all others: not a user namespace, which is
    /// entered to look at them too.
    pub(crate) fn of_programs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let spaces = self.spaces.iter();
        spaces
            .filter(|(_, kind)| *kind != libc::CLONE_NEWUSER)
            .map(|(fd, _)| fd.as_fd())
    }

    /// The first process of its pid namespace, if it has one.
    pub(crate) fn first(&self) -> Option<i32> {
        self.first.as_ref().map(First::number)
    }

    /// Enters them, in a child between fork and exec; a pid namespace for its children. Async-signal-safe;
    /// errno tells why not.
    pub(crate) fn enter(&self) -> bool {
        // SAFETY: takes descriptors that are open, numbers, and a constant.
        unsafe {
            self.spaces
                .iter()
                .all(|(fd, kind)| libc::setns(fd.as_raw_fd(), *kind) == 0)
                && libc::fchdir(self.root.as_raw_fd()) == 0
                && libc::chroot(c".".as_ptr()) == 0
        }
    }
}

/// Where something is mounted on the host.
pub(crate) fn mount_points() -> std::io::Result<Vec<PathBuf>> {
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
