//! The clocks that programs read without a system call, as they do on the host: what is written over clock_gettime(2) in a
//! program's vDSO shows what the worker has written beside it, before it let the program go on.
//!
//! Each process has a copy of its own, which its children inherit. That may be looked at so many times only until
//! time passes: then the worker is asked, which must notice whoever waits for time in a loop. Counting down makes the
//! page be written to, so the code asks for that first; where that is refused, and for any other clock, it makes the
//! system call.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::begin::Auxiliary;
use super::clocks::{timespec, BOOTED, CPU_PER_CALL};
use super::{vdso, Patience};
use crate::target;
use crate::worker::Worker;

/// So many looks are free of a system call.
const LOOKS: u32 = 1_000;
/// What is written behind the code: two clocks, the CPU time of process and thread, how many looks are free.
const WRITTEN: usize = 52;
/// Behind that: what looks at CPU time have added to it.
const LOOKED: u64 = 56;

// int clock_gettime(clockid_t edi, struct timespec *rsi): 0, 5: CLOCK_REALTIME; 1, 4, 6, 7: CLOCK_MONOTONIC and those
// that are as it here; 2, 3: CPU time of process and thread, to which each look adds a call's.
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

/// The code, to be written at `offset` in an image of a vDSO of this length, and where in that the clocks are.
pub(super) fn code(offset: u64, length: u64) -> (Vec<u8>, u64) {
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

/// What a process reads of the clock.
pub(crate) struct Shown {
    /// Its memory, and where the clocks are in it; `None`: it makes a system call.
    place: Option<(File, u64)>,
    /// What they show, and for which thread; `None`: not known.
    state: Option<(u64, i32)>,
}

impl Shown {
    /// Of a process whose vDSO may have been replaced.
    fn of(pid: i32) -> Shown {
        let base = Auxiliary::of(pid).and_then(|auxiliary| auxiliary.vdso);
        let place = base.and_then(|base| vdso::clocks_of(pid, base));
        Shown { place, state: None }
    }
}

impl Worker {
    /// The process has a new vDSO.
    pub(super) fn show_from(&mut self, pid: i32, place: Option<(File, u64)>) {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.shown.insert(pid, Shown { place, state: None });
    }

    /// What the process's looks at its CPU time have added to that, in ns.
    pub(super) fn looked(&self, pid: i32) -> u64 {
        let shown = self.turn.as_ref().and_then(|turn| turn.shown.get(&pid));
        let place = shown.and_then(|shown| shown.place.as_ref());
        place
            .and_then(|(_, address)| target::read_u64(pid, address + LOOKED))
            .unwrap_or(0)
    }

    /// The process has been told its CPU time: what it reads must not be behind that.
    pub(super) fn show_again(&mut self, tid: i32) {
        let pid = self.threads[&tid].pid;
        let turn = self.turn.as_mut().expect("virtual time");
        if let Some(shown) = turn.shown.get_mut(&pid) {
            shown.state = None;
        }
    }

    /// Before the thread goes on: its process is to read what time it is.
    pub(crate) fn show_time(&mut self, tid: i32, patience: Patience) {
        let now = self.kernel.now();
        let Some(turn) = &mut self.turn else { return };
        let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) else {
            return;
        };
        // Each look costs time then, and must be known.
        if !turn.how.charge.call.is_zero() {
            return;
        }
        let leaves = patience == Patience::Executes;
        if leaves && !turn.shown.contains_key(&pid) {
            // Its memory is about to be another.
            return;
        }
        let shown = turn.shown.entry(pid).or_insert_with(|| Shown::of(pid));
        if shown.place.is_none() || shown.state == Some((now, tid)) {
            return;
        }
        shown.state = Some((now, tid));
        let mut all = [0; WRITTEN];
        let mut at = 0;
        let mut add = |bytes: &[u8]| {
            all[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        add(&timespec(now + BOOTED));
        add(&timespec(self.kernel.date(now)));
        add(&self
            .counted_time(&self.processes[&pid].threads)
            .to_ne_bytes());
        add(&self.counted_time(&[tid]).to_ne_bytes());
        add(&LOOKS.to_ne_bytes());
        let turn = self.turn.as_mut().expect("virtual time");
        let shown = turn.shown.get_mut(&pid).expect("just looked at");
        let written = shown
            .place
            .as_ref()
            .map(|(memory, address)| memory.write_all_at(&all, *address));
        if written.is_some_and(|written| written.is_err()) {
            // It is dying, or has mapped something else there.
            shown.place = None;
        }
    }

    /// Time has passed: those who may go on without the worker are to read that.
    pub(super) fn show_time_to_wanderers(&mut self) {
        let turn = self.turn.as_ref().expect("virtual time");
        if turn.inside.is_empty() && turn.vforked.is_empty() && turn.out.is_empty() {
            return;
        }
        let inside = turn.inside.iter().map(|(tid, _)| *tid);
        let vforked = turn.vforked.iter().map(|(tid, _)| *tid);
        let out = turn.out.iter().map(|out| out.tid);
        let tids: Vec<i32> = inside.chain(vforked).chain(out).collect();
        for tid in tids {
            self.show_time(tid, Patience::MayWait);
        }
    }
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
