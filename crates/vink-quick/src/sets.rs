//! Epoll instances: their members, so that epoll_wait(2) can be answered from the ring's readiness
//! page.
//!
//! A change is made in the host's instance first, or if it is certain to succeed only noted, and
//! made before the host's instance is used. Notes are kept only of an instance that belongs to this
//! process and one number, and is closed on exec; any other way to reach it ends that for good
//! ([`end_notes`]). While the library answers, the worker need not tell the host which streams are
//! ready, so the host is polled for all other members only. Before a thread sleeps on the host, it
//! asks the worker to flush stale placeholders and reads the page once more. From the host it takes
//! only that there may be events.
//!
//! Whatever is not quite simple makes the process do without for good ([`exact`]): an instance
//! whose creation the library did not see, members of other kinds, one instance in another or in
//! two waiting threads, numbers that mean something else than they did.

use std::cell::UnsafeCell;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use libc::{c_int, epoll_event, timespec};
use vink_ring::{Edges, Readiness, Request, SharedRing, FLUSH, PUBLISHED};
use vink_shim::Mask;

use crate::memory::{Wiped, Zero};
use crate::post::{alone, ask, give_way, knows, ring, show_natively, Busy};
use crate::system_call::native;
use crate::wait::sleep;

/// Instances of a process, and members of each: with more the host is as quick.
const SETS: usize = 8;
const MOST: usize = 512;
/// Polls of the page before the thread sleeps, and before others may run.
pub(crate) const PAGE_SPINS: u32 = 512;
const SPINS_PER_YIELD: u32 = 64;
/// Members of the host's that are polled in one go.
const HOST_EVENTS: usize = 64;

const EDGE: u32 = libc::EPOLLET as u32;
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// A member of a set, as the program wants it.
#[derive(Clone, Copy)]
struct Member {
    fd: i32,
    events: u32,
    data: u64,
    /// Tells the file from others of this number.
    serial: u32,
    /// The edges that were returned.
    seen: Edges,
    /// The host may have an edge that came before the entry was published.
    begun: bool,
    /// The program has it in the set.
    wanted: bool,
    /// What the host's instance has it with, if it has it.
    hosted: (u32, u64),
}

impl Member {
    /// The host's instance does not have it as the program wants it.
    fn is_late(&self) -> bool {
        !self.wanted || self.hosted != (self.events, self.data)
    }
}

/// An epoll instance.
struct Set {
    /// One more than its number; 0: none.
    number: AtomicI32,
    serial: AtomicU32,
    locked: AtomicBool,
    /// A thread waits.
    awaited: AtomicBool,
    members: UnsafeCell<Members>,
}

struct Members {
    count: usize,
    /// The member that is examined first.
    next: usize,
    /// Some are for the host to report, and whether they are to be before all others.
    others: bool,
    others_first: bool,
    /// The host's instance may differ from what the program wants.
    late: bool,
    /// It has been asked whether the instance is closed on exec, and it is.
    checked: bool,
    closes: bool,
    all: [Member; MOST],
}

/// What a process knows of its epoll instances.
struct Sets {
    /// The host alone is asked.
    exact: AtomicBool,
    /// It has taken over from the host.
    answers: AtomicBool,
    /// Changes are not noted any more.
    prompt: AtomicBool,
    sets: [Set; SETS],
}

// SAFETY: the members are reached only by the thread that has the lock.
unsafe impl Sync for Set {}

// SAFETY: numbers, of which false is one.
unsafe impl Zero for Sets {}

static SETS_OF_PROCESS: Wiped<Sets> = Wiped::new();

/// The process is about to have a ring: without one nothing is known of any instance.
pub(crate) fn begin() {
    // A child of fork(2) has its parent's mapping.
    if SETS_OF_PROCESS.get().is_some() {
        return;
    }
    // SAFETY: the function stays, for this library is never unloaded.
    if unsafe { libc::pthread_atfork(Some(forks), None, None) } == 0 {
        SETS_OF_PROCESS.begin();
    }
}

/// The process's sets, as long as it answers for any, and its ring.
#[inline]
fn all() -> Option<(&'static Sets, &'static SharedRing)> {
    let sets = SETS_OF_PROCESS.get()?;
    match sets.exact.load(Ordering::Acquire) {
        true => None,
        false => Some((sets, ring().filter(|_| knows())?)),
    }
}

