//! What a pod must not find in memory that can be executed: instructions that open keys.
//!
//! Keys protect from reads and writes. A pod can jump to any code of the process, into the middle of an
//! instruction, too, and that runs with the pod's rights. `WRPKRU` gives it others, and so does `XRSTOR`.
//! So no executable page may have their bytes anywhere, but for the gate's. By chance, some distances and
//! numbers have them, which are made other ones ([`super::branch`]). Two libraries do: libc has a
//! pkey_set(3), which becomes a fault. The dynamic loader saves and restores all registers when it binds a
//! function that is called first: its `XRSTOR` gets a check behind it. The dynamic loader counts what it
//! loads: where libraries came since all was looked at, it is looked at again before the next crossing.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use vink_sys::maps::MapsLine;

use super::branch::{near, page_near, redirect};
use super::gate;
use super::poke::poke;

/// A place with such bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub at: usize,
    pub what: &'static str,
}

/// Where they are among these bytes. A pattern may end behind them: then it is none.
pub(crate) fn find(bytes: &[u8]) -> impl Iterator<Item = Found> + '_ {
    let found = |at, what| Found { at, what };
    // By the byte of each that is the rarest in code.
    let wrpkru = places(bytes, 0xef).filter_map(move |last| {
        let at = last.checked_sub(2)?;
        (bytes[at..last] == [0x0f, 0x01]).then(|| found(at, "WRPKRU"))
    });
    let xrstor = places(bytes, 0xae).filter_map(move |second| {
        let (at, operand) = (second.checked_sub(1)?, bytes.get(second + 1)?);
        // Group 15, 5, of memory: all of them are.
        let is_one = bytes[at] == 0x0f && operand >> 3 & 7 == 5 && operand >> 6 != 3;
        is_one.then(|| found(at, "XRSTOR"))
    });
    wrpkru.chain(xrstor)
}

/// Where a byte is. libc is fast at it in a debug build, too.
fn places(bytes: &[u8], byte: u8) -> impl Iterator<Item = usize> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        let rest = &bytes[next..];
        let start = rest.as_ptr();
        // SAFETY: looks at so many bytes; what it finds is one of them.
        let far = unsafe {
            let found = libc::memchr(start.cast(), byte.into(), rest.len()).cast::<u8>();
            (!found.is_null()).then(|| found.offset_from_unsigned(start))
        }?;
        let at = next + far;
        next = at + 1;
        Some(at)
    })
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

/// Looks at all that this process can execute, and makes harmless what can be if it `patches`: then no
/// thread may be in a pod.
///
/// # Errors
/// A sentence: what is there, and where.
pub(super) fn process(patches: bool) -> Result<(), String> {
    looked(patches).map(drop)
}

/// Whether there is nothing to be made harmless in all that this process can execute.
///
/// # Errors
/// As [`process`].
pub(super) fn is_harmless() -> Result<bool, String> {
    Ok(looked(false)? == Looked::Harmless)
}

fn looked(patches: bool) -> Result<Looked, String> {
    let libraries = libraries();
    let mut harmless = HARMLESS.lock().unwrap_or_else(PoisonError::into_inner);
    // One that has gone may have come again without what was changed in it.
    if libraries != LIBRARIES.load(SeqCst) {
        harmless.clear();
    }
    // What it writes itself is looked at as well.
    for _ in 0..ROUNDS {
        match look(patches, &mut harmless)? {
            Looked::Changes => {}
            looked => {
                if looked == Looked::Harmless {
                    LIBRARIES.store(libraries, SeqCst);
                }
                return Ok(looked);
            }
        }
    }
    Err("this process's code is another one each time that it is looked at".to_owned())
}

/// Lines of /proc/self/maps: files' code that was harmless when all was looked at last, and has not
/// changed: it can't be written, and its library has not gone.
static HARMLESS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How often all is looked at, until there is nothing to do.
const ROUNDS: usize = 100;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// Nothing that opens keys.
    Harmless,
    /// What can be made harmless.
    Curable,
    /// What is not there any more.
    Changes,
}

