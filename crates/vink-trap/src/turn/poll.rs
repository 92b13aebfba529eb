//! poll, select and epoll_wait in virtual time: over files of the kernel's and of the host's, answered by the worker.

use std::os::fd::AsRawFd;

use super::clocks::left;
use super::free::Asked;
use super::host::{events_of, Watched};
use super::pending::Signals;
use super::{Patience, Until};
use crate::limits::{limits_of, read_ppoll};
use crate::notify::Notification;
use crate::process::Entry;
use crate::ready::{MOST, POLLFD, SETS};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const EBADF: i64 = -(libc::EBADF as i64);
const EINTR: i64 = -(libc::EINTR as i64);
const MILLISECOND: u64 = 1_000_000;
/// `struct epoll_event`, which is packed.
const EPOLL_EVENT: usize = 12;
/// Events taken from an epoll instance at once.
const TAKEN: u64 = 1024;

/// Somebody waits for these until one of them is ready.
struct Waits {
    /// Of the kernel's: their cookies.
    cookies: Vec<u64>,
    copies: Vec<(u64, std::os::fd::OwnedFd, i16)>,
    /// What was kept of the last wait, with what is true of it, and what of it is waited for again.
    kept: Vec<(Watched, i16)>,
    again: Vec<Watched>,
    /// Told of by a signalfd(2).
    signals: u64,
}

/// Where a call has its time-out, if that is written to.
pub(super) fn time_out_of(call: Notification) -> u64 {
    match call.nr {
        libc::SYS_ppoll => call.args[2],
        libc::SYS_select | libc::SYS_pselect6 => call.args[4],
        _ => 0,
    }
}

/// A descriptor, and what is true of it.
enum Found {
    Events(u32),
    /// There is no such file.
    None,
}

impl Worker {
    /// What is true of one of the thread's descriptors; it is added to what is waited for.
    fn find(
        &mut self,
        tid: i32,
        number: u64,
        wanted: u32,
        waits: &mut Waits,
    ) -> Result<Found, Error> {
        if let Some(entry) = self.table_of(tid).get(number) {
            let cookie = entry.file.cookie.get();
            let events = match self.is_still_waited_for(tid, number, wanted, cookie) {
                true => 0,
                false => self.watch_entry(tid, &entry)?,
            };
            waits.cookies.push(entry.file.cookie.get());
            return Ok(Found::Events(events & wanted));
        }
        let events = wanted as i16;
        let mut kept = waits.kept.iter();
        if let Some(index) = kept.position(|(kept, _)| kept.is(number, events)) {
            let (kept, found) = waits.kept.swap_remove(index);
            waits.again.push(kept);
            return Ok(Found::Events((found as u16).into()));
        }
        let Some(copy) = self.copy_of(tid, number) else {
            return Ok(Found::None);
        };
        if let Some((set, has_any)) = self.signals_told_by(tid, number as i32) {
            waits.signals |= set;
            let found = if has_any { libc::POLLIN as u32 } else { 0 };
            return Ok(Found::Events(found & wanted));
        }
        let found = events_of(copy.as_raw_fd(), events) as u16;
        waits.copies.push((number, copy, events));
        Ok(Found::Events(found.into()))
    }

    /// Nothing is waited for yet.
    fn waits(&mut self, tid: i32) -> Waits {
        self.waits_for(tid, false)
    }

    /// The same if the thread may just have looked at what is the host's: nothing of that is ready.
    fn waits_for(&mut self, tid: i32, looked: bool) -> Waits {
        let kept = self.take_kept(tid);
        let found = match looked {
            true => vec![0; kept.len()],
            false => Watched::look_at(&kept),
        };
        Waits {
            cookies: Vec::new(),
            copies: Vec::new(),
            kept: kept.into_iter().zip(found).collect(),
            again: Vec::new(),
            signals: 0,
        }
    }

