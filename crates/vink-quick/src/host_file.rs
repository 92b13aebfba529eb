//! Files of the host's: calls on them are made untrapped.

use std::ffi::{c_int, c_uint};

use libc::{ssize_t, stat, SYS_newfstatat, SYS_openat};
use vink_shim::{finish, Text};

use crate::post::{is_host, knows, opened};
use crate::system_call::native;

/// The result of such a call on a descriptor, if it is known to be the host's.
#[inline]
pub(crate) fn on_host(nr: i64, fd: c_int, second: u64, third: u64) -> Option<ssize_t> {
    is_host(fd).then(|| finish(native(nr, [fd as u64, second, third, 0])))
}

/// Whether a path can lead to nothing but what is the host's, as far as its first part tells: those
/// that may lead elsewhere begin with one that `vink-trap`'s `virtual_paths` has, which is short.
fn is_hosts(path: Text) -> bool {
    const ELSEWHERE: [&[u8]; 3] = [b"proc", b"sys", b"dev"];
    let Some(path) = path.bytes().and_then(|path| path.strip_prefix(b"/")) else {
        return false;
    };
    let mut parts = path.split(|byte| *byte == b'/');
    parts.next().is_some_and(|first| {
        first.first().is_some_and(u8::is_ascii_alphabetic) && !ELSEWHERE.contains(&first)
    }) && parts.all(|part| part != b"..")
}

/// Opens what is the host's without asking.
#[inline]
pub(crate) fn open_of_host(path: Text, flags: c_int, mode: c_uint) -> Option<c_int> {
    if !knows() || !is_hosts(path) {
        return None;
    }
    let directory = libc::AT_FDCWD as u64;
    let args = [directory, path.as_ptr() as u64, flags as u64, mode.into()];
    let fd = finish(native(SYS_openat, args)) as c_int;
    if fd >= 0 {
        opened(fd);
    }
    Some(fd)
}

/// Those of an open file of the host's.
#[inline]
pub(crate) fn attributes(fd: c_int, about: *mut stat) -> Option<c_int> {
    let empty = c"".as_ptr() as u64;
    let args = [fd as u64, empty, about as u64, libc::AT_EMPTY_PATH as u64];
    is_host(fd).then(|| finish(native(SYS_newfstatat, args)) as c_int)
}
