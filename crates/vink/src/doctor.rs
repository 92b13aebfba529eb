//! `vink doctor`: tries each of the host's features that Vink uses, and says what to do about a missing one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, Read, Write};
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use vink_kernel::{find_image, Image};
use vink_lab::loader::SHARED_CALLS;
use vink_sys::maps::MapsLine;
use vink_sys::memory;
use vink_sys::pidfd;
use vink_sys::process::{exit_now, is_root, unshare, waitpid};
use vink_sys::procfs::{kernel_release, kernel_version};
use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::write;
use vink_sys::rustix::mount::{mount, mount_change, MountFlags, MountPropagationFlags};
use vink_sys::rustix::net::netlink::NETFILTER;
use vink_sys::rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};
use vink_sys::rustix::process::{getgid, getuid};
use vink_sys::rustix::thread::{capabilities, CapabilitySet};

use crate::cli_error::CliError;
use crate::print::say;

/// Debian's package of the tree that `make stack` builds.
const KERNEL_SOURCE: &str = "/usr/src/linux-source-6.12.tar.xz";

/// One feature, looked at.
struct Check {
    name: &'static str,
    needed_for: &'static str,
    /// Without it `vink run` does not work.
    required: bool,
    /// What was seen, or what is wrong.
    found: Result<String, String>,
    remedy: &'static str,
}

/// Prints every check. Exit status 1 if one fails that `vink run` needs.
pub(crate) fn print() -> Result<ExitCode, CliError> {
    let checks = checks();
    for check in &checks {
        let (mark, seen) = match (&check.found, check.required) {
            (Ok(seen), _) => ("ok", seen),
            (Err(seen), true) => ("FAILED", seen),
            (Err(seen), false) => ("absent", seen),
        };
        say!("{mark:<7} {}: {seen}", check.name)?;
        say!("        for {}", check.needed_for)?;
        if check.found.is_err() {
            say!("        to get it: {}", check.remedy)?;
        }
    }
    let failed = checks
        .iter()
        .filter(|c| c.required && c.found.is_err())
        .count();
    if failed > 0 {
        say!("vink run does not work here: {failed} of what it needs is missing")?;
        return Ok(ExitCode::from(1));
    }
    say!("vink run works here")?;
    Ok(ExitCode::SUCCESS)
}

fn checks() -> Vec<Check> {
    vec![
        Check {
            name: "image",
            needed_for: "everything: it is the network stack",
            required: true,
            found: image(),
            remedy: "make stack, or VINK_IMAGE=PATH",
        },
        Check {
            name: "seccomp user notification",
            needed_for: "vink run: catches the program's system calls",
            required: true,
            found: seccomp(),
            remedy: "Linux 5.19 or later with CONFIG_SECCOMP_FILTER; in a container, one whose profile allows seccomp(2)",
        },
        Check {
            name: "namespaces",
            needed_for: "vink run: a program sits in an empty network, so that a call that is not caught finds nothing; \
                         sees no process of the host (PID and user namespaces); has the machine's name and files \
                         (UTS and mount namespaces)",
            required: true,
            found: namespaces(),
            remedy: "sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1 or \
                     kernel.apparmor_restrict_unprivileged_userns=0; or run as root; nothing may be mounted below /proc: \
                     in a container, --security-opt systempaths=unconfined",
        },
        Check {
            name: "process_vm_readv, process_vm_writev",
            needed_for: "vink run: the kernel's copies from and to the program's memory",
            required: true,
            found: child_memory(),
            remedy: "CONFIG_CROSS_MEMORY_ATTACH; sysctl kernel.yama.ptrace_scope of 0 or 1; \
                     in a container, --cap-add SYS_PTRACE",
        },
        Check {
            name: "pidfd_getfd",
            needed_for: "vink run: takes over the program's descriptors",
            required: true,
            found: child_descriptor(),
            remedy: "Linux 5.6 or later; sysctl kernel.yama.ptrace_scope of 0 or 1",
        },
        Check {
            name: "shared calls",
            needed_for: "--calls auto and shared: a program that calls often posts its calls in shared memory",
            required: false,
            found: shared_calls(),
            remedy: "a second processor (taskset, cgroups, virtual machine); cargo build -p vink-quick, or make install",
        },
        Check {
            name: "gdb",
            needed_for: "breakpoints in the stack",
            required: false,
            found: program("gdb"),
            remedy: "apt-get install gdb",
        },
        Check {
            name: "kernel source",
            needed_for: "make stack: the tree that the image is built from",
            required: false,
            found: exists(KERNEL_SOURCE),
            remedy: "apt-get install linux-source-6.12, or make stack LINUX=/path/to/a/tree",
        },
        Check {
            name: "passt",
            needed_for: "the way out of machines, which vink run gives them unless told --uplink none",
            required: false,
            found: program("passt"),
            remedy: "apt-get install passt",
        },
        Check {
            name: "/dev/net/tun",
            needed_for: "uplinks by a TAP device of the host: tap:NAME",
            required: false,
            found: tun(),
            remedy: "modprobe tun; root, or a rule that lets you open it",
        },
        Check {
            name: "host's address",
            needed_for: "uplinks by the host's own address, beside its stack: share:80",
            required: false,
            found: share(),
            remedy: "root, or CAP_NET_ADMIN and CAP_NET_RAW; Linux 5.12 or later with nf_tables (modprobe nf_tables); \
                     passt needs neither",
        },
        Check {
            name: "process wall",
            needed_for: "pods in shared objects: each has a process that can compute, and nothing else",
            required: false,
            found: vink_pod::process::probe().map(|report| report.join("; ")),
            remedy: "what seccomp and namespaces need, above; cargo build -p vink-pod, or make install",
        },
        Check {
            name: "wasm wall",
            needed_for: "pods in WebAssembly modules, in virtual time with budgets of cycles",
            required: false,
            found: wasm_wall(),
            remedy: "a Vink that was built with it",
        },
        Check {
            name: "key wall",
            needed_for: "pods in the worker's memory with rights of their own, by the processor's protection keys: wall: key",
            required: false,
            found: vink_pod::key::probe(),
            remedy: "the process wall takes the same pods; keys: a processor with PKU (Intel since 2017, AMD since 2020), let \
                     through by the hypervisor, and Linux 6.12 or later",
        },
    ]
}

