//! What users are told of calls that are refused or simplified on Vink files.

use vink_syscalls::{kind, sched_class, Kind, Sched};

/// What is different about such a call, and what to do.
pub(crate) const fn advice(nr: i64) -> &'static str {
    match (kind(nr), sched_class(nr)) {
        (Kind::Foreign, _) => "ended the program with SIGSYS; let a build for x86-64 be run",
        (Kind::Unshare | Kind::CloseRange, _) => {
            "a thread that asked for descriptors of its own kept the other threads'; let the program \
             fork instead"
        }
        (Kind::Chdir | Kind::Fchdir, _) => {
            "refused: the host has no such directory to go to; name it by its whole path instead"
        }
        (Kind::Submit, _) => {
            "refused: asynchronous I/O is for the host's files; let the program use epoll for its sockets"
        }
        (_, Sched::Semtimedop) => {
            "refused: in virtual time System V semaphores have no time-outs; let the program use POSIX ones"
        }
        _ => "answered in a simpler way than Linux does",
    }
}
