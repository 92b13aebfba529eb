//! A machine on the host: the namespaces that its programs share, and the files that they find in
//! place of the host's.
//!
//! The first program of a machine makes its namespaces between fork and exec. First, still above
//! the machine's programs, a PID namespace, and a mount namespace with the machine's files and its
//! `/proc`; for an ordinary user a user namespace around these. Then the namespaces that programs
//! own: a user namespace in which all ids are the host's, an empty network namespace, a UTS
//! namespace with the machine's name, a copy of the mounts; in virtual time an IPC namespace, where
//! numbers of shared memory are the same in each run. So programs have no capability over anything
//! outside, and can't take away what was mounted. Later programs join. All ends with the worker: the
//! host's kernel kills the first process of the PID namespace, and so all others.
//!
//! Files are bind mounts, so they need no interposition, and nothing changes on the host. Those
//! generated are written to a tmpfs that no path leads to. A folder of the host in which a file
//! shall appear that is not there gets a read-only overlay.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vink_sys::mount::set_nosuid;
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::mount::{mount, mount_bind, mount_change, MountFlags, MountPropagationFlags};
use vink_sys::rustix::process::{chroot, fchdir};
use vink_sys::rustix::system::sethostname;
use vink_sys::rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

use crate::mounts::{c, escaped, mount_overlay, mount_points, with_staging, FILES_ONLY};
use crate::overlay::{file_overlays, write, FileOverlay};
use crate::pids::InitProcess;
use crate::{tracee, Error};

/// How programs on a machine see the system around them; see
/// [`Worker::configure_namespaces`](crate::Worker::configure_namespaces).
#[derive(Clone, Debug, Default)]
pub struct NamespaceConfig {
    name: Option<String>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Also if the host has none.
    put: Vec<(PathBuf, Vec<u8>)>,
    root: Option<PathBuf>,
    hidden: Vec<PathBuf>,
}

impl NamespaceConfig {
    /// The host's name and the host's files.
    pub fn new() -> NamespaceConfig {
        NamespaceConfig::default()
    }

    /// What uname(2) and gethostname(2) tell: 1 to 64 bytes.
    pub fn name(mut self, name: impl Into<String>) -> NamespaceConfig {
        self.name = Some(name.into());
        self
    }

    /// Programs find this text in the file of this path. If the host has no such file, neither
    /// have they.
    pub fn file(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> NamespaceConfig {
        self.files.push((path.into(), text.into()));
        self
    }

    /// The same, but they have it also if the host has no such file. Then the nearest folder that
    /// the host has can't be written to by them. The path is absolute.
    pub fn put(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> NamespaceConfig {
        self.put.push((path.into(), text.into()));
        self
    }

    /// Each file below this folder appears at the same path below `/`, in place of the host's and
    /// of those of [`NamespaceConfig::file`] and [`NamespaceConfig::put`]. It is the same file:
    /// what programs write to it is in the folder.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> NamespaceConfig {
        self.root = Some(folder.into());
        self
    }

    /// Programs with other credentials than root's find nothing in this folder of the host, if it
    /// is there now.
    pub fn hide(mut self, folder: impl Into<PathBuf>) -> NamespaceConfig {
        self.hidden.push(folder.into());
        self
    }

    /// What has to be done for it.
    pub(crate) fn plan(&self) -> Result<MountPlan, Error> {
        let mut mounts = MountPlan {
            name: self.name.as_ref().map(|n| n.as_bytes().to_vec()),
            ..MountPlan::default()
        };
        let mut own = None;
        if let Some(folder) = &self.root {
            let cannot = |e: io::Error| Error::Folder {
                folder: folder.clone(),
                why: e.to_string(),
            };
            let folder = fs::canonicalize(folder).map_err(cannot)?;
            mounts.overlay_folder(&folder)?;
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
                mounts.files.push(Generated { text, target });
                covered.push(path);
            } else if self.put.iter().any(|(put, _)| put == path) {
                new.push((path.clone(), text.clone()));
            }
        }
        mounts.file_overlays = file_overlays(&new, &covered)?;
        let hidden = self.hidden.iter().filter(|folder| folder.is_dir());
        mounts.hidden = hidden.map(|folder| c(folder.as_os_str())).collect();
        Ok(mounts)
    }
}

/// The steps of making them, with nothing left to be looked up or allocated.
#[derive(Debug, Default)]
pub(crate) struct MountPlan {
    name: Option<Vec<u8>>,
    file_overlays: Vec<FileOverlay>,
    folder_overlays: Vec<FolderOverlay>,
    binds: Vec<Bind>,
    files: Vec<Generated>,
    hidden: Vec<CString>,
}

