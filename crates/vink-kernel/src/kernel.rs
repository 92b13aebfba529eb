//! One running instance of an image, and everything that can be asked of it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::mem::{forget, take};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{EBUSY, EINVAL, ENOENT, ESRCH};
use vink_abi::{
    Boot, Counters, TaskParams, VINK_ABI_VERSION, VINK_CALL_BASE, VINK_CALL_MACHINE_CREATE,
    VINK_CALL_MACHINE_DESTROY, VINK_CALL_RING_MAP, VINK_CALL_RING_UNMAP, VINK_CALL_TASK_CLONE,
    VINK_CALL_TASK_CREATE, VINK_CALL_TASK_EXIT, VINK_CLONE_FILES, VINK_CLONE_THREAD, VINK_DEAD,
    VINK_NEVER, VINK_TASK_CONTROL,
};
use vink_sys::rustix::rand::{getrandom, GetRandomFlags};

use crate::arena::Arena;
use crate::clock::{monotonic_epoch, sleep_until, stopped, Clock};
use crate::fault::{self, Registration};
use crate::fiber::{Fiber, Launch};
use crate::host::{Console, Host, OPS};
use crate::image::Image;
use crate::panic::{Frame, Panic};
use crate::probe::Probes;
use crate::ring::{Ring, RingId};
use crate::slot::{Remote, Slot, Slots, State};
use crate::symbols::{describe, Address};
use crate::task::{Call, CloneKind, Event, MachineId, Outcome, TaskId};
use crate::user;
use crate::wire::{EndId, PacketQueue};
use crate::{Credentials, Error};

/// The date at which a virtual clock starts, so that runs repeat: 2025-01-01 00:00 UTC in ns.
const VIRTUAL_EPOCH: u64 = 1_735_689_600_000_000_000;

/// The time that a task has run goes into the image's random numbers when it ends: see its
/// `time.c`.
const EXACT_SCHED_CLOCK: &str = " vink_exact_sched_clock";

/// For how long a call of the control task may sleep, in ns, before it is given up: only locks of
/// the kernel's own keep it waiting, and the thread that waits for it serves nothing meanwhile.
const CONTROL_CALL_TIMEOUT: u64 = 10_000_000_000;

/// As often packets that were taken are replaced in a row. A flood through pods takes some 10 µs each time.
const MOST_TURNS: u32 = 16;

/// How to boot.
pub struct Config {
    /// The kernel's memory, in bytes: 16 MiB at least, rounded up to 4 MiB. What is not used costs
    /// a 64th of it, and some microseconds of the boot for each MiB. 256 MiB by default.
    pub arena_bytes: u64,
    /// Kernel parameters added to the image's own.
    pub cmdline: String,
    /// Of the kernel's random numbers; `None`: from getrandom(2).
    pub seed: Option<[u8; 32]>,
    /// Receives the kernel's log, whole lines, as it is printed. Runs on a stack of a few KiB,
    /// inside the kernel: it must be quick and must not block. If it panics it is not called again.
    pub console: Option<Console>,
    /// Real by default.
    pub clock: Clock,
    /// The date when a virtual clock is at 0, in ns since 1970; `None`: that of 2025.
    pub date: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            arena_bytes: 256 << 20,
            cmdline: String::new(),
            seed: None,
            console: None,
            clock: Clock::Real,
            date: None,
        }
    }
}

