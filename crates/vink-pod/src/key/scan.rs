//! What a pod must not find in memory that can be executed: instructions that open keys.
//!
//! Keys protect from reads and writes. A pod can jump to any code of the process, into the middle of an
//! instruction, too, and that runs with the pod's rights. `WRPKRU` gives it others, and so does `XRSTOR`.
//! So no executable page may have their bytes anywhere, but for the gate's. By chance, some distances have
//! them, which are made other ones ([`super::branch`]). Two libraries do: libc has a pkey_set(3), which becomes a fault. The dynamic loader saves and restores all registers when it binds
//! a function that is called first: its `XRSTOR` gets a check behind it. The dynamic loader counts what
//! it loads: where libraries came since all was looked at, it is looked at again before the next crossing.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::branch::{near, page_near, redirect};
use super::gate;

/// A place with such bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub at: usize,
    pub what: &'static str,
}

/// Where they are among these bytes. A pattern may end behind them: then it is none.
pub(super) fn find(bytes: &[u8]) -> impl Iterator<Item = Found> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || loop {
        let at = next + first_0f(bytes.get(next..)?)?;
        next = at + 1;
        let what = match bytes.get(at..at + 3)? {
            [_, 0x01, 0xef] => "WRPKRU",
            // Group 15, 5, of memory: all of them are.
            [_, 0xae, operand] if operand >> 3 & 7 == 5 && operand >> 6 != 3 => "XRSTOR",
            _ => continue,
        };
        return Some(Found { at, what });
    })
}

/// Where the first byte is that all of them start with. libc is fast at it in a debug build, too.
fn first_0f(bytes: &[u8]) -> Option<usize> {
    let start = bytes.as_ptr();
    // SAFETY: looks at so many bytes; what it finds is one of them.
    unsafe {
        let found = libc::memchr(start.cast(), 0x0f, bytes.len()).cast::<u8>();
        (!found.is_null()).then(|| found.offset_from_unsigned(start))
    }
}

/// A mapping that can be executed.
struct Code {
    start: u64,
    end: u64,
    is_writable: bool,
    name: String,
}

/// How many libraries had come when all was looked at last.
static LIBRARIES: AtomicU64 = AtomicU64::new(0);

/// Looks again if libraries have come since this was last done.
///
/// # Errors
/// As [`process`].
pub(super) fn what_came() -> Result<(), String> {
    match libraries() == LIBRARIES.load(SeqCst) {
        true => Ok(()),
        false => process(true),
    }
}

/// How many libraries this process has loaded so far: `dlpi_adds` of dl_iterate_phdr(3).
fn libraries() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: usize,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: both are valid, by the call below and what it calls.
        unsafe { *count.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the function writes to this number.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// Looks at all that this process can execute, and makes harmless what can be if it `patches`.
///
/// # Errors
/// A sentence: what is there, and where.
pub(super) fn process(patches: bool) -> Result<(), String> {
    let libraries = libraries();
    // What it writes itself is looked at as well.
    for _ in 0..ROUNDS {
        if look(patches)? {
            LIBRARIES.store(libraries, SeqCst);
            return Ok(());
        }
    }
    Err("this process's code is another one each time that it is looked at".to_owned())
}

/// How often all is looked at, until there is nothing to do.
const ROUNDS: usize = 100;

/// Whether all is well, and was so while it was looked at.
fn look(patches: bool) -> Result<bool, String> {
    let mut has_written = false;
    let said = |error: io::Error| format!("reading this process's code: {error}");
    let memory = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let memory = memory.map_err(said)?;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(said)?;
    let codes: Vec<Code> = maps.lines().filter_map(code).collect();
    let sites = gate::sites();
    let mut known = known()
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // Neighbours are one: a pattern may lie in both.
    let mut end_of_last = 0;
    let mut last: Vec<u8> = Vec::new();
    for code in &codes {
        if code.is_writable {
            return Err(format!(
                "{} can be written and executed, at {:#x}",
                code.name, code.start
            ));
        }
        let mut bytes = match code.start == end_of_last {
            true => last[last.len() - 2..].to_vec(),
            false => Vec::new(),
        };
        let first = code.start - bytes.len() as u64;
        let from = bytes.len();
        bytes.resize(from + (code.end - code.start) as usize, 0);
        match memory.read_exact_at(&mut bytes[from..], code.start) {
            // Another thread has ended a pod, or a library.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(false),
            read => read.map_err(said)?,
        }
        for found in find(&bytes) {
            let at = first + found.at as u64;
            if sites.contains(&at) || known.contains(&at) {
                continue;
            }
            let around = &bytes[found.at..bytes.len().min(found.at + 5)];
            match patch(&memory, code, at, around, patches) {
                Ok(Done::Checked(place)) => {
                    known.push(place);
                    has_written = true;
                }
                Ok(Done::Gone) => has_written = true,
                Ok(Done::Not) => {}
                Err(why) => {
                    return Err(format!(
                        "{} has the bytes of {} at {at:#x} ({:#x} in the mapping): {why}",
                        code.name,
                        found.what,
                        at - code.start
                    ))
                }
            }
        }
        end_of_last = code.end;
        last = bytes;
    }
    Ok(!has_written)
}

/// `XRSTOR`s with a check behind them.
fn known() -> &'static std::sync::Mutex<Vec<u64>> {
    static KNOWN: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());
    &KNOWN
}

