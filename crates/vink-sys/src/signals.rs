//! Signals: what this process does at them, which ones a thread blocks, and their file. All of it is
//! async-signal-safe: system calls without libc, on structures that are numbers.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::ptr::null;

use crate::done;
use crate::process::{gettid, tgkill};

/// A set of signals, as the kernel has it: bit 0 is signal 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SignalSet(u64);

impl SignalSet {
    /// No signal.
    pub const NONE: SignalSet = SignalSet(0);
    /// All but the two by which glibc reaches its threads, as sigfillset(3) has it.
    pub const ALL: SignalSet = SignalSet(!(0b11 << 31));

    /// These signals. A number that is none is left out.
    pub fn of(numbers: impl IntoIterator<Item = i32>) -> SignalSet {
        let bits = numbers.into_iter().map(SignalSet::bit);
        SignalSet(bits.fold(0, |set, bit| set | bit))
    }

    /// Whether a signal is in it.
    pub fn has(self, number: i32) -> bool {
        self.0 & SignalSet::bit(number) != 0
    }

    fn bit(number: i32) -> u64 {
        match number {
            1..=64 => 1 << (number - 1),
            _ => 0,
        }
    }
}

/// What is done to the signals that a thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// These are blocked, too.
    Block = libc::SIG_BLOCK as isize,
    /// These are not.
    Unblock = libc::SIG_UNBLOCK as isize,
    /// These are, and no others.
    Set = libc::SIG_SETMASK as isize,
}

/// Blocks signals, or does not: those that the calling thread blocked before.
pub fn mask(how: Mask, set: SignalSet) -> SignalSet {
    let mut before = SignalSet::NONE;
    // It can't fail.
    let _ = exchange(how as i32, Some(&set), &mut before);
    before
}

/// The signals that are blocked and wait to be delivered.
pub fn pending() -> SignalSet {
    let mut set = SignalSet::NONE;
    // SAFETY: fills the set, which is as large as said.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, size_of_val(&set)) };
    set
}

/// A file that tells of these signals, while they are blocked (signalfd(2)). Reads don't wait, and no
/// executed program inherits it.
///
/// # Errors
/// As signalfd(2).
pub fn file(set: SignalSet) -> io::Result<File> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    let size = size_of_val(&set);
    // SAFETY: reads the set, which is as large as said; makes a descriptor that nothing else owns.
    unsafe {
        let made = libc::syscall(libc::SYS_signalfd4, -1, &raw const set, size, flags);
        done(made).map(|number| File::from_raw_fd(number as i32))
    }
}

/// What this process does at a signal: the kernel's `struct sigaction`. Its handler, if it has one,
/// was this process's for that signal.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: SignalSet,
}

impl Action {
    /// What the signal does by default.
    pub const DEFAULT: Action = Action::without_handler(libc::SIG_DFL);
    /// Nothing.
    pub const IGNORE: Action = Action::without_handler(libc::SIG_IGN);

    const fn without_handler(handler: usize) -> Action {
        Action {
            handler,
            flags: 0,
            restorer: 0,
            mask: SignalSet::NONE,
        }
    }

    /// That of a signal.
    ///
    /// # Errors
    /// As sigaction(2): there is no such signal.
    pub fn of(signal: i32) -> io::Result<Action> {
        let mut action = Action::DEFAULT;
        exchange(signal, None, &mut action).map(|()| action)
    }

    /// Makes it that of a signal: what was before.
    ///
    /// # Errors
    /// As sigaction(2): there is no such signal, or it can't be caught.
    pub fn set(self, signal: i32) -> io::Result<Action> {
        let mut before = Action::DEFAULT;
        exchange(signal, Some(&self), &mut before).map(|()| before)
    }

    /// Whether the signal is ignored.
    pub fn is_ignored(self) -> bool {
        self.handler == libc::SIG_IGN
    }
}

