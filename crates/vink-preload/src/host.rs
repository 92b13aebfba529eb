//! System calls of the host, from the only code of the process whose calls are never dispatched.
//!
//! The kernel is told that range of addresses (`dispatch`): here a call is made directly, a signal handler
//! returns, and a thread or process begins that has been asked for by a dispatched clone(2).

use std::arch::global_asm;
use std::ops::Range;

/// The registers of a program that makes clone(2) with a stack of the child's own: the child goes on with
/// them, on that stack.
#[repr(C)]
pub(crate) struct Registers {
    pub nr: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub r10: u64,
    pub r8: u64,
    pub r9: u64,
    pub rbx: u64,
    pub rbp: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
}

global_asm!(
    ".pushsection .text.vink_host,\"ax\",@progbits",
    ".balign 64",
    ".globl vink_host_start",
    ".hidden vink_host_start",
    "vink_host_start:",
    // (nr, a0..a5): as syscall(2), but -errno.
    ".globl vink_host_call",
    ".hidden vink_host_call",
    ".type vink_host_call, @function",
    "vink_host_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "ret",
    // Where a signal handler returns to.
    ".globl vink_host_restorer",
    ".hidden vink_host_restorer",
    ".type vink_host_restorer, @function",
    "vink_host_restorer:",
    "mov eax, 15",
    "syscall",
    "ud2",
    // (stack pointer): returns from the handler whose frame is there.
    ".globl vink_host_sigreturn",
    ".hidden vink_host_sigreturn",
    ".type vink_host_sigreturn, @function",
    "vink_host_sigreturn:",
    "mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    // (registers): clone(2) or clone3(2) with a stack. What the child is to know is below the top of its
    // stack: where it goes on, and whether it is a thread.
    ".globl vink_host_clone",
    ".hidden vink_host_clone",
    ".type vink_host_clone, @function",
    "vink_host_clone:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov r11, rdi",
    "mov rax, [r11]",
    "mov rdi, [r11 + 8]",
    "mov rsi, [r11 + 16]",
    "mov rdx, [r11 + 24]",
    "mov r10, [r11 + 32]",
    "mov r8, [r11 + 40]",
    "mov r9, [r11 + 48]",
    "mov rbx, [r11 + 56]",
    "mov rbp, [r11 + 64]",
    "mov r12, [r11 + 72]",
    "mov r13, [r11 + 80]",
    "mov r14, [r11 + 88]",
    "mov r15, [r11 + 96]",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    "2:",
    "sub rsp, 8",
    "cmp qword ptr [rsp - 8], 0",
    "je 3f",
    "push rbp",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "mov rbp, rsp",
    "and rsp, -16",
    "call vink_thread_begins",
    "mov rsp, rbp",
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rbp",
    "3:",
    "xor eax, eax",
    "ret",
    ".globl vink_host_end",
    ".hidden vink_host_end",
    "vink_host_end:",
    // (to, from, bytes): memcpy() that may meet a bad address. How many bytes are left.
    ".globl vink_copy",
    ".hidden vink_copy",
    ".type vink_copy, @function",
    "vink_copy:",
    "mov rcx, rdx",
    ".globl vink_copy_at",
    ".hidden vink_copy_at",
    "vink_copy_at:",
    "rep movsb",
    ".globl vink_copy_end",
    ".hidden vink_copy_end",
    "vink_copy_end:",
    "mov rax, rcx",
    "ret",
    ".popsection",
);

extern "C" {
    static vink_host_start: u8;
    static vink_host_end: u8;
    static vink_copy_at: u8;
    static vink_copy_end: u8;
    fn vink_host_call(nr: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64;
    fn vink_host_restorer();
    /// rt_sigreturn(2) as if it were made with this stack pointer.
    ///
    /// # Safety
    /// A signal's frame is there.
    #[link_name = "vink_host_sigreturn"]
    pub(crate) fn sigreturn(stack: u64) -> !;
    /// clone(2) or clone3(2) whose child has a stack of its own.
    ///
    /// # Safety
    /// The 16 bytes below the top of that stack hold whether the child is a thread, and where it goes on.
    #[link_name = "vink_host_clone"]
    pub(crate) fn clone(registers: &Registers) -> i64;
    fn vink_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
}

/// Makes a system call of the host: its result, or `-errno`.
#[inline]
pub(crate) fn call(nr: i64, args: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: what the program has asked for, or as syscall(2) of the caller's valid arguments.
    unsafe { vink_host_call(nr, a, b, c, d, e, f) }
}

/// The code whose calls the kernel is to leave alone.
pub(crate) fn text() -> Range<u64> {
    (&raw const vink_host_start) as u64..(&raw const vink_host_end) as u64
}

/// Of a `struct kernel_sigaction`.
pub(crate) fn restorer() -> u64 {
    vink_host_restorer as *const () as u64
}

/// Where to go on instead if a fault has happened here: [`read`] or [`write`] has met a bad address.
pub(crate) fn resume_after(rip: u64) -> Option<u64> {
    (rip == (&raw const vink_copy_at) as u64).then_some((&raw const vink_copy_end) as u64)
}

/// Copies from where the program says. `false`: it can't be read.
pub(crate) fn read<T: Copy>(into: &mut [T], from: u64) -> bool {
    // SAFETY: as many bytes as there is room for; a bad address is found by the fault.
    unsafe {
        vink_copy(
            into.as_mut_ptr().cast(),
            from as *const u8,
            size_of_val(into),
        ) == 0
    }
}

/// Copies to where the program says. `false`: it can't be written.
pub(crate) fn write<T: Copy>(to: u64, from: &[T]) -> bool {
    // SAFETY: as many bytes as there are; a bad address is found by the fault.
    unsafe { vink_copy(to as *mut u8, from.as_ptr().cast(), size_of_val(from)) == 0 }
}
