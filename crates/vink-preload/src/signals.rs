//! Signals: a handler of the program's never runs while its thread is inside the library.
//!
//! The host has [`on_signal`] in place of each handler. It runs the program's own at once, unless the thread
//! is inside: then it keeps the signal, blocks all others until the thread leaves, and interrupts the call that the
//! thread may wait in. On leaving, the thread sends itself the same signal, with the same information, and
//! takes back the mask, whereupon the host delivers it. Whether the call that was interrupted is made
//! again is `SA_RESTART`'s to say, as ever.
//!
//! Never blocked are `SIGSYS`, by which system calls are dispatched, and `SIGSEGV` and `SIGBUS`, by which the kernel
//! finds bad addresses. Of these three and of `SIGILL` and `SIGFPE` the host always has a handler; what the program has
//! asked for holds for what is not the kernel's.

use std::mem::{replace, transmute};
use std::ptr::null_mut;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU64, Ordering};

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use vink_inproc::watchdog;

use crate::host;
use crate::state;
use crate::thread::{self, Thread};

const SIGNALS: usize = 64;
/// From the processor, and perhaps the kernel's own.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// Of the kernel's interface; the C library keeps it to itself.
const SA_RESTORER: u64 = 0x0400_0000;
const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that can't be blocked.
const OPEN: u64 = bit(libc::SIGSYS) | bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelAction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

/// What the program has asked for.
struct Action {
    /// Since when it is known here; before, the host knows.
    known: AtomicBool,
    handler: AtomicU64,
    flags: AtomicU64,
    restorer: AtomicU64,
    mask: AtomicU64,
}

static ACTIONS: [Action; SIGNALS + 1] = [const {
    Action {
        known: AtomicBool::new(false),
        handler: AtomicU64::new(0),
        flags: AtomicU64::new(0),
        restorer: AtomicU64::new(0),
        mask: AtomicU64::new(0),
    }
}; SIGNALS + 1];