/// A running kernel. To have it mutably is to hold the token: only then the kernel runs, on the
/// caller's thread. It may move between threads, except while it has fibers.
///
/// On drop the image is unloaded and the arena unmapped, whatever is still in progress. Fibers that
/// have begun and not ended are leaked, with their stacks: nothing can unwind them.
///
/// After a panic every method that needs the kernel returns the same [`Error::Panic`].
pub struct Kernel {
    pub(crate) tasks: Slots,
    control: Remote,
    /// With their names.
    machines: HashMap<MachineId, String>,
    pub(crate) rings: HashMap<RingId, Ring>,
    /// Which events of an end are told, with how many bytes, and which are asked about:
    /// `VINK_PACKET_*`, `VINK_ASK_*`.
    pub(crate) told: HashMap<EndId, (u32, u16)>,
    pub(crate) asked: HashMap<EndId, u32>,
    /// Fibers to be created by the next [`Kernel::run`].
    launches: VecDeque<(TaskId, MachineId, Launch)>,
    /// Tasks that exit when the call in which they wait uninterruptibly is done; with status and
    /// whether the group.
    leaving: Vec<(TaskId, i32, bool)>,
    /// How many fibers are alive or to be created, and the thread that they are bound to.
    fibers: usize,
    fiber_thread: u64,
    last_task: u64,
    /// The date when the clock was at 0, in ns since 1970.
    epoch: u64,
    panic: Option<Box<Panic>>,
    // In the order of their end: no handler for an image that is unloaded, no image without arena.
    pub(crate) registration: Registration,
    pub(crate) image: Image,
    /// The image knows its address.
    pub(crate) host: Rc<Host>,
}

// SAFETY: what isn't Send by itself: the calls' memory and the Host, which are used by the holder
// of the Kernel only (the image has no thread), and fibers, which run, and whose closures are
// dropped, on the thread that made them only: see `enter_image()` and `drop()`.
unsafe impl Send for Kernel {}

impl Kernel {
    /// Boots the image. Takes some milliseconds of processor time; nothing waits.
    ///
    /// # Errors
    /// [`Error::Arena`], [`Error::TooManyImages`], [`Error::Panic`]; [`Error::Errno`]: the image
    /// refuses to boot, or the command line has a NUL byte.
    pub fn boot(image: Image, mut config: Config) -> Result<Kernel, Error> {
        if config.clock == Clock::Virtual {
            config.cmdline.push_str(EXACT_SCHED_CLOCK);
        }
        let cmdline = CString::new(config.cmdline).map_err(|_| Error::Errno {
            what: "boot: NUL byte in the command line",
            errno: EINVAL,
        })?;
        let repeats = config.clock == Clock::Virtual && config.seed.is_some();
        let arena = Arena::new(config.arena_bytes, repeats)?;
        let seed = match config.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let registration = fault::register(&image.code, image.exports.fault).ok_or_else(|| {
            let why = "this process has 64 kernels".into();
            Error::TooManyImages {
                path: image.path().to_owned(),
                why,
            }
        })?;
        let host = Rc::new(Host::new(config.clock, arena, config.console));
        let boot = Boot {
            abi_version: VINK_ABI_VERSION,
            size: size_of::<Boot>() as u32,
            ops: &OPS,
            host: Rc::as_ptr(&host).cast_mut().cast(),
            arena: host.arena.start(),
            arena_size: host.arena.len(),
            cmdline: cmdline.as_ptr(),
            seed,
            realtime: match config.clock {
                Clock::Real => monotonic_epoch() + stopped(),
                Clock::Virtual => config.date.unwrap_or(VIRTUAL_EPOCH),
            },
        };
        let epoch = boot.realtime;
        let mut kernel = Kernel {
            tasks: Slots::default(),
            control: Remote::new(VINK_TASK_CONTROL),
            machines: HashMap::new(),
            rings: HashMap::new(),
            told: HashMap::new(),
            asked: HashMap::new(),
            launches: VecDeque::new(),
            leaving: Vec::new(),
            fibers: 0,
            fiber_thread: 0,
            last_task: TaskId::CONTROL.0,
            epoch,
            panic: None,
            registration,
            image,
            host,
        };
        fault::prepare_thread();
        // SAFETY: the image is freshly loaded and ours; ops, host and arena live as long as it.
        let run = || unsafe { (kernel.image.exports.boot)(&boot) };
        let result = kernel.registration.runs().during(run);
        match result {
            0 => Ok(kernel),
            _ => Err(kernel.error("boot", result)),
        }
    }