fn look(patches: bool, harmless: &mut Vec<String>) -> Result<Looked, String> {
    let mut all = Looked::Harmless;
    let said = |error: io::Error| format!("reading this process's code: {error}");
    let memory = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let memory = memory.map_err(said)?;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(said)?;
    let codes = maps.lines().filter_map(|line| Some((line, code(line)?)));
    let codes: Vec<(&str, Code)> = codes.collect();
    let sites = gate::sites();
    let mut known = known().lock().unwrap_or_else(PoisonError::into_inner);
    // Neighbours are one: a pattern may lie in both. Whether the last one was known.
    let (mut end_of_last, mut was_known) = (0, false);
    for (line, code) in &codes {
        let follows = code.start == end_of_last;
        end_of_last = code.end;
        // Two that were neighbours then have been looked at together.
        was_known = (was_known || !follows) && harmless.iter().any(|known| known == line);
        if was_known {
            continue;
        }
        if code.is_writable {
            return Err(format!(
                "{} can be written and executed, at {:#x}",
                code.name, code.start
            ));
        }
        let first = code.start - if follows { 2 } else { 0 };
        let mut bytes = vec![0; (code.end - first) as usize];
        match memory.read_exact_at(&mut bytes, first) {
            // Another thread has ended a pod, or a library.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(Looked::Changes),
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
                    all = Looked::Changes;
                }
                Ok(Done::Gone) => all = Looked::Changes,
                Ok(Done::Not) => all = Looked::Curable,
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
    }
    if all == Looked::Harmless {
        let files = codes.iter().filter(|(line, _)| is_private_file(line));
        *harmless = files.map(|(line, _)| (*line).to_owned()).collect();
    }
    Ok(all)
}

/// Whether a line of /proc/self/maps is about a file's code that only the file's owner can change.
fn is_private_file(line: &str) -> bool {
    MapsLine::of(line).is_some_and(|line| {
        let of_file = line.name.starts_with('/') && !line.name.starts_with("/memfd:");
        let is_code = line.is_executable() && !line.is_writable() && line.is_private();
        is_code && of_file && line.name == line.name_as_mapped()
    })
}

/// `XRSTOR`s with a check behind them.
fn known() -> &'static Mutex<Vec<u64>> {
    static KNOWN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    &KNOWN
}

/// A line of /proc/self/maps, of code. The page of old programs' system calls is no memory: it has no
/// bytes to be executed but its entries.
fn code(line: &str) -> Option<Code> {
    let line = MapsLine::of(line)?;
    let name = match line.name {
        "" => "memory without a name",
        name => name,
    };
    (line.is_executable() && name != "[vsyscall]").then(|| Code {
        start: line.range.start,
        end: line.range.end,
        is_writable: line.is_writable(),
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
            poke(memory, at, &jump)?;
            Ok(Done::Checked(stub))
        }
        [0x0f, 0x01, 0xef, ..] if is_pkey_set(at) => {
            // ud2, nop
            poke(memory, at, &[0x0f, 0x0b, 0x90])?;
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
    fn what_need_not_be_looked_at_again() {
        let libc = "7f0-800 r-xp 00000000 00:01 5   /lib/libc.so.6";
        assert!(is_private_file(libc));
        for line in [
            libc.replace("r-xp", "r-xs"),
            libc.replace("r-xp", "rwxp"),
            libc.replace("/lib/libc.so.6", ""),
            libc.replace("/lib/libc.so.6", "/memfd:x"),
            libc.replace("/lib/libc.so.6", "[vdso]"),
            format!("{libc} (deleted)"),
        ] {
            assert!(!is_private_file(&line), "{line}");
        }
        // Other code than what is there now is looked at again.
        let mut harmless = Vec::new();
        assert!(look(false, &mut harmless).unwrap() != Looked::Changes);
        harmless.clear();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = maps.lines().filter(|line| is_private_file(line));
        harmless.extend(own.map(str::to_owned));
        // The dynamic loader's XRSTOR is in one of these.
        assert!(look(false, &mut harmless).unwrap() == Looked::Harmless);
        for line in &mut harmless {
            *line = line.replace("/ld-linux", "/other");
        }
        assert!(look(false, &mut harmless).unwrap() == Looked::Curable);
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
