//! Which calls are treated differently in virtual time, and how.

use super::{Patience, Until};
use crate::notify::Notification;
use crate::process::Stage;
use crate::target;
use crate::worker::Worker;
use crate::Error;

const ENOSYS: i64 = -(libc::ENOSYS as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);

impl Worker {
    /// Looks after a call as virtual time demands. False: it is treated as in real time.
    pub(crate) fn treat(&mut self, call: Notification) -> Result<bool, Error> {
        self.give_up_kept(call);
        self.look_for_file_signals(call);
        match call.nr {
            libc::SYS_clock_gettime
            | libc::SYS_clock_getres
            | libc::SYS_gettimeofday
            | libc::SYS_time => self.tell_time(call)?,
            libc::SYS_clock_settime
            | libc::SYS_settimeofday
            | libc::SYS_adjtimex
            | libc::SYS_clock_adjtime => self.refuse_to_set(call)?,
            libc::SYS_times => self.times(call)?,
            libc::SYS_getrusage => self.usage(call)?,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => self.sleep(call)?,
            libc::SYS_timerfd_create => {
                let cloexec = call.args[1] & libc::TFD_CLOEXEC as u64 != 0;
                self.make(call, call.args, cloexec)?;
            }
            libc::SYS_timerfd_settime => self.set_timer_file(call)?,
            libc::SYS_timerfd_gettime => match self.table_of(call.tid).get(call.args[0]) {
                Some(entry) => self.run(call, Stage::Answer, &entry)?,
                None => self.pass(call)?,
            },
            libc::SYS_poll | libc::SYS_ppoll => self.poll_in_turn(call)?,
            libc::SYS_select | libc::SYS_pselect6 => self.select_in_turn(call)?,
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                self.epoll_in_turn(call)?;
            }
            libc::SYS_pause => self.park(call, Until::forever()),
            libc::SYS_rt_sigsuspend => match target::read_u64(call.tid, call.args[0]) {
                Some(mask) => {
                    let mask = Some(mask);
                    self.park(
                        call,
                        Until {
                            mask,
                            ..Until::forever()
                        },
                    );
                }
                None => self.answer(call, EFAULT)?,
            },
            libc::SYS_sched_yield => {
                self.note_look(call.tid)?;
                let until = Until {
                    deadline: Some(self.kernel.now()),
                    late: Some(0),
                    ..Until::forever()
                };
                self.park(call, until);
            }
            libc::SYS_kill
            | libc::SYS_tkill
            | libc::SYS_tgkill
            | libc::SYS_rt_sigqueueinfo
            | libc::SYS_rt_tgsigqueueinfo
            | libc::SYS_pidfd_send_signal => {
                self.pulse.hint();
                self.expect_deaths(call.tid);
                self.pass(call)?;
            }
            libc::SYS_futex => self.futex(call)?,
            // futex_waitv(2), futex_wake(2), futex_wait(2), futex_requeue(2): C libraries do without.
            449 | 454..=456 => self.answer(call, ENOSYS)?,
            libc::SYS_wait4 | libc::SYS_waitid => self.wait_for_child(call)?,
            libc::SYS_flock | libc::SYS_fcntl => return self.lock(call),
            libc::SYS_rt_sigtimedwait => self.wait_for_signals(call)?,
            libc::SYS_alarm
            | libc::SYS_setitimer
            | libc::SYS_getitimer
            | libc::SYS_timer_create
            | libc::SYS_timer_settime
            | libc::SYS_timer_gettime
            | libc::SYS_timer_getoverrun
            | libc::SYS_timer_delete => self.timer_call(call)?,
            libc::SYS_signalfd | libc::SYS_signalfd4 => {
                self.turn.as_mut().expect("virtual time").signalfds = true;
                return Ok(false);
            }
            libc::SYS_ptrace => {
                self.note_tracer(self.threads[&call.tid].pid);
                return Ok(false);
            }
            libc::SYS_copy_file_range
            | libc::SYS_tee
            | libc::SYS_vmsplice
            | libc::SYS_msgrcv
            | libc::SYS_msgsnd
            | libc::SYS_semop => self.pass_that_may_wait(call)?,
            libc::SYS_semtimedop => self.use_semaphores(call)?,
            libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => self.use_queue(call)?,
            _ => return self.ask_about_host(call),
        }
        Ok(true)
    }

    /// How the host may do this call now; `None`: it would wait, and is parked until it would not.
    pub(crate) fn ready_to_pass(&mut self, call: Notification) -> Result<Option<Patience>, Error> {
        if self.turn.is_none() {
            return Ok(Some(Patience::Runs));
        }
        let now = libc::MSG_DONTWAIT as u64;
        let vforks = |flags: u64| match flags & libc::CLONE_VFORK as u64 != 0 {
            true => Patience::Vfork,
            false => Patience::Runs,
        };
        let (events, len) = match call.nr {
            libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2 => (libc::POLLIN, 0),
            libc::SYS_accept | libc::SYS_accept4 => (libc::POLLIN, 0),
            libc::SYS_recvfrom | libc::SYS_recvmmsg if call.args[3] & now == 0 => (libc::POLLIN, 0),
            libc::SYS_recvmsg if call.args[2] & now == 0 => (libc::POLLIN, 0),
            libc::SYS_write => (libc::POLLOUT, call.args[2]),
            libc::SYS_writev | libc::SYS_pwritev2 => (libc::POLLOUT, u64::MAX),
            libc::SYS_sendto | libc::SYS_sendmmsg if call.args[3] & now == 0 => {
                (libc::POLLOUT, u64::MAX)
            }
            libc::SYS_sendmsg if call.args[2] & now == 0 => (libc::POLLOUT, u64::MAX),
            libc::SYS_connect | libc::SYS_sendfile | libc::SYS_splice => {
                return Ok(Some(Patience::MayWait))
            }
            libc::SYS_fcntl => {
                let waits = matches!(call.args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW);
                let patience = if waits {
                    Patience::MayWait
                } else {
                    Patience::Runs
                };
                return Ok(Some(patience));
            }
            libc::SYS_vfork => return Ok(Some(Patience::Vfork)),
            libc::SYS_clone => return Ok(Some(vforks(call.args[0]))),
            libc::SYS_clone3 => {
                let flags = target::read_u64(call.tid, call.args[0]);
                return Ok(Some(vforks(flags.unwrap_or(0))));
            }
            libc::SYS_execve | libc::SYS_execveat => {
                self.release_vfork(self.threads[&call.tid].pid);
                return Ok(Some(Patience::Executes));
            }
            _ => return Ok(Some(Patience::Runs)),
        };
        self.ready_to_move(call, events, len)
    }

    /// The host does it.
    pub(crate) fn pass_with(
        &mut self,
        call: Notification,
        patience: Patience,
    ) -> Result<(), Error> {
        if let Some(turn) = &mut self.turn {
            turn.stale = true;
            turn.passed = true;
            self.doubt_after(call);
        }
        self.tell_of(call, None);
        self.show_time(call.tid, patience);
        if let Some(listener) = self.listener(call.tid) {
            let sent = listener.let_pass(call.id);
            self.goes_out(call, sent, patience);
        }
        Ok(())
    }
}
