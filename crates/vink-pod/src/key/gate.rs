//! The gate: how a thread goes into a pod and comes back, and what becomes of signals meanwhile.
//!
//! Theory of operation: `enter` leaves the thread's registers on its own stack, closes the system calls
//! and all keys but the pod's, and goes on at the pod's stack. There is one way back, `leave`: it opens
//! the keys, and goes on only if it was that which it wrote. So a jump to either `wrpkru` gains nothing: the
//! next instructions find another value, and fault. What the gate reads is at addresses that no register
//! says. Each call of Vink's function by a pod is such a way back, with a number.
//!
//! Threads go into pods in turn, and one has the gate: system calls can be closed for it, and its signals
//! pass the gate. When it is another one's turn, a signal has it give that up, wherever it is.
//!
//! A pod that makes a system call gets a SIGSYS (prctl(2), `PR_SET_SYSCALL_USER_DISPATCH`). That, a fault
//! and the limit of time come as signals, on a stack of the thread's that no pod can reach. The handler
//! tells by the keys of what it interrupted where that was. A pod's fault makes it go on in `leave`. What
//! is not the pod's doing lets the pod go on, by `leave` and `enter` as well, since system calls are open
//! at a handler's end.

use std::arch::global_asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::{transmute, zeroed};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use vink_sys::process::{gettid, tgkill};

use super::poke;

/// Why a pod has come back.
pub(super) const RETURNED: u64 = 0;
pub(super) const FAULTED: u64 = 1;
/// For this module: it goes on.
const RESUMES: u64 = 2;
pub(super) const EMIT: u64 = 3;
pub(super) const LOG: u64 = 4;
pub(super) const NOW: u64 = 5;
pub(super) const COUNT: u64 = 6;
pub(super) const TIMER: u64 = 7;
pub(super) const MALLOC: u64 = 8;
pub(super) const FREE: u64 = 9;
pub(super) const CALLOC: u64 = 10;
pub(super) const REALLOC: u64 = 11;
pub(super) const ABORT: u64 = 12;

/// Signals by which faults and system calls are told.
const SIGNALS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// `PR_SET_SYSCALL_USER_DISPATCH`.
const DISPATCH: c_int = 59;
const ALTERNATE: usize = 256 << 10;
/// `SS_AUTODISARM`: a signal's frame is at the top of the stack, whatever the stack pointer was. Without
/// it Linux goes on where a pointer into this stack points to: in a pod's hands, too near to its end.
const FROM_THE_TOP: c_int = i32::MIN;
const PAGE: usize = 4096;
/// Words of a context: 15 registers, and what `iretq` takes.
pub(super) const CONTEXT: usize = 20;

/// What the gate knows; pods can't reach it. `gate.s` below has the places.
#[repr(C, align(64))]
struct Gate {
    stack: u64,            // 0
    rights: u64,           // 8
    selector: *mut u8,     // 16
    inside: u64,           // 24
    pod_stack: u64,        // 32
    reason: u64,           // 40
    arguments: [u64; 4],   // 48
    thread: u64,           // 80
    mxcsr: u32,            // 88
    control: u32,          // 92
    alternate: u64,        // 96
    _free: u64,            // 104
    handles: u64,          // 112
    handled: [u64; 4],     // 120
    context: u64,          // 152
    saved: [u64; CONTEXT], // 160
    told: Told,            // 320
}

/// What ended a pod.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Told {
    pub signal: c_int,
    pub code: c_int,
    pub address: u64,
    pub at: u64,
    pub stack: u64,
    pub call: u32,
    pub architecture: u32,
    pub is_late: bool,
}

/// What pods can read and not write: the rights of the one that runs, and whether system calls are open.
#[repr(C, align(4096))]
struct Page {
    rights: u64,
    selector: u8,
    rest: [u8; PAGE - 9],
}

#[no_mangle]
static mut VINK_KEY_GATE: Gate = Gate {
    stack: 0,
    rights: 0,
    selector: null_mut(),
    inside: 0,
    pod_stack: 0,
    reason: 0,
    arguments: [0; 4],
    thread: 0,
    mxcsr: 0,
    control: 0,
    alternate: 0,
    _free: 0,
    handles: 0,
    handled: [0; 4],
    context: 0,
    saved: [0; CONTEXT],
    told: Told {
        signal: 0,
        code: 0,
        address: 0,
        at: 0,
        stack: 0,
        call: 0,
        architecture: 0,
        is_late: false,
    },
};