    fn watch_entry(&mut self, tid: i32, entry: &Entry) -> Result<u32, Error> {
        match self.task_of(tid) {
            Ok(task) => self.watch(task, entry),
            Err(error) => soften(error).map(|_| 0),
        }
    }

    /// Nothing is ready: waits, or answers with `none` if time is up.
    fn wait_for(
        &mut self,
        call: Notification,
        mut waits: Waits,
        lasting: Option<u64>,
        mask: Option<u64>,
    ) -> Result<bool, Error> {
        let deadline = self.deadline(lasting);
        if lasting == Some(0) {
            self.note_look(call.tid)?;
        }
        let late = deadline.is_some_and(|deadline| deadline <= self.kernel.now());
        // As on the host, a signal comes before the end of time.
        let interrupted = late && mask.is_some_and(|mask| self.lets_in(call.tid, mask));
        if late && !interrupted {
            self.keep(call.tid, waits.again);
            return Ok(false);
        }
        let mut watched = self.watch_host(call.tid, waits.copies);
        watched.append(&mut waits.again);
        let until = Until {
            deadline,
            mask,
            wanted: waits.signals,
            network: true,
            ..Until::forever()
        };
        let turn = self.turn.as_mut().expect("virtual time");
        for cookie in waits.cookies {
            let watchers = turn.watchers.entry(cookie).or_default();
            watchers.retain(|(tid, _)| *tid != call.tid);
            watchers.push((call.tid, call.id));
        }
        self.park_for(call, until, watched, time_out_of(call));
        if interrupted {
            self.have_host_interrupt(call.tid);
        }
        Ok(true)
    }

    /// A file of the kernel's has become ready.
    pub(crate) fn call_watchers(&mut self, cookie: u64) {
        let Some(turn) = &mut self.turn else { return };
        turn.stale = true;
        for (tid, id) in turn.watchers.remove(&cookie).unwrap_or_default() {
            let turn = self.turn.as_mut().expect("virtual time");
            let parked = turn.parked.get_mut(&tid);
            if let Some(parked) = parked.filter(|parked| parked.call.id == id) {
                parked.stirred = true;
            }
            self.wake(tid, id, None);
        }
    }

    /// Whether a signal is pending for the thread that this mask lets in, and that does anything.
    fn lets_in(&mut self, tid: i32, mask: u64) -> bool {
        if self.has_no_signals(tid) {
            return false;
        }
        let pid = self.threads[&tid].pid;
        let signals = Signals::of(pid, tid);
        if signals.pending == 0 {
            self.pulse.make_certain(pid, tid);
        }
        let blocked = mask;
        Signals { blocked, ..signals }.matter()
    }

