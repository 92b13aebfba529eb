//! Posting a call: the process's mailbox, the thread's slot, and how long to look for an answer.

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::sets;
use vink_mailbox::{
    Letter, Mailbox, Request, Slot, Turn, GET_MAILBOX, GET_SLOT, HOST, LETTER, PIPE, REFUSED, SHOW,
    STREAM, UNKNOWN,
};

/// Calls that a process makes before it asks for a mailbox: many end sooner.
const CALLS: u32 = 4;
/// Looks for an answer before a request is taken back: some 50 us of its own time.
const LOOKS: u32 = 500;
/// ... and before a thread whose request the worker is at sleeps: 128 kB take it some 20 us.
const MOST_LOOKS: u32 = 4000;
/// ... and before others may run on this processor.
const PATIENCE: u32 = 4;
/// Ticks of the processor's counter, some 0.8 ms, that others may run for: two ends of a connection that copy much have each other's
/// leave. If they take longer, so many chances to give way are left out.
const LEND: u64 = 2_000_000;
const PAUSE: u32 = 1000;
/// Some 2 ms: who takes that does nothing but compute, and many more are left out.
const SLICE: u64 = 6_000_000;
const LONG_PAUSE: u32 = 32_000;

/// What a process knows; wiped in its children.
#[repr(C)]
struct State {
    /// Null: it has none.
    mailbox: AtomicPtr<Mailbox>,
    /// Made so far without one; stays where it is once it has been asked for.
    calls: AtomicU32,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());

/// A thread's slot in one mailbox.
#[derive(Clone, Copy)]
struct Place {
    mailbox: u64,
    /// `None`: there was none left.
    slot: Option<usize>,
}

thread_local! {
    static PLACE: Cell<Place> = const {
        Cell::new(Place {
            mailbox: 0,
            slot: None,
        })
    };
    /// Chances to give way that this thread is to leave out.
    static PAUSED: Cell<u32> = const { Cell::new(0) };
    /// A request of this thread is under way: what a signal handler calls now must not disturb it.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// The library has been loaded.
pub(crate) extern "C" fn begin() {
    if let Some(state) = wiped(size_of::<State>()) {
        STATE.store(state.cast(), Ordering::Release);
        sets::begin();
    }
}

/// Memory, all zero, and again so in children; it is never unmapped.
pub(crate) fn wiped(len: usize) -> Option<*mut c_void> {
    // SAFETY: makes a mapping and asks for it to be wiped in children.
    unsafe {
        let (read_write, own) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        match libc::mmap(null_mut(), len, read_write, own, -1, 0) {
            libc::MAP_FAILED => None,
            memory if libc::madvise(memory, len, libc::MADV_WIPEONFORK) < 0 => {
                libc::munmap(memory, len);
                None
            }
            memory => Some(memory),
        }
    }
}

/// The process's mailbox, if it has one.
#[inline]
pub(crate) fn mailbox() -> Option<&'static Mailbox> {
    let state = NonNull::new(STATE.load(Ordering::Acquire))?;
    // SAFETY: stays mapped for ever; all zero, as a child finds it, is valid.
    let state = unsafe { state.as_ref() };
    match NonNull::new(state.mailbox.load(Ordering::Acquire)) {
        // SAFETY: stays mapped for ever in this process, of which the wiped state says that it has it.
        Some(mailbox) => Some(unsafe { mailbox.as_ref() }),
        None => {
            state.count();
            None
        }
    }
}

/// Asks for a mailbox, if that has not been done.
pub(crate) fn ask() {
    // SAFETY: as above.
    if let Some(state) = unsafe { STATE.load(Ordering::Acquire).as_ref() } {
        if state.calls.swap(CALLS + 1, Ordering::Relaxed) <= CALLS {
            state.ask();
        }
    }
}

/// Whether it is known that a descriptor is the host's.
#[inline]
pub(crate) fn is_host(fd: i32) -> bool {
    let file = mailbox().and_then(|mailbox| mailbox.files.get(fd as u32 as usize));
    file.is_some_and(|file| file.load(Ordering::Relaxed) == HOST)
}

/// Whether anything can be learnt and told of descriptors. (In virtual time only the worker tells.)
pub(crate) fn knows() -> bool {
    mailbox().is_some_and(|mailbox| mailbox.turn.is_virtual.load(Ordering::Relaxed) == 0)
}

/// If a descriptor is a pipe of the host's on which a call may be made untrapped in virtual time: where to leave word of it.
#[inline]
pub(crate) fn free_pipe(fd: i32) -> Option<&'static Turn> {
    let kind = mailbox()?.files.get(fd as u32 as usize)?;
    match kind.load(Ordering::Relaxed) {
        PIPE => free_turn().filter(|turn| turn.vain.load(Ordering::Relaxed) == 0),
        _ => None,
    }
}

/// The same of a call on whatever it may be made on.
#[inline]
pub(crate) fn free_turn() -> Option<&'static Turn> {
    let turn = &mailbox()?.turn;
    let left = turn.free.load(Ordering::Relaxed).checked_sub(1)?;
    // Nobody else runs.
    turn.free.store(left, Ordering::Relaxed);
    Some(turn)
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
    if let Some(file) = mailbox().and_then(|mailbox| mailbox.files.get(fd as u32 as usize)) {
        file.store(kind, Ordering::Release);
    }
}

/// This thread is at what a signal handler of it must not disturb.
pub(crate) struct Busy(());