#[no_mangle]
static mut VINK_KEY_PAGE: Page = Page {
    rights: 0,
    selector: 0,
    rest: [0; PAGE - 9],
};

global_asm!(
    r#"
    .pushsection .text.vink_key_gate, "ax", @progbits
    .balign 64
    .hidden VINK_KEY_GATE
    .hidden VINK_KEY_PAGE
# A place that the code below has the address of.
    .macro vink_key_place name
    .globl \name
    .hidden \name
\name:
    .endm
# Registers that a function keeps.
    .macro vink_key_push
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    .endm
    .macro vink_key_pop
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    .endm
# What the gate keeps of the thread.
    .macro vink_key_begin
    vink_key_push
    stmxcsr [rip + VINK_KEY_GATE + 88]
    fnstcw [rip + VINK_KEY_GATE + 92]
    mov [rip + VINK_KEY_GATE], rsp
    rdfsbase rax
    mov [rip + VINK_KEY_GATE + 80], rax
    .endm

    vink_key_place vink_key_start
# enter(stack, value, four arguments): r12, rax, rdi, rsi, rdx, rcx of the pod
    vink_key_place vink_key_enter
    vink_key_begin
    mov r12, rdi
    mov r13, rsi
    mov rdi, rdx
    mov rsi, rcx
    mov r14, r8
    mov r15, r9
    vzeroall
    mov qword ptr [rip + VINK_KEY_GATE + 24], 1
    xor ebp, ebp
vink_key_into:
    mov r8d, [rip + VINK_KEY_GATE + 8]
    mov rbx, [rip + VINK_KEY_GATE + 16]
    vink_key_place vink_key_closes
    mov byte ptr [rbx], 1
    mov eax, r8d
    xor ecx, ecx
    xor edx, edx
    vink_key_place vink_key_first
    wrpkru
    vink_key_place vink_key_closed
    cmp eax, [rip + VINK_KEY_PAGE]
    jne vink_key_other
    test ebp, ebp
    jnz 2f
    mov rsp, r12
    mov rax, r13
    mov rdx, r14
    mov rcx, r15
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    vink_key_pop
    ret
    vink_key_place vink_key_resumes
2:  mov rsp, r12
    vink_key_pop
    pop r11
    pop r10
    pop r9
    pop r8
    pop rax
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    iretq
    vink_key_place vink_key_resumed

# The pod's function has returned.
    vink_key_place vink_key_returned
    xor r10d, r10d
vink_key_exit:
    vink_key_push
    mov r8, rdx
    mov r9, rax
    mov r11, rsp
    vink_key_place vink_key_leave
    xor eax, eax
    xor ecx, ecx
    xor edx, edx
    vink_key_place vink_key_second
    wrpkru
    test eax, eax
    jne vink_key_other
    mov rsp, [rip + VINK_KEY_GATE]
    push 2
    popfq
    mov rbx, [rip + VINK_KEY_GATE + 16]
    mov byte ptr [rbx], 0
    cmp r10, 2
    je vink_key_again
    mov [rip + VINK_KEY_GATE + 32], r11
    mov [rip + VINK_KEY_GATE + 40], r10
    mov [rip + VINK_KEY_GATE + 48], rdi
    mov [rip + VINK_KEY_GATE + 56], rsi
    mov [rip + VINK_KEY_GATE + 64], r8
    mov [rip + VINK_KEY_GATE + 72], r9
    rdfsbase rax
    cmp rax, [rip + VINK_KEY_GATE + 80]
    je 3f
    mov eax, 158
    mov edi, 0x1002
    mov rsi, [rip + VINK_KEY_GATE + 80]
    syscall
3:  fninit
    fldcw [rip + VINK_KEY_GATE + 92]
    ldmxcsr [rip + VINK_KEY_GATE + 88]
    vzeroupper
    mov qword ptr [rip + VINK_KEY_GATE + 24], 0
    vink_key_pop
    ret
vink_key_again:
    mov rdi, [rip + VINK_KEY_GATE + 152]
    mov r12, rdi
    lea rsi, [rip + VINK_KEY_GATE + 160]
    mov ecx, 20
    rep movsq
    mov ebp, 1
    jmp vink_key_into
vink_key_other:
    ud2

# A thread that has no pod opens the keys for itself.
    vink_key_place vink_key_open
    vink_key_begin
    mov qword ptr [rip + VINK_KEY_GATE + 24], 1
    xor r10d, r10d
    jmp vink_key_leave

# The handler of signals. Linux has opened key 0 alone.
    vink_key_place vink_key_signal
    pushfq
    and dword ptr [rsp], 0xfffbffff
    popfq
    mov rcx, rsp
    sub rcx, [rip + VINK_KEY_GATE + 96]
    cmp rcx, {alternate}
    jae vink_key_elsewhere
vink_key_own:
    mov [rip + VINK_KEY_GATE + 120], rsp
    mov [rip + VINK_KEY_GATE + 128], rdi
    mov [rip + VINK_KEY_GATE + 136], rsi
    mov [rip + VINK_KEY_GATE + 144], rdx
    mov qword ptr [rip + VINK_KEY_GATE + 112], 1
    xor eax, eax
    xor ecx, ecx
    xor edx, edx
    vink_key_place vink_key_third
    wrpkru
    test eax, eax
    jne vink_key_other
    cmp qword ptr [rip + VINK_KEY_GATE + 112], 1
    jne vink_key_other
    mov qword ptr [rip + VINK_KEY_GATE + 112], 0
    mov rsp, [rip + VINK_KEY_GATE + 120]
    mov rbx, [rip + VINK_KEY_GATE + 16]
    mov byte ptr [rbx], 0
    cmp qword ptr [rip + VINK_KEY_GATE + 24], 0
    je 5f
    rdfsbase rax
    cmp rax, [rip + VINK_KEY_GATE + 80]
    je 5f
    mov eax, 158
    mov edi, 0x1002
    mov rsi, [rip + VINK_KEY_GATE + 80]
    syscall
5:  mov rdi, [rip + VINK_KEY_GATE + 128]
    mov rsi, [rip + VINK_KEY_GATE + 136]
    mov rdx, [rip + VINK_KEY_GATE + 144]
    mov rcx, [rip + VINK_KEY_GATE + 24]
    jmp {signalled}
# Another thread, or the one with the gate at its end: its stack for signals may be gone by then.
vink_key_elsewhere:
    cmp qword ptr [rip + VINK_KEY_GATE + 24], 0
    jne 4f
    cmp qword ptr [rip + VINK_KEY_GATE + 96], 0
    je 4f
    rdfsbase rax
    cmp rax, [rip + VINK_KEY_GATE + 80]
    je vink_key_own
4:  xor ecx, ecx
    jmp {signalled}
    vink_key_place vink_key_end

# What pods may call. Nothing of it reads memory that is not the pod's.
    .macro vink_key_call name, number
    vink_key_place vink_key_\name
    mov r10d, \number
    jmp vink_key_exit
    .endm
    vink_key_call emit, 3
    vink_key_call log, 4
    vink_key_call now, 5
    vink_key_call count, 6
    vink_key_call timer, 7
    vink_key_call malloc, 8
    vink_key_call free, 9
    vink_key_call calloc, 10
    vink_key_call realloc, 11
    vink_key_call abort, 12
    vink_key_place vink_key_memmove
    mov rax, rdi
    mov r8, rdi
    sub r8, rsi
    cmp r8, rdx
    jb 6f
    vink_key_place vink_key_memcpy
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret
6:  mov rcx, rdx
    lea rdi, [rdi + rdx - 1]
    lea rsi, [rsi + rdx - 1]
    std
    rep movsb
    cld
    ret
    vink_key_place vink_key_memset
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret
    vink_key_place vink_key_memcmp
    xor eax, eax
    test rdx, rdx
    jz 8f
7:  movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    sub eax, ecx
    jne 8f
    inc rdi
    inc rsi
    dec rdx
    jnz 7b
8:  ret
    vink_key_place vink_key_strlen
    xor eax, eax
9:  cmp byte ptr [rdi + rax], 0
    je 8b
    inc rax
    jmp 9b
    .purgem vink_key_call
    .purgem vink_key_begin
    .purgem vink_key_pop
    .purgem vink_key_push
    .purgem vink_key_place
    .popsection
    "#,
    signalled = sym signalled,
    alternate = const ALTERNATE,
);

