//! Posting a call: the process's ring, the thread's slot, and how long to poll for an answer.

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use libc::{SYS_close, SYS_ioctl, MADV_DONTFORK, MAP_SHARED};
use vink_ring::{
    DeferredSend, Request, SchedPage, SharedRing, Slot, FLUSH, GET_RING, GET_SLOT, HOST, MAX_DATA,
    MAX_DEFERRED_LEN, PIPE, REFUSED, STREAM, UNKNOWN,
};

use crate::memory::{map, Wiped, Zero};
use crate::sets;
use crate::system_call::uninterrupted;

/// Calls that a process makes before it asks for a ring: many end sooner.
const CALLS: u32 = 4;
/// ... and a quarter of those that it makes after it was told that it is too early.
const TOO_EARLY: u32 = 16;
/// As often it may be told so.
const MOST_EARLY: u32 = 5;
/// Polls for an answer before a request is taken back: some 50 us of the thread's time.
const ANSWER_SPINS: u32 = 500;
/// ... and before a thread whose request the worker is at sleeps: 128 kB take it some 20 us.
const SERVED_SPINS: u32 = 4000;
/// ... and before others may run on this processor.
const SPINS_PER_YIELD: u32 = 4;
/// Ticks of the processor's counter, some 0.8 ms, that other threads may run for: two ends of a
/// connection that copy much yield to each other. If they take longer, so many chances to yield are
/// left out.
const LEND: u64 = 2_000_000;
const PAUSE: u32 = 1000;
/// Some 2 ms: a thread that takes that does nothing but compute, and many more are left out.
const SLICE: u64 = 6_000_000;
const LONG_PAUSE: u32 = 32_000;

/// What a process knows of its ring.
#[repr(C)]
struct State {
    /// Null: it has none.
    ring: AtomicPtr<SharedRing>,
    /// Made so far without one; stays where it is once it has been asked for.
    calls: AtomicU32,
    /// How often it was too early to ask: each time four times as many calls come before the next
    /// one.
    early: AtomicU32,
    /// It has loaded this library itself: it is no child of fork(2) of one that has.
    has_loaded: AtomicBool,
    /// Children of vfork(2), each the next one's parent, of which the last one has this memory now.
    vforked: AtomicU32,
}

// SAFETY: null, and numbers.
unsafe impl Zero for State {}

static STATE: Wiped<State> = Wiped::new();

/// A thread's slot in one ring.
#[derive(Clone, Copy)]
struct Place {
    ring: u64,
    /// `None`: there was none left.
    slot: Option<usize>,
}

thread_local! {
    static PLACE: Cell<Place> = const {
        Cell::new(Place {
            ring: 0,
            slot: None,
        })
    };
    /// Chances to yield that this thread is to leave out.
    static PAUSED: Cell<u32> = const { Cell::new(0) };
    /// A request of this thread is under way: what a signal handler calls now must not disturb it.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// The library has been loaded.
pub(crate) fn begin() {
    STATE.begin();
    if let Some(state) = STATE.get() {
        state.has_loaded.store(true, Ordering::Relaxed);
    }
}

/// The process's ring, if it has one.
#[inline]
pub(crate) fn ring() -> Option<&'static SharedRing> {
    let state = STATE.get()?;
    match NonNull::new(state.ring.load(Ordering::Acquire)) {
        // SAFETY: stays mapped for ever in this process, of which the wiped state says that it has
        // it.
        Some(ring) => Some(unsafe { ring.as_ref() }),
        None => {
            state.count();
            None
        }
    }
}

/// The program is about to filter its own system calls (seccomp(2)). What asks for a ring would be
/// a call that its filter does not expect, and may end it.
static FILTERED: AtomicBool = AtomicBool::new(false);

/// This process, and its children, ask for no ring from now on.
pub(crate) fn asks_no_more() {
    FILTERED.store(true, Ordering::Relaxed);
}

/// A child of vfork(2) is about to have this process's memory. False: it may not, for the process has
/// a ring, or does not ask for one, and such a child might have it do so.
pub(crate) fn begin_vfork() -> bool {
    let state = STATE.get().filter(|state| {
        let has_none = state.ring.load(Ordering::Acquire).is_null();
        has_none && !FILTERED.load(Ordering::Relaxed)
    });
    state.is_some_and(|state| {
        state.vforked.fetch_add(1, Ordering::Relaxed);
        true
    })
}

