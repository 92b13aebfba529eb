//! `libvink_preload.so`: the interposer *in-process*. Loaded into an unmodified dynamic program (`LD_PRELOAD`), it has
//! the program's network system calls answered by a kernel in the same process.
//!
//! # Theory of operation
//!
//! Every system call of the program comes to one function (`enter`): the most frequent ones by the C library's
//! functions, which this library has in their place (`symbols`), all others, also those made inside the C library or
//! by bare instructions, by a signal that the host's kernel sends instead (`dispatch`). What does not concern Vink is
//! made by the one piece of code whose calls are left alone (`host`).
//!
//! A Vink file is a number of the program's that the host holds by a placeholder, and the kernel's task under another
//! number (`descriptors`). A call on it is made in the kernel with the same arguments ([`vink_inproc::Stack`], which
//! is booted when the first socket is asked for). Nothing is marshalled: the kernel's own routines copy. Waiting for
//! several files may concern both sides (`readiness`).
//!
//! A thread that is in here is *inside* (`thread`): its own system calls are the host's, and its signals wait until it
//! leaves (`signals`). Forks have no part of the stack (`process`).
//!
//! # Not supported
//!
//! Programs that are not linked dynamically, or are set-user-id: the loader ignores `LD_PRELOAD`. Programs that fork
//! with sockets open and use them in the child (`EIO`, with a message). Sockets handed to other processes, or
//! kept over exec. Packet rings (`mmap(2)`: `ENODEV`). Network namespaces.

#![deny(unsafe_op_in_unsafe_fn)]

mod descriptors;
mod dispatch;
mod enter;
mod files;
mod host;
mod process;
mod readiness;
mod signals;
mod state;
mod symbols;
mod thread;
mod transfer;

/// The loader calls it before the program begins.
#[used]
#[cfg_attr(not(test), link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        dispatch::begin();
    }
    begin
};
