//! The system calls of code that only computes: it gets memory, and ends. Every other call stops it
//! until the process that listens has decided.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use libc::sock_filter;
use vink_sys::seccomp;

use crate::bpf::{
    argument, op, ALLOW, AND, ARCHITECTURE, AUDIT_ARCH_X86_64, JEQ, JSET, LOAD, NUMBER, RET,
};

/// Those that it may make with any arguments.
const PLAIN: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // abort(3) makes these before it sends itself a signal.
    libc::SYS_rt_sigprocmask,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What a mutex does. The others are about threads and their priorities.
const FUTEX: &[i32] = &[
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

const LISTENER: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// Puts the filter in place, which can't be taken off: the listener, which has to get to the other
/// process by `socket`.
pub(crate) fn apply(socket: RawFd) -> io::Result<OwnedFd> {
    seccomp::apply_listened(&filter(socket))
}

fn filter(socket: RawFd) -> Vec<sock_filter> {
    let mut code = vec![
        op(LOAD, ARCHITECTURE, 0, 0),
        op(JEQ, AUDIT_ARCH_X86_64, 1, 0),
        op(RET, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        op(LOAD, NUMBER, 0, 0),
    ];
    for number in PLAIN {
        code.extend(only(*number, vec![op(RET, ALLOW, 0, 0)]));
    }
    // Pages of its own, which are no code.
    let (executable, anonymous) = (libc::PROT_EXEC as u32, libc::MAP_ANONYMOUS as u32);
    let pages = vec![
        op(LOAD, argument(2), 0, 0),
        op(JSET, executable, 3, 0),
        op(LOAD, argument(3), 0, 0),
        op(JSET, anonymous, 0, 1),
        op(RET, ALLOW, 0, 0),
        op(RET, LISTENER, 0, 0),
    ];
    code.extend(only(libc::SYS_mmap, pages));
    let flags = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32;
    let which = [op(LOAD, argument(1), 0, 0), op(AND, !flags, 0, 0)].to_vec();
    let which = [which, one_of(FUTEX)].concat();
    code.extend(only(libc::SYS_futex, which));
    // Standard output and error: what these are is for the process itself to say before.
    for number in [libc::SYS_write, libc::SYS_writev] {
        let to = [vec![op(LOAD, argument(0), 0, 0)], one_of(&[1, 2])].concat();
        code.extend(only(number, to));
    }
    let to = [vec![op(LOAD, argument(0), 0, 0)], one_of(&[socket])].concat();
    code.extend(only(libc::SYS_sendmsg, to));
    code.push(op(RET, LISTENER, 0, 0));
    code
}

/// This for a number, which it decides about.
fn only(number: i64, code: Vec<sock_filter>) -> Vec<sock_filter> {
    let skipped = code.len() as u8;
    [vec![op(JEQ, number as u32, 0, skipped)], code].concat()
}

/// Allowed if what was loaded is one of these.
fn one_of(values: &[i32]) -> Vec<sock_filter> {
    let count = values.len();
    let code = values.iter().enumerate();
    let mut code: Vec<_> = code
        .map(|(n, value)| op(JEQ, *value as u32, (count - n) as u8, 0))
        .collect();
    code.extend([op(RET, LISTENER, 0, 0), op(RET, ALLOW, 0, 0)]);
    code
}
