//! Structures of the kernel's that may be all zeros.

/// A structure of integers and arrays of them.
///
/// # Safety
/// All bits zero are a valid value.
pub unsafe trait Zeroed: Sized {
    /// The structure with all bits zero.
    fn zeroed() -> Self {
        // SAFETY: as the implementation promises.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ident)*) => {$(
        // SAFETY: integers, arrays of integers, and pointers that may be null.
        unsafe impl Zeroed for libc::$name {}
    )*};
}

zeroed! {
    cmsghdr flock ifreq msghdr open_how seccomp_notif sigaction siginfo_t signalfd_siginfo sigset_t
    sockaddr_ll sockaddr_nl sockaddr_storage stat statx sysinfo tcp_info termios ucred
    user_regs_struct utsname
}
