//! Keeps a process on one processor.

use std::io;

/// Binds this thread, and what it starts, to the last of the processors that it may use: the first
/// one tends to have the most interrupts.
pub(crate) fn pin() -> io::Result<()> {
    bind(processors()?.pop().unwrap_or(0))
}

/// The numbers of those that this thread may use.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: the set is valid and as large as is said.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) < 0 {
            return Err(io::Error::last_os_error());
        }
        let all = 0..libc::CPU_SETSIZE as usize;
        Ok(all.filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).collect())
    }
}

/// Binds this thread, and what it starts, to this one.
pub(crate) fn bind(processor: usize) -> io::Result<()> {
    allow(&[processor])
}

/// Lets this thread, and what it starts, use these.
pub(crate) fn allow(processors: &[usize]) -> io::Result<()> {
    // SAFETY: the set is valid and as large as is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for processor in processors {
            libc::CPU_SET(*processor, &mut set);
        }
        match libc::sched_setaffinity(0, size_of_val(&set), &set) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
