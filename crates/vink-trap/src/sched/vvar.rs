//! The clocks that programs read without a system call, as they do on the host: code written over
//! clock_gettime(2) in a program's vDSO returns what the worker has written beside it, before it
//! let the program run.
//!
//! Each process has a copy of its own, which its children inherit. It may be read so many times
//! only until time passes: then the code makes the system call, so that the worker notices a loop
//! that waits for time. Counting down writes to the page, so the code makes it writable first;
//! where that is refused, and for any other clock, it makes the system call.
//!
//! Nothing is published to a process that does not read: at first it may read no times, so that its
//! first read is a system call, by which the worker knows of it; and again when what was published
//! has not been read for a while.

use super::auxv::Auxv;
use vink_sched::timespec;

use super::clocks::{BOOTED, CPU_PER_CALL};
use super::{vdso, Scheduler, ThreadState, VirtualWorker};
use crate::tracee;

/// So many reads need no system call.
const FREE_READS: u32 = 1_000;
/// Each so many times it is checked whether what was published last has been read.
const CHECK_INTERVAL: u32 = 8;
/// What is written behind the code: two clocks, the CPU time of process and thread, how many reads
/// are free.
const WRITTEN: usize = 4 * vink_ring::CLOCK_WORDS;
/// Where the last of them is.
const FREE: u64 = 48;
/// Behind that: what reads of the CPU time have added to it.
const LOOKED: u64 = 56;

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
pub(crate) struct VvarPage {
    /// Where the clocks are in its memory; `None`: it makes a system call.
    place: Option<u64>,
    /// What they show, and for which thread; `None`: not known.
    state: Option<(u64, i32)>,
    /// It reads them, or may have inherited what was published to another.
    wanted: bool,
    /// Another process has the same memory, and may be shown another time.
    shared: bool,
    /// How often it was shown something.
    times: u32,
    /// The last time, that could be written.
    written: bool,
}

impl VvarPage {
    /// Of a process that has just been executed, and may not look.
    fn new(place: Option<u64>) -> VvarPage {
        VvarPage {
            place,
            state: None,
            wanted: false,
            shared: false,
            times: 0,
            written: false,
        }
    }

    /// Of one that was forked, or whose vDSO may have been replaced.
    fn of(pid: i32) -> VvarPage {
        let base = Auxv::of(pid).and_then(|auxiliary| auxiliary.vdso);
        let parent = tracee::tgid_and_ppid(pid).map(|(_, parent)| parent);
        VvarPage {
            wanted: true,
            shared: parent.is_none_or(|parent| tracee::share_memory(pid, parent)),
            ..VvarPage::new(base.and_then(|base| vdso::clocks_of(pid, base)))
        }
    }
}

