//! Starting a program: its machine's namespaces, the filter, the listener's way to the worker.
//!
//! The child prepares itself between fork and exec with nothing but async-signal-safe calls. Once
//! the filter is in force its own write(2) and sendmsg(2) are trapped, so it tells the listener's
//! number through a shared page and a futex, and the worker fetches it with pidfd_getfd(2).

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::Arc;

use vink_kernel::Credentials;
use vink_sys::errno;
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::pidfd::copy_fd;
use vink_sys::process::{
    exit_now, fix_addresses, getegid, geteuid, kill, set_limit, unshare, waitpid,
};
use vink_sys::rustix;
use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::fcntl_dupfd_cloexec;
use vink_sys::rustix::process::{
    chdir, ioctl_tiocsctty, set_parent_process_death_signal, setsid, Signal,
};
use vink_sys::rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use vink_sys::rustix::thread::{
    capabilities, configure_capability_in_ambient_set, move_into_link_name_space,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, CapabilitySet,
    LinkNameSpaceType,
};
use vink_sys::signals::{mask, Action, Mask, SignalSet};

use crate::filter::{self, Purpose};
use crate::namespaces::{FailedStep, MountPlan, Namespaces};
use crate::pids::{arguments, fork_into_pidns, has_ended, open_pidfd, CloneResult, InitProcess};
use crate::sched::determinism::tsc::{self, VirtualTsc};
use crate::Error;

/// One of the three standard descriptors of a program.
#[derive(Debug, Default)]
pub enum Stdio {
    /// The worker's own.
    #[default]
    Inherit,
    /// `/dev/null`.
    Null,
    /// This one, a pipe's end for example.
    Fd(OwnedFd),
}

/// A program to be started, like [`std::process::Command`].
#[derive(Debug)]
pub struct Program {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    stdio: [Stdio; 3],
    session: bool,
    terminal: bool,
    credentials: Credentials,
}

