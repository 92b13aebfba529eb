//! Every export of abi.h with every error that it promises, by a host that knows no safe API.

mod common;

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use libc::{
    EALREADY, EBADF, EBUSY, EEXIST, EINTR, EINVAL, ENODEV, ENOENT, ENOMEM, ENOSYS, EOPNOTSUPP,
    EPERM, EPROTO, ESRCH,
};
use vink_abi::*;
use vink_sys::mapping::Mapping;

use common::{at, at_mut};

/// A freshly loaded image and what it has told.
struct Raw {
    handle: *mut c_void,
    arena: Mapping,
    told: Rc<Told>,
    call: Box<Cell<Call>>,
}

#[derive(Default)]
struct Told {
    done: RefCell<Vec<u64>>,
    gone: RefCell<Vec<(u64, u64, c_int)>>,
    lines: RefCell<String>,
    panicked: Cell<bool>,
}

const ARENA: u64 = 32 << 20;

thread_local! {
    /// Of the test's one image.
    static TOLD: Rc<Told> = Rc::default();
}

fn told(host: *mut c_void) -> Rc<Told> {
    let told = TOLD.with(Rc::clone);
    assert_eq!(Rc::as_ptr(&told), host.cast_const().cast());
    told
}

extern "C" fn clock(_: *mut c_void) -> u64 {
    vink_kernel::monotonic()
}

unsafe extern "C" fn console(host: *mut c_void, text: *const c_char, len: u64) {
    // SAFETY: the image gives `len` bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len as usize) };
    told(host)
        .lines
        .borrow_mut()
        .push_str(&String::from_utf8_lossy(text));
}

extern "C" fn panic(host: *mut c_void, _: *const Panic) {
    told(host).panicked.set(true);
}

extern "C" fn user_read(_: *mut c_void, _: u64, _: *mut c_void, _: u64, _: u64) -> u64 {
    0
}

extern "C" fn user_write(_: *mut c_void, _: u64, _: u64, _: *const c_void, _: u64) -> u64 {
    0
}

unsafe extern "C" fn done(host: *mut c_void, call: *mut Call) {
    // SAFETY: called by the image with a call that it was given.
    let cookie = unsafe { (*call).cookie };
    told(host).done.borrow_mut().push(cookie);
}

extern "C" fn ready(_: *mut c_void, _: u64, _: u32) {}

extern "C" fn gone(host: *mut c_void, task: u64, cookie: u64, status: c_int) {
    told(host).gone.borrow_mut().push((task, cookie, status));
}

static OPS: Ops = Ops {
    clock: Some(clock),
    console: Some(console),
    panic: Some(panic),
    user_read: Some(user_read),
    user_write: Some(user_write),
    done: Some(done),
    ready: Some(ready),
    gone: Some(gone),
    // May be null, says abi.h.
    release: None,
    packet: None,
    probe: None,
    bell: None,
    verdict: None,
    put: None,
    flight: None,
};

macro_rules! export {
    ($name:ident, $kind:ty, ($($arg:ident: $type:ty),* $(; $($fixed:literal),+)?) -> $result:ty) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            let name = concat!("vink_", stringify!($name), "\0");
            // SAFETY: the image is loaded; abi.h says that the symbol is this function, and the
            // test, which is the only thread in it, gives valid pointers.
            unsafe {
                let address = libc::dlsym(self.handle, name.as_ptr().cast());
                assert!(!address.is_null(), "the image has no {name}");
                std::mem::transmute::<*mut c_void, $kind>(address)($($arg),* $(, $($fixed),+)?)
            }
        }
    };
}

impl Raw {
    export!(info, InfoFn, () -> *const Info);
    export!(boot, BootFn, (boot: *const Boot) -> c_int);
    export!(run, RunFn, (deadline: *mut u64) -> c_int);
    export!(call_start, CallStartFn, (task: u64, call: *mut Call) -> c_int);
    export!(call_cancel, CallCancelFn, (task: u64) -> c_int);
    export!(fault, FaultFn, (fault: *mut Fault) -> c_int);
    export!(counters, CountersFn, (counters: *mut Counters) -> c_int);
    export!(fiber_call, FiberCallFn, (nr: u64; 0, 0, 0, 0, 0, 0) -> i64);

