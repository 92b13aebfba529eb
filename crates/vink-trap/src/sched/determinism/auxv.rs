//! What a program finds when it is executed, beside its arguments: see getauxval(3).

use std::fs;

const AT_BASE: u64 = 7;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// Addresses that the host's kernel tells a program, in it.
#[derive(Debug, Default)]
pub(crate) struct Auxv {
    pub(crate) vdso: Option<u64>,
    /// Of 16 random bytes.
    pub(crate) random: Option<u64>,
    /// Of the dynamic linker, if there is one.
    pub(crate) linker: Option<u64>,
}

impl Auxv {
    /// Of a process; `None` if it is gone.
    pub(crate) fn of(pid: i32) -> Option<Auxv> {
        let bytes = fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let mut found = Auxv::default();
        for pair in bytes.chunks_exact(16) {
            let (kind, value) = pair.split_at(8);
            let number = |half: &[u8]| u64::from_ne_bytes(half.try_into().expect("eight bytes"));
            match number(kind) {
                AT_BASE => found.linker = Some(number(value)).filter(|base| *base != 0),
                AT_RANDOM => found.random = Some(number(value)),
                AT_SYSINFO_EHDR => found.vdso = Some(number(value)),
                _ => {}
            }
        }
        Some(found)
    }
}
