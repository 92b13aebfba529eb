//! What a kernel asks of its host (`struct vink_ops`), and what is remembered of the answers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use vink_abi::{Ops, VINK_VERDICT_TAKE};

use crate::arena::Arena;
use crate::clock::{stopped, Clock};
use crate::counter::Counter;
use crate::flight::Flights;
use crate::probe::Probes;
use crate::put::Puts;
use crate::shared::Shares;
use crate::task::{Event, TaskId};
use crate::user;
use crate::verdict::Verdicts;
use crate::wire::PacketQueue;
use crate::PacketQuery;

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
    /// Which one the kernel lives by.
    pub clock: Clock,
    /// The real clock.
    counter: Counter,
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
    /// The callback that hears of flights.
    pub flights: RefCell<Flights>,
    /// Frames of the host's.
    pub puts: RefCell<Puts>,
    /// What the kernel has passed.
    pub probes: RefCell<Probes>,
    /// Ends that lead to other processes.
    pub shares: RefCell<Shares>,
    /// The kernel's memory.
    pub arena: Arena,
    pub log: RefCell<String>,
    pub console: RefCell<Option<Console>>,
}

impl Host {
    pub fn new(clock: Clock, arena: Arena, console: Option<Console>) -> Host {
        Host {
            clock,
            arena,
            console: console.into(),
            ..Host::default()
        }
    }

    /// The kernel's clock, ns.
    #[inline]
    pub fn time(&self) -> u64 {
        match self.clock {
            Clock::Real => self.counter.now() - stopped(),
            Clock::Virtual => self.now.get(),
        }
    }

    /// A task is gone, with this status.
    pub fn task_gone(&self, task: TaskId, status: i32) {
        self.gone.borrow_mut().push(task);
        self.tell(Event::Gone { task, status });
    }

    fn tell(&self, event: Event) {
        self.events.borrow_mut().push_back(event);
    }
}

/// A panic as the image reports it.
pub(crate) struct LastWords {
    pub message: String,
    pub trace: Vec<u64>,
}

/// What an image is given.
pub(crate) static OPS: Ops = Ops {
    clock: Some(clock),
    console: Some(console),
    panic: Some(panic),
    user_read: Some(user_read),
    user_write: Some(user_write),
    done: Some(done),
    ready: Some(ready),
    gone: Some(gone),
    release: Some(release),
    packet: Some(packet),
    probe: Some(probe),
    bell: Some(bell),
    verdict: Some(verdict),
    put: Some(put),
    flight: Some(flight),
};

/// So many of them, which need not be anywhere if there are none.
///
/// # Safety
/// As of [`std::slice::from_raw_parts`].
pub(crate) unsafe fn slice<'a, T>(start: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: by contract.
        _ => unsafe { std::slice::from_raw_parts(start, len) },
    }
}

/// Makes ops, which the image calls with a pointer, of functions of the Host that is there.
macro_rules! ops {
    ($(fn $op:ident($host:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)? $body:block)*) => {$(
        unsafe extern "C" fn $op(host: *mut c_void $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: the image passes what Kernel::boot() gave it: a Host that outlives it, and is
            // only ever shared.
            let $host = unsafe { &*host.cast::<Host>() };
            $body
        }
    )*};
}

ops! {
    fn clock(host) -> u64 {
        host.time()
    }

    fn console(host, text: *const c_char, len: u64) {
        // SAFETY: the image gives so many bytes.
        let text = String::from_utf8_lossy(unsafe { slice(text.cast(), len as usize) });
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

    fn panic(host, panic: *const vink_abi::Panic) {
        // SAFETY: the image gives a record, a terminated string and so many addresses.
        let (message, trace) = unsafe {
            let panic = &*panic;
            (CStr::from_ptr(panic.message), slice(panic.trace, panic.depth as usize))
        };
        // The first one is the cause.
        host.panic.borrow_mut().get_or_insert_with(|| LastWords {
            message: message.to_string_lossy().into_owned(),
            trace: trace.to_vec(),
        });
    }

    fn user_read(_host, space: u64, dst: *mut c_void, src: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        // SAFETY: the image gives room for so many bytes.
        let into = unsafe { std::slice::from_raw_parts_mut(dst.cast(), len as usize) };
        user::read(space, src, into) as u64
    }

    fn user_write(_host, space: u64, dst: u64, src: *const c_void, len: u64) -> u64 {
        // SAFETY: the image gives so many bytes.
        user::write(space, dst, unsafe { slice(src.cast(), len as usize) }) as u64
    }

    fn done(host, call: *mut vink_abi::Call) {
        // SAFETY: the image gives back a call that it was given.
        let task = TaskId(unsafe { (*call).cookie });
        if task != TaskId::CONTROL && host.awaited.get() != Some(task) {
            host.tell(Event::Done(task));
        }
    }

    fn ready(host, cookie: u64, events: u32) {
        host.tell(Event::Ready { cookie, events });
    }

    fn gone(host, _task: u64, cookie: u64, status: c_int) {
        host.task_gone(TaskId(cookie), status);
    }

    fn release(host, start: *mut c_void, len: u64) {
        host.arena.release(start, len as usize);
    }

    fn packet(host, packet: *const vink_abi::Packet) {
        // SAFETY: the image gives a record, and waits.
        let packet = unsafe { PacketQuery::new(&*packet, &host.arena) };
        host.packets.borrow_mut().push(packet);
    }

    fn flight(host, flight: *const vink_abi::Flight) {
        // SAFETY: the image gives a record, and waits.
        unsafe { host.flights.borrow_mut().tell(&*flight) };
    }

    fn bell(host, cookie: u64, spoiled: u32) {
        host.shares.borrow_mut().bell(cookie, spoiled != 0);
    }

    fn verdict(host, packet: *const vink_abi::Packet, to: *mut vink_abi::Verdict) {
        // SAFETY: the image gives records, of which it reads the second, and waits.
        let (packet, to) = unsafe { (PacketQuery::new(&*packet, &host.arena), &mut *to) };
        *to = host.verdicts.borrow_mut().ask(&packet);
        if to.flags & VINK_VERDICT_TAKE != 0 {
            host.puts.borrow_mut().has_taken();
        }
    }

    fn put(host, to: *mut vink_abi::Put) -> c_int {
        match host.puts.borrow_mut().next() {
            Some(put) => {
                // SAFETY: the image gives room for one.
                unsafe { to.write(put) };
                1
            }
            None => 0,
        }
    }

    fn probe(host, cookie: u64, args: *const u64) {
        // SAFETY: the image gives three numbers.
        let args = unsafe { *args.cast::<[u64; 3]>() };
        host.probes.borrow_mut().pass(host.time(), cookie, args, &host.arena);
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
