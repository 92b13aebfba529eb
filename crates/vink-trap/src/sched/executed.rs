//! A program that has been executed: its vDSO, its random bytes, and what is known of its process.

use super::determinism::auxv::Auxv;
use super::determinism::vdso;
use super::VirtualWorker;
use crate::tracee;
use crate::Error;

impl VirtualWorker<'_> {
    /// The first trapped call of a program after its exec, before it has read the time or used its
    /// random bytes: C libraries make others earlier. If the exec has failed, nothing is changed.
    ///
    /// # Errors
    /// [`Error::System`]: the program's memory can't be written.
    pub(crate) fn prepare_executed(&mut self, tid: i32) -> Result<(), Error> {
        let pid = self.worker.calls.tasks.table.pid_of(tid);
        let Some(auxv) = Auxv::of(pid) else {
            return Ok(());
        };
        if let Some(vdso) = auxv.vdso {
            match vdso::replace(pid, vdso)? {
                vdso::Replaced::Before => return Ok(()),
                vdso::Replaced::Now(clocks) => self
                    .worker
                    .calls
                    .clock
                    .sched_mut()
                    .clocks
                    .set_page(pid, clocks),
            }
        }
        self.worker.calls.clock.sched_mut().note_executed(pid);
        let mut random = [0; 16];
        if let (Ok(()), Some(address)) = (self.draw(tid, &mut random)?, auxv.random) {
            // Fails only if it has unmapped its stack.
            tracee::write(tid, address, &random);
        }
        Ok(())
    }
}
