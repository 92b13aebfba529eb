//! The system calls that no program gets that is not trusted. Any program runs, so this lists what
//! is refused, and all else is allowed.
//!
//! Refused calls fail: a signal would meet the one by which such a program's network calls are
//! caught (syscall user dispatch), which are dispatched before this filter sees them. What is not
//! made by programs that mean no harm is told to the host's audit log, too.

use std::io;

use libc::sock_filter;
use vink_sys::seccomp;

use crate::bpf::{
    argument, fails, op, ALLOW, AND, ARCHITECTURE, AUDIT_ARCH_X86_64, JEQ, JGE, JSET, LOAD, NUMBER,
    RET, X32_BIT,
};

const EPERM: u32 = libc::EPERM as u32;
const EACCES: u32 = libc::EACCES as u32;
const ENOSYS: u32 = libc::ENOSYS as u32;

/// Other processes, the kernel, mounts and namespaces.
const LOGGED: &[i64] = &[
    // Of its own processes all are the same, and it has no others.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_vhangup,
    libc::SYS_syslog,
];

/// What is tried, and done without. A socket of the host's could only lead out.
const QUIET: &[(i64, u32)] = &[
    (libc::SYS_connect, EACCES),
    (libc::SYS_bind, EACCES),
    (libc::SYS_listen, EACCES),
    (libc::SYS_accept, EACCES),
    (libc::SYS_accept4, EACCES),
    (libc::SYS_io_uring_setup, ENOSYS),
    (libc::SYS_io_uring_enter, ENOSYS),
    (libc::SYS_io_uring_register, ENOSYS),
    // Its flags are not to be seen from here: clone(2) has them.
    (libc::SYS_clone3, ENOSYS),
];

/// `CLONE_NEW*`.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32
    // CLONE_NEWTIME, of unshare(2) only: in clone(2) it is a part of the signal's number.
    | 0x80;

/// Puts the filters in place, which can't be taken off.
pub(crate) fn apply() -> io::Result<()> {
    seccomp::apply(&quiet(), false)?;
    seccomp::apply(&logged(), true)
}

/// Returns this for a number; goes on with others.
fn if_number(number: i64, code: Vec<sock_filter>) -> Vec<sock_filter> {
    let skipped = code.len() as u8;
    [vec![op(JEQ, number as u32, 0, skipped)], code].concat()
}

/// The same if one of these bits is set in an argument; else the call is allowed.
fn if_bits(n: u32, bits: u32, error: u32) -> Vec<sock_filter> {
    vec![
        op(LOAD, argument(n), 0, 0),
        op(JSET, bits, 0, 1),
        op(RET, fails(error), 0, 0),
        op(RET, ALLOW, 0, 0),
    ]
}

/// Sockets of the host's that the program may have: unix sockets by which no other can be named,
/// of these types.
fn if_types(types: &[i32], error: u32) -> Vec<sock_filter> {
    const TYPE: u32 = 0xf;
    let mut code = vec![
        op(LOAD, argument(0), 0, 0),
        op(JEQ, libc::AF_UNIX as u32, 1, 0),
        op(RET, fails(error), 0, 0),
        op(LOAD, argument(1), 0, 0),
        op(AND, TYPE, 0, 0),
    ];
    for (n, kind) in types.iter().enumerate() {
        code.push(op(JEQ, *kind as u32, (types.len() - n) as u8, 0));
    }
    code.extend([op(RET, fails(error), 0, 0), op(RET, ALLOW, 0, 0)]);
    code
}

fn logged() -> Vec<sock_filter> {
    let mut code = vec![
        op(LOAD, ARCHITECTURE, 0, 0),
        op(JEQ, AUDIT_ARCH_X86_64, 1, 0),
        op(RET, fails(ENOSYS), 0, 0),
        op(LOAD, NUMBER, 0, 0),
        op(JGE, X32_BIT, 0, 1),
        op(RET, fails(ENOSYS), 0, 0),
    ];
    for number in LOGGED {
        code.extend(if_number(*number, vec![op(RET, fails(EPERM), 0, 0)]));
    }
    code.extend(if_number(libc::SYS_unshare, if_bits(0, NAMESPACES, EPERM)));
    let of_clone = NAMESPACES & !0xff;
    code.extend(if_number(libc::SYS_clone, if_bits(0, of_clone, EPERM)));
    // Words put into a terminal's input would be its user's.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        code.extend(if_number(
            libc::SYS_ioctl,
            vec![
                op(LOAD, argument(1), 0, 0),
                op(JEQ, request as u32, 0, 1),
                op(RET, fails(EPERM), 0, 0),
                op(LOAD, NUMBER, 0, 0),
            ],
        ));
    }
    code.push(op(RET, ALLOW, 0, 0));
    code
}

fn quiet() -> Vec<sock_filter> {
    // Numbers of other architectures are the other filter's.
    let mut code = vec![op(LOAD, NUMBER, 0, 0)];
    for (number, error) in QUIET {
        code.extend(if_number(*number, vec![op(RET, fails(*error), 0, 0)]));
    }
    // One that is not connected, and can't be: the library has such a one in place of each socket.
    let alone = if_types(&[libc::SOCK_STREAM], EACCES);
    code.extend(if_number(libc::SYS_socket, alone));
    // By a datagram socket any other one can be named, by its path.
    let pairs = if_types(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET], EACCES);
    code.extend(if_number(libc::SYS_socketpair, pairs));
    code.push(op(RET, ALLOW, 0, 0));
    code
}
