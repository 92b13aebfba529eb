//! Which calls are treated differently in virtual time, and how.

use vink_sched::futex::FutexOutcome;
use vink_sys::errno::{EFAULT, ENOSYS, EPERM};
use vink_syscalls::{blocks, sched_class, Blocks, Sched};

use super::determinism::sysinfo;
use super::emulate::locks::LockOutcome;
use super::emulate::wait_children::ChildWait;
use super::{waits_in, BlockCondition, ThreadState, VirtualWorker};
use crate::in_flight::Continuation;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

impl VirtualWorker<'_> {
    /// Handles a call that virtual time treats differently. False: it is treated as in real time.
    pub(crate) fn on_virtual_syscall(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        let worker = &mut *self.worker;
        let sched = worker.calls.clock.sched_mut();
        let ring = || {
            worker
                .placement
                .ring_of(&worker.calls.tasks.table, call.pid)
        };
        sched.fds.invalidate(&worker.calls.tasks.table, ring, call);
        sched.note_file_signals(call);
        let place = worker.calls.tasks.place();
        match sched_class(call.nr) {
            Sched::ClockGettime | Sched::ClockGetres | Sched::Gettimeofday | Sched::Time => {
                self.count_poll(call.tid)?;
                let worker = &mut *self.worker;
                let place = worker.calls.tasks.place();
                let result = worker
                    .calls
                    .clock
                    .sched_mut()
                    .clocks
                    .read_clock(place, call);
                self.calls.answer(call, result)?
            }
            // No program may set this clock.
            Sched::SetClock => self.calls.answer(call, EPERM)?,
            Sched::Times | Sched::Getrusage => {
                let result = sched.clocks.read_cpu_time(place, call);
                self.calls.answer(call, result)?
            }
            Sched::Sleep => self.sleep(call)?,
            Sched::TimerfdCreate => {
                let cloexec = call.args[1] & libc::TFD_CLOEXEC as u64 != 0;
                self.calls.make_descriptor(call, call.args, cloexec)?;
            }
            Sched::TimerfdSettime => self.set_timer_file(call)?,
            Sched::TimerfdGettime => {
                match worker
                    .calls
                    .tasks
                    .table
                    .fd_table(call.pid)
                    .get(call.args[0])
                {
                    Some(entry) => self
                        .calls
                        .run_in_kernel(call, Continuation::Answer, &entry)?,
                    None => self.passthrough(call)?,
                }
            }
            Sched::Poll => self.poll_virtual(call)?,
            Sched::Select => self.select_virtual(call)?,
            Sched::Epoll => self.epoll_virtual(call)?,
            Sched::Pause => {
                sched.block(&mut worker.calls.signals, call, BlockCondition::forever());
            }
            Sched::Sigsuspend => match tracee::read_u64(call.tid, call.args[0]) {
                Some(mask) => {
                    let mask = Some(mask);
                    let condition = BlockCondition {
                        mask,
                        ..BlockCondition::forever()
                    };
                    sched.block(&mut worker.calls.signals, call, condition);
                }
                None => self.calls.answer(call, EFAULT)?,
            },
            Sched::Yield => {
                self.count_poll(call.tid)?;
                let condition = BlockCondition {
                    deadline: Some(self.worker.calls.tasks.kernel.now()),
                    on_timeout: Some(0),
                    ..BlockCondition::forever()
                };
                let sched = self.worker.calls.clock.sched_mut();
                sched.block(&mut self.worker.calls.signals, call, condition);
            }
            // It may kill others of its machine.
            Sched::SendSignal => {
                worker.calls.signals.hint();
                // It is not to see what they have open being closed, either.
                worker
                    .placement
                    .revoke_call_budget(&worker.calls.tasks.table, call.pid);
                sched
                    .kills
                    .expect(worker.calls.tasks.table.machine_of(call.pid));
                if !self.kill_child(call) {
                    return Ok(false);
                }
                self.calls.answer(call, 0)?
            }
            Sched::Futex => match sched.futex(place, call) {
                FutexOutcome::Answer(result, _) => self.calls.answer(call, result)?,
                FutexOutcome::Block(condition) => {
                    sched.block(&mut worker.calls.signals, call, condition);
                }
                FutexOutcome::Host => self.calls.passthrough_as(call, ThreadState::MayBlock)?,
            },
            Sched::NewFutex => self.calls.answer(call, ENOSYS)?,
            Sched::WaitChild => match sched.parents.wait(call) {
                ChildWait::Block(condition) => {
                    sched.block(&mut worker.calls.signals, call, condition);
                }
                ChildWait::Host => self.passthrough(call)?,
                ChildWait::HostMayBlock => {
                    self.calls.passthrough_as(call, ThreadState::MayBlock)?
                }
            },
            Sched::Lock => {
                let waits = waits_in(&sched.blocked);
                match sched.locks.lock(&worker.calls.tasks.table, waits, call) {
                    LockOutcome::Answer(result) => self.calls.answer(call, result)?,
                    LockOutcome::Block(condition) => {
                        sched.block(&mut worker.calls.signals, call, condition);
                    }
                    LockOutcome::Host => return Ok(false),
                }
            }
            Sched::AwaitSignal => self.wait_for_signals(call)?,
            Sched::Alarm
            | Sched::Setitimer
            | Sched::Getitimer
            | Sched::TimerCreate
            | Sched::TimerSettime
            | Sched::TimerGettime
            | Sched::TimerGetoverrun
            | Sched::TimerDelete => {
                let result = sched.timer_call(place, &mut worker.calls.signals, call);
                self.calls.answer(call, result)?
            }
            Sched::Signalfd => {
                sched.any_signalfd = true;
                return Ok(false);
            }
            Sched::Ptrace => {
                sched.parents.note_tracer(call.pid);
                return Ok(false);
            }
            Sched::HostMayBlock => self.calls.passthrough_as(call, ThreadState::MayBlock)?,
            Sched::Semtimedop if call.args[3] == 0 => {
                self.calls.passthrough_as(call, ThreadState::MayBlock)?
            }
            // It would wait in the host, by the host's clock.
            Sched::Semtimedop => {
                worker.statistics.count_unsupported(call.nr);
                self.calls.answer(call, ENOSYS)?
            }
            Sched::MqReceive => self.mq_call(call, libc::POLLIN)?,
            Sched::MqSend => self.mq_call(call, libc::POLLOUT)?,
            Sched::Getrandom => self.getrandom(call)?,
            Sched::Getaffinity
            | Sched::Setaffinity
            | Sched::Getcpu
            | Sched::Sysinfo
            | Sched::LockMemory
            | Sched::Rseq => match sysinfo::result_of(call, worker.calls.tasks.kernel.now()) {
                Some(result) => self.calls.answer(call, result)?,
                None => return Ok(false),
            },
            Sched::AsInRealTime => return Ok(false),
        }
        Ok(true)
    }

    /// How the host may do this call now; `None`: it would wait, and is blocked until it would not.
    pub(crate) fn block_or_passthrough(
        &mut self,
        call: SyscallCtx,
    ) -> Result<Option<ThreadState>, Error> {
        let vforks = |flags: u64| match flags & libc::CLONE_VFORK as u64 != 0 {
            true => ThreadState::InVfork,
            false => ThreadState::Running,
        };
        let is_told_not_to = |flags: Option<usize>| {
            flags.is_some_and(|flags| call.args[flags] & libc::MSG_DONTWAIT as u64 != 0)
        };
        let (events, len) = match blocks(call.nr) {
            Blocks::Never => return Ok(Some(ThreadState::Running)),
            Blocks::Receives(flags) | Blocks::Sends(flags) if is_told_not_to(flags) => {
                return Ok(Some(ThreadState::Running))
            }
            Blocks::Reads | Blocks::Receives(_) => (libc::POLLIN, 0),
            Blocks::Writes(len) => (libc::POLLOUT, len.map_or(u64::MAX, |len| call.args[len])),
            Blocks::Sends(_) => (libc::POLLOUT, u64::MAX),
            Blocks::OnHost => return Ok(Some(ThreadState::MayBlock)),
            Blocks::ForLock => {
                let waits = matches!(call.args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW);
                let state = if waits {
                    ThreadState::MayBlock
                } else {
                    ThreadState::Running
                };
                return Ok(Some(state));
            }
            Blocks::Vfork => return Ok(Some(ThreadState::InVfork)),
            Blocks::Clone => return Ok(Some(vforks(call.args[0]))),
            Blocks::Clone3 => {
                let flags = tracee::read_u64(call.tid, call.args[0]);
                return Ok(Some(vforks(flags.unwrap_or(0))));
            }
            Blocks::Exec => {
                let sched = self.worker.calls.clock.sched_mut();
                sched.release_vfork(&self.worker.calls.tasks.table, call.pid);
                return Ok(Some(ThreadState::InExec));
            }
        };
        self.block_or_move(call, events, len)
    }
}
