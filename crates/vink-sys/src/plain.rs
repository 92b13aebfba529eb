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

/// One whose bytes, whatever they are, are a value.
///
/// # Safety
/// They are.
pub unsafe trait FromBytes: Zeroed {
    /// The structure that begins with these bytes; `None` if they are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: as many bytes as it has, and as the implementation promises.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

/// One without gaps between its members, so that all its bytes have a value.
///
/// # Safety
/// There are none.
pub unsafe trait AsBytes: Zeroed {
    /// Its bytes.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: as many as it has, and as the implementation promises.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

macro_rules! plain {
    ($trait:ident: $($type:ty),*) => {$(
        // SAFETY: integers, arrays of integers, and pointers that may be null.
        unsafe impl $trait for $type {}
    )*};
}

plain! { Zeroed:
    i32, [u32; 2], libc::Dl_info, libc::cmsghdr, libc::flock, libc::ifreq, libc::mmsghdr, libc::msghdr,
    libc::packet_mreq, libc::rlimit, libc::sched_attr, libc::seccomp_notif, libc::siginfo_t, libc::sockaddr_in, libc::sockaddr_in6, libc::sockaddr_ll,
    libc::sockaddr_nl, libc::sockaddr_storage, libc::stat, libc::statx, libc::sysinfo,
    libc::tcp_info, libc::termios, libc::timespec, libc::ucred, libc::user_regs_struct, libc::utsname
}
plain! { FromBytes: libc::flock, libc::siginfo_t, libc::tcp_info }
plain! { AsBytes: libc::stat, libc::statx }
