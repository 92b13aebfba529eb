//! Filters of sockets: classic BPF (Documentation/networking/filter.rst), which decides which
//! packets a socket receives.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub const HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
pub const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
pub const WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
/// A half word at the index register and a constant.
pub const HALF_AT: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
pub const BYTE_AT: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
pub const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
pub const SHIFT_LEFT: u32 = libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K;
/// The accumulator becomes the index register.
pub const TO_INDEX: u32 = libc::BPF_MISC | libc::BPF_TAX;
/// A constant becomes the index register.
pub const INDEX: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM;
pub const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub const GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
pub const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
pub const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
pub const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Takes all of a packet.
pub const WHOLE: u32 = u32::MAX;
/// Takes nothing.
pub const NOTHING: u32 = 0;

/// An instruction; a jump skips `jt` or `jf` of them.
pub fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Has a socket receive only what the filter takes.
///
/// # Errors
/// As setsockopt(2), `SO_ATTACH_FILTER` (socket(7)).
pub fn attach(socket: impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: reads the structure, and the steps that it points to, which live here.
    let attached = unsafe {
        let length = size_of_val(&program) as u32;
        let value = (&raw const program).cast();
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, value, length)
    };
    match attached {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