    fn load() -> Raw {
        let path = common::image().path().as_os_str().as_bytes().to_owned();
        let path = CString::new(path).expect("a path");
        // SAFETY: a terminated string; the image has no constructors.
        let handle = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Raw {
            handle,
            arena: Mapping::new((ARENA + VINK_ARENA_ALIGN) as usize).expect("an arena"),
            told: TOLD.with(Rc::clone),
            call: Box::default(),
        }
    }

    fn boot_params(&self) -> Boot {
        Boot {
            abi_version: VINK_ABI_VERSION,
            size: size_of::<Boot>() as u32,
            ops: &OPS,
            host: Rc::as_ptr(&self.told).cast_mut().cast(),
            arena: (self.arena.start() as u64).next_multiple_of(VINK_ARENA_ALIGN) as *mut c_void,
            arena_size: ARENA,
            cmdline: c"".as_ptr(),
            seed: [7; 32],
            realtime: 1,
        }
    }

    fn booted() -> Raw {
        let raw = Raw::load();
        let params = raw.boot_params();
        assert_eq!(raw.boot(&params), 0, "{}", raw.told.lines.borrow());
        raw
    }

    /// Starts a call; its memory is this Raw's.
    fn start(&mut self, task: u64, nr: i64, args: &[u64]) -> c_int {
        assert_ne!(self.state(), VINK_CALL_RUNNING);
        let args = common::six(args);
        self.call.set(Call {
            nr: nr as u32,
            args,
            cookie: 77,
            ..Call::default()
        });
        self.call_start(task, self.call.as_ptr())
    }

    fn state(&self) -> u32 {
        self.call.get().state
    }

    /// A call that ends at once.
    fn call(&mut self, task: u64, nr: i64, args: &[u64]) -> i64 {
        assert_eq!(self.start(task, nr, args), 0);
        assert_eq!(self.state(), VINK_CALL_RUNNING);
        let mut deadline = 0;
        assert_eq!(self.run(&mut deadline), 0);
        assert_eq!(self.state(), VINK_CALL_DONE, "call {nr}");
        let mut done = self.told.done.borrow_mut();
        let own = done.iter().position(|cookie| *cookie == 77);
        done.remove(own.expect("it is told"));
        self.call.get().result
    }

    fn control(&mut self, nr: u32, args: &[u64]) -> i64 {
        self.call(VINK_TASK_CONTROL, nr.into(), args)
    }