/// A line of /proc/self/maps. The page of old programs' system calls is no memory: it has no bytes to
/// be executed but its entries.
fn code(line: &str) -> Option<Code> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?.as_bytes();
    let name = fields.nth(3).unwrap_or("memory without a name");
    if access.get(2) != Some(&b'x') || name == "[vsyscall]" {
        return None;
    }
    Some(Code {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_writable: access[1] == b'w',
        name: name.to_owned(),
    })
}

/// What was done about a place.
enum Done {
    /// Nothing yet.
    Not,
    /// The bytes are not there any more.
    Gone,
    /// They are not there, and an `XRSTOR` with a check is here.
    Checked(u64),
}

/// Makes it harmless, if it `patches`.
fn patch(memory: &File, code: &Code, at: u64, bytes: &[u8], patches: bool) -> Result<Done, String> {
    let said = |error: io::Error| format!("writing there: {error}");
    match bytes {
        // xrstor 0x40(%rsp), of _dl_runtime_resolve_xsave.
        [0x0f, 0xae, 0x6c, 0x24, 0x40] if code.name.contains("/ld-linux") && !patches => {
            Ok(Done::Not)
        }
        [0x0f, 0x01, 0xef, ..] if is_pkey_set(at) && !patches => Ok(Done::Not),
        [0x0f, 0xae, 0x6c, 0x24, 0x40] if code.name.contains("/ld-linux") => {
            let stub = stub(memory, code, at + 5)?;
            let mut jump = vec![0xe9];
            jump.extend(near(at + 5, stub)?);
            memory.write_all_at(&jump, at).map_err(said)?;
            Ok(Done::Checked(stub))
        }
        [0x0f, 0x01, 0xef, ..] if is_pkey_set(at) => {
            // ud2, nop
            memory.write_all_at(&[0x0f, 0x0b, 0x90], at).map_err(said)?;
            Ok(Done::Gone)
        }
        _ => {
            redirect(memory, at, patches)?;
            Ok(if patches { Done::Gone } else { Done::Not })
        }
    }
}

/// Whether libc's pkey_set(3) is around this address.
fn is_pkey_set(at: u64) -> bool {
    // SAFETY: looks a name up.
    let start = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr()) } as u64;
    start != 0 && (start..start + 64).contains(&at)
}

/// A page near this code, with an `XRSTOR` that faults behind it where PKRU was among what it
/// restores, and goes on at `back` elsewhere.
fn stub(memory: &File, code: &Code, back: u64) -> Result<u64, String> {
    let start = page_near(code.end)?;
    // xrstor 0x40(%rsp); test $0x200, %eax; jne +5; jmp back; ud2
    let mut bytes = vec![
        0x0f, 0xae, 0x6c, 0x24, 0x40, 0xa9, 0, 2, 0, 0, 0x75, 5, 0xe9,
    ];
    bytes.extend(near(start + bytes.len() as u64 + 4, back)?);
    bytes.extend([0x0f, 0x0b]);
    let written = memory.write_all_at(&bytes, start);
    written.map_err(|error| format!("writing a page near it: {error}"))?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_open_keys_are_found_at_every_byte() {
        let all = |bytes: &[u8]| {
            find(bytes)
                .map(|found| (found.at, found.what))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&[0x0f, 0x01, 0xef]), [(0, "WRPKRU")]);
        // In the number of a mov.
        assert_eq!(all(&[0xb8, 0x0f, 0x01, 0xef, 0]), [(1, "WRPKRU")]);
        assert_eq!(
            all(&[0x48, 0x0f, 0xae, 0x2f, 0x0f, 0xae, 0x6c, 0x24, 0x40]),
            [(1, "XRSTOR"), (4, "XRSTOR")]
        );
        assert_eq!(all(&[0x0f, 0xae, 0xac, 0, 0, 0, 0]), [(0, "XRSTOR")]);
        // rdpkru, lfence, xsave.
        assert!(all(&[0x0f, 0x01, 0xee, 0x0f, 0xae, 0xe8, 0x0f, 0xae, 0x27]).is_empty());
        assert!(all(&[0x0f, 0x01]).is_empty());
    }

    #[test]
    fn code_of_maps() {
        let line =
            |text| code(text).map(|code| (code.start, code.end, code.is_writable, code.name));
        let libc = "7f0-800 r-xp 00000000 00:01 5   /lib/libc.so.6";
        assert_eq!(
            line(libc),
            Some((0x7f0, 0x800, false, "/lib/libc.so.6".to_owned()))
        );
        let none = "7f0-800 rwxp 00000000 00:00 0";
        assert_eq!(line(none).unwrap().3, "memory without a name");
        assert!(line(none).unwrap().2);
        assert!(line("7f0-800 rw-p 00000000 00:00 0").is_none());
        assert!(line("ffffffffff600000-ffffffffff601000 --xp 0 00:00 0  [vsyscall]").is_none());
    }
}
