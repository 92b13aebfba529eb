//! What a child process does between fork and exec, where only system calls without memory may be
//! made.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null;

use rustix::process::{ioctl_tiocsctty, setpriority_process, setsid};

use crate::fd::{pipe, set_cloexec};
use crate::process::{exit_now, fix_addresses, fork_into, unshare, waitpid};
use crate::ptrace::Request;
use crate::signals::{mask, Action, Mask, SignalSet};
use crate::{done, numbered, NumericCall};

/// One thing that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is a child's child, whose parent ends at once: no process has to wait for it but init.
    Detach,
    /// The program inherits the descriptor of this number.
    Keep(RawFd),
    /// It inherits none but the standard descriptors, and those kept by later steps.
    CloseOthers,
    /// The signal does again what it does by default; an ignored one would stay so.
    DefaultSignal(i32),
    /// No signal is blocked.
    UnblockAll,
    /// It leads a session of its own.
    Session,
    /// Its standard input is its session's terminal.
    Terminal,
    /// It has less or more of the processors; see setpriority(2).
    Nice(i32),
    /// It has new namespaces (`CLONE_NEW*`).
    Unshare(i32),
    /// It has the same addresses each time.
    FixAddresses,
    /// The parent traces it; it stops when it has been executed.
    Trace,
}

/// Has the child of a command do these, in this order. The command fails if one can't be done.
pub fn prepare<const N: usize>(command: &mut Command, steps: [Step; N]) -> &mut Command {
    let all = move || steps.iter().try_for_each(|step| step.take());
    // SAFETY: the steps are system calls, and touch no memory but their own.
    unsafe { command.pre_exec(all) }
}

/// Starts a program in new namespaces (some of `CLONE_NEW*`), in which it does these first: its
/// number. It has no environment.
///
/// # Errors
/// As clone(2), the steps and execve(2).
pub fn spawn_into(
    namespaces: i32,
    program: &CStr,
    arguments: &[&CStr],
    steps: &[Step],
) -> io::Result<i32> {
    let (failure, tells) = pipe()?;
    let argv = arguments.iter().map(|argument| argument.as_ptr());
    let argv: Vec<*const libc::c_char> = argv.chain([null()]).collect();
    let environment: [*const libc::c_char; 1] = [null()];
    let pid = fork_into(namespaces)?;
    if pid == 0 {
        let done = steps.iter().try_for_each(|step| step.take());
        let error = done.err().unwrap_or_else(|| {
            // SAFETY: strings that end with NUL, and lists of such that end with null.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
            io::Error::last_os_error()
        });
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        let _ = rustix::io::write(&tells, &number.to_ne_bytes());
        exit_now(127);
    }
    drop(tells);
    let mut number = [0; 4];
    match std::fs::File::from(failure).read(&mut number) {
        Ok(4) => {
            let _ = waitpid(pid, 0);
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
        }
        _ => Ok(pid),
    }
}

impl Step {
    /// Does it, in a child. Async-signal-safe: rustix makes system calls by itself, and keeps
    /// nothing.
    ///
    /// # Errors
    /// As the system call.
    pub fn take(self) -> io::Result<()> {
        match self {
            // SAFETY: the new process goes on with a copy of this one's memory, and as its only
            // thread. fork(3) would call what libraries have registered.
            Step::Detach => match done(unsafe { libc::syscall(libc::SYS_fork) })? {
                0 => {}
                _ => exit_now(0),
            },
            Step::Keep(number) => set_cloexec(number, false)?,
            Step::CloseOthers => {
                let (last, how) = (u32::MAX.into(), libc::CLOSE_RANGE_CLOEXEC.into());
                NumericCall::CloseRange.make([3, last, how, 0, 0])?;
            }
            Step::DefaultSignal(number) => {
                Action::DEFAULT.set(number)?;
            }
            Step::UnblockAll => {
                mask(Mask::Set, SignalSet::NONE);
            }
            Step::Session => {
                setsid()?;
            }
            Step::Terminal => ioctl_tiocsctty(numbered(0)?)?,
            Step::Nice(nice) => setpriority_process(None, nice)?,
            Step::Unshare(namespaces) => unshare(namespaces)?,
            Step::FixAddresses => fix_addresses()?,
            Step::Trace => Request::TraceMe.make(0)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn children_do_their_steps() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        let mut command = Command::new("sh");
        let steps = [
            Step::Keep(number),
            Step::UnblockAll,
            Step::Session,
            Step::Nice(5),
        ];
        prepare(&mut command, steps)
            .args(["-c", "echo $$; cat /proc/self/stat; nice; ls /proc/self/fd"]);
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        let stat = crate::procfs::StatFields::parse(lines[1]).unwrap();
        assert_eq!(stat.get(6), lines[0].parse::<i32>().ok());
        assert_eq!(lines[2], "5");
        assert!(lines[3..].contains(&number.to_string().as_str()));
        let refused = prepare(&mut Command::new("true"), [Step::Keep(-1)]).status();
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
