//! The lab worker: a process with one kernel, which does what the control process asks for.

pub mod protocol;
