//! vfork(2): a child that has its parent's memory, but not its descriptors, until it executes a
//! file or ends, while its parent waits.
//!
//! A shell has most of its commands so, and a fork would copy its memory for each. But what is known
//! of the parent's descriptors would be taken for the child's. So it is fork(2) for a process that
//! has a ring, or other threads, by which it may get one meanwhile. The child asks for none.

use std::arch::naked_asm;
use std::ffi::c_char;

use libc::{pid_t, ssize_t, SYS_vfork};
use vink_shim::finish;

use crate::{memory, post};

extern "C" {
    /// Whether the process has one thread, as the C library knows (`sys/single_threaded.h`).
    static __libc_single_threaded: c_char;
}

/// Returns twice, at the same place of the program's stack. The return address is in a register
/// meanwhile, as in the C library's: what the child calls next is written over it.
///
/// # Safety
/// As vfork(2) has it.
#[unsafe(naked)]
#[no_mangle]
unsafe extern "C" fn vfork() -> pid_t {
    naked_asm!(
        "sub rsp, 8",
        "call {begin}",
        "add rsp, 8",
        "test al, al",
        "jz {fork}",
        "pop rdi",
        "mov eax, {nr}",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        "mov rdi, rax",
        "sub rsp, 8",
        "call {end}",
        "add rsp, 8",
        "2:",
        "ret",
        begin = sym begin,
        fork = sym fork,
        nr = const SYS_vfork,
        end = sym end,
    )
}

/// Whether a child may have this process's memory, as one will now.
extern "C" fn begin() -> bool {
    // SAFETY: the C library's variable, which it writes before it makes a thread.
    let is_alone = unsafe { (&raw const __libc_single_threaded).read_volatile() } != 0;
    is_alone && post::begin_vfork()
}

/// The parent goes on: the child has executed a file or has ended, or there is none.
extern "C" fn end(result: i64) -> ssize_t {
    post::end_vfork();
    memory::unmap_left();
    finish(result)
}

extern "C" fn fork() -> pid_t {
    // SAFETY: by the caller of vfork(2), which may do less in this child.
    unsafe { libc::fork() }
}