    fn remote_task(&mut self, machine: u64, cookie: u64) -> i64 {
        let params = TaskParams {
            cookie,
            entry: None,
            arg: null_mut(),
            stack_top: null_mut(),
            drop: 0,
            uid: 0,
            gid: 0,
        };
        self.control(VINK_CALL_TASK_CREATE, &[machine, at(&params)])
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: this Raw's own, and not run again.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn error(errno: i32) -> i64 {
    -i64::from(errno)
}

#[test]
fn info_is_there_before_and_after_boot() {
    let raw = Raw::load();
    let params = raw.boot_params();
    for _ in 0..2 {
        // SAFETY: constant for the image's life, with a terminated string.
        let (info, release) = unsafe {
            let info = &*raw.info();
            (info, CStr::from_ptr(info.release))
        };
        assert_eq!(
            (info.abi_version, info.size),
            (VINK_ABI_VERSION, size_of::<Info>() as u32)
        );
        assert!(info.text_start < info.text_end);
        assert!(release.to_bytes().starts_with(b"6."), "{release:?}");
        raw.boot(&params);
    }
}

#[test]
fn nothing_works_before_boot() {
    let mut raw = Raw::load();
    let mut deadline = 0;
    assert_eq!(raw.run(&mut deadline), -EINVAL);
    assert_eq!(raw.counters(&mut Counters::default()), -EINVAL);
    assert_eq!(raw.start(VINK_TASK_CONTROL, libc::SYS_getpid, &[]), -ESRCH);
    assert_eq!(raw.call_cancel(VINK_TASK_CONTROL), -ESRCH);
}

#[test]
fn boot_refuses_what_it_must_and_then_boots_once() {
    let raw = Raw::load();
    let good = raw.boot_params();
    let half_ops = Ops { done: None, ..OPS };
    let off = good.arena.wrapping_byte_add(4096);
    for (what, boot, errno) in [
        (
            "version",
            Boot {
                abi_version: VINK_ABI_VERSION + 1,
                ..good
            },
            EPROTO,
        ),
        (
            "size",
            Boot {
                size: good.size - 8,
                ..good
            },
            EPROTO,
        ),
        ("alignment", Boot { arena: off, ..good }, EINVAL),
        (
            "no arena",
            Boot {
                arena: null_mut(),
                ..good
            },
            EINVAL,
        ),
        (
            "odd size",
            Boot {
                arena_size: ARENA - 4096,
                ..good
            },
            EINVAL,
        ),
        (
            "no ops",
            Boot {
                ops: null(),
                ..good
            },
            EINVAL,
        ),
        (
            "an op is missing",
            Boot {
                ops: &half_ops,
                ..good
            },
            EINVAL,
        ),
        (
            "small arena",
            Boot {
                arena_size: VINK_ARENA_MIN - VINK_ARENA_ALIGN,
                ..good
            },
            ENOMEM,
        ),
    ] {
        assert_eq!(raw.boot(&boot), -errno, "{what}");
    }
    assert_eq!(raw.boot(&good), 0);
    assert_eq!(raw.boot(&good), -EALREADY);
    assert!(
        raw.told.lines.borrow().contains("Linux version"),
        "the console speaks"
    );
    assert!(!raw.told.panicked.get());
}

#[test]
fn the_smallest_arena_boots() {
    let raw = Raw::load();
    let boot = Boot {
        arena_size: VINK_ARENA_MIN,
        ..raw.boot_params()
    };
    assert_eq!(raw.boot(&boot), 0, "{}", raw.told.lines.borrow());
}

#[test]
fn unknown_tasks_busy_tasks_and_cancels() {
    let mut raw = Raw::booted();
    for task in [0, 999, u64::MAX, 1 << 32 | VINK_TASK_CONTROL] {
        assert_eq!(raw.start(task, libc::SYS_getpid, &[]), -ESRCH, "{task}");
        assert_eq!(raw.call_cancel(task), -ESRCH, "{task}");
    }
    let task = raw.remote_task(0, 5) as u64;
    assert!(task > VINK_TASK_CONTROL);
    assert_eq!(raw.call_cancel(task), -ENOENT);

    // One that waits: busy, then cancelled.
    assert_eq!(raw.start(task, libc::SYS_pause, &[]), 0);
    let mut deadline = 0;
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(raw.state(), VINK_CALL_RUNNING);
    let mut second = Call::default();
    assert_eq!(raw.call_start(task, &mut second), -EBUSY);
    assert_eq!(raw.call_cancel(task), 0);
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(
        (raw.state(), raw.call.get().result),
        (VINK_CALL_DONE, error(EINTR))
    );
    assert_eq!(raw.told.done.borrow_mut().pop(), Some(77));

    // One that is cancelled before it began; and the cancel doesn't reach the next call.
    assert_eq!(raw.start(task, libc::SYS_pause, &[]), 0);
    assert_eq!(raw.call_cancel(task), 0);
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(
        (raw.state(), raw.call.get().result),
        (VINK_CALL_DONE, error(EINTR))
    );
    raw.told.done.borrow_mut().clear();
    let mut pipe = [0u32; 2];
    assert_eq!(raw.call(task, libc::SYS_pipe2, &[at_mut(&mut pipe), 0]), 0);
    assert_eq!(
        raw.start(
            task,
            libc::SYS_read,
            &[pipe[0].into(), at_mut(&mut pipe), 1]
        ),
        0
    );
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(raw.state(), VINK_CALL_RUNNING);
    assert_eq!(raw.call_cancel(task), 0);
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(raw.call.get().result, error(EINTR));
    assert_ne!(
        raw.call.get().flags & VINK_FLAG_RESTART,
        0,
        "a read may be restarted"
    );
}

/// The packet sockets of Linux 2.0, which libc calls deprecated.
const SOCK_PACKET: i32 = 10;

fn ring_calls_and_their_errors(raw: &mut Raw, task: u64) {
    let [map, unmap, poll] = [
        VINK_CALL_RING_MAP.into(),
        VINK_CALL_RING_UNMAP.into(),
        VINK_CALL_RING_POLL.into(),
    ];
    let mut blocks = [Block {
        start: null_mut(),
        len: 0,
    }; 3];
    let into = blocks.as_mut_ptr() as u64;
    let socket = |raw: &mut Raw, family: i32, kind: i32| {
        let args = [family as u64, kind as u64, 0];
        raw.call(task, libc::SYS_socket, &args) as u64
    };
    let udp = socket(raw, libc::AF_INET, libc::SOCK_DGRAM);
    let old = socket(raw, libc::AF_INET, SOCK_PACKET);
    let packet = socket(raw, libc::AF_PACKET, libc::SOCK_RAW);
    for (fd, errno) in [(99, EBADF), (udp, ENODEV), (old, ENODEV), (packet, EINVAL)] {
        assert_eq!(raw.call(task, map, &[fd, 5, into, 3]), error(errno));
    }
    for (option, frames) in [(libc::PACKET_RX_RING, 8), (libc::PACKET_TX_RING, 4)] {
        let request = [8192u32, frames / 4, 2048, frames];
        let args = [packet, 263, option as u64, at(&request), 16];
        assert_eq!(raw.call(task, libc::SYS_setsockopt, &args), 0);
    }
    assert_eq!(raw.call(task, map, &[packet, 5, into, 2]), 3);
    assert_eq!(raw.call(task, poll, &[5]), error(ENOENT));
    assert_eq!(raw.call(task, map, &[packet, 5, into, 3]), 3);
    for block in &blocks {
        let start = block.start as u64 - raw.arena.start() as u64;
        assert_eq!(start % 4096, 0);
        assert!(start < ARENA + VINK_ARENA_ALIGN);
        assert_eq!(block.len, 8192);
    }
    let none = [0u32; 4];
    let args = [packet, 263, libc::PACKET_RX_RING as u64, at(&none), 16];
    assert_eq!(raw.call(task, libc::SYS_setsockopt, &args), error(EBUSY));
    let out = i64::from(libc::EPOLLOUT);
    assert_eq!(raw.call(task, poll, &[5]) & (out | 1), out);
    for fd in [udp, old, packet] {
        assert_eq!(raw.call(task, libc::SYS_close, &[fd]), 0);
    }
    let sockets = |raw: &Raw| {
        let mut counters = Counters::default();
        assert_eq!(raw.counters(&mut counters), 0);
        counters.sockets
    };
    let open = sockets(raw);
    assert_eq!(raw.control(VINK_CALL_RING_UNMAP, &[5]), 0);
    assert_eq!(sockets(raw), open - 1, "the mapping held it");
    assert_eq!(raw.call(task, unmap, &[5]), error(ENOENT));
}

fn wire_calls_and_their_errors(raw: &mut Raw, machine: u64) {
    let (vx0, vx1) = (c"vx0".as_ptr() as u64, c"vx1".as_ptr() as u64);
    let create = VINK_CALL_WIRE_CREATE;
    assert_eq!(raw.control(create, &[2]), error(EINVAL));
    let wire = raw.control(create, &[0]) as u64;
    let other = raw.control(create, &[VINK_WIRE_BUS]) as u64;
    assert!(wire > 0 && other > 0 && wire != other);

    let attach = VINK_CALL_WIRE_ATTACH;
    let (group, own) = ([1u8, 0, 0, 0, 0, 0], [2u8, 0, 0, 0, 0, 1]);
    let long = c"sixteen-letters!".as_ptr() as u64;
    assert_eq!(raw.control(attach, &[99, machine, vx0]), error(ESRCH));
    assert_eq!(raw.control(attach, &[wire, 99, vx0]), error(ESRCH));
    assert_eq!(raw.control(attach, &[wire, machine, long]), error(EINVAL));
    let args = [wire, machine, vx0, at(&group)];
    assert_eq!(raw.control(attach, &args), error(EINVAL));
    for mtu in [67, 65536] {
        let args = [wire, machine, vx0, at(&own), mtu];
        assert_eq!(raw.control(attach, &args), error(EINVAL));
    }
    let args = [wire, machine, vx0, at(&own), 9000];
    let end = raw.control(attach, &args) as u64;
    assert_eq!(raw.control(attach, &[wire, machine, vx0]), error(EEXIST));
    let far = raw.control(attach, &[wire, machine, vx1]) as u64;
    let vx2 = c"vx2".as_ptr() as u64;
    assert_eq!(raw.control(attach, &[wire, machine, vx2]), error(EBUSY));

    let set = VINK_CALL_WIRE_SET;
    let ideal = WireSettings::default();
    let rate = u64::MAX;
    let day = 24 * 3600 * 1_000_000_000;
    let wrong = [
        WireSettings { rate, ..ideal },
        WireSettings {
            delay: day + 1,
            ..ideal
        },
        WireSettings {
            jitter: day + 1,
            ..ideal
        },
        WireSettings { flags: 4, ..ideal },
        WireSettings {
            reserved: 1,
            ..ideal
        },
    ];
    for settings in &wrong {
        let result = raw.control(set, &[wire, 0, at(settings)]);
        assert_eq!(result, error(EINVAL), "{settings:?}");
    }
    assert_eq!(raw.control(set, &[99, 0, at(&ideal)]), error(ESRCH));
    assert_eq!(raw.control(set, &[other, end, at(&ideal)]), error(ESRCH));
    for end in [0, end] {
        assert_eq!(raw.control(set, &[wire, end, at(&ideal)]), 0);
    }

    assert_eq!(raw.control(VINK_CALL_WIRE_STATE, &[99, 1]), error(ESRCH));
    assert_eq!(raw.control(VINK_CALL_WIRE_STATE, &[wire, 0]), 0);
    let mut stats = WireStats::default();
    let into = (&raw mut stats) as u64;
    assert_eq!(raw.control(VINK_CALL_WIRE_STATS, &[99, into]), error(ESRCH));
    assert_eq!(raw.control(VINK_CALL_WIRE_STATS, &[end, into]), 0);
    assert_eq!(stats, WireStats::default());
    let trace = VINK_CALL_WIRE_TRACE;
    assert_eq!(raw.control(trace, &[99, 0, 0]), error(ESRCH));
    assert_eq!(raw.control(trace, &[end, 2048, 0]), error(EINVAL));
    assert_eq!(raw.control(trace, &[end, 1, 65536]), error(EINVAL));
    for mask in [
        1,
        u64::from(VINK_ASK_DEPARTURE),
        u64::from(VINK_PACKET_FLIGHT),
    ] {
        let none = raw.control(trace, &[end, mask, 100]);
        assert_eq!(none, error(EOPNOTSUPP), "this host has no op for it");
    }
    assert_eq!(raw.control(VINK_CALL_WIRE_RELEASE, &[99]), error(ESRCH));
    assert_eq!(raw.control(VINK_CALL_WIRE_RELEASE, &[end]), 0);
    assert_eq!(raw.control(VINK_CALL_WIRE_PUT, &[]), error(EOPNOTSUPP));
    assert_eq!(raw.control(trace, &[end, 0, 0]), 0);

    assert_eq!(raw.control(VINK_CALL_WIRE_DETACH, &[far]), 0);
    assert_eq!(raw.control(VINK_CALL_WIRE_DETACH, &[far]), error(ESRCH));
    for wire in [wire, other] {
        assert_eq!(raw.control(VINK_CALL_WIRE_DESTROY, &[wire]), 0);
        assert_eq!(raw.control(VINK_CALL_WIRE_DESTROY, &[wire]), error(ESRCH));
    }
    assert_eq!(raw.control(VINK_CALL_WIRE_DETACH, &[end]), error(ESRCH));
}

#[test]
fn control_calls_and_their_errors() {
    let mut raw = Raw::booted();
    let name = "bob".repeat(30);
    let name = |len: u64| [at(name.as_str()), len];
    assert_eq!(
        raw.control(VINK_CALL_MACHINE_CREATE, &name(0)),
        error(EINVAL)
    );
    assert_eq!(
        raw.control(VINK_CALL_MACHINE_CREATE, &name(65)),
        error(EINVAL)
    );
    let machine = raw.control(VINK_CALL_MACHINE_CREATE, &name(64)) as u64;
    assert!((1..1000).contains(&machine));

    let task = raw.remote_task(machine, 41) as u64;
    assert_eq!(raw.remote_task(machine + 1, 0), error(ESRCH));
    assert_eq!(
        raw.control(VINK_CALL_MACHINE_FD, &[machine + 1]),
        error(ESRCH)
    );
    let fd = raw.call(task, VINK_CALL_MACHINE_FD.into(), &[machine]);
    assert!(fd >= 0);
    assert_eq!(raw.call(task, VINK_CALL_POLL.into(), &[99]), error(EBADF));
    assert_eq!(
        raw.call(task, VINK_CALL_WATCH.into(), &[99, 1, 1]),
        error(EBADF)
    );
    assert_eq!(raw.call(task, VINK_CALL_TEST.into(), &[99]), error(EINVAL));
    ring_calls_and_their_errors(&mut raw, task);
    wire_calls_and_their_errors(&mut raw, machine);
    assert_eq!(
        raw.call(task, VINK_CALL_TASK_CLONE.into(), &[1 << 20, 1]),
        error(EINVAL)
    );
    assert_eq!(raw.call(task, VINK_CALL_END.into(), &[]), error(ENOSYS));
    assert_eq!(raw.call(task, 0x7fff, &[]), error(ENOSYS));
    assert_eq!(raw.call(task, 0xffff_ffff, &[]), error(ENOSYS));
    for nr in [
        VINK_CALL_MACHINE_CREATE,
        VINK_CALL_MACHINE_DESTROY,
        VINK_CALL_TASK_CREATE,
        VINK_CALL_WIRE_CREATE,
        VINK_CALL_WIRE_TRACE,
        VINK_CALL_WIRE_RELEASE,
        VINK_CALL_WIRE_PUT,
        VINK_CALL_WIRE_COUNTS,
    ] {
        assert_eq!(
            raw.call(task, nr.into(), &[1, 1]),
            error(EPERM),
            "only the control task: {nr}"
        );
    }

    let mut counters = Counters::default();
    assert_eq!(raw.counters(&mut counters), 0);
    assert_eq!((counters.tasks, counters.machines), (1, 1));
    assert!(counters.free_pages > 0 && counters.free_pages < counters.arena_pages);
    assert!(counters.arena_pages <= ARENA / 4096);

    let clone = raw.call(task, VINK_CALL_TASK_CLONE.into(), &[0, 42]) as u64;
    for (task, cookie, status) in [(clone, 42, 0x300), (task, 41, 9)] {
        assert_eq!(raw.start(task, VINK_CALL_TASK_EXIT.into(), &[status, 1]), 0);
        let mut deadline = 0;
        assert_eq!(raw.run(&mut deadline), 0);
        assert_eq!(
            raw.told.gone.borrow_mut().pop(),
            Some((task, cookie, status as c_int))
        );
        assert!(raw.told.done.borrow().is_empty(), "an exit is never done");
        assert_eq!(raw.start(task, libc::SYS_getpid, &[]), -ESRCH);
    }
    assert_eq!(raw.control(VINK_CALL_MACHINE_DESTROY, &[machine]), 0);
    assert_eq!(
        raw.control(VINK_CALL_MACHINE_DESTROY, &[machine]),
        error(ESRCH)
    );
    assert_eq!(raw.counters(&mut counters), 0);
    assert_eq!((counters.tasks, counters.machines), (0, 0));
}

/// What a fiber sees when it does what only the host may.
#[derive(Default)]
struct FromFiber {
    raw: Cell<Option<*const Raw>>,
    own_id: Cell<u64>,
    run: Cell<c_int>,
    start_own: Cell<c_int>,
    start_control: Cell<c_int>,
    cancel: Cell<c_int>,
    pid: Cell<i64>,
}

unsafe extern "C" fn fiber(arg: *mut c_void) -> c_int {
    // SAFETY: the test gives both and waits for the fiber's end.
    let (seen, raw) = unsafe {
        let seen = &*arg.cast::<FromFiber>();
        (seen, &*seen.raw.get().expect("the image"))
    };
    let mut call = Call {
        nr: libc::SYS_getpid as u32,
        cookie: 78,
        ..Call::default()
    };
    let mut deadline = 0;
    seen.run.set(raw.run(&mut deadline));
    seen.pid.set(raw.fiber_call(libc::SYS_getpid as u64));
    seen.cancel.set(raw.call_cancel(VINK_TASK_CONTROL));
    // The first task made is number 2.
    seen.start_own
        .set(raw.call_start(seen.own_id.get(), &mut call));
    // Runs while this fiber waits: its memory is here until then.
    seen.start_control
        .set(raw.call_start(VINK_TASK_CONTROL, &mut call));
    raw.fiber_call(libc::SYS_sched_yield as u64);
    assert_eq!(call.state, VINK_CALL_DONE);
    33
}

#[test]
fn what_a_fiber_may_and_may_not_do() {
    let mut raw = Raw::booted();
    let mut stack = vec![0u128; 16 << 10];
    let seen = Box::new(FromFiber {
        own_id: Cell::new(2),
        ..FromFiber::default()
    });
    seen.raw.set(Some(&raw));
    let params = TaskParams {
        cookie: 9,
        entry: Some(fiber),
        arg: (&raw const *seen).cast_mut().cast(),
        stack_top: stack.as_mut_ptr_range().end.cast(),
        drop: 0,
        uid: 0,
        gid: 0,
    };
    assert_eq!(raw.control(VINK_CALL_TASK_CREATE, &[0, at(&params)]), 2);
    let mut deadline = 0;
    assert_eq!(raw.run(&mut deadline), 0);
    assert_eq!(raw.told.gone.borrow_mut().pop(), Some((2, 9, 33 << 8)));
    assert_eq!(raw.told.done.borrow_mut().pop(), Some(78));
    assert_eq!(seen.run.get(), -EBUSY);
    assert_eq!(seen.start_own.get(), -EBUSY);
    assert_eq!(seen.start_control.get(), 0);
    assert_eq!(seen.cancel.get(), -ENOENT);
    assert!(seen.pid.get() > 0);
}

#[test]
fn faults_that_are_not_the_images_are_left_alone() {
    let raw = Raw::booted();
    let mut fault = Fault {
        rip: 8,
        rsp: 16,
        signal: 11,
        ..Fault::default()
    };
    assert_eq!(raw.fault(&mut fault), 0);
    assert_eq!((fault.rip, fault.rsp), (8, 16));
}

#[test]
fn after_a_panic_everything_says_dead() {
    let mut raw = Raw::booted();
    let task = raw.remote_task(0, 0) as u64;
    // The only one that needs no fault handler: endless recursion is found by the scheduler.
    assert_eq!(
        raw.start(task, VINK_CALL_TEST.into(), &[VINK_TEST_STACK]),
        0
    );
    let mut deadline = 0;
    assert_eq!(raw.run(&mut deadline), VINK_DEAD);
    assert!(raw.told.panicked.get());
    assert_eq!(raw.run(&mut deadline), VINK_DEAD);
    assert_eq!(raw.call_start(task, &mut Call::default()), VINK_DEAD);
    assert_eq!(raw.call_cancel(task), VINK_DEAD);
    assert!(!raw.info().is_null());
}
