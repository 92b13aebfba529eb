//! Chance: each process has a sequence of random numbers. The kernel's seed determines it, and the order
//! in which programs are started and their other processes first ask.

use vink_kernel::Numbered;
use vink_sys::errno::{EFAULT, EINVAL};

use vink_sched::run_queue::splitmix;

use crate::error::to_errno_result;
use crate::sched::VirtualWorker;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

/// What one getrandom(2) gives at most, as in Linux.
const MOST: u64 = (i32::MAX & !4095) as u64;

/// The state of all sequences.
#[derive(Default)]
pub(crate) struct Prngs {
    /// From which they spring; `None` before the first.
    root: Option<u64>,
    /// By process.
    sequences: Numbered<i32, u64>,
}

impl Prngs {
    /// A process is gone.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.sequences.remove(&pid);
    }

    /// Its numbers; `seed` is asked once.
    fn sequence(&mut self, pid: i32, seed: u64) -> &mut u64 {
        let root = self.root.get_or_insert(seed);
        self.sequences.entry(pid).or_insert_with(|| splitmix(root))
    }
}

/// Fills it with the next numbers of a sequence.
fn fill(sequence: &mut u64, bytes: &mut [u8]) {
    for eight in bytes.chunks_mut(8) {
        eight.copy_from_slice(&splitmix(sequence).to_le_bytes()[..eight.len()]);
    }
}

impl VirtualWorker<'_> {
    /// Random bytes for a thread's process. The error is the call's result.
    pub(crate) fn draw(&mut self, tid: i32, bytes: &mut [u8]) -> Result<Result<(), i64>, Error> {
        let pid = self.worker.calls.tasks.table.pid_of(tid);
        let known = self.worker.calls.clock.sched().prngs.root.is_some();
        let mut seed = [0; 8];
        if !known {
            let task = match self.calls.tasks.task_of(tid) {
                Ok(task) => task,
                Err(error) => return to_errno_result(error).map(Err),
            };
            let args = [seed.as_mut_ptr() as u64, seed.len() as u64, 0, 0, 0, 0];
            self.calls
                .tasks
                .kernel
                .run_call(task, libc::SYS_getrandom, args)?;
        }
        let sched = self.worker.calls.clock.sched_mut();
        fill(sched.prngs.sequence(pid, u64::from_le_bytes(seed)), bytes);
        Ok(Ok(()))
    }

    /// A program was started, with this process: its task and its sequence are made now. When its calls come
    /// depends on the host, and what is asked of the lab meanwhile may make others.
    pub(crate) fn begin(&mut self, pid: i32) -> Result<(), Error> {
        // If the kernel has no memory for it, its calls say so.
        if self.calls.tasks.try_task_of(pid)?.is_ok() {
            let _ = self.draw(pid, &mut [])?;
        }
        Ok(())
    }

    /// getrandom(2).
    pub(in crate::sched) fn getrandom(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let [to, len, flags, ..] = call.args;
        let known = libc::GRND_NONBLOCK | libc::GRND_RANDOM | libc::GRND_INSECURE;
        let either = u64::from(libc::GRND_RANDOM | libc::GRND_INSECURE);
        if flags & !u64::from(known) != 0 || flags & either == either {
            return self.calls.answer(call, EINVAL);
        }
        let len = len.min(MOST);
        let mut piece = vec![0; len.min(64 << 10) as usize];
        let mut done = 0;
        while done < len {
            let count = piece.len().min((len - done) as usize);
            let piece = &mut piece[..count];
            if let Err(result) = self.draw(call.tid, piece)? {
                return self.calls.answer(call, result);
            }
            if !tracee::write(call.tid, to.wrapping_add(done), piece) {
                return self.calls.answer(call, EFAULT);
            }
            done += piece.len() as u64;
        }
        self.calls.answer(call, done as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_repeat_and_are_apart() {
        let draw = |seed| {
            let mut prngs = Prngs::default();
            let mut bytes = [[0; 11]; 3];
            fill(prngs.sequence(7, seed), &mut bytes[0]);
            fill(prngs.sequence(8, 0), &mut bytes[1]);
            fill(prngs.sequence(7, 0), &mut bytes[2]);
            bytes
        };
        let first = draw(5);
        assert_eq!(first, draw(5));
        assert_ne!(first, draw(6));
        assert!(first[0] != first[1] && first[0] != first[2] && first[1] != first[2]);
    }
}