impl Sets {
    fn find(&self, number: i32) -> Option<&Set> {
        let is_it = |set: &&Set| set.number.load(Ordering::Acquire) == number.wrapping_add(1);
        self.sets.iter().filter(|_| number >= 0).find(is_it)
    }

    fn take_over(&self, ring: &SharedRing) {
        if !self.answers.load(Ordering::Relaxed) && !self.answers.swap(true, Ordering::SeqCst) {
            ring.host_waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// From now on the host is asked, and knows everything.
    #[cold]
    fn go_exact(&self, ring: &SharedRing) {
        if self.exact.swap(true, Ordering::SeqCst) {
            return;
        }
        ring.host_waiters.fetch_add(1, Ordering::SeqCst);
        for set in &self.sets {
            // The thread that has the lock settles the host's instance.
            set.with(|_| ());
        }
        show_all(ring);
    }
}

/// Has the worker flush all stale placeholders; the caller is counted in `host_waiters`.
fn show_all(ring: &SharedRing) {
    // If the worker does not poll, nothing is stale, and nothing will be.
    if ring.worker_polling.load(Ordering::SeqCst) != 0 && alone(Request::FLUSH).is_none() {
        show_natively(FLUSH);
    }
}

impl Set {
    /// Does something with the members; `None`: a signal handler has interrupted that very thing.
    fn with<T>(&self, job: impl FnOnce(&mut Members) -> T) -> Option<T> {
        let _busy = Busy::new()?;
        while self.locked.swap(true, Ordering::Acquire) {
            give_way();
        }
        // SAFETY: the lock is held.
        let members = unsafe { &mut *self.members.get() };
        let done = job(members);
        if members.late && !notes_are_taken() {
            self.settle(members);
        }
        self.locked.store(false, Ordering::Release);
        Some(done)
    }

    /// Whether the number is still the instance's.
    fn is_same(&self, ring: &SharedRing) -> bool {
        let number = self.number.load(Ordering::Relaxed).wrapping_sub(1);
        let entry = usize::try_from(number)
            .ok()
            .and_then(|number| ring.readiness.get(number));
        entry.is_some_and(|entry| entry.read().serial == self.serial.load(Ordering::Relaxed))
    }

    /// The host's instance becomes what the program wants; for the thread that has the lock.
    fn settle(&self, members: &mut Members) {
        if let Some(ring) = ring().filter(|ring| self.is_same(ring)) {
            members.settle(self.number.load(Ordering::Relaxed) - 1, ring);
        }
    }
}

/// Whether changes may be noted.
fn notes_are_taken() -> bool {
    all().is_some_and(|(sets, _)| !sets.prompt.load(Ordering::SeqCst))
}

/// Whether the process has an epoll instance that is known here.
pub(crate) fn any() -> bool {
    all().is_some_and(|(sets, _)| {
        let mut numbers = sets.sets.iter();
        numbers.any(|set| set.number.load(Ordering::Acquire) > 0)
    })
}

/// An instance of the host's may be about to be used, now or later, by a way that is not seen;
/// `concerns` says by the number whether it is that one.
pub(crate) fn end_notes(concerns: impl Fn(c_int) -> bool) {
    let Some((sets, _)) = all() else { return };
    let mut numbers = sets
        .sets
        .iter()
        .map(|set| set.number.load(Ordering::Acquire));
    if numbers.any(|number| number > 0 && concerns(number - 1)) {
        sets.prompt.store(true, Ordering::SeqCst);
        settle();
    }
}

/// Makes all changes that have been noted.
pub(crate) fn settle() {
    let Some((sets, _)) = all() else { return };
    for set in &sets.sets {
        if set.number.load(Ordering::Acquire) > 0 {
            set.with(|members| set.settle(members));
        }
    }
}

/// A child is about to be made, which has all instances, too.
extern "C" fn forks() {
    end_notes(|_| true);
}

/// An epoll instance has been made.
pub(crate) fn created(number: i32) {
    if SETS_OF_PROCESS
        .get()
        .is_none_or(|sets| !sets.exact.load(Ordering::Acquire))
    {
        ask();
    }
    let Some((sets, ring)) = all() else { return };
    let free = |set: &&Set| {
        let (old, new) = (0, number + 1);
        let order = Ordering::SeqCst;
        set.number
            .compare_exchange(old, i32::MIN, order, order)
            .is_ok()
            && new > 0
    };
    let entry = ring.readiness.get(number as usize);
    let (Some(entry), Some(set)) = (entry, sets.sets.iter().find(free)) else {
        return sets.go_exact(ring);
    };
    set.serial.store(entry.read().serial, Ordering::Relaxed);
    let cleared = set.with(|members| {
        (members.count, members.next) = (0, 0);
        (members.late, members.checked) = (false, false);
    });
    set.awaited.store(false, Ordering::Relaxed);
    set.number.store(number + 1, Ordering::Release);
    if cleared.is_none() {
        sets.go_exact(ring);
    } else {
        sets.take_over(ring);
    }
}

/// The library answers for the program from now on.
pub(crate) fn take_over(ring: &SharedRing) {
    if let Some((sets, _)) = all() {
        sets.take_over(ring);
    }
}

/// Whether epoll_ctl(2) is certain to succeed and has been noted, to be done before the host's
/// instance is used. The event is read of an instance that is known.
pub(crate) fn noted(
    number: i32,
    operation: c_int,
    fd: i32,
    event: impl FnOnce() -> Option<epoll_event>,
) -> bool {
    let Some((sets, ring)) = all() else {
        return false;
    };
    let Some(set) = sets.find(number) else {
        return false;
    };
    let event = event();
    let done = set.with(|members| {
        // A waiting thread may sleep.
        let is_free = notes_are_taken() && !set.awaited.load(Ordering::SeqCst);
        let noted = is_free
            && set.is_same(ring)
            && members.closes_on_exec(number)
            && members.note(ring, operation, fd, event);
        if !noted {
            set.settle(members);
        }
        noted
    });
    done == Some(true)
}

/// epoll_ctl(2) has been done.
pub(crate) fn changed(number: i32, operation: c_int, fd: i32, event: Option<epoll_event>) {
    let Some((sets, ring)) = all() else { return };
    let set = sets.find(number).filter(|_| sets.find(fd).is_none());
    let done = set.and_then(|set| set.with(|m| m.change(ring, operation, fd, event)));
    if done != Some(true) {
        sets.go_exact(ring);
    }
}

/// A descriptor is about to be closed.
pub(crate) fn closes(fd: i32) {
    let Some((sets, ring)) = all() else { return };
    if fd < 0 || !sets.answers.load(Ordering::Relaxed) {
        return;
    }
    if let Some(set) = sets.find(fd) {
        set.number.store(0, Ordering::Release);
        return;
    }
    for set in &sets.sets {
        if set.number.load(Ordering::Acquire) > 0
            && set.with(|members| members.close(set.number.load(Ordering::Relaxed) - 1, ring, fd))
                != Some(true)
        {
            sets.go_exact(ring);
        }
    }
}

/// The result of polling a set.
enum Found {
    Events(usize),
    /// The library can't tell.
    Unclear,
}

impl Members {
    fn position(&self, fd: i32) -> Option<usize> {
        self.all[..self.count].iter().position(|m| m.fd == fd)
    }

    /// Notes a change of a stream that only this process and number have, with plain flags; false:
    /// the host is to make it, which may refuse it.
    fn note(
        &mut self,
        ring: &SharedRing,
        operation: c_int,
        fd: i32,
        event: Option<epoll_event>,
    ) -> bool {
        let Some(at) = self.position(fd) else {
            return false;
        };
        let readiness = ring.readiness[fd as usize].read();
        let member = self.all[at];
        let is_simple = readiness.serial == member.serial
            && readiness.events.is_some()
            && !readiness.shared
            && (member.events | member.hosted.0) & !PUBLISHED == 0;
        let is_right = match operation {
            libc::EPOLL_CTL_ADD => !member.wanted,
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL => member.wanted,
            _ => false,
        };
        if !is_simple || !is_right {
            return false;
        }
        if operation == libc::EPOLL_CTL_DEL {
            self.all[at].wanted = false;
            self.late = true;
            return true;
        }
        let Some(event) = event else { return false };
        let (events, data) = (event.events, event.u64);
        let is_same = |m: &Member| m.fd != fd && m.data == data;
        if events & !PUBLISHED != 0 || self.all[..self.count].iter().any(is_same) {
            return false;
        }
        let member = &mut self.all[at];
        (member.events, member.data, member.wanted) = (events, data, true);
        self.late |= member.is_late();
        true
    }

    /// Whether no other program will have the instance; asked once.
    fn closes_on_exec(&mut self, number: c_int) -> bool {
        if !self.checked {
            let flags = native(libc::SYS_fcntl, [number as u64, libc::F_GETFD as u64, 0, 0]);
            (self.checked, self.closes) = (true, flags == i64::from(libc::FD_CLOEXEC));
        }
        self.closes
    }

    /// Makes the host's instance what the program wants.
    fn settle(&mut self, number: c_int, ring: &SharedRing) {
        if !take(&mut self.late) {
            return;
        }
        for at in (0..self.count).rev() {
            let member = self.all[at];
            if !member.is_late() {
                continue;
            }
            let operation = match member.wanted {
                true => libc::EPOLL_CTL_MOD,
                false => libc::EPOLL_CTL_DEL,
            };
            let event = epoll_event {
                events: member.events,
                u64: member.data,
            };
            let args = [
                number as u64,
                operation as u64,
                member.fd as u64,
                (&raw const event) as u64,
            ];
            // A number that means something else: the host has no such member any more.
            if ring.readiness[member.fd as usize].read().serial == member.serial {
                native(libc::SYS_epoll_ctl, args);
            }
            self.all[at].hosted = (member.events, member.data);
            if !member.wanted {
                self.remove(at);
            }
        }
    }

    /// False: it can't be followed.
    fn change(
        &mut self,
        ring: &SharedRing,
        operation: c_int,
        fd: i32,
        event: Option<epoll_event>,
    ) -> bool {
        let position = self.position(fd);
        let at = match (operation, position) {
            (libc::EPOLL_CTL_DEL, Some(at)) => {
                self.remove(at);
                return true;
            }
            (libc::EPOLL_CTL_ADD, None) if self.count < MOST => self.count,
            (libc::EPOLL_CTL_MOD, Some(at)) => at,
            _ => return false,
        };
        let Some(event) = event else { return false };
        let data = event.u64;
        let is_same = |m: &Member| m.fd != fd && m.data == data;
        if self.all[..self.count].iter().any(is_same) {
            return false;
        }
        let readiness = ring.readiness.get(fd as usize).map(|entry| entry.read());
        self.all[at] = Member {
            fd,
            events: event.events,
            data,
            serial: readiness.map_or(0, |readiness| readiness.serial),
            seen: Edges::NONE,
            begun: readiness.is_none_or(|readiness| readiness.events.is_none()),
            wanted: true,
            hosted: (event.events, data),
        };
        self.count = self.count.max(at + 1);
        true
    }

    fn remove(&mut self, at: usize) {
        self.count -= 1;
        self.all[at] = self.all[self.count];
    }

    /// False: it may remain a member without its number.
    fn close(&mut self, number: c_int, ring: &SharedRing, fd: i32) -> bool {
        if self.position(fd).is_none() {
            return true;
        }
        let readiness = ring.readiness.get(fd as usize).map(|entry| entry.read());
        let ends =
            readiness.is_some_and(|readiness| readiness.events.is_some() && !readiness.shared);
        if !ends {
            self.settle(number, ring);
        }
        if let Some(at) = self.position(fd) {
            self.remove(at);
        }
        ends
    }

    /// Those that are ready: what the host has reported before, by their entries, and by what the
    /// host reports of the others.
    fn look(
        &mut self,
        number: c_int,
        ring: &SharedRing,
        room: &mut [epoll_event],
        told: &[epoll_event],
        natively: impl FnOnce(&mut [epoll_event]) -> usize,
    ) -> Found {
        let mut others = false;
        let mut found = self.take_over(ring, room, told);
        // There is room for one of the others, if not each time.
        let kept = usize::from(self.others && (room.len() > 1 || self.others_first));
        let (first, most) = (self.next, room.len() - kept);
        self.others_first = kept == 0;
        for n in 0..self.count {
            let at = (first + n) % self.count;
            let member = &mut self.all[at];
            if !member.wanted {
                continue;
            }
            let readiness = readiness_of(ring, member);
            if readiness.is_some_and(|readiness| readiness.serial != member.serial) {
                return match found {
                    0 => Found::Unclear,
                    found => Found::Events(found),
                };
            }
            let is_begun = member.begun && member.events & EDGE != 0;
            let Some((readiness, events)) = readiness
                .filter(|_| !is_begun)
                .and_then(|readiness| Some((readiness, readiness.events?)))
            else {
                others = true;
                continue;
            };
            if member.events & !(PUBLISHED | EDGE) != 0 {
                return match found {
                    0 => Found::Unclear,
                    found => Found::Events(found),
                };
            }
            let events = events & (member.events | ALWAYS);
            if events == 0 || found >= most {
                continue;
            }
            if member.events & EDGE != 0 {
                if !readiness.edges.has_any_since(member.seen, member.events) {
                    continue;
                }
                member.seen = readiness.edges;
            }
            room[found] = epoll_event {
                events,
                u64: member.data,
            };
            found += 1;
            self.next = (at + 1) % self.count;
        }
        self.others = others;
        if others && found < room.len() && told.is_empty() {
            self.settle(number, ring);
            let mut host = [epoll_event { events: 0, u64: 0 }; HOST_EVENTS];
            let room = &mut room[found..];
            let most = room.len().min(HOST_EVENTS);
            let count = natively(&mut host[..most]).min(most);
            found += self.take_over(ring, room, &host[..count]);
            // For members whose entries are published now, the host has reported everything.
            for member in self.all[..self.count].iter_mut().filter(|m| m.begun) {
                if count < most && readiness_of(ring, member).is_some_and(|n| n.events.is_some()) {
                    (member.begun, member.seen) = (false, Edges::FIRST);
                }
            }
        }
        Found::Events(found)
    }

    /// The host's events of members that are not published; how many. Those of a member that is
    /// published by now are read from its entry: what the host shows of it may be over.
    fn take_over(
        &mut self,
        ring: &SharedRing,
        room: &mut [epoll_event],
        host: &[epoll_event],
    ) -> usize {
        let mut found = 0;
        for event in host {
            let data = event.u64;
            let member = self.all[..self.count].iter_mut().find(|m| m.data == data);
            let told = member.and_then(|m| {
                let readiness = readiness_of(ring, m)?;
                Some((m, readiness.events?, readiness.edges))
            });
            room[found] = *event;
            if let Some((member, events, edges)) = told {
                if member.events & EDGE == 0 || !take(&mut member.begun) {
                    continue;
                }
                member.seen = edges;
                room[found].events = events & (member.events | ALWAYS);
                if room[found].events == 0 {
                    continue;
                }
            }
            found += 1;
        }
        found
    }
}

/// What a member's entry says.
fn readiness_of(ring: &SharedRing, member: &Member) -> Option<Readiness> {
    Some(ring.readiness.get(member.fd as usize)?.read())
}

/// A wait for events.
pub(crate) struct Wait<'a> {
    /// The instance.
    pub(crate) number: c_int,
    /// Nanoseconds; `None`: for ever.
    pub(crate) limit: Option<u64>,
    pub(crate) mask: Mask<'a>,
}

impl Wait<'_> {
    /// What epoll_pwait2(2) has for it, or its error; `None`: the host is to be asked.
    pub(crate) fn answer(&self, room: Option<&mut [epoll_event]>) -> Option<Result<c_int, c_int>> {
        let (sets, ring) = all()?;
        let set = sets.find(self.number);
        let set = set.filter(|set| set.is_same(ring));
        let (Some(set), Some(room)) = (set, room) else {
            sets.go_exact(ring);
            return None;
        };
        if room.is_empty() {
            return None;
        }
        if set.awaited.swap(true, Ordering::SeqCst) {
            sets.go_exact(ring);
            return None;
        }
        let mut blocked = Blocked::new();
        let answer = self.look(sets, set, ring, room, &mut blocked);
        drop(blocked);
        set.awaited.store(false, Ordering::SeqCst);
        answer
    }

