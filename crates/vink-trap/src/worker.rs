//! The worker: a kernel, the programs trapped for it, and the event loop between them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::Child;
use std::ptr::null;
use std::rc::{Rc, Weak};
use std::time::Duration;

use vink_abi::Counters;
use vink_kernel::{Clock, Event, Kernel, MachineId, Numbered, Outcome, TaskId};

use crate::calls::{advice, NR_END};
use crate::device::{self, Attached};
use crate::filter::Purpose;
use crate::guardian::Guardian;
use crate::handover::Carrier;
use crate::home::{Furniture, Home, Namespaces};
use crate::interrupt::{Pulse, Running};
use crate::launch::{launch, open_pidfd, Launched, Lodging, Program};
use crate::mail::{Look, Mail};
use crate::mirror::WATCHED;
use crate::near::Near;
use crate::network::Networks;
use crate::notify::{Listener, Notification};
use crate::process::{Entry, File, Process, Thread};
use crate::ring::Mapped;
use crate::splice::Basin;
use crate::target;
use crate::trace::witness::{Moment, Witness};
use crate::trace::Tracer;
use crate::tree::{ProgramId, Tree, Trees};
use crate::turn::linker::Linker;
use crate::turn::pids::await_reaping;
use crate::turn::{Turn, Virtual};
use crate::Error;

/// How a program ended; see wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Status {
    /// Of what wait(2) tells.
    fn of(status: i32) -> Status {
        match libc::WIFEXITED(status) {
            true => Status::Exited(libc::WEXITSTATUS(status)),
            false => Status::Killed(libc::WTERMSIG(status)),
        }
    }

    /// As a shell gives it: the exit status, or 128 + the signal.
    pub fn code(self) -> i32 {
        match self {
            Status::Exited(status) => status,
            Status::Killed(signal) => 128 + signal,
        }
    }
}

/// What a worker counted since it was made.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub(crate) trapped: Vec<u64>,
    pub(crate) unsupported: BTreeMap<i64, u64>,
    pub(crate) posted: u64,
    pub(crate) letters: u64,
}

impl Statistics {
    /// How often each system call was trapped: number, count.
    pub fn trapped(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let all = self.trapped.iter().enumerate();
        all.filter(|(_, n)| **n > 0).map(|(nr, n)| (nr as i64, *n))
    }

    /// How many calls were posted in shared memory, and made in the kernel; see [`Worker::allow_mail`].
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// How many of these were sends that their threads did not wait for.
    pub fn letters(&self) -> u64 {
        self.letters
    }

