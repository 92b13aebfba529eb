//! Starting a program: its machine's namespaces, the filter, the listener's way to the worker.
//!
//! The child prepares itself between fork and exec with nothing but async-signal-safe calls. Once
//! the filter is in force its own write(2) and sendmsg(2) are trapped, so it tells the listener's
//! number through a shared page and a futex, and the worker fetches it with pidfd_getfd(2).

use std::ffi::{CString, OsStr, OsString};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::Arc;

use vink_sys::pidfd::{self, copy_fd};
use vink_sys::poll::is_readable;
use vink_sys::process::{getegid, geteuid, kill, waitpid};

use crate::filter::{self, Purpose};
use crate::namespaces::{FailedStep, MountPlan, Namespaces};
use crate::pids::{arguments, fork_into_pidns, CloneResult, InitProcess};
use crate::sched::tsc::{self, VirtualTsc};
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

/// From here on the step is one of the mount plan's: the name, the mounts' privacy, `/proc`, each
/// mount.
const MOUNTING: u32 = 100;

/// The shared page, mapped.
pub(crate) struct StartPage(*mut Page);

impl StartPage {
    fn new() -> Result<StartPage, Error> {
        // SAFETY: a fresh anonymous mapping.
        let page = unsafe {
            libc::mmap(
                null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match page {
            libc::MAP_FAILED => Err(Error::last("mmap() of a page shared with the program")),
            page => Ok(StartPage(page.cast())),
        }
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as self lives, zeroed at first, and made of atomics only.
        unsafe { &*self.0 }
    }

    /// Why the program was never executed: an errno.
    pub(crate) fn exec_failure(&self) -> Option<i32> {
        let page = self.page();
        let failed = page.state.load(Ordering::Acquire) == NOT_EXECUTED;
        failed.then(|| page.value.load(Ordering::Relaxed))
    }
}

impl Drop for StartPage {
    fn drop(&mut self) {
        // SAFETY: mapped by new(), and not borrowed any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<Page>()) };
    }
}

impl Page {
    fn tell(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        // SAFETY: a futex operation on an atomic that both sides have mapped.
        unsafe {
            let (wake, own) = (libc::FUTEX_WAKE, filter::OWN_FUTEX);
            libc::syscall(libc::SYS_futex, &self.state, wake, 1, 0, 0, own)
        };
    }

    /// Waits until the state is not `from`, or for a tenth of a second.
    fn wait(&self, from: u32) -> u32 {
        let timeout = libc::timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        if self.state.load(Ordering::Acquire) == from {
            // SAFETY: as above; the timeout outlives the call.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    &self.state,
                    libc::FUTEX_WAIT,
                    from,
                    &timeout,
                    0,
                    filter::OWN_FUTEX,
                )
            };
        }
        self.state.load(Ordering::Acquire)
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
    stdio: [Option<RawFd>; 3],
    session: bool,
    terminal: bool,
    parent: OwnedFd,
    arguments: Range<usize>,
    is_root: bool,
    virtual_time: bool,
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
    let null_device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|e| Error::System {
            what: "opening /dev/null",
            errno: e.raw_os_error().unwrap_or(libc::EIO),
        })?;
    let (pid, uid, gid) = (std::process::id() as i32, geteuid(), getegid());
    let map = |id: u32| CString::new(format!("{id} {id} 1")).expect("no zero in there");
    // By its path, since that may lead elsewhere on the machine. If it has none, it stays.
    let here = std::env::current_dir().ok();
    let cwd = match (&program.cwd, here) {
        (Some(dir), Some(here)) => Some(here.join(dir)),
        (dir, here) => dir.clone().or(here),
    };
    let mut plan = Plan {
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
            Stdio::Null => Some(null_device.as_raw_fd()),
            Stdio::Fd(fd) => Some(fd.as_raw_fd()),
        }),
        session: program.session,
        terminal: program.terminal,
        parent: open_pidfd(pid)?,
        arguments: arguments(),
        is_root: uid == 0,
        virtual_time,
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
        child(&mut plan, shared.page());
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
                map_ids(pid).map_err(|e| Error::System {
                    what: STEPS[4],
                    errno: e.raw_os_error().unwrap_or(libc::EIO),
                })?;
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
            Some(opened.map_err(|e| Error::System {
                what: "opening the machine's namespaces on the host (/proc/PID/ns)",
                errno: e.raw_os_error().unwrap_or(libc::EIO),
            })?)
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
        Some(mount) => Some(FailedStep::Mount(mount as usize - 3)),
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
fn map_ids(pid: i32) -> std::io::Result<()> {
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
    while waitpid(pid, 0).is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
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

/// pidfd_open(2).
pub(crate) fn open_pidfd(pid: i32) -> Result<OwnedFd, Error> {
    pidfd::open(pid).map_err(Error::of("pidfd_open()"))
}

/// Whether the process is dead (it may be a zombie). Async-signal-safe.
pub(crate) fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    is_readable(pidfd, 0)
}