    fn look(
        &self,
        sets: &Sets,
        set: &Set,
        ring: &SharedRing,
        room: &mut [epoll_event],
        blocked: &mut Blocked,
    ) -> Option<Result<c_int, c_int>> {
        // What is to be said if nothing is found.
        let mut last = (self.limit == Some(0)).then_some(Ok(0));
        // A poll may have kept its room for members of the host's for nothing.
        let mut again = last.is_some();
        let mut deadline = None;
        let (mut looks, mut wakes) = (0, 0);
        // What the host has reported, and how much of it.
        let mut host = [epoll_event { events: 0, u64: 0 }; HOST_EVENTS];
        let mut told = 0;
        // What has come of the program's last calls is to be seen, also if the worker has lost its
        // processor for a while.
        if !ring.wait_published() {
            show_all(ring);
        }
        loop {
            let seen = ring.publish_count.0.load(Ordering::Acquire);
            // One poll of the page more than of the host: it may have given up an edge that the
            // poll before did not return.
            let is_exact = sets.exact.load(Ordering::SeqCst);
            let natively = |host: &mut [epoll_event]| match is_exact {
                true => 0,
                false => host_has(self.number, host),
            };
            let found = set.with(|members| {
                members.look(self.number, ring, room, &host[..take(&mut told)], natively)
            });
            match found {
                // The host shows something that is not so.
                Some(Found::Events(0)) if wakes > MOST_WAKES => sets.go_exact(ring),
                Some(Found::Events(0)) => {}
                Some(Found::Events(count)) => return Some(Ok(count as c_int)),
                Some(Found::Unclear) | None => sets.go_exact(ring),
            }
            if is_exact {
                return last.filter(|last| last.is_err());
            }
            if sets.exact.load(Ordering::SeqCst) {
                continue;
            }
            if last.is_some() {
                if !take(&mut again) {
                    return last;
                }
                continue;
            }
            if blocked.0.is_none() {
                // A signal that comes while this thread is awake must find it in a call that it
                // ends.
                blocked.block();
                deadline = self.limit.map(|limit| now().saturating_add(limit));
            }
            if ring.worker_polling.load(Ordering::Relaxed) != 0 && looks < PAGE_SPINS {
                await_news(ring, seen, &mut looks);
                continue;
            }
            looks = 0;
            set.with(|members| set.settle(members));
            ring.host_waiters.fetch_add(1, Ordering::SeqCst);
            show_all(ring);
            // What came before the host knew of it, or before signals were blocked.
            let is_news = ring.publish_count.0.load(Ordering::SeqCst) != seen;
            if !is_news && !sets.exact.load(Ordering::SeqCst) {
                let limit = deadline.map(|deadline| deadline.saturating_sub(now()));
                let mask = self.mask.or(blocked.0.as_ref());
                let most = room.len().min(HOST_EVENTS);
                match sleep(self.number, &mut host[..most], limit, mask) {
                    Ok(0) => last = Some(Ok(0)),
                    Ok(count) => told = count,
                    Err(errno) => last = Some(Err(errno)),
                }
                wakes += 1;
            } else {
                wakes = 0;
            }
            ring.host_waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Spins, counted, until more is published than had been `seen` or other threads have run.
pub(crate) fn await_news(ring: &SharedRing, seen: u32, looks: &mut u32) {
    while ring.publish_count.0.load(Ordering::Acquire) == seen {
        *looks += 1;
        if looks.is_multiple_of(SPINS_PER_YIELD) {
            give_way();
            break;
        }
        std::hint::spin_loop();
    }
}

/// Wake-ups in a row for nothing that a entry or the host knows of.
const MOST_WAKES: u32 = 64;

/// Signals that were blocked before this thread blocked all, the C library's own, too.
pub(crate) struct Blocked(Option<u64>);

impl Blocked {
    pub(crate) fn new() -> Blocked {
        Blocked(None)
    }

    /// Blocks them; those that were before.
    pub(crate) fn block(&mut self) -> u64 {
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
        let most = faults
            .iter()
            .fold(u64::MAX, |all, signal| all & !(1 << (signal - 1)));
        let before = change_mask(libc::SIG_BLOCK, most);
        self.0 = Some(before);
        before
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            change_mask(libc::SIG_SETMASK, before);
        }
    }
}

/// rt_sigprocmask(2); what was blocked before.
fn change_mask(how: c_int, mask: u64) -> u64 {
    let mut before = 0u64;
    let places = [(&raw const mask) as u64, (&raw mut before) as u64];
    let args = [how as u64, places[0], places[1], KERNEL_SIGSET];
    native(libc::SYS_rt_sigprocmask, args);
    before
}

/// CLOCK_MONOTONIC in ns.
pub(crate) fn now() -> u64 {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a structure that lives here.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What the host has of an instance's events now; how many.
fn host_has(number: c_int, events: &mut [epoll_event]) -> usize {
    let args = [
        number as u64,
        events.as_mut_ptr() as u64,
        events.len() as u64,
        0,
    ];
    usize::try_from(native(libc::SYS_epoll_wait, args)).unwrap_or(0)
}

/// Bytes of the kernel's set of signals.
const KERNEL_SIGSET: u64 = 8;