    /// Calls on Vink files that the interposer had to refuse or treat as something simpler: number,
    /// count, what was done and what can be done about it.
    pub fn unsupported(&self) -> impl Iterator<Item = (i64, u64, &'static str)> + '_ {
        self.unsupported
            .iter()
            .map(|(nr, n)| (*nr, *n, advice(*nr)))
    }
}

/// Owns a [`Kernel`] and serves any number of programs on its machines. Stays on one thread; when
/// it is dropped, all its programs are killed. If it can't be, since its process is killed, a process that
/// [`Worker::spawn`] has forked off for that purpose kills them.
pub struct Worker {
    pub(crate) kernel: Kernel,
    epoll: OwnedFd,
    /// What each machine is on the host, and its namespaces from its first program on.
    homes: Numbered<MachineId, (Furniture, Option<Rc<Namespaces>>)>,
    /// There from when there may be programs, or helpers.
    guardian: Option<Guardian>,
    pub(crate) trees: Trees,
    pub(crate) processes: Numbered<i32, Process>,
    pub(crate) threads: Numbered<i32, Thread>,
    /// Whose task it is.
    pub(crate) tasks: Numbered<TaskId, i32>,
    /// Watched files by cookie.
    files: Numbered<u64, Weak<File>>,
    last_cookie: u64,
    /// How many there may be before those that are gone are looked for.
    most_files: usize,
    /// Own memory that a task's call uses; must outlive the call, or the task.
    pub(crate) buffers: Numbered<TaskId, Vec<u8>>,
    pub(crate) devices: Vec<Attached>,
    /// Devices whose file has become readable.
    woken: Vec<usize>,
    /// Devices that want to be served in the next step.
    pub(crate) again: Vec<usize>,
    /// There as long as a file is on its way over a unix socket.
    pub(crate) carrier: Option<Carrier>,
    /// What programs made and may enter.
    pub(crate) networks: Networks,
    /// For splice(2); made when first needed.
    pub(crate) basin: Option<Basin>,
    /// Rings of packet sockets that programs may have mapped.
    pub(crate) rings: Vec<Mapped>,
    /// Calls received in this step: program and call.
    pub(crate) heard: Vec<(usize, Notification)>,
    /// Calls that the kernel has done, to be concluded.
    pub(crate) finished: VecDeque<(Running, Outcome)>,
    /// When to look for signals.
    pub(crate) pulse: Pulse,
    /// For the memory of programs.
    pub(crate) scratch: Vec<u8>,
    /// Dead processes whose parent had not reaped them when they died.
    zombies: Vec<OwnedFd>,
    /// The kernel's next timer.
    pub(crate) deadline: Option<u64>,
    /// How far a virtual clock may go, and whether it has nowhere to go.
    pub(crate) horizon: u64,
    pub(crate) stands: bool,
    /// A descriptor of the caller's is ready.
    called: bool,
    /// Something was started in the kernel: it must run before it may wait.
    pub(crate) stirred: bool,
    nofile: libc::rlimit,
    pub(crate) statistics: Statistics,
    pub(crate) tracer: Option<Rc<Tracer>>,
    /// On a virtual clock.
    pub(crate) turn: Option<Box<Turn>>,
    /// There if programs may post calls.
    pub(crate) mail: Option<Mail>,
    /// There if programs had better be near.
    pub(crate) near: Option<Near>,
}

/// Events that are received at once.
const AT_ONCE: usize = 64;

const LISTENER: u64 = 1 << 32;
const DEATH: u64 = 2 << 32;
const OUTSIDE: u64 = 3 << 32;
/// A carried file's placeholder.
pub(crate) const CARRIED: u64 = 4 << 32;
/// A pipe that a thread waits for.
pub(crate) const PIPE: u64 = 5 << 32;
/// A device's host side.
pub(crate) const DEVICE: u64 = 6 << 32;

impl Worker {
    /// A worker around a booted kernel. Raises this process's descriptor limit as far as it goes
    /// and makes it the reaper of its programs' orphans (`PR_SET_CHILD_SUBREAPER`).
    ///
    /// # Errors
    /// [`Error::System`] if epoll_create1(2) fails.
    pub fn new(kernel: Kernel) -> Result<Worker, Error> {
        // SAFETY: makes a descriptor.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(Error::last("epoll_create1()"));
        }
        let mut nofile = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: fills and reads structures that live here; the rest takes numbers.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut nofile);
            // Each Vink file costs this process two descriptors.
            let all = libc::rlimit {
                rlim_cur: nofile.rlim_max,
                ..nofile
            };
            libc::setrlimit(libc::RLIMIT_NOFILE, &all);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            // Inherited as ignored, it would make children leave no status.
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGCHLD, null(), &mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
        }
        let turn = match kernel.clock() {
            Clock::Real => None,
            Clock::Virtual => Some(Box::new(Turn::new(Virtual::default())?)),
        };
        Ok(Worker {
            kernel,
            // SAFETY: new, and nobody else's.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            homes: Numbered::default(),
            guardian: None,
            devices: Vec::new(),
            woken: Vec::new(),
            again: Vec::new(),
            trees: Trees::default(),
            processes: Numbered::default(),
            threads: Numbered::default(),
            tasks: Numbered::default(),
            files: Numbered::default(),
            last_cookie: 0,
            most_files: 64,
            buffers: Numbered::default(),
            carrier: None,
            networks: Networks::default(),
            basin: None,
            rings: Vec::new(),
            heard: Vec::new(),
            finished: VecDeque::new(),
            pulse: Pulse::new(),
            scratch: Vec::new(),
            zombies: Vec::new(),
            deadline: None,
            horizon: u64::MAX,
            stands: false,
            called: false,
            stirred: true,
            nofile,
            statistics: Statistics {
                trapped: vec![0; NR_END],
                ..Statistics::default()
            },
            tracer: None,
            near: turn.is_none().then(Near::new).flatten(),
            turn,
            mail: None,
        })
    }

    /// The kernel, to make machines and to configure them. Programs stand still meanwhile. Events
    /// of tasks that the caller starts calls on are taken by the worker: use `Kernel::call`.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.stirred = true;
        &mut self.kernel
    }

    /// The kernel's counters.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        Ok(self.kernel.counters()?)
    }

    /// How many processes and threads of programs it keeps account of, and how many tasks it has for
    /// them: none when no program is left.
    pub fn accounts(&self) -> [usize; 3] {
        [self.processes.len(), self.threads.len(), self.tasks.len()]
    }

    /// What was counted so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Writes a line for each system call that programs started from now on make and that concerns
    /// Vink, when it ends; with `host_too` also for those that were trapped and are the host's. Who
    /// makes the call, its arguments, its result and how long it took are shown as strace(1) does it;
    /// Vink's descriptors as `3<vink>`.
    pub fn trace_calls(&mut self, to: Box<dyn io::Write>, host_too: bool) {
        self.change_tracer(|tracer| tracer.write_to(to, host_too));
    }

    /// Tells of each trapped call that programs started from now on make, when it has ended, and of who makes it. It costs time, for
    /// arguments are read from the program's memory.
    pub fn witness(&mut self, witness: Witness) {
        self.change_tracer(|tracer| tracer.tell(witness));
    }

    /// Before there are listeners that have it.
    fn change_tracer(&mut self, change: impl FnOnce(Tracer) -> Tracer) {
        let tracer = self.tracer.take().and_then(|t| Rc::try_unwrap(t).ok());
        self.tracer = Some(Rc::new(change(tracer.unwrap_or_default())));
    }

    /// What is told from now on happens now.
    pub(crate) fn mark_moment(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.set_moment(|| Moment {
                time: self.kernel.now(),
                packets: self.kernel.told_packets(),
            });
        }
    }

    /// Says how programs on a machine see the system around them. Those that run already see no
    /// change, and share nothing with later ones.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub fn furnish(&mut self, machine: MachineId, home: &Home) -> Result<(), Error> {
        self.homes.insert(machine, (home.plan()?, None));
        Ok(())
    }

    /// Gives up a machine, and what its programs saw of it on the host. It ends with its last program
    /// and socket.
    ///
    /// # Errors
    /// [`Error::Kernel`]: there is no such machine.
    pub fn destroy_machine(&mut self, machine: MachineId) -> Result<(), Error> {
        self.kernel().destroy_machine(machine)?;
        self.homes.remove(&machine);
        Ok(())
    }

    /// Starts a program on a machine. It gets going when the worker is next stepped.
    ///
    /// # Errors
    /// [`Error::System`] if the host refuses a namespace or the filter, [`Error::Home`]. That the
    /// program's file can't be executed is told by [`Worker::wait`].
    pub fn spawn(&mut self, machine: MachineId, program: Program) -> Result<ProgramId, Error> {
        if let Some(near) = &mut self.near {
            // The child's is this thread's.
            near.let_go();
        }
        let guardian = guardian(&mut self.guardian)?;
        let (furniture, made) = self.homes.entry(machine).or_default();
        let lodging = match made {
            Some(namespaces) => Lodging::Join(namespaces),
            None => Lodging::New(furniture),
        };
        let Launched {
            pid,
            pidfd,
            listener,
            shared,
            namespaces,
        } = match (&self.mail, &self.turn) {
            (mail, Some(turn)) => {
                let linker = Linker::expected();
                let purpose = match mail {
                    Some(_) => Purpose::TimeAndMail(linker),
                    None => Purpose::Time(linker),
                };
                let counter = turn.counter.as_ref();
                launch(&program, self.nofile, lodging, purpose, counter)?
            }
            (Some(mail), None) => {
                mail.lend(|| launch(&program, self.nofile, lodging, Purpose::Mail, None))?
            }
            (None, None) => launch(&program, self.nofile, lodging, Purpose::Plain, None)?,
        };
        if let Some(namespaces) = namespaces {
            guardian.mind(&namespaces);
            *made = Some(Rc::new(namespaces));
        }
        let home = made.clone();
        let id = self.trees.next();
        let listener = Listener::new(listener, self.tracer.clone())?;
        self.attend(listener.as_fd(), LISTENER | id as u64)?;
        let name = self.trees.add(Tree {
            name: program.name().to_string_lossy().into_owned(),
            machine,
            home,
            listener: Some(Rc::new(listener)),
            root: pid,
            shared: Some(shared),
            status: None,
            failure: None,
            orphans: Vec::new(),
        });
        self.settle_machine(machine, pid);
        self.add_process(id, pid, pidfd, None)?;
        self.note_outside(machine, program.descriptors());
        self.sets_out(pid);
        Ok(name)
    }

    /// Has a child of this process, which has not been waited for, killed too if this process is killed: one
    /// that helps the worker, and may not notice.
    ///
    /// # Errors
    /// [`Error::System`] as fork(2), pidfd_open(2).
    pub fn take_along(&mut self, helper: &Child) -> Result<(), Error> {
        let pidfd = open_pidfd(helper.id() as i32)?;
        guardian(&mut self.guardian)?.mind_helper(pidfd.as_fd());
        Ok(())
    }

    /// How the program's first process ended; `None` while it runs. What it started may run on.
    ///
    /// # Errors
    /// [`Error::CannotRun`] if it was never executed, [`Error::NoSuchProgram`].
    pub fn status(&self, program: ProgramId) -> Result<Option<Status>, Error> {
        let tree = &self.trees[self.trees.find(program)?];
        match (tree.status, tree.failure) {
            (Some(_), Some(errno)) => Err(Error::CannotRun {
                program: tree.name.clone(),
                errno,
            }),
            (status, _) => Ok(status),
        }
    }

    /// Serves all programs until this one's first process has ended.
    ///
    /// # Errors
    /// As [`Worker::status`] and [`Worker::step`].
    pub fn wait(&mut self, program: ProgramId) -> Result<Status, Error> {
        loop {
            if let Some(status) = self.status(program)? {
                return Ok(status);
            }
            self.step(None)?;
        }
    }

    /// Serves all programs until the condition holds; it is looked at after each step.
    ///
    /// # Errors
    /// As [`Worker::step`].
    pub fn run_until(
        &mut self,
        mut condition: impl FnMut(&mut Worker) -> bool,
    ) -> Result<(), Error> {
        while !condition(self) {
            self.step(None)?;
        }
        Ok(())
    }

    /// Whether any process of the program, its first one or another, is left.
    pub fn is_alive(&self, program: ProgramId) -> bool {
        let tree = self.trees.find(program);
        tree.is_ok_and(|index| self.trees[index].is_alive())
    }

    /// A program whose first or last process has ended since this was last asked for it; see
    /// [`Worker::status`] and [`Worker::is_alive`].
    pub fn next_changed(&mut self) -> Option<ProgramId> {
        self.trees.next_changed()
    }

    /// Forgets a program of which no process is left, and its status. Nothing is kept of it.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]: it was forgotten before, or is alive; as [`Worker::step`].
    pub fn forget(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.trees.find(program)?;
        if self.trees[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        // Whose end was not told yet: the filter's was told first.
        let left = self.processes.values().filter(|p| p.program == index);
        let left: Vec<_> = left.map(|p| p.pid).collect();
        if !left.is_empty() {
            self.send_letters()?;
        }
        for pid in left {
            self.died(pid)?;
        }
        self.trees.forget(index);
        Ok(())
    }

    /// Sends a signal to the program's first process (kill(2)).
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if it has ended, [`Error::System`] for a bad signal.
    pub fn signal(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let tree = &self.trees[self.trees.find(program)?];
        let process = self.processes.get(&tree.root);
        let process = process.ok_or(Error::NoSuchProgram)?;
        if send_signal(&process.pidfd, signal) < 0 {
            return Err(Error::last("pidfd_send_signal()"));
        }
        self.pulse.hint();
        Ok(())
    }

    /// Sends a signal to the process group that a program in a session of its own has begun with
    /// ([`Program::new_session`]), also if its first process has ended.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if nobody is in that group any more, [`Error::System`] for a bad signal.
    pub fn signal_group(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let index = self.trees.find(program)?;
        // A group has its dead, too, until they have been waited for.
        if !self.trees[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        self.bring_forth_all(index)?;
        let group = self.trees[index].root;
        // SAFETY: takes numbers. As long as one of its members is known, the group can't be another's.
        let is_member = |p: &&Process| unsafe { libc::getpgid(p.pid) } == group;
        let mut members = self.processes.values().filter(|p| p.program == index);
        members.find(is_member).ok_or(Error::NoSuchProgram)?;
        // SAFETY: as above.
        if unsafe { libc::kill(-group, signal) } < 0 {
            return Err(Error::last("kill()"));
        }
        self.pulse.hint();
        Ok(())
    }

    /// Whether a signal has stopped the program's first process since this was last asked; as
    /// `WUNTRACED` of wait(2).
    pub fn has_stopped(&self, program: ProgramId) -> bool {
        let tree = self.trees.find(program).ok();
        let process = tree.and_then(|index| self.processes.get(&self.trees[index].root));
        process.is_some_and(|process| waits_as(&process.pidfd, libc::WSTOPPED).is_some())
    }

    /// Kills all processes of the program and waits until they are gone.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn kill(&mut self, program: ProgramId) -> Result<(), Error> {
        self.trees.find(program)?;
        while self.is_alive(program) {
            self.strike(program)?;
            self.step(Some(Duration::from_millis(10)))?;
        }
        Ok(())
    }

    /// Kills all processes of the program that are known now, and doesn't wait. One that was forking may
    /// leave a child: to be repeated as long as [`Worker::is_alive`].
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn strike(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.trees.find(program)?;
        // Forked, but never heard of: it must be known to be killed.
        self.bring_forth_all(index)?;
        for process in self.processes.values() {
            if process.program == index {
                send_signal(&process.pidfd, libc::SIGKILL);
            }
        }
        self.pulse.hint();
        Ok(())
    }

    /// Lets [`Worker::step`] also return when this descriptor is readable. It must be removed
    /// with [`Worker::ignore`] before it is closed.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn attend_to(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.attend(fd, OUTSIDE)
    }

    /// The same when something can be written to it.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn attend_to_room(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.attend_to_events(fd.as_raw_fd(), libc::EPOLLOUT as u32, OUTSIDE)
    }

    /// Whether a step since this was last asked has found a descriptor ready that it was to attend to.
    pub fn was_called(&mut self) -> bool {
        std::mem::take(&mut self.called)
    }

    /// Undoes [`Worker::attend_to`].
    pub fn ignore(&mut self, fd: BorrowedFd<'_>) {
        self.neglect(fd.as_raw_fd());
    }

    pub(crate) fn neglect(&self, fd: RawFd) {
        // SAFETY: removes a descriptor from a set; the set is open.
        unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                std::ptr::null_mut(),
            )
        };
    }

    /// Waits for something to happen, for `timeout` at most, and handles it. Returns early,
    /// without an error, when a signal handler of this process ran.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the kernel panicked: the worker is of no use any more.
    pub fn step(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.turn.is_some() {
            return self.step_turn(timeout);
        }
        if self.is_due() {
            self.stirred = true;
        }
        self.refresh_rings()?;
        if self.pulse.left().is_some_and(|left| left.is_zero()) {
            self.look_for_signals()?;
        }
        self.settle()?;
        let timeout = loop {
            match self.look_for_mail() {
                Look::Serve => self.serve_mail()?,
                Look::Around => break Some(Duration::ZERO),
                Look::Sleep => break timeout,
            }
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        let again = std::mem::take(&mut self.again);
        let timeout = match again.is_empty() && self.may_sleep()? {
            true => timeout,
            false => Some(Duration::ZERO),
        };
        let count = self.wait_for_events(&mut events, timeout)?;
        self.take_in(&events[..count], again)?;
        // What the callers and others have sent before comes before.
        if !self.heard.is_empty() {
            self.send_letters()?;
        }
        let mut heard = std::mem::take(&mut self.heard);
        for (program, call) in heard.drain(..) {
            self.trapped(program, call)?;
            self.settle()?;
        }
        self.heard = heard;
        self.look_after_carried()?;
        Ok(())
    }

    /// Waits for events, for `limit` at most, and handles all but calls, which are received. How many there were.
    pub(crate) fn catch_events(&mut self, limit: Option<Duration>) -> Result<usize, Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        let again = std::mem::take(&mut self.again);
        let limit = match again.is_empty() {
            true => limit,
            false => Some(Duration::ZERO),
        };
        let count = self.harvest(&mut events, limit)?;
        self.take_in(&events[..count], again)?;
        self.look_after_carried()?;
        Ok(count)
    }

    /// Handles what has happened; calls are only received.
    fn take_in(&mut self, events: &[libc::epoll_event], again: Vec<usize>) -> Result<(), Error> {
        // Deaths come first, after what the dead have sent: what a later call of another process sees must be after them.
        if events.iter().any(|event| event.u64 & !0xffff_ffff == DEATH) {
            self.send_letters()?;
        }
        for event in events {
            if event.u64 & !0xffff_ffff == DEATH {
                let pid = event.u64 as u32 as i32;
                if !self.put_off_end(pid) {
                    self.died(pid)?;
                    self.settle()?;
                }
            }
        }
        if events.iter().any(|event| event.u64 == CARRIED) {
            self.stir_carried();
            self.look_after_carried()?;
            self.settle()?;
        }
        for event in events {
            self.called |= event.u64 == OUTSIDE;
            if event.u64 & !0xffff_ffff == PIPE {
                let tid = event.u64 as u32 as i32;
                if !self.put_off_pipe(tid) {
                    self.pipe_is_ready(tid);
                }
            }
            if event.u64 & !0xffff_ffff == DEVICE {
                self.serve_device(event.u64 as u32 as usize)?;
                self.settle()?;
            }
        }
        for id in again {
            self.serve_device(id)?;
            self.settle()?;
        }
        for event in events {
            if event.u64 & !0xffff_ffff == LISTENER {
                self.hear(event.u64 as u32 as usize, event.events)?;
            }
        }
        Ok(())
    }

    /// Whether other processes that share a wire with this one have nothing for it; what they have is seen to.
    fn may_sleep(&mut self) -> Result<bool, Error> {
        if self.kernel.may_sleep() {
            return Ok(true);
        }
        self.stirred = true;
        self.settle()?;
        Ok(false)
    }

    fn is_due(&self) -> bool {
        self.deadline.is_some_and(|t| t <= self.kernel.now())
    }

    fn wait_for_events(
        &mut self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> Result<usize, Error> {
        let timer = self.deadline.map(|t| {
            let now = self.kernel.now();
            Duration::from_nanos(t.saturating_sub(now))
        });
        let near = self.near.as_mut().and_then(Near::limit);
        let limits = [timer, timeout, self.ring_timeout(), self.pulse.left(), near];
        self.harvest(events, limits.into_iter().flatten().min())
    }

    fn harvest(
        &self,
        events: &mut [libc::epoll_event],
        limit: Option<Duration>,
    ) -> Result<usize, Error> {
        let limit = limit.map(|t| libc::timespec {
            tv_sec: t.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: t.subsec_nanos().into(),
        });
        // SAFETY: room for as many events as said; the timeout lives long enough.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len(),
                limit.as_ref().map_or(null(), |t| t as *const _),
                null::<libc::sigset_t>(),
                0,
            )
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(_) => Err(Error::last("epoll_pwait2()")),
        }
    }

    /// If anything was started, runs the kernel until it is idle and handles all that it has to say.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        while std::mem::take(&mut self.stirred) {
            self.deadline = self.kernel.settle()?;
            self.mark_moment();
            self.heed()?;
        }
        if let Some(mail) = &mut self.mail {
            mail.set_untold(false);
        }
        Ok(())
    }

    /// Handles all that the kernel had to say when it last ran.
    pub(crate) fn heed(&mut self) -> Result<(), Error> {
        self.take_events();
        // A program that learns of its call's end may look at once for what the call brought
        // about elsewhere: all readiness is shown before any answer is sent.
        while let Some((running, outcome)) = self.finished.pop_front() {
            match self.has_turn(running.busy.call.tid) {
                true => self.conclude(running, outcome)?,
                false => self.line_up(running, outcome),
            }
        }
        while let Some(id) = self.woken.pop() {
            self.serve_device(id)?;
        }
        Ok(())
    }

    /// Handles what the kernel has told, oldest first. Whether there was anything.
    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.kernel.next_event() {
            any = true;
            match event {
                Event::Done(task) => self.done(task),
                Event::Ready { cookie, events } => match device::of_cookie(cookie) {
                    Some(id) => self.woken.push(id),
                    None => self.ready(cookie, events),
                },
                Event::Gone { task, .. } => {
                    self.buffers.remove(&task);
                }
            }
        }
        any
    }

    /// A listener has something: a trapped call, or the end of its tree. All calls are received before
    /// one is looked at, since until then a signal can end them.
    fn hear(&mut self, id: usize, events: u32) -> Result<(), Error> {
        let Some(listener) = self.trees[id].listener.clone() else {
            return Ok(());
        };
        if events & libc::EPOLLIN as u32 != 0 {
            let call = listener.receive().map_err(|e| Error::System {
                what: "receiving a seccomp notification",
                errno: e.raw_os_error().unwrap_or(libc::EIO),
            })?;
            self.heard.extend(call.map(|call| (id, call)));
            return Ok(());
        }
        if events & libc::EPOLLHUP as u32 != 0 {
            self.ignore(listener.as_fd());
            if !self.put_off_hang_up(id) {
                self.hang_up(id);
            }
        }
        Ok(())
    }

    /// No process of the program is left.
    pub(crate) fn hang_up(&mut self, id: usize) {
        self.trees[id].listener = None;
        // Nobody is left who lives there.
        self.trees[id].home = None;
        self.trees.has_changed(id);
        self.stir_carried();
        for orphan in std::mem::take(&mut self.trees[id].orphans) {
            self.drop_unborn(orphan);
        }
    }

    /// A process has ended.
    pub(crate) fn died(&mut self, pid: i32) -> Result<(), Error> {
        let Some((pidfd, program)) = self.bury(pid) else {
            return Ok(());
        };
        self.sweep_rings()?;
        self.ignore(pidfd.as_fd());
        if let Some(tracer) = &self.tracer {
            tracer.died(pid);
        }
        // Its parent gets a SIGCHLD.
        let counter = self.turn.as_ref().and_then(|turn| turn.counter.as_ref());
        let traced = counter.map(|counter| counter.end_of(pid));
        let kin = self.turn.as_ref().and_then(|_| target::kin(pid));
        match kin {
            Some((_, parent)) => self.pulse.hint_of(parent),
            None => self.pulse.hint(),
        }
        let status = match traced {
            Some(status) => status.map(Status::of),
            None => reap(&pidfd),
        };
        self.find_orphans(program)?;
        let tree = &mut self.trees[program];
        let first = tree.home.as_ref().and_then(|home| home.first());
        if first.is_some() && kin.map(|(_, parent)| parent) == first {
            await_reaping(&pidfd);
        }
        if tree.root == pid {
            tree.status = status.or(Some(Status::Exited(0)));
            tree.failure = tree.shared.take().and_then(|s| s.exec_failure());
            self.trees.has_changed(program);
        } else if status.is_none() && self.turn.is_none() {
            self.zombies.push(pidfd);
        }
        // Orphaned zombies have become ours. (In virtual time they are the first process's of their machine.)
        self.zombies
            .retain(|z| send_signal(z, 0) == 0 && reap(z).is_none());
        Ok(())
    }

    pub(crate) fn attend(&self, fd: BorrowedFd<'_>, tag: u64) -> Result<(), Error> {
        self.attend_to_events(fd.as_raw_fd(), libc::EPOLLIN as u32, tag)
    }

    /// Has this told (`EPOLL*`), until it is neglected.
    pub(crate) fn attend_to_events(&self, fd: RawFd, events: u32, tag: u64) -> Result<(), Error> {
        let mut event = libc::epoll_event { events, u64: tag };
        // SAFETY: adds an open descriptor with a structure that outlives the call.
        let done =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        match done {
            0 => Ok(()),
            _ => Err(Error::last("epoll_ctl(EPOLL_CTL_ADD)")),
        }
    }

    pub(crate) fn attend_death(&self, pidfd: BorrowedFd<'_>, pid: i32) -> Result<(), Error> {
        self.attend(pidfd, DEATH | pid as u64)
    }

    /// A watched file has become ready: whoever waits natively must see it.
    fn ready(&mut self, cookie: u64, events: u32) {
        let Some(file) = self.files.get(&cookie).and_then(Weak::upgrade) else {
            self.files.remove(&cookie);
            return;
        };
        file.placeholder.happens(events, file.followed.get());
        self.call_watchers(cookie);
        if file.owned.get() {
            self.pulse.hint();
        }
    }

    /// What is true of a Vink file now (`EPOLL*`), asked on a task that has it and no call in
    /// progress. From now on every change is told. What was told before is shown before: this is newer.
    pub(crate) fn watch(&mut self, task: TaskId, entry: &Entry) -> Result<u32, Error> {
        let mut result = match entry.file.cookie.get() {
            0 => self.begin_to_watch(task, entry)?,
            _ => self.poll_kernel(task, entry)?,
        };
        // The kernel may have told of the same file in that run, before its answer or after it.
        while result >= 0 && self.take_events() {
            result = self.poll_kernel(task, entry)?;
        }
        // A file that can't be watched is as one that is always ready: a call will tell.
        Ok(u32::try_from(result).unwrap_or((libc::EPOLLIN | libc::EPOLLOUT) as u32))
    }

    fn poll_kernel(&mut self, task: TaskId, entry: &Entry) -> Result<i64, Error> {
        let args = [entry.number as u64, 0, 0, 0, 0, 0];
        self.call(task, vink_abi::VINK_CALL_POLL.into(), args)
    }

    fn begin_to_watch(&mut self, task: TaskId, entry: &Entry) -> Result<i64, Error> {
        self.last_cookie += 1;
        // Each time that it has grown to twice what lived last time.
        if self.files.len() >= self.most_files {
            self.files.retain(|_, file| file.strong_count() > 0);
            self.most_files = 2 * self.files.len() + 64;
        }
        let file = Rc::downgrade(&entry.file);
        self.files.insert(self.last_cookie, file);
        let args = [
            entry.number as u64,
            self.last_cookie,
            WATCHED.into(),
            0,
            0,
            0,
        ];
        let result = self.call(task, vink_abi::VINK_CALL_WATCH.into(), args)?;
        if result >= 0 {
            entry.file.cookie.set(self.last_cookie);
        }
        Ok(result)
    }
}

