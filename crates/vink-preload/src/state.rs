//! The process's stack as the interposer sees it: not there yet, there, or left behind by a fork.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vink_inproc::{Outcome, Stack};

use crate::thread::{self, Thread};
use crate::{descriptors, host, signals};

/// How long what a program has sent may take to arrive when it has ended, as `vink run` has it.
const LINGER: Duration = Duration::from_secs(5);

const EINTR: i64 = -(libc::EINTR as i64);
const EIO: i64 = -(libc::EIO as i64);

/// This process is a fork of one that had a stack.
static ORPHAN: AtomicBool = AtomicBool::new(false);
/// The program has had a second thread.
static THREADED: AtomicBool = AtomicBool::new(false);
/// That sockets fail in a fork has been said.
static SAID: AtomicBool = AtomicBool::new(false);

/// The stack for a call that needs one: boots it. `Err`: this process can't have one.
pub(crate) fn stack(thread: &Thread) -> Result<&'static Stack, i64> {
    match Stack::get() {
        Some(stack) => Ok(stack),
        None if ORPHAN.load(Ordering::Relaxed) => Err(refuse()),
        None => Ok(boot(thread)),
    }
}

#[cold]
fn boot(thread: &Thread) -> &'static Stack {
    thread.enter();
    vink_inproc::host::move_by(descriptors::move_up);
    let room = descriptors::make_room();
    let booted = Stack::boot();
    descriptors::keep(room);
    match booted {
        Ok(stack) => {
            leave(thread);
            stack
        }
        Err(error) => error.end_process(),
    }
}

/// The thread has been inside and is the program's again. `None`: no signal came; else whether its handler lets
/// calls begin anew.
#[inline(always)]
pub(crate) fn leave(thread: &Thread) -> Option<bool> {
    match thread.leave() {
        false => None,
        true => Some(left(thread)),
    }
}

#[cold]
fn left(thread: &Thread) -> bool {
    if let (Some(stack), Some(this)) = (Stack::get(), Stack::thread()) {
        stack.forget_interrupt(this);
    }
    signals::deliver(thread)
}

/// Makes a call in the kernel, as often as signals want it.
#[inline]
pub(crate) fn call(thread: &Thread, nr: i64, args: [u64; 6]) -> i64 {
    let Some(stack) = Stack::get() else {
        return refuse();
    };
    loop {
        thread.enter();
        let outcome = stack.call(nr, args);
        let signalled = leave(thread);
        if let Some(result) = result(outcome, signalled) {
            return result;
        }
    }
}

/// The result for the program; `None`: it is to be made again.
#[inline(always)]
fn result(outcome: Outcome, signalled: Option<bool>) -> Option<i64> {
    if outcome.signals != 0 {
        signals::raise(outcome.signals);
    }
    match signalled {
        None if outcome.result == EINTR => None,
        Some(true) if outcome.result == EINTR && outcome.restart => None,
        _ => Some(outcome.result),
    }
}

/// Has the calling thread's wait end, if it is in one. In a signal handler.
pub(crate) fn interrupt() {
    if let (Some(stack), Some(thread)) = (Stack::get(), Stack::thread()) {
        stack.interrupt(thread);
    }
}

/// The process is a new one, made by fork(2).
pub(crate) fn forked() {
    if let Some(stack) = Stack::get() {
        stack.forked_child();
        ORPHAN.store(true, Ordering::Relaxed);
    }
    descriptors::forked();
}

/// Whether the descriptors that the table has are without a kernel.
pub(crate) fn is_orphan() -> bool {
    ORPHAN.load(Ordering::Relaxed)
}

/// The program begins a thread.
pub(crate) fn set_threaded() {
    THREADED.store(true, Ordering::Relaxed);
}

/// Whether other threads may change what this one waits for.
pub(crate) fn is_threaded() -> bool {
    THREADED.load(Ordering::Relaxed)
}

/// A descriptor of the parent's was used, or a socket asked for, in a forked child.
#[cold]
pub(crate) fn refuse() -> i64 {
    if !SAID.swap(true, Ordering::Relaxed) {
        let pid = host::call(libc::SYS_getpid, [0; 6]);
        say(&format!(
            "process {pid} is a fork of a program run with --in-process: the network stack has stayed with its \
             parent, so sockets fail here (EIO). Programs that fork and go on need the other form: vink run, \
             without --in-process"
        ));
    }
    EIO
}

/// The thread ends.
pub(crate) fn thread_ends() {
    let thread = thread::this();
    if let Some(stack) = Stack::get() {
        thread.enter();
        stack.thread_ends();
        // It is not the program's any more: no signal of this thread has a handler to run.
    }
}

/// The process ends.
pub(crate) fn finish() {
    if let Some(stack) = Stack::get() {
        thread::this().enter();
        stack.finish(LINGER);
    }
}

/// Says so on standard error.
pub(crate) fn say(words: &str) {
    let text = format!("vink: {words}\n");
    let args = [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0];
    host::call(libc::SYS_write, args);
}
