//! Real programs on a real image, as root and as an ordinary user.

mod built;
mod control;
mod home;
mod horizon;
mod lab;
mod letters;
mod mail;
mod programs;
mod semantics;
mod virtual_rounds;
mod virtual_start;
mod virtual_time;
mod waits;
mod watchdog;