fn image() -> Result<String, String> {
    let path = find_image().map_err(|e| e.to_string())?;
    let image = Image::open(&path).map_err(|e| e.to_string())?;
    Ok(format!("{} (Linux {})", path.display(), image.release()))
}

/// Whether the filter's action and the listener's flags are known. A flag that is not known is refused
/// with `EINVAL` before the filter's address, null here, is looked at (`EFAULT`).
fn seccomp() -> Result<String, String> {
    // SAFETY: the kernel reads an action's four bytes, and refuses a filter that is null; nothing is changed.
    let ask = |what: libc::c_uint, flags: libc::c_ulong, about: *const u32| unsafe {
        libc::syscall(libc::SYS_seccomp, what, flags, about)
    };
    let action = libc::SECCOMP_RET_USER_NOTIF;
    if ask(libc::SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0 {
        return Err(format!(
            "the action is not there: {}",
            Error::last_os_error()
        ));
    }
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    ask(libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::null());
    match Error::last_os_error().raw_os_error() {
        Some(libc::EFAULT) => Ok("with SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV".to_owned()),
        _ => Err("there, but without SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV".to_owned()),
    }
}

/// Makes what a program gets: mount and PID namespaces with a `/proc`, within a user namespace unless one is root; and
/// within another one network, UTS and mount namespaces.
fn namespaces() -> Result<String, String> {
    let root = is_root();
    let own = |id: u32| format!("{id} {id} 1");
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", own(getuid().as_raw())),
        (c"/proc/self/gid_map", own(getgid().as_raw())),
    ];
    let make = move || {
        // One after the other: where only the use of the new capabilities is restricted, the second fails.
        const ABOVE: i32 = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
        const SPACES: i32 = libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWNS;
        if !root {
            unshare(libc::CLONE_NEWUSER)?;
            // A user that has no number in a user namespace can't make another one in it.
            for (path, map) in &maps {
                let file = open(*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                write(file, map.as_bytes())?;
            }
        }
        unshare(ABOVE)?;
        proc_can_be_mounted()?;
        unshare(libc::CLONE_NEWUSER)?;
        unshare(SPACES)
    };
    let mut command = Command::new("/proc/self/exe");
    command.arg("--version").stdout(Stdio::null());
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    let command = unsafe { command.pre_exec(make) };
    match command.status() {
        Ok(_) if root => Ok("as root".to_owned()),
        Ok(_) => Ok("within a user namespace, without root".to_owned()),
        Err(e) => Err(format!("unshare, or mounting a /proc: {e}")),
    }
}

/// Mounts a `/proc` of a new PID namespace, as a first process there, which ends. Async-signal-safe: rustix makes system
/// calls by itself.
fn proc_can_be_mounted() -> io::Result<()> {
    let mount_there = || -> io::Result<()> {
        unshare(libc::CLONE_NEWNS)?;
        mount_change(
            c"/",
            MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM,
        )?;
        Ok(mount(
            c"proc",
            c"/proc",
            c"proc",
            MountFlags::empty(),
            None,
        )?)
    };
    // SAFETY: the child makes system calls only, in a mount namespace of its own.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => exit_now(match mount_there() {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }),
        pid => match libc::WEXITSTATUS(waitpid(pid, 0)?.1) {
            0 => Ok(()),
            errno => Err(Error::from_raw_os_error(errno)),
        },
    }
}