impl Program {
    /// A program named by its path, or by its name alone to be looked for in the `PATH` of its
    /// environment. It has the worker's environment, directory and standard descriptors.
    pub fn new(name: impl AsRef<OsStr>) -> Program {
        Program {
            argv: vec![name.as_ref().to_owned()],
            env: std::env::vars_os().collect(),
            cwd: None,
            stdio: Default::default(),
            session: false,
            terminal: false,
            credentials: Credentials::ROOT,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Program {
        self.argv.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Program {
        self.argv
            .extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Its standard descriptors, as this process has them; -1: none.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        [0, 1, 2].map(|number: i32| match &self.stdio[number as usize] {
            Stdio::Inherit => number,
            Stdio::Null => -1,
            Stdio::Fd(fd) => fd.as_raw_fd(),
        })
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Program {
        self.env.retain(|(k, _)| k != key.as_ref());
        self.env
            .push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Has the dynamic loader load a library, after those that the environment has it load:
    /// `LD_PRELOAD`.
    pub fn preload(self, library: impl AsRef<OsStr>) -> Program {
        let mut all = self.variable("LD_PRELOAD").unwrap_or_default().to_owned();
        if !all.is_empty() {
            all.push(":");
        }
        all.push(library);
        self.env("LD_PRELOAD", all)
    }

    /// Starts with no environment variables.
    pub fn env_clear(mut self) -> Program {
        self.env.clear();
        self
    }

    /// Starts in this directory.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Program {
        self.cwd = Some(dir.into());
        self
    }

    /// Sets the standard input.
    pub fn stdin(mut self, stdin: Stdio) -> Program {
        self.stdio[0] = stdin;
        self
    }

    /// Sets the standard output.
    pub fn stdout(mut self, stdout: Stdio) -> Program {
        self.stdio[1] = stdout;
        self
    }

    /// Sets the standard error output.
    pub fn stderr(mut self, stderr: Stdio) -> Program {
        self.stdio[2] = stderr;
        self
    }

    /// Starts in a session of its own (setsid(2)), away from the worker's terminal and its signals.
    pub fn new_session(mut self) -> Program {
        self.session = true;
        self
    }

    /// Starts in a session of its own whose controlling terminal is its standard input (`TIOCSCTTY`
    /// of ioctl_tty(2)), which must be a terminal of no other session: a shell has job control
    /// there.
    pub fn terminal(mut self) -> Program {
        self.session = true;
        self.terminal = true;
        self
    }

    /// What it may do on its machine, with all that it starts: [`Credentials::ROOT`] unless said
    /// otherwise. A machine's programs share the machine's namespaces on the host with those of the
    /// same credentials: others they can neither name nor trace.
    pub fn credentials(mut self, credentials: Credentials) -> Program {
        self.credentials = credentials;
        self
    }

    pub(crate) fn its_credentials(&self) -> Credentials {
        self.credentials
    }

    /// As it was named.
    pub fn name(&self) -> &OsStr {
        &self.argv[0]
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_os_str())
    }

    /// The paths to try, in order, as execvp(3) does.
    fn candidates(&self) -> Vec<PathBuf> {
        let name = Path::new(&self.argv[0]);
        if name.as_os_str().as_bytes().contains(&b'/') {
            return vec![name.to_owned()];
        }
        let path = self
            .variable("PATH")
            .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
        std::env::split_paths(path)
            .map(|dir| dir.join(name))
            .collect()
    }
}

/// Shared memory between the worker and the child until it executes.
#[repr(C)]
struct Page {
    cloned: CloneResult,
    /// One of the constants below; a futex.
    state: AtomicU32,
    /// The listener's number, or an errno.
    value: AtomicI32,
    /// What failed: an index into [`STEPS`], or [`MOUNTING`] and more.
    step: AtomicU32,
}

const PREPARING: u32 = 0;
const LISTENING: u32 = 1;
const TAKEN: u32 = 2;
const FAILED: u32 = 3;
const NOT_EXECUTED: u32 = 4;
/// It is in a user namespace without id maps, which only the worker may write.
const UNMAPPED: u32 = 5;

/// The child's steps that can fail, for messages.
const STEPS: [&str; 14] = [
    "starting a program: setsid() or dup2() of its standard descriptors",
    "changing to the program's directory",
    "unshare(CLONE_NEWNS | CLONE_NEWPID): making the machine's namespaces on the host",
    "unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID): making the machine's namespaces on the host \
     without root (are user namespaces allowed here?)",
    "writing the user namespace's id maps",
    "prctl(PR_SET_NO_NEW_PRIVS)",
    "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) (needs Linux 5.19; \
     a program can't be trapped twice)",
    "setns(): joining the machine's namespaces on the host",
    "prctl(PR_CAP_AMBIENT): keeping the capabilities that a program has on its machine",
    "ioctl(TIOCSCTTY): making the program's standard input its terminal",
    "clone(CLONE_PARENT) in the machine's PID namespace",
    "personality(ADDR_NO_RANDOMIZE): the same addresses in each run, for virtual time",
    "prctl(PR_SET_TSC): the virtual clock in the processor's time stamp counter",
    "unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS): making the namespaces that the \
     machine's programs own (are user namespaces allowed here?)",
];

const PAGE: usize = 4096;

/// From here on the step is one of the mount plan's: the name, the mounts' privacy, `/proc`, each
/// mount.
const MOUNTING: u32 = 100;

/// The shared page, mapped.
pub(crate) struct StartPage(Mapping);

impl StartPage {
    fn new() -> Result<StartPage, Error> {
        let map = || {
            let mapping = Mapping::new(PAGE)?;
            let zeroes = File::options().read(true).write(true).open("/dev/zero")?;
            mapping.replace(0..PAGE, Pages::Shared(zeroes.as_fd(), 0))?;
            Ok(StartPage(mapping))
        };
        map().map_err(Error::of("mmap() of a page shared with the program"))
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as self lives, zeroed at first, and made of atomics only.
        unsafe { &*self.0.start().cast() }
    }

    /// Why the program was never executed: an errno.
    pub(crate) fn exec_failure(&self) -> Option<i32> {
        let page = self.page();
        let failed = page.state.load(Ordering::Acquire) == NOT_EXECUTED;
        failed.then(|| page.value.load(Ordering::Relaxed))
    }
}

impl Page {
    fn tell(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        self.futex(libc::FUTEX_WAKE, 1, None);
    }

    /// Waits until the state is not `from`, or for a tenth of a second.
    fn wait(&self, from: u32) -> u32 {
        let limit = libc::timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        if self.state.load(Ordering::Acquire) == from {
            self.futex(libc::FUTEX_WAIT, from, Some(&limit));
        }
        self.state.load(Ordering::Acquire)
    }

    /// futex(2) by the state, as the filter lets it pass.
    fn futex(&self, what: i32, value: u32, limit: Option<&libc::timespec>) {
        let limit = limit.map_or(null(), std::ptr::from_ref);
        let own = filter::OWN_FUTEX;
        // SAFETY: an atomic that both sides have mapped, and a limit that is null or lives here.
        unsafe { libc::syscall(libc::SYS_futex, &self.state, what, value, limit, 0, own) };
    }
}

/// A program on its way to exec: it needs its listener served to get there.
pub(crate) struct Spawned {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) listener: OwnedFd,
    pub(crate) shared: StartPage,
    /// What it has made, if it is the first program of its machine.
    pub(crate) namespaces: Option<Namespaces>,
}

/// Where a program lives.
#[derive(Clone, Copy)]
pub(crate) enum NamespaceSource<'a> {
    /// In namespaces that it makes.
    New(&'a MountPlan),
    /// With the machine's other programs.
    Join(&'a Namespaces),
}

/// All that the child needs, made before the fork.
struct Plan<'a> {
    namespaces: NamespaceSource<'a>,
    candidates: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    cwd: Option<CString>,
    stdio: [Option<BorrowedFd<'a>>; 3],
    session: bool,
    terminal: bool,
    parent: OwnedFd,
    arguments: Range<usize>,
    is_root: bool,
    /// It keeps what its user has on most hosts, and not what root has.
    restricted: bool,
    virtual_time: bool,
    /// Its machine has a `/dev/shm` of its own.
    own_shared_memory: bool,
    counter: bool,
    uid_map: CString,
    gid_map: CString,
    nofile: libc::rlimit,
    filter: Vec<libc::sock_filter>,
}

/// Starts the program. `nofile` is the descriptor limit that it shall have. In virtual time its
/// addresses are the same in each run; all programs of a machine are started alike.
pub(crate) fn spawn(
    program: &Program,
    nofile: libc::rlimit,
    source: NamespaceSource<'_>,
    purpose: Purpose<'_>,
    counter: Option<&Arc<VirtualTsc>>,
) -> Result<Spawned, Error> {
    let virtual_time = purpose.is_virtual();
    let cannot_run = |errno| Error::CannotRun {
        program: program.name().to_string_lossy().into_owned(),
        errno,
    };
    let c = |s: &OsStr| CString::new(s.as_bytes()).map_err(|_| cannot_run(libc::EINVAL));
    let strings = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([null()]).collect()
    };
    let mut args = Vec::new();
    for arg in &program.argv {
        args.push(c(arg)?);
    }
    let mut env = Vec::new();
    for (k, v) in &program.env {
        let mut line = k.clone();
        line.push("=");
        line.push(v);
        env.push(c(&line)?);
    }
    let mut candidates = Vec::new();
    for path in program.candidates() {
        candidates.push(c(path.as_os_str())?);
    }
    let null_device = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(Error::of("opening /dev/null"))?;
    let (pid, uid, gid) = (std::process::id() as i32, geteuid(), getegid());
    let map = |id: u32| CString::new(format!("{id} {id} 1")).expect("no zero in there");
    // By its path, since that may lead elsewhere on the machine. If it has none, it stays.
    let here = std::env::current_dir().ok();
    let cwd = match (&program.cwd, here) {
        (Some(dir), Some(here)) => Some(here.join(dir)),
        (dir, here) => dir.clone().or(here),
    };
    // What a run leaves there another one would find. A program that works there finds its files.
    let works_there = |dir: &PathBuf| dir.starts_with("/dev/shm");
    let own_shared_memory = virtual_time && !cwd.as_ref().is_some_and(works_there);
    let plan = Plan {
        namespaces: source,
        candidates,
        argv: strings(&args),
        envp: strings(&env),
        cwd: match cwd {
            Some(dir) => Some(c(dir.as_os_str())?),
            None => None,
        },
        stdio: [0, 1, 2].map(|i: usize| match &program.stdio[i] {
            Stdio::Inherit => None,
            Stdio::Null => Some(null_device.as_fd()),
            Stdio::Fd(fd) => Some(fd.as_fd()),
        }),
        session: program.session,
        terminal: program.terminal,
        parent: open_pidfd(pid)?,
        arguments: arguments(),
        is_root: uid == 0,
        restricted: program.credentials != Credentials::ROOT,
        virtual_time,
        own_shared_memory,
        counter: counter.is_some(),
        uid_map: map(uid),
        gid_map: map(gid),
        nofile,
        filter: filter::program(purpose),
    };
    let shared = StartPage::new()?;
    // SAFETY: the child makes async-signal-safe calls only, and never returns from child().
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child(&plan, shared.page());
    }
    if pid < 0 {
        return Err(Error::last("fork()"));
    }
    let (pid, mut first) = wait_for_clone(pid, &shared, source)?;
    match receive_listener(pid, &shared, source, &mut first, counter) {
        Ok((pidfd, listener, namespaces)) => Ok(Spawned {
            pid,
            pidfd,
            listener,
            shared,
            namespaces,
        }),
        Err(error) => {
            // The child is ours and not yet reaped, so the number is still its own.
            let _ = kill(pid, libc::SIGKILL);
            let _ = waitpid(pid, 0);
            Err(error)
        }
    }
}

const KILLED: Error = Error::System {
    what: "the program was killed before it was executed",
    errno: libc::ECHILD,
};

/// The worker's side of the hand-over: the child's pidfd, its listener, and what it has made.
fn receive_listener(
    pid: i32,
    shared: &StartPage,
    source: NamespaceSource<'_>,
    first: &mut Option<InitProcess>,
    counter: Option<&Arc<VirtualTsc>>,
) -> Result<(OwnedFd, OwnedFd, Option<Namespaces>), Error> {
    let page = shared.page();
    let pidfd = open_pidfd(pid)?;
    loop {
        match page.wait(PREPARING) {
            PREPARING if has_ended(pidfd.as_fd()) => return Err(KILLED),
            PREPARING => {}
            UNMAPPED => {
                map_ids(pid).map_err(Error::of(STEPS[4]))?;
                page.tell(PREPARING);
            }
            FAILED => return Err(failure(page, source)),
            _ => break,
        }
    }
    let number = page.value.load(Ordering::Relaxed);
    let listener = copy_fd(&pidfd, number).map_err(Error::of(
        "pidfd_getfd() of the seccomp listener (ptrace must be allowed: kernel.yama.ptrace_scope < 2)",
    ))?;
    let namespaces = match source {
        NamespaceSource::New(_) => {
            let first = first.take().expect("made with the namespaces");
            let opened = Namespaces::of(pid, first);
            Some(opened.map_err(Error::of(
                "opening the machine's namespaces on the host (/proc/PID/ns)",
            ))?)
        }
        NamespaceSource::Join(_) => None,
    };
    if let Some(counter) = counter {
        counter.trace(pid)?;
    }
    page.tell(TAKEN);
    Ok((pidfd, listener, namespaces))
}

/// What the child says went wrong.
fn failure(page: &Page, source: NamespaceSource<'_>) -> Error {
    let step = page.step.load(Ordering::Relaxed);
    let errno = page.value.load(Ordering::Relaxed);
    let failed = match step.checked_sub(MOUNTING) {
        None => None,
        Some(0) => Some(FailedStep::Name),
        Some(1) => Some(FailedStep::Private),
        Some(2) => Some(FailedStep::Proc),
        Some(3) => Some(FailedStep::NoSuid),
        Some(4) => Some(FailedStep::SharedMemory),
        Some(mount) => Some(FailedStep::Mount(mount as usize - 5)),
    };
    match (failed, source) {
        (Some(failed), NamespaceSource::New(mounts)) => Error::Namespaces {
            what: mounts.describe(failed),
            errno,
        },
        _ => Error::System {
            what: STEPS[step as usize],
            errno,
        },
    }
}

/// Gives the user namespace of a process the ids of this one's: each is what it is here. The first
/// entry is id 0 alone, for a map of one entry is taken for that of a host without namespaces
/// (pam_loginuid(8), systemd-detect-virt(1)).
fn map_ids(pid: i32) -> io::Result<()> {
    for name in ["uid_map", "gid_map"] {
        let own = std::fs::read_to_string(format!("/proc/self/{name}"))?;
        std::fs::write(format!("/proc/{pid}/{name}"), identity(&own))?;
    }
    Ok(())
}

/// The map that leaves all ids as they are, of those that this map has; see user_namespaces(7).
fn identity(map: &str) -> String {
    let mut text = String::new();
    for line in map.lines() {
        let mut numbers = line.split_ascii_whitespace().map(|n| n.parse::<u32>());
        let (Some(Ok(from)), Some(Ok(count))) = (numbers.next(), numbers.nth(1)) else {
            continue;
        };
        match (from, count) {
            (0, 2..) => text += &format!("0 0 1\n1 1 {}\n", count - 1),
            _ => text += &format!("{from} {from} {count}\n"),
        }
    }
    text
}

/// The process that the forked one has made in its place, and the first one of a new PID namespace.
fn wait_for_clone(
    pid: i32,
    shared: &StartPage,
    source: NamespaceSource<'_>,
) -> Result<(i32, Option<InitProcess>), Error> {
    // Our own child, which ends soon.
    while waitpid(pid, 0).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    let page = shared.page();
    let first = match page.cloned.first.load(Ordering::Relaxed) {
        0 => None,
        pid => Some(InitProcess::new(pid, open_pidfd(pid)?)),
    };
    match page.cloned.program.load(Ordering::Relaxed) {
        0 if page.state.load(Ordering::Acquire) == FAILED => Err(failure(page, source)),
        0 => Err(KILLED),
        pid => Ok((pid, first)),
    }
}

/// Which of a child's steps failed, as [`Page::step`] has it, and why.
type Failed = (u32, io::Error);

fn at<E: Into<io::Error>>(step: u32) -> impl FnOnce(E) -> Failed {
    move |why| (step, why.into())
}

/// Ends the child before it executes anything.
const NEVER_EXECUTED: i32 = 125;

/// From fork to exec. Async-signal-safe calls only: no allocation, no panic.
fn child(plan: &Plan<'_>, page: &Page) -> ! {
    let Err((step, why)) = execute(plan, page);
    let errno = why.raw_os_error().unwrap_or(libc::EIO);
    page.value.store(errno, Ordering::Relaxed);
    page.step.store(step, Ordering::Relaxed);
    page.tell(FAILED);
    exit_now(NEVER_EXECUTED)
}

/// Becomes the program. rustix's functions are system calls by themselves, with arguments that are
/// numbers, structures of theirs and strings that end with NUL: they allocate nothing, take no lock
/// and leave libc's state alone. So are those of vink-sys that are used here.
fn execute(plan: &Plan<'_>, page: &Page) -> Result<Infallible, Failed> {
    let (in_own, user) = match plan.namespaces {
        NamespaceSource::Join(namespaces) => {
            namespaces.enter().map_err(at(7))?;
            (false, Some(namespaces.user()))
        }
        NamespaceSource::New(_) => (unshare_namespaces(plan)?, None),
    };
    set_stdio(plan.stdio).map_err(at(0))?;
    let (parent, user) = close_other_fds(plan.parent.as_fd(), user).map_err(at(0))?;
    let arguments = plan.arguments.clone();
    fork_into_pidns(&page.cloned, user.is_none(), arguments, parent).map_err(at(10))?;
    if plan.virtual_time {
        fix_addresses().map_err(at(11))?;
    }
    if plan.session {
        setsid().map_err(at(0))?;
    }
    if plan.terminal {
        ioctl_tiocsctty(stdin()).map_err(at(9))?;
    }
    if let NamespaceSource::New(mounts) = plan.namespaces {
        mounts
            .set_up(plan.restricted, plan.own_shared_memory)
            .map_err(|(failed, why)| match failed {
                FailedStep::Name => (MOUNTING, why),
                FailedStep::Private => (MOUNTING + 1, why),
                FailedStep::Proc => (MOUNTING + 2, why),
                FailedStep::NoSuid => (MOUNTING + 3, why),
                FailedStep::SharedMemory => (MOUNTING + 4, why),
                FailedStep::Mount(index) => (MOUNTING + 5 + index as u32, why),
            })?;
        let owned =
            libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWNS;
        let repeats = match plan.virtual_time {
            true => libc::CLONE_NEWIPC,
            false => 0,
        };
        unshare(owned | repeats).map_err(at(13))?;
        if in_own {
            write_maps(plan).map_err(at(4))?;
        } else {
            page.tell(UNMAPPED);
            while page.wait(UNMAPPED) == UNMAPPED {}
        }
        mounts.set_name().map_err(at(MOUNTING))?;
    }
    if let Some(cwd) = &plan.cwd {
        chdir(cwd).map_err(at(1))?;
    }
    if user.is_none() {
        set_rights(plan).map_err(at(8))?;
    }
    let _ = set_limit(0, libc::RLIMIT_NOFILE, &plan.nofile);
    // What std's runtime did to this process, and a worker may have done.
    let _ = Action::DEFAULT.set(libc::SIGPIPE);
    mask(Mask::Set, SignalSet::NONE);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // From here on its end is this one's.
    if has_ended(parent) {
        exit_now(NEVER_EXECUTED);
    }
    set_no_new_privs(true).map_err(at(5))?;
    if plan.counter {
        tsc::fault().map_err(at(12))?;
    }
    let filter = libc::sock_fprog {
        len: plan.filter.len() as u16,
        filter: plan.filter.as_ptr().cast_mut(),
    };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let what = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: a filter, which is read, and as long as said.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, what, flags, &raw const filter) };
    if listener < 0 {
        // Nothing is trapped: there is no filter.
        return Err((6, io::Error::last_os_error()));
    }
    page.value.store(listener as i32, Ordering::Relaxed);
    page.tell(LISTENING);
    while page.wait(LISTENING) == LISTENING {}
    // Last, since up to here this is a copy of the worker, which the machine's other programs must
    // not get hold of (ptrace(2)).
    if let Some(user) = user {
        let entered = move_into_link_name_space(user, Some(LinkNameSpaceType::User)).is_ok();
        if !entered || set_rights(plan).is_err() {
            exit_now(NEVER_EXECUTED);
        }
    }
    let mut failure = libc::ENOENT;
    for path in &plan.candidates {
        // SAFETY: strings that end with NUL, and lists of such that end with null, all of them the
        // plan's.
        unsafe { libc::execve(path.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr()) };
        match errno::last() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => failure = libc::EACCES,
            other => {
                failure = other;
                break;
            }
        }
    }
    page.value.store(failure, Ordering::Relaxed);
    page.tell(NOT_EXECUTED);
    exit_now(if failure == libc::ENOENT { 127 } else { 126 })
}

