//! New processes and threads, and other programs.
//!
//! A call of clone(2) with a stack of the child's own begins there, so that it is made with all registers as the
//! program had them (`host`). A thread begins with its calls dispatched; a child that borrows the memory to
//! execute another program goes on alone. Any other child is a fork, of which the stack is no part.

use libc::ucontext_t;

use vink_syscalls::{kind, path_args, Kind, PathArgs};

use crate::descriptors::{self, Entry};
use crate::host::{self, Registers};
use crate::thread;
use crate::{dispatch, state};

const EFAULT: i64 = -(libc::EFAULT as i64);

/// fork(2), vfork(2), clone(2), clone3(2), dispatched from this context.
pub(crate) fn clone(nr: i64, args: [u64; 6], context: &ucontext_t) -> i64 {
    // `struct clone_args`, up to what is needed: flags, four addresses, stack, its size.
    let mut clone3 = [0u64; 7];
    let (flags, stack) = match kind(nr) {
        Kind::Clone => (args[0], args[1]),
        Kind::Clone3 if args[1] >= 56 => {
            if !host::read(&mut clone3, args[0]) {
                return EFAULT;
            }
            (clone3[0], clone3[5] + clone3[6])
        }
        Kind::Clone3 => return host::call(nr, args),
        // The parent's memory is not lent: it would be in the middle of a signal handler.
        _ => (libc::SIGCHLD as u64, 0),
    };
    if stack == 0 {
        return fork(nr, args, flags, clone3);
    }
    let gregs = &context.uc_mcontext.gregs;
    let reg = |r: i32| gregs[r as usize] as u64;
    let is_thread = flags & libc::CLONE_SETTLS as u64 != 0;
    // What the child finds below its stack: see `host`.
    let below = [u64::from(is_thread), reg(libc::REG_RIP)];
    if !host::write(stack - 16, &below) {
        return EFAULT;
    }
    let registers = Registers {
        nr: nr as u64,
        rdi: args[0],
        rsi: args[1],
        rdx: args[2],
        r10: args[3],
        r8: args[4],
        r9: args[5],
        rbx: reg(libc::REG_RBX),
        rbp: reg(libc::REG_RBP),
        r12: reg(libc::REG_R12),
        r13: reg(libc::REG_R13),
        r14: reg(libc::REG_R14),
        r15: reg(libc::REG_R15),
    };
    let this = thread::this();
    if is_thread {
        state::set_threaded();
    } else {
        // The child shares this thread's storage, and its calls are the host's.
        this.enter();
    }
    // SAFETY: the top of the stack has been written just so.
    let child = unsafe { host::clone(&registers) };
    if !is_thread {
        let _ = state::leave(this);
    }
    child
}

/// A child on the same stack.
fn fork(nr: i64, mut args: [u64; 6], flags: u64, mut clone3: [u64; 7]) -> i64 {
    let lent = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    let child = match kind(nr) {
        Kind::Clone => {
            args[0] &= !lent;
            host::call(nr, args)
        }
        Kind::Clone3 if flags & lent != 0 => {
            clone3[0] &= !lent;
            let args = [clone3.as_ptr() as u64, 56, 0, 0, 0, 0];
            host::call(nr, args)
        }
        Kind::Clone3 => host::call(nr, args),
        _ => host::call(libc::SYS_fork, [0; 6]),
    };
    if child == 0 {
        state::forked();
        dispatch::arm();
    }
    child
}

/// A new thread of the program's begins, on its own stack and with its own storage.
#[no_mangle]
extern "C" fn vink_thread_begins() {
    dispatch::arm();
}

/// execve(2) and execveat(2).
pub(crate) fn exec(nr: i64, args: [u64; 6]) -> i64 {
    // execvp(3) tries one folder after the other.
    let (from, path) = match path_args(nr) {
        PathArgs::Below(from, path) => (args[from], args[path]),
        _ => (libc::AT_FDCWD as u64, args[0]),
    };
    let there = [from, path, libc::X_OK as u64, 0, 0, 0];
    if !state::is_orphan() && host::call(libc::SYS_faccessat, there) == 0 {
        let lost = descriptors::noted(0, u64::MAX)
            .filter(|(fd, entry)| matches!(entry, Entry::File(_)) && is_kept(*fd))
            .count();
        if lost > 0 {
            let plural = if lost == 1 { "" } else { "s" };
            state::say(&format!(
                "the program executes another one, which cannot have its {lost} open socket{plural}: the network \
                 stack ends with this program. Run it without --in-process for that"
            ));
        }
    }
    host::call(nr, args)
}

/// Whether another program would have this descriptor.
fn is_kept(fd: u64) -> bool {
    let flags = host::call(libc::SYS_fcntl, [fd, libc::F_GETFD as u64, 0, 0, 0, 0]);
    flags >= 0 && flags & i64::from(libc::FD_CLOEXEC) == 0
}
