//! Runs a program to its end, as another user or in an empty network if need be.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// The user that runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user that runs the test.
    Same,
    /// The user `nobody`, without any privilege. Only root can become it.
    Nobody,
}

/// The network a program runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The test's own.
    Same,
    /// A new network namespace with its loopback interface down, over which the program has all
    /// capabilities; for others than root in a new user namespace.
    Empty,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status; 128 and the signal if it was killed, as in the shell.
    pub status: i32,
    /// What it wrote to standard output,
    pub output: String,
    /// and to standard error.
    pub errors: String,
}

/// More than any test program takes, even on a busy machine: this only ends what hangs.
const EXIT_TIMEOUT_MS: i32 = 120_000;

/// Debian's number for nobody and for nogroup.
const NOBODY: u32 = 65534;

/// Runs the program until it ends, with its output in files named after `record`. What hangs is
/// killed after two minutes.
///
/// # Errors
/// The program can't be started, or didn't end ([`io::ErrorKind::TimedOut`]).
pub fn run(mut command: Command, user: User, network: Network, record: &Path) -> io::Result<Ended> {
    let out = record.with_extension("out");
    let err = record.with_extension("err");
    command
        .stdin(std::process::Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?);
    // SAFETY: `prepare` makes system calls only, on memory made before the fork.
    unsafe {
        command.pre_exec(move || prepare(user, network));
    }
    let mut child = command.spawn()?;
    // SAFETY: a plain system call; the result is a new descriptor or an error.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if pidfd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned here alone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as i32) };
    let mut end = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    let ended = unsafe { libc::poll(&raw mut end, 1, EXIT_TIMEOUT_MS) } == 1;
    if !ended {
        child.kill()?;
    }
    let status = child.wait()?;
    let text = |path| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
    let (output, errors) = (text(&out)?, text(&err)?);
    if !ended {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("still running after {EXIT_TIMEOUT_MS} ms; so far:\n{output}{errors}"),
        ));
    }
    Ok(Ended {
        status: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        output,
        errors,
    })
}

/// Becomes the user and enters the network; between fork(2) and execve(2).
fn prepare(user: User, network: Network) -> io::Result<()> {
    let check = |result: i32| match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: system calls that concern this process only, with valid arguments.
    unsafe {
        if user == User::Nobody {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
            check(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
            // A process that changes its user loses its own /proc/self, where the maps below are.
            check(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0))?;
        }
        // After the change of user, which clears it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        if network == Network::Empty {
            if libc::geteuid() == 0 {
                check(libc::unshare(libc::CLONE_NEWNET))?;
            } else {
                let (uid, gid) = (libc::geteuid(), libc::getegid());
                check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET))?;
                write(c"/proc/self/setgroups", "deny", None)?;
                write(c"/proc/self/uid_map", "0 ", Some(uid))?;
                write(c"/proc/self/gid_map", "0 ", Some(gid))?;
            }
        }
    }
    Ok(())
}

/// Writes `text`, and `id` with a length of 1 behind it, without allocating.
fn write(path: &std::ffi::CStr, text: &str, id: Option<u32>) -> io::Result<()> {
    use io::Write;

    let mut line = [0u8; 32];
    let mut rest = &mut line[..];
    match id {
        Some(id) => write!(rest, "{text}{id} 1")?,
        None => write!(rest, "{text}")?,
    }
    let len = 32 - rest.len();
    // SAFETY: a valid path; the descriptor is closed by `file`.
    let mut file = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(&line[..len])
}
