//! Signals sent to vink itself, as a descriptor that a worker can attend to.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vink_sys::process::{foreground, getpgid, kill};
use vink_sys::rustix::process::{getpgrp, set_dumpable_behavior, DumpableBehavior};
use vink_sys::rustix::termios::tcsetpgrp;
use vink_sys::signals::{self, is_ignored, mask, raise, Mask, SignalSet};

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
        let mut caught = numbers.to_vec();
        caught.retain(|number| !is_ignored(*number));
        let set = SignalSet::of(caught);
        mask(Mask::Block, set);
        signals::file(set).map(Signals)
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
    let set = SignalSet::of([number]);
    mask(Mask::Unblock, set);
    raise(number);
    mask(Mask::Block, set);
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
    // A core file of vink says nothing about the program's death.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    signals::die_by(number);
}
