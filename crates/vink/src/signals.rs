//! Signals sent to vink itself, as a descriptor that a worker can attend to.

use std::fs::File;
use std::io::{self, Error, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use vink_sys::process::{foreground, getpgid, kill};
use vink_sys::rustix::process::getpgrp;
use vink_sys::rustix::termios::tcsetpgrp;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    /// From kill(2), not from the terminal. What the terminal sends, the programs in the foreground get
    /// by themselves.
    pub(crate) from_process: bool,
}

/// Catches signals until the process ends; see signalfd(2).
pub(crate) struct Signals(File);

impl Signals {
    /// Catches these, but for those that this process was told to ignore (nohup(1)). Must be called
    /// while there is one thread, since a signal may reach any that does not block it.
    pub(crate) fn catch(numbers: &[i32]) -> io::Result<Signals> {
        // SAFETY: the set and the action are plain data that the calls fill; the descriptor is new and owned once.
        unsafe {
            let mut set = zeroed();
            libc::sigemptyset(&mut set);
            for &number in numbers {
                let mut action: libc::sigaction = zeroed();
                libc::sigaction(number, std::ptr::null(), &mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut set, number);
                }
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(Error::last_os_error()),
                fd => Ok(Signals(File::from_raw_fd(fd))),
            }
        }
    }

    /// The next one that has arrived, if any. Never waits.
    pub(crate) fn next(&self) -> Option<Signal> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let whole = (&self.0).read(&mut info).is_ok_and(|n| n == info.len());
        // `ssi_signo`, and after `ssi_errno` `ssi_code`.
        let field = |at| i32::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
        whole.then_some(Signal {
            number: field(0),
            from_process: field(8) <= 0,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process by a signal that is caught; returns when it is continued.
pub(crate) fn stop_by(number: i32) {
    // SAFETY: a set that is filled before it is used; the signal's action is the default one.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, number);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(number);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// A terminal whose foreground group this process is in, as a shell's job is.
pub(crate) struct Foreground(OwnedFd);

impl Foreground {
    /// `None` if there is no such terminal.
    pub(crate) fn now() -> Option<Foreground> {
        let terminal = OwnedFd::from(std::fs::File::open("/dev/tty").ok()?);
        let is_in = foreground(&terminal) == getpgid(0);
        is_in.then_some(Foreground(terminal))
    }

    /// Takes the terminal back from a group that has ended: bash(1) does not give it back to a group that it can't name,
    /// as that of a process outside of its PID namespace.
    pub(crate) fn take_back(&self) {
        let group = foreground(&self.0);
        if group > 0 && kill(-group, 0).is_err() {
            // This would stop the process (SIGTTOU) if that signal were not caught, and so blocked.
            let _ = tcsetpgrp(&self.0, getpgrp());
        }
    }
}

/// Ends this process by a signal, so that the process that waits for it sees what the program's death was.
/// Returns if that signal does not end a process.
pub(crate) fn die_by(number: i32) {
    // SAFETY: default action, unblocked, for a signal of our own; not dumpable, since a core file of vink
    // says nothing about the program's death.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(number, libc::SIG_DFL);
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, number);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(number);
    }
}
