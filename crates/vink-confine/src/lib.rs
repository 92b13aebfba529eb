//! A process gives up what it has no more use for, once it has opened what it needs.
//!
//! Then it has no capability and can get none, sees an empty network and of the file system a few
//! folders, can be read by no other process, and makes the system calls that it is for and no
//! others: it is ended by any other one. An attacker that takes over such a process (by a packet, a
//! guest's descriptor) has what it had open, and that is all.
//!
//! One that reserves ports of the host's keeps the right to that ([`confine_port_server`]).
//!
//! Code that only computes keeps less ([`confine_code`]): memory, and files to be loaded from.
//!
//! For a program that is not trusted, and may be any, it is done from outside of it ([`fork`]): that
//! keeps files, processes of its own, and all system calls but some.
//!
//! Walls stand behind each other. Namespaces and Landlock are there where the host has them; without
//! the capabilities' end or the filter nothing goes on.

mod bpf;
mod code;
mod filter;
mod folders;
mod program;
mod refused;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, ABI,
};
use vink_sys::process::{getegid, geteuid, unshare};
use vink_sys::rustix::process::{
    set_dumpable_behavior, set_parent_process_death_signal, DumpableBehavior, Signal,
};
use vink_sys::rustix::thread::{
    capabilities as capabilities_of, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, CapabilitySet,
    CapabilitySets,
};

pub use program::{fork, Fork, Inside};

/// What stays.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// Folders in which sockets may still be made, met at and removed. Their paths are absolute,
    /// and have no symbolic links.
    pub folders: Vec<PathBuf>,
    /// Files, and folders with all that is in them, that may be read.
    pub readable: Vec<PathBuf>,
}

/// What was given up, and what the host did not let it give up, a line each.
pub type Report = Vec<String>;

/// Gives up everything but that. This process must have no second thread.
///
/// # Errors
/// The capabilities can't be given up, or the filter of system calls can't be put in place: what,
/// and the host's word. The process must end then.
pub fn confine(keep: &Keep) -> io::Result<Report> {
    let mut report = give_up(keep, Rights::None)?;
    let allowed = filter::apply();
    let allowed = allowed.map_err(|error| about(FILTER, &error))?;
    report.push(format!(
        "system calls: {allowed} of them, any other one ends it"
    ));
    Ok(report)
}

/// Gives up everything but that and memory, for code that may be hostile: the listener
/// ([`vink_sys::seccomp::Listener`]) is for the process at the other end of `socket`, with which this
/// one ends. That decides about every system call which is not about memory. This process must have no
/// second thread.
///
/// # Errors
/// As [`confine`].
pub fn confine_code(keep: &Keep, socket: BorrowedFd<'_>) -> io::Result<(Report, OwnedFd)> {
    let mut report = give_up(keep, Rights::None)?;
    // Not before: a change of rights takes it off.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = code::apply(socket.as_raw_fd()).map_err(|error| about(FILTER, &error))?;
    report.push("system calls: those for memory, any other one ends it".to_owned());
    Ok((report, listener))
}

/// Gives up everything but the network, and there but the right to reserve ports and to change rules:
/// `CAP_NET_ADMIN`, and `CAP_NET_BIND_SERVICE` if this process has it. This process must have no second
/// thread.
///
/// # Errors
/// As [`confine`].
pub fn confine_port_server() -> io::Result<Report> {
    let mut report = give_up(&Keep::default(), Rights::Ports)?;
    let allowed = filter::apply_of_ports().map_err(|error| about(FILTER, &error))?;
    report.push(format!(
        "system calls: {allowed} of them, any other one ends it"
    ));
    Ok(report)
}

/// Of its rights, what a process keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    None,
    /// To ports of the host's network, and to its rules.
    Ports,
}

impl Rights {
    fn namespaces(self) -> i32 {
        match self {
            Rights::None => EMPTY,
            Rights::Ports => EMPTY_BUT_NETWORK,
        }
    }

    fn capabilities(self) -> CapabilitySet {
        match self {
            Rights::None => CapabilitySet::empty(),
            Rights::Ports => CapabilitySet::NET_ADMIN | CapabilitySet::NET_BIND_SERVICE,
        }
    }
}

const FILTER: &str = "the filter of system calls";

