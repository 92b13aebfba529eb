//! What a handler without `SA_RESTART` returns to: a system call that has not begun is made again.
//!
//! A signal that comes between a system call and its reception by the worker takes the thread out
//! of a call that has not begun. The host's kernel has `ERESTARTSYS` for it
//! (`seccomp_do_user_notification()`), makes `EINTR` of that unless the handler has `SA_RESTART`,
//! and informs neither the worker nor the program. But the call's result and the address behind its
//! instruction are in the frame on the stack to which the handler returns, and how it returns is up
//! to sigaction(2): `sa_restorer`.
//!
//! So sigaction(2) with a new handler is trapped, and where there is no `SA_RESTART` the restorer
//! becomes the code below, which the worker has put behind the vDSO in the process's memory. It
//! examines the frame: if the thread was just behind a system call with the result `EINTR`, the
//! number of the call is in the instruction before (`mov $NUMBER, %eax`), and this call never fails
//! so by itself, the frame is set back to that instruction. All arguments are still in their
//! registers. A call without a signal costs nothing more.
//!
//! Which calls these are: those that neither the host nor the worker ever interrupts; reads and
//! writes if the file can be sought in, which no pipe, terminal or socket can; open(2) but of a
//! FIFO or a device; fcntl(2) but for locks; ioctl(2) of sockets.
//!
//! Handlers of faults keep their restorer, since crash reporters unwind through it, and so do the C
//! library's own signals.

use std::fs::File;
use std::os::unix::fs::FileExt;

use vink_syscalls::{restart, Restart};

use crate::sched::determinism::auxv::Auxv;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

/// Of `struct kernel_sigaction`: handler, flags, restorer.
const FLAGS: u64 = 8;
const RESTORER: u64 = 16;
/// See sigaction(2), of `<asm/signal.h>`.
const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
/// `SIG_DFL` and `SIG_IGN`.
const NO_HANDLERS: u64 = 1;
/// The C library's own: cancellation, changes of users.
const OWN: std::ops::RangeInclusive<u64> = 32..=33;
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];
const PAGE: u64 = 4096;

/// A set of 64 calls, those from `64 * word` on: which of them are made again so.
const fn word(set: Restart, word: i64) -> u64 {
    let (mut bits, mut bit) = (0, 0);
    while bit < 64 {
        if restart(64 * word + bit) as u8 == set as u8 {
            bits |= 1 << bit;
        }
        bit += 1;
    }
    bits
}

