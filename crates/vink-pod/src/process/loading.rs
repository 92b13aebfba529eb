//! The system calls of a pod's process while the dynamic loader works, and constructors with it: files
//! are read, of those that it still sees.

use libc::seccomp_data;

/// What libraries ask at their start, and what the loader does with open files.
const ASKED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_getcwd,
    libc::SYS_mprotect,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
];

/// Flags of open(2) by which nothing is written.
const READ: i32 = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// Whether the host's kernel may do it. No decision depends on memory, which may change meanwhile.
pub(super) fn may(call: &seccomp_data) -> bool {
    let number = i64::from(call.nr);
    match number {
        libc::SYS_open => call.args[1] & !(READ as u64) == 0,
        libc::SYS_openat => call.args[2] & !(READ as u64) == 0,
        // A library's pages; the filter lets pages without a file pass, unless they are code.
        libc::SYS_mmap => call.args[3] as i32 & libc::MAP_ANONYMOUS == 0,
        // Only to ask.
        libc::SYS_fcntl => call.args[1] == libc::F_GETFD as u64,
        libc::SYS_prlimit64 => call.args[0] == 0 && call.args[2] == 0,
        _ => ASKED.contains(&number),
    }
}