    /// Makes a machine: a network and a UTS namespace of this name (1..=64 bytes).
    ///
    /// # Errors
    /// [`Error::Errno`]: `EINVAL` (the name), `ENOMEM` (the arena is full).
    pub fn machine(&mut self, name: &str) -> Result<MachineId, Error> {
        let args = [name.as_ptr() as u64, name.len() as u64, 0, 0, 0, 0];
        let id = self.control("make a machine", VINK_CALL_MACHINE_CREATE, args)?;
        self.machines.insert(MachineId(id), name.to_owned());
        Ok(MachineId(id))
    }

    /// The name that a machine was made with; `None` if it has been destroyed.
    pub fn machine_name(&self, m: MachineId) -> Option<&str> {
        self.machines.get(&m).map(String::as_str)
    }

    /// Gives up a machine; it ends with its last task and socket.
    ///
    /// # Errors
    /// [`Error::NoSuchMachine`].
    pub fn destroy_machine(&mut self, m: MachineId) -> Result<(), Error> {
        self.know(m)?;
        self.control(
            "destroy a machine",
            VINK_CALL_MACHINE_DESTROY,
            [m.0, 0, 0, 0, 0, 0],
        )?;
        self.machines.remove(&m);
        Ok(())
    }

    /// Makes a remote task: a process of one thread without descriptors, whose system calls come
    /// from [`Kernel::start`].
    ///
    /// # Errors
    /// [`Error::NoSuchMachine`]; [`Error::Errno`]: `ENOMEM`, `EAGAIN`.
    pub fn task(&mut self, m: MachineId) -> Result<TaskId, Error> {
        self.task_with(m, Credentials::ROOT)
    }

    /// The same with these credentials.
    ///
    /// # Errors
    /// As [`Kernel::task`]; `EINVAL`: no such user or group.
    pub fn task_with(&mut self, m: MachineId, credentials: Credentials) -> Result<TaskId, Error> {
        self.know(m)?;
        let id = self.new_id();
        let params = TaskParams {
            cookie: id.0,
            entry: None,
            arg: std::ptr::null_mut(),
            stack_top: std::ptr::null_mut(),
            drop: !credentials.capabilities,
            uid: credentials.uid,
            gid: credentials.gid,
        };
        let image_id = self.create_task(m, &params)?;
        self.tasks.insert(id, Slot::Remote(Remote::new(image_id)));
        Ok(id)
    }

    /// Makes a remote task as clone(2) by `parent` would have.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoSuchTask`]; [`Error::Errno`]: as clone(2).
    pub fn clone_task(&mut self, parent: TaskId, how: CloneKind) -> Result<TaskId, Error> {
        let id = self.new_id();
        let flags = match how {
            CloneKind::Process => 0,
            CloneKind::Thread => VINK_CLONE_THREAD,
            CloneKind::SharedFiles => VINK_CLONE_FILES,
        };
        let call = Call {
            nr: VINK_CALL_TASK_CLONE.into(),
            args: [flags, id.0, 0, 0, 0, 0],
            ..Call::default()
        };
        let result = self.finish(parent, &call, Kernel::step)?;
        let image_id = u64::try_from(result).map_err(|_| errno("clone a task", result))?;
        self.tasks.insert(id, Slot::Remote(Remote::new(image_id)));
        Ok(id)
    }

    /// A fiber: the closure runs as a task of the machine, on its own guarded stack of 256 KiB,
    /// which it shares with the kernel. It begins in the next [`Kernel::run`] or [`Kernel::call`],
    /// in the order of creation, and what it returns is its exit status (101 if it panics).
    ///
    /// It must not block the thread, nor use this kernel other than by its [`Fiber`]. From now on
    /// until all fibers are gone the kernel can only be used from this thread.
    ///
    /// # Errors
    /// [`Error::NoSuchMachine`], [`Error::WrongThread`]; [`Error::Errno`]: no memory for a stack. A
    /// fiber that the image can't create, for lack of memory or as its machine is gone by then,
    /// drops its closure in `run()` and is gone with status 126.
    pub fn fiber(
        &mut self,
        m: MachineId,
        f: impl FnOnce(&Fiber) -> i32 + 'static,
    ) -> Result<TaskId, Error> {
        self.fiber_with(m, Credentials::ROOT, f)
    }

