//! Programs that never wait: each is named, and made to let time pass and others go on, so that nothing hangs in silence.
//!
//! One that calls again and again is charged for that, by count, so that the run repeats ([`Worker::note_look`],
//! [`Worker::note_call`]), and no further than to what comes next. One that makes no call at all, since it computes or waits for what another thread writes to
//! their memory, can't be counted: when it has used up its [`super::Charge::endurance`] of the processor it goes *astray*. The
//! others go on beside it then, and time passes as on the host's clock, until it makes a call.

use std::fs;
use std::time::{Duration, Instant};

use super::{Patience, Turn, SILENCE};
use crate::notify::Notification;
use crate::trace::call_name;
use crate::worker::Worker;
use crate::Error;

/// What calls of some kind cost: after so many with no time passing each one a microsecond, twice as much after each so
/// many more, and at most so many ns.
struct Price {
    free: u64,
    doubled: u64,
    most: u64,
}

/// Looks of one thread at the clock and the like: a loop that waits for time.
const LOOK: Price = Price {
    free: 20_000,
    doubled: 1_000,
    most: 1_000_000,
};
/// Looks of one thread at whether the same is ready, when nobody has done anything in between: nothing can have changed, and
/// only time can change it.
const REPEAT: Price = Price {
    free: 100,
    doubled: 100,
    most: 1_000_000,
};
/// Calls of any kind, of all threads together: somebody may wait for a file to be there.
const CALL: Price = Price {
    free: 200_000,
    doubled: 10_000,
    most: 16_000,
};

impl Price {
    /// Of one more after so many; `None`: nothing.
    fn after(&self, count: u64) -> Option<u64> {
        let more = count.checked_sub(self.free)?;
        Some((1_000 << (more / self.doubled).min(10)).min(self.most))
    }
}

/// The last call, if it asks whether something is ready, and how often it has been made in a row.
#[derive(Default)]
pub(super) struct Repeats {
    call: Option<(i32, i64, [u64; 6])>,
    count: u64,
}

impl Repeats {
    /// One more call; how many are like it.
    fn add(&mut self, call: &Notification) -> u64 {
        let asks = matches!(
            call.nr,
            libc::SYS_poll
                | libc::SYS_ppoll
                | libc::SYS_select
                | libc::SYS_pselect6
                | libc::SYS_epoll_wait
                | libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2
        );
        let this = asks.then_some((call.tid, call.nr, call.args));
        let tells_time = matches!(
            call.nr,
            libc::SYS_clock_gettime | libc::SYS_gettimeofday | libc::SYS_time
        );
        if this.is_some() && self.call == this {
            self.count += 1;
        } else if !tells_time || self.call.is_some_and(|(tid, ..)| tid != call.tid) {
            *self = Repeats {
                call: this,
                count: 0,
            };
        }
        self.count
    }
}

/// What is known of whoever makes no call.
#[derive(Default)]
pub(super) struct Silence {
    /// For how long nothing has been heard of anybody, on the host's clock.
    pub(super) lasts: Duration,
    /// The processor's time of the thread that is waited for, when it was first looked at.
    first: Option<(i32, Duration)>,
}

/// Threads that compute while others go on.
#[derive(Default)]
pub(super) struct Astray {
    tids: Vec<i32>,
    /// When the first of them got there, on the virtual clock and on the host's.
    since: Option<(u64, Instant)>,
}

impl Astray {
    pub(super) fn has(&self, tid: i32) -> bool {
        self.tids.contains(&tid)
    }

    /// It makes a call, or is gone.
    pub(super) fn remove(&mut self, tid: i32) {
        self.tids.retain(|astray| *astray != tid);
        if self.tids.is_empty() {
            self.since = None;
        }
    }

    fn add(&mut self, tid: i32, now: u64) {
        self.tids.push(tid);
        self.since.get_or_insert_with(|| (now, Instant::now()));
    }

    /// How far the virtual clock may go now; `None`: as far as it likes.
    pub(super) fn limit(&self) -> Option<u64> {
        let (now, real) = self.since?;
        Some(now.saturating_add(real.elapsed().as_nanos() as u64))
    }
}