    /// poll(2) and ppoll(2).
    pub(super) fn poll_in_turn(&mut self, call: Notification) -> Result<(), Error> {
        let count = call.args[1] & 0xffff_ffff;
        let room = if count > MOST { 0 } else { count };
        let asked = self.take_asked(call);
        if let Some(asked) = &asked {
            let ns = limit_of(call, asked);
            if self.wait_again(call, asked, ns) {
                return Ok(());
            }
        }
        let mut fds = vec![0; room as usize * POLLFD];
        let lasting = match call.nr {
            _ if asked.is_some() => {
                let asked = asked.as_ref().expect("looked at");
                for (fd, bytes) in fds.chunks_exact_mut(POLLFD).zip(&asked.fds) {
                    fd.copy_from_slice(&bytes.to_le_bytes());
                }
                Ok((limit_of(call, asked), asked.mask))
            }
            libc::SYS_poll if !target::read(call.tid, call.args[0], &mut fds) && count != 0 => {
                Err(EFAULT)
            }
            libc::SYS_poll => limits_of(call),
            _ => read_ppoll(call, &mut fds),
        };
        let (lasting, mask) = match lasting {
            Ok(_) if count > MOST => return self.answer(call, EINVAL),
            Ok(found) => found,
            Err(error) => return self.answer(call, error),
        };
        let looked = asked.as_ref().is_some_and(|asked| asked.looked);
        let mut waits = self.waits_for(call.tid, looked);
        let mut ready = 0;
        let mut changes = false;
        for fd in fds.chunks_exact_mut(POLLFD) {
            let number = i32::from_ne_bytes(fd[..4].try_into().expect("four bytes"));
            let events = u16::from_ne_bytes(fd[4..6].try_into().expect("two bytes"));
            let found = match number {
                ..0 => 0,
                _ => {
                    let wanted = u32::from(events) | (libc::EPOLLERR | libc::EPOLLHUP) as u32;
                    match self.find(call.tid, number as u64, wanted, &mut waits)? {
                        Found::Events(events) => events as u16,
                        Found::None => libc::POLLNVAL as u16,
                    }
                }
            };
            ready += i64::from(found != 0);
            changes |= fd[6..] != found.to_ne_bytes();
            fd[6..].copy_from_slice(&found.to_ne_bytes());
        }
        let cookies = waits.cookies.clone();
        if ready != 0 {
            self.keep(call.tid, waits.again);
        } else if self.wait_for(call, waits, lasting, mask)? {
            let turn = self.turn.as_mut().expect("virtual time");
            let until = &mut turn.parked.get_mut(&call.tid).expect("just parked").until;
            // That nothing is ready is written down at once, also for a signal, and looked at no more.
            let written = !changes || target::write(call.tid, call.args[0], &fds);
            if until.deadline.is_some() && written {
                until.late = Some(0);
                self.write_down_waits(call, &fds);
                if let Some(asked) = asked.filter(|_| !changes) {
                    self.note_wait(call, asked.fds, cookies);
                }
            }
            return Ok(());
        }
        self.write_down_waits(call, &fds);
        self.tell_waits(call, count as usize);
        if self.has_asked(call) {
            self.leave_found(call);
            self.leave_time(call);
            return self.answer(call, ready);
        }
        self.answer_with(call, lasting, &[(call.args[0], &fds)], ready)
    }

    /// The call, which may last so long, ends, and has found this. What is left of its time-out is written where that was, as
    /// Linux does.
    fn answer_with(
        &mut self,
        call: Notification,
        lasting: Option<u64>,
        found: &[(u64, &[u8])],
        result: i64,
    ) -> Result<(), Error> {
        let deadline = self.deadline(lasting).unwrap_or(0);
        let left = left(call, deadline.saturating_sub(self.kernel.now()));
        let rest = [(time_out_of(call), &left[..])];
        let rest = rest.into_iter().filter(|(address, _)| *address != 0);
        let all: Vec<(u64, &[u8])> = found.iter().copied().chain(rest).collect();
        let wanted: usize = found.iter().map(|(_, bytes)| bytes.len()).sum();
        // The host does not mind either if the time can't be written.
        let written = self.write_and_show_time(call.tid, &all, Patience::Runs) >= wanted;
        self.answer(call, if written { result } else { EFAULT })
    }

