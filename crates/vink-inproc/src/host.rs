//! System calls of the host, made here and not in the C library, whose functions are the interposer's.

use std::arch::asm;
use std::ptr::null;
use std::sync::atomic::AtomicU32;

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

/// `CLOCK_MONOTONIC` in ns.
pub(crate) fn now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable. The C library reads the clock without a system call, or this is one.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps as long as the word has this value, or until woken (futex(2)).
pub(crate) fn sleep_while(word: &AtomicU32, value: u32, limit: Option<u64>) {
    let limit = limit.map(span);
    let limit = limit.as_ref().map_or(null(), std::ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let args = [
        word.as_ptr() as u64,
        wait as u64,
        value.into(),
        limit as u64,
        0,
        0,
    ];
    // SAFETY: the word and the limit live; the kernel reads them.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// Wakes one that sleeps by the word.
pub(crate) fn wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: an address that is not looked at.
    unsafe {
        syscall(
            libc::SYS_futex,
            [word.as_ptr() as u64, wake as u64, 1, 0, 0, 0],
        );
    }
}

/// ppoll(2) for at most so many ns (`None`: for ever), without a change of the signal mask: how many are
/// ready, or `-errno`.
pub(crate) fn poll(fds: &mut [libc::pollfd], limit: Option<u64>) -> i64 {
    let mut limit = limit.map(span);
    let limit = limit
        .as_mut()
        .map_or(null(), |limit| std::ptr::from_mut(limit).cast_const());
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

fn span(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}