macro_rules! places {
    ($($name:ident)*) => {
        extern "C" { $(fn $name();)* }
    };
}

places! {
    vink_key_start vink_key_end vink_key_closes vink_key_first vink_key_closed vink_key_resumes
    vink_key_resumed vink_key_leave vink_key_second vink_key_third vink_key_returned vink_key_open
    vink_key_signal vink_key_emit vink_key_log vink_key_now vink_key_count vink_key_timer
    vink_key_malloc vink_key_free vink_key_calloc vink_key_realloc vink_key_abort vink_key_memmove
    vink_key_memcpy vink_key_memset vink_key_memcmp vink_key_strlen
}

extern "C" {
    fn vink_key_enter(stack: u64, value: u64, a: u64, b: u64, c: u64, d: u64);
}

fn place(function: unsafe extern "C" fn()) -> u64 {
    function as usize as u64
}

/// Where the three `wrpkru` of the gate are: there are no others in a process with pods.
pub(super) fn sites() -> [u64; 3] {
    [vink_key_first, vink_key_second, vink_key_third].map(place)
}

/// Where a pod's function returns to.
pub(super) fn returned() -> u64 {
    place(vink_key_returned)
}

/// What pods may call, by name.
pub(super) fn function(name: &str) -> Option<u64> {
    Some(place(match name {
        "vink_emit" => vink_key_emit,
        "vink_log" => vink_key_log,
        "vink_now" => vink_key_now,
        "vink_count" => vink_key_count,
        "vink_timer" => vink_key_timer,
        "malloc" => vink_key_malloc,
        "free" => vink_key_free,
        "calloc" => vink_key_calloc,
        "realloc" => vink_key_realloc,
        "abort" => vink_key_abort,
        "memmove" => vink_key_memmove,
        "memcpy" => vink_key_memcpy,
        "memset" => vink_key_memset,
        "memcmp" | "bcmp" => vink_key_memcmp,
        "strlen" => vink_key_strlen,
        _ => return None,
    }))
}

