//! The worker: a kernel, the programs trapped for it, and the event loop between them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use vink_abi::Counters;
use vink_kernel::{Credentials, Kernel, MachineId, Numbered};
use vink_sys::pidfd::{child_event, send_signal};
use vink_sys::poll::events_of;
use vink_sys::process::{getpgid, kill};
use vink_sys::rseq;
use vink_sys::signals::{is_ignored, Action};

use crate::filter::Purpose;
use crate::guardian::Guardian;
use crate::namespaces::{MountPlan, NamespaceConfig, Namespaces};
use crate::notify::Listener;
use crate::pids::open_pidfd;
use crate::process::Process;
use crate::program_table::{ProgramEntry, ProgramId};
use crate::reactor::Token;
use crate::sched::determinism::ld_so::LdSo;
use crate::sched::{Clock, Scheduler, VirtualTime};
use crate::spawn::{spawn, NamespaceSource, Program, Spawned};
use crate::statistics::Statistics;
use crate::status::{reap, wait_for_end, Status};
use crate::supervisor::Supervisor;
use crate::trace::subscriber::TraceSubscriber;
use crate::trace::Tracer;
use crate::Error;

/// Owns a [`Kernel`] and serves any number of programs on its machines. Stays on one thread; when
/// it is dropped, all its programs are killed. If it can't be, since its process is killed, the
/// host's kernel kills them: they live in PID namespaces that end with it.
pub struct Worker {
    pub(crate) supervisor: Supervisor,
    /// What each machine is on the host, and its namespaces from the first program on.
    namespaces: Numbered<MachineId, HostSide>,
    /// There from when there are helpers.
    guardian: Option<Guardian>,
}

/// A machine on the host. Programs with other credentials have other namespaces, in which they are
/// out of one another's reach: else a program could trace one that may do more.
#[derive(Default)]
struct HostSide {
    mounts: MountPlan,
    made: Vec<(Credentials, Rc<Namespaces>)>,
}

impl HostSide {
    fn namespaces(&self, credentials: Credentials) -> Option<&Rc<Namespaces>> {
        let found = self.made.iter().find(|(has, _)| *has == credentials);
        found.map(|(_, namespaces)| namespaces)
    }
}

impl Worker {
    /// A worker around a booted kernel. Raises this process's descriptor limit as far as it goes.
    ///
    /// # Errors
    /// [`Error::System`] if epoll_create1(2) fails.
    pub fn new(kernel: Kernel) -> Result<Worker, Error> {
        // Inherited as ignored, it would make children leave no status.
        if is_ignored(libc::SIGCHLD) {
            let _ = Action::DEFAULT.set(libc::SIGCHLD);
        }
        // This thread waits once for each call that is trapped.
        rseq::unregister();
        let clock = match kernel.clock() {
            vink_kernel::Clock::Real => Clock::Real,
            vink_kernel::Clock::Virtual => {
                Clock::Virtual(Box::new(Scheduler::new(VirtualTime::default())?))
            }
        };
        Ok(Worker {
            supervisor: Supervisor::new(kernel, clock)?,
            namespaces: Numbered::default(),
            guardian: None,
        })
    }

