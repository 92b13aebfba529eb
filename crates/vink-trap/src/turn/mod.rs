//! Virtual time: what a program finds is the same in each run.

pub(crate) mod pids;