impl VirtualWorker<'_> {
    /// The process has read its CPU time by a call: what it reads here must not be behind that.
    pub(super) fn republish_time(&mut self, tid: i32) {
        let pid = self.worker.table.pid_of(tid);
        let sched = self.worker.clock.sched_mut();
        if let Some(shown) = sched.vvars.get_mut(&pid) {
            shown.state = None;
        }
    }

    /// Before the thread goes on: its process is to read what time it is.
    pub(crate) fn publish_time(&mut self, tid: i32, state: ThreadState) {
        self.write_and_publish_time(tid, &[], state);
    }

    /// The same, and writes other things into its memory before. How many bytes of those could be
    /// written.
    pub(crate) fn write_and_publish_time(
        &mut self,
        tid: i32,
        parts: &[(u64, &[u8])],
        state: ThreadState,
    ) -> usize {
        let clock = self.next_vvar(tid, state);
        let clock = clock.as_ref().map(|(place, bytes)| (*place, &bytes[..]));
        if parts.is_empty() && clock.is_none() {
            return 0;
        }
        let wanted: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        let all: Vec<(u64, &[u8])> = parts.iter().copied().chain(clock).collect();
        let written = tracee::write_parts(tid, &all);
        if let Some(clock) = clock {
            let missed = written < wanted + WRITTEN;
            let missed = missed && (written >= wanted || !tracee::write(tid, clock.0, clock.1));
            let pid = self.worker.table.pid_of(tid);
            let sched = self.worker.clock.sched_mut();
            if let Some(shown) = sched.vvars.get_mut(&pid) {
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
    pub(super) fn next_vvar(
        &mut self,
        tid: i32,
        state: ThreadState,
    ) -> Option<(u64, [u8; WRITTEN])> {
        let sched = self.worker.clock.sched_mut();
        let now = self.worker.kernel.now();
        let pid = self.worker.table.find_pid(tid)?;
        // Each look costs time then, and must be known.
        if !sched.config.charge.call.is_zero() {
            return None;
        }
        let leaves = state == ThreadState::InExec;
        if leaves && !sched.vvars.contains_key(&pid) {
            // Its memory is about to be another.
            return None;
        }
        let shown = sched.vvars.entry(pid).or_insert_with(|| VvarPage::of(pid));
        let place = shown.place.filter(|_| shown.wanted);
        let Some(place) = place.filter(|_| shown.state != Some((now, tid))) else {
            if leaves {
                sched.vvars.remove(&pid);
            }
            return None;
        };
        shown.state = Some((now, tid));
        shown.times += 1;
        let mut looks = FREE_READS;
        if shown.times.is_multiple_of(CHECK_INTERVAL) && !shown.shared {
            let mut left = [0; 4];
            if tracee::read(tid, place + FREE, &mut left) && u32::from_ne_bytes(left) == FREE_READS
            {
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
        add(&timespec(self.worker.kernel.date(now)));
        add(&self
            .worker
            .clock
            .sched()
            .cpu_time_of(self.worker.table.threads_of(pid))
            .to_ne_bytes());
        add(&self.worker.clock.sched().cpu_time_of(&[tid]).to_ne_bytes());
        add(&looks.to_ne_bytes());
        if leaves {
            // Where it was shown the time there may be something else soon.
            let sched = self.worker.clock.sched_mut();
            sched.vvars.remove(&pid);
        }
        Some((place, all))
    }

    /// Time has passed: publishes it to threads that may go on without the worker.
    pub(super) fn publish_time_to_runaways(&mut self) {
        let sched = self.worker.clock.sched();
        if sched.blocked_on_host.is_empty() && sched.vforked.is_empty() && sched.running.is_empty()
        {
            return;
        }
        let inside = sched.blocked_on_host.iter().map(|(tid, _)| *tid);
        let vforked = sched.vforked.iter().map(|(tid, _)| *tid);
        let out = sched.running.iter().map(|out| out.tid);
        let tids: Vec<i32> = inside.chain(vforked).chain(out).collect();
        for tid in tids {
            self.publish_time(tid, ThreadState::MayBlock);
        }
    }
}

impl Scheduler {
    /// Whether the process's memory could be written to when it was shown the clock last, and is
    /// its own.
    pub(super) fn is_time_published(&self, pid: i32) -> bool {
        let shown = self.vvars.get(&pid);
        shown.is_some_and(|shown| shown.written && !shown.shared)
    }

    /// The process is to have a child with the same memory.
    pub(super) fn keep_vvar_current(&mut self, pid: i32) {
        let shown = self.vvars.entry(pid).or_insert_with(|| VvarPage::of(pid));
        (shown.wanted, shown.shared) = (true, true);
    }

    /// The process has a new vDSO.
    pub(super) fn set_vvar_page(&mut self, pid: i32, place: Option<u64>) {
        self.vvars.insert(pid, VvarPage::new(place));
    }

    /// The process has asked for the time by a system call.
    pub(super) fn start_publishing_time(&mut self, pid: i32) {
        if let Some(shown) = self.vvars.get_mut(&pid).filter(|shown| !shown.wanted) {
            (shown.wanted, shown.state) = (true, None);
        }
    }

    /// What the process's reads of its CPU time have added to that, in ns.
    pub(super) fn vvar_cpu_time(&self, pid: i32) -> u64 {
        let shown = self.vvars.get(&pid);
        let place = shown.and_then(|shown| shown.place.as_ref());
        place
            .and_then(|address| tracee::read_u64(pid, address + LOOKED))
            .unwrap_or(0)
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