/// One thread at a time is in a pod, and has the gate.
static TURN: Mutex<()> = Mutex::new(());
/// The thread that has the gate, whether it is in a pod or was there last; 0: none.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// It is to give it up.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// Stacks for signals, of threads that have ended.
static STACKS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The key of [`VINK_KEY_PAGE`].
static PAGE_KEY: OnceLock<Result<u32, String>> = OnceLock::new();
/// What the signals did before.
static PREVIOUS: [OnceLock<libc::sigaction>; SIGNALS.len()] =
    [const { OnceLock::new() }; SIGNALS.len()];
/// Where PKRU is in what a signal saves.
static SAVED_AT: AtomicU32 = AtomicU32::new(0);
/// Numbers of crossings: which one there is, 0 for none, and which one's time is over.
pub(super) static CROSSING: AtomicU64 = AtomicU64::new(0);
pub(super) static OVER: AtomicU64 = AtomicU64::new(0);

/// A thread that may go into pods, as long as it has this.
pub(super) struct Turn {
    /// Which one it is.
    pub thread: i32,
    _turn: MutexGuard<'static, ()>,
}

/// What a pod has come back with.
pub(super) struct Back {
    pub reason: u64,
    pub stack: u64,
    pub arguments: [u64; 4],
}

/// A new key; `None`: there is none left.
pub(super) fn new_key() -> Option<u32> {
    // SAFETY: changes this thread's rights for a key that nothing has.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    u32::try_from(key).ok()
}

/// Gives a key back, of which there is no page any more.
pub(super) fn free_key(key: u32) {
    // SAFETY: by contract.
    unsafe { libc::syscall(libc::SYS_pkey_free, key) };
}

/// Makes pages those of a key.
///
/// # Safety
/// They are the caller's, and whole.
pub(super) unsafe fn give(start: u64, len: usize, access: c_int, key: u32) -> std::io::Result<()> {
    // SAFETY: by contract.
    let done = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, len, access, key) };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The key of what all pods can read.
///
/// # Errors
/// There is none.
fn page_key() -> Result<u32, String> {
    PAGE_KEY
        .get_or_init(|| {
            let key = new_key().ok_or("all 15 keys are in use")?;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a whole page, of which this module has all.
            unsafe { give(&raw const VINK_KEY_PAGE as u64, PAGE, access, key) }
                .map_err(|error| format!("pkey_mprotect(2): {error}"))?;
            Ok(key)
        })
        .clone()
}

