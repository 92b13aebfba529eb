//! The kernel in packetdrill's process, and how its two threads wait for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use vink_kernel::{find_image, Call, Clock, CloneKind, Config, Event, Image, Kernel, TaskId};
use vink_lab::Machine;

use crate::flags::Flags;
use crate::sysctls::Snapshot;
use crate::tun::Tun;

/// How often a thread that may not move the clock looks whether it must.
const LOOK: Duration = Duration::from_millis(20);
/// What looking at a virtual clock takes, in ns.
const GLANCE: u64 = 1000;

/// What can go wrong here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    #[error(transparent)]
    Lab(#[from] vink_lab::Error),
    #[error("{what}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Refused { what: &'static str, errno: i32 },
    #[error("{what} has not come to an end in {seconds} s")]
    Patience { what: String, seconds: u64 },
}

/// All that packetdrill's threads share.
pub(crate) struct Stack {
    shared: Mutex<Shared>,
    /// A call is done, or the clock may have to be moved by somebody else.
    changed: Condvar,
    /// The thread that runs the script, and its number.
    first: (ThreadId, libc::pid_t),
    clock: Clock,
    /// In s.
    patience: u64,
}

struct Shared {
    kernel: Kernel,
    machine: Machine,
    /// The scripts' descriptors are its.
    process: TaskId,
    tasks: HashMap<ThreadId, TaskId>,
    tun: Tun,
    /// What has left the machine and not been asked for: the time in ns, and the packet.
    packets: VecDeque<(u64, Vec<u8>)>,
    /// When the calls that are done were done, in ns, until their threads have asked for the time.
    ended: HashMap<TaskId, u64>,
    /// The first thread waits here.
    attended: bool,
    /// The first thread has looked at the clock and done nothing since.
    glanced: bool,
    /// What the network's files said before a script's commands; taken when a script begins.
    before: Option<Snapshot>,
}

impl Stack {
    /// Boots the kernel, with its machine.
    pub(crate) fn new(flags: &Flags) -> Result<Stack, Error> {
        let path = match &flags.image {
            Some(path) => path.clone(),
            None => find_image()?,
        };
        let config = Config {
            clock: flags.clock,
            // A script's connections have the same numbers each time.
            seed: (flags.clock == Clock::Virtual).then_some([0x56; 32]),
            ..Config::default()
        };
        let mut kernel = Kernel::boot(Image::open(&path)?, config)?;
        let machine = Machine::new(&mut kernel, "packetdrill")?;
        let tun = Tun::new(&mut kernel, &machine, &flags.local, flags.mtu)?;
        let process = kernel.task(machine.id)?;
        // SAFETY: takes no arguments.
        let number = unsafe { libc::gettid() };
        Ok(Stack {
            shared: Mutex::new(Shared {
                kernel,
                machine,
                process,
                tasks: HashMap::new(),
                tun,
                packets: VecDeque::new(),
                ended: HashMap::new(),
                attended: false,
                glanced: false,
                before: Some(Snapshot::take()),
            }),
            changed: Condvar::new(),
            first: (thread::current().id(), number),
            clock: flags.clock,
            patience: flags.patience,
        })
    }

    /// A system call of the script's, to its end: `-errno` if it failed.
    pub(crate) fn call(&self, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        let mut shared = self.enter();
        let task = shared.task()?;
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        shared.kernel.start(task, call)?;
        let what = || format!("system call {nr}");
        self.wait(shared, None, what, |shared| Ok(shared.kernel.poll(task)))
            .map(|outcome| outcome.map_or(-i64::from(libc::EINTR), |outcome| outcome.result))
    }

    /// Has the machine receive a packet.
    pub(crate) fn inject(&self, packet: &[u8]) -> Result<(), Error> {
        let mut guard = self.enter();
        let shared = &mut *guard;
        shared.tun.put(&mut shared.kernel, packet)?;
        shared.settle().map(drop)?;
        self.changed.notify_all();
        Ok(())
    }

    /// The next packet that the machine sends, and when it did (µs since 1970).
    pub(crate) fn sniff(&self) -> Result<(Vec<u8>, i64), Error> {
        let shared = self.enter();
        let what = || "waiting for a packet of the machine's".to_owned();
        let found = self.wait(shared, None, what, |shared| Ok(shared.packets.pop_front()))?;
        let (time, packet) = found.expect("it waits until there is one");
        Ok((packet, (self.lock().kernel.date(time) / 1000) as i64))
    }

