//! Processes and threads by their numbers: signals, groups, ends, processors, limits.

use std::io;
use std::os::fd::AsFd;
use std::ptr::null;
use std::time::Duration;

use rustix::process::Pid;
pub use rustix::thread::CpuSet;

use crate::plain::Zeroed;
use crate::{done, NumericCall};

/// The calling thread's number.
pub fn gettid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// How long all threads of a process have run; `None` if there is no such process.
pub fn cpu_time(pid: i32) -> Option<Duration> {
    processor_time(pid, CPUCLOCK_SCHED)
}

/// How long a thread of this process has run; `None` if there is no such thread.
pub fn cpu_time_of_thread(tid: i32) -> Option<Duration> {
    processor_time(tid, CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD)
}

/// Of the kernel's posix-timers.h: a processor time clock's number has one of these.
const CPUCLOCK_SCHED: i32 = 2;
const CPUCLOCK_PERTHREAD: i32 = 4;

fn processor_time(number: i32, what: i32) -> Option<Duration> {
    let mut time = libc::timespec::zeroed();
    // SAFETY: fills the structure.
    done(unsafe { libc::clock_gettime(!number << 3 | what, &mut time) }.into()).ok()?;
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Has Linux give the calling thread a processor for so long at once, and the sooner for it, the shorter
/// that is: 100 µs to 100 ms. It does since 6.12, sched_setattr(2); before, nothing changes.
///
/// # Errors
/// As the system call.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    let mut attributes = libc::sched_attr::zeroed();
    let size = size_of_val(&attributes);
    // SAFETY: fills so many bytes.
    done(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })?;
    // With a priority or a deadline it means something else.
    if attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = slice.as_nanos() as u64;
        // SAFETY: reads as many bytes as the structure says.
        done(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })?;
    }
    Ok(())
}

/// How long the calling thread has run.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// As which user this process accesses files, but for capabilities.
pub fn geteuid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of that user, as passwd(5) has it; its number if it has none there.
pub fn user_name() -> String {
    let uid = geteuid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let name = users.find_map(|fields| match fields[..] {
        [name, _, id, ..] if id == uid => Some(name.to_owned()),
        _ => None,
    });
    name.unwrap_or(uid)
}

/// As which group.
pub fn getegid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Whether this process is root.
pub fn is_root() -> bool {
    geteuid() == 0
}

/// A process's group (0: this one's); -1 if there is no such process.
pub fn getpgid(pid: i32) -> i32 {
    let group = NumericCall::Getpgid.make([pid.into(), 0, 0, 0, 0]);
    group.map_or(-1, |group| group as i32)
}

/// A process's session (0: this one's); -1 if there is no such process.
pub fn getsid(pid: i32) -> i32 {
    let session = NumericCall::Getsid.make([pid.into(), 0, 0, 0, 0]);
    session.map_or(-1, |session| session as i32)
}

/// The group in a terminal's foreground; -1 if it is no terminal of this session.
pub fn foreground(terminal: impl AsFd) -> i32 {
    rustix::termios::tcgetpgrp(terminal).map_or(-1, Pid::as_raw_pid)
}

/// kill(2): a process, a group (below 0), or 0 for no signal but the question whether it is there.
///
/// # Errors
/// As kill(2).
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    NumericCall::Kill.make([pid.into(), signal.into(), 0, 0, 0])?;
    Ok(())
}

/// Sends a signal to one thread of a process (tgkill(2)).
///
/// # Errors
/// As tgkill(2).
pub fn tgkill(pid: i32, tid: i32, signal: i32) -> io::Result<()> {
    NumericCall::Tgkill.make([pid.into(), tid.into(), signal.into(), 0, 0])?;
    Ok(())
}

/// Gives this process new namespaces: some of `CLONE_NEW*` (unshare(2)), and nothing else that would
/// be the calling thread's alone then, as descriptors. Async-signal-safe.
///
/// # Errors
/// As unshare(2).
pub fn unshare(namespaces: i32) -> io::Result<()> {
    const OTHERS: i32 = libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SYSVSEM;
    NumericCall::Unshare.make([(namespaces & !OTHERS).into(), 0, 0, 0, 0])?;
    Ok(())
}

/// What this process executes has the same addresses each time (personality(2)). Async-signal-safe.
///
/// # Errors
/// As personality(2).
pub fn fix_addresses() -> io::Result<()> {
    NumericCall::Personality.make([libc::ADDR_NO_RANDOMIZE.into(), 0, 0, 0, 0])?;
    Ok(())
}

/// fork(2) into new namespaces (some of `CLONE_NEW*`): 0 in the child. It goes on with a copy of this
/// process's memory and with the calling thread alone, so this process must have no other one, or the
/// child makes system calls alone until it executes a program.
///
/// # Errors
/// As clone(2).
pub fn fork_into(namespaces: i32) -> io::Result<i32> {
    let flags = (namespaces & NAMESPACES) | libc::SIGCHLD;
    // SAFETY: without a stack of its own, and without a share in this process's memory, the child goes on
    // with a copy of both.
    let pid = done(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    Ok(pid as i32)
}

/// All kinds of namespaces that clone(2) makes.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Ends this process at once: it flushes nothing and calls nothing (_exit(2)). Async-signal-safe.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(status) }
}

/// A process whose pidfd says that it has ended may not have sent its `SIGCHLD` yet: it has when this
/// returns. Linux does both while it holds the lock of the list of tasks (`exit_notify()`), which this
/// takes.
pub fn settle_exits() {
    let _ = rustix::process::getpriority_pgrp(None);
}

