//! A watchdog for a kernel that does not return from a run.
//!
//! Theory of operation: the count of a kernel's runs is raised on each way into the image and on
//! each way out, so that it is odd inside. A signal interrupts the thread in each quarter of a
//! second that it has computed, by a timer on the thread's own processor time (timer_create(2)) or,
//! where several threads run one kernel, by another thread ([`sample`]). Its handler finds the
//! thread in the image's code or not, and the count moved or not. Nothing is asked of the thread
//! itself, and one that sleeps or is stopped costs nothing.
//!
//! The signal is `SIGSEGV`: a thread that runs an image has a handler for it with a stack of its
//! own, never blocks it, and debuggers are told to pass it on. Its value tells it from a fault.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::process;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vink_sys::memory::read_u64;
use vink_sys::rustix::time::ClockId;

use crate::clock::{self, monotonic};
use crate::fault::{self, SignalInfo};
use crate::image::Code;
use crate::panic::Frame;
use crate::symbols::{describe, Address};

/// How much a thread computes between two looks at it.
pub const TICK: Duration = Duration::from_millis(250);
/// A kernel that has computed for so long in one run is told of.
pub const LIMIT: Duration = Duration::from_secs(5);
/// As many frames of a backtrace are kept.
const MOST_FRAMES: usize = 64;

/// What the signals of this module have for a value.
fn mark() -> *mut c_void {
    static MARK: u8 = 0;
    (&raw const MARK).cast_mut().cast()
}

/// Something about a kernel that runs.
#[derive(Debug)]
pub enum News {
    /// It has computed for so long in this run; told at each look.
    Busy(Duration),
    /// It has computed for [`LIMIT`] in this run; told once.
    Stuck(Stuck),
    /// One that was stuck has returned, after so long. Told in a signal handler that may have
    /// interrupted anything: what hears this must not allocate, nor take a lock.
    Returned(Duration),
}

/// A kernel that has not returned.
#[derive(Clone, Debug)]
pub struct Stuck {
    /// For so long, by the host's clock.
    pub real: Duration,
    /// So much of the processor's time.
    pub processor: Duration,
    /// Where it is, innermost first.
    pub backtrace: Vec<Frame>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (real, processor) = (self.real.as_secs_f64(), self.processor.as_secs_f64());
        write!(
            f,
            "has not returned for {real:.1} s ({processor:.1} s of processor time)"
        )?;
        for frame in &self.backtrace {
            write!(f, "\n    {frame}")?;
        }
        Ok(())
    }
}

/// What is known of one kernel's runs.
pub(crate) struct Runs {
    count: AtomicU64,
    /// The run that the thread was seen in last.
    seen: AtomicU64,
    /// When it was first seen there: the thread's processor time and the host's clock, ns.
    since: [AtomicU64; 2],
    /// How much of the former it has used there when it was seen last.
    used: AtomicU64,
    /// The run that was told of as stuck; 0: none.
    told: AtomicU64,
    frames: [AtomicU64; MOST_FRAMES],
    depth: AtomicUsize,
    code: Mutex<Option<Arc<Code>>>,
}

impl Runs {
    pub(crate) const fn new() -> Runs {
        Runs {
            count: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            since: [const { AtomicU64::new(0) }; 2],
            used: AtomicU64::new(0),
            told: AtomicU64::new(0),
            frames: [const { AtomicU64::new(0) }; MOST_FRAMES],
            depth: AtomicUsize::new(0),
            code: Mutex::new(None),
        }
    }

    /// From now on they are those of another kernel, or of none.
    pub(crate) fn belong_to(&self, code: Option<Arc<Code>>) {
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) = code;
        // Even, and none that was told of.
        self.count.store(self.count.load(Relaxed) & !1, Relaxed);
        self.told.store(0, Relaxed);
    }

    /// Calls into the image.
    #[inline]
    pub(crate) fn during<R>(&self, inside: impl FnOnce() -> R) -> R {
        // One thread at a time has the kernel: no other changes the count.
        let count = self.count.load(Relaxed) + 1;
        self.count.store(count, Relaxed);
        let result = inside();
        self.count.store(count + 1, Relaxed);
        result
    }

    /// The thread was found in the image's code, with these registers. In a signal handler.
    fn found(&self, code: [u64; 2]) {
        let (run, now) = (self.count.load(Relaxed), processor_time());
        if self.seen.swap(run, Relaxed) != run {
            self.since[0].store(now, Relaxed);
            self.since[1].store(monotonic(), Relaxed);
            self.used.store(0, Relaxed);
            return;
        }
        let used = now - self.since[0].load(Relaxed);
        if used >= LIMIT.as_nanos() as u64 && self.told.load(Relaxed) != run {
            self.walk(code);
        }
        self.used.store(used, Relaxed);
    }

    /// Keeps the way there: the chain of frame pointers, which may lead anywhere.
    fn walk(&self, [rip, mut rbp]: [u64; 2]) {
        let me = process::id() as i32;
        self.frames[0].store(rip, Relaxed);
        let mut depth = 1;
        while depth < MOST_FRAMES {
            let (above, back) = (read_u64(me, rbp), read_u64(me, rbp.wrapping_add(8)));
            let (Some(above), Some(back)) = (above, back) else {
                break;
            };
            if !fault::is_code(back) {
                break;
            }
            self.frames[depth].store(back, Relaxed);
            depth += 1;
            if above == rbp {
                break;
            }
            rbp = above;
        }
        self.depth.store(depth, Relaxed);
    }

    /// Tells what there is to tell. `within`: the calling thread has been found in the image's
    /// code, or is another one.
    fn tell(&self, within: bool, tell: &mut dyn FnMut(News)) {
        let (run, told) = (self.count.load(Relaxed), self.told.load(Relaxed));
        let real = || Duration::from_nanos(monotonic() - self.since[1].load(Relaxed));
        if told != 0 && told != run {
            self.told.store(0, Relaxed);
            tell(News::Returned(real()));
        }
        if !within || run % 2 == 0 || self.seen.load(Relaxed) != run {
            return;
        }
        let used = Duration::from_nanos(self.used.load(Relaxed));
        tell(News::Busy(used));
        if used < LIMIT || told == run {
            return;
        }
        self.told.store(run, Relaxed);
        let frames = self.frames[..self.depth.load(Relaxed)].iter().enumerate();
        let addresses = frames.map(|(depth, address)| match depth {
            0 => Address::At(address.load(Relaxed)),
            _ => Address::ReturnTo(address.load(Relaxed)),
        });
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let backtrace = code.as_ref().map(|code| describe(code, addresses));
        tell(News::Stuck(Stuck {
            real: real(),
            processor: used,
            backtrace: backtrace.unwrap_or_default(),
        }));
    }
}

