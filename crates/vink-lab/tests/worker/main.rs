//! A lab's worker, over its protocol: as root, and as an ordinary user.

mod apps;
mod breakpoints;
mod captures;
mod conversation;
mod ends;
mod journals;
mod machines;
mod place;
mod programs;
mod talk;
mod uplinks;
mod worker_process;