// At rsp is the `struct ucontext`: rdi is at 104, rsi at 112, rax at 144, rcx at 152, rip at 168.
// Below rsp nothing is kept. All registers may be used.
core::arch::global_asm!(
    ".pushsection .rodata.vink_restorer, \"a\"",
    ".balign 16",
    "vink_restorer_begin:",
    "cmp qword ptr [rsp + 144], -{eintr}",
    "jne 9f",
    // Behind a system call's instruction rcx is rip.
    "mov rax, [rsp + 168]",
    "cmp rax, [rsp + 152]",
    "jne 9f",
    // The instruction before may be in a page that is not there.
    "mov ecx, eax",
    "and ecx, 0xfff",
    "cmp ecx, 7",
    "jb 9f",
    "cmp word ptr [rax - 2], 0x050f",
    "jne 9f",
    "cmp byte ptr [rax - 7], 0xb8",
    "jne 9f",
    "mov edx, [rax - 6]",
    "cmp edx, 511",
    "ja 9f",
    "lea rcx, [rip + vink_restorer_never]",
    "bt dword ptr [rcx], edx",
    "jc 8f",
    "bt dword ptr [rcx + 64], edx",
    "jc 2f",
    "cmp edx, {fcntl}",
    "je 3f",
    "cmp edx, {ioctl}",
    "je 4f",
    "mov rdi, {here}",
    "mov rsi, [rsp + 104]",
    "cmp edx, {open}",
    "je 5f",
    "mov rdi, [rsp + 104]",
    "mov rsi, [rsp + 112]",
    "cmp edx, {openat}",
    "je 5f",
    "cmp edx, {openat2}",
    "jne 9f",
    "jmp 5f",
    // lseek(fd, 0, SEEK_CUR)
    "2: mov rdi, [rsp + 104]",
    "xor esi, esi",
    "mov edx, 1",
    "mov eax, {lseek}",
    "syscall",
    "test rax, rax",
    "js 9f",
    "jmp 8f",
    // Not F_SETLKW, F_OFD_SETLKW.
    "3: mov eax, [rsp + 112]",
    "cmp eax, {setlkw}",
    "je 9f",
    "cmp eax, {ofd_setlkw}",
    "je 9f",
    "jmp 8f",
    // 0x89.., FIONBIO, FIONREAD.
    "4: mov eax, [rsp + 112]",
    "cmp eax, {fionbio}",
    "je 8f",
    "cmp eax, {fionread}",
    "je 8f",
    "and eax, 0xff00",
    "cmp eax, 0x8900",
    "jne 9f",
    "jmp 8f",
    // newfstatat(directory, path, rsp, 0), which is trapped itself. What is not there yet is no
    // FIFO.
    "5: sub rsp, 256",
    "mov rdx, rsp",
    "xor r10d, r10d",
    "6: mov eax, {newfstatat}",
    "syscall",
    "cmp rax, -{eintr}",
    "je 6b",
    "mov ecx, [rsp + 24]",
    "add rsp, 256",
    "test rax, rax",
    "js 8f",
    "and ecx, {kinds}",
    "cmp ecx, {fifo}",
    "je 9f",
    "cmp ecx, {device}",
    "je 9f",
    "8: sub qword ptr [rsp + 168], 7",
    "9: mov eax, {rt_sigreturn}",
    "syscall",
    "hlt",
    ".balign 8",
    "vink_restorer_never:",
    ".quad {n0}, {n1}, {n2}, {n3}, {n4}, {n5}, {n6}, {n7}",
    ".quad {f0}, {f1}, {f2}, {f3}, {f4}, {f5}, {f6}, {f7}",
    "vink_restorer_end:",
    ".popsection",
    eintr = const libc::EINTR,
    here = const libc::AT_FDCWD,
    fcntl = const libc::SYS_fcntl,
    ioctl = const libc::SYS_ioctl,
    open = const libc::SYS_open,
    openat = const libc::SYS_openat,
    openat2 = const libc::SYS_openat2,
    lseek = const libc::SYS_lseek,
    newfstatat = const libc::SYS_newfstatat,
    rt_sigreturn = const libc::SYS_rt_sigreturn,
    setlkw = const libc::F_SETLKW,
    ofd_setlkw = const libc::F_OFD_SETLKW,
    fionbio = const libc::FIONBIO,
    fionread = const libc::FIONREAD,
    kinds = const libc::S_IFMT,
    fifo = const libc::S_IFIFO,
    device = const libc::S_IFCHR,
    n0 = const word(Restart::Always, 0),
    n1 = const word(Restart::Always, 1),
    n2 = const word(Restart::Always, 2),
    n3 = const word(Restart::Always, 3),
    n4 = const word(Restart::Always, 4),
    n5 = const word(Restart::Always, 5),
    n6 = const word(Restart::Always, 6),
    n7 = const word(Restart::Always, 7),
    f0 = const word(Restart::OnFiles, 0),
    f1 = const word(Restart::OnFiles, 1),
    f2 = const word(Restart::OnFiles, 2),
    f3 = const word(Restart::OnFiles, 3),
    f4 = const word(Restart::OnFiles, 4),
    f5 = const word(Restart::OnFiles, 5),
    f6 = const word(Restart::OnFiles, 6),
    f7 = const word(Restart::OnFiles, 7),
);

extern "C" {
    static vink_restorer_begin: u8;
    static vink_restorer_end: u8;
}

/// The code, which may be anywhere.
fn code() -> &'static [u8] {
    // SAFETY: the labels are around constant bytes, in this order.
    unsafe {
        let (begin, end) = (&raw const vink_restorer_begin, &raw const vink_restorer_end);
        std::slice::from_raw_parts(begin, end.offset_from(begin) as usize)
    }
}

