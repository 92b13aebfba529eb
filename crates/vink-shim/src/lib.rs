//! The C library's functions that a preloaded library (`LD_PRELOAD`) has in their place: one table of
//! them, for both libraries.
//!
//! # Theory of operation
//!
//! The table ([`functions!`], [`socket_functions!`]) says of each function its type and the system
//! call that it is. A library has a [`Backend`], which decides what becomes of the call: the one with
//! a kernel in the process (`vink-preload`) makes each there, the one with a shared ring
//! (`vink-quick`) posts some, and leaves the rest to the C library's own function, which is `next`.
//! [`symbols!`] makes the library's symbols of the table and its backend.
//!
//! Calls go through no table at run time: a function's number is a constant where its backend sees it.

#![deny(unsafe_op_in_unsafe_fn)]

mod arguments;
mod backend;
mod errno;
mod next;
mod table;

pub use arguments::{Array, Given, Mask, Part, Text, Texts};
pub use backend::{args, Backend};
pub use errno::{errno, finish};
pub use libc;
pub use next::Next;

/// The types of the table.
pub mod types {
    pub use std::ffi::{c_char, c_int, c_uint, c_void};

    pub use libc::{
        epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t,
        sockaddr, socklen_t, ssize_t, stat, timespec, timeval,
    };
}
