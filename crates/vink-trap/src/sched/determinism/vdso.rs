//! The vDSO: its functions, which tell the time without a system call, are overwritten with system
//! calls, or show virtual time (`vvar`).
//!
//! The host maps the same image into each process at exec, and lets a process with the right to
//! trace another one change its copy: no other process sees that. Overwritten it works for all
//! programs alike, those without a dynamic linker too, and forked children have it so.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::sched::determinism::clock_code;
use crate::tracee;
use crate::Error;

/// A system call's number in eax, syscall, ret.
const LENGTH: usize = 8;
/// More than any vDSO has.
const LARGEST: usize = 64 << 10;

const PT_LOAD: u32 = 1;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;

/// What is written over an image. Places are counted from its start.
#[derive(Debug, PartialEq, Eq)]
struct Patches {
    all: Vec<(u64, Vec<u8>)>,
    /// Where the clocks are then, if there was room for them.
    clocks: Option<u64>,
}

/// Those of the host's.
static PATCHES: OnceLock<Option<Patches>> = OnceLock::new();

/// Where the clocks are in the memory of a process; `None` if its vDSO shows the host's.
pub(in crate::sched) fn clocks_of(pid: i32, base: u64) -> Option<u64> {
    let patches = PATCHES.get()?.as_ref()?;
    let (offset, code) = patches.all.first()?;
    let mut there = [0; LENGTH];
    let read = tracee::read(pid, base + offset, &mut there);
    (read && code.starts_with(&there)).then_some(base + patches.clocks?)
}

/// What has become of a vDSO.
pub(crate) enum Replaced {
    /// It was replaced before.
    Before,
    /// It is replaced; of one that shows clocks: where they are in the process's memory.
    Now(Option<u64>),
}

/// Has the vDSO of a process that has just been executed make system calls, but for what `vvar`
/// has. `base`: where it is.
///
/// # Errors
/// [`Error::System`]: the vDSO is not what is expected, or /proc/PID/mem can't be written.
pub(crate) fn replace(pid: i32, base: u64) -> Result<Replaced, Error> {
    let cannot = |what, e: std::io::Error| Error::System {
        what,
        errno: e.raw_os_error().unwrap_or(libc::EIO),
    };
    let path = format!("/proc/{pid}/mem");
    let memory = File::options().read(true).write(true).open(path);
    let memory = memory.map_err(|e| cannot("opening a program's memory (/proc/PID/mem)", e))?;
    // It is the same in all processes, and those that come later have it as it was.
    let patches = PATCHES.get_or_init(|| {
        let mut image = vec![0; LARGEST];
        let length = memory.read_at(&mut image, base).unwrap_or(0);
        patches(&image[..length])
    });
    let Some(patches) = patches else {
        return Err(Error::System {
            what: "looking for the symbols of the host's vDSO (start the host with vdso=0)",
            errno: libc::ENOEXEC,
        });
    };
    for (offset, code) in &patches.all {
        let mut there = [0; LENGTH];
        let read = memory.read_exact_at(&mut there, base + offset);
        if read.is_ok() && code.starts_with(&there) {
            return Ok(Replaced::Before);
        }
        memory.write_all_at(code, base + offset).map_err(|e| {
            cannot("writing to the vDSO of a program (/proc/PID/mem; start the host without proc_mem.force_override=never)", e)
        })?;
    }
    Ok(Replaced::Now(patches.clocks.map(|clocks| base + clocks)))
}

/// What is to be written into an image; `None` if it has no such symbols.
fn patches(image: &[u8]) -> Option<Patches> {
    let sections = (0..u64::from(half(image, 60)?)).map(|n| {
        let at = word(image, 40)? + n * u64::from(half(image, 58)?);
        image.get(usize::try_from(at).ok()?..)
    });
    let sections: Vec<&[u8]> = sections.collect::<Option<_>>()?;
    let content = |section: &[u8]| {
        let (offset, length) = (word(section, 24)? as usize, word(section, 32)? as usize);
        image.get(offset..offset.checked_add(length)?)
    };
    let symbols = sections.iter().find(|s| int(s, 4) == Some(SHT_DYNSYM))?;
    let names = content(sections.get(int(symbols, 40)? as usize)?)?;
    let mut patches = Patches {
        all: Vec::new(),
        clocks: None,
    };
    for symbol in content(symbols)?.chunks_exact(24) {
        let name = names.get(int(symbol, 0)? as usize..)?;
        let name = &name[..name.iter().position(|b| *b == 0)?];
        let (value, length) = (word(symbol, 8)?, word(symbol, 16)?);
        // Those with and without __vdso_ are the same.
        let name = name.strip_prefix(b"__vdso_");
        let Some(code) = name.and_then(code).filter(|_| symbol[4] & 15 == STT_FUNC) else {
            continue;
        };
        if length < LENGTH as u64 {
            return None;
        }
        let mut code = code.to_vec();
        if name == Some(b"clock_gettime") {
            let (shows, clocks) = clock_code::code(value, length_of(image)?);
            if shows.len() as u64 <= length {
                code = shows;
                patches.clocks = Some(clocks);
            }
        }
        patches.all.push((value, code));
    }
    (!patches.all.is_empty()).then_some(patches)
}

