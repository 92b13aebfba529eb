//! Signals sent to vink itself, as a descriptor that a worker can attend to.

use std::io::{self, Error};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    /// From kill(2), not from the terminal. What the terminal sends, the programs in the foreground get
    /// by themselves.
    pub(crate) from_process: bool,
}

/// Catches signals until the process ends; see signalfd(2).
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Catches these, but for those that this process was told to ignore (nohup(1)). Must be called
    /// while there is one thread, since a signal may reach any that does not block it.
    pub(crate) fn catch(numbers: &[i32]) -> io::Result<Signals> {
        // SAFETY: the set and the action are plain data that the calls fill; nothing else is touched.
        let fd = unsafe {
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
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: it was just opened, and nobody else has it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next one that has arrived, if any. Never waits.
    pub(crate) fn next(&self) -> Option<Signal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        // SAFETY: plain data, for which zeros are valid.
        let mut info: libc::signalfd_siginfo = unsafe { zeroed() };
        // SAFETY: the buffer is as large as said.
        let n = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), SIZE) };
        (n == SIZE as isize).then_some(Signal {
            number: info.ssi_signo as i32,
            from_process: info.ssi_code <= 0,
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

/// Ends this process by a signal, so that whoever waits for it sees what the program's death was.
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