/// A child that waits for its standard input, until dropped.
struct Waiting(Child);

impl Waiting {
    fn start() -> io::Result<Waiting> {
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = Waiting(child?);
        // Until it has run, its stack is not yet where it will be: execve(2) moves it.
        let Child { stdin, stdout, .. } = &mut child.0;
        stdin.as_mut().expect("piped").write_all(b"x")?;
        stdout.as_mut().expect("piped").read_exact(&mut [0])?;
        Ok(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended by itself; wait() reports nothing that matters then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads and writes back one byte of a child's stack.
fn child_memory() -> Result<String, String> {
    let child = Waiting::start().map_err(|e| format!("starting cat: {e}"))?;
    let pid = child.0.id() as i32;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(|e| format!("/proc/{pid}/maps: {e}"))?;
    let stack = maps
        .lines()
        .filter_map(MapsLine::of)
        .find(|line| line.name == "[stack]")
        .ok_or("the child has no stack")?;
    let last = stack.range.end - 1;

    let mut byte = 0u8;
    if !memory::read(pid, last, std::slice::from_mut(&mut byte)) {
        return Err(format!(
            "reading a child's memory: {}",
            Error::last_os_error()
        ));
    }
    // What was read is put back.
    if !memory::write(pid, last, &[byte]) {
        return Err(format!(
            "writing a child's memory: {}",
            Error::last_os_error()
        ));
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    Ok(scope.map_or("of a child".to_owned(), |scope| {
        format!("of a child (Yama's ptrace_scope is {})", scope.trim())
    }))
}

/// Takes a child's standard input.
fn child_descriptor() -> Result<String, String> {
    let child = Waiting::start().map_err(|e| format!("starting cat: {e}"))?;
    let pidfd = pidfd::open(child.0.id() as i32).map_err(|e| format!("pidfd_open: {e}"))?;
    pidfd::copy_fd(&pidfd, 0).map_err(|e| format!("pidfd_getfd: {e}"))?;
    Ok("of a child".to_owned())
}

/// What the shared form of calls needs: a processor for the stack, one for programs, and the library.
fn shared_calls() -> Result<String, String> {
    let library = SHARED_CALLS.find()?;
    match std::thread::available_parallelism().map(NonZero::get) {
        Ok(count @ 2..) => Ok(format!("{count} processors, {}", library.display())),
        Ok(_) => Err("there is one processor only: calls are trapped".to_owned()),
        Err(error) => Err(format!("counting processors: {error}")),
    }
}

fn program(name: &str) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file());
    file.map(|file| file.display().to_string())
        .ok_or("not in PATH".to_owned())
}

fn exists(path: &str) -> Result<String, String> {
    match Path::new(path).exists() {
        true => Ok(path.to_owned()),
        false => Err(format!("{path} is not there")),
    }
}

fn tun() -> Result<String, String> {
    let opened: io::Result<File> = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    opened
        .map(|_| "can be opened".to_owned())
        .map_err(|e| e.to_string())
}

/// Whether raw sockets can be opened, and the host's nf_tables be changed by a table with an owner. No
/// rule is made.
fn share() -> Result<String, String> {
    let has = capabilities(None).map_err(|error| format!("capget: {error}"))?;
    let missing = (CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW) - has.effective;
    if !missing.is_empty() {
        let names = missing.iter_names().map(|(name, _)| format!("CAP_{name}"));
        let names: Vec<_> = names.collect();
        return Err(format!("this process has no {}", names.join(" and no ")));
    }
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    socket_with(family, SocketType::RAW, flags, Some(NETFILTER))
        .map_err(|error| format!("a socket of nfnetlink: {error}"))?;
    let release = kernel_release().map_err(|error| error.to_string())?;
    match kernel_version(&release) >= (Some(5), Some(12)) {
        true => Ok(format!("the rights are there, nfnetlink, Linux {release}")),
        false => Err(format!("Linux {release} is older than 5.12")),
    }
}

/// It needs nothing of the host.
fn wasm_wall() -> Result<String, String> {
    let no_module = Path::new("/dev/null");
    let loaded = vink_pod::load(&vink_pod::Source {
        file: no_module,
        config: b"",
        limits: vink_pod::Limits::default(),
        wall: Some(vink_pod::Wall::Wasm),
        now: 0,
        repeats: false,
    });
    match loaded {
        Err(vink_pod::LoadError::Host { why, .. }) => Err(why),
        _ => Ok("modules are compiled when they are loaded".to_owned()),
    }
}
