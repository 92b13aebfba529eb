//! Catching every system call of the program: syscall user dispatch (prctl(2)).
//!
//! The host's kernel sends a `SIGSYS` in place of each call that is not made by `host`'s code, as long as
//! the thread's selector says so. Its handler takes the call's number and arguments from the registers, and puts the
//! result there. New threads are armed when they begin; in a child the host's kernel forgets, and in a program
//! that is executed too.

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use vink_syscalls::{shim, Shim};

use crate::enter::enter;
use crate::{descriptors, host, process, signals, state, thread};

const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const PR_SYS_DISPATCH_ON: u64 = 1;
/// Of `siginfo_t`, `si_code`: this signal is a dispatched call.
const SYS_USER_DISPATCH: c_int = 2;
/// The exit status of a program that can't be run so, as `vink run` has it.
const FAILED: u64 = 125;

/// From now on the calling thread's system calls are caught.
pub(crate) fn arm() {
    let this = thread::this();
    let text = host::text();
    let args = [
        PR_SET_SYSCALL_USER_DISPATCH,
        PR_SYS_DISPATCH_ON,
        text.start,
        text.end - text.start,
        this.selector(),
        0,
    ];
    let armed = host::call(libc::SYS_prctl, args);
    if armed != 0 {
        state::say(&format!(
            "prctl(PR_SET_SYSCALL_USER_DISPATCH): {}: --in-process needs Linux 5.11 on x86-64; vink run without it does not",
            std::io::Error::from_raw_os_error(-armed as i32)
        ));
        host::call(libc::SYS_exit_group, [FAILED, 0, 0, 0, 0, 0]);
    }
    let _ = state::leave(this);
}

/// The library has been loaded into a program.
pub(crate) fn begin() {
    if let Some(fd) = vink_inproc::Config::broker_of_environment() {
        descriptors::hold(fd);
    }
    signals::begin(on_call);
    arm();
}

/// The handler of `SIGSYS`.
extern "C" fn on_call(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the host gives a handler with SA_SIGINFO valid pointers to both.
    let (code, context) = unsafe { ((*info).si_code, &mut *context.cast::<ucontext_t>()) };
    // Seccomp's, or one that a process has sent.
    if code != SYS_USER_DISPATCH {
        return signals::run(libc::SIGSYS, code, info, context);
    }
    let reg = |r: c_int| context.uc_mcontext.gregs[r as usize] as u64;
    let nr = reg(libc::REG_RAX) as i64;
    let args = [
        reg(libc::REG_RDI),
        reg(libc::REG_RSI),
        reg(libc::REG_RDX),
        reg(libc::REG_R10),
        reg(libc::REG_R8),
        reg(libc::REG_R9),
    ];
    let result = match shim(nr) {
        Shim::Clone => process::clone(nr, args, context),
        // SAFETY: the program says that a signal's frame is there, as it does in a call of its own.
        Shim::Sigreturn => unsafe { host::sigreturn(reg(libc::REG_RSP)) },
        _ => enter(nr, args),
    };
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
    match shim(nr) {
        // What these have changed is put back when a handler returns.
        Shim::Sigprocmask => *signals::mask_of(context) = signals::current_mask(),
        Shim::Sigaltstack => context.uc_stack = signals::alternate_stack(),
        _ => {}
    }
}