/// A folder of the host, seen through one of the machine's.
#[derive(Debug)]
struct FolderOverlay {
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

/// Which step of [`MountPlan::set_up`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedStep {
    Name,
    Private,
    /// A `/proc` of the machine's own.
    Proc,
    /// Files without rights of their own.
    NoSuid,
    /// A `/dev/shm` of the machine's own.
    SharedMemory,
    /// This mount; they are counted through all lists.
    Mount(usize),
}

impl MountPlan {
    /// In a child between fork and exec, in a new UTS namespace.
    pub(crate) fn set_name(&self) -> io::Result<()> {
        Ok(self.name.as_deref().map_or(Ok(()), sethostname)?)
    }

    /// The same in new mount and PID namespaces, on which no other process depends. The error is the
    /// step that failed, and why. rustix allocates nothing for strings that end with NUL.
    /// `restricted`: no file gives a program rights, by a bit or by capabilities: it could not get
    /// them, and would not be executed at all (capabilities(7), "capability-dumb").
    /// `own_shared_memory`: POSIX shared memory is the machine's own, too (shm_overview(7)).
    pub(crate) fn set_up(
        &self,
        restricted: bool,
        own_shared_memory: bool,
    ) -> Result<(), (FailedStep, io::Error)> {
        let down_only = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
        mount_change(c"/", down_only).map_err(|why| (FailedStep::Private, why.into()))?;
        let proc = mount(c"proc", c"/proc", c"proc", FILES_ONLY, None);
        proc.map_err(|why| (FailedStep::Proc, why.into()))?;
        if own_shared_memory {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            match mount(c"tmpfs", c"/dev/shm", c"tmpfs", flags, c"mode=1777") {
                // The host has none.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(why) => return Err((FailedStep::SharedMemory, why.into())),
            }
        }
        let mut index = 0;
        let mut step = |done: io::Result<()>| {
            index += 1;
            done.map_err(|why| (FailedStep::Mount(index - 1), why))
        };
        for addition in &self.file_overlays {
            step(addition.set_up())?;
        }
        for FolderOverlay { options, target } in &self.folder_overlays {
            step(mount_overlay(options, target))?;
        }
        for Bind { source, target } in &self.binds {
            step(mount_bind(source, target).map_err(io::Error::from))?;
        }
        for Generated { text, target } in &self.files {
            step(generate(text, target))?;
        }
        for folder in self.hidden.iter().filter(|_| restricted) {
            let flags = FILES_ONLY | MountFlags::RDONLY;
            let hidden = mount(c"tmpfs", folder, c"tmpfs", flags, c"mode=555,size=4k");
            step(hidden.map_err(io::Error::from))?;
        }
        if restricted {
            set_nosuid(c"/").map_err(|why| (FailedStep::NoSuid, why))?;
        }
        Ok(())
    }