impl Action {
    fn get(&self) -> KernelAction {
        KernelAction {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: self.restorer.load(Ordering::Relaxed),
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    fn set(&self, action: KernelAction) {
        self.flags.store(action.flags, Ordering::Relaxed);
        self.restorer.store(action.restorer, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Relaxed);
        self.known.store(true, Ordering::Release);
    }
}

/// rt_sigaction(2) of the host.
fn host_action(signal: c_int, new: Option<&KernelAction>, old: Option<&mut KernelAction>) -> i64 {
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as u64);
    let old = old.map_or(0, |old| std::ptr::from_mut(old) as u64);
    host::call(libc::SYS_rt_sigaction, [signal as u64, new, old, 8, 0, 0])
}

/// rt_sigprocmask(2) of the host.
fn host_mask(how: c_int, new: Option<u64>) -> u64 {
    let mut old = 0u64;
    let new = new.as_ref().map_or(0, |new| std::ptr::from_ref(new) as u64);
    let old_at = (&raw mut old) as u64;
    host::call(libc::SYS_rt_sigprocmask, [how as u64, new, old_at, 8, 0, 0]);
    old
}

/// Our handler for a signal, with what else the program has asked for.
fn wrapped(wanted: KernelAction) -> KernelAction {
    // That a handler is for once only is seen to when it really runs.
    let flags = wanted.flags & !(libc::SA_RESETHAND as u64);
    KernelAction {
        handler: on_signal as *const () as u64,
        flags: flags | libc::SA_SIGINFO as u64 | SA_RESTORER,
        restorer: host::restorer(),
        mask: wanted.mask & !OPEN,
    }
}

/// Takes over the signals that come from the processor, and gives system calls this handler.
pub(crate) fn begin(dispatched: extern "C" fn(c_int, *mut siginfo_t, *mut c_void)) {
    for signal in FAULTS {
        learn(signal);
        let action = wrapped(KernelAction::default());
        host_action(signal, Some(&action), None);
    }
    learn(libc::SIGSYS);
    let action = KernelAction {
        handler: dispatched as *const () as u64,
        flags: libc::SA_SIGINFO as u64 | libc::SA_NODEFER as u64 | SA_RESTORER,
        restorer: host::restorer(),
        mask: 0,
    };
    host_action(libc::SIGSYS, Some(&action), None);
    host_mask(libc::SIG_UNBLOCK, Some(OPEN));
}

/// Asks the host what holds for a signal that the program has not changed since.
fn learn(signal: c_int) {
    let mut action = KernelAction::default();
    if host_action(signal, None, Some(&mut action)) == 0 {
        ACTIONS[signal as usize].set(action);
    }
}

fn is_ours(signal: c_int) -> bool {
    signal == libc::SIGSYS || FAULTS.contains(&signal)
}

/// rt_sigaction(2).
pub(crate) fn action(args: [u64; 6]) -> i64 {
    let [number, new_at, old_at, size, ..] = args;
    let signal = number as c_int;
    let changeable = signal != libc::SIGKILL && signal != libc::SIGSTOP;
    if size != 8 || signal < 1 || signal as usize > SIGNALS || (new_at != 0 && !changeable) {
        return EINVAL;
    }
    let known = &ACTIONS[signal as usize];
    if !known.known.load(Ordering::Acquire) {
        learn(signal);
    }
    let old = known.get();
    let mut new = [KernelAction::default()];
    if new_at != 0 {
        if !host::read(&mut new, new_at) {
            return EFAULT;
        }
        let [new] = new;
        known.set(new);
        if !is_ours(signal) {
            let has_handler = !matches!(new.handler as usize, libc::SIG_DFL | libc::SIG_IGN);
            let host = if has_handler { wrapped(new) } else { new };
            host_action(signal, Some(&host), None);
        }
    }
    match old_at == 0 || host::write(old_at, &[old]) {
        true => 0,
        false => EFAULT,
    }
}

/// rt_sigprocmask(2).
pub(crate) fn mask(mut args: [u64; 6]) -> i64 {
    let mut new = [0u64];
    if args[1] != 0 {
        if !host::read(&mut new, args[1]) {
            return EFAULT;
        }
        if args[0] as c_int != libc::SIG_UNBLOCK {
            new[0] &= !OPEN;
        }
        args[1] = new.as_ptr() as u64;
    }
    host::call(libc::SYS_rt_sigprocmask, args)
}

/// rt_sigsuspend(2).
pub(crate) fn suspend(mut args: [u64; 6]) -> i64 {
    let mask = match open_mask(args[0], args[1]) {
        Ok(mask) => mask.map(|mask| [mask]),
        Err(error) => return error,
    };
    if let Some(mask) = &mask {
        args[0] = mask.as_ptr() as u64;
    }
    host::call(libc::SYS_rt_sigsuspend, args)
}

/// A mask that a call is to have while it waits, without what can't be blocked; what isn't there stays so.
pub(crate) fn open_mask(at: u64, size: u64) -> Result<Option<u64>, i64> {
    let mut mask = [0u64];
    match at {
        0 => Ok(None),
        _ if size != size_of_val(&mask) as u64 => Err(EINVAL),
        _ if host::read(&mut mask, at) => Ok(Some(mask[0] & !OPEN)),
        _ => Err(EFAULT),
    }
}

/// The thread's mask now.
pub(crate) fn current_mask() -> u64 {
    host_mask(libc::SIG_BLOCK, None)
}

/// Makes the thread's mask this one; the one before.
pub(crate) fn set_mask(mask: u64) -> u64 {
    host_mask(libc::SIG_SETMASK, Some(mask))
}

/// The mask of what a signal has interrupted.
pub(crate) fn mask_of(context: &mut ucontext_t) -> &mut u64 {
    // SAFETY: a mask of the host's has 64 signals; the C library's begins with it.
    unsafe { &mut *(&raw mut context.uc_sigmask).cast() }
}

/// Sends the calling thread what the kernel has sent to its task: bit n-1 stands for signal n.
#[cold]
pub(crate) fn raise(signals: u64) {
    let [pid, tid] = ids();
    for signal in (1..=SIGNALS as u64).filter(|n| signals & (1 << (n - 1)) != 0) {
        host::call(libc::SYS_tgkill, [pid, tid, signal, 0, 0, 0]);
    }
}

fn ids() -> [u64; 2] {
    [libc::SYS_getpid, libc::SYS_gettid].map(|nr| host::call(nr, [0; 6]) as u64)
}

/// Has the signal delivered that came while the thread was inside. Whether its handler lets calls begin anew.
#[cold]
pub(crate) fn deliver(thread: &Thread) -> bool {
    let signal = thread.pending.load(Ordering::Relaxed);
    let action = ACTIONS[signal as usize].get();
    // The handler of this very thread has filled in both, and all signals are blocked since.
    let (info, mask) = (thread.info.get(), thread.mask.get());
    thread.pending.store(0, Ordering::Relaxed);
    watchdog::delivers(signal);
    compiler_fence(Ordering::SeqCst);
    let [pid, tid] = ids();
    let at = (&raw const info) as u64;
    host::call(
        libc::SYS_rt_tgsigqueueinfo,
        [pid, tid, signal as u64, at, 0, 0],
    );
    set_mask(mask);
    action.flags & libc::SA_RESTART as u64 != 0
}

/// The handler of all signals that the program has a handler for, and of faults.
extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the host gives a handler with SA_SIGINFO valid pointers to both.
    let (told, context) = unsafe { (*info, &mut *context.cast::<ucontext_t>()) };
    let code = told.si_code;
    if FAULTS.contains(&signal) && code > 0 {
        let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
        match host::resume_after(*rip as u64) {
            Some(resume) => *rip = resume as i64,
            None => run(signal, code, info, context),
        }
        return;
    }
    let thread = thread::this();
    if thread.is_inside() {
        thread.info.set(told);
        thread.mask.set(replace(mask_of(context), !OPEN));
        thread.pending.store(signal, Ordering::Relaxed);
        watchdog::keeps(signal);
        state::interrupt();
        return;
    }
    run(signal, code, info, context);
}

