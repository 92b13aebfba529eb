//! Hardware faults inside an image: told to the image, which makes `-EFAULT` or a panic of them.
//!
//! Theory of operation: one handler for the process, installed at the first boot, runs on the
//! thread's alternate stack. It looks the faulting address up in a fixed table of live images
//! (atomics only, so that it may run at any moment), lets the image change the registers, and
//! returns to them. Any other fault goes to the handler that was there before.

use std::ffi::c_int;
use std::mem::{transmute, zeroed};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use vink_abi::{Fault, FaultFn};
use vink_sys::mapping::Mapping;

use crate::clock::monotonic;
use crate::image::Code;
use crate::watchdog::{self, Runs};

const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// The watchdog looks symbols up on it.
const ALT_STACK: usize = 256 << 10;
/// Well above glibc's 16 link-map namespaces, for images from several files.
const MAX_IMAGES: usize = 64;

/// A live image's code. `end` is 0 while the entry is free or being filled.
struct Entry {
    start: AtomicU64,
    end: AtomicU64,
    fault: AtomicUsize,
    runs: Runs,
}

static IMAGES: [Entry; MAX_IMAGES] = [const {
    Entry {
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        fault: AtomicUsize::new(0),
        runs: Runs::new(),
    }
}; MAX_IMAGES];
/// Held to change [`IMAGES`], never to read it.
static CHANGE: Mutex<()> = Mutex::new(());
static PREVIOUS: [OnceLock<libc::sigaction>; SIGNALS.len()] =
    [const { OnceLock::new() }; SIGNALS.len()];

/// An image's place in the table, given up on drop.
pub(crate) struct Registration(&'static Entry);

/// Lets the image with this code handle its faults. `None`: the table is full.
pub(crate) fn register(code: &Arc<Code>, fault: FaultFn) -> Option<Registration> {
    install();
    let text = &code.text;
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = IMAGES.iter().find(|e| e.end.load(Ordering::Relaxed) == 0)?;
    entry.start.store(text.start, Ordering::Relaxed);
    entry.fault.store(fault as usize, Ordering::Relaxed);
    entry.runs.belong_to(Some(code.clone()));
    entry.end.store(text.end, Ordering::Release);
    Some(Registration(entry))
}

impl Registration {
    /// The runs of the image's kernel.
    #[inline]
    pub(crate) fn runs(&self) -> &'static Runs {
        &self.0.runs
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.end.store(0, Ordering::Release);
        self.0.runs.belong_to(None);
    }
}

fn entry(rip: u64) -> Option<&'static Entry> {
    IMAGES.iter().find(|e| {
        let end = e.end.load(Ordering::Acquire);
        rip < end && rip >= e.start.load(Ordering::Relaxed)
    })
}

/// Whether an image has code at this address.
pub(crate) fn is_code(rip: u64) -> bool {
    entry(rip).is_some()
}

/// The runs of the kernel whose code this is.
pub(crate) fn runs_of(rip: u64) -> Option<&'static Runs> {
    entry(rip).map(|entry| &entry.runs)
}

/// The runs of all kernels.
pub(crate) fn all_runs() -> impl Iterator<Item = &'static Runs> {
    let live = IMAGES.iter().filter(|e| e.end.load(Ordering::Acquire) != 0);
    live.map(|entry| &entry.runs)
}

/// Installs the handlers, once.
fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install_all);
}

fn install_all() {
    // The handler reads clocks. What the first reading of one does is not for a handler.
    monotonic();
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
        // SAFETY: an all-zero sigaction is a valid one; the handler has SA_SIGINFO's signature.
        unsafe {
            let mut old: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &mut old);
            // Known before the handler can run.
            let _ = previous.set(old);
            let mut new: libc::sigaction = zeroed();
            new.sa_sigaction = on_fault as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(signal, &new, null_mut());
        }
    }
}

/// `siginfo_t` of a fault, and of a signal with a value.
#[repr(C)]
pub(crate) struct SignalInfo {
    pub signal: c_int,
    pub errno: c_int,
    pub code: c_int,
    pub pad: c_int,
    /// `si_addr`, or what sent it.
    pub address: u64,
    /// `si_value`.
    pub value: u64,
    pub rest: [u64; 12],
}

const _: () = assert!(size_of::<SignalInfo>() == size_of::<libc::siginfo_t>());

/// `gregs` of `mcontext_t`.
type Registers = [libc::greg_t; 23];

type Handler = unsafe extern "C" fn(c_int, *mut SignalInfo, *mut libc::ucontext_t);

unsafe extern "C" fn on_fault(
    signal: c_int,
    info: *mut SignalInfo,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the system gives a handler with SA_SIGINFO valid pointers to both, which nothing else
    // uses meanwhile.
    let (told, regs) = unsafe { (&*info, &mut (*context).uc_mcontext.gregs) };
    if watchdog::is_ours(told) {
        watchdog::look([libc::REG_RIP, libc::REG_RBP].map(|r| regs[r as usize] as u64));
        return;
    }
    // A code above 0 is the processor's word, others are kill(2)'s and the like.
    // SAFETY: in the handler of a fault, with its registers.
    let ours = told.code > 0 && unsafe { resolve(signal, told.address, regs) };
    if !ours {
        chain(signal, told.code, info, context);
    }
}