/// It has it no more.
pub(crate) fn end_vfork() {
    if let Some(state) = STATE.get() {
        state.vforked.fetch_sub(1, Ordering::Relaxed);
    }
    FILTERED.store(false, Ordering::Relaxed);
}

/// Whether this is the process that has loaded the library, and no child of it.
pub(crate) fn is_own_process() -> bool {
    let state = STATE.get();
    !is_vforked() && state.is_some_and(|state| state.has_loaded.load(Ordering::Relaxed))
}

/// Whether this is a child of vfork(2).
pub(crate) fn is_vforked() -> bool {
    STATE
        .get()
        .is_some_and(|state| state.vforked.load(Ordering::Relaxed) > 0)
}

/// Asks for a ring, if that has not been done.
pub(crate) fn ask() {
    if let Some(state) = STATE.get().filter(|_| !is_vforked()) {
        let most = state.most_calls();
        if state.calls.swap(most + 1, Ordering::Relaxed) <= most {
            state.ask();
        }
    }
}

/// Whether it is known that a descriptor is the host's.
#[inline]
pub(crate) fn is_host(fd: i32) -> bool {
    let file = ring().and_then(|ring| ring.files.get(fd as u32 as usize));
    file.is_some_and(|file| file.load(Ordering::Relaxed) == HOST)
}

/// Whether a call on a descriptor may be made without a trap, so that what its arguments point to is
/// looked at here.
#[inline]
pub(crate) fn may_be_posted(fd: i32) -> bool {
    ring().is_some_and(|ring| {
        let file = ring.files.get(fd as u32 as usize);
        match file.map(|file| file.load(Ordering::Relaxed)) {
            Some(STREAM) => {
                ring.worker_polling.load(Ordering::Relaxed) != 0
                    || ring.sched.call_budget.load(Ordering::Relaxed) != 0
            }
            kind => kind == Some(PIPE),
        }
    })
}

/// Whether anything can be learnt and published of descriptors. (In virtual time only the worker
/// does.)
pub(crate) fn knows() -> bool {
    ring().is_some_and(|ring| !ring.is_virtual())
}

/// If a descriptor is a pipe of the host's on which a call may be made untrapped in virtual time:
/// where to leave word of it.
#[inline]
pub(crate) fn budgeted_pipe(fd: i32) -> Option<&'static SchedPage> {
    let kind = ring()?.files.get(fd as u32 as usize)?;
    match kind.load(Ordering::Relaxed) {
        PIPE => {
            spend_call_budget().filter(|sched| sched.pipe_would_block.load(Ordering::Relaxed) == 0)
        }
        _ => None,
    }
}

/// The same of a call on whatever it may be made on.
#[inline]
pub(crate) fn spend_call_budget() -> Option<&'static SchedPage> {
    let sched = &ring()?.sched;
    let left = sched.call_budget.load(Ordering::Relaxed).checked_sub(1)?;
    // No other thread runs.
    sched.call_budget.store(left, Ordering::Relaxed);
    Some(sched)
}

/// A file of the host's has been opened.
pub(crate) fn opened(fd: i32) {
    mark(fd, HOST);
}

/// A descriptor is about to be closed.
pub(crate) fn closes(fd: i32) {
    mark(fd, UNKNOWN);
}

fn mark(fd: i32, kind: u8) {
    if let Some(file) = ring().and_then(|ring| ring.files.get(fd as u32 as usize)) {
        file.store(kind, Ordering::Release);
    }
}

/// This thread is at what a signal handler of it must not disturb.
pub(crate) struct Busy(PhantomData<*const ()>);

