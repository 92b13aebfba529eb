//! A stack for pods: what loads them and crosses their walls may be a virtualized process, whose own is
//! small. Where a pod uses its caller's stack (no wall, WebAssembly), and where one is compiled, there has
//! to be room.

use std::arch::asm;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::thread;

use vink_sys::mapping::{Mapping, Pages};

/// It grows down to a page that can't be touched.
const GUARD: usize = 4096;
const SIZE: usize = GUARD + (4 << 20);
/// Nothing, where a backtrace looks for the caller's frame: so it ends there.
const ROOF: usize = 4096;

/// A stack of 4 MiB.
pub struct Stack(Mapping);

/// What runs there, and how it ends.
struct Job<F, R> {
    work: Option<F>,
    done: Option<thread::Result<R>>,
}

impl Stack {
    /// Maps one.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn new() -> io::Result<Stack> {
        let stack = Mapping::new(SIZE)?;
        stack.replace(0..GUARD, Pages::Guard)?;
        Ok(Stack(stack))
    }

    /// Runs `work` on it. A panic goes on in the caller.
    pub fn run<R, F: FnOnce() -> R>(&mut self, work: F) -> R {
        let mut job = Job {
            work: Some(work),
            done: None,
        };
        let top = self.0.start().wrapping_byte_add(SIZE - ROOF);
        let enter: extern "C" fn(*mut Job<F, R>) = enter::<F, R>;
        // SAFETY: the mapping's end is aligned and its own; nothing else runs on it, since this has
        // the only reference. `enter` returns, and does not unwind. A called function keeps r12, so
        // the old stack is found again.
        unsafe {
            asm!(
                "mov r12, rsp",
                "mov rsp, {top}",
                "call {enter}",
                "mov rsp, r12",
                top = in(reg) top,
                enter = in(reg) enter,
                in("rdi") &raw mut job,
                out("r12") _,
                clobber_abi("C"),
            );
        }
        match job.done {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("it has run"),
        }
    }
}

extern "C" fn enter<F: FnOnce() -> R, R>(job: *mut Job<F, R>) {
    // SAFETY: `run()` has it, and waits.
    let job = unsafe { &mut *job };
    let work = job.work.take().expect("it runs once");
    job.done = Some(catch_unwind(AssertUnwindSafe(work)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_and_a_way_back() {
        let mut stack = Stack::new().expect("a stack");
        let here = 0u8;
        let start = stack.0.start() as usize;
        // Another thread's stack may lie right beside it.
        let own = start..start + SIZE;
        for round in 0..3u64 {
            let far = stack.run(|| {
                let room = std::hint::black_box([round as u8; 200 << 10]);
                assert_eq!(u64::from(room[199 << 10]), round);
                room.as_ptr() as usize
            });
            assert!(own.contains(&far) && !own.contains(&(&raw const here as usize)));
        }
        let panics = catch_unwind(AssertUnwindSafe(|| stack.run(|| panic!("over"))));
        assert!(panics.is_err());
        assert_eq!(stack.run(|| 7), 7);
    }
}
