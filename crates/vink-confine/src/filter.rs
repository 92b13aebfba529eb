//! The system calls of a process that moves bytes between what it has open, and of one that reserves
//! ports.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Those that it may make with any arguments.
const PLAIN: &[i64] = &[
    // Bytes.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Waiting.
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_timerfd_settime,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_restart_syscall,
    // Descriptors of its own.
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    // Sockets of the folders that are left.
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_openat,
    libc::SYS_flock,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lstat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_chmod,
    libc::SYS_fchmodat,
    libc::SYS_sched_yield,
    // Memory for a wire.
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
];

/// Those for which an argument (its number) must have of these bits exactly those.
const MASKED: &[(i64, u8, u64, u64)] = &[
    (libc::SYS_socket, 0, u32::MAX as u64, libc::AF_UNIX as u64),
    (
        libc::SYS_socketpair,
        0,
        u32::MAX as u64,
        libc::AF_UNIX as u64,
    ),
    // Nothing becomes code.
    (libc::SYS_mmap, 2, libc::PROT_EXEC as u64, 0),
    (libc::SYS_mprotect, 2, libc::PROT_EXEC as u64, 0),
];

/// What may be asked of an interface, and of a socket: netdevice(7).
const IOCTLS: &[u64] = &[
    libc::SIOCGIFINDEX,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFMTU,
    libc::FIONBIO,
];

/// Those of a port server, with any arguments.
const OF_PORTS: &[i64] = &[
    libc::SYS_write,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_bind,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_restart_syscall,
    libc::SYS_futex,
];

/// Those of both, with any arguments: for memory and its end.
const COMMON: &[i64] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
];

/// Puts the filter in place, which can't be taken off: how many calls are left.
pub(crate) fn apply() -> io::Result<usize> {
    put(rules())
}

/// The same for a port server.
pub(crate) fn apply_of_ports() -> io::Result<usize> {
    put(rules_of_ports())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn put(rules: Result<Rules, seccompiler::BackendError>) -> io::Result<usize> {
    let rules = rules.map_err(io::Error::other)?;
    let count = rules.len();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        TargetArch::x86_64,
    );
    let program: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)?;
    Ok(count)
}

fn condition(
    argument: u8,
    op: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
}

fn rules_of_ports() -> Result<Rules, seccompiler::BackendError> {
    let any = OF_PORTS
        .iter()
        .chain(COMMON)
        .map(|number| (*number, Vec::new()));
    let mut rules: Rules = any.collect();
    let equal = |argument, value| condition(argument, SeccompCmpOp::Eq, value);
    // Sockets that hold ports, and what others receive.
    let [v4, v6] = [libc::AF_INET, libc::AF_INET6].map(|family| equal(0, family as u64));
    let families = vec![SeccompRule::new(vec![v4?])?, SeccompRule::new(vec![v6?])?];
    rules.insert(libc::SYS_socket, families);
    let level = equal(1, libc::SOL_SOCKET as u64)?;
    let option = equal(2, libc::SO_ATTACH_FILTER as u64)?;
    let filters = vec![SeccompRule::new(vec![level, option])?];
    rules.insert(libc::SYS_setsockopt, filters);
    let data = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        let rule = SeccompRule::new(vec![condition(2, data.clone(), 0)?])?;
        rules.insert(number, vec![rule]);
    }
    Ok(rules)
}

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let any = PLAIN
        .iter()
        .chain(COMMON)
        .map(|number| (*number, Vec::new()));
    let mut rules: Rules = any.collect();
    let one = |argument, op, value| SeccompRule::new(vec![condition(argument, op, value)?]);
    for (number, argument, mask, value) in MASKED {
        let rule = one(*argument, SeccompCmpOp::MaskedEq(*mask), *value)?;
        rules.insert(*number, vec![rule]);
    }
    let ioctls = IOCTLS
        .iter()
        .map(|request| one(1, SeccompCmpOp::Eq, *request));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    Ok(rules)
}