/// Does what the program has asked for; the code is `info`'s.
pub(crate) fn run(signal: c_int, code: c_int, info: *mut siginfo_t, context: &mut ucontext_t) {
    let action = ACTIONS[signal as usize].get();
    let is_fault = code > 0 && is_ours(signal);
    match action.handler as usize {
        libc::SIG_IGN if !is_fault => return,
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault strikes again on return, and finds no handler; what was sent is sent again.
            let [pid, tid] = ids();
            host_action(signal, Some(&KernelAction::default()), None);
            if !is_fault {
                host::call(libc::SYS_tgkill, [pid, tid, signal as u64, 0, 0, 0]);
            }
            return;
        }
        _ => {}
    }
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        ACTIONS[signal as usize].set(KernelAction::default());
        if !is_ours(signal) {
            host_action(signal, Some(&KernelAction::default()), None);
        }
    }
    let context: *mut ucontext_t = context;
    // SAFETY: the program gave this address for a handler, of the kind that the flags say.
    unsafe {
        match action.flags & libc::SA_SIGINFO as u64 != 0 {
            true => transmute::<u64, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(
                action.handler,
            )(signal, info, context.cast()),
            false => transmute::<u64, extern "C" fn(c_int)>(action.handler)(signal),
        }
    }
}

/// sigaltstack(2) as it is now: for the context that a handler returns to.
pub(crate) fn alternate_stack() -> libc::stack_t {
    let mut stack = libc::stack_t {
        ss_sp: null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    host::call(
        libc::SYS_sigaltstack,
        [0, (&raw mut stack) as u64, 0, 0, 0, 0],
    );
    stack
}