    /// Sees to it that each file below the folder appears below `/`.
    fn overlay_folder(&mut self, folder: &Path) -> Result<(), Error> {
        let mut overlaid = BTreeSet::new();
        self.collect_mounts(folder, Path::new("/"), &mut overlaid)?;
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
            self.folder_overlays.push(FolderOverlay { options, target });
        }
        // What an overlay shows already.
        self.binds.retain(|bind| {
            let target = Path::new(OsStr::from_bytes(bind.target.to_bytes()));
            !target.ancestors().any(|a| overlaid.contains(a))
        });
        self.check_hidden_mounts(folder, &overlaid)
    }

    /// Binds the files in `from` to those in `to`; what is missing there makes `to` overlaid.
    fn collect_mounts(
        &mut self,
        from: &Path,
        to: &Path,
        overlaid: &mut BTreeSet<PathBuf>,
    ) -> Result<(), Error> {
        let bad = |path: &Path, why: String| Error::Folder {
            folder: path.to_owned(),
            why,
        };
        let unreadable = |e: io::Error| bad(from, e.to_string());
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
                Ok(_) if here.is_dir() => self.collect_mounts(&source, &target, overlaid)?,
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
    fn check_hidden_mounts(
        &self,
        folder: &Path,
        overlaid: &BTreeSet<PathBuf>,
    ) -> Result<(), Error> {
        if overlaid.is_empty() {
            return Ok(());
        }
        let unreadable = |e: io::Error| Error::Folder {
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
    pub(crate) fn describe(&self, failed: FailedStep) -> String {
        let text = |s: &CStr| s.to_string_lossy().into_owned();
        match failed {
            FailedStep::Name => {
                let name = self.name.as_deref().unwrap_or_default();
                format!("sethostname({:?})", String::from_utf8_lossy(name))
            }
            FailedStep::Private => {
                "making mounts private (in a chroot, its root must be mounted)".into()
            }
            FailedStep::Proc => {
                "mounting a /proc of the machine's own (nothing may be mounted below the host's /proc, unless \
                 for root; in Docker, --security-opt systempaths=unconfined)"
                    .into()
            }
            FailedStep::NoSuid => {
                "mount_setattr(MOUNT_ATTR_NOSUID) of all that is mounted".into()
            }
            FailedStep::SharedMemory => "mounting a /dev/shm of the machine's own".into(),
            FailedStep::Mount(mut index) => {
                if let Some(addition) = self.file_overlays.get(index) {
                    return addition.describe();
                }
                index -= self.file_overlays.len();
                if let Some(overlay) = self.folder_overlays.get(index) {
                    return format!(
                        "mounting an overlay ({}) for files that the host's {} has not",
                        text(&overlay.options),
                        text(&overlay.target)
                    );
                }
                index -= self.folder_overlays.len();
                if let Some(bind) = self.binds.get(index) {
                    return format!(
                        "mounting {} over {}",
                        text(&bind.source),
                        text(&bind.target)
                    );
                }
                index -= self.binds.len();
                if let Some(file) = self.files.get(index) {
                    return format!("mounting a file over {}", text(&file.target));
                }
                index -= self.files.len();
                format!("hiding the folder {}", text(&self.hidden[index]))
            }
        }
    }
}

/// Mounts a new file with this text over the target. Async-signal-safe.
fn generate(text: &[u8], target: &CStr) -> io::Result<()> {
    const FILE: &CStr = c"/proc/file";
    with_staging(c"mode=700,size=1M", || {
        write(FILE, text)?;
        Ok(mount_bind(FILE, target)?)
    })
}

/// A machine's namespaces, held open so that further programs can join them.
pub(crate) struct Namespaces {
    /// To be entered in this order, and what each is.
    spaces: Vec<(OwnedFd, LinkNameSpaceType)>,
    /// The user namespace that programs are in, to be entered last.
    user: OwnedFd,
    /// The root folder, in that mount namespace.
    root: OwnedFd,
    /// Of its PID namespace.
    init: InitProcess,
}

impl Namespaces {
    /// Of a process that has just made them, and the first one of its PID namespace.
    pub(crate) fn of(pid: i32, first: InitProcess) -> io::Result<Namespaces> {
        let open = |pid: i32, name: &str| -> io::Result<OwnedFd> {
            Ok(fs::File::open(format!("/proc/{pid}/ns/{name}"))?.into())
        };
        let mut spaces = Vec::new();
        // That of the PID namespace. No process can enter the one that it is in.
        let above = open(first.number(), "user")?;
        if tracee::identity(above.as_raw_fd()).1 != fs::metadata("/proc/self/ns/user")?.ino() {
            spaces.push((above, LinkNameSpaceType::User));
        }
        for (name, kind) in [
            ("net", LinkNameSpaceType::Network),
            ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
            ("mnt", LinkNameSpaceType::Mount),
            ("pid", LinkNameSpaceType::ProcessID),
        ] {
            spaces.push((open(pid, name)?, kind));
        }
        // In real time it is the worker's, which no user may join.
        let ipc = open(pid, "ipc")?;
        if tracee::identity(ipc.as_raw_fd()).1 != fs::metadata("/proc/self/ns/ipc")?.ino() {
            spaces.push((ipc, LinkNameSpaceType::InterProcessCommunication));
        }
        Ok(Namespaces {
            spaces,
            user: open(pid, "user")?,
            root: fs::File::open(format!("/proc/{pid}/root"))?.into(),
            init: first,
        })
    }

    /// The first process of its PID namespace.
    pub(crate) fn init_pid(&self) -> i32 {
        self.init.number()
    }

    /// The user namespace that programs are in.
    pub(crate) fn user(&self) -> BorrowedFd<'_> {
        self.user.as_fd()
    }

    /// Enters all but [`Namespaces::user`], in a child between fork and exec; a PID namespace for
    /// its children. Async-signal-safe.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for (fd, kind) in &self.spaces {
            move_into_link_name_space(fd.as_fd(), Some(*kind))?;
        }
        fchdir(&self.root)?;
        Ok(chroot(c".")?)
    }
}