    /// select(2) and pselect6(2).
    pub(super) fn select_in_turn(&mut self, call: Notification) -> Result<(), Error> {
        let (lasting, mask) = match limits_of(call) {
            Ok(limits) => limits,
            Err(error) => return self.answer(call, error),
        };
        let count = call.args[0] as i32;
        if count < 0 || count as u64 > MOST {
            return self.answer(call, EINVAL);
        }
        let set_len = (count as usize).div_ceil(64) * 8;
        let mut sets = vec![0; SETS.len() * set_len];
        let mut waits = self.waits(call.tid);
        let mut found = vec![0; sets.len()];
        let mut ready = 0;
        for (n, wanted) in SETS.into_iter().enumerate() {
            let (address, place) = (call.args[1 + n], n * set_len);
            let set = &mut sets[place..place + set_len];
            if address == 0 || count == 0 {
                continue;
            }
            if !target::read(call.tid, address, set) {
                return self.answer(call, EFAULT);
            }
            for fd in 0..count as usize {
                if sets[place + fd / 8] & 1 << (fd % 8) == 0 {
                    continue;
                }
                match self.find(call.tid, fd as u64, wanted, &mut waits)? {
                    Found::None => return self.answer(call, EBADF),
                    Found::Events(0) => {}
                    Found::Events(_) => {
                        found[place + fd / 8] |= 1 << (fd % 8);
                        ready += 1;
                    }
                }
            }
        }
        if ready != 0 {
            self.keep(call.tid, waits.again);
        } else if self.wait_for(call, waits, lasting, mask)? {
            return Ok(());
        }
        let sets = call.args[1..4].iter().enumerate();
        let sets = sets.map(|(n, address)| (*address, &found[n * set_len..(n + 1) * set_len]));
        let sets: Vec<(u64, &[u8])> = sets.filter(|(address, _)| *address != 0).collect();
        self.answer_with(call, lasting, &sets, ready)
    }

    /// epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2).
    pub(super) fn epoll_in_turn(&mut self, call: Notification) -> Result<(), Error> {
        let (lasting, mask) = match limits_of(call) {
            Ok(limits) => limits,
            Err(error) => return self.answer(call, error),
        };
        let mut kept = self.take_kept(call.tid);
        kept.retain(|kept| kept.is(call.args[0], libc::POLLIN));
        let copy = match kept.first() {
            Some(_) => None,
            None => self.copy_of(call.tid, call.args[0]),
        };
        let Some(set) = kept
            .first()
            .map(Watched::fd)
            .or(copy.as_ref().map(|c| c.as_raw_fd()))
        else {
            return self.answer(call, EBADF);
        };
        let most = call.args[2] as i32;
        if most <= 0 {
            return self.answer(call, EINVAL);
        }
        let most = (most as u64).min(TAKEN) as usize;
        let mut events = vec![0u8; most * EPOLL_EVENT];
        // SAFETY: room for as many events as said.
        let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr().cast(), most as i32, 0) };
        let Ok(count) = usize::try_from(count) else {
            // The host will say what is wrong.
            return self.pass(call);
        };
        let (signals, told) = self.signals_told_by_members(call.tid, call.args[0] as i32);
        let room = events[count * EPOLL_EVENT..].chunks_exact_mut(EPOLL_EVENT);
        let mut count = count;
        for (event, (found, data)) in room.zip(told) {
            event[..4].copy_from_slice(&found.to_ne_bytes());
            event[4..].copy_from_slice(&data.to_ne_bytes());
            count += 1;
        }
        if count == 0 {
            let waits = Waits {
                cookies: Vec::new(),
                copies: copy
                    .map(|copy| (call.args[0], copy, libc::POLLIN))
                    .into_iter()
                    .collect(),
                kept: Vec::new(),
                again: kept,
                signals,
            };
            if self.wait_for(call, waits, lasting, mask)? {
                let turn = self.turn.as_mut().expect("virtual time");
                let parked = turn.parked.get_mut(&call.tid).expect("just parked");
                parked.until.interrupted = EINTR;
                parked.until.late = Some(0);
                return Ok(());
            }
        } else {
            self.keep(call.tid, kept);
        }
        events.truncate(count * EPOLL_EVENT);
        let written = count == 0 || target::write(call.tid, call.args[1], &events);
        self.answer(call, if written { count as i64 } else { EFAULT })
    }
}

/// How long a poll(2) may last that its process has written down.
fn limit_of(call: Notification, asked: &Asked) -> Option<u64> {
    match call.nr {
        libc::SYS_poll => u64::try_from(call.args[2] as i32)
            .ok()
            .map(|ms| ms * MILLISECOND),
        _ => asked
            .time
            .map(|[secs, ns]| secs.saturating_mul(1_000_000_000).saturating_add(ns)),
    }
}
