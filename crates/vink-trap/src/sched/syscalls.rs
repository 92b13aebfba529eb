//! Which calls are treated differently in virtual time, and how.

use vink_sys::errno::{EFAULT, ENOSYS};
use vink_syscalls::{blocks, sched_class, Blocks, Sched};

use super::{BlockCondition, ThreadState, VirtualWorker};
use crate::in_flight::Continuation;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

impl VirtualWorker<'_> {
    /// Handles a call that virtual time treats differently. False: it is treated as in real time.
    pub(crate) fn on_virtual_syscall(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        self.invalidate_fd_cache(call);
        self.worker.clock.sched_mut().note_file_signals(call);
        match sched_class(call.nr) {
            Sched::ClockGettime | Sched::ClockGetres | Sched::Gettimeofday | Sched::Time => {
                self.read_clock(call)?
            }
            Sched::SetClock => self.refuse_clock_set(call)?,
            Sched::Times => self.times(call)?,
            Sched::Getrusage => self.usage(call)?,
            Sched::Sleep => self.sleep(call)?,
            Sched::TimerfdCreate => {
                let cloexec = call.args[1] & libc::TFD_CLOEXEC as u64 != 0;
                self.make_descriptor(call, call.args, cloexec)?;
            }
            Sched::TimerfdSettime => self.set_timer_file(call)?,
            Sched::TimerfdGettime => match self.table.fd_table(call.pid).get(call.args[0]) {
                Some(entry) => self.run_in_kernel(call, Continuation::Answer, &entry)?,
                None => self.passthrough(call)?,
            },
            Sched::Poll => self.poll_virtual(call)?,
            Sched::Select => self.select_virtual(call)?,
            Sched::Epoll => self.epoll_virtual(call)?,
            Sched::Pause => self.block(call, BlockCondition::forever()),
            Sched::Sigsuspend => match tracee::read_u64(call.tid, call.args[0]) {
                Some(mask) => {
                    let mask = Some(mask);
                    self.block(
                        call,
                        BlockCondition {
                            mask,
                            ..BlockCondition::forever()
                        },
                    );
                }
                None => self.answer(call, EFAULT)?,
            },
            Sched::Yield => {
                self.count_poll(call.tid)?;
                let condition = BlockCondition {
                    deadline: Some(self.worker.kernel.now()),
                    on_timeout: Some(0),
                    ..BlockCondition::forever()
                };
                self.block(call, condition);
            }
            Sched::SendSignal => {
                self.worker.signals.hint();
                self.expect_kills(call.tid);
                return Ok(false);
            }
            Sched::Futex => self.futex(call)?,
            Sched::NewFutex => self.answer(call, ENOSYS)?,
            Sched::WaitChild => self.wait_for_child(call)?,
            Sched::Lock => return self.lock(call),
            Sched::AwaitSignal => self.wait_for_signals(call)?,
            Sched::Alarm
            | Sched::Setitimer
            | Sched::Getitimer
            | Sched::TimerCreate
            | Sched::TimerSettime
            | Sched::TimerGettime
            | Sched::TimerGetoverrun
            | Sched::TimerDelete => self.timer_call(call)?,
            Sched::Signalfd => {
                self.worker.clock.sched_mut().any_signalfd = true;
                return Ok(false);
            }
            Sched::Ptrace => {
                self.note_tracer(call.pid);
                return Ok(false);
            }
            Sched::HostMayBlock => self.passthrough_that_may_block(call)?,
            Sched::Semtimedop => self.semop_call(call)?,
            Sched::MqReceive => self.mq_call(call, libc::POLLIN)?,
            Sched::MqSend => self.mq_call(call, libc::POLLOUT)?,
            Sched::Getrandom
            | Sched::Getaffinity
            | Sched::Setaffinity
            | Sched::Getcpu
            | Sched::Sysinfo
            | Sched::LockMemory
            | Sched::Rseq => return self.answer_sysinfo(call),
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
                self.release_vfork(call.pid);
                return Ok(Some(ThreadState::InExec));
            }
        };
        self.block_or_move(call, events, len)
    }

    /// Before the host does a call.
    pub(crate) fn note_passthrough(&mut self, call: SyscallCtx) {
        let sched = self.worker.clock.sched_mut();
        sched.host_fds_dirty = true;
        sched.host_ran = true;
        self.invalidate_signals_after(call);
    }
}