impl Busy {
    /// `None`: it is a handler's that would.
    pub(crate) fn new() -> Option<Busy> {
        (!BUSY.replace(true)).then(|| Busy(PhantomData))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Posts a request that is about no stream.
pub(crate) fn alone(request: Request) -> Option<i64> {
    Draft::at(ring()?)?.post(request)
}

/// Does the same by a system call; whether the process still has its ring.
#[cold]
pub(crate) fn show_natively(request: u64) -> bool {
    call_worker(request) == 0
}

/// A system call that the worker answers: an ioctl(2) on no descriptor.
#[cold]
fn call_worker(request: u64) -> i64 {
    uninterrupted(SYS_ioctl, [u64::MAX, request, 0, 0, 0, 0])
}

/// A call on a stream that has been prepared: the slot is this thread's until it is dropped.
pub(crate) struct Draft {
    ring: &'static SharedRing,
    index: usize,
    _busy: Busy,
}

impl Draft {
    /// For a call on this descriptor; `None`: a system call is to be made.
    #[inline]
    pub(crate) fn new(fd: i32) -> Option<Draft> {
        let ring = ring()?;
        let kind = ring.files.get(fd as u32 as usize)?;
        // What the worker does not poll is not written: a trapped call reports bad pointers (`EFAULT`).
        if kind.load(Ordering::Relaxed) != STREAM
            || ring.worker_polling.load(Ordering::Relaxed) == 0
        {
            return None;
        }
        Draft::at(ring)
    }

    /// For a send on this descriptor. In virtual time it can only be deferred ([`Draft::send`]).
    #[inline]
    pub(crate) fn for_send(fd: i32) -> Option<Draft> {
        Draft::new(fd).or_else(|| {
            let ring = ring()?;
            let kind = ring.files.get(fd as u32 as usize)?;
            let is_stream = kind.load(Ordering::Relaxed) == STREAM;
            (is_stream && spend_call_budget().is_some()).then(|| Draft::at(ring))?
        })
    }

    fn at(ring: &'static SharedRing) -> Option<Draft> {
        let busy = Busy::new()?;
        let index = own_slot(ring)?;
        Some(Draft {
            ring,
            index,
            _busy: busy,
        })
    }

    fn slot(&self) -> &'static Slot {
        &self.ring.slots[self.index]
    }

    /// The bytes that go with it.
    #[inline]
    pub(crate) fn data(&self) -> &[Cell<u8>] {
        // SAFETY: there are so many, and only the thread that has the draft reaches them.
        unsafe { from_raw_parts(self.slot().data().cast(), MAX_DATA) }
    }

    /// Where a send of so many bytes may be written that is certain to succeed, and room for them;
    /// what is written there is to be [left](Draft::leave).
    #[inline]
    pub(crate) fn send(&self, fd: i32, len: usize) -> Option<(&DeferredSend, &[Cell<u8>])> {
        let ring = self.ring;
        if !(1..=MAX_DEFERRED_LEN).contains(&len) || !(self.may_be_posted() || ring.is_virtual()) {
            return None;
        }
        let send = self.slot().deferred_sends.free()?;
        let traps = ring.syscall_seq.load(Ordering::Acquire);
        let entry = ring.readiness.get(fd as u32 as usize)?;
        let is_taken = match ring.is_virtual() {
            true => entry.take_some_credit(traps, len),
            false => entry.take_credit(traps, len),
        };
        is_taken.then(|| {
            // SAFETY: as of `data`.
            let data = unsafe { from_raw_parts(send.data().cast(), MAX_DEFERRED_LEN) };
            (send, data)
        })
    }

    /// Whether the worker polls for requests.
    #[inline]
    pub(crate) fn may_be_posted(&self) -> bool {
        self.ring.worker_polling.load(Ordering::Relaxed) != 0
    }

    /// Leaves it to the worker. False: it takes none any more.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let (ring, deferred) = (self.ring, &self.slot().deferred_sends);
        deferred.push();
        let is_seen = ring.post_deferred(self.index);
        if ring.is_virtual() {
            // The worker finds it at the next trapped call. What a poll(2) has found may not be true any more.
            ring.sched.polled_count.store(0, Ordering::Relaxed);
            return true;
        }
        // A worker that has this ring no more is not about to send it.
        is_seen || show_natively(FLUSH) || !deferred.take_back()
    }

    /// What the kernel has answered; `None`: a system call is to be made.
    #[inline]
    pub(crate) fn post(&self, request: Request) -> Option<i64> {
        let slot = self.slot();
        slot.write(request);
        if !self.ring.post(self.index) {
            return None;
        }
        let mut looks = 0;
        let result = loop {
            if let Some(result) = slot.answer() {
                break result;
            }
            looks += 1;
            if looks == ANSWER_SPINS && self.ring.take(self.index) {
                return None;
            }
            if looks > SERVED_SPINS {
                break slot.wait();
            }
            if looks % SPINS_PER_YIELD == 0 {
                give_way();
            }
            std::hint::spin_loop();
        };
        (result != REFUSED).then_some(result)
    }
}