impl Busy {
    /// `None`: it is a handler's that would.
    pub(crate) fn new() -> Option<Busy> {
        (!BUSY.replace(true)).then(|| Busy(()))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Posts a request that is about no stream.
pub(crate) fn alone(request: Request) -> Option<i64> {
    Draft::at(mailbox()?)?.post(request)
}

/// Does the same by a system call; whether the process still has its mailbox.
#[cold]
pub(crate) fn show_natively(request: u64) -> bool {
    // SAFETY: makes a system call; the errno is the thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        let result = libc::ioctl(-1, request as _);
        *libc::__errno_location() = errno;
        result == 0
    }
}

/// A call on a stream that has been prepared: the slot is this thread's until it is dropped.
pub(crate) struct Draft {
    mailbox: &'static Mailbox,
    index: usize,
    _busy: Busy,
}

impl Draft {
    /// For a call on this descriptor; `None`: a system call is to be made.
    #[inline]
    pub(crate) fn new(fd: i32) -> Option<Draft> {
        let mailbox = mailbox()?;
        let kind = mailbox.files.get(fd as u32 as usize)?;
        if kind.load(Ordering::Relaxed) != STREAM {
            return None;
        }
        Draft::at(mailbox)
    }

    fn at(mailbox: &'static Mailbox) -> Option<Draft> {
        let busy = Busy::new()?;
        let index = own_slot(mailbox)?;
        Some(Draft {
            mailbox,
            index,
            _busy: busy,
        })
    }

    fn slot(&self) -> &'static Slot {
        &self.mailbox.slots[self.index]
    }

    /// The bytes that go with it.
    pub(crate) fn data(&self) -> *mut u8 {
        self.slot().data()
    }

    /// Where a send of so many bytes may be written that is certain to succeed; what is written there is to be [left](Draft::leave).
    #[inline]
    pub(crate) fn letter(&self, fd: i32, len: usize) -> Option<&'static Letter> {
        let mailbox = self.mailbox;
        if !(1..=LETTER).contains(&len) || mailbox.attended.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let letter = self.slot().outbox.free()?;
        let traps = mailbox.traps.load(Ordering::Acquire);
        mailbox
            .boards
            .get(fd as u32 as usize)?
            .takes(traps, len)
            .then_some(letter)
    }

    /// Leaves it to the worker. False: it takes none any more.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let (mailbox, outbox) = (self.mailbox, &self.slot().outbox);
        outbox.push();
        mailbox
            .letters
            .0
            .fetch_or(1 << self.index, Ordering::SeqCst);
        // Either this thread sees that the worker has gone to sleep, or the worker sees the bit before it does.
        let sleeps = mailbox.attended.load(Ordering::SeqCst) == 0;
        !(sleeps && !show_natively(SHOW) && outbox.take_back())
    }

    /// What the kernel has answered; `None`: a system call is to be made.
    #[inline]
    pub(crate) fn post(&self, request: Request) -> Option<i64> {
        let slot = self.slot();
        slot.write(request);
        if !self.mailbox.post(self.index) {
            return None;
        }
        let mut looks = 0;
        let result = loop {
            if let Some(result) = slot.answer() {
                break result;
            }
            looks += 1;
            if looks == LOOKS && self.mailbox.take(self.index) {
                return None;
            }
            if looks > MOST_LOOKS {
                break slot.wait();
            }
            if looks % PATIENCE == 0 {
                give_way();
            }
            std::hint::spin_loop();
        };
        (result != REFUSED).then_some(result)
    }
}

/// Lets others run on this processor who may have something to do meanwhile, as the other end of the connection often has. Who
/// computes for long is not let in again soon: an answer takes some microseconds, and a turn of the scheduler's milliseconds.
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
        if self.calls.load(Ordering::Relaxed) <= CALLS
            && self.calls.fetch_add(1, Ordering::Relaxed) == CALLS
        {
            self.ask();
        }
    }

    #[cold]
    fn ask(&self) {
        // SAFETY: reads and writes the thread's own errno.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: makes system calls; the mapping is as large as what the worker has made.
        unsafe {
            let fd = libc::ioctl(-1, GET_MAILBOX as _);
            if fd >= 0 {
                let (read_write, len) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Mailbox>());
                let mailbox = libc::mmap(null_mut(), len, read_write, libc::MAP_SHARED, fd, 0);
                libc::close(fd);
                if mailbox != libc::MAP_FAILED
                    && libc::madvise(mailbox, len, libc::MADV_DONTFORK) == 0
                {
                    self.mailbox.store(mailbox.cast(), Ordering::Release);
                }
            }
            *libc::__errno_location() = errno;
        }
    }
}

/// Which of the mailbox's slots is this thread's.
pub(crate) fn own_slot(mailbox: &Mailbox) -> Option<usize> {
    let id = mailbox.id.load(Ordering::Relaxed);
    let mut place = PLACE.get();
    if place.mailbox != id {
        place = Place {
            mailbox: id,
            slot: slot(),
        };
        PLACE.set(place);
    }
    place.slot
}

/// Asks for it.
#[cold]
fn slot() -> Option<usize> {
    // SAFETY: makes a system call; the errno is the thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        let slot = libc::ioctl(-1, GET_SLOT as _);
        *libc::__errno_location() = errno;
        usize::try_from(slot)
            .ok()
            .filter(|n| *n < vink_mailbox::SLOTS)
    }
}
