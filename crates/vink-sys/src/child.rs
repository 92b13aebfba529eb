//! What a child process does between fork and exec, where only system calls without memory may be
//! made.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// One thing that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The program inherits the descriptor of this number.
    Keep(RawFd),
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
}

/// Has the child of a command do these, in this order. The command fails if one can't be done.
pub fn prepare<const N: usize>(command: &mut Command, steps: [Step; N]) -> &mut Command {
    let all = move || steps.iter().try_for_each(|step| step.take());
    // SAFETY: the steps are system calls, and touch no memory but their own.
    unsafe { command.pre_exec(all) }
}

impl Step {
    fn take(self) -> io::Result<()> {
        // SAFETY: calls that are async-signal-safe and concern the calling process alone; the set is
        // plain data.
        let done = unsafe {
            match self {
                Step::Keep(number) => libc::fcntl(number, libc::F_SETFD, 0),
                Step::DefaultSignal(number) => match libc::signal(number, libc::SIG_DFL) {
                    libc::SIG_ERR => -1,
                    _ => 0,
                },
                Step::UnblockAll => {
                    let mut none = std::mem::zeroed();
                    libc::sigemptyset(&mut none);
                    libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
                }
                Step::Session => libc::setsid(),
                Step::Terminal => libc::ioctl(0, libc::TIOCSCTTY, 0),
                Step::Nice(nice) => libc::setpriority(libc::PRIO_PROCESS, 0, nice),
                Step::Unshare(spaces) => libc::unshare(spaces),
            }
        };
        crate::done(done.into()).map(|_| ())
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