/// Waits until no thread is in a pod, and gives this one the gate.
///
/// # Errors
/// A sentence: this thread can't go into pods.
pub(super) fn turn() -> Result<Turn, String> {
    ON_THIS_THREAD.with(|own| {
        let turn = Turn {
            thread: own.thread,
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if OWNER.load(SeqCst) != own.thread {
            hand_over();
            own.take_gate()?;
        }
        Ok(turn)
    })
}

/// This thread goes into no pod for some time: another one need not have the gate given up.
pub(super) fn leave() {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if OWNER.load(SeqCst) == gettid() {
        give_up();
    }
    drop(turn);
}

/// Has the thread that was in pods last give up the gate: only itself can open its system calls for good.
/// A signal tells it, so that it need not do anything for that.
fn hand_over() {
    let again = libc::timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    loop {
        let owner = OWNER.load(SeqCst);
        if owner == 0 {
            break;
        }
        IS_WANTED.store(true, SeqCst);
        // It may have ended by itself.
        let _ = tgkill(std::process::id() as i32, owner, libc::SIGSYS);
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: waits for another value of the number, or some time.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                OWNER.as_ptr(),
                wait,
                owner,
                &raw const again,
            )
        };
    }
    IS_WANTED.store(false, SeqCst);
}

/// This thread has the gate no more.
fn give_up() {
    // SAFETY: opens this thread's system calls. It has the gate, and is in no pod.
    unsafe {
        libc::prctl(DISPATCH, 0, 0, 0, 0);
        (&raw mut VINK_KEY_GATE.alternate).write_volatile(0);
        (&raw mut VINK_KEY_GATE.thread).write_volatile(0);
    }
    OWNER.store(0, SeqCst);
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: wakes one that waits for it.
    unsafe { libc::syscall(libc::SYS_futex, OWNER.as_ptr(), wake, 1) };
}

/// This thread, and its stack for signals once it has been prepared.
struct Own {
    thread: i32,
    stack: Cell<Option<usize>>,
}

thread_local! {
    static ON_THIS_THREAD: Own = Own { thread: gettid(), stack: Cell::new(None) };
}

impl Own {
    /// No thread has the gate, and it is this one's turn.
    fn take_gate(&self) -> Result<(), String> {
        let stack = match self.stack.get() {
            Some(stack) => stack,
            None => {
                let stack = prepare()?;
                self.stack.set(Some(stack));
                stack
            }
        };
        // SAFETY: the gate is this thread's from here on. The selector lives as long as this process.
        unsafe {
            let gate = &raw mut VINK_KEY_GATE;
            (*gate).selector = &raw mut VINK_KEY_PAGE.selector;
            (&raw mut (*gate).alternate).write_volatile(stack as u64);
            OWNER.store(self.thread, SeqCst);
            vink_key_open();
            let selector = &raw const VINK_KEY_PAGE.selector;
            if libc::prctl(DISPATCH, 1, 0, 0, selector) != 0 {
                let error = std::io::Error::last_os_error();
                give_up();
                return Err(format!("prctl(2) PR_SET_SYSCALL_USER_DISPATCH: {error}"));
            }
        }
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Another thread may be about to have it given up.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if OWNER.load(SeqCst) == self.thread {
            give_up();
        }
        drop(turn);
        let Some(stack) = self.stack.get() else {
            return;
        };
        let none = libc::stack_t {
            ss_sp: null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: the stack is used no more.
        unsafe { libc::sigaltstack(&none, null_mut()) };
        let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.push(stack);
    }
}

/// What a thread does once: its stack for signals.
fn prepare() -> Result<usize, String> {
    let error = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    page_key()?;
    // PKRU is state component 9.
    let at = std::arch::x86_64::__cpuid_count(0xd, 9).ebx;
    SAVED_AT.store(at, SeqCst);
    catch_signals()?;
    // Linux writes to what libc has registered each time that the thread goes on: in a pod, it can't.
    vink_sys::rseq::unregister();
    let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
    // As long as this process.
    let new = || Box::leak(vec![0_u8; ALTERNATE].into_boxed_slice()).as_mut_ptr() as usize;
    let stack = stacks.pop().unwrap_or_else(new);
    let described = libc::stack_t {
        ss_sp: stack as *mut c_void,
        ss_flags: FROM_THE_TOP,
        ss_size: ALTERNATE,
    };
    // SAFETY: memory that is not used for anything else.
    match unsafe { libc::sigaltstack(&described, null_mut()) } {
        0 => Ok(stack),
        _ => Err(error("sigaltstack(2)")),
    }
}

/// The gate's handler for the signals that pass it, on all threads. This one takes them.
///
/// # Errors
/// A sentence: another handler would run while this thread is in a pod.
pub(super) fn catch_signals() -> Result<(), String> {
    // SAFETY: an all-zero set and action are valid ones; the handler has SA_SIGINFO's signature.
    unsafe {
        let mut blocked: libc::sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut blocked);
        for signal in 1..65 {
            let mut old: libc::sigaction = zeroed();
            if SIGNALS.contains(&signal) || libc::sigaction(signal, null(), &mut old) != 0 {
                continue;
            }
            let is_caught = old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN;
            if is_caught && libc::sigismember(&blocked, signal) == 0 {
                return Err(format!(
                    "signal {signal} is caught by a handler that does not know of pods"
                ));
            }
        }
        let mut ours: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut ours);
        for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
            libc::sigaddset(&mut ours, signal);
            let mut action: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &mut action);
            if action.sa_sigaction as u64 == place(vink_key_signal) {
                continue;
            }
            let _ = previous.set(action);
            action = zeroed();
            action.sa_sigaction = place(vink_key_signal) as usize;
            // What the thread waits for when it has to give up the gate goes on.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(signal, &action, null_mut());
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &ours, null_mut());
    }
    Ok(())
}

