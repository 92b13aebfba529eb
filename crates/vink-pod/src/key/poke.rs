//! Code is changed while other threads run it.
//!
//! As Linux does to its own code: the first byte of the instruction becomes `int3`, then the others are
//! written, then the first one. After each of these all processors look at memory again (membarrier(2)).
//! So a thread that comes there runs the old instruction, or the new one, or `int3`. The handler of that
//! has it go there again. It may come late, so places are kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// As many places as one process may have.
const MOST: usize = 256;
const INT3: u8 = 0xcc;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE`, and what it needs before.
const SYNC: i32 = 1 << 5;
const REGISTER: i32 = 1 << 6;

static PLACES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Whether an instruction here is changed, or was. In a signal handler.
pub(super) fn is_place(at: u64) -> bool {
    let mut places = PLACES.iter().map(|place| place.load(SeqCst));
    places.any(|place| place == at)
}

/// Puts other ones in the place of one instruction, in this process's memory. All threads that may come
/// there have the gate's handler of `SIGTRAP`.
///
/// # Errors
/// A sentence.
pub(super) fn poke(memory: &File, at: u64, code: &[u8]) -> Result<(), String> {
    let failed = |error: io::Error| format!("changing it: {error}");
    membarrier(REGISTER).map_err(|error| format!("membarrier(2): {error}"))?;
    let free = |place: &&AtomicU64| {
        let known = place.compare_exchange(0, at, SeqCst, SeqCst);
        known.is_ok() || known == Err(at)
    };
    PLACES
        .iter()
        .find(free)
        .ok_or("there are too many such places")?;
    let mut old = [0; 1];
    memory.read_exact_at(&mut old, at).map_err(failed)?;
    let write = || -> io::Result<()> {
        memory.write_all_at(&[INT3], at)?;
        membarrier(SYNC)?;
        memory.write_all_at(&code[1..], at + 1)?;
        membarrier(SYNC)?;
        memory.write_all_at(&code[..1], at)?;
        membarrier(SYNC)
    };
    write().map_err(failed)
}

fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: changes no memory.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    use super::*;

    // An instruction of five bytes on two lines of the cache.
    std::arch::global_asm!(
        r#"
    .pushsection .text.poked, "ax", @progbits
    .balign 64
    .skip 62, 0xcc
    .globl poked_function
    .hidden poked_function
poked_function:
    .byte 0xb8, 0x11, 0x11, 0x11, 0x11
    ret
    .popsection
        "#
    );

    extern "C" {
        fn poked_function() -> u32;
    }

    #[test]
    fn threads_run_one_or_the_other() {
        super::super::gate::catch_signals().expect("handlers");
        let at = poked_function as *const () as u64;
        let memory = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")
            .expect("memory");
        let (ends, runs) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !ends.load(SeqCst) {
                        // SAFETY: a function that gives a number.
                        let number = unsafe { poked_function() };
                        assert!([0x1111_1111, 0x2222_2222].contains(&number), "{number:#x}");
                        runs.fetch_add(1, SeqCst);
                    }
                });
            }
            let (mut rounds, mut last) = (0, 0);
            // Each change meets threads that run it.
            while rounds < 100 {
                let digits = if rounds % 2 == 0 { 0x22 } else { 0x11 };
                poke(&memory, at, &[0xb8, digits, digits, digits, digits]).expect("a change");
                let now = runs.load(SeqCst);
                rounds += u32::from(now != last);
                last = now;
            }
            ends.store(true, SeqCst);
        });
        assert!(is_place(at) && !is_place(at + 1));
    }
}
