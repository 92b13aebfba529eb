//! What rustix has not of mounts.

use std::ffi::CStr;
use std::io;

use crate::done;

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const AT_RECURSIVE: libc::c_int = 0x8000;

/// Makes what is mounted there and below give no rights to programs that are executed there: no
/// set-user-id bits, no capabilities of files. Async-signal-safe.
///
/// # Errors
/// As mount_setattr(2); `ENOSYS` before Linux 5.12.
pub fn set_nosuid(path: &CStr) -> io::Result<()> {
    set(path, MOUNT_ATTR_NOSUID)
}

/// Lets nothing be written there and below. Async-signal-safe.
///
/// # Errors
/// As [`set_nosuid`].
pub fn set_read_only(path: &CStr) -> io::Result<()> {
    set(path, MOUNT_ATTR_RDONLY)
}

fn set(path: &CStr, attributes: u64) -> io::Result<()> {
    let attributes = Attributes {
        set: attributes,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: a string that ends with NUL, and a structure of the size that is said, both only
    // read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            AT_RECURSIVE,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    done(result).map(drop)
}