    /// Lets this many ns pass.
    pub(crate) fn sleep(&self, ns: u64) -> Result<(), Error> {
        let shared = self.enter();
        let until = shared.kernel.now() + ns;
        self.wait(shared, Some(until), String::new, |_| Ok(None::<()>))
            .map(drop)
    }

    /// What time it is for the calling thread, in ns since 1970.
    pub(crate) fn date(&self) -> Result<u64, Error> {
        let mut shared = self.lock();
        let task = shared.tasks.get(&thread::current().id()).copied();
        let first = self.is_first();
        let glanced = shared.glanced;
        shared.glanced |= first;
        let mut now = shared.kernel.now();
        if self.clock == Clock::Virtual {
            match task.and_then(|task| shared.ended.remove(&task)) {
                Some(then) if !first => now = then,
                _ if first && glanced => {
                    now += GLANCE;
                    let _: Option<()> = self.wait(shared, Some(now), String::new, |_| Ok(None))?;
                    shared = self.lock();
                }
                _ => {}
            }
        }
        Ok(shared.kernel.date(now))
    }

    /// What the script's commands have set since the beginning: done once.
    pub(crate) fn carry_sysctls(&self) -> Result<(), Error> {
        let mut guard = self.enter();
        let shared = &mut *guard;
        let Some(before) = shared.before.take() else {
            return Ok(());
        };
        let now = Snapshot::take();
        for (name, value) in now.since(&before) {
            shared
                .machine
                .admin
                .sysctl(&mut shared.kernel, name, &value)?;
        }
        Ok(())
    }

    fn is_first(&self) -> bool {
        thread::current().id() == self.first.0
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For whatever is more than a look at the clock.
    fn enter(&self) -> MutexGuard<'_, Shared> {
        let mut shared = self.lock();
        if self.is_first() {
            shared.glanced = false;
        }
        shared
    }

    /// Runs the kernel until there is what is looked for, or until this time (ns): then `None`.
    fn wait<T>(
        &self,
        mut shared: MutexGuard<'_, Shared>,
        until: Option<u64>,
        what: impl Fn() -> String,
        mut look: impl FnMut(&mut Shared) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let first = self.is_first();
        let limit = until.unwrap_or(shared.kernel.now() + self.patience * 1_000_000_000);
        shared.attended |= first;
        let result = loop {
            let deadline = match shared.settle() {
                Ok(deadline) => deadline.unwrap_or(limit).min(limit),
                Err(error) => break Err(error),
            };
            self.changed.notify_all();
            match look(&mut shared) {
                Ok(None) => {}
                other => break other,
            }
            let now = shared.kernel.now();
            if now >= limit {
                let (what, seconds) = (what(), self.patience);
                break match until {
                    Some(_) => Ok(None),
                    None => Err(Error::Patience { what, seconds }),
                };
            }
            shared = match self.clock {
                Clock::Real => {
                    let time = Duration::from_nanos(deadline.saturating_sub(now));
                    let waited = self.changed.wait_timeout(shared, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Clock::Virtual if first => {
                    shared.kernel.wait(deadline);
                    shared
                }
                Clock::Virtual => {
                    let waited = self.changed.wait_timeout(shared, LOOK);
                    let (mut shared, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() && !shared.attended && sleeps(self.first.1) {
                        shared.kernel.wait(deadline);
                    }
                    shared
                }
            };
        };
        if first {
            shared.attended = false;
        }
        result
    }
}

impl Shared {
    /// The calling thread's task.
    fn task(&mut self) -> Result<TaskId, Error> {
        let thread = thread::current().id();
        if let Some(task) = self.tasks.get(&thread) {
            return Ok(*task);
        }
        let task = self.kernel.clone_task(self.process, CloneKind::Thread)?;
        self.tasks.insert(thread, task);
        Ok(task)
    }

    /// Runs the kernel until nothing can go on, and puts aside what has left the machine. Returns when it wants to be
    /// run again.
    fn settle(&mut self) -> Result<Option<u64>, Error> {
        let deadline = self.kernel.settle()?;
        let now = self.kernel.now();
        while let Some(packet) = self.tun.take(&mut self.kernel)? {
            self.packets.push_back((now, packet));
        }
        while let Some(event) = self.kernel.next_event() {
            if let Event::Done(task) = event {
                self.ended.insert(task, now);
            }
        }
        Ok(deadline)
    }
}

/// Whether a thread of this process waits for something in the host's kernel: proc_pid_stat(5).
fn sleeps(tid: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    let state = stat
        .ok()
        .and_then(|text| text.rsplit(") ").next()?.chars().next());
    state == Some('S')
}
