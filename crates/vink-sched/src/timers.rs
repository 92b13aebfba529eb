//! Timers of programs in virtual time: setitimer(2), alarm(2) and timer_create(2). When one is due
//! its signal is to be sent. All times are ns of the virtual `CLOCK_MONOTONIC`.
//!
//! The signal's `si_code` is always `SI_TIMER`: no other process may say `SI_KERNEL`, as an alarm
//! of the host's does. Timers by CPU time can be set and asked, and never expire.

use std::collections::{BTreeMap, BTreeSet};

use vink_sys::errno::{EAGAIN, EFAULT, EINVAL, EOPNOTSUPP};
use vink_syscalls::{sched_class, Sched};

use crate::{read_pair, read_timespec, timespec, Syscall, Times, Tracees};

const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

/// Which timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerId {
    /// A process's `ITIMER_REAL`.
    Alarm(i32),
    /// One by CPU time (`ITIMER_VIRTUAL`, `ITIMER_PROF`), which stands still for them.
    Cpu(i32, i32),
    /// One that a process has made: its number there.
    Made(i32, i32),
}

/// What a timer does when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerNotify {
    /// No signal: the program asks for it (`SIGEV_NONE`).
    Silent,
    /// A signal with a value, for the process or for one thread of it.
    Signal {
        /// Its number.
        signal: i32,
        /// What it carries.
        value: u64,
        /// The thread, if it is for one.
        thread: Option<i32>,
    },
}

/// When it is due, and again; 0: not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// When it is due next, in ns.
    pub next: u64,
    /// After how many ns it is due again.
    pub interval: u64,
}

/// What is left of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerState {
    /// In how many ns it is due.
    pub value: u64,
    /// After how many ns it is due again.
    pub interval: u64,
}

struct Timer {
    notice: TimerNotify,
    /// As timer_create(2) was told; what an absolute time is counted by.
    clock: i32,
    setting: Setting,
    /// Among those that are due at the same time, the one set first comes first.
    serial: u64,
    /// Expirations for which no signal was sent, since one was pending.
    missed: u64,
    /// Those of the signal before.
    missed_before: u64,
}

/// One that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub name: TimerId,
    /// The signal to be sent.
    pub signal: i32,
    /// What it carries.
    pub value: u64,
    /// The thread, if it is for one.
    pub thread: Option<i32>,
    /// How often, if the clock went on by more than an interval.
    pub times: u64,
}

/// All of them.
#[derive(Default)]
pub struct Timers {
    all: BTreeMap<TimerId, Timer>,
    due: BTreeSet<(u64, u64, TimerId)>,
    serial: u64,
    /// How many a process has made so far.
    made: BTreeMap<i32, i32>,
}

impl Timers {
    /// A new timer of the process, not set: its number there.
    pub fn make(&mut self, pid: i32, clock: i32, notice: impl Fn(i32) -> TimerNotify) -> i32 {
        let made = self.made.entry(pid).or_default();
        let number = *made;
        *made += 1;
        self.all.insert(
            TimerId::Made(pid, number),
            Timer::new(clock, notice(number)),
        );
        number
    }

    /// The clock that the timer was made with; `None` if there is none of that name.
    pub fn clock(&self, name: TimerId) -> Option<i32> {
        self.all.get(&name).map(|timer| timer.clock)
    }

    /// Sets a timer. What was left of its former setting; `None` if there is none of that name.
    pub fn set(&mut self, name: TimerId, now: u64, setting: Setting) -> Option<TimerState> {
        let notice = match name {
            TimerId::Alarm(_) => Some(TimerNotify::Signal {
                signal: libc::SIGALRM,
                value: 0,
                thread: None,
            }),
            TimerId::Cpu(..) => Some(TimerNotify::Silent),
            TimerId::Made(..) => None,
        };
        if let Some(notice) = notice {
            let new = || Timer::new(libc::CLOCK_MONOTONIC, notice);
            self.all.entry(name).or_insert_with(new);
        }
        let timer = self.all.get_mut(&name)?;
        let left = timer.left(now);
        self.due.remove(&(timer.setting.next, timer.serial, name));
        self.serial += 1;
        timer.serial = self.serial;
        timer.setting = setting;
        timer.missed = 0;
        timer.missed_before = 0;
        if setting.next != 0 && timer.notice != TimerNotify::Silent {
            self.due.insert((setting.next, timer.serial, name));
        }
        Some(left)
    }