impl AsRawFd for Worker {
    /// Readable when [`Worker::step`] has something to do other than what its clocks tell: the kernel's
    /// timers, and looking for signals while calls wait.
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The kernel may be dead: only the host is asked.
        for id in 0..self.trees.len() {
            for _ in 0..100 {
                for child in self.unknown_children(id) {
                    // SAFETY: takes numbers; the process is a child of one that is still there.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                }
                for process in self.processes.values().filter(|p| p.program == id) {
                    send_signal(&process.pidfd, libc::SIGKILL);
                }
                let Some(listener) = &self.trees[id].listener else {
                    break;
                };
                if has_hung_up(listener.as_fd()) {
                    break;
                }
            }
        }
        for process in self.processes.values() {
            wait_for_end(&process.pidfd);
            reap(&process.pidfd);
        }
    }
}

/// The guardian, from when there is something to guard.
fn guardian(place: &mut Option<Guardian>) -> Result<&Guardian, Error> {
    Ok(match place {
        Some(guardian) => guardian,
        none => none.insert(Guardian::start()?),
    })
}

/// pidfd_send_signal(2).
pub(crate) fn send_signal(pidfd: &OwnedFd, signal: i32) -> libc::c_long {
    // SAFETY: takes numbers and a null pointer.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            null::<libc::siginfo_t>(),
            0,
        )
    }
}

