//! The instructions that filters of system calls are made of: classic BPF, on `struct seccomp_data`.

use libc::sock_filter;

pub(crate) const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(crate) const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
pub(crate) const JEQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
pub(crate) const JGE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
pub(crate) const JSET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
pub(crate) const RET: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;
/// The low half of an argument.
pub(crate) const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

pub(crate) const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Set in the numbers of the x32 ABI.
pub(crate) const X32_BIT: u32 = 0x4000_0000;

pub(crate) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub(crate) const fn fails(error: u32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error
}

pub(crate) fn op(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
