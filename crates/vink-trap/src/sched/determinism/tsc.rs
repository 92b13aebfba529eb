//! The time stamp counter: programs that read it find the virtual clock.
//!
//! The host can make rdtsc and rdtscp fault (`PR_SET_TSC`), which is a `SIGSEGV`. A thread for each
//! program traces it (ptrace(2)) and does these instructions in its place. It lets all other stops
//! go on. System calls cost nothing more; forks, new threads and signals some ten microseconds.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use vink_sys::plain::Zeroed;
use vink_sys::process::{waitid, waitpid};
use vink_sys::ptrace::Request;
use vink_sys::rustix::process::{set_time_stamp_counter_readability, TimeStampCounterReadability};

use crate::tracee;
use crate::Error;

/// What each read adds to the counter, so that it never stands still: it has a tick for each ns
/// beside.
const STEP: u64 = 32;
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];
/// Of `<linux/ptrace.h>` and `<linux/wait.h>`.
const PTRACE_EVENT_STOP: i32 = 128;
const WNOTHREAD: i32 = 0x2000_0000;
/// So long an ended process is waited for to have been noticed.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes the calling process, and all that it starts, fault at each read of the counter; an error if
/// the processor can't. Async-signal-safe.
pub(crate) fn fault() -> vink_sys::rustix::io::Result<()> {
    set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV)
}

/// What the worker and the tracing threads share.
#[derive(Default)]
pub(crate) struct VirtualTsc {
    /// The virtual clock.
    now: AtomicU64,
    /// How the traced processes have ended, as of wait(2).
    ended: Mutex<HashMap<i32, i32>>,
    another: Condvar,
    /// Threads that a signal has stopped.
    held: Mutex<HashSet<i32>>,
}

/// The thread of these of which there is something to tell a tracer, which is left for it; 0: none.
/// `None`: there are no such threads.
fn look(kind: libc::idtype_t, tid: i32, options: i32) -> Option<i32> {
    let events = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    let told = waitid(kind, tid, events | options).ok()?;
    Some(told.pid)
}

impl VirtualTsc {
    /// From now on it is this late.
    pub(crate) fn set(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Whether a signal has stopped the thread, and nothing has happened to it since.
    pub(crate) fn holds(&self, tid: i32) -> bool {
        let held = self.held.lock().expect("no thread panics with it");
        held.contains(&tid) && look(libc::P_PID, tid, libc::WNOHANG) == Some(0)
    }

    /// How a traced process has ended that has; before that its parent can't learn of it. `None` if
    /// it was not traced.
    pub(crate) fn end_of(&self, pid: i32) -> Option<i32> {
        let ended = self.ended.lock().expect("no thread panics with it");
        let (mut ended, _) = self
            .another
            .wait_timeout_while(ended, EXIT_STATUS_TIMEOUT, |ended| {
                !ended.contains_key(&pid)
            })
            .expect("no thread panics with it");
        ended.remove(&pid)
    }

    /// Traces a process, and all that it will start, until the last has ended.
    ///
    /// # Errors
    /// [`Error::System`] as ptrace(2).
    pub(crate) fn trace(self: &Arc<VirtualTsc>, pid: i32) -> Result<(), Error> {
        let (tell, told) = channel();
        let counter = self.clone();
        let name = thread::Builder::new().name("vink-tsc".into());
        let begun = name
            .stack_size(128 << 10)
            .spawn(move || counter.follow(pid, tell));
        begun.map_err(|e| Error::System {
            what: "starting a thread that traces a program",
            errno: e.raw_os_error().unwrap_or(libc::EAGAIN),
        })?;
        told.recv().expect("it answers")
    }

    fn follow(&self, pid: i32, tell: Sender<Result<(), Error>>) {
        let options = libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_EXITKILL;
        let done = Request::Seize(options).make(pid);
        let done = done.map_err(Error::of(
            "ptrace(PTRACE_SEIZE): emulating the time stamp counter for a program",
        ));
        let failed = done.is_err();
        if tell.send(done).is_err() || failed {
            return;
        }
        let mut reads = 0;
        loop {
            let Some(tid) = look(libc::P_ALL, 0, WNOTHREAD) else {
                match std::io::Error::last_os_error().raw_os_error() {
                    Some(libc::EINTR) => continue,
                    _ => return,
                }
            };
            // A reader finds all of this done, or nothing.
            let mut held = self.held.lock().expect("no thread panics with it");
            let options = libc::__WALL | WNOTHREAD | libc::WNOHANG;
            // Only this thread's tracees are waited for.
            let Some((_, status)) = waitpid(tid, options).ok().filter(|(of, _)| *of == tid) else {
                continue; // it has been killed since
            };
            if !libc::WIFSTOPPED(status) {
                held.remove(&tid);
                let mut ended = self.ended.lock().expect("no thread panics with it");
                ended.insert(tid, status);
                self.another.notify_all();
                continue;
            }
            let signal = libc::WSTOPSIG(status);
            let request = match status >> 16 {
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                    self.forget_namesake(tid);
                    Request::Continue(0)
                }
                0 if signal == libc::SIGSEGV && self.emulate(tid, &mut reads) => {
                    Request::Continue(0)
                }
                0 => Request::Continue(signal),
                // Stopped like any other, until a process continues it.
                PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Request::Listen,
                _ => Request::Continue(0),
            };
            match request {
                Request::Listen => held.insert(tid),
                _ => held.remove(&tid),
            };
            // It fails if it was killed meanwhile.
            let _ = request.make(tid);
        }
    }

    /// A thread has made another, whose number may have been one's that has ended: threads end
    /// unasked for.
    fn forget_namesake(&self, parent: i32) {
        let mut number = 0;
        if Request::EventMessage(&mut number).make(parent).is_ok() {
            let mut ended = self.ended.lock().expect("no thread panics with it");
            ended.remove(&(number as i32));
        }
    }

    /// If a thread was about to read the counter, does that for it.
    fn emulate(&self, tid: i32, reads: &mut u64) -> bool {
        let mut registers = libc::user_regs_struct::zeroed();
        if Request::Registers(&mut registers).make(tid).is_err() {
            return false;
        }
        let mut code = [0; 3];
        // It may be the last instruction that there is.
        let readable = tracee::read(tid, registers.rip, &mut code)
            || tracee::read(tid, registers.rip, &mut code[..2]);
        let length = match code {
            _ if !readable => return false,
            RDTSCP => {
                registers.rcx = 0;
                RDTSCP.len()
            }
            [a, b, _] if [a, b] == RDTSC => RDTSC.len(),
            _ => return false,
        };
        *reads += STEP;
        let value = self.now.load(Ordering::Relaxed) + *reads;
        registers.rax = value & 0xffff_ffff;
        registers.rdx = value >> 32;
        registers.rip += length as u64;
        Request::SetRegisters(&registers).make(tid).is_ok()
    }
}
