//! Keeps a process on one processor.

use std::io;

/// Binds this thread, and what it starts, to the last of the processors that it may use: the first
/// one tends to have the most interrupts.
pub(crate) fn pin() -> io::Result<()> {
    // SAFETY: the sets are valid and as large as is said.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) < 0 {
            return Err(io::Error::last_os_error());
        }
        let last = (0..libc::CPU_SETSIZE as usize).rfind(|cpu| libc::CPU_ISSET(*cpu, &allowed));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(last.unwrap_or(0), &mut one);
        match libc::sched_setaffinity(0, size_of_val(&one), &one) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
