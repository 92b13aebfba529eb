//! How functions of the C library give the result of a system call.

use std::cell::Cell;
use std::ffi::c_int;

use libc::ssize_t;

/// The thread's errno.
pub fn errno() -> &'static Cell<c_int> {
    // SAFETY: stays as long as the thread, which alone has it.
    unsafe { &*libc::__errno_location().cast() }
}

/// What a function gives for a system call's result: that, or -1 and the error in errno.
#[inline(always)]
pub fn finish(result: i64) -> ssize_t {
    match result {
        -4095..0 => failed(result),
        _ => result as ssize_t,
    }
}

#[cold]
fn failed(result: i64) -> ssize_t {
    errno().set(-result as c_int);
    -1
}
