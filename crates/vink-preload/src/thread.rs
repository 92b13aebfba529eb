//! What belongs to one thread of the program: whether it is inside the library, and the signal that came meanwhile.
//!
//! It lies in the thread's static thread-local storage, so that it is found by two instructions, and a thread
//! that the library knows nothing of (one of its own) has it all zero.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::sync::atomic::{compiler_fence, AtomicI32, AtomicU8, Ordering};

/// PR_SET_SYSCALL_USER_DISPATCH's two words. A thread that is inside makes its calls itself.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Room for a [`Thread`].
const SIZE: usize = 256;

#[repr(C, align(64))]
pub(crate) struct Thread {
    /// The kernel reads it at each system call of the thread.
    selector: AtomicU8,
    /// The signal that came while the thread was inside; 0: none.
    pub pending: AtomicI32,
    pub info: Cell<libc::siginfo_t>,
    /// The signal mask at that moment; until the signal is delivered all are blocked.
    pub mask: Cell<u64>,
}

const _: () = assert!(size_of::<Thread>() <= SIZE && align_of::<Thread>() == 64);

global_asm!(
    ".pushsection .tbss.vink_thread,\"awT\",@nobits",
    ".balign 64",
    ".globl vink_thread",
    ".hidden vink_thread",
    ".type vink_thread, @object",
    ".size vink_thread, {size}",
    "vink_thread:",
    ".zero {size}",
    ".popsection",
    size = const SIZE,
);

/// The calling thread's.
#[inline(always)]
pub(crate) fn this() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the thread's own storage, by the initial-exec model: the library is loaded with the program. It
    // lives as long as the thread, whose own code alone uses it.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + vink_thread@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(pure, nomem, nostack),
        );
        &*at
    }
}

impl Thread {
    /// Whether it is inside the library, or not the program's at all.
    #[inline(always)]
    pub fn is_inside(&self) -> bool {
        self.selector.load(Ordering::Relaxed) == ALLOW
    }

    /// From now on signals wait, and system calls are the host's.
    #[inline(always)]
    pub fn enter(&self) {
        self.selector.store(ALLOW, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// It is the program's again. Whether a signal waits that must be delivered now.
    #[inline(always)]
    #[must_use]
    pub fn leave(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        self.selector.store(BLOCK, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.pending.load(Ordering::Relaxed) != 0
    }

    /// For prctl(2).
    pub fn selector(&self) -> u64 {
        self.selector.as_ptr() as u64
    }
}