    /// The same with these credentials.
    ///
    /// # Errors
    /// As [`Kernel::fiber`].
    pub fn fiber_with(
        &mut self,
        m: MachineId,
        credentials: Credentials,
        f: impl FnOnce(&Fiber) -> i32 + 'static,
    ) -> Result<TaskId, Error> {
        self.know(m)?;
        self.ready_to_enter()?;
        let launch = Launch::new(self.image.exports.fiber_call, credentials, Box::new(f))?;
        let id = self.new_id();
        self.launches.push_back((id, m, launch));
        self.fiber_thread = this_thread();
        self.fibers += 1;
        Ok(id)
    }

    /// Ends a remote task, or its thread group, with a status as of wait(2). A call in progress is
    /// cancelled, an outcome not taken is lost. [`Event::Gone`] follows for each task: as on any
    /// Linux, a task that waits uninterruptibly ends when it no longer does.
    ///
    /// # Errors
    /// [`Error::NoSuchTask`]; [`Error::Busy`]: it is a fiber, which ends by returning.
    pub fn exit_task(&mut self, t: TaskId, status: i32, group: bool) -> Result<(), Error> {
        if self.remote(t)?.state() == State::Running {
            self.host.awaited.set(Some(t));
            let ended = self.cancel(t).and_then(|()| self.step());
            self.host.awaited.set(None);
            ended?;
        }
        // The end of the call may have been the end of the task (it was killed).
        self.remote(t)?.exiting = true;
        self.leaving.push((t, status, group));
        self.see_off().map(drop)
    }

    /// Has the tasks exit that are to and wait no longer. Whether there were any.
    fn see_off(&mut self) -> Result<bool, Error> {
        let mut any = false;
        for (task, status, group) in take(&mut self.leaving) {
            let Some(Slot::Remote(remote)) = self.tasks.get_mut(&task) else {
                continue;
            };
            if remote.state() == State::Running {
                self.leaving.push((task, status, group));
                continue;
            }
            remote.take();
            let call = Call {
                nr: VINK_CALL_TASK_EXIT.into(),
                args: [status as u64, group.into(), 0, 0, 0, 0],
                ..Call::default()
            };
            match self.submit(task, &call) {
                // The end of another one was its end, too.
                Err(Error::NoSuchTask | Error::Busy) => {}
                submitted => submitted?,
            }
            any = true;
        }
        Ok(any)
    }

    /// Starts a system call; [`Kernel::run`] executes it, [`Event::Done`] and [`Kernel::poll`] tell
    /// its end. Its pointers must stay valid until then, as with syscall(2).
    ///
    /// # Errors
    /// [`Error::Busy`]: a call is in progress, or its outcome was not taken, or the task is a fiber;
    /// [`Error::NoSuchTask`]; [`Error::Errno`] `EINVAL`: a call that makes or ends tasks or
    /// maps rings, for which there are methods.
    pub fn start(&mut self, t: TaskId, call: Call) -> Result<(), Error> {
        not_managed(call.nr)?;
        self.begin(t, &call)
    }

    /// Takes the outcome of a finished call. `None`: there is none (yet).
    pub fn poll(&mut self, t: TaskId) -> Option<Outcome> {
        match self.tasks.get_mut(&t)? {
            Slot::Remote(remote) => remote.take(),
            Slot::Fiber(_) => None,
        }
    }

