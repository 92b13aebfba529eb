//! Errors as a system call returns them: negative numbers.

use std::io;

macro_rules! errors {
    ($($name:ident)*) => {$(
        #[doc = concat!("What a system call returns for `", stringify!($name), "`; see errno(3).")]
        pub const $name: i64 = -(libc::$name as i64);
    )*};
}

errors! {
    EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EBADF EBUSY ECHILD ECONNREFUSED ECONNRESET
    EDEADLK EEXIST EFAULT EINPROGRESS EINTR EINVAL EIO EISDIR EMFILE EMSGSIZE ENETUNREACH ENFILE
    ENODEV ENOENT ENOMEM ENOPROTOOPT ENOSYS ENOTCONN ENOTDIR ENOTSOCK EOPNOTSUPP EPERM EPIPE ESPIPE
    ESRCH ETIMEDOUT
}

/// The errno of the calling thread's last failed call of libc's.
pub fn last() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// What a system call would have returned: a result, or an errno below 0.
pub fn result(done: io::Result<usize>) -> i64 {
    match done {
        Ok(count) => count as i64,
        Err(error) => of(&error),
    }
}

/// An error as a system call would have returned it.
pub fn of(error: &io::Error) -> i64 {
    -i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}