/// Whether this process ignores a signal: nohup(1) and shells start some so.
pub fn is_ignored(signal: i32) -> bool {
    Action::of(signal).is_ok_and(Action::is_ignored)
}

/// Gives signals that this process was started with as ignored their default action, as daemon(7)
/// asks for: a job that a shell has started in the background ignores SIGINT, and so would all that
/// is executed by it. So do those that the C library keeps for itself: posix_spawn(3) of a process
/// that uses them leaves them ignored. SIGPIPE stays ignored.
pub fn default_ignored() {
    for signal in (1..=64).filter(|signal| *signal != libc::SIGPIPE && is_ignored(*signal)) {
        let _ = Action::DEFAULT.set(signal);
    }
}

/// Sends the calling thread a signal, as raise(3).
pub fn raise(signal: i32) {
    let _ = tgkill(std::process::id() as i32, gettid(), signal);
}

/// Ends this process by a signal, whatever it does at it, so that the process that waits for it sees
/// that. Returns if the signal's default action does not end a process.
pub fn die_by(signal: i32) {
    let _ = Action::DEFAULT.set(signal);
    mask(Mask::Unblock, SignalSet::of([signal]));
    raise(signal);
}

/// What the kernel takes and returns alike.
trait Exchanged {
    const CALL: i64;
}

impl Exchanged for Action {
    const CALL: i64 = libc::SYS_rt_sigaction;
}

impl Exchanged for SignalSet {
    const CALL: i64 = libc::SYS_rt_sigprocmask;
}

/// rt_sigaction(2) of this signal, or rt_sigprocmask(2) in this way.
fn exchange<T: Exchanged>(number: i32, new: Option<&T>, old: &mut T) -> io::Result<()> {
    let new = new.map_or(null(), std::ptr::from_ref);
    let set = size_of::<SignalSet>();
    // SAFETY: both calls read one structure, if it is there, and fill the other; sets in them are as
    // large as said. An action that is set is none, or was this process's.
    done(unsafe { libc::syscall(T::CALL, number, new, &raw mut *old, set) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn sets_and_masks() {
        let both = SignalSet::of([libc::SIGUSR1, 64, 0, 65]);
        assert!(both.has(libc::SIGUSR1) && both.has(64) && !both.has(63) && !both.has(65));
        let before = mask(Mask::Block, both);
        assert!(!before.has(64) && mask(Mask::Unblock, SignalSet::of([64])).has(64));
        let mut file = file(both).unwrap();
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        assert_eq!(
            file.read(&mut info).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        raise(libc::SIGUSR1);
        assert_eq!(pending(), SignalSet::of([libc::SIGUSR1]));
        assert_eq!(file.read(&mut info).unwrap(), info.len());
        assert_eq!(
            (info[0].into(), pending()),
            (libc::SIGUSR1, SignalSet::NONE)
        );
        assert_eq!(mask(Mask::Set, before), SignalSet::of([libc::SIGUSR1]));
    }

    #[test]
    fn actions() {
        let before = Action::IGNORE.set(libc::SIGUSR2).unwrap();
        assert!(!before.is_ignored() && is_ignored(libc::SIGUSR2));
        raise(libc::SIGUSR2);
        assert!(before.set(libc::SIGUSR2).unwrap().is_ignored() && !is_ignored(libc::SIGUSR2));
        assert!(Action::DEFAULT.set(libc::SIGKILL).is_err() && Action::of(65).is_err());
        // 32 is glibc's own.
        for ignored in [libc::SIGUSR2, libc::SIGPIPE, 32] {
            Action::IGNORE.set(ignored).unwrap();
        }
        default_ignored();
        assert!(!is_ignored(libc::SIGUSR2) && !is_ignored(32) && is_ignored(libc::SIGPIPE));
        // std's own handler, and its return, work after a round trip.
        let caught = Action::of(libc::SIGSEGV).unwrap();
        caught.set(libc::SIGSEGV).unwrap();
    }
}