    /// Interrupts a call as a signal would: one that waits ends with `-EINTR`, which a later
    /// [`Kernel::run`] tells. A fiber that doesn't wait in one goes on as if nothing had been.
    ///
    /// # Errors
    /// [`Error::NoSuchTask`]; [`Error::Errno`] `ENOENT`: no call is in progress, or the fiber has
    /// not begun.
    pub fn cancel(&mut self, t: TaskId) -> Result<(), Error> {
        const WHAT: &str = "cancel: no call in progress";
        let not_begun = self.launches.iter().any(|(id, ..)| *id == t);
        let fiber = match self.tasks.get(&t) {
            Some(Slot::Fiber(body)) => Some(body.pid()),
            _ => not_begun.then_some(0),
        };
        if let Some(pid) = fiber {
            if pid == 0 {
                return Err(errno(WHAT, -i64::from(ENOENT)));
            }
            let args = [pid as u64, libc::SIGTERM as u64, 0, 0, 0, 0];
            return match self.control("interrupt a fiber", libc::SYS_kill as u32, args) {
                // It had its turn before the control task, and ended.
                Err(Error::Errno { errno, .. })
                    if errno == libc::ESRCH && !self.tasks.contains_key(&t) =>
                {
                    Ok(())
                }
                other => other.map(drop),
            };
        }
        let task = self.remote(t)?.image_id;
        self.ready_to_enter()?;
        let result = self.image.call_cancel(task);
        self.check(WHAT, result)
    }

    /// Runs the kernel until it has nothing to do. Returns the time of its next timer on
    /// [`Kernel::now`]'s clock in ns (`None`: none is armed): run it again then, or when a call was
    /// started or cancelled.
    ///
    /// A virtual clock jumps to the next timer, once at most, if otherwise this run would tell
    /// nothing although a call or a fiber waits.
    ///
    /// # Errors
    /// [`Error::Panic`], [`Error::WrongThread`].
    pub fn run(&mut self) -> Result<Option<u64>, Error> {
        let deadline = self.settle()?;
        match deadline {
            Some(time)
                if self.clock() == Clock::Virtual
                    && self.host.events.borrow().is_empty()
                    && self.has_waiter() =>
            {
                self.wait(time);
                self.step()
            }
            _ => Ok(deadline),
        }
    }

    /// As [`Kernel::run`], but a virtual clock stays where it is: for callers that move it
    /// themselves.
    ///
    /// # Errors
    /// As [`Kernel::run`].
    pub fn settle(&mut self) -> Result<Option<u64>, Error> {
        self.launch_fibers()?;
        self.step()
    }

    /// Lets time pass until `deadline` (ns on [`Kernel::now`]'s clock): the real clock sleeps, a
    /// virtual one jumps.
    pub fn wait(&mut self, deadline: u64) {
        match self.clock() {
            Clock::Real => sleep_until(deadline + stopped()),
            Clock::Virtual => self.host.now.set(self.host.now.get().max(deadline)),
        }
    }

    /// The oldest thing that happened and was not told yet.
    pub fn next_event(&mut self) -> Option<Event> {
        self.host.events.borrow_mut().pop_front()
    }

    /// The kernel's clock in ns: `CLOCK_MONOTONIC` of the host, or the virtual one.
    pub fn now(&self) -> u64 {
        self.host.time()
    }

    /// Whether it has fibers that have not ended.
    pub fn has_fibers(&self) -> bool {
        self.fibers > 0
    }

    /// Which clock it lives by.
    pub fn clock(&self) -> Clock {
        self.host.clock
    }

    /// What the host's `CLOCK_MONOTONIC` shows when the real clock is at `time`, if no debugger
    /// stops the process until then.
    #[inline]
    pub fn host_time(time: u64) -> u64 {
        time + stopped()
    }

    /// The date for the machines, until a program sets it, when [`Kernel::now`] is `time`: ns since 1970.
    pub fn date(&self, time: u64) -> u64 {
        self.epoch + time
    }

    /// A call that ends by itself: starts it, runs the kernel, waits for timers. Returns the raw
    /// result, `-errno` on failure; pointers are this process's own. Events of other tasks are
    /// queued meanwhile.
    ///
    /// # Errors
    /// As [`Kernel::start`] and [`Kernel::run`]; [`Error::Stuck`]: it would wait for ever.
    pub fn call(&mut self, t: TaskId, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        self.complete(t, &call)
    }

    /// The same for a call whose pointers may be into another process's memory.
    ///
    /// # Errors
    /// As [`Kernel::call`].
    pub fn complete(&mut self, t: TaskId, call: &Call) -> Result<i64, Error> {
        self.finish(t, call, Kernel::settle)
    }

