//! What a kernel asks of its host (`struct vink_ops`), and what is remembered of the answers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use vink_abi::Ops;

use crate::clock::{stopped, Clock};
use crate::counter::Counter;
use crate::probe::Probes;
use crate::shared::Shares;
use crate::task::{Event, TaskId};
use crate::user::{self, Way};
use crate::verdict::Verdicts;
use crate::wire::PacketQueue;

/// Receives the kernel's log, whole lines at a time; see
/// [`Config::console`](crate::Config::console).
pub type Console = Box<dyn FnMut(&str) + Send>;

/// The log is cut down to its newer half when it reaches twice this many bytes.
const LOG_BYTES: usize = 256 << 10;

/// What the page allocator's warn_alloc() says.
const SHORT: &str = "page allocation failure";

/// The first argument of every op. Used by the one thread that holds the `Kernel` only: from its
/// methods, and from the ops while such a method is inside the image.
#[derive(Default)]
pub(crate) struct Host {
    /// The real clock.
    pub counter: Counter,
    /// The virtual clock, ns.
    pub now: Cell<u64>,
    /// What has happened and was not told yet.
    pub events: RefCell<VecDeque<Event>>,
    /// The task whose end of call a caller waits for already: it gives no event.
    pub awaited: Cell<Option<TaskId>>,
    /// Tasks that have gone while the image ran, and may be forgotten now that it doesn't.
    pub gone: RefCell<Vec<TaskId>>,
    /// The kernel has told of an allocation that failed.
    pub short: Cell<bool>,
    /// The kernel's last words.
    pub panic: RefCell<Option<LastWords>>,
    /// What has happened to packets of traced ends.
    pub packets: RefCell<PacketQueue>,
    /// The callback that gives verdicts on packets.
    pub verdicts: RefCell<Verdicts>,
    /// What the kernel has passed.
    pub probes: RefCell<Probes>,
    /// Ends that lead to other processes.
    pub shares: RefCell<Shares>,
    /// Where the kernel's memory is.
    pub arena: Range<u64>,
    pub log: RefCell<String>,
    pub console: RefCell<Option<Console>>,
}

impl Host {
    /// The real clock, ns.
    #[inline]
    pub fn real_time(&self) -> u64 {
        self.counter.now() - stopped()
    }

    /// The kernel has passed a tracepoint.
    ///
    /// # Safety
    /// The image has called, with three arguments.
    unsafe fn probed(&self, time: u64, cookie: u64, args: *const u64) {
        // SAFETY: by contract; the caller does nothing else meanwhile.
        unsafe {
            let args = *args.cast::<[u64; 3]>();
            let mut probes = self.probes.borrow_mut();
            probes.pass(time, cookie, args, &self.arena);
        }
    }
}

/// A panic as the image reports it.
pub(crate) struct LastWords {
    pub message: String,
    pub trace: Vec<u64>,
}

/// The table for this clock.
pub(crate) fn ops(clock: Clock) -> &'static Ops {
    const REAL: Ops = Ops {
        clock: Some(clock_real),
        console: Some(console),
        panic: Some(panic),
        user_read: Some(user_read),
        user_write: Some(user_write),
        done: Some(done),
        ready: Some(ready),
        gone: Some(gone),
        release: Some(release),
        packet: Some(packet),
        probe: Some(probe_real),
        bell: Some(bell),
        verdict: Some(verdict),
    };
    static OPS: [Ops; 2] = [
        REAL,
        Ops {
            clock: Some(clock_virtual),
            probe: Some(probe_virtual),
            ..REAL
        },
    ];
    match clock {
        Clock::Real => &OPS[0],
        Clock::Virtual => &OPS[1],
    }
}

/// # Safety
/// `host` is what was given to vink_boot(): a Host that outlives the kernel.
unsafe fn host<'a>(host: *mut c_void) -> &'a Host {
    // SAFETY: by contract; Host is only ever shared, never borrowed mutably as a whole.
    unsafe { &*host.cast::<Host>() }
}

unsafe extern "C" fn clock_real(this: *mut c_void) -> u64 {
    // SAFETY: called by the image.
    unsafe { host(this) }.real_time()
}

unsafe extern "C" fn clock_virtual(this: *mut c_void) -> u64 {
    // SAFETY: called by the image.
    unsafe { host(this) }.now.get()
}

unsafe extern "C" fn console(this: *mut c_void, text: *const c_char, len: u64) {
    // SAFETY: called by the image, with `len` bytes of text.
    let (host, bytes) = unsafe {
        (
            host(this),
            slice::from_raw_parts(text.cast::<u8>(), len as usize),
        )
    };
    let text = String::from_utf8_lossy(bytes);
    if text.contains(SHORT) {
        host.short.set(true);
    }
    remember(&mut host.log.borrow_mut(), &text);
    let mut console = host.console.borrow_mut();
    if let Some(print) = console.as_mut() {
        // The kernel's frames below can't be unwound. One that panics is not asked again.
        if catch_unwind(AssertUnwindSafe(|| print(&text))).is_err() {
            *console = None;
        }
    }
}

