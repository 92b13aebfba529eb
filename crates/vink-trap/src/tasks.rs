//! Which task of the kernel stands for which thread of a program.
//!
//! Each host thread that needs one has a task in the kernel, made when it first needs it. A process
//! with several threads has a spare one, since a task can only be cloned while it has no call in
//! progress.

use std::rc::Rc;

use vink_kernel::{Call, CloneKind, Kernel, Numbered, TaskId};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::in_flight::InFlight;
use crate::kernel_runner::KernelRunner;
use crate::networks::Networks;
use crate::notify::Listener;
use crate::process_ring::ProcessRing;
use crate::process_table::ProcessTable;
use crate::program_table::ProgramTable;
use crate::signal_poll::SignalPoll;
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

/// The kernel, the programs' processes and threads, and the tasks that stand for these.
pub(crate) struct Tasks {
    pub(crate) kernel: KernelRunner,
    pub(crate) programs: ProgramTable,
    /// Their processes and threads.
    pub(crate) table: ProcessTable,
    /// What programs made and may enter.
    pub(crate) networks: Networks,
    /// Rings that tasks may write to: kept until they are gone.
    pub(crate) rings: Numbered<TaskId, Rc<ProcessRing>>,
}

impl Tasks {
    /// Those of a kernel for which no program runs yet.
    pub(crate) fn new(kernel: Kernel) -> Tasks {
        Tasks {
            kernel: KernelRunner::new(kernel),
            programs: ProgramTable::default(),
            table: ProcessTable::default(),
            networks: Networks::default(),
            rings: Numbered::default(),
        }
    }

    /// The threads, and the kernel whose clock they live by.
    pub(crate) fn place(&self) -> (&ProcessTable, &Kernel) {
        (&self.table, &self.kernel)
    }

    /// The listener that serves a call; `None` if its program is gone.
    pub(crate) fn listener(&self, call: SyscallCtx) -> Option<Rc<Listener>> {
        self.programs[call.program].listener.clone()
    }

    /// The thread's task in the kernel. The thread must have no call in progress there.
    pub(crate) fn task_of(&mut self, tid: i32) -> Result<TaskId, vink_kernel::Error> {
        if let Some(task) = self.table.task(tid) {
            return Ok(task);
        }
        let process = self.table.process_of_mut(tid);
        self.kernel.dirty = true;
        let task = match process.spare.take() {
            Some(task) => task,
            None => {
                let credentials = self.programs[process.program].credentials;
                let task = self.kernel.task_with(process.machine, credentials)?;
                process.tasks.push(task);
                self.kernel.raise_nofile(task)?;
                task
            }
        };
        self.table.set_task(tid, task);
        if let Some(key) = self.table.netns(tid) {
            self.enter_network(task, key)?;
        }
        let process = self.table.process_of_mut(tid);
        if process.threaded && process.spare.is_none() {
            let spare = self.kernel.clone_task(task, CloneKind::Thread)?;
            let process = self.table.process_of_mut(tid);
            process.tasks.push(spare);
            process.spare = Some(spare);
        }
        Ok(task)
    }

    /// The same; the inner error is a call's result.
    pub(crate) fn try_task_of(&mut self, tid: i32) -> Result<Result<TaskId, i64>, Error> {
        match self.task_of(tid) {
            Ok(task) => Ok(Ok(task)),
            Err(error) => to_errno_result(error).map(Err),
        }
    }

    /// The thread makes another one: see to it that there will be a task for that.
    pub(crate) fn expect_thread(&mut self, tid: i32) -> Result<(), vink_kernel::Error> {
        let process = self.table.process_of_mut(tid);
        process.threaded = true;
        if process.tasks.is_empty() || process.spare.is_some() {
            return Ok(());
        }
        let had_task = self.table.task(tid).is_some();
        let task = self.task_of(tid)?;
        if had_task {
            let spare = self.kernel.clone_task(task, CloneKind::Thread)?;
            self.kernel.dirty = true;
            let process = self.table.process_of_mut(tid);
            process.tasks.push(spare);
            process.spare = Some(spare);
        }
        Ok(())
    }

    /// Starts something in the kernel for a call. `Some`: it could not, and this is the call's
    /// result.
    pub(crate) fn start(
        &mut self,
        signals: &SignalPoll,
        in_flight: InFlight,
        call: Call,
    ) -> Result<Option<i64>, Error> {
        let tid = in_flight.call.tid;
        let started = self
            .task_of(tid)
            .and_then(|task| self.kernel.start(task, call));
        self.kernel.dirty = true;
        match started {
            Ok(()) => {
                self.table.set_pending(tid, signals.begin(in_flight));
                Ok(None)
            }
            Err(error) => to_errno_result(error).map(Some),
        }
    }

    /// Runs a call of the worker's own on the thread's task, about one of its descriptors.
    fn run_call_on(&mut self, tid: i32, nr: i64, number: i32) -> Result<i64, Error> {
        match self.task_of(tid) {
            Ok(task) => self
                .kernel
                .run_call(task, nr, [number as u64, 0, 0, 0, 0, 0]),
            Err(error) => to_errno_result(error),
        }
    }

    /// Closes a descriptor of the thread's task.
    pub(crate) fn close_fd(&mut self, tid: i32, number: i32) -> Result<(), Error> {
        self.run_call_on(tid, libc::SYS_close, number).map(drop)
    }

    /// Another descriptor of the kernel's for the same file. The error is the call's result.
    pub(crate) fn dup_entry(
        &mut self,
        tid: i32,
        entry: &Entry,
    ) -> Result<Result<Entry, i64>, Error> {
        entry.file.placeholder.share();
        let number = self.run_call_on(tid, libc::SYS_dup, entry.number)?;
        Ok(match number {
            0.. => Ok(Entry {
                file: entry.file.clone(),
                number: number as i32,
            }),
            error => Err(error),
        })
    }
}
