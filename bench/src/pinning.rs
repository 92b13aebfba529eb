//! Keeps a process on one processor.

use std::io;

use vink_sys::process::{affinity, cpu_set, cpus, set_affinity};

/// Binds this thread, and what it starts, to the last of the processors that it may use: the first
/// one tends to have the most interrupts.
pub(crate) fn pin() -> io::Result<()> {
    bind(processors()?.pop().unwrap_or(0))
}

/// The numbers of those that this thread may use.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    let allowed = affinity(0).ok_or_else(|| io::Error::other("sched_getaffinity(2) failed"))?;
    Ok(cpus(&allowed).collect())
}

/// Binds this thread, and what it starts, to this one.
pub(crate) fn bind(processor: usize) -> io::Result<()> {
    allow(&[processor])
}

/// Lets this thread, and what it starts, use these.
pub(crate) fn allow(processors: &[usize]) -> io::Result<()> {
    let set = cpu_set(processors.iter().copied());
    match set_affinity(0, &set) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "sched_setaffinity(2) refused the processors {processors:?}"
        ))),
    }
}