/// Of the calling thread, in ns.
fn processor_time() -> u64 {
    clock::read(ClockId::ThreadCPUTime)
}

type Tell = Box<dyn FnMut(News) + Send>;

/// What the watched thread's news are told to. Its handler does not wait for the lock.
static TELL: Mutex<Option<Tell>> = Mutex::new(None);

fn tell_to() -> MutexGuard<'static, Option<Tell>> {
    TELL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches kernels that the thread that made it runs, until it is dropped. A process has one at
/// most.
pub struct Watchdog {
    timer: libc::timer_t,
    /// It stays with its thread.
    _thread: PhantomData<*mut ()>,
}

impl Watchdog {
    /// Watches the calling thread. News are told in a signal handler of that thread, while it is in
    /// the image's code: no lock of this program's is held there (but see [`News::Returned`]).
    ///
    /// # Errors
    /// As timer_create(2); `EBUSY`: there is one.
    pub fn start(tell: impl FnMut(News) + Send + 'static) -> io::Result<Watchdog> {
        fault::prepare();
        let mut told = tell_to();
        if told.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let timer = arm()?;
        *told = Some(Box::new(tell));
        Ok(Watchdog {
            timer,
            _thread: PhantomData,
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // SAFETY: the timer is ours.
        unsafe { libc::timer_delete(self.timer) };
        *tell_to() = None;
    }
}

/// A timer that interrupts the calling thread again and again.
fn arm() -> io::Result<libc::timer_t> {
    let tick = libc::timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as i64,
    };
    let times = libc::itimerspec {
        it_interval: tick,
        it_value: tick,
    };
    // SAFETY: plain data that is filled in here; a timer of our own.
    unsafe {
        let mut event: libc::sigevent = zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGSEGV;
        event.sigev_value.sival_ptr = mark();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = null_mut();
        if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::timer_settime(timer, 0, &times, null_mut());
        Ok(timer)
    }
}

/// Whether this signal is one of this module's.
pub(crate) fn is_ours(info: &SignalInfo) -> bool {
    matches!(info.code, libc::SI_TIMER | libc::SI_QUEUE) && info.value == mark().addr() as u64
}

/// A look at the calling thread, which was interrupted with these values of `rip` and `rbp`. In a
/// signal handler.
pub(crate) fn look(code: [u64; 2]) {
    let found = fault::runs_of(code[0]);
    if let Some(runs) = found {
        runs.found(code);
    }
    let Ok(mut told) = TELL.try_lock() else {
        return; // another look, or a watchdog that starts or ends: next time
    };
    if let Some(tell) = told.as_mut() {
        for runs in fault::all_runs() {
            let within = found.is_some_and(|found| std::ptr::eq(found, runs));
            runs.tell(within, tell);
        }
    }
}

/// Tells what was found of threads that were interrupted by [`sample`]: for a thread that runs no
/// kernel.
pub fn tell_of_samples(tell: &mut dyn FnMut(News)) {
    for runs in fault::all_runs() {
        runs.tell(true, tell);
    }
}

/// Whether a kernel has been in one run since this was asked last.
pub fn is_suspicious() -> bool {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let inside = fault::all_runs().map(|runs| runs.count.load(Relaxed));
    let now: u64 = inside.filter(|count| count % 2 == 1).sum();
    LAST.swap(now, Relaxed) == now && now != 0
}

/// Interrupts a thread of this process for a look at it; a thread that is not in an image goes on
/// at once.
pub fn sample(tid: c_int) {
    let info = SignalInfo {
        signal: libc::SIGSEGV,
        errno: 0,
        code: libc::SI_QUEUE,
        pad: 0,
        address: 0,
        value: mark().addr() as u64,
        rest: [0; 12],
    };
    // SAFETY: reads the structure. A thread that has ended is an error, which says nothing.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            tid,
            libc::SIGSEGV,
            &raw const info,
        );
    }
}