/// Gives this process these standard descriptors.
fn set_stdio(from: [Option<BorrowedFd<'_>>; 3]) -> rustix::io::Result<()> {
    // At high numbers first, lest one be overwritten that is still needed.
    let mut high = [const { None }; 3];
    for (high, from) in high.iter_mut().zip(from) {
        *high = from.map(|from| fcntl_dupfd_cloexec(from, 3)).transpose()?;
    }
    let [input, output, errors] = &high;
    input.as_ref().map_or(Ok(()), dup2_stdin)?;
    output.as_ref().map_or(Ok(()), dup2_stdout)?;
    errors.as_ref().map_or(Ok(()), dup2_stderr)
}

/// A child's descriptor of the worker's process.
const PARENT: RawFd = 3;

/// ... and of the user namespace that it is still to enter.
const USER: RawFd = 4;

/// Closes all but the standard descriptors, that of the worker's process, which is [`PARENT`] then,
/// and that of a user namespace, then [`USER`]: other programs may depend on the end of what the
/// worker has open of theirs. Returns the two. Async-signal-safe.
fn close_other_fds(
    parent: BorrowedFd<'_>,
    user: Option<BorrowedFd<'_>>,
) -> io::Result<(BorrowedFd<'static>, Option<BorrowedFd<'static>>)> {
    // Where neither overwrites the other. They are closed with the rest.
    let above = |fd| fcntl_dupfd_cloexec(fd, USER + 1).map(IntoRawFd::into_raw_fd);
    let (parent, user) = (above(parent)?, user.map(above).transpose()?);
    let rest = USER + i32::from(user.is_some());
    // SAFETY: this process does not use the descriptors that are closed any more; the two that are
    // made are open until it executes the program.
    unsafe {
        let is_done = libc::dup3(parent, PARENT, libc::O_CLOEXEC) >= 0
            && user.is_none_or(|user| libc::dup3(user, USER, libc::O_CLOEXEC) >= 0)
            && libc::syscall(libc::SYS_close_range, rest, u32::MAX, 0) == 0;
        match is_done {
            true => Ok((
                BorrowedFd::borrow_raw(PARENT),
                user.map(|_| BorrowedFd::borrow_raw(USER)),
            )),
            false => Err(io::Error::last_os_error()),
        }
    }
}

/// Enters a new mount namespace and makes a PID namespace for children. They belong to the worker's
/// user namespace, or to one that is made around them if there must be one (then the result is
/// true), and so are above the one that programs are in: what is mounted here they can't take away.
/// The error is the step that failed.
fn unshare_namespaces(plan: &Plan<'_>) -> Result<bool, Failed> {
    let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    if plan.is_root {
        match unshare(spaces) {
            Ok(()) => return Ok(false),
            // Root of a container may lack the capability and still make user namespaces.
            Err(why) if why.raw_os_error() == Some(libc::EPERM) => {}
            Err(why) => return Err((2, why)),
        }
    }
    unshare(libc::CLONE_NEWUSER | spaces).map_err(at(3))?;
    write_maps(plan).map_err(at(4))?;
    Ok(true)
}

/// Makes this process's user namespace one of its own user and group alone. Async-signal-safe.
fn write_maps(plan: &Plan<'_>) -> io::Result<()> {
    let files = [
        (c"/proc/self/setgroups", c"deny"),
        (c"/proc/self/uid_map", plan.uid_map.as_c_str()),
        (c"/proc/self/gid_map", plan.gid_map.as_c_str()),
    ];
    for (path, text) in files {
        let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        if rustix::io::write(&file, text.to_bytes())? != text.count_bytes() {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// What a program may do in the user namespace that it is in, from its execution on.
/// Async-signal-safe.
fn set_rights(plan: &Plan<'_>) -> rustix::io::Result<()> {
    match (plan.restricted, plan.is_root) {
        (true, _) => drop_capabilities(),
        (false, true) => Ok(()),
        (false, false) => keep_capabilities(),
    }
}

/// Of root's capabilities, those that daemons need to become another user and to own files. With
/// the others a program could reach more of the host's kernel, and nothing that it may use.
const OF_DAEMONS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// Async-signal-safe; `PR_CAPBSET_DROP` of prctl(2).
fn drop_capabilities() -> rustix::io::Result<()> {
    let dropped = CapabilitySet::all().difference(OF_DAEMONS);
    for capability in dropped.iter() {
        match remove_capability_from_bounding_set(capability) {
            // The host's kernel is too old to know it.
            Err(rustix::io::Errno::INVAL) => {}
            done => done?,
        }
    }
    Ok(())
}

/// Lets a program that is not root keep, when it is executed, what it may do in the user namespace
/// that it is in: to configure the network, to mount and to set the host name. Not what concerns
/// its own files, of which it shall see the same as on the host. Async-signal-safe; see
/// capabilities(7).
fn keep_capabilities() -> rustix::io::Result<()> {
    const KEPT: [CapabilitySet; 5] = [
        CapabilitySet::NET_BIND_SERVICE,
        CapabilitySet::NET_BROADCAST,
        CapabilitySet::NET_ADMIN,
        CapabilitySet::NET_RAW,
        CapabilitySet::SYS_ADMIN,
    ];
    let mut sets = capabilities(None)?;
    for kept in KEPT {
        sets.inheritable |= kept;
    }
    set_capabilities(None, sets)?;
    KEPT.into_iter()
        .try_for_each(|kept| configure_capability_in_ambient_set(kept, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::poll::events_of;

    use crate::notify::Listener;
    use std::io::{Read, Write};

    const NOFILE: libc::rlimit = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 256,
    };

    fn pipe() -> (File, OwnedFd) {
        let (read, write) = std::io::pipe().unwrap();
        (OwnedFd::from(read).into(), write.into())
    }

    /// Runs a program with all its calls passed through: exit status, output, calls trapped, exec's
    /// errno.
    fn run(program: Program) -> (i32, String, Vec<i64>, Option<i32>) {
        let (output, end) = pipe();
        let program = program.stdout(Stdio::Fd(end)).stdin(Stdio::Null);
        let new = NamespaceSource::New(&MountPlan::default());
        let launched = spawn(&program, NOFILE, new, Purpose::Plain, None).unwrap();
        drop(program);
        serve(launched, output)
    }

    fn serve(launched: Spawned, mut output: File) -> (i32, String, Vec<i64>, Option<i32>) {
        let listener = Listener::new(launched.listener, None).unwrap();
        let mut trapped = Vec::new();
        loop {
            let events = events_of(listener.as_fd().as_raw_fd(), libc::POLLIN, -1);
            if events & libc::POLLIN == 0 {
                break;
            }
            if let Some(call) = listener.receive().unwrap() {
                trapped.push(call.nr);
                listener.continue_call(call.id);
            }
        }
        let (_, status) = waitpid(launched.pid, 0).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        let failure = launched.shared.exec_failure();
        (libc::WEXITSTATUS(status), text, trapped, failure)
    }

    #[test]
    fn a_program_runs_with_what_it_was_given() {
        let script = "echo $GREETING; pwd; ulimit -n; cat; cat /proc/net/dev | wc -l; exit 7";
        let program = Program::new("sh").args(["-c", script]);
        let (status, text, trapped, failure) =
            run(program.env("GREETING", "good day").current_dir("/usr"));
        // An empty namespace has a loopback interface at most, below two lines of headings.
        assert_eq!(text, "good day\n/usr\n256\n3\n");
        assert_eq!((status, failure), (7, None));
        for nr in [libc::SYS_execve, libc::SYS_read, libc::SYS_close] {
            assert!(trapped.contains(&nr));
        }
    }

    #[test]
    fn id_maps_leave_ids_as_they_are() {
        assert_eq!(
            identity("         0          0 4294967295\n"),
            "0 0 1\n1 1 4294967294\n"
        );
        let map = "0 1000 1\n1 100000 65536\n";
        assert_eq!(identity(map), "0 0 1\n1 1 65536\n");
    }

    #[test]
    fn numbers_and_addresses_repeat_in_virtual_time() {
        let script =
            "echo $$ $PPID; (:); ipcmk -M 100; ls -A /dev/shm; echo >/dev/shm/left; /bin/true; sh -c 'sleep 0; echo $$'; cat /proc/self/maps; \
                      readlink /proc/self; cat /proc/1/comm; exit 3";
        let lodge = |source: NamespaceSource<'_>| {
            let (output, end) = pipe();
            let program = Program::new("bash").args(["-c", script]);
            let program = program.stdout(Stdio::Fd(end)).stdin(Stdio::Null);
            spawn(&program, NOFILE, source, Purpose::Time(None), None)
                .map(|launched| (launched, output))
        };
        let mounts = MountPlan::default();
        let both = || {
            let (mut launched, output) = lodge(NamespaceSource::New(&mounts)).unwrap();
            let namespaces = launched.namespaces.take().unwrap();
            let (status, first, ..) = serve(launched, output);
            let (launched, output) = lodge(NamespaceSource::Join(&namespaces)).unwrap();
            (status, first, serve(launched, output).1)
        };
        let (once, again) = (both(), both());
        assert_eq!(once, again);
        let (status, first, second) = once;
        assert_eq!(status, 3);
        let start = "2 0\nShared memory id: 0\n7\n";
        assert!(first.starts_with(start), "{first}");
        assert!(first.contains("vink-init"), "{first}");
        assert!(!first.contains("left\n") && second.contains("left\n"));
        // One PID namespace, more numbers.
        assert_ne!(first, second);
    }

    #[test]
    fn what_cannot_be_executed() {
        let missing = run(Program::new("no-such-program").env("PATH", "/usr/bin:/bin"));
        assert_eq!((missing.0, missing.3), (127, Some(libc::ENOENT)));
        let directory = run(Program::new("/usr"));
        assert_eq!((directory.0, directory.3), (126, Some(libc::EACCES)));
        let mut file = File::create("/tmp/vink-trap-not-a-program").unwrap();
        file.write_all(b"nothing").unwrap();
        let data = run(Program::new("/tmp/vink-trap-not-a-program"));
        assert_eq!((data.0, data.3), (126, Some(libc::EACCES)));
        std::fs::remove_file("/tmp/vink-trap-not-a-program").unwrap();
    }

    #[test]
    fn a_directory_that_is_not_there() {
        let program = Program::new("true").current_dir("/no/such/directory");
        let error = spawn(
            &program,
            NOFILE,
            NamespaceSource::New(&MountPlan::default()),
            Purpose::Plain,
            None,
        )
        .err()
        .unwrap()
        .to_string();
        assert!(error.contains("directory"), "{error}");
    }
}