impl Turn {
    /// From here on the pod is the one with this key. Signals that do not end it use `context`, which is
    /// in its memory.
    pub(super) fn choose(&self, key: u32, context: u64) {
        let Some(Ok(page)) = PAGE_KEY.get() else {
            return;
        };
        // Bit 0 of a key's two is: no access; bit 1: no write.
        let rights = !(0b11_u32 << (2 * key)) & !(0b01_u32 << (2 * page));
        // SAFETY: only the thread that has its turn uses either.
        unsafe {
            let gate = &raw mut VINK_KEY_GATE;
            (*gate).rights = u64::from(rights);
            (*gate).context = context;
            (*gate).saved = [0; CONTEXT];
            (*gate).told = Told::default();
            VINK_KEY_PAGE.rights = u64::from(rights);
        }
    }

    /// Goes into the pod, which finds these in its registers, until it comes back.
    pub(super) fn enter(&self, stack: u64, value: u64, arguments: [u64; 4]) -> Back {
        let [a, b, c, d] = arguments;
        // SAFETY: a pod was chosen. Whatever it does, the gate restores what a function must keep, and the
        // pod's memory is no other's. Only the thread that has its turn uses the gate.
        unsafe {
            vink_key_enter(stack, value, a, b, c, d);
            let gate = &raw const VINK_KEY_GATE;
            Back {
                reason: (*gate).reason,
                stack: (*gate).pod_stack,
                arguments: (*gate).arguments,
            }
        }
    }

    /// What the last fault was.
    pub(super) fn told(&self) -> Told {
        // SAFETY: as above.
        unsafe { VINK_KEY_GATE.told }
    }
}

/// `gregs` of `mcontext_t`.
type Registers = [libc::greg_t; 23];
type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// How a context has the registers, in the order of `vink_key_resumes`.
const ORDER: [c_int; 15] = [
    libc::REG_R15,
    libc::REG_R14,
    libc::REG_R13,
    libc::REG_R12,
    libc::REG_RBP,
    libc::REG_RBX,
    libc::REG_R11,
    libc::REG_R10,
    libc::REG_R9,
    libc::REG_R8,
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RSI,
    libc::REG_RDI,
];
/// Segments of 64-bit programs: CS in bits 0 to 15, SS in 48 to 63.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;

