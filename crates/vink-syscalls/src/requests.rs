//! Commands of fcntl(2) and requests of ioctl(2) that are treated differently from others.

/// fcntl(2) commands that concern the descriptor, or what only the host knows of the file.
pub const NATIVE_FCNTLS: [u32; 6] = [
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETOWN as u32,
    F_GETOWN_EX,
    F_SETSIG,
    F_GETSIG,
];

/// Of `<linux/fcntl.h>`: what libc leaves out.
const F_SETSIG: u32 = 10;
const F_GETSIG: u32 = 11;
const F_GETOWN_EX: u32 = 16;
/// fcntl(2): sets a file's signal owner, which may be a thread. libc leaves it out.
pub const F_SETOWN_EX: i32 = 15;

/// ioctl(2) requests of `<asm-generic/sockios.h>` that set a file's signal owner.
pub const FIOSETOWN: u32 = 0x8901;
/// See [`FIOSETOWN`].
pub const SIOCSPGRP: u32 = 0x8902;
/// ioctl(2) requests of `<asm-generic/sockios.h>` that read a file's signal owner.
pub const FIOGETOWN: u32 = 0x8903;
/// See [`FIOGETOWN`].
pub const SIOCGPGRP: u32 = 0x8904;

/// Of the terminal requests (0x54xx) those that sockets know too (SIOCOUTQ, FIONREAD, FIONBIO,
/// FIOASYNC), and the one that names a process group. The others are the host's business; a
/// placeholder refuses them as any socket does.
pub const TTY_IOCTLS: [u32; 5] = [
    libc::TIOCSPGRP as u32,
    libc::TIOCOUTQ as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOASYNC as u32,
];

/// Whether this is one of the requests of `linux/sockios.h` that are about interfaces;
/// `SIOCPROTOPRIVATE` is between them.
pub const fn concerns_interfaces(request: u64) -> bool {
    matches!(request as u32, 0x8910..=0x89df | 0x89f0..=0x89ff)
}