/// From fork to exec. Async-signal-safe calls only: no allocation, no panic.
fn child(plan: &mut Plan<'_>, page: &Page) -> ! {
    let fail = |step: u32| -> ! {
        page.value.store(errno(), Ordering::Relaxed);
        page.step.store(step, Ordering::Relaxed);
        page.tell(FAILED);
        // SAFETY: ends the process.
        unsafe { libc::_exit(125) }
    };
    // SAFETY: all pointers are into the plan, which outlives the calls; everything done here is
    // async-signal-safe and concerns this process alone.
    unsafe {
        let isolated = match plan.namespaces {
            NamespaceSource::Join(namespaces) => namespaces.enter().then_some(false).ok_or(7),
            NamespaceSource::New(_) => unshare_namespaces(plan),
        };
        let in_own = isolated.unwrap_or_else(|step| fail(step));
        // Moved to high numbers first, lest dup2() overwrite a source that is still needed.
        for source in plan.stdio.iter_mut().flatten() {
            let high = libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, 3);
            if high < 0 {
                fail(0);
            }
            *source = high;
        }
        for (target, source) in plan.stdio.iter().enumerate() {
            if source.is_some_and(|source| libc::dup2(source, target as i32) < 0) {
                fail(0);
            }
        }
        let user = match plan.namespaces {
            NamespaceSource::Join(namespaces) => Some(namespaces.user()),
            NamespaceSource::New(_) => None,
        };
        if !close_other_fds(plan.parent.as_raw_fd(), user) {
            fail(0);
        }
        let parent = BorrowedFd::borrow_raw(PARENT);
        if !fork_into_pidns(&page.cloned, user.is_none(), plan.arguments.clone(), parent) {
            fail(10);
        }
        if plan.virtual_time && libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
            fail(11);
        }
        if plan.session && libc::setsid() < 0 {
            fail(0);
        }
        if plan.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            fail(9);
        }
        if let NamespaceSource::New(mounts) = plan.namespaces {
            let entering = |failed| match failed {
                FailedStep::Name => MOUNTING,
                FailedStep::Private => MOUNTING + 1,
                FailedStep::Proc => MOUNTING + 2,
                FailedStep::Mount(index) => MOUNTING + 3 + index as u32,
            };
            if let Err(failed) = mounts.set_up() {
                fail(entering(failed));
            }
            let owned =
                libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWNS;
            if libc::unshare(owned) < 0 {
                fail(13);
            }
            if in_own {
                if !write_maps(plan) {
                    fail(4);
                }
            } else {
                page.tell(UNMAPPED);
                while page.wait(UNMAPPED) == UNMAPPED {}
            }
            if let Err(failed) = mounts.set_name() {
                fail(entering(failed));
            }
        }
        if plan
            .cwd
            .as_ref()
            .is_some_and(|cwd| libc::chdir(cwd.as_ptr()) < 0)
        {
            fail(1);
        }
        if user.is_none() && !plan.is_root && !keep_capabilities() {
            fail(8);
        }
        libc::setrlimit(libc::RLIMIT_NOFILE, &plan.nofile);
        // What std's runtime did to this process, and a worker may have done.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // From here on its end is this one's.
        if has_ended(parent) {
            libc::_exit(125);
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            fail(5);
        }
        if plan.counter && !tsc::fault() {
            fail(12);
        }
        let filter = libc::sock_fprog {
            len: plan.filter.len() as u16,
            filter: plan.filter.as_mut_ptr(),
        };
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
            &filter,
        );
        if listener < 0 {
            // Nothing is trapped: there is no filter.
            fail(6);
        }
        page.value.store(listener as i32, Ordering::Relaxed);
        page.tell(LISTENING);
        while page.wait(LISTENING) == LISTENING {}
        // Last, since up to here this is a copy of the worker, which the machine's other programs
        // must not get hold of (ptrace(2)).
        if user.is_some() {
            let entered = libc::setns(USER, libc::CLONE_NEWUSER) == 0;
            if !entered || (!plan.is_root && !keep_capabilities()) {
                libc::_exit(125);
            }
        }
        let mut failure = libc::ENOENT;
        for path in &plan.candidates {
            libc::execve(path.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
            match errno() {
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
        libc::_exit(if failure == libc::ENOENT { 127 } else { 126 })
    }
}

/// A child's descriptor of the worker's process.
const PARENT: RawFd = 3;

/// ... and of the user namespace that it is still to enter.
const USER: RawFd = 4;

/// Closes all but the standard descriptors, that of the worker's process, which is [`PARENT`] then,
/// and that of a user namespace, then [`USER`]: other programs may depend on the end of what the
/// worker has open of theirs. Async-signal-safe.
fn close_other_fds(parent: RawFd, user: Option<RawFd>) -> bool {
    let above = |fd: RawFd| {
        // SAFETY: makes a descriptor.
        unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, USER + 1) }
    };
    // Where neither overwrites the other.
    let (parent, user) = (above(parent), user.map(above));
    // SAFETY: descriptors that this process does not use any more.
    unsafe {
        libc::dup3(parent, PARENT, libc::O_CLOEXEC) >= 0
            && user.is_none_or(|user| libc::dup3(user, USER, libc::O_CLOEXEC) >= 0)
            && libc::syscall(
                libc::SYS_close_range,
                USER + i32::from(user.is_some()),
                u32::MAX,
                0,
            ) == 0
    }
}

