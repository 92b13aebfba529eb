//! The code that stands in for clock_gettime(2) in a program's vDSO (`vvar`), and the clocks that are
//! behind it.

/// What each trapped call is taken to cost of CPU time: a program that divides by it finds no zero.
pub(in crate::sched) const CPU_PER_CALL: u64 = 1_000;
/// Behind the clocks: what reads of the CPU time have added to it.
pub(in crate::sched) const LOOKED: u64 = 56;

// int clock_gettime(clockid_t edi, struct timespec *rsi): 0, 5: CLOCK_REALTIME; 1, 4, 6, 7:
// CLOCK_MONOTONIC and those that are as it here; 2, 3: CPU time of process and thread, to which
// each read adds a call's.
core::arch::global_asm!(
    ".pushsection .rodata.vink_clock, \"a\"",
    ".balign 8",
    "vink_clock_begin:",
    "cmp edi, 7",
    "ja 4f",
    "cmp byte ptr [rip + vink_clock_writable], 0",
    "je 3f",
    "2: cmp dword ptr [rip + vink_clock_looks], 0",
    "je 4f",
    "dec dword ptr [rip + vink_clock_looks]",
    "mov eax, 0x0c",
    "bt eax, edi",
    "jc 5f",
    "mov eax, 0x21",
    "bt eax, edi",
    "lea rax, [rip + vink_clock_monotonic]",
    "lea rdx, [rip + vink_clock_date]",
    "cmovc rax, rdx",
    "mov rdx, [rax]",
    "mov [rsi], rdx",
    "mov rdx, [rax + 8]",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    // mprotect(2) of the whole image, which can't be split.
    "3: mov r8, rdi",
    "mov r9, rsi",
    "lea rdi, [rip + vink_clock_begin]",
    "sub rdi, [rip + vink_clock_offset]",
    "mov rsi, [rip + vink_clock_length]",
    "mov edx, 7",
    "mov eax, 10",
    "syscall",
    "mov rdi, r8",
    "mov rsi, r9",
    "test eax, eax",
    "jnz 4f",
    "mov byte ptr [rip + vink_clock_writable], 1",
    "jmp 2b",
    "4: mov eax, 228",
    "syscall",
    "ret",
    "5: mov ecx, edi",
    "lea rdx, [rip + vink_clock_processor]",
    "mov rax, [rdx + 8 * rcx - 16]",
    "add qword ptr [rip + vink_clock_looked], {call}",
    "add rax, [rip + vink_clock_looked]",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    ".balign 8",
    "vink_clock_offset: .quad 0",
    "vink_clock_length: .quad 0",
    "vink_clock_monotonic: .quad 0, 0",
    "vink_clock_date: .quad 0, 0",
    "vink_clock_processor: .quad 0, 0",
    "vink_clock_looks: .long 0",
    "vink_clock_writable: .long 0",
    "vink_clock_looked: .quad 0",
    "vink_clock_end:",
    ".popsection",
    call = const CPU_PER_CALL,
);

extern "C" {
    static vink_clock_begin: u8;
    static vink_clock_offset: u8;
    static vink_clock_monotonic: u8;
    static vink_clock_end: u8;
}

/// The code, to be written at `offset` in an image of a vDSO of this length, and where in that the
/// clocks are.
pub(in crate::sched) fn code(offset: u64, length: u64) -> (Vec<u8>, u64) {
    // SAFETY: the labels are around constant bytes; their order is that above.
    let (bytes, place, clocks) = unsafe {
        let begin = &raw const vink_clock_begin;
        let distance = |label: *const u8| label.offset_from(begin) as usize;
        let all = std::slice::from_raw_parts(begin, distance(&raw const vink_clock_end));
        let clocks = distance(&raw const vink_clock_monotonic);
        (all, distance(&raw const vink_clock_offset), clocks)
    };
    let mut code = bytes.to_vec();
    code[place..place + 8].copy_from_slice(&offset.to_le_bytes());
    code[place + 8..place + 16].copy_from_slice(&length.to_le_bytes());
    (code, offset + clocks as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_are_behind_the_code() {
        let (code, clocks) = code(0x123, 0x2000);
        assert_eq!(clocks, 0x123 + code.len() as u64 - LOOKED - 8);
        let at = code.len() - LOOKED as usize - 8 - 16;
        assert_eq!(code[at..at + 2], [0x23, 0x01]);
        assert_eq!(code[at + 8..at + 10], [0, 0x20]);
        assert!(code[at + 16..].iter().all(|byte| *byte == 0));
    }
}
