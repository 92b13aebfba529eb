//! Which calls are let through in virtual time: those that neither wait nor tell of time or chance.

/// Whether the filter lets the host do the call without asking. Calls that change files are not among them, since other machines
/// may have these, too (`company`). The first calls that C libraries and Go make in
/// a new thread (rseq(2), set_robust_list(2), gettid(2), sigaltstack(2)) are not among them: they stop it before it
/// touches anything that it shares.
pub(crate) const fn is_quiet(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_brk
            | libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_mremap
            | libc::SYS_madvise
            | libc::SYS_mincore
            | libc::SYS_mlock
            | libc::SYS_munlock
            | libc::SYS_membarrier
            | libc::SYS_arch_prctl
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_rt_sigreturn
            | libc::SYS_rt_sigpending
            | libc::SYS_getpid
            | libc::SYS_getppid
            | libc::SYS_getuid
            | libc::SYS_geteuid
            | libc::SYS_getgid
            | libc::SYS_getegid
            | libc::SYS_getresuid
            | libc::SYS_getresgid
            | libc::SYS_getgroups
            | libc::SYS_getpgrp
            | libc::SYS_getpgid
            | libc::SYS_getsid
            | libc::SYS_lseek
            | libc::SYS_pread64
            | libc::SYS_fadvise64
            | libc::SYS_readahead
            | libc::SYS_umask
            | libc::SYS_getcwd
            | libc::SYS_getrlimit
            | libc::SYS_setrlimit
            | libc::SYS_prlimit64
            | libc::SYS_uname
            | libc::SYS_capget
            | libc::SYS_exit_group
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_or_tells_time_is_not_quiet() {
        for nr in [
            libc::SYS_futex,
            libc::SYS_nanosleep,
            libc::SYS_clock_gettime,
            libc::SYS_wait4,
            libc::SYS_flock,
            libc::SYS_getrandom,
            libc::SYS_rseq,
            libc::SYS_epoll_wait,
        ] {
            assert!(!is_quiet(nr), "call {nr}");
        }
        assert!(is_quiet(libc::SYS_exit_group));
    }
}
