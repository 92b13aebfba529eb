//! A program of which nothing is known, and what it starts: it reaches files, its own processes and
//! what it has open, and nothing else of the host.
//!
//! Its process tree is in an empty network namespace and in a PID namespace whose first process is
//! the one that calls [`Inside::confine`]. That one gives up all rights, starts the program, and
//! waits for it. It has nothing then that the program could take from it.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use vink_sys::mount::{set_nosuid, set_read_only};
use vink_sys::process::{fork_into, getegid, geteuid};
use vink_sys::rustix::mount::{mount, mount_change, MountFlags, MountPropagationFlags};
use vink_sys::rustix::process::{set_dumpable_behavior, DumpableBehavior};

use crate::{about, capabilities, map_ids, refused, Rights, EMPTY};

/// What [`fork`] returns, twice.
pub enum Fork {
    /// To the process that called it: the child's number.
    Parent(i32),
    /// To the child.
    Child(Inside),
}

/// A process in new namespaces, with all rights there.
pub struct Inside {
    /// The user and the group of the process, if it is in a user namespace and these are still to be
    /// mapped.
    ids: Option<(u32, u32)>,
}

/// fork(2) into new namespaces, in a user namespace too if there is no other way. This process must
/// have no second thread.
///
/// # Errors
/// As clone(2): the host does not allow it.
pub fn fork() -> io::Result<Fork> {
    let namespaces = EMPTY | libc::CLONE_NEWPID;
    let ids = (geteuid(), getegid());
    let (child, ids) = match fork_into(namespaces) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let child = fork_into(namespaces | libc::CLONE_NEWUSER);
            let hint = "a namespace for the program (see `vink doctor`)";
            (child.map_err(|error| about(hint, &error))?, Some(ids))
        }
        other => (other?, None),
    };
    Ok(match child {
        0 => Fork::Child(Inside { ids }),
        pid => Fork::Parent(pid),
    })
}

impl Inside {
    /// Gives up all rights, for this process and for all that it starts; `hidden` are folders in which
    /// nothing is found then.
    ///
    /// # Errors
    /// What could not be done, and the host's word. The process must end then.
    pub fn confine(self, hidden: &[&Path]) -> io::Result<()> {
        self.give_up(hidden, false)
    }

    /// The same, and no file can be changed by them.
    ///
    /// # Errors
    /// As [`Inside::confine`].
    pub fn confine_to_reading(self, hidden: &[&Path]) -> io::Result<()> {
        self.give_up(hidden, true)
    }

    fn give_up(self, hidden: &[&Path], is_reading: bool) -> io::Result<()> {
        if let Some((user, group)) = self.ids {
            map_ids("self", user, group).map_err(|error| about("the map of its user", &error))?;
        }
        mounts(hidden)?;
        if is_reading {
            set_read_only(c"/").map_err(|error| about("files that are not changed", &error))?;
        }
        capabilities(Rights::None).map_err(|error| about("giving up capabilities", &error))?;
        // Not before: what it tells /proc of itself is root's then. The program is dumpable again.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        refused::apply().map_err(|error| about("the filter of system calls", &error))
    }
}

/// A `/proc` of its own processes, in which nothing can be written: what is there besides is the
/// host's. No file gives rights: one that would could not be executed at all (capabilities(7)).
fn mounts(hidden: &[&Path]) -> io::Result<()> {
    let down_only = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    let private = mount_change(c"/", down_only).map_err(io::Error::from);
    private.map_err(|error| about("making mounts private", &error))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    let proc = mount(c"proc", c"/proc", c"proc", flags, None).map_err(io::Error::from);
    let hint = "a /proc of its own (nothing may be mounted below the host's /proc, unless for root; in Docker, \
                --security-opt systempaths=unconfined)";
    proc.map_err(|error| about(hint, &error))?;
    for folder in hidden.iter().filter(|folder| folder.is_dir()) {
        let to = CString::new(folder.as_os_str().as_bytes())?;
        let done = mount(c"tmpfs", to, c"tmpfs", flags, c"mode=555,size=4k");
        done.map_err(|error| about(&format!("hiding {}", folder.display()), &error.into()))?;
    }
    set_nosuid(c"/").map_err(|error| about("files without rights of their own", &error))
}