/// Takes the status of a dead child; `None` if it is someone else's child, or not dead.
pub(crate) fn reap(pidfd: &OwnedFd) -> Option<Status> {
    let info = waits_as(pidfd, libc::WEXITED)?;
    // SAFETY: waitid() has filled in the fields of a child's end.
    let status = unsafe { info.si_status() };
    Some(match info.si_code {
        libc::CLD_EXITED => Status::Exited(status),
        _ => Status::Killed(status),
    })
}

/// What waitid(2) has to tell of a child.
fn waits_as(pidfd: &OwnedFd, what: i32) -> Option<libc::siginfo_t> {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure.
    let done = unsafe {
        libc::waitid(
            libc::P_PIDFD,
            pidfd.as_raw_fd() as libc::id_t,
            &mut info,
            what | libc::WNOHANG,
        )
    };
    // SAFETY: waitid() has filled in the child's number, or left a zero.
    (done == 0 && unsafe { info.si_pid() } != 0).then_some(info)
}

/// Waits a little for the last process under a filter to go.
fn has_hung_up(listener: BorrowedFd<'_>) -> bool {
    let mut fd = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one structure, as said.
    unsafe { libc::poll(&mut fd, 1, 10) > 0 }
}

/// Waits for a process that has been killed.
pub(crate) fn wait_for_end(pidfd: &OwnedFd) {
    let mut fd = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // A killed process that does not go (it may hang in a driver) must not hold us up for ever.
    // SAFETY: one structure, as said.
    unsafe { libc::poll(&mut fd, 1, 1000) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_kernel::{find_image, Config, Image};

    const IN: u32 = libc::EPOLLIN as u32;

    /// A worker whose machine has its loopback interface up, and a task.
    fn worker() -> (Worker, TaskId) {
        let built = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../build/libvink-linux-6.12.so"
        );
        let path = find_image().unwrap_or_else(|_| built.into());
        let mut kernel = Kernel::boot(Image::open(&path).unwrap(), Config::default()).unwrap();
        let machine = kernel.machine("m").unwrap();
        let task = kernel.task(machine).unwrap();
        (Worker::new(kernel).unwrap(), task)
    }

    fn call(w: &mut Worker, task: TaskId, nr: i64, args: [u64; 6]) -> i64 {
        w.kernel().call(task, nr, args).unwrap()
    }

    #[test]
    fn an_older_readiness_is_not_shown_after_a_newer_answer() {
        let (mut w, task) = worker();
        let mut ends = [-1i32; 2];
        let kind = libc::SOCK_DGRAM as u64;
        let args = [
            libc::AF_UNIX as u64,
            kind,
            0,
            ends.as_mut_ptr() as u64,
            0,
            0,
        ];
        assert_eq!(call(&mut w, task, libc::SYS_socketpair, args), 0);
        let file = File::new().unwrap();
        let number = ends[0];
        let entry = Entry { file, number };
        let (full, empty) = ([number as u64, 1], [ends[1] as u64, 1]);
        let mut byte = [0u8];
        let at = byte.as_mut_ptr() as u64;
        let transfer = |w: &mut Worker, nr, [fd, len]: [u64; 2]| {
            assert_eq!(call(w, task, nr, [fd, at, len, 0, 0, 0]), 1);
        };
        let events = w.watch(task, &entry).unwrap();
        entry.file.placeholder.show(events);
        w.settle().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // That it is readable has been told, but not been looked at.
        transfer(&mut w, libc::SYS_write, empty);
        transfer(&mut w, libc::SYS_read, full);
        let events = w.watch(task, &entry).unwrap();
        assert_eq!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.settle().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // And the other way round: it is told, and still so.
        transfer(&mut w, libc::SYS_write, empty);
        let events = w.watch(task, &entry).unwrap();
        assert_ne!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.settle().unwrap();
        assert_ne!(entry.file.placeholder.shown() & IN, 0);
    }

    #[test]
    fn a_file_that_could_not_be_watched_is_watched_later() {
        let (mut w, task) = worker();
        let socket = [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0];
        let number = call(&mut w, task, libc::SYS_socket, socket) as i32;
        let file = File::new().unwrap();
        let entry = Entry { file, number };
        let limit = |w: &mut Worker, most: u64| {
            let limit = [most, 4096];
            let at = (&raw const limit) as u64;
            let args = [0, libc::RLIMIT_NOFILE.into(), at, 0, 0, 0];
            assert_eq!(call(w, task, libc::SYS_prlimit64, args), 0);
        };
        // The watch takes a descriptor for a moment.
        limit(&mut w, number as u64 + 1);
        assert_ne!(w.watch(task, &entry).unwrap() & IN, 0);
        assert_eq!(entry.file.cookie.get(), 0);
        limit(&mut w, 64);
        assert_eq!(w.watch(task, &entry).unwrap() & IN, 0);
        assert_ne!(entry.file.cookie.get(), 0);
    }
}
