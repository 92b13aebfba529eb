//! Waits: poll(2), select(2) and epoll_wait(2), answered by readiness pages as far as these know.

use std::ffi::c_int;
use std::ptr::null_mut;

use libc::{epoll_event, fd_set, nfds_t, pollfd, timespec};
use vink_ring::{SchedPage, MAX_POLLED};
use vink_shim::{errno, finish, next, Array, Mask, Next};

use crate::poll;
use crate::post::spend_call_budget;
use crate::ready::{counted, time, Polled, Selected, Wait, Word};
use crate::sets;

/// The most descriptors that are searched.
const MOST_POLLED: usize = 1024;

/// Waits as poll(2) does; no limit is known if it is not right.
#[inline]
pub(crate) fn polled(
    mut array: Array<pollfd>,
    limit: Option<Option<u64>>,
    time: Option<&timespec>,
    mask: Mask,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let asked = limit.and_then(|limit| Some((limit, Polled::new(array.get()?)?)));
    let ready = asked.and_then(|(limit, mut asked)| Wait { limit, mask }.answer(&mut asked));
    if let Some(ready) = ready {
        return ready;
    }
    let _counted = counted();
    let Some(fds) = array.get() else {
        return next();
    };
    let has = |set| fds.iter().any(|polled| polled.fd == set);
    sets::end_notes(|set| fds.len() > MOST_POLLED || has(set));
    let few = fds.len() <= MAX_POLLED;
    let Some(sched) = few.then(spend_call_budget).flatten() else {
        return next();
    };
    if let Some(ready) = polled_or_asked(sched, fds, time, mask) {
        return ready;
    }
    let ready = next();
    if let Some(fds) = array.get() {
        poll::take_results(sched, fds);
    }
    ready
}

/// ppoll(2) by the C library.
pub(crate) fn next_ppoll(fds: &mut [pollfd], time: Option<&timespec>, mask: Mask) -> c_int {
    let (fds, count) = (fds.as_mut_ptr(), fds.len() as nfds_t);
    next!("C-unwind" ppoll(fds: *mut pollfd, count: nfds_t, time: Option<&timespec>, mask: Mask)
        -> c_int)
}

/// Nanoseconds, or for ever; `None` if it is no time.
pub(crate) fn limit_of(time: Option<&timespec>) -> Option<Option<u64>> {
    let Some(time) = time else {
        return Some(None);
    };
    let is_right = (0..MOST_SECONDS).contains(&time.tv_sec);
    let is_right = is_right && (0..1_000_000_000).contains(&time.tv_nsec);
    is_right.then(|| Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

/// A call that waits for longer does so in the kernel.
pub(crate) const MOST_SECONDS: i64 = 1 << 32;

/// A wait of select(2) that boards answer.
#[inline]
pub(crate) fn selected(sets: Option<Selected>, limit: Option<u64>, mask: Mask) -> Option<c_int> {
    Wait { limit, mask }.answer(&mut sets?)
}

/// ... that they don't.
pub(crate) fn asked_select(next: impl FnOnce() -> c_int) -> c_int {
    sets::end_notes(|_| true);
    sets::settle();
    let _counted = counted();
    next()
}

/// pselect(2) by the C library, with a set's words; of none, it is null.
pub(crate) fn next_pselect(
    count: usize,
    sets: [&[Word]; 3],
    time: Option<&timespec>,
    mask: Mask,
) -> c_int {
    let count = count as c_int;
    let [readable, writable, odd] = sets.map(|set| match set {
        [] => null_mut(),
        words => words.as_ptr().cast_mut().cast(),
    });
    next!("C-unwind" pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
        odd: *mut fd_set, time: Option<&timespec>, mask: Mask) -> c_int)
}

/// How many are ready; `None`: a system call will tell, which has been announced.
#[inline]
fn polled_or_asked(
    sched: &SchedPage,
    fds: &mut [pollfd],
    time: Option<&timespec>,
    mask: Mask,
) -> Option<c_int> {
    let is_time = |time: &timespec| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    if time.is_some_and(|time| !is_time(time)) {
        return None;
    }
    match poll::polled(sched, fds) {
        Ok(ready) => Some(ready),
        Err(looked) => {
            poll::post_poll(sched, fds, time, mask, looked);
            None
        }
    }
}

/// A wait for events that boards answer.
pub(crate) fn waited(
    number: c_int,
    mut room: Array<epoll_event>,
    limit: Option<u64>,
    mask: Mask,
) -> Option<c_int> {
    let wait = sets::Wait {
        number,
        limit,
        mask,
    };
    let answer = wait.answer(room.get())?;
    Some(finish(answer.map_or_else(|errno| -i64::from(errno), i64::from)) as c_int)
}

/// Milliseconds as nanoseconds; less than none are for ever.
pub(crate) fn limit(milliseconds: c_int) -> Option<u64> {
    u64::try_from(milliseconds)
        .ok()
        .map(|limit| limit * 1_000_000)
}

/// epoll_pwait2(2) by the C library, whose calls end with their thread if it is cancelled.
/// Nanoseconds; how many events, or the error.
pub(crate) fn sleep(
    number: c_int,
    events: &mut [epoll_event],
    limit: Option<u64>,
    mask: Mask,
) -> Result<usize, c_int> {
    static EXACT: Next = Next::new(c"epoll_pwait2");
    let (at, most) = (events.as_mut_ptr(), events.len() as c_int);
    let count = if EXACT.address() == 0 {
        let most_of = |limit: u64| c_int::try_from(limit.div_ceil(1_000_000));
        let ms = limit.map_or(-1, |limit| most_of(limit).unwrap_or(c_int::MAX));
        next!("C-unwind" epoll_pwait(number: c_int, at: *mut epoll_event, most: c_int, ms: c_int,
            mask: Mask) -> c_int)
    } else {
        let time = limit.map(time);
        let time = time.as_ref();
        next!("C-unwind" epoll_pwait2(number: c_int, at: *mut epoll_event, most: c_int,
            time: Option<&timespec>, mask: Mask) -> c_int)
    };
    usize::try_from(count).map_err(|_| errno().get())
}