/// Lets the image handle the fault; false if there is none at this address or it doesn't want it.
///
/// # Safety
/// In the handler of the fault, with its registers.
unsafe fn resolve(signal: c_int, address: u64, regs: &mut Registers) -> bool {
    let reg = |r: c_int| regs[r as usize] as u64;
    let mut fault = Fault {
        rip: reg(libc::REG_RIP),
        rsp: reg(libc::REG_RSP),
        rbp: reg(libc::REG_RBP),
        rdi: reg(libc::REG_RDI),
        rsi: reg(libc::REG_RSI),
        rcx: reg(libc::REG_RCX),
        rax: reg(libc::REG_RAX),
        rdx: reg(libc::REG_RDX),
        address,
        signal: signal as u32,
        reserved: 0,
    };
    let at_fault = entry(fault.rip).or_else(|| {
        // A call through a bad function pointer: it is the caller's fault.
        if signal != libc::SIGSEGV || address != fault.rip {
            return None;
        }
        // SAFETY: a call has just pushed its return address. If the stack is gone too, a second
        // fault in here ends the process, as the first would have.
        let caller = unsafe { *(fault.rsp as *const u64) };
        let at_fault = entry(caller)?;
        fault.rip = caller;
        fault.rsp += 8;
        Some(at_fault)
    });
    let Some(at_fault) = at_fault else {
        return false;
    };
    let handle = at_fault.fault.load(Ordering::Relaxed);
    // SAFETY: register() stored a FaultFn before it set `end`, and code that faults now is loaded.
    // Called as abi.h says: in the handler, on the alternate stack, by the faulting thread.
    if unsafe { transmute::<usize, FaultFn>(handle)(&mut fault) } != 1 {
        return false;
    }
    for (r, value) in [
        (libc::REG_RIP, fault.rip),
        (libc::REG_RSP, fault.rsp),
        (libc::REG_RBP, fault.rbp),
        (libc::REG_RDI, fault.rdi),
        (libc::REG_RSI, fault.rsi),
        (libc::REG_RCX, fault.rcx),
        (libc::REG_RAX, fault.rax),
        (libc::REG_RDX, fault.rdx),
    ] {
        regs[r as usize] = value as i64;
    }
    true
}

/// Does what would have happened without this module.
fn chain(signal: c_int, code: c_int, info: *mut SignalInfo, context: *mut libc::ucontext_t) {
    let index = SIGNALS.iter().position(|s| *s == signal);
    let Some(previous) = index.and_then(|i| PREVIOUS[i].get()) else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault that no handler takes ends the process even if ignored; the signal is blocked
            // in here and strikes on return.
            // SAFETY: both are async-signal-safe.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        // SAFETY: the handler's own flags say which of the two signatures it has.
        handler => unsafe {
            match previous.sa_flags & libc::SA_SIGINFO {
                0 => transmute::<usize, extern "C" fn(c_int)>(handler)(signal),
                _ => transmute::<usize, Handler>(handler)(signal, info, context),
            }
        },
    }
}

/// The calling thread can be interrupted by the watchdog before it runs an image.
pub(crate) fn prepare() {
    install();
    prepare_thread();
}

/// This thread's alternate stack, if one had to be made.
struct AltStack(Option<Mapping>);

const NO_STACK: libc::stack_t = libc::stack_t {
    ss_sp: null_mut(),
    ss_flags: libc::SS_DISABLE,
    ss_size: 0,
};

thread_local! {
    static ON_THIS_THREAD: AltStack = AltStack::install();
}

/// Makes sure that the calling thread can handle faults (sigaltstack(2)). Cheap after the first
/// time.
#[inline]
pub(crate) fn prepare_thread() {
    // Fails while the thread's own data are being destroyed: it keeps what it has by then.
    let _ = ON_THIS_THREAD.try_with(|_| ());
}

impl AltStack {
    /// The one that Rust's runtime makes is too small for a handler that runs an image's code.
    fn install() -> AltStack {
        let mut old = NO_STACK;
        // SAFETY: fills the structure.
        unsafe { libc::sigaltstack(null(), &mut old) };
        if old.ss_flags & libc::SS_DISABLE == 0 && old.ss_size >= ALT_STACK {
            return AltStack(None);
        }
        let stack = Mapping::new(ALT_STACK).ok();
        if let Some(stack) = &stack {
            let new = libc::stack_t {
                ss_sp: stack.start(),
                ss_flags: 0,
                ss_size: ALT_STACK,
            };
            // SAFETY: the memory is this thread's, for as long as it is its alternate stack.
            unsafe { libc::sigaltstack(&new, null_mut()) };
        }
        AltStack(stack)
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let Some(stack) = &self.0 else {
            return;
        };
        let mut now = NO_STACK;
        // SAFETY: the system lets go of the stack before it is unmapped.
        unsafe {
            libc::sigaltstack(null(), &mut now);
            if now.ss_sp == stack.start() {
                libc::sigaltstack(&NO_STACK, null_mut());
            }
        }
    }
}
