//! ptrace(2): the few requests that are made.

use std::io;

use crate::done;

/// What is asked for, of a thread that the calling one traces; see ptrace(2).
pub enum Request<'a> {
    /// The process that started this one traces it from now on. It has no thread.
    TraceMe,
    /// The calling thread traces the other from now on, which goes on, with these options
    /// (`PTRACE_O_*`).
    Seize(i32),
    /// The thread goes on, with this signal if it is not 0.
    Continue(i32),
    /// The thread stays stopped by the signal that has stopped it, and tells when it goes on.
    Listen,
    /// What belongs to the event that has stopped the thread.
    EventMessage(&'a mut u64),
    /// Its registers.
    Registers(&'a mut libc::user_regs_struct),
    /// Sets them.
    SetRegisters(&'a libc::user_regs_struct),
}

impl Request<'_> {
    /// Makes it. Async-signal-safe.
    ///
    /// # Errors
    /// As ptrace(2): `ESRCH`, too, if the thread is not stopped or not traced.
    pub fn make(self, tid: i32) -> io::Result<()> {
        let (request, data) = match self {
            Request::TraceMe => (libc::PTRACE_TRACEME, 0),
            Request::Seize(options) => (libc::PTRACE_SEIZE, options as usize),
            Request::Continue(signal) => (libc::PTRACE_CONT, signal as usize),
            Request::Listen => (libc::PTRACE_LISTEN, 0),
            Request::EventMessage(to) => (libc::PTRACE_GETEVENTMSG, &raw mut *to as usize),
            Request::Registers(to) => (libc::PTRACE_GETREGS, &raw mut *to as usize),
            Request::SetRegisters(from) => (libc::PTRACE_SETREGS, &raw const *from as usize),
        };
        // SAFETY: a number for requests that want one, and for the others the address of what they
        // fill or read, which is borrowed.
        done(unsafe { libc::ptrace(request, tid, 0usize, data) }).map(|_| ())
    }
}
