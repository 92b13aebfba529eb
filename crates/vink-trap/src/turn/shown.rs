//! The clocks that programs read without a system call, as they do on the host: what is written over clock_gettime(2) in a
//! program's vDSO shows what the worker has written beside it, before it let the program go on.
//!
//! Each process has a copy of its own, which its children inherit. That may be looked at so many times only until
//! time passes: then the worker is asked, which must notice whoever waits for time in a loop. Counting down makes the
//! page be written to, so the code asks for that first; where that is refused, and for any other clock, it makes the
//! system call.
//!
//! Nothing is shown to a process that does not look: at first it may look no times, so that its first look is a system call, by
//! which the worker knows of it; and again when what was shown has not been looked at for a while.

use super::begin::Auxiliary;
use super::clocks::{timespec, BOOTED, CPU_PER_CALL};
use super::{vdso, Patience};
use crate::target;
use crate::worker::Worker;

/// So many looks are free of a system call.
const LOOKS: u32 = 1_000;
/// Each so many times it is asked whether what was shown last has been looked at.
const UNSEEN: u32 = 8;
/// What is written behind the code: two clocks, the CPU time of process and thread, how many looks are free.
const WRITTEN: usize = 4 * vink_mailbox::CLOCK;
/// Where the last of them is.
const FREE: u64 = 48;
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
    /// Where the clocks are in its memory; `None`: it makes a system call.
    place: Option<u64>,
    /// What they show, and for which thread; `None`: not known.
    state: Option<(u64, i32)>,
    /// It looks at them, or may have inherited what another was shown.
    wanted: bool,
    /// Another process has the same memory, and may be shown another time.
    shared: bool,
    /// How often it was shown something.
    times: u32,
    /// The last time, that could be written.
    written: bool,
}

impl Shown {
    /// Of a process that has just been executed, and may not look.
    fn new(place: Option<u64>) -> Shown {
        Shown {
            place,
            state: None,
            wanted: false,
            shared: false,
            times: 0,
            written: false,
        }
    }

    /// Of one that was forked, or whose vDSO may have been replaced.
    fn of(pid: i32) -> Shown {
        let base = Auxiliary::of(pid).and_then(|auxiliary| auxiliary.vdso);
        let parent = target::kin(pid).map(|(_, parent)| parent);
        Shown {
            wanted: true,
            shared: parent.is_none_or(|parent| target::share_memory(pid, parent)),
            ..Shown::new(base.and_then(|base| vdso::clocks_of(pid, base)))
        }
    }
}

impl Worker {
    /// The process has a new vDSO.
    pub(super) fn show_from(&mut self, pid: i32, place: Option<u64>) {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.shown.insert(pid, Shown::new(place));
    }

    /// The process is to have a child with the same memory.
    pub(super) fn show_for_ever(&mut self, pid: i32) {
        let turn = self.turn.as_mut().expect("virtual time");
        let shown = turn.shown.entry(pid).or_insert_with(|| Shown::of(pid));
        (shown.wanted, shown.shared) = (true, true);
    }

    /// The process has asked for the time by a system call.
    pub(super) fn show_from_now_on(&mut self, pid: i32) {
        let turn = self.turn.as_mut().expect("virtual time");
        if let Some(shown) = turn.shown.get_mut(&pid).filter(|shown| !shown.wanted) {
            (shown.wanted, shown.state) = (true, None);
        }
    }

    /// Whether the process's memory could be written to when it was shown the clock last, and is its own.
    pub(super) fn is_shown_for_sure(&self, pid: i32) -> bool {
        let shown = self.turn.as_ref().and_then(|turn| turn.shown.get(&pid));
        shown.is_some_and(|shown| shown.written && !shown.shared)
    }

    /// What the process's looks at its CPU time have added to that, in ns.
    pub(super) fn looked(&self, pid: i32) -> u64 {
        let shown = self.turn.as_ref().and_then(|turn| turn.shown.get(&pid));
        let place = shown.and_then(|shown| shown.place.as_ref());
        place
            .and_then(|address| target::read_u64(pid, address + LOOKED))
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
        self.write_and_show_time(tid, &[], patience);
    }

    /// The same, and writes other things into its memory before. How many bytes of those could be written.
    pub(crate) fn write_and_show_time(
        &mut self,
        tid: i32,
        parts: &[(u64, &[u8])],
        patience: Patience,
    ) -> usize {
        let clock = self.next_shown(tid, patience);
        let clock = clock.as_ref().map(|(place, bytes)| (*place, &bytes[..]));
        if parts.is_empty() && clock.is_none() {
            return 0;
        }
        let wanted: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        let all: Vec<(u64, &[u8])> = parts.iter().copied().chain(clock).collect();
        let written = target::write_parts(tid, &all);
        if let Some(clock) = clock {
            let missed = written < wanted + WRITTEN;
            let missed = missed && (written >= wanted || !target::write(tid, clock.0, clock.1));
            let pid = self.threads[&tid].pid;
            let turn = self.turn.as_mut().expect("virtual time");
            if let Some(shown) = turn.shown.get_mut(&pid) {
                shown.written = !missed;
                if missed {
                    // Its vDSO can't be written to yet, since it has not looked, or no longer.
                    (shown.wanted, shown.state) = (shown.shared, None);
                }
            }
        }
        written.min(wanted)
    }

    /// What is to be written for it, and where.
    pub(super) fn next_shown(
        &mut self,
        tid: i32,
        patience: Patience,
    ) -> Option<(u64, [u8; WRITTEN])> {
        let now = self.kernel.now();
        let turn = self.turn.as_mut()?;
        let pid = self.threads.get(&tid)?.pid;
        // Each look costs time then, and must be known.
        if !turn.how.charge.call.is_zero() {
            return None;
        }
        let leaves = patience == Patience::Executes;
        if leaves && !turn.shown.contains_key(&pid) {
            // Its memory is about to be another.
            return None;
        }
        let shown = turn.shown.entry(pid).or_insert_with(|| Shown::of(pid));
        let place = shown.place.filter(|_| shown.wanted);
        let Some(place) = place.filter(|_| shown.state != Some((now, tid))) else {
            if leaves {
                turn.shown.remove(&pid);
            }
            return None;
        };
        shown.state = Some((now, tid));
        shown.times += 1;
        let mut looks = LOOKS;
        if shown.times.is_multiple_of(UNSEEN) && !shown.shared {
            let mut left = [0; 4];
            if target::read(tid, place + FREE, &mut left) && u32::from_ne_bytes(left) == LOOKS {
                (looks, shown.wanted) = (0, false);
            }
        }
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
        add(&looks.to_ne_bytes());
        if leaves {
            // Where it was shown the time there may be something else soon.
            let turn = self.turn.as_mut().expect("virtual time");
            turn.shown.remove(&pid);
        }
        Some((place, all))
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
