//! The dynamic linker's own calls on files, which are untrapped in virtual time, for they are most
//! of those that starting a program takes.
//!
//! Without randomisation the host puts the linker at the same address in all programs, so the
//! filter knows its calls by where they are made. The files that it opens, reads and closes are
//! libraries, which say nothing of time or chance, and are never Vink files. The calls of a linker
//! elsewhere, or of another one, are trapped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use vink_sys::child::{prepare, Step};
use vink_sys::process::waitpid;
use vink_syscalls::is_linkers;

use crate::sched::determinism::auxv::Auxv;

/// Of glibc. (musl's linker is its C library: what that does with files, programs do.)
const NAME: &[u8] = b"\0ld-linux-x86-64.so.2\0";
/// More than the linker has.
const LARGEST: usize = 1 << 20;
const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// How far before its instruction a call's number may be loaded, in bytes.
const MAX_DISTANCE: usize = 16;

/// Where the linker makes such calls: numbers, and addresses behind the instruction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LdSo {
    sites: Vec<(i64, u64)>,
}

impl LdSo {
    /// Of programs that this process starts, as far as can be known beforehand.
    pub(crate) fn expected() -> Option<&'static LdSo> {
        static LINKER: OnceLock<Option<LdSo>> = OnceLock::new();
        LINKER.get_or_init(try_out).as_ref()
    }

    /// Of an image that begins at `base`.
    fn of(image: &[u8], base: u64) -> Option<LdSo> {
        image.windows(NAME.len()).find(|name| *name == NAME)?;
        let mut sites = Vec::new();
        for code in executable(image)? {
            let calls = code.windows(2).enumerate().filter(|(_, at)| *at == SYSCALL);
            for (at, _) in calls {
                let start = at.saturating_sub(MAX_DISTANCE);
                if let Some(nr) = number(&code[start..at]) {
                    let offset = code.as_ptr() as u64 - image.as_ptr() as u64;
                    sites.push((nr, base + offset + (at + SYSCALL.len()) as u64));
                }
            }
        }
        (!sites.is_empty()).then_some(LdSo { sites })
    }

    /// Where it makes calls of this number.
    pub(crate) fn sites(&self, nr: i64) -> Vec<u64> {
        let of_it = self.sites.iter().filter(|(of, _)| *of == nr);
        of_it.map(|(_, address)| *address).collect()
    }
}

/// The executable parts of an ELF image in memory. `None`: it is no such image.
fn executable(image: &[u8]) -> Option<Vec<&[u8]>> {
    let bytes = |at: usize, len: usize| image.get(at..at.checked_add(len)?);
    let int = |at| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?));
    let word = |at| usize::try_from(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?)).ok();
    let half = |at| Some(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?));
    let mut parts = Vec::new();
    for n in 0..usize::from(half(56)?) {
        let header = word(32)? + n * usize::from(half(54)?);
        if int(header)? == PT_LOAD && int(header + 4)? & PF_X != 0 {
            parts.push(bytes(word(header + 16)?, word(header + 40)?)?);
        }
    }
    Some(parts)
}

/// The number of the call that follows this code: what it loads into eax last, if that is one
/// that a linker makes on libraries.
fn number(code: &[u8]) -> Option<i64> {
    if code.ends_with(&[0x31, 0xc0]) {
        return Some(libc::SYS_read); // xor eax, eax
    }
    let loads = code.windows(5).rev().filter(|load| load[0] == 0xb8);
    let mut numbers =
        loads.map(|load| i64::from(u32::from_le_bytes([load[1], load[2], load[3], load[4]])));
    numbers.next().filter(|nr| is_linkers(*nr))
}

/// Executes this program once more, and finds where its linker is before that does anything.
fn try_out() -> Option<LdSo> {
    let mut command = Command::new("/proc/self/exe");
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    prepare(&mut command, [Step::FixAddresses, Step::Trace]);
    let mut child = command.spawn().ok()?;
    let found = look_at(&child);
    // It has been stopped, or has ended.
    child.kill().ok()?;
    child.wait().ok()?;
    found
}

/// The linker of a child that stops when it has been executed.
fn look_at(child: &Child) -> Option<LdSo> {
    let pid = child.id() as i32;
    let (stopped, status) = waitpid(pid, libc::WUNTRACED).ok()?;
    if stopped != pid || !libc::WIFSTOPPED(status) {
        return None;
    }
    let base = Auxv::of(pid)?.linker?;
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut image = vec![0; LARGEST];
    let mut len = 0;
    // Up to the first page that is not there.
    while let Ok(more @ 1..) = memory.read_at(&mut image[len..], base + len as u64) {
        len += more;
    }
    LdSo::of(&image[..len], base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_syscalls::NR_END;

    #[test]
    fn of_this_host() {
        let linker = LdSo::expected().unwrap();
        for nr in (0..NR_END as i64).filter(|nr| is_linkers(*nr)) {
            let sites = linker.sites(nr);
            assert!(!sites.is_empty(), "call {nr}");
            assert!(sites.iter().all(|site| site >> 32 == sites[0] >> 32));
        }
        assert!(linker.sites(libc::SYS_futex).is_empty());
        // It is the same each time.
        assert_eq!(try_out().as_ref(), Some(linker));
    }

    #[test]
    fn numbers() {
        assert_eq!(number(&[0x90, 0x31, 0xc0]), Some(libc::SYS_read));
        assert_eq!(number(&[0xb8, 3, 0, 0, 0]), Some(libc::SYS_close));
        let far = [
            0xb8, 1, 1, 0, 0, 0x44, 0x89, 0xc2, 0x89, 0xdf, 0x4c, 0x89, 0xe6,
        ];
        assert_eq!(number(&far), Some(libc::SYS_openat));
        assert_eq!(number(&[0xb8, 3, 0, 0, 0, 0xb8, 12, 0, 0, 0]), None);
        assert_eq!(number(&[]), None);
    }

    #[test]
    fn what_is_no_linker() {
        assert_eq!(LdSo::of(b"", 0), None);
        assert_eq!(LdSo::of(&[0xff; 4096], 0), None);
        assert_eq!(LdSo::of(NAME, 0), None);
    }
}
