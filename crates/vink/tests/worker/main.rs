//! `vink lab-worker`, over its protocol: as root, and as an ordinary user.

#[path = "../common/mod.rs"]
mod common;

mod apps;
mod breakpoints;
mod captures;
mod conversation;
mod ends;
mod machines;
mod programs;
mod talk;
mod uplinks;