/// A thread is about to set a handler: lets it return to the code above. Whatever is missing
/// for that, the handler returns as the program says.
pub(crate) fn set(call: SyscallCtx) {
    let [signal, action, ..] = call.args;
    let mut words = [0; 24];
    if OWN.contains(&signal)
        || FAULTS.iter().any(|fault| *fault as u64 == signal)
        || !tracee::read(call.tid, action, &mut words)
    {
        return;
    }
    let word = |at: u64| {
        let at = at as usize;
        u64::from_ne_bytes(words[at..at + 8].try_into().expect("eight bytes"))
    };
    if word(0) <= NO_HANDLERS || word(FLAGS) & (SA_RESTART | SA_RESTORER) != SA_RESTORER {
        return;
    }
    if let Some(address) = place(call.pid) {
        // The C library's own copy of what the program has given it.
        tracee::write(
            call.tid,
            action.wrapping_add(RESTORER),
            &address.to_ne_bytes(),
        );
    }
}

/// Where a process has the code: behind the vDSO's last section, in the same page. Puts it there if
/// it has not.
fn place(pid: i32) -> Option<u64> {
    let base = Auxv::of(pid)?.vdso?;
    let mut head = [0; 64];
    if !tracee::read(pid, base, &mut head) {
        return None;
    }
    let offset = behind(&head)?;
    let address = base + offset;
    let mut there = vec![0; code().len()];
    if !tracee::read(pid, address, &mut there) {
        return None;
    }
    if there == code() {
        return Some(address);
    }
    if there.iter().any(|byte| *byte != 0) {
        return None;
    }
    // The vDSO is for reading only, but a process with the right to trace another one may change
    // its copy.
    let memory = File::options()
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .ok()?;
    memory.write_all_at(code(), address).ok()?;
    Some(address)
}

/// The first place behind an image, which ends with the headers of its sections, that has room in
/// the last page for the code.
fn behind(head: &[u8; 64]) -> Option<u64> {
    let half = |at: usize| u64::from(u16::from_ne_bytes([head[at], head[at + 1]]));
    let sections = u64::from_ne_bytes(head[40..48].try_into().expect("eight bytes"));
    let end = sections.checked_add(half(58) * half(60))?;
    let offset = end.next_multiple_of(16);
    let room = end.next_multiple_of(PAGE) - offset.min(end.next_multiple_of(PAGE));
    (sections != 0 && room >= code().len() as u64).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_syscalls::{kind, Kind, NR_END};

    #[test]
    fn calls_that_wait_are_left_alone() {
        assert_eq!(NR_END, 8 * 64, "the code below has as many words");
        let again = |nr: &i64| restart(*nr) != Restart::Never;
        for nr in (0..NR_END as i64).filter(again) {
            assert!(!matches!(
                kind(nr),
                Kind::Accept | Kind::Poll | Kind::Select | Kind::Sendfile | Kind::Splice
            ));
        }
        assert_eq!(restart(libc::SYS_connect), Restart::Never);
        assert_eq!(restart(libc::SYS_recvfrom), Restart::Never);
        // read(2), write(2), readv(2), writev(2).
        assert_eq!(word(Restart::OnFiles, 0), 0b11 | 0b11 << 19);
        assert_eq!(word(Restart::OnFiles, 1), 0);
    }

    #[test]
    fn room_is_behind_the_sections() {
        let head = |sections: u64, count: u16| {
            let mut head = [0; 64];
            head[40..48].copy_from_slice(&sections.to_ne_bytes());
            head[58..60].copy_from_slice(&64u16.to_ne_bytes());
            head[60..62].copy_from_slice(&count.to_ne_bytes());
            head
        };
        assert_eq!(behind(&head(5000, 10)), Some(5648));
        assert_eq!(behind(&head(8000, 2)), None);
        assert_eq!(behind(&head(8190, 0)), None);
        assert_eq!(behind(&head(0, 10)), None);
        // This process's own has it.
        assert!(place(std::process::id() as i32).is_some());
    }
}