/// Enters a new mount namespace and makes a PID namespace for children. They belong to the worker's
/// user namespace, or to one that is made around them if there must be one (then the result is
/// true), and so are above the one that programs are in: what is mounted here they can't take away.
/// The error is the step that failed.
fn unshare_namespaces(plan: &Plan<'_>) -> Result<bool, u32> {
    let spaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    // SAFETY: concerns this process alone.
    unsafe {
        if plan.is_root {
            if libc::unshare(spaces) == 0 {
                return Ok(false);
            }
            // Root of a container may lack the capability and still make user namespaces.
            if errno() != libc::EPERM {
                return Err(2);
            }
        }
        if libc::unshare(libc::CLONE_NEWUSER | spaces) < 0 {
            return Err(3);
        }
    }
    write_maps(plan).then_some(true).ok_or(4)
}

/// Makes this process's user namespace one of its own user and group alone. Async-signal-safe.
fn write_maps(plan: &Plan<'_>) -> bool {
    let files = [
        (c"/proc/self/setgroups", c"deny"),
        (c"/proc/self/uid_map", plan.uid_map.as_c_str()),
        (c"/proc/self/gid_map", plan.gid_map.as_c_str()),
    ];
    files.into_iter().all(|(path, text)| {
        let len = text.count_bytes();
        // SAFETY: strings are NUL-terminated and outlive the calls; the descriptor is this
        // function's.
        unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            let written = fd >= 0 && libc::write(fd, text.as_ptr().cast(), len) == len as isize;
            libc::close(fd);
            written
        }
    })
}

/// Lets a program that is not root keep, when it is executed, what it may do in the user namespace
/// that it is in: to configure the network, to mount and to set the host name. Not what concerns
/// its own files, of which it shall see the same as on the host. Async-signal-safe; see
/// capabilities(7).
fn keep_capabilities() -> bool {
    const KEPT: [libc::c_ulong; 5] = [
        10, // CAP_NET_BIND_SERVICE
        11, // CAP_NET_BROADCAST
        12, // CAP_NET_ADMIN
        13, // CAP_NET_RAW
        21, // CAP_SYS_ADMIN
    ];
    /// `_LINUX_CAPABILITY_VERSION_3`.
    const VERSION: u32 = 0x2008_0522;
    #[repr(C)]
    #[derive(Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = [VERSION, 0];
    let mut sets: [Sets; 2] = Default::default();
    // SAFETY: the header and both halves of the sets, as version 3 wants them; of this thread only.
    unsafe {
        if libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) < 0 {
            return false;
        }
        for bit in KEPT {
            sets[0].inheritable |= 1 << bit;
        }
        libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) == 0
            && KEPT.iter().all(|bit| {
                libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, *bit, 0, 0) == 0
            })
    }
}

fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::poll::events_of;

    use crate::notify::Listener;
    use std::fs::File;
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
            "echo $$ $PPID; (:); /bin/true; sh -c 'sleep 0; echo $$'; cat /proc/self/maps; \
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
        assert!(first.starts_with("2 0\n5\n"), "{first}");
        assert!(first.contains("vink-init"), "{first}");
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
