//! packetdrill's shared-object interface: TCP scripts on an image.
//!
//! packetdrill(1) runs a script of system calls, and of packets that go in and must come out. With
//! `--so_filename=libvink_packetdrill.so` it calls this library in place of the host's kernel. The library has
//! a kernel of its own in packetdrill's process, with one machine; its only interface, `tun0`, is where
//! packetdrill's packets go in and the machine's come out. So a script needs no root and no TUN device of the
//! host's, and can have a virtual clock, by which its times are exact.
//!
//! `interface` is the table of functions that packetdrill is given, `flags` what `--so_flags` may say, `stack` the
//! kernel and who may wait for what, `tun` its interface, `sysctls` what a script's commands have set.
//!
//! Theory of operation: packetdrill has two threads. The first one runs the script, injects packets, and
//! waits for packets, or for the time of the next event. The second one makes the system calls that block. Each has
//! a task of its own. Whoever is here runs the kernel, under one lock. What leaves the machine meanwhile
//! is put aside with the time at which it left.
//!
//! A virtual clock is moved by the first thread alone, from one timer to the next, when it waits here. While it
//! sleeps elsewhere, which it does only to wait for the second one, that one moves the clock. A call of the second thread is done at
//! a certain time, but the thread may ask for the time a little later; it is told the former. And
//! packetdrill looks at the clock until an event's time has come: each look without anything in between takes 1 µs.

mod flags;
mod interface;
mod stack;
mod sysctls;
mod tun;

pub use interface::{packetdrill_interface_init, Interface};