    /// What is left of a timer's setting. A process has those of setitimer(2) from the beginning.
    pub fn left(&mut self, name: TimerId, now: u64) -> Option<TimerState> {
        match (self.all.get_mut(&name), name) {
            (Some(timer), _) => Some(timer.left(now)),
            (None, TimerId::Alarm(_) | TimerId::Cpu(..)) => Some(TimerState::default()),
            (None, TimerId::Made(..)) => None,
        }
    }

    /// False if there is none of that name.
    pub fn delete(&mut self, name: TimerId) -> bool {
        let Some(timer) = self.all.remove(&name) else {
            return false;
        };
        self.due.remove(&(timer.setting.next, timer.serial, name));
        true
    }

    /// The process executes a program, which has none of the timers made before; its alarm goes on.
    pub fn executed(&mut self, pid: i32) {
        let made = self
            .all
            .range(TimerId::Made(pid, 0)..=TimerId::Made(pid, i32::MAX));
        for name in made.map(|(name, _)| *name).collect::<Vec<_>>() {
            self.delete(name);
        }
        self.made.remove(&pid);
    }

    /// The process has ended.
    pub fn forget(&mut self, pid: i32) {
        self.executed(pid);
        self.delete(TimerId::Alarm(pid));
        for which in [libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
            self.delete(TimerId::Cpu(pid, which));
        }
    }

    /// When the first one is due.
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(when, ..)| *when)
    }

    /// Takes out the first one that is due, and sets it anew if it has an interval.
    pub fn take_due(&mut self, now: u64) -> Option<Due> {
        let entry = *self.due.first().filter(|(when, ..)| *when <= now)?;
        self.due.remove(&entry);
        let (when, serial, name) = entry;
        let timer = self.all.get_mut(&name).expect("what is due is there");
        let interval = timer.setting.interval;
        let times = match interval {
            0 => 1,
            interval => 1 + (now - when) / interval,
        };
        timer.setting.next = 0;
        if interval != 0 {
            timer.setting.next = when + times * interval;
            self.due.insert((timer.setting.next, serial, name));
        }
        match timer.notice {
            TimerNotify::Signal {
                signal,
                value,
                thread,
            } => Some(Due {
                name,
                signal,
                value,
                thread,
                times,
            }),
            TimerNotify::Silent => unreachable!("a silent timer is never due"),
        }
    }

    /// The signal of one that was due was sent, or not since the one before is `pending`.
    pub fn delivered(&mut self, due: &Due, pending: bool) {
        if let Some(timer) = self.all.get_mut(&due.name) {
            if pending {
                timer.missed += due.times;
            } else {
                timer.missed_before = timer.missed;
                timer.missed = due.times - 1;
            }
        }
    }

    /// timer_getoverrun(2): how many expirations the last signal that arrived stands for beside its
    /// own.
    pub fn overrun(&self, name: TimerId, pending: bool) -> Option<i32> {
        let timer = self.all.get(&name)?;
        let missed = match pending {
            true => timer.missed_before,
            false => timer.missed,
        };
        Some(i32::try_from(missed).unwrap_or(i32::MAX))
    }

    /// The signal of a timer.
    pub fn notice(&self, name: TimerId) -> Option<TimerNotify> {
        self.all.get(&name).map(|timer| timer.notice)
    }
}

impl Timer {
    fn new(clock: i32, notice: TimerNotify) -> Timer {
        Timer {
            notice,
            clock,
            setting: Setting::default(),
            serial: 0,
            missed: 0,
            missed_before: 0,
        }
    }

    fn left(&mut self, now: u64) -> TimerState {
        let Setting { next, interval } = self.setting;
        // A silent one is not taken out when it is due.
        if next != 0 && next <= now && self.notice == TimerNotify::Silent {
            self.setting.next = match interval {
                0 => 0,
                interval => next + (1 + (now - next) / interval) * interval,
            };
        }
        let value = match self.setting.next {
            0 => 0,
            next => next.saturating_sub(now).max(1),
        };
        TimerState { value, interval }
    }
}

/// How a clock goes for timers.
enum TimerClock {
    /// With virtual time; by the date.
    Goes(bool),
    /// CPU time.
    Stands,
}

fn timer_clock(clock: i32) -> Result<TimerClock, i64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => {
            Ok(TimerClock::Goes(true))
        }
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => {
            Ok(TimerClock::Goes(false))
        }
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID | ..0 => {
            Ok(TimerClock::Stands)
        }
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_MONOTONIC_COARSE => {
            Err(EOPNOTSUPP)
        }
        _ => Err(EINVAL),
    }
}

/// The seconds that alarm(2) returns: rounded, and never down to none.
fn seconds_left(left: u64) -> i64 {
    let (seconds, us) = (left / SECOND, left % SECOND / MICROSECOND);
    (seconds + u64::from(us >= 500_000 || seconds == 0 && us > 0)) as i64
}

