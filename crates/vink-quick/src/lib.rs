//! `libvink_quick.so`: loaded into an unmodified dynamic program that is trapped (`LD_PRELOAD`), it
//! posts the sends and receives of streams in memory shared with the worker (`vink-ring`), while
//! that polls, instead of having them trapped.
//!
//! # Theory of operation
//!
//! It stands in the place of a few functions of the C library (`symbols`) and changes nothing about
//! any but calls on streams of Vink's that neither block nor have more to them than bytes (`post`).
//! Everything else goes on to the C library, whose system calls are trapped as ever: nothing
//! depends on this library, and a process that has no ring, or a thread that has no slot, does
//! without. Waits for readiness are answered from the ring's readiness page (`sets`, `ready`).
//!
//! A process asks for a ring when it has made some such calls, a thread for its slot at its first
//! one. What it knows is in memory that the host wipes in a child (`MADV_WIPEONFORK`): a fork
//! begins anew.
//!
//! In virtual time nothing is posted; reads and writes of the host's pipes that don't wait, and
//! some poll(2), are made untrapped (`pipe`, `poll`), as far as the worker allows it.
//!
//! # Not supported
//!
//! Pointers to memory that is not there: `SIGSEGV`, where a system call gives `EFAULT`. Children
//! that share the memory of their parent but not its descriptors, but for those of vfork(2)
//! (`vfork`). epoll_ctl(2) and fork(2) by a signal handler that has interrupted a function of
//! this library, if the set has been changed before: the host's may not be.

#![deny(unsafe_op_in_unsafe_fn)]

mod exec;
mod host_file;
mod memory;
mod pipe;
mod poll;
mod post;
mod ready;
mod sets;
mod stream;
mod symbols;
mod system_call;
mod vfork;
mod wait;

use std::ffi::{c_char, c_int};

/// The loader calls it before the program begins.
#[used]
#[cfg_attr(not(test), link_section = ".init_array")]
static BEGIN: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = begin;

/// With what main() is given, by the C library's loader.
unsafe extern "C" fn begin(_count: c_int, _arguments: *mut *mut c_char, envp: *mut *mut c_char) {
    post::begin();
    // SAFETY: the loader passes the program's environment on, and there is one thread.
    unsafe { exec::hide(envp) };
}
