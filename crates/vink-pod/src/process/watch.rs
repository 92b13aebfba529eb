//! The limit of a crossing's time: a thread ends the process of a pod that is late.
//!
//! The thread that crosses can't do it: the pod preempts that thread on its own processor. If the pod never
//! blocks, the thread runs again only when its turn comes at a tick of the host's scheduler, up to 4 ms later.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use vink_sys::pidfd;
use vink_sys::poll::events_of;
use vink_sys::process::cpu_time;
use vink_sys::procfs::stat_state;
use vink_sys::rustix::time::{clock_gettime, ClockId};
use vink_sys::seccomp::Listener;

use crate::ticks::{Ticks, TICK};

/// What else keeps a pod from a processor is not its fault: when its time is over, it is ended if it
/// waits for something else, or once it has run for this part of it since that part of it had passed,
/// or when [`MOST`] times as much has passed.
const GRACE: u32 = 2;
/// See [`GRACE`].
const MOST: u32 = 10;
/// The longest from one look at a pod to the next.
const SELDOM: Duration = Duration::from_millis(10);

/// No call is made of the pod.
const NONE: u64 = 0;
/// It was ended.
const LATE: u64 = u64::MAX;

static TICKS: Ticks = Ticks::new();
static ALL: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

/// A pod's process, and since when it is crossed.
pub(super) struct Watch {
    pid: i32,
    pidfd: OwnedFd,
    /// Of its calls, once it has sent it.
    listener: OnceLock<Arc<Listener>>,
    limit: Duration,
    /// Nanoseconds of the host's clock, [`NONE`] or [`LATE`].
    began: AtomicU64,
}

/// What was seen of it.
struct Seen {
    watch: Weak<Watch>,
    /// The crossing, by its beginning.
    began: u64,
    /// How long it had run when a part of its time had passed, or later; `None` if it waited then.
    ran_before: Option<Duration>,
}

impl Watch {
    /// Of a child process, each of whose crossings may take so long.
    ///
    /// # Errors
    /// A sentence: the host gives no thread. Or as pidfd_open(2).
    pub(super) fn new(pid: i32, limit: Duration) -> io::Result<Arc<Watch>> {
        TICKS.start("pod-watch", look).map_err(io::Error::other)?;
        let watch = Arc::new(Watch {
            pid,
            pidfd: pidfd::open(pid)?,
            listener: OnceLock::new(),
            limit,
            began: AtomicU64::new(NONE),
        });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Seen {
            watch: Arc::downgrade(&watch),
            began: NONE,
            ran_before: None,
        });
        // It may sleep for longer than this one may take.
        TICKS.wake();
        Ok(watch)
    }

    /// By this it tells that a crossing is done.
    pub(super) fn calls_by(&self, listener: &Arc<Listener>) {
        let _ = self.listener.set(Arc::clone(listener));
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// A crossing begins: when, ns of the host's clock.
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        let began = now();
        self.began.store(began, SeqCst);
        TICKS.crossing();
        began
    }

    /// The one that began then has ended: how long it took, and whether its time was over before.
    #[inline]
    pub(super) fn end(&self, began: u64) -> (Duration, bool) {
        let is_late = self.began.swap(NONE, SeqCst) == LATE;
        (Duration::from_nanos(now().saturating_sub(began)), is_late)
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        let _ = pidfd::send_signal(&self.pidfd, libc::SIGKILL);
    }

    /// Whether it waits for an answer to a call (seccomp_unotify(2)), which the thread that crosses has received or
    /// not.
    fn has_called(&self) -> bool {
        let (received, is_new) = (libc::POLLOUT, libc::POLLIN);
        let events = |listener: &Arc<Listener>| {
            events_of(listener.as_fd().as_raw_fd(), received | is_new, 0) & (received | is_new)
        };
        self.listener.get().map_or(0, events) != 0
    }

    /// How long it has run; `None` if it waits for something that is no processor.
    fn time(&self) -> Option<Duration> {
        let stat = std::fs::read(format!("/proc/{}/stat", self.pid)).ok()?;
        match stat_state(&stat)? {
            b'S' => None,
            _ => cpu_time(self.pid),
        }
    }
}

/// Ends those that are late: when to look again.
fn look() -> Duration {
    let mut next = SELDOM;
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain_mut(|seen| {
        let Some(watch) = seen.watch.upgrade() else {
            return false;
        };
        next = next.min(seen.look(&watch));
        true
    });
    next
}

impl Seen {
    /// Ends it if it is late: when to look again.
    fn look(&mut self, watch: &Watch) -> Duration {
        let (limit, part) = (watch.limit, watch.limit / GRACE);
        let began = watch.began.load(SeqCst);
        if began == NONE || began == LATE {
            return part.max(TICK);
        }
        TICKS.crossing();
        let passed = Duration::from_nanos(now().saturating_sub(began));
        if passed < part {
            return part - passed;
        }
        let ran = watch.time();
        if self.began != began {
            self.began = began;
            self.ran_before = ran;
        }
        self.ran_before = self.ran_before.or(ran);
        if passed < limit {
            return limit - passed;
        }
        let since = ran
            .zip(self.ran_before)
            .map(|(ran, before)| ran.saturating_sub(before));
        if since.is_some_and(|since| since < part) && passed < limit * MOST {
            return part - since.unwrap_or_default();
        }
        // Then it is the thread that crosses which has no processor.
        if watch.has_called() {
            return part.max(TICK);
        }
        let claimed = watch.began.compare_exchange(began, LATE, SeqCst, SeqCst);
        // Otherwise it has come back just now.
        if claimed.is_ok() {
            watch.kill();
        }
        TICK
    }
}

/// Nanoseconds of the host's clock.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
