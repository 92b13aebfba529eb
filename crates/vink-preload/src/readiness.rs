//! Waiting for any mix of the host's and Vink's files: poll, select and epoll.
//!
//! What concerns one side alone is that side's call, as it is. A mixed set is split in two: the host's part is
//! given to [`Stack::wait`], which polls it while it drives the kernel, and Vink's is asked for whenever the
//! kernel has news. An epoll instance of both is two instances; of the host's the descriptor itself is polled.

use std::sync::atomic::Ordering;

use libc::pollfd;
use vink_inproc::{monotonic, Stack, Waited};

use vink_syscalls::{polling, Polling};

use crate::descriptors::{self, Entry, Epoll};
use crate::state::{self, call};
use crate::thread::Thread;
use crate::{host, signals};

const EBADF: i64 = -(libc::EBADF as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EINTR: i64 = -(libc::EINTR as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);

/// More than that is the host's to refuse.
const MOST: u64 = 1 << 16;
/// For how long the host's side of an epoll instance is not asked while Vink's has something, in ns.
const PAUSE_NS: u64 = 20_000;

const NS: i64 = 1_000_000_000;

const IGNORED: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// A set of files, each on its side and with a gap on the other: the kernel's numbers, and the host's.
struct Sides {
    kernel: Vec<pollfd>,
    host: Vec<pollfd>,
}

impl Sides {
    /// `None`: the host alone has to do with it.
    fn of(wanted: &[pollfd]) -> Option<Sides> {
        let is_vink = |fd: &pollfd| {
            fd.fd >= 0
                && match descriptors::get(fd.fd as u64) {
                    Entry::File(_) => true,
                    Entry::Set(epoll) => epoll.kernel().is_some(),
                    Entry::Host | Entry::Ours => false,
                }
        };
        if state::is_orphan() || !wanted.iter().any(is_vink) {
            return None;
        }
        let mut sides = Sides {
            kernel: vec![IGNORED; wanted.len()],
            host: vec![IGNORED; wanted.len()],
        };
        for (at, fd) in wanted.iter().enumerate().filter(|(_, fd)| fd.fd >= 0) {
            let (kernel, host) = match descriptors::get(fd.fd as u64) {
                Entry::File(number) => (number, -1),
                Entry::Set(epoll) => (epoll.kernel().unwrap_or(-1), fd.fd),
                Entry::Host | Entry::Ours => (-1, fd.fd),
            };
            let events = fd.events;
            for (side, fd) in [(&mut sides.kernel, kernel), (&mut sides.host, host)] {
                side[at] = pollfd {
                    fd,
                    events,
                    revents: 0,
                };
            }
        }
        Some(sides)
    }

    /// What is ready of one of them.
    fn revents(&self, at: usize) -> i16 {
        self.kernel[at].revents | self.host[at].revents
    }

    /// Waits until something is ready, until the deadline or a signal: 0, or `-errno`.
    fn wait(&mut self, thread: &Thread, deadline: Option<u64>, mask: Option<u64>) -> i64 {
        let kernel = &mut self.kernel;
        let args = |set: &mut [pollfd]| [set.as_mut_ptr() as u64, set.len() as u64, 0, 0, 0, 0];
        let mut ask = |stack: &Stack| stack.call(libc::SYS_poll, args(kernel)).result != 0;
        let result = wait(thread, &mut self.host, &mut ask, deadline, mask);
        // The side that was not the first to be ready may be so by now.
        host::call(libc::SYS_poll, args(&mut self.host));
        if result == EINTR && self.host.iter().any(|fd| fd.revents != 0) {
            return 0;
        }
        result
    }
}

/// [`Stack::wait`] with another signal mask meanwhile: 0, or `-errno`.
fn wait(
    thread: &Thread,
    host: &mut [pollfd],
    ready: &mut dyn FnMut(&Stack) -> bool,
    deadline: Option<u64>,
    mask: Option<u64>,
) -> i64 {
    let Some(stack) = Stack::get() else {
        return state::refuse();
    };
    loop {
        let (waited, signalled) = masked(thread, mask, || stack.wait(host, ready, deadline));
        match waited {
            Waited::Interrupted if signalled.is_none() => {}
            Waited::Interrupted => return EINTR,
            Waited::Failed(errno) => return -i64::from(errno),
            Waited::Ready | Waited::Host(_) | Waited::TimedOut => return 0,
        }
    }
}

/// Does something inside the library with another signal mask, which also holds for what its signals' handlers find.
fn masked<R>(thread: &Thread, mask: Option<u64>, what: impl FnOnce() -> R) -> (R, Option<bool>) {
    thread.enter();
    let before = mask.map(signals::set_mask);
    let result = what();
    let signalled = state::leave(thread);
    if let Some(before) = before {
        signals::set_mask(before);
    }
    (result, signalled)
}

/// When it will be in so many ns, on `CLOCK_MONOTONIC`.
fn deadline(ns: Option<u64>) -> Option<u64> {
    ns.map(|ns| monotonic().saturating_add(ns))
}

/// A time limit of so many parts of a second in the program's memory; no address: none.
fn limit(at: u64, parts: i64) -> Result<Option<u64>, i64> {
    let mut span = [[0i64; 2]];
    if at == 0 {
        return Ok(None);
    }
    if !host::read(&mut span, at) {
        return Err(EFAULT);
    }
    let [[seconds, rest]] = span;
    if seconds < 0 || rest < 0 || (parts == NS && rest >= NS) {
        return Err(EINVAL);
    }
    let whole = (seconds as u64).saturating_mul(NS as u64);
    Ok(Some(
        whole.saturating_add(rest as u64 * (NS / parts) as u64),
    ))
}

/// Writes what is left of a limit.
fn write_left(at: u64, deadline: Option<u64>, parts: i64) {
    if let Some(deadline) = deadline {
        let left = deadline.saturating_sub(monotonic()) as i64;
        // As Linux does, the result stands even if there is no place for it.
        host::write(at, &[[left / NS, left % NS / (NS / parts)]]);
    }
}

/// A limit in ms, as poll(2) and epoll_wait(2) have it.
fn milliseconds(timeout: u64) -> Option<u64> {
    u64::try_from(timeout as i32).ok().map(|ms| ms * 1_000_000)
}

/// poll(2).
pub(crate) fn poll(thread: &Thread, args: [u64; 6]) -> i64 {
    let limit = || Ok(milliseconds(args[2]));
    poll_set(thread, [args[0], args[1]], limit, None)
        .unwrap_or_else(|| host::call(libc::SYS_poll, args))
}

/// ppoll(2).
pub(crate) fn ppoll(thread: &Thread, mut args: [u64; 6]) -> i64 {
    let mask = match signals::open_mask(args[3], args[4]) {
        Ok(mask) => mask,
        Err(error) => return error,
    };
    let began = monotonic();
    let ours = poll_set(thread, [args[0], args[1]], || limit(args[2], NS), mask);
    if let Some(result) = ours {
        if let Ok(Some(limit)) = limit(args[2], NS) {
            write_left(args[2], Some(began.saturating_add(limit)), NS);
        }
        return result;
    }
    let mask = mask.map(|mask| [mask]);
    if let Some(mask) = &mask {
        args[3] = mask.as_ptr() as u64;
    }
    host::call(libc::SYS_ppoll, args)
}

/// `None`: it is the host's alone.
fn poll_set(
    thread: &Thread,
    [at, count]: [u64; 2],
    limit: impl FnOnce() -> Result<Option<u64>, i64>,
    mask: Option<u64>,
) -> Option<i64> {
    let count = u64::from(count as u32);
    let mut few = [IGNORED; 8];
    let mut many = Vec::new();
    let wanted = match few.get_mut(..count as usize) {
        Some(few) => few,
        None if count > MOST => return None,
        None => {
            many.resize(count as usize, IGNORED);
            &mut many
        }
    };
    if !host::read(wanted, at) {
        return Some(EFAULT);
    }
    let mut sides = Sides::of(wanted)?;
    let deadline = match limit() {
        Ok(limit) => deadline(limit),
        Err(error) => return Some(error),
    };
    let result = sides.wait(thread, deadline, mask);
    if result < 0 {
        return Some(result);
    }
    for (at, fd) in wanted.iter_mut().enumerate() {
        fd.revents = sides.revents(at);
    }
    let ready = wanted.iter().filter(|fd| fd.revents != 0).count();
    Some(match host::write(at, wanted) {
        true => ready as i64,
        false => EFAULT,
    })
}

/// What select(2) calls readable, writable and exceptional: what is asked for, and what is taken for it.
const KINDS: [(i16, i16); 3] = [
    (
        libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND,
        libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    ),
    (
        libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND,
        libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    ),
    (libc::POLLPRI, libc::POLLPRI),
];

/// select(2).
pub(crate) fn select(thread: &Thread, args: [u64; 6]) -> i64 {
    let ours = select_sets(thread, args, 1_000_000, None);
    ours.unwrap_or_else(|| host::call(libc::SYS_select, args))
}

/// pselect6(2).
pub(crate) fn pselect(thread: &Thread, mut args: [u64; 6]) -> i64 {
    // A mask's address and its size.
    let mut sixth = [[0u64; 2]];
    if args[5] != 0 && !host::read(&mut sixth, args[5]) {
        return EFAULT;
    }
    let mask = match signals::open_mask(sixth[0][0], sixth[0][1]) {
        Ok(mask) => mask,
        Err(error) => return error,
    };
    if let Some(result) = select_sets(thread, args, NS, mask) {
        return result;
    }
    let mask = mask.map(|mask| [mask]);
    if let Some(mask) = &mask {
        sixth[0][0] = mask.as_ptr() as u64;
        args[5] = sixth.as_ptr() as u64;
    }
    host::call(libc::SYS_pselect6, args)
}

/// `None`: it is the host's alone.
fn select_sets(thread: &Thread, args: [u64; 6], parts: i64, mask: Option<u64>) -> Option<i64> {
    let end = usize::try_from(args[0] as i32).ok()?.min(MOST as usize);
    let words = end.div_ceil(64);
    let mut sets = [const { Vec::new() }; 3];
    for (set, at) in sets.iter_mut().zip(&args[1..4]).filter(|(_, at)| **at != 0) {
        set.resize(words, 0u64);
        if !host::read(set, *at) {
            return Some(EFAULT);
        }
    }
    let asks = |kind: usize, fd: usize| {
        let word = sets[kind].get(fd / 64);
        word.is_some_and(|word| word & (1 << (fd % 64)) != 0)
    };
    let wanted: Vec<pollfd> = (0..end)
        .filter_map(|fd| {
            let kinds = (0..3).filter(|kind| asks(*kind, fd));
            let events = kinds.fold(0, |events, kind| events | KINDS[kind].0);
            (events != 0).then_some(pollfd {
                fd: fd as i32,
                events,
                revents: 0,
            })
        })
        .collect();
    let mut sides = Sides::of(&wanted)?;
    let deadline = match limit(args[4], parts) {
        Ok(limit) => deadline(limit),
        Err(error) => return Some(error),
    };
    let result = sides.wait(thread, deadline, mask);
    write_left(args[4], deadline, parts);
    if result < 0 {
        return Some(result);
    }
    let mut ready = 0;
    let mut found = sets.clone();
    for set in &mut found {
        set.fill(0);
    }
    for (at, fd) in wanted.iter().enumerate() {
        let revents = sides.revents(at);
        if revents & libc::POLLNVAL != 0 {
            return Some(EBADF);
        }
        let number = fd.fd as usize;
        for (kind, (_, taken)) in KINDS.iter().enumerate() {
            if asks(kind, number) && revents & taken != 0 {
                found[kind][number / 64] |= 1 << (number % 64);
                ready += 1;
            }
        }
    }
    let written = found.iter().zip(&args[1..4]);
    let mut written = written.filter(|(_, at)| **at != 0);
    Some(match written.all(|(set, at)| host::write(*at, set)) {
        true => ready,
        false => EFAULT,
    })
}

/// epoll_create(2) and epoll_create1(2).
pub(crate) fn epoll_create(nr: i64, args: [u64; 6]) -> i64 {
    let fd = host::call(nr, args);
    if fd >= 0 {
        descriptors::new_epoll(fd as u64);
    }
    fd
}

/// epoll_ctl(2).
pub(crate) fn epoll_ctl(thread: &Thread, mut args: [u64; 6]) -> i64 {
    let [set, operation, fd, ..] = args;
    let Entry::Set(epoll) = descriptors::get(set) else {
        return host::call(libc::SYS_epoll_ctl, args);
    };
    let number = match descriptors::get(fd) {
        Entry::File(number) => Some(number),
        Entry::Set(inner) if !std::ptr::eq(inner, epoll) => inner.kernel(),
        _ => None,
    };
    let Some(number) = number.filter(|_| !state::is_orphan()) else {
        let result = host::call(libc::SYS_epoll_ctl, args);
        if result == 0 && operation as i32 == libc::EPOLL_CTL_ADD {
            epoll.mixed.store(true, Ordering::Relaxed);
        }
        return result;
    };
    let kernel = match kernel_side(thread, epoll) {
        Ok(kernel) => kernel,
        Err(error) => return error,
    };
    if let Entry::Set(_) = descriptors::get(fd) {
        let result = host::call(libc::SYS_epoll_ctl, args);
        if result < 0 {
            return result;
        }
        epoll.mixed.store(true, Ordering::Relaxed);
    }
    args[0] = kernel as u64;
    args[2] = number as u64;
    call(thread, libc::SYS_epoll_ctl, args)
}

/// The kernel's side of an epoll instance, which is made if there is none.
fn kernel_side(thread: &Thread, epoll: &Epoll) -> Result<i32, i64> {
    if let Some(kernel) = epoll.kernel() {
        return Ok(kernel);
    }
    let made = call(thread, libc::SYS_epoll_create1, [0; 6]);
    if made < 0 {
        return Err(made);
    }
    epoll
        .adopt(made as i32)
        .map(|()| made as i32)
        .or_else(|other| {
            call(thread, libc::SYS_close, [made as u64, 0, 0, 0, 0, 0]);
            Ok(other)
        })
}

/// epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2).
pub(crate) fn epoll_wait(thread: &Thread, nr: i64, mut args: [u64; 6]) -> i64 {
    let form = polling(nr);
    let mask = match form {
        Polling::EpollWait => Ok(None),
        _ => signals::open_mask(args[4], args[5]),
    };
    let mask = match mask {
        Ok(mask) => mask,
        Err(error) => return error,
    };
    let epoll = match descriptors::get(args[0]) {
        Entry::Set(epoll) if !state::is_orphan() && epoll.may_be_kernels() => epoll,
        _ => {
            let mask = mask.map(|mask| [mask]);
            if let Some(mask) = &mask {
                args[4] = mask.as_ptr() as u64;
            }
            return host::call(nr, args);
        }
    };
    let limit = match form {
        Polling::EpollPwait2 => match limit(args[3], NS) {
            Ok(limit) => limit,
            Err(error) => return error,
        },
        _ => milliseconds(args[3]),
    };
    let deadline = deadline(limit);
    let [set, events, most, ..] = args;
    if most as i32 <= 0 {
        return EINVAL;
    }
    let host = [set, events, most, 0, 0, 0];
    if let Some(found) = epoll.wait_for_kernel(host, deadline, mask) {
        return found;
    }
    let Some(kernel) = epoll.kernel() else {
        return EBADF;
    };
    let kernel = [kernel as u64, events, most, 0, 0, 0];
    if !epoll.may_be_mixed() && mask.is_none() && form == Polling::EpollWait {
        let args = [kernel[0], events, most, args[3], 0, 0];
        return call(thread, libc::SYS_epoll_wait, args);
    }
    let found = call(thread, libc::SYS_epoll_wait, kernel);
    if found != 0 {
        return epoll.add_hosts(found, host);
    }
    let mut theirs = [pollfd {
        fd: set as i32,
        events: libc::POLLIN,
        revents: 0,
    }];
    loop {
        let mut found = 0;
        let mut ask = |stack: &Stack| {
            found = stack.call(libc::SYS_epoll_wait, kernel).result;
            found != 0
        };
        let waited = wait(thread, &mut theirs, &mut ask, deadline, mask);
        if found != 0 {
            return epoll.add_hosts(found, host);
        }
        if waited < 0 {
            return waited;
        }
        let theirs = host::call(libc::SYS_epoll_wait, host);
        if theirs != 0 || deadline.is_some_and(|deadline| monotonic() >= deadline) {
            return theirs;
        }
    }
}

impl Epoll {
    /// Whether the kernel may have something to say of it before a wait ends that begins now.
    fn may_be_kernels(&self) -> bool {
        self.kernel().is_some() || state::is_threaded()
    }

    /// The same of the host, of an instance that has a side in the kernel.
    fn may_be_mixed(&self) -> bool {
        self.mixed.load(Ordering::Relaxed) || state::is_threaded()
    }

    /// As long as the instance has no side in the kernel: what the host has for this epoll_wait(2), or `-errno`. `None`: it has
    /// one, perhaps from another thread that has added a socket since.
    fn wait_for_kernel(
        &self,
        host: [u64; 6],
        deadline: Option<u64>,
        mask: Option<u64>,
    ) -> Option<i64> {
        if self.kernel().is_some() {
            return None;
        }
        if mask.is_none() && deadline.is_some_and(|deadline| monotonic() >= deadline) {
            return Some(host::call(libc::SYS_epoll_wait, host));
        }
        let bell = match self.bell() {
            error @ ..0 => return Some(error),
            bell => bell as i32,
        };
        let mask = mask.map(|mask| [mask]);
        while self.kernel().is_none() {
            let mut set = [host[0] as i32, bell].map(|fd| pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            let left = deadline.map(|deadline| deadline.saturating_sub(monotonic()) as i64);
            let left = left.map(|ns| [ns / NS, ns % NS]);
            let args = [
                set.as_mut_ptr() as u64,
                set.len() as u64,
                left.as_ref().map_or(0, |left| left.as_ptr() as u64),
                mask.as_ref().map_or(0, |mask| mask.as_ptr() as u64),
                size_of::<u64>() as u64,
                0,
            ];
            let ready = host::call(libc::SYS_ppoll, args);
            if ready < 0 {
                return Some(ready);
            }
            let found = host::call(libc::SYS_epoll_wait, host);
            if found != 0 || ready == 0 {
                return Some(found);
            }
        }
        None
    }

    /// Adds what is ready of the host's files to what was found of Vink's, with this epoll_wait(2), unless that has
    /// just been asked for: a busy server would ask the host for each of its messages.
    fn add_hosts(&self, found: i64, [set, events, most, ..]: [u64; 6]) -> i64 {
        let time = monotonic();
        if found < 0
            || found >= most as i32 as i64
            || time < self.asked.load(Ordering::Relaxed) + PAUSE_NS
        {
            return found;
        }
        self.asked.store(time, Ordering::Relaxed);
        let behind = events + found as u64 * size_of::<libc::epoll_event>() as u64;
        let args = [set, behind, most - found as u64, 0, 0, 0];
        found + host::call(libc::SYS_epoll_wait, args).max(0)
    }
}