fn remember(log: &mut String, text: &str) {
    log.push_str(text);
    if log.len() >= 2 * LOG_BYTES {
        let from = log.len() - LOG_BYTES;
        let line = log.as_bytes()[from..].iter().position(|b| *b == b'\n');
        // Behind a line feed is always a character's boundary.
        let cut = line.map_or(log.len(), |at| from + at + 1);
        log.drain(..cut);
    }
}

unsafe extern "C" fn panic(this: *mut c_void, panic: *const vink_abi::Panic) {
    // SAFETY: called by the image, with a valid record.
    let (host, panic) = unsafe { (host(this), &*panic) };
    // SAFETY: abi.h: NUL-terminated, and `depth` addresses.
    let (message, trace) = unsafe {
        let trace = match panic.depth {
            0 => &[],
            depth => slice::from_raw_parts(panic.trace, depth as usize),
        };
        (
            CStr::from_ptr(panic.message).to_string_lossy().into_owned(),
            trace.to_vec(),
        )
    };
    // The first one is the cause.
    host.panic
        .borrow_mut()
        .get_or_insert(LastWords { message, trace });
}

unsafe extern "C" fn user_read(
    _: *mut c_void,
    space: u64,
    dst: *mut c_void,
    src: u64,
    len: u64,
) -> u64 {
    // SAFETY: the image gives a buffer of `len` bytes.
    unsafe { user::copy(Way::Read, space, dst, src, len) }
}

unsafe extern "C" fn user_write(
    _: *mut c_void,
    space: u64,
    dst: u64,
    src: *const c_void,
    len: u64,
) -> u64 {
    // SAFETY: the image gives a buffer of `len` bytes, which is only read.
    unsafe { user::copy(Way::Write, space, src.cast_mut(), dst, len) }
}

unsafe extern "C" fn done(this: *mut c_void, call: *mut vink_abi::Call) {
    // SAFETY: called by the image, with a call that it was given.
    let (host, task) = unsafe { (host(this), TaskId((*call).cookie)) };
    if task != TaskId::CONTROL && host.awaited.get() != Some(task) {
        host.events.borrow_mut().push_back(Event::Done(task));
    }
}

unsafe extern "C" fn ready(this: *mut c_void, cookie: u64, events: u32) {
    // SAFETY: called by the image.
    unsafe { host(this) }
        .events
        .borrow_mut()
        .push_back(Event::Ready { cookie, events });
}

unsafe extern "C" fn gone(this: *mut c_void, _: u64, cookie: u64, status: c_int) {
    // SAFETY: called by the image.
    let host = unsafe { host(this) };
    let task = TaskId(cookie);
    host.gone.borrow_mut().push(task);
    host.events
        .borrow_mut()
        .push_back(Event::Gone { task, status });
}

unsafe extern "C" fn release(_: *mut c_void, start: *mut c_void, len: u64) {
    // SAFETY: the image owns the arena and wants these bytes no more.
    unsafe { libc::madvise(start, len as usize, libc::MADV_DONTNEED) };
}

unsafe extern "C" fn packet(this: *mut c_void, packet: *const vink_abi::Packet) {
    // SAFETY: called by the image, with a valid record.
    unsafe { host(this).packets.borrow_mut().push(&*packet) };
}

unsafe extern "C" fn bell(this: *mut c_void, cookie: u64, spoiled: u32) {
    // SAFETY: called by the image.
    let host = unsafe { host(this) };
    host.shares.borrow_mut().bell(cookie, spoiled != 0);
}

unsafe extern "C" fn verdict(
    this: *mut c_void,
    packet: *const vink_abi::Packet,
    to: *mut vink_abi::Verdict,
) {
    // SAFETY: called by the image, with valid records.
    unsafe {
        let host = host(this);
        *to = host.verdicts.borrow_mut().ask(&*packet, &host.arena);
    }
}

unsafe extern "C" fn probe_real(this: *mut c_void, cookie: u64, args: *const u64) {
    // SAFETY: called by the image.
    unsafe { host(this).probed(host(this).real_time(), cookie, args) };
}

unsafe extern "C" fn probe_virtual(this: *mut c_void, cookie: u64, args: *const u64) {
    // SAFETY: called by the image.
    unsafe { host(this).probed(host(this).now.get(), cookie, args) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_newest_lines() {
        let mut log = String::new();
        let line = "é".repeat(50) + "\n";
        for _ in 0..3 * LOG_BYTES / line.len() {
            remember(&mut log, &line);
        }
        remember(&mut log, "the last\n");
        assert!(log.len() < 2 * LOG_BYTES);
        assert!(log.starts_with(&line) && log.ends_with("the last\n"));
    }
}