/// How long the thread has had a processor, by the host's ticks; see proc_pid_stat(5).
fn processor_time(pid: i32, tid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    // utime and stime, counted from the state, which is the third.
    let ticks = rest.split_ascii_whitespace().skip(14 - 3).take(2);
    let ticks: u64 = ticks.filter_map(|n| n.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

impl Turn {
    /// Whether time may be made to pass for one of so many more calls of all threads, this one among them.
    pub(super) fn is_restless(&self, tid: i32, more: u64) -> bool {
        let looks = self.looks.get(&tid).copied().unwrap_or(0);
        looks + more >= LOOK.free
            || self.restless + more >= CALL.free
            // Those of one thread in a row, of which it has one at most beside others.
            || self.repeats.count + 1 >= REPEAT.free
    }
}

impl Worker {
    /// The thread looks at the clock, or whether something is ready: if it does so for ever, time must pass.
    pub(crate) fn note_look(&mut self, tid: i32) -> Result<(), Error> {
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        let looks = turn.looks.entry(tid).or_default();
        *looks += 1;
        match LOOK.after(*looks) {
            None => Ok(()),
            Some(price) => self.charge_spinner(tid, price, true),
        }
    }

    /// The same of a call of any kind.
    pub(super) fn note_call(&mut self, call: &Notification) -> Result<(), Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.restless += 1;
        let any = CALL.after(turn.restless);
        let again = REPEAT.after(turn.repeats.add(call));
        match any.max(again) {
            None => Ok(()),
            // Programs look at a socket like that for a round trip or two, for want of an idea: that is soon over.
            Some(price) => {
                self.charge_spinner(call.tid, price, any.is_some() || price == REPEAT.most)
            }
        }
    }

    /// Makes time pass for the thread, and lets the others go first. `tells`: says so, once.
    fn charge_spinner(&mut self, tid: i32, price: u64, tells: bool) -> Result<(), Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.round.use_up(tid);
        if tells && turn.named.insert(tid) {
            let who = self.describe(tid);
            eprintln!(
                "vink: {who} calls again and again without waiting: time is made to pass for it"
            );
        }
        let now = self.kernel.now();
        let next = [self.next_timer(), Some(self.horizon)];
        let next = next.into_iter().flatten().filter(|next| *next > now);
        self.pass_time(next.fold(now.saturating_add(price), u64::min));
        self.settle()?;
        self.ring_alarms()
    }

    /// Nothing has been heard of those who are out for a while: says who that is, and does not wait for ever.
    pub(super) fn look_at_silence(&mut self) -> Result<(), Error> {
        let now = self.kernel.now();
        let turn = self.turn.as_mut().expect("virtual time");
        let waits = [Patience::Outside, Patience::Vfork];
        let mut quiet = turn.out.iter().filter(|o| !waits.contains(&o.patience));
        let Some((pid, tid)) = quiet.next().map(|out| (out.pid, out.tid)) else {
            return Ok(());
        };
        let endurance = turn.how.charge.endurance;
        let time = processor_time(pid, tid).unwrap_or_default();
        let used = match turn.silence.first {
            Some((first, before)) if first == tid => time.saturating_sub(before),
            _ => {
                turn.silence.first = Some((tid, time));
                Duration::ZERO
            }
        };
        if turn.silence.lasts >= SILENCE && turn.named.insert(tid) {
            let (who, secs) = (self.describe(tid), SILENCE.as_secs());
            eprintln!("vink: {who} has made no system call for {secs} s, and all wait for it");
        }
        if used < endurance {
            return Ok(());
        }
        let who = self.describe(tid);
        eprintln!(
            "vink: {who} has computed for {endurance:?} without a system call: until it makes one, the others go on \
             beside it, and time passes as on the host's clock, so that this run is not the same again"
        );
        let turn = self.turn.as_mut().expect("virtual time");
        turn.out.retain(|out| out.tid != tid);
        turn.astray.add(tid, now);
        turn.stale = true;
        let holds = turn.round.place_of(tid).is_some();
        if let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) {
            self.set_unfree(pid);
        }
        if holds {
            self.find_births_of(tid)?;
            self.turn.as_mut().expect("virtual time").round.leave(tid);
        }
        Ok(())
    }

    fn describe(&self, tid: i32) -> String {
        let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let turn = self.turn.as_ref().expect("virtual time");
        let last = turn.last.get(&tid).copied().map(call_name);
        let last = last.unwrap_or_else(|| "none".to_owned());
        format!("{} (process {pid}, last call: {last})", name.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices() {
        assert_eq!(LOOK.after(19_999), None);
        assert_eq!(LOOK.after(20_999), Some(1_000));
        assert_eq!(LOOK.after(23_000), Some(8_000));
        assert_eq!(LOOK.after(u64::MAX), Some(1_000_000));
        assert_eq!(CALL.after(u64::MAX), Some(16_000));
    }

    #[test]
    fn the_same_again() {
        let call = |tid, nr, first| Notification {
            id: 0,
            tid,
            nr,
            args: [first, 0, 0, 0, 0, 0],
        };
        let mut repeats = Repeats::default();
        let mut add = |call| repeats.add(&call);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 1);
        assert_eq!(add(call(5, libc::SYS_clock_gettime, 1)), 1);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 2);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 1);
        assert_eq!(add(call(6, libc::SYS_clock_gettime, 1)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_read, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_read, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
    }

    #[test]
    fn the_clock_keeps_to_the_hosts_while_somebody_is_astray() {
        let mut astray = Astray::default();
        assert_eq!(astray.limit(), None);
        astray.add(5, 1_000);
        let first = astray.limit().unwrap();
        astray.add(6, 2_000);
        assert!(first >= 1_000 && astray.limit().unwrap() >= first);
        astray.remove(5);
        assert!(astray.limit().is_some() && astray.has(6));
        astray.remove(6);
        assert_eq!(astray.limit(), None);
    }

    #[test]
    fn a_threads_time() {
        let me = std::process::id() as i32;
        // SAFETY: returns a number.
        let tid = unsafe { libc::gettid() };
        let before = processor_time(me, tid).unwrap();
        let mut number = 1u64;
        while processor_time(me, tid).unwrap() == before {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert_eq!(processor_time(me, 0), None);
    }
}