unsafe extern "C" fn signalled(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    inside: u64,
) {
    if inside == 0 {
        if signal == libc::SIGSYS && IS_WANTED.load(SeqCst) && OWNER.load(SeqCst) == gettid() {
            return give_up();
        }
        if signal == libc::SIGTRAP {
            // SAFETY: as below.
            let next = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
            if poke::is_place(*next as u64 - 1) {
                *next -= 1;
                return;
            }
        }
        // SAFETY: in the handler, with its arguments.
        return unsafe { chain(signal, info, context) };
    }
    let gate = &raw mut VINK_KEY_GATE;
    // SAFETY: the system gives a handler with SA_SIGINFO valid pointers to both; the thread that is in a
    // pod has the gate, and it is interrupted.
    let (code, words, registers, rights, gate) = unsafe {
        (
            (*info).si_code,
            &*info.cast::<[u32; 8]>(),
            &mut (*context).uc_mcontext.gregs,
            saved_rights((*context).uc_mcontext.fpregs.cast()),
            &mut *gate,
        )
    };
    let at = registers[libc::REG_RIP as usize] as u64;
    let is_late = code <= 0 && signal == libc::SIGSYS && OVER.load(SeqCst) == CROSSING.load(SeqCst);
    let is_fault = code > 0 || is_late;
    let is_gate = (place(vink_key_start)..place(vink_key_end)).contains(&at);
    let is_pod = u64::from(rights) == gate.rights;
    let between = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| {
        (place(from)..place(to)).contains(&at)
    };
    if !is_fault && is_gate && rights == 0 {
        // In the gate itself, which closes system calls again if it was about to go.
        if between(vink_key_closes, vink_key_closed) {
            registers[libc::REG_RIP as usize] = place(vink_key_closes) as i64;
        }
        return;
    }
    let reason = match !is_fault && is_pod {
        true => {
            // On the way back to what is saved, that is what it goes back to again.
            let is_leaving = (place(vink_key_leave)..=place(vink_key_second)).contains(&at);
            let is_back = match between(vink_key_closed, vink_key_resumes) {
                true => registers[libc::REG_RBP as usize] == 1,
                false => {
                    between(vink_key_resumes, vink_key_resumed)
                        || is_leaving && registers[libc::REG_R10 as usize] == RESUMES as i64
                }
            };
            if !is_back {
                save(&mut gate.saved, registers);
            }
            RESUMES
        }
        false => {
            gate.told = Told {
                signal,
                code,
                address: u64::from(words[4]) | u64::from(words[5]) << 32,
                at,
                stack: registers[libc::REG_RSP as usize] as u64,
                call: words[6],
                architecture: words[7],
                is_late,
            };
            FAULTED
        }
    };
    registers[libc::REG_R10 as usize] = reason as i64;
    registers[libc::REG_RIP as usize] = place(vink_key_leave) as i64;
    registers[libc::REG_EFL as usize] = 2;
    registers[libc::REG_CSGSFS as usize] = SEGMENTS as i64;
}

fn save(saved: &mut [u64; CONTEXT], registers: &Registers) {
    for (word, register) in saved.iter_mut().zip(ORDER) {
        *word = registers[register as usize] as u64;
    }
    let segments = registers[libc::REG_CSGSFS as usize] as u64;
    saved[15..].copy_from_slice(&[
        registers[libc::REG_RIP as usize] as u64,
        segments & 0xffff,
        registers[libc::REG_EFL as usize] as u64,
        registers[libc::REG_RSP as usize] as u64,
        segments >> 48,
    ]);
}

/// PKRU of what was interrupted.
///
/// # Safety
/// What a signal has saved, by XSAVE.
unsafe fn saved_rights(state: *const u8) -> u32 {
    const PKRU: u64 = 1 << 9;
    // SAFETY: by contract; the header is behind 512 bytes, and says what is there.
    unsafe {
        match state.add(512).cast::<u64>().read_unaligned() & PKRU {
            0 => 0,
            _ => state
                .add(SAVED_AT.load(SeqCst) as usize)
                .cast::<u32>()
                .read_unaligned(),
        }
    }
}

/// Does what would have happened without this module.
///
/// # Safety
/// In the handler, with its arguments.
unsafe fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: by contract.
    let code = unsafe { (*info).si_code };
    // It is late: the pod has come back meanwhile.
    if signal == libc::SIGSYS && code == libc::SI_TKILL {
        return;
    }
    if signal != libc::SIGTRAP {
        // What comes now may be code that is being changed.
        // SAFETY: an all-zero set is a valid one; Linux restores the thread's when the handler returns.
        unsafe {
            let mut trap: libc::sigset_t = zeroed();
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &trap, null_mut());
        }
    }
    let index = SIGNALS.iter().position(|other| *other == signal);
    let Some(previous) = index.and_then(|index| PREVIOUS[index].get()) else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_IGN if code <= 0 => {}
        // SAFETY: both are async-signal-safe. The signal is blocked in here and strikes on return.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
        // SAFETY: the handler's own flags say which of the two signatures it has.
        handler => unsafe {
            match previous.sa_flags & libc::SA_SIGINFO {
                0 => transmute::<usize, extern "C" fn(c_int)>(handler)(signal),
                _ => transmute::<usize, Handler>(handler)(signal, info, context.cast()),
            }
        },
    }
}