/// Yields this processor to threads that may have something to do meanwhile, as the other end of
/// the connection often has. A thread that computes for long is not let in again soon: an answer
/// takes some microseconds, and a time slice of the host's scheduler milliseconds.
pub(crate) fn give_way() {
    match PAUSED.get() {
        0 => {
            // SAFETY: reads a counter, and takes nothing.
            let lent = unsafe {
                let start = _rdtsc();
                libc::sched_yield();
                _rdtsc().wrapping_sub(start)
            };
            if lent > SLICE {
                PAUSED.set(LONG_PAUSE);
            } else if lent > LEND {
                PAUSED.set(PAUSE);
            }
        }
        left => PAUSED.set(left - 1),
    }
}

impl State {
    /// A call was made without one.
    #[cold]
    fn count(&self) {
        let most = self.most_calls();
        if self.vforked.load(Ordering::Relaxed) == 0
            && self.calls.load(Ordering::Relaxed) <= most
            && self.calls.fetch_add(1, Ordering::Relaxed) == most
        {
            self.ask();
        }
    }

    /// After as many calls it asks.
    fn most_calls(&self) -> u32 {
        match self.early.load(Ordering::Relaxed) {
            0 => CALLS,
            early => TOO_EARLY << (2 * early),
        }
    }

    #[cold]
    fn ask(&self) {
        if FILTERED.load(Ordering::Relaxed) {
            return;
        }
        let fd = call_worker(GET_RING);
        if fd == -i64::from(libc::EAGAIN) && self.early.load(Ordering::Relaxed) < MOST_EARLY {
            self.early.fetch_add(1, Ordering::Relaxed);
            self.calls.store(0, Ordering::Relaxed);
        }
        if fd < 0 {
            return;
        }
        let len = size_of::<SharedRing>();
        let ring = map(len, MAP_SHARED, fd as i32, MADV_DONTFORK);
        uninterrupted(SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        if let Some(ring) = ring {
            sets::begin();
            self.ring.store(ring.cast(), Ordering::Release);
        }
    }
}

/// A call that receives on a stream in virtual time, and of which the worker knows beforehand.
pub(crate) struct Receive(&'static Slot);

impl Receive {
    /// The next call of this thread has so large a buffer there; `None`: it is on something else.
    #[inline]
    pub(crate) fn post(fd: i32, buffer: u64, len: usize) -> Option<Receive> {
        let ring = ring()?;
        let kind = ring.files.get(fd as u32 as usize)?;
        let is_stream = kind.load(Ordering::Relaxed) == STREAM;
        if !is_stream || !ring.is_virtual() || len > MAX_DATA {
            return None;
        }
        let slot = &ring.slots[own_slot(ring)?];
        slot.posted_receive.store(buffer, Ordering::Relaxed);
        Some(Receive(slot))
    }

    /// The call is back: so many of these bytes it has received, unless they are in the buffer.
    #[inline]
    pub(crate) fn take(&self, result: isize) -> &[Cell<u8>] {
        self.0.posted_receive.store(0, Ordering::Relaxed);
        let is_here = self.0.received.swap(0, Ordering::Relaxed) != 0;
        let len = usize::try_from(result).unwrap_or(0).min(MAX_DATA);
        let len = if is_here { len } else { 0 };
        // SAFETY: there are so many, and only the thread that has the slot reaches them.
        unsafe { from_raw_parts(self.0.data().cast(), len) }
    }
}

/// Which of the ring's slots is this thread's.
pub(crate) fn own_slot(ring: &SharedRing) -> Option<usize> {
    let id = ring.id.load(Ordering::Relaxed);
    let mut place = PLACE.get();
    if place.ring != id {
        place = Place {
            ring: id,
            slot: usize::try_from(call_worker(GET_SLOT))
                .ok()
                .filter(|slot| *slot < vink_ring::SLOTS),
        };
        PLACE.set(place);
    }
    place.slot
}