/// How much of the memory an image takes up, which begins with its only part.
fn length_of(image: &[u8]) -> Option<u64> {
    let headers = (0..u64::from(half(image, 56)?)).map(|n| {
        let at = word(image, 32)? + n * u64::from(half(image, 54)?);
        image.get(usize::try_from(at).ok()?..)
    });
    let headers: Vec<&[u8]> = headers.collect::<Option<_>>()?;
    let loaded = headers.iter().find(|h| int(h, 0) == Some(PT_LOAD))?;
    Some(word(loaded, 40)?.next_multiple_of(4096))
}

/// What a function becomes.
fn code(name: &[u8]) -> Option<[u8; LENGTH]> {
    let nr = match name {
        b"clock_gettime" => libc::SYS_clock_gettime,
        b"clock_getres" => libc::SYS_clock_getres,
        b"gettimeofday" => libc::SYS_gettimeofday,
        b"time" => libc::SYS_time,
        b"getcpu" => libc::SYS_getcpu,
        // mov eax, -ENOSYS; ret: it has a state of its own, of which the system call knows nothing.
        // C libraries make that instead.
        b"getrandom" => return Some([0xb8, 0xda, 0xff, 0xff, 0xff, 0xc3, 0x90, 0x90]),
        _ => return None,
    };
    // mov eax, number; syscall; ret: the arguments are where the system call wants them.
    let [low, high, ..] = nr.to_le_bytes();
    Some([0xb8, low, high, 0, 0, 0x0f, 0x05, 0xc3])
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn int(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use crate::sched::determinism::auxv::Auxv;

    #[test]
    fn a_program_goes_on_without_its_vdso() {
        let script = "echo; read x; printf '%(%s)T\\n' -1; (printf '%(%s)T\\n' -1); read x";
        let mut shell = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        let pid = shell.id() as i32;
        let base = Auxv::of(pid).unwrap().vdso.unwrap();
        assert_eq!(clocks_of(pid, base), None);
        let Replaced::Now(Some(clocks)) = replace(pid, base).unwrap() else {
            panic!("no clocks");
        };
        assert!(matches!(replace(pid, base).unwrap(), Replaced::Before));
        assert_eq!(clocks_of(pid, base), Some(clocks));
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut image = vec![0; LARGEST];
        let length = memory.read_at(&mut image, base).unwrap();
        let all = patches(&image[..length]).unwrap();
        assert!(all.all.len() >= 4, "{all:x?}");
        for (offset, code) in all.all {
            assert_eq!(&image[offset as usize..][..code.len()], code);
        }
        let input = shell.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        let numbers: Vec<u64> = (0..2)
            .map(|_| lines.next().unwrap().unwrap().parse().unwrap())
            .collect();
        assert!(numbers[0] > 1_600_000_000 && numbers[1] >= numbers[0]);
        input.write_all(b"\n").unwrap();
        assert!(shell.wait().unwrap().success());
        // No other process's copy has changed.
        let own = Auxv::of(std::process::id() as i32).unwrap();
        assert_ne!(own.vdso, None);
        let memory = File::open("/proc/self/mem").unwrap();
        let length = memory.read_at(&mut image, own.vdso.unwrap()).unwrap();
        for (offset, code) in patches(&image[..length]).unwrap().all {
            assert_ne!(&image[offset as usize..][..code.len()], code);
        }
    }

    #[test]
    fn what_is_no_vdso() {
        assert_eq!(patches(b""), None);
        assert_eq!(patches(&[0; 4096]), None);
        assert_eq!(patches(&[0xff; 4096]), None);
    }
}