/// What is given up before the filter.
fn give_up(keep: &Keep, rights: Rights) -> io::Result<Report> {
    let mut report = Report::new();
    report.push(namespaces(keep, rights));
    let kept = capabilities(rights).map_err(|error| about("giving up capabilities", &error))?;
    report.push(match kept.is_empty() {
        true => "capabilities: none, and none can be had".to_owned(),
        false => format!("capabilities: {kept:?}, and no others can be had"),
    });
    // Not before: what it tells /proc of itself is root's then.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    report.push("memory: no other process of this user may read it".to_owned());
    // After the namespaces: it forbids mounts.
    report.push(landlock(keep, rights));
    Ok(report)
}

fn about(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

const EMPTY: i32 = libc::CLONE_NEWNET | EMPTY_BUT_NETWORK;
const EMPTY_BUT_NETWORK: i32 = libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWNS;

/// An empty network, no shared memory of others, and a file system of the folders alone.
fn namespaces(keep: &Keep, rights: Rights) -> String {
    let network = match rights {
        Rights::None => "an empty network",
        Rights::Ports => "the host's network",
    };
    let entered = match (rights, unshare(rights.namespaces())) {
        // In a user namespace it would have no rights to the network.
        (Rights::Ports, entered) => entered,
        (Rights::None, Err(error)) if error.raw_os_error() == Some(libc::EPERM) => user_namespace(),
        (Rights::None, other) => other,
    };
    let done = entered.and_then(|()| folders::only(&keep.folders, &keep.readable));
    match done {
        Ok(()) => format!(
            "namespaces: {network}, and of the files only {}",
            names(keep)
        ),
        Err(error) => format!("namespaces: the host does not allow them: {error}"),
    }
}

fn names(keep: &Keep) -> String {
    let names: Vec<_> = keep
        .folders
        .iter()
        .chain(&keep.readable)
        .map(|folder| folder.display().to_string())
        .collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// By a user namespace, in which the process keeps its user and group ids.
fn user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(EMPTY | libc::CLONE_NEWUSER)?;
    map_ids("self", user, group)
}

/// These are in a process's new user namespace what they were before. `process` is its folder's name in
/// `/proc`: a number, or `self`.
///
/// # Errors
/// As write(2) of the maps (user_namespaces(7)).
pub fn map_ids(process: &str, user: u32, group: u32) -> io::Result<()> {
    for (file, line) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(format!("/proc/{process}/{file}"), line)?;
    }
    Ok(())
}

/// Which are left.
fn capabilities(rights: Rights) -> io::Result<CapabilitySet> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        // One that the host does not know is an error.
        if capability_is_in_bounding_set(one).unwrap_or(false) {
            match remove_capability_from_bounding_set(one) {
                // A user without capabilities can't take any off, and with no_new_privs gets none.
                Err(error) if error.raw_os_error() != libc::EPERM => return Err(error.into()),
                _ => {}
            }
        }
    }
    let kept = match rights {
        Rights::None => CapabilitySet::empty(),
        Rights::Ports => capabilities_of(None)?.permitted & rights.capabilities(),
    };
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)?;
    Ok(kept)
}

/// Files, TCP ports, signals and abstract sockets by Landlock, as far as the host has it.
fn landlock(keep: &Keep, rights: Rights) -> String {
    let sockets = AccessFs::MakeSock | AccessFs::RemoveFile | AccessFs::ReadDir;
    let restrict = || {
        let abi = ABI::V6;
        let ports = match rights {
            Rights::None => AccessNet::from_all(abi),
            Rights::Ports => AccessNet::ConnectTcp.into(),
        };
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(ports)?
            .scope(Scope::from_all(abi))?
            .create()?;
        for folder in &keep.folders {
            let Ok(folder) = PathFd::new(folder) else {
                continue;
            };
            rules = rules.add_rule(PathBeneath::new(folder, sockets))?;
        }
        for path in &keep.readable {
            let Ok(opened) = PathFd::new(path) else {
                continue;
            };
            let access = match path.is_dir() {
                true => AccessFs::ReadFile | AccessFs::ReadDir,
                false => AccessFs::ReadFile.into(),
            };
            rules = rules.add_rule(PathBeneath::new(opened, access))?;
        }
        rules.restrict_self()
    };
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => "Landlock: files, ports, signals".to_owned(),
        Ok(RulesetStatus::PartiallyEnforced) => {
            "Landlock: what this host's version has of files, ports, signals".to_owned()
        }
        Ok(RulesetStatus::NotEnforced) => "Landlock: this host has none".to_owned(),
        Err(error) => format!("Landlock: {error}"),
    }
}