    /// The kernel, to make machines and to configure them. Programs stand still meanwhile. Events
    /// of tasks that the caller starts calls on are taken by the worker: use `Kernel::call`.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.supervisor.calls.tasks.kernel.dirty = true;
        &mut self.supervisor.calls.tasks.kernel
    }

    /// The kernel's counters.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        Ok(self.supervisor.calls.tasks.kernel.counters()?)
    }

    /// How many processes and threads of programs it keeps account of, and how many tasks it has
    /// for them: none when no program is left.
    pub fn object_counts(&self) -> [usize; 3] {
        self.supervisor.calls.tasks.table.counts()
    }

    /// What was counted so far.
    pub fn statistics(&self) -> &Statistics {
        &self.supervisor.statistics
    }

    /// Writes a line for each system call that programs started from now on make and that concerns
    /// Vink, when it ends; with `host_too` also for those that were trapped and passed through. The
    /// thread, the arguments, the result and how long it took are shown as strace(1) does it;
    /// Vink's descriptors as `3<vink>`.
    pub fn trace_calls(&mut self, to: Box<dyn io::Write>, host_too: bool) {
        self.change_tracer(|tracer| tracer.write_to(to, host_too));
    }

    /// Reports each trapped call that programs started from now on make, when it has ended, with
    /// its thread. It costs time, for arguments are read from the program's memory.
    pub fn subscribe_to_calls(&mut self, subscriber: TraceSubscriber) {
        self.change_tracer(|tracer| tracer.subscribe(subscriber));
    }

    /// Before there are listeners that have it.
    fn change_tracer(&mut self, change: impl FnOnce(Tracer) -> Tracer) {
        let tracer = self
            .supervisor
            .tracer
            .take()
            .and_then(|t| Rc::try_unwrap(t).ok());
        self.supervisor.tracer = Some(Rc::new(change(tracer.unwrap_or_default())));
    }

    /// Says how programs on a machine see the system around them. Those that run already see no
    /// change, and share nothing with later ones.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub fn configure_namespaces(
        &mut self,
        machine: MachineId,
        config: &NamespaceConfig,
    ) -> Result<(), Error> {
        let side = HostSide {
            mounts: config.plan()?,
            made: Vec::new(),
        };
        self.namespaces.insert(machine, side);
        Ok(())
    }

    /// Gives up a machine, and what its programs saw of it on the host. It ends with its last
    /// program and socket.
    ///
    /// # Errors
    /// [`Error::Kernel`]: there is no such machine.
    pub fn destroy_machine(&mut self, machine: MachineId) -> Result<(), Error> {
        self.kernel().destroy_machine(machine)?;
        self.namespaces.remove(&machine);
        Ok(())
    }

    /// Starts a program on a machine. It gets going when the worker is next stepped.
    ///
    /// # Errors
    /// [`Error::System`] if the host refuses a namespace or the filter, [`Error::Namespaces`]. If
    /// the program's file can't be executed, [`Worker::wait`] fails.
    pub fn spawn(&mut self, machine: MachineId, program: Program) -> Result<ProgramId, Error> {
        let nofile = self.supervisor.calls.fd_limit.before();
        self.supervisor.placement.before_spawn();
        let credentials = program.its_credentials();
        let side = self.namespaces.entry(machine).or_default();
        let source = match side.namespaces(credentials) {
            Some(namespaces) => NamespaceSource::Join(namespaces),
            None => NamespaceSource::New(&side.mounts),
        };
        let Spawned {
            pid,
            pidfd,
            listener,
            shared,
            namespaces,
        } = match (
            self.supervisor.placement.has_rings(),
            self.supervisor.calls.clock.virtual_time(),
        ) {
            (has_rings, Some(sched)) => {
                let linker = LdSo::expected();
                let purpose = match has_rings {
                    true => Purpose::TimeAndSharedRing(linker),
                    false => Purpose::Time(linker),
                };
                let counter = sched.tsc.as_ref();
                spawn(&program, nofile, source, purpose, counter)?
            }
            (true, None) => self
                .supervisor
                .placement
                .lend(|| spawn(&program, nofile, source, Purpose::SharedRing, None))?,
            (false, None) => spawn(&program, nofile, source, Purpose::Plain, None)?,
        };
        if let Some(namespaces) = namespaces {
            side.made.push((credentials, Rc::new(namespaces)));
        }
        let namespaces = side.namespaces(credentials).cloned();
        let id = self.supervisor.calls.tasks.programs.next();
        let listener = Listener::new(listener, self.supervisor.tracer.clone())?;
        self.supervisor
            .calls
            .reactor
            .add_readable(listener.as_fd().as_raw_fd(), Token::Listener(id))?;
        let name = self.supervisor.calls.tasks.programs.add(ProgramEntry {
            name: program.name().to_string_lossy().into_owned(),
            machine,
            credentials,
            namespaces,
            listener: Some(Rc::new(listener)),
            root: pid,
            start_page: Some(shared),
            status: None,
            failure: None,
            orphans: Vec::new(),
        });
        self.supervisor
            .calls
            .tasks
            .networks
            .register_machine(machine, pid);
        self.supervisor.calls.tasks.add_process(
            &self.supervisor.calls.reactor,
            id,
            pid,
            pidfd,
            None,
        )?;
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched
                .shared
                .note_standard_fds(machine, program.descriptors());
            sched.process_started(pid);
        }
        if let Some(mut virtual_worker) = self.supervisor.virtual_time() {
            virtual_worker.begin(pid)?;
        }
        Ok(name)
    }

    /// Has a child of this process, which has not been waited for, killed too if this process is
    /// killed: one that helps the worker, and may not notice.
    ///
    /// # Errors
    /// [`Error::System`] as fork(2), pidfd_open(2).
    pub fn guard_helper(&mut self, helper: &Child) -> Result<(), Error> {
        let pidfd = open_pidfd(helper.id() as i32)?;
        guardian(&mut self.guardian)?.add_helper(pidfd.as_fd());
        Ok(())
    }

    /// How the program's first process ended; `None` while it runs. What it started may run on.
    ///
    /// # Errors
    /// [`Error::CannotRun`] if it was never executed, [`Error::NoSuchProgram`].
    pub fn status(&self, program: ProgramId) -> Result<Option<Status>, Error> {
        let entry = &self.supervisor.calls.tasks.programs
            [self.supervisor.calls.tasks.programs.find(program)?];
        match (entry.status, entry.failure) {
            (Some(_), Some(errno)) => Err(Error::CannotRun {
                program: entry.name.clone(),
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

    /// Serves all programs until the condition holds; it is evaluated after each step.
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
        let entry = self.supervisor.calls.tasks.programs.find(program);
        entry.is_ok_and(|index| self.supervisor.calls.tasks.programs[index].is_alive())
    }

    /// A program whose first or last process has ended since this was last asked for it; see
    /// [`Worker::status`] and [`Worker::is_alive`].
    pub fn next_changed(&mut self) -> Option<ProgramId> {
        self.supervisor.calls.tasks.programs.next_changed()
    }

    /// Forgets a program of which no process is left, and its status. Nothing is kept of it.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]: it was forgotten before, or is alive; as [`Worker::step`].
    pub fn forget(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.supervisor.calls.tasks.programs.find(program)?;
        if self.supervisor.calls.tasks.programs[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        // Processes whose end has not been received yet: the filter's came first.
        let left = self.supervisor.calls.tasks.table.processes_in(index);
        let left: Vec<_> = left.map(|p| p.pid).collect();
        if !left.is_empty() {
            self.supervisor.send_deferred()?;
        }
        for pid in left {
            self.supervisor.on_process_exit(pid)?;
        }
        self.supervisor.calls.tasks.programs.forget(index);
        Ok(())
    }

    /// Sends a signal to the program's first process (kill(2)).
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if it has ended, [`Error::System`] for a bad signal.
    pub fn signal(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let entry = &self.supervisor.calls.tasks.programs
            [self.supervisor.calls.tasks.programs.find(program)?];
        let process = self.supervisor.calls.tasks.table.find_process(entry.root);
        let process = process.ok_or(Error::NoSuchProgram)?;
        send_signal(&process.pidfd, signal).map_err(Error::of("pidfd_send_signal()"))?;
        let machine = process.machine;
        self.supervisor.calls.note_signal_from_outside(machine);
        Ok(())
    }

    /// Sends a signal to the process group that a program in a session of its own has begun with
    /// ([`Program::new_session`]), also if its first process has ended.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if no process is in that group any more, [`Error::System`] for a
    /// bad signal.
    pub fn signal_group(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let index = self.supervisor.calls.tasks.programs.find(program)?;
        // A group has its dead, too, until they have been waited for.
        if !self.supervisor.calls.tasks.programs[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        self.supervisor
            .calls
            .tasks
            .resolve_all_forks(&self.supervisor.calls.reactor, index)?;
        let group = self.supervisor.calls.tasks.programs[index].root;
        // As long as one of its members is known, the group can't be another's.
        let is_member = |p: &Process| getpgid(p.pid) == group;
        let mut processes = self.supervisor.calls.tasks.table.processes();
        let member = processes.find(|p| p.program == index && is_member(p));
        let machine = member.map(|member| member.machine);
        drop(processes);
        let machine = machine.ok_or(Error::NoSuchProgram)?;
        kill(-group, signal).map_err(Error::of("kill()"))?;
        self.supervisor.calls.note_signal_from_outside(machine);
        Ok(())
    }

    /// Whether a signal has stopped the program's first process since this was last asked; as
    /// `WUNTRACED` of wait(2).
    pub fn has_stopped(&self, program: ProgramId) -> bool {
        let entry = self.supervisor.calls.tasks.programs.find(program).ok();
        let process = entry.and_then(|index| {
            self.supervisor
                .calls
                .tasks
                .table
                .find_process(self.supervisor.calls.tasks.programs[index].root)
        });
        process.is_some_and(|process| child_event(&process.pidfd, libc::WSTOPPED).is_some())
    }

    /// Kills all processes of the program and waits until they are gone.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn kill(&mut self, program: ProgramId) -> Result<(), Error> {
        self.supervisor.calls.tasks.programs.find(program)?;
        while self.is_alive(program) {
            self.kill_known(program)?;
            self.step(Some(Duration::from_millis(10)))?;
        }
        Ok(())
    }

    /// Kills all processes of the program that are known now, and doesn't wait. One that was
    /// forking may leave a child: to be repeated as long as [`Worker::is_alive`].
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn kill_known(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.supervisor.calls.tasks.programs.find(program)?;
        // A child that has made no call yet must be known to be killed.
        self.supervisor
            .calls
            .tasks
            .resolve_all_forks(&self.supervisor.calls.reactor, index)?;
        if let Some(mut time) = self.supervisor.virtual_time() {
            return time.kill_in_order(index);
        }
        for process in self.supervisor.calls.tasks.table.processes() {
            if process.program == index {
                let _ = send_signal(&process.pidfd, libc::SIGKILL);
            }
        }
        self.supervisor.calls.signals.hint();
        Ok(())
    }

    /// Lets [`Worker::step`] also return when this descriptor is readable. It must be removed
    /// with [`Worker::unwatch_fd`] before it is closed.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn watch_fd(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.supervisor
            .calls
            .reactor
            .add_readable(fd.as_raw_fd(), Token::Caller)
    }

    /// The same when something can be written to it.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn watch_fd_writable(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let writable = libc::EPOLLOUT as u32;
        self.supervisor
            .calls
            .reactor
            .add(fd.as_raw_fd(), writable, Token::Caller)
    }

    /// Whether a watched descriptor was ready in a step since this was last called.
    pub fn take_fd_ready(&mut self) -> bool {
        std::mem::take(&mut self.supervisor.caller_fd_ready)
    }

    /// Undoes [`Worker::watch_fd`].
    pub fn unwatch_fd(&mut self, fd: BorrowedFd<'_>) {
        self.supervisor.calls.reactor.remove(fd.as_raw_fd());
    }

    /// Waits for something to happen, for `timeout` at most, and handles it. Returns early,
    /// without an error, when a signal handler of this process ran.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the kernel panicked: the worker is of no use any more.
    pub fn step(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        self.supervisor.step(timeout)
    }
}

impl AsRawFd for Worker {
    /// Readable when [`Worker::step`] has something to do other than what its clocks tell, of which it
    /// may be readable, too: the kernel's timers, and looking for signals while calls wait.
    fn as_raw_fd(&self) -> RawFd {
        self.supervisor.calls.reactor.as_raw_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The kernel may be dead: only the host is asked.
        for id in 0..self.supervisor.calls.tasks.programs.len() {
            for _ in 0..100 {
                for child in self.supervisor.calls.tasks.table.unknown_children(id) {
                    // The process is a child of one that is still there.
                    let _ = kill(child, libc::SIGKILL);
                }
                for process in self
                    .supervisor
                    .calls
                    .tasks
                    .table
                    .processes()
                    .filter(|p| p.program == id)
                {
                    let _ = send_signal(&process.pidfd, libc::SIGKILL);
                }
                let Some(listener) = &self.supervisor.calls.tasks.programs[id].listener else {
                    break;
                };
                if has_hung_up(listener.as_fd()) {
                    break;
                }
            }
        }
        for process in self.supervisor.calls.tasks.table.processes() {
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

/// Waits a little for the last process under a filter to go.
fn has_hung_up(listener: BorrowedFd<'_>) -> bool {
    events_of(listener.as_raw_fd(), 0, 10) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd_table::Entry;
    use crate::file::File;
    use vink_kernel::{find_image, Config, Image, TaskId};

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
        let file = File::new(i32::MAX).unwrap();
        let number = ends[0];
        let entry = Entry { file, number };
        let (full, empty) = ([number as u64, 1], [ends[1] as u64, 1]);
        let mut byte = [0u8];
        let at = byte.as_mut_ptr() as u64;
        let transfer = |w: &mut Worker, nr, [fd, len]: [u64; 2]| {
            assert_eq!(call(w, task, nr, [fd, at, len, 0, 0, 0]), 1);
        };
        let events = w.supervisor.calls.watch_readiness(task, &entry).unwrap();
        entry.file.placeholder.show(events);
        w.supervisor.run_kernel().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // That it is readable is an event, which has not been handled.
        transfer(&mut w, libc::SYS_write, empty);
        transfer(&mut w, libc::SYS_read, full);
        let events = w.supervisor.calls.watch_readiness(task, &entry).unwrap();
        assert_eq!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.supervisor.run_kernel().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // And the other way round: the event has been handled, and it is still true.
        transfer(&mut w, libc::SYS_write, empty);
        let events = w.supervisor.calls.watch_readiness(task, &entry).unwrap();
        assert_ne!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.supervisor.run_kernel().unwrap();
        assert_ne!(entry.file.placeholder.shown() & IN, 0);
    }

    #[test]
    fn a_file_that_could_not_be_watched_is_watched_later() {
        let (mut w, task) = worker();
        let socket = [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0];
        let number = call(&mut w, task, libc::SYS_socket, socket) as i32;
        let file = File::new(i32::MAX).unwrap();
        let entry = Entry { file, number };
        let limit = |w: &mut Worker, most: u64| {
            let limit = [most, 4096];
            let at = (&raw const limit) as u64;
            let args = [0, libc::RLIMIT_NOFILE.into(), at, 0, 0, 0];
            assert_eq!(call(w, task, libc::SYS_prlimit64, args), 0);
        };
        // The watch takes a descriptor for a moment.
        limit(&mut w, number as u64 + 1);
        assert_ne!(
            w.supervisor.calls.watch_readiness(task, &entry).unwrap() & IN,
            0
        );
        assert_eq!(entry.file.cookie.get(), 0);
        limit(&mut w, 64);
        assert_eq!(
            w.supervisor.calls.watch_readiness(task, &entry).unwrap() & IN,
            0
        );
        assert_ne!(entry.file.cookie.get(), 0);
    }
}