    /// The kernel's own numbers, for leak checks and dashboards.
    ///
    /// # Errors
    /// [`Error::Panic`], [`Error::WrongThread`].
    pub fn counters(&mut self) -> Result<Counters, Error> {
        self.ready_to_enter()?;
        let mut counters = Counters::default();
        let result = self.image.counters(&mut counters);
        self.check("read the counters", result)?;
        Ok(counters)
    }

    /// The kernel's log so far; of a long one the newest 256 KiB at least.
    pub fn log(&self) -> &str {
        // SAFETY: only the console op changes it, while a method that borrows the Kernel mutably is
        // inside the image.
        unsafe { &*self.host.log.as_ptr() }
    }

    /// Whether it has told in its log of memory that could not be had: the arena was full, and
    /// calls have failed with `ENOMEM`, `ENOBUFS`, `ENFILE` or `EAGAIN`.
    pub fn ran_short(&self) -> bool {
        self.host.short.get()
    }

    /// What is known of a code address. Reads the image's symbols and line
    /// numbers from its file, each time.
    pub fn symbolise(&self, addr: u64) -> Frame {
        let mut frames = describe(&self.image.code, std::iter::once(Address::At(addr)));
        frames.pop().expect("one address, one frame")
    }

    /// The image that this kernel runs.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Starts a call and runs the kernel with `run` until it is done.
    fn finish(
        &mut self,
        t: TaskId,
        call: &Call,
        run: fn(&mut Kernel) -> Result<Option<u64>, Error>,
    ) -> Result<i64, Error> {
        self.begin(t, call)?;
        self.host.awaited.set(Some(t));
        let result = self.await_call(t, run);
        self.host.awaited.set(None);
        result
    }

    fn await_call(
        &mut self,
        t: TaskId,
        run: fn(&mut Kernel) -> Result<Option<u64>, Error>,
    ) -> Result<i64, Error> {
        loop {
            let deadline = run(self)?;
            if let Some(outcome) = self.remote(t)?.take() {
                return Ok(outcome.result);
            }
            match deadline {
                Some(time) => self.wait(time),
                None => {
                    self.end_call(t)?;
                    self.remote(t)?.take();
                    return Err(Error::Stuck);
                }
            }
        }
    }

    /// Cancels the task's call and runs until it is done or the task is gone.
    fn end_call(&mut self, t: TaskId) -> Result<(), Error> {
        self.cancel(t)?;
        loop {
            let deadline = self.step()?;
            match self.tasks.get(&t) {
                Some(Slot::Remote(remote)) if remote.state() == State::Running => {}
                _ => return Ok(()),
            }
            // It may wait uninterruptibly, but only for a time.
            self.wait(deadline.ok_or(Error::Busy)?);
        }
    }

    /// Makes a call on a task that has none.
    fn begin(&mut self, t: TaskId, call: &Call) -> Result<(), Error> {
        if self.remote(t)?.state() != State::Idle {
            return Err(Error::Busy);
        }
        self.submit(t, call)
    }

    /// Hands a call to the image.
    fn submit(&mut self, t: TaskId, call: &Call) -> Result<(), Error> {
        self.ready_to_enter()?;
        user::forget();
        let remote = match t {
            TaskId::CONTROL => &mut self.control,
            _ => match self.tasks.get_mut(&t) {
                Some(Slot::Remote(remote)) => remote,
                Some(Slot::Fiber(_)) => return Err(Error::Busy),
                None => return Err(Error::NoSuchTask),
            },
        };
        let task = remote.image_id;
        let call = remote.prepare(t, call, 0);
        // SAFETY: the call stays where it is until it is done or its task is gone.
        let result = unsafe { (self.image.exports.call_start)(task, call) };
        self.check_start(result)
    }

    /// What vink_call_start() says.
    #[inline]
    pub(crate) fn check_start(&mut self, result: i32) -> Result<(), Error> {
        match -result {
            ESRCH => Err(Error::NoSuchTask),
            EBUSY => Err(Error::Busy),
            _ => self.check("start a call", result),
        }
    }

