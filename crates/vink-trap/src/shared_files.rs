//! Tables of descriptors that processes share: clone(2) with `CLONE_FILES`, and what ends it.
//!
//! The kernel's tasks share one as well, so that a descriptor made or closed by one process is so
//! for the others. A process stops sharing with unshare(2), close_range(2) with
//! `CLOSE_RANGE_UNSHARE`, which can't fail and are done on both sides at once, or an exec that
//! succeeds, which kcmp(2) shows. Threads that stop sharing with their own process are not
//! supported.

use vink_kernel::{CloneKind, TaskId};
use vink_sys::process::{share, Shared};

use crate::error::to_errno_result;
use crate::statistics::Statistics;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::Error;

impl Tasks {
    /// A child's task: with a copy of its parent's table, or with the same. `None` if there is
    /// nothing to copy.
    pub(crate) fn clone_for_child(
        &mut self,
        tid: i32,
        shares: bool,
    ) -> Result<Option<TaskId>, vink_kernel::Error> {
        let how = match shares {
            true => CloneKind::SharedFiles,
            false if self.table.fd_table(self.table.pid_of(tid)).is_empty() => return Ok(None),
            false => CloneKind::Process,
        };
        let task = self.task_of(tid)?;
        self.kernel.dirty = true;
        self.kernel.clone_task(task, how).map(Some)
    }

    /// The call gives its thread a table of its own, if it has none yet. `Some`: it can't, and this
    /// is its result.
    pub(crate) fn unshare_files(
        &mut self,
        statistics: &mut Statistics,
        call: SyscallCtx,
    ) -> Result<Option<i64>, Error> {
        let process = self.table.process(call.pid);
        if process.threaded && process.threads.len() > 1 {
            if !process.table.is_empty() {
                // It goes on with the other threads' table.
                statistics.count_unsupported(call.nr);
            }
        } else if process.table.is_shared() {
            if let Err(error) = self.part(call.tid) {
                return to_errno_result(error).map(Some);
            }
        }
        Ok(None)
    }

    /// The process, which has one thread, may have executed a program.
    pub(crate) fn part_if_executed(&mut self, tid: i32) -> Result<(), vink_kernel::Error> {
        let pid = self.table.pid_of(tid);
        if !self.table.process(pid).table.is_shared() {
            return Ok(());
        }
        let shares_still = self
            .table
            .sharers(pid)
            .into_iter()
            .any(|other| share(Shared::Files, pid, other));
        match shares_still {
            true => Ok(()),
            false => self.part(tid),
        }
    }

    /// The process of this one thread goes on with a copy.
    fn part(&mut self, tid: i32) -> Result<(), vink_kernel::Error> {
        let task = self.task_of(tid)?;
        let args = [libc::CLONE_FILES as u64, 0, 0, 0, 0, 0];
        self.kernel.dirty = true;
        self.kernel.call(task, libc::SYS_unshare, args)?;
        let process = self.table.process_of_mut(tid);
        process.table = process.table.copy();
        // It has the old one.
        if let Some(spare) = process.spare.take() {
            process.tasks.retain(|t| *t != spare);
            self.kernel.end_task(spare, false);
        }
        Ok(())
    }
}
