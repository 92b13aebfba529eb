//! System calls of the host, made here and not in the C library, whose functions are the interposer's.

use std::arch::asm;
use std::os::fd::BorrowedFd;
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use vink_sys::rustix::thread::{futex, Timespec};

/// syscall(2) that returns `-errno`.
///
/// # Safety
/// As the system call's.
#[inline]
pub unsafe fn syscall(nr: i64, args: [u64; 6]) -> i64 {
    let result;
    // SAFETY: the instruction clobbers these two registers and what the system call writes to.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Takes a new descriptor out of the way of the program's, which counts on low numbers being free: its number then.
pub type Mover = fn(i32) -> i32;

static MOVER: OnceLock<Mover> = OnceLock::new();

/// What is done with each descriptor that is made for a thread, from now on; those of the boot are its maker's.
pub fn move_by(mover: Mover) {
    // The first one stays.
    let _ = MOVER.set(mover);
}

/// The number that a new descriptor has from now on.
pub(crate) fn moved(fd: i32) -> i32 {
    MOVER.get().map_or(fd, |mover| mover(fd))
}

/// A descriptor of the library's own, by its number.
pub(crate) fn own<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: the program can't close it, and a thread's are closed only when the thread has ended.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Sleeps as long as the word has this value, or until woken (futex(2)).
pub(crate) fn sleep_while(word: &AtomicU32, value: u32, limit: Option<u64>) {
    let limit = limit.map(span);
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, limit.as_ref());
}

/// Wakes one that sleeps by the word.
pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

/// ppoll(2) for at most so many ns (`None`: for ever), without a change of the signal mask: how many are
/// ready, or `-errno`.
pub(crate) fn poll(fds: &mut [libc::pollfd], limit: Option<u64>) -> i64 {
    let limit = limit.map(span);
    let limit = limit.as_ref().map_or(null(), std::ptr::from_ref);
    let args = [
        fds.as_mut_ptr() as u64,
        fds.len() as u64,
        limit as u64,
        0,
        0,
        0,
    ];
    // SAFETY: the structures live and are as many as said.
    unsafe { syscall(libc::SYS_ppoll, args) }
}

/// As the kernel has it.
fn span(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