    /// A call of the control task.
    pub(crate) fn control(
        &mut self,
        what: &'static str,
        nr: u32,
        args: [u64; 6],
    ) -> Result<u64, Error> {
        if self.control.state() == State::Running {
            return Err(Error::Hung { what });
        }
        self.submit(
            TaskId::CONTROL,
            &Call {
                nr: nr.into(),
                args,
                ..Call::default()
            },
        )?;
        let mut timeout = CONTROL_CALL_TIMEOUT;
        loop {
            let deadline = self.step()?;
            if let Some(outcome) = self.control.take() {
                return u64::try_from(outcome.result).map_err(|_| errno(what, outcome.result));
            }
            let deadline = deadline.ok_or(Error::Stuck)?;
            // Not by the clock: time in which the process is stopped does not count.
            timeout = timeout
                .checked_sub(deadline.saturating_sub(self.now()))
                .ok_or(Error::Hung { what })?;
            self.wait(deadline);
        }
    }

    fn create_task(&mut self, m: MachineId, params: &TaskParams) -> Result<u64, Error> {
        let args = [m.0, (&raw const *params) as u64, 0, 0, 0, 0];
        self.control("make a task", VINK_CALL_TASK_CREATE, args)
    }

    #[inline]
    pub(crate) fn launch_fibers(&mut self) -> Result<(), Error> {
        while let Some((id, machine, launch)) = self.launches.pop_front() {
            self.launch(id, machine, launch)?;
        }
        Ok(())
    }

    /// Creates a fiber's task in the image.
    fn launch(&mut self, id: TaskId, machine: MachineId, launch: Launch) -> Result<(), Error> {
        let (body, params) = launch.begin(id.0);
        // It may run, and even end, before its creation is told.
        self.tasks.insert(id, Slot::Fiber(body));
        let made = self.create_task(machine, &params);
        if let Err(Error::Errno { .. }) = made {
            // An error of that task, not of the caller that runs the kernel; as a shell says of a
            // program that it couldn't execute.
            self.host.task_gone(id, 126 << 8);
            self.forget_the_gone();
            return Ok(());
        }
        made.map(drop)
    }

    /// A vink_run(), and others while packets are taken or tasks leave. By the real clock the caller looks
    /// at what else there is after [`MOST_TURNS`].
    pub(crate) fn step(&mut self) -> Result<Option<u64>, Error> {
        self.ready_to_enter()?;
        user::forget();
        let mut turns = 0;
        loop {
            let runs = self.registration.runs();
            let (result, deadline) = runs.during(|| self.image.run());
            let deadline = self.check_run(result, deadline)?;
            if self.replace_taken() {
                turns += 1;
                if turns == MOST_TURNS && self.clock() == Clock::Real {
                    return Ok(Some(self.now()));
                }
                continue;
            }
            if self.leaving.is_empty() || !self.see_off()? {
                return Ok(deadline);
            }
        }
    }

    /// What vink_run() says, and a deadline.
    #[inline]
    pub(crate) fn check_run(&mut self, result: i32, deadline: u64) -> Result<Option<u64>, Error> {
        self.forget_the_gone();
        self.check("run", result)?;
        Ok((deadline != VINK_NEVER).then_some(deadline))
    }

    #[inline]
    fn forget_the_gone(&mut self) {
        if self.host.gone.borrow().is_empty() {
            return;
        }
        for id in self.host.gone.take() {
            if let Some(Slot::Fiber(body)) = self.tasks.remove(&id) {
                // SAFETY: the task is gone, and the image has left its stack; or refused to make it.
                unsafe { body.free() };
                self.fibers -= 1;
            }
        }
    }

    fn has_waiter(&self) -> bool {
        self.tasks.values().any(|slot| match slot {
            Slot::Remote(remote) => remote.state() == State::Running,
            Slot::Fiber(_) => true,
        })
    }