fn itimerval(left: TimerState) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (at, ns) in [(0, left.interval), (16, left.value)] {
        bytes[at..at + 8].copy_from_slice(&(ns / SECOND).to_ne_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&(ns % SECOND / MICROSECOND).to_ne_bytes());
    }
    bytes
}

fn itimerspec(left: TimerState) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&timespec(left.interval));
    bytes[16..].copy_from_slice(&timespec(left.value));
    bytes
}

/// A call's last step: what it tells is written to this address.
fn write(tracees: &mut impl Tracees, tid: i32, address: u64, bytes: &[u8]) -> Result<i64, i64> {
    match tracees.write(tid, address, bytes) {
        true => Ok(0),
        false => Err(EFAULT),
    }
}

/// A timeval at this address, as setitimer(2) takes it.
fn read_timeval(tracees: &impl Tracees, tid: i32, address: u64) -> Result<u64, i64> {
    match read_pair(tracees, tid, address)? {
        (seconds @ 0.., us @ 0..1_000_000) => {
            Ok((seconds as u64).saturating_mul(SECOND) + us as u64 * MICROSECOND)
        }
        _ => Err(EINVAL),
    }
}

impl Timers {
    /// alarm(2), setitimer(2), getitimer(2), and those whose name begins with timer_, of a thread
    /// of this process: the call's result.
    pub fn call(
        &mut self,
        pid: i32,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> i64 {
        let made = TimerId::Made(pid, call.args[0] as i32);
        let result = match sched_class(call.nr) {
            Sched::Alarm => Ok(self.set_alarm(pid, call.args[0] as u32, times)),
            Sched::Setitimer => self.set_interval_timer(pid, call, times, tracees),
            Sched::Getitimer => self.get_interval_timer(pid, call, times, tracees),
            Sched::TimerCreate => self.make_timer(pid, call, tracees),
            Sched::TimerSettime => self.set_timer(made, call, times, tracees),
            Sched::TimerGettime => self.get_timer(made, call, times, tracees),
            Sched::TimerGetoverrun => self.overrun_of(made, tracees),
            _ => self.delete(made).then_some(0).ok_or(EINVAL),
        };
        result.unwrap_or_else(|errno| errno)
    }

    fn set_alarm(&mut self, pid: i32, seconds: u32, times: &Times) -> i64 {
        let now = times.now;
        let next = match seconds {
            0 => 0,
            seconds => now + u64::from(seconds) * SECOND,
        };
        let setting = Setting { next, interval: 0 };
        let left = self.set(TimerId::Alarm(pid), now, setting);
        seconds_left(left.unwrap_or_default().value)
    }

    /// The timer that setitimer(2) calls by this number, and what its clock shows.
    fn interval_timer(pid: i32, which: u64, now: u64) -> Result<(TimerId, u64), i64> {
        match which as i32 {
            libc::ITIMER_REAL => Ok((TimerId::Alarm(pid), now)),
            which @ (libc::ITIMER_VIRTUAL | libc::ITIMER_PROF) => Ok((TimerId::Cpu(pid, which), 0)),
            _ => Err(EINVAL),
        }
    }

    fn set_interval_timer(
        &mut self,
        pid: i32,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> Result<i64, i64> {
        let [which, new, old, ..] = call.args;
        let mut setting = Setting::default();
        let (mut value, mut interval) = (0, 0);
        if new != 0 {
            interval = read_timeval(tracees, call.tid, new)?;
            value = read_timeval(tracees, call.tid, new + 16)?;
        }
        let (name, now) = Timers::interval_timer(pid, which, times.now)?;
        if value != 0 {
            setting.next = now.saturating_add(value);
            setting.interval = interval;
        }
        let left = self.set(name, now, setting).unwrap_or_default();
        match old {
            0 => Ok(0),
            old => write(tracees, call.tid, old, &itimerval(left)),
        }
    }

    fn get_interval_timer(
        &mut self,
        pid: i32,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> Result<i64, i64> {
        let (name, now) = Timers::interval_timer(pid, call.args[0], times.now)?;
        let left = self.left(name, now).unwrap_or_default();
        write(tracees, call.tid, call.args[1], &itimerval(left))
    }

    fn make_timer(
        &mut self,
        pid: i32,
        call: &Syscall,
        tracees: &mut impl Tracees,
    ) -> Result<i64, i64> {
        let [clock, event, number_at, ..] = call.args;
        let clock = clock as i32;
        let pace = timer_clock(clock)?;
        // As a null pointer says it; its value is the timer's number.
        let mut asked = (libc::SIGEV_SIGNAL, libc::SIGALRM, None, None);
        if event != 0 {
            let mut bytes = [0; 64];
            if !tracees.read(call.tid, event, &mut bytes) {
                return Err(EFAULT);
            }
            let number = |at: usize| {
                let bytes = bytes[at..at + 4].try_into().expect("four bytes");
                i32::from_ne_bytes(bytes)
            };
            let value = u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
            let (signal, how) = (number(8), number(12));
            let thread = match how {
                libc::SIGEV_THREAD_ID => {
                    Some(tracees.thread_numbered(pid, number(16)).ok_or(EINVAL)?)
                }
                libc::SIGEV_NONE | libc::SIGEV_SIGNAL | libc::SIGEV_THREAD => None,
                _ => return Err(EINVAL),
            };
            asked = (how, signal, Some(value), thread);
        }
        let (how, signal, value, thread) = asked;
        let silent = how == libc::SIGEV_NONE || matches!(pace, TimerClock::Stands);
        if how != libc::SIGEV_NONE && !(1..=64).contains(&signal) {
            return Err(EINVAL);
        }
        let number = self.make(pid, clock, |number| match silent {
            true => TimerNotify::Silent,
            false => TimerNotify::Signal {
                signal,
                value: value.unwrap_or(number as u64),
                thread,
            },
        });
        if !tracees.write(call.tid, number_at, &number.to_ne_bytes()) {
            self.delete(TimerId::Made(pid, number));
            return Err(EFAULT);
        }
        Ok(0)
    }

    /// What the clock shows that a timer was made with, and what it is for the timer.
    fn time_for(&self, name: TimerId, times: &Times) -> Result<(u64, u64), i64> {
        let clock = self.clock(name).ok_or(EINVAL)?;
        match timer_clock(clock)? {
            TimerClock::Goes(true) => Ok((times.realtime, times.now)),
            TimerClock::Goes(false) => Ok((times.monotonic, times.now)),
            TimerClock::Stands => Ok((0, 0)),
        }
    }

    fn set_timer(
        &mut self,
        name: TimerId,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> Result<i64, i64> {
        let [_, flags, new, old, ..] = call.args;
        let interval = read_timespec(tracees, call.tid, new)?;
        let value = read_timespec(tracees, call.tid, new + 16)?;
        let (shown, now) = self.time_for(name, times)?;
        let ahead = match flags as i32 & libc::TIMER_ABSTIME {
            0 => value,
            _ => value.saturating_sub(shown),
        };
        let setting = match value {
            0 => Setting::default(),
            _ => Setting {
                next: now.saturating_add(ahead).max(1),
                interval,
            },
        };
        let left = self.set(name, now, setting).ok_or(EINVAL)?;
        match old {
            0 => Ok(0),
            old => write(tracees, call.tid, old, &itimerspec(left)),
        }
    }

    fn get_timer(
        &mut self,
        name: TimerId,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> Result<i64, i64> {
        let (_, now) = self.time_for(name, times)?;
        let left = self.left(name, now).ok_or(EINVAL)?;
        write(tracees, call.tid, call.args[1], &itimerspec(left))
    }

    fn overrun_of(&self, name: TimerId, tracees: &impl Tracees) -> Result<i64, i64> {
        let notice = self.notice(name).ok_or(EINVAL)?;
        let pending = is_pending(name, notice, tracees);
        let overrun = self.overrun(name, pending);
        overrun.map(i64::from).ok_or(EAGAIN)
    }
}

/// Whether the signal of a timer that has been made is pending: then it is not sent again.
pub fn is_pending(name: TimerId, notice: TimerNotify, tracees: &impl Tracees) -> bool {
    let (TimerId::Made(pid, _), TimerNotify::Signal { signal, thread, .. }) = (name, notice) else {
        return false;
    };
    tracees.is_signal_pending(pid, thread.unwrap_or(pid), signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTMIN: i32 = 34;

    fn setting(next: u64, interval: u64) -> Setting {
        Setting { next, interval }
    }

    fn left(value: u64, interval: u64) -> Option<TimerState> {
        Some(TimerState { value, interval })
    }

    fn signals(timers: &mut Timers, pid: i32) -> TimerId {
        let notice = |number| TimerNotify::Signal {
            signal: RTMIN,
            value: number as u64,
            thread: Some(pid + 1),
        };
        TimerId::Made(pid, timers.make(pid, libc::CLOCK_MONOTONIC, notice))
    }

    #[test]
    fn an_alarm_is_due_once_or_again_and_again() {
        let mut t = Timers::default();
        let alarm = TimerId::Alarm(5);
        assert_eq!(t.left(alarm, 0), left(0, 0));
        assert_eq!(t.set(alarm, 100, setting(350, 0)), left(0, 0));
        assert_eq!((t.next(), t.left(alarm, 150)), (Some(350), left(200, 0)));
        assert_eq!(t.take_due(349), None);
        let due = t.take_due(350).unwrap();
        assert_eq!(
            (due.signal, due.thread, due.times),
            (libc::SIGALRM, None, 1)
        );
        assert_eq!((t.next(), t.left(alarm, 350)), (None, left(0, 0)));

        t.set(alarm, 400, setting(500, 30));
        assert_eq!(t.take_due(500).unwrap().times, 1);
        assert_eq!(t.left(alarm, 501), left(29, 30));
        // 530, 560 and 590 are over.
        assert_eq!(t.take_due(610).unwrap().times, 3);
        assert_eq!(t.next(), Some(620));
        assert_eq!(t.set(alarm, 611, Setting::default()), left(9, 30));
        assert_eq!(t.next(), None);
    }

    #[test]
    fn of_those_due_at_once_the_one_set_first_comes_first() {
        let mut t = Timers::default();
        let names = [signals(&mut t, 9), signals(&mut t, 4), signals(&mut t, 9)];
        assert_eq!(
            names,
            [
                TimerId::Made(9, 0),
                TimerId::Made(4, 0),
                TimerId::Made(9, 1)
            ]
        );
        for name in [names[2], names[0], names[1]] {
            t.set(name, 0, setting(10, 0)).unwrap();
        }
        t.set(TimerId::Alarm(4), 0, setting(9, 0));
        let order: Vec<_> = std::iter::from_fn(|| t.take_due(10).map(|due| due.name)).collect();
        assert_eq!(order, [TimerId::Alarm(4), names[2], names[0], names[1]]);
    }

    #[test]
    fn expirations_without_a_signal_are_counted() {
        let mut t = Timers::default();
        let name = signals(&mut t, 1);
        t.set(name, 0, setting(10, 10)).unwrap();
        let mut expire = |now, pending| {
            let due = t.take_due(now).unwrap();
            t.delivered(&due, pending);
            [t.overrun(name, true), t.overrun(name, false)].map(Option::unwrap)
        };
        assert_eq!(expire(10, false), [0, 0]);
        assert_eq!(expire(20, true), [0, 1]);
        assert_eq!(expire(30, true), [0, 2]);
        assert_eq!(expire(40, false), [2, 0]);
        assert_eq!(expire(75, false), [0, 2]);
        t.set(name, 80, setting(90, 0)).unwrap();
        assert_eq!(t.overrun(name, false), Some(0));
        assert_eq!(t.overrun(TimerId::Made(1, 1), false), None);
    }

    #[test]
    fn a_silent_timer_is_never_due_and_goes_on() {
        let mut t = Timers::default();
        let name = TimerId::Made(1, t.make(1, libc::CLOCK_REALTIME, |_| TimerNotify::Silent));
        assert_eq!(t.clock(name), Some(libc::CLOCK_REALTIME));
        t.set(name, 0, setting(10, 0)).unwrap();
        assert_eq!((t.next(), t.left(name, 4)), (None, left(6, 0)));
        assert_eq!(t.left(name, 10), left(0, 0));
        t.set(name, 10, setting(20, 7)).unwrap();
        assert_eq!(t.left(name, 30), left(4, 7));
    }

    #[test]
    fn an_exec_deletes_what_was_made_and_an_end_all() {
        let mut t = Timers::default();
        let (mine, other) = (signals(&mut t, 1), signals(&mut t, 2));
        for name in [mine, other, TimerId::Alarm(1)] {
            t.set(name, 0, setting(10, 0)).unwrap();
        }
        t.executed(1);
        assert_eq!(t.left(mine, 0), None);
        assert_eq!(t.set(mine, 0, setting(1, 0)), None);
        assert_eq!(t.left(TimerId::Alarm(1), 0), left(10, 0));
        assert_eq!(signals(&mut t, 1), mine);
        t.forget(1);
        assert!(!t.delete(mine) && t.delete(other) && !t.delete(other));
        assert_eq!((t.all.len(), t.due.len(), t.next()), (0, 0, None));
    }

    #[test]
    fn alarms_are_told_in_seconds() {
        let told = [
            0,
            1,
            999,
            1_000,
            499_999_000,
            500_000_000,
            1_499_999_999,
            1_500_000_000,
        ];
        assert_eq!(told.map(seconds_left), [0, 0, 0, 1, 1, 1, 1, 2]);
    }
}