/// waitpid(2): the child's number (0: none yet), and its status.
///
/// # Errors
/// As waitpid(2); `Interrupted` if a handler of a signal ran.
pub fn waitpid(pid: i32, options: i32) -> io::Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: fills an integer.
    let child = done(unsafe { libc::waitpid(pid, &mut status, options) }.into())?;
    Ok((child as i32, status))
}

/// waitid(2): what is told of a child; a number of 0 if nothing is.
///
/// # Errors
/// As waitid(2).
pub fn waitid(kind: libc::idtype_t, number: i32, options: i32) -> io::Result<ChildEvent> {
    let mut info = libc::siginfo_t::zeroed();
    // SAFETY: the call fills in what belongs to a child, or leaves zeros.
    let (result, pid, status) = unsafe {
        let result = libc::waitid(kind, number as libc::id_t, &mut info, options);
        (result, info.si_pid(), info.si_status())
    };
    done(result.into())?;
    Ok(ChildEvent {
        pid,
        code: info.si_code,
        status,
    })
}

/// What waitid(2) tells of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildEvent {
    /// 0: there is nothing to be told.
    pub pid: i32,
    /// `CLD_*`.
    pub code: i32,
    /// An exit status or a signal.
    pub status: i32,
}

/// What two processes may share (kcmp(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Their memory.
    Memory = 1,
    /// Their descriptors.
    Files = 2,
}

/// Whether two processes have it in common (kcmp(2)).
pub fn share(what: Shared, pid: i32, other: i32) -> bool {
    let arguments = [pid.into(), other.into(), what as i64, 0, 0];
    matches!(NumericCall::Kcmp.make(arguments), Ok(0))
}

/// A process's limit of a resource (`RLIMIT_*`); 0: this one's.
///
/// # Errors
/// As prlimit(2).
pub fn limit(pid: i32, resource: u32) -> io::Result<libc::rlimit> {
    prlimit(pid, resource, None)
}

/// Sets it.
///
/// # Errors
/// As prlimit(2).
pub fn set_limit(pid: i32, resource: u32, limit: &libc::rlimit) -> io::Result<()> {
    prlimit(pid, resource, Some(limit)).map(|_| ())
}

fn prlimit(pid: i32, resource: u32, new: Option<&libc::rlimit>) -> io::Result<libc::rlimit> {
    let mut old = libc::rlimit::zeroed();
    let new = new.map_or(null(), std::ptr::from_ref);
    // SAFETY: reads one structure, if it is there, and fills the other.
    done(unsafe { libc::prlimit(pid, resource, new, &mut old) }.into()).map(|_| old)
}

/// The processors that a thread may use (0: the calling one).
pub fn affinity(tid: i32) -> Option<CpuSet> {
    rustix::thread::sched_getaffinity(Pid::from_raw(tid)).ok()
}

/// Sets them; false if it can't be.
pub fn set_affinity(tid: i32, to: &CpuSet) -> bool {
    rustix::thread::sched_setaffinity(Pid::from_raw(tid), to).is_ok()
}

/// The processor that the calling thread is on.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The members of a set of processors.
pub fn cpus(set: &CpuSet) -> impl DoubleEndedIterator<Item = usize> + '_ {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu))
}

/// The set of one processor.
pub fn one_cpu(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// A set of processors. Numbers that no set has are left out.
pub fn cpu_set(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.into_iter()
        .filter(|cpu| *cpu < CpuSet::MAX_CPU)
        .for_each(|cpu| set.set(cpu));
    set
}

/// The members of a set as taskset(1) lists them: `0-2,5`.
pub fn cpu_list(set: &CpuSet) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus(set) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_slice_is_set_and_no_other_attribute() {
        let attributes = || {
            let mut found = libc::sched_attr::zeroed();
            let size = size_of_val(&found);
            // SAFETY: fills so many bytes.
            done(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) })
                .unwrap();
            found
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: numbers.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
                let before = attributes();
                set_slice(Duration::from_micros(300)).unwrap();
                let after = attributes();
                assert_eq!((before.sched_nice, after.sched_nice), (3, 3));
                assert_eq!(before.sched_policy, after.sched_policy);
                // Before Linux 6.12 there is none.
                if before.sched_runtime != 0 {
                    assert_eq!(after.sched_runtime, 300_000);
                }
            });
        });
    }

    #[test]
    fn what_processes_share() {
        let me = std::process::id() as i32;
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let other = child.id() as i32;
        assert!(share(Shared::Memory, me, gettid()) && !share(Shared::Memory, me, other));
        assert!(share(Shared::Files, me, gettid()) && !share(Shared::Files, me, other));
        assert_eq!(waitpid(other, libc::WNOHANG).unwrap(), (0, 0));
        kill(other, libc::SIGKILL).unwrap();
        let event = waitid(libc::P_PID, other, libc::WEXITED | libc::WNOWAIT).unwrap();
        let killed = ChildEvent {
            pid: other,
            code: libc::CLD_KILLED,
            status: libc::SIGKILL,
        };
        assert_eq!(event, killed);
        child.wait().unwrap();
        assert!(kill(other, 0).is_err());
    }

    #[test]
    fn processors() {
        let own = affinity(0).unwrap();
        assert_eq!(cpus(&own).count(), own.count() as usize);
        assert_eq!(cpu_list(&cpu_set([0, 1, 2, 5, 9999])), "0-2,5");
        let last = cpus(&own).next_back().unwrap();
        assert!(set_affinity(0, &one_cpu(last)));
        assert_eq!(current_cpu(), last);
        assert!(affinity(gettid()) == Some(one_cpu(last)) && set_affinity(0, &own));
    }
}