    /// To be asked before every call into the image.
    #[inline]
    pub(crate) fn ready_to_enter(&self) -> Result<(), Error> {
        if let Some(panic) = &self.panic {
            return Err(Error::Panic(panic.clone()));
        }
        if self.fibers > 0 && self.fiber_thread != this_thread() {
            return Err(Error::WrongThread);
        }
        fault::prepare_thread();
        Ok(())
    }

    #[inline]
    fn check(&mut self, what: &'static str, result: i32) -> Result<(), Error> {
        match result {
            0 => Ok(()),
            _ => Err(self.error(what, result)),
        }
    }

    /// What the image's refusal means.
    #[cold]
    fn error(&mut self, what: &'static str, result: i32) -> Error {
        if result != VINK_DEAD {
            return Error::Errno {
                what,
                errno: -result,
            };
        }
        let panic = self.last_words();
        Error::Panic(self.panic.insert(Box::new(panic)).clone())
    }

    fn last_words(&self) -> Panic {
        let words = self.host.panic.take();
        let (message, trace) = words.map_or_else(
            || ("the kernel is dead and has not said why".into(), Vec::new()),
            |words| (words.message, words.trace),
        );
        let addresses = trace.iter().enumerate().map(|(depth, addr)| match depth {
            0 => Address::At(*addr),
            _ => Address::ReturnTo(*addr),
        });
        let backtrace = describe(&self.image.code, addresses);
        Panic {
            message,
            log: self.log().to_owned(),
            backtrace,
        }
    }

    fn remote(&mut self, t: TaskId) -> Result<&mut Remote, Error> {
        match self.tasks.get_mut(&t) {
            Some(Slot::Remote(remote)) if !remote.exiting => Ok(remote),
            Some(Slot::Remote(_)) => Err(Error::NoSuchTask),
            Some(Slot::Fiber(_)) => Err(Error::Busy),
            None if self.launches.iter().any(|(id, ..)| *id == t) => Err(Error::Busy),
            None => Err(Error::NoSuchTask),
        }
    }

    pub(crate) fn know(&self, m: MachineId) -> Result<(), Error> {
        match self.machines.contains_key(&m) {
            true => Ok(()),
            false => Err(Error::NoSuchMachine),
        }
    }

    /// Events of traced ends.
    pub(crate) fn packets(&self) -> &RefCell<PacketQueue> {
        &self.host.packets
    }

    /// What is at tracepoints.
    pub(crate) fn probes(&self) -> &RefCell<Probes> {
        &self.host.probes
    }

    pub(crate) fn new_id(&mut self) -> TaskId {
        self.last_task += 1;
        TaskId(self.last_task)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.fiber_thread != this_thread() {
            // The closures may be bound to their thread.
            forget(take(&mut self.launches));
        }
    }
}

/// Whether any caller may make a call, and no method stands for it.
#[inline]
pub(crate) fn not_managed(nr: i64) -> Result<(), Error> {
    const MANAGED: [u32; 5] = [
        VINK_CALL_TASK_CREATE,
        VINK_CALL_TASK_CLONE,
        VINK_CALL_TASK_EXIT,
        VINK_CALL_RING_MAP,
        VINK_CALL_RING_UNMAP,
    ];
    if nr < VINK_CALL_BASE.into() {
        return Ok(());
    }
    match MANAGED.iter().any(|managed| i64::from(*managed) == nr) {
        false => Ok(()),
        true => Err(Error::Errno {
            what: "use task(), clone_task(), exit_task(), map_ring(), unmap_ring()",
            errno: EINVAL,
        }),
    }
}

fn errno(what: &'static str, result: i64) -> Error {
    Error::Errno {
        what,
        errno: -result as i32,
    }
}

/// From getrandom(2).
fn random_seed() -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    // So few bytes come whole.
    match getrandom(&mut seed, GetRandomFlags::empty()) {
        Ok(_) => Ok(seed),
        Err(error) => Err(Error::Errno {
            what: "get a seed from getrandom()",
            errno: error.raw_os_error(),
        }),
    }
}

/// A number that no other thread of the process ever has; cheaper than `std::thread::current()`.
fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }
    NUMBER.with(|number| *number)
}
