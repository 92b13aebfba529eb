//! `LD_PRELOAD`: hidden from the program, and handed on to the programs that it executes.
//!
//! A program must not find a variable in its environment that it has not on the host. So this
//! library's name is taken out of it before the program begins, and is put in again by functions
//! that execute others, if the dynamic loader of the C library will load that file. (As the name
//! says, in children too, or not: `IN_OWN_PROCESS`.) Whatever is executed by another way has its
//! calls trapped, no more.

use std::ffi::{c_char, c_int, c_void};
use std::slice::from_raw_parts_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{pid_t, SYS_close, SYS_openat, SYS_read};
use vink_ring::{IN_OWN_PROCESS, UNTRAPPED};
use vink_shim::{Given, Next, Text, Texts};

use crate::memory::Mapping;
use crate::post::{is_own_process, is_vforked};
use crate::system_call::system_call;

const VARIABLE: &[u8] = b"LD_PRELOAD=";
const FILE: &[u8] = b"/libvink_quick.so";
/// The loader that reads `LD_PRELOAD`, and for which this library is.
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
/// Interpreters of interpreters: as many as the host's kernel follows (`BINPRM_MAX_RECURSION`).
const SCRIPTS: u32 = 4;

/// The library's path, as the environment had it; written once, by the only thread that there is.
static mut OWN: [u8; libc::PATH_MAX as usize] = [0; libc::PATH_MAX as usize];
/// Bytes of it; 0: it is not known, and nothing is handed on.
static LEN: AtomicUsize = AtomicUsize::new(0);

static EXECVE: Next = Next::new(c"execve");
static EXECVPE: Next = Next::new(c"execvpe");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

extern "C" {
    static environ: *mut *mut c_char;
}

/// The program's own.
fn environment() -> Texts<'static> {
    // SAFETY: the C library's variable, as its own functions read it.
    unsafe { Texts::given(environ) }
}

/// Takes the library's name out of the environment.
///
/// # Safety
/// The array and its strings are the program's own, as the loader passes them on, and no other
/// thread is there.
pub(crate) unsafe fn hide(envp: *mut *mut c_char) {
    // A child after fork(2) must not look for them.
    for next in [&EXECVE, &EXECVPE, &SPAWN, &SPAWNP] {
        next.address();
    }
    // SAFETY: by the caller.
    let all = unsafe { Texts::given(envp) };
    let Some((place, value)) = preloads(all).next() else {
        return;
    };
    let others = value.iter().rposition(|byte| *byte == b':');
    let own = &value[others.map_or(0, |colon| colon + 1)..];
    let (own_len, end) = (own.len(), VARIABLE.len() + value.len());
    if !own.ends_with(FILE) || own_len >= libc::PATH_MAX as usize {
        return;
    }
    // The name with its colon; the whole string if there is no other.
    let keep = others.map_or(0, |colon| VARIABLE.len() + colon);
    let later = all.iter().skip(place).count();
    // SAFETY: by the caller, the entry's bytes and all entries up to the null pointer, which moves
    // with those that are later; the static is not read before its length is known.
    unsafe {
        std::ptr::copy_nonoverlapping(own.as_ptr(), (&raw mut OWN).cast(), own_len);
        let entry = envp.add(place);
        (*entry).add(keep).write_bytes(0, end - keep);
        if others.is_none() {
            std::ptr::copy(entry.add(1), entry, later);
        }
    }
    LEN.store(own_len, Ordering::Release);
}

/// The variable's places in an environment, and values.
fn preloads(all: Texts<'_>) -> impl Iterator<Item = (usize, &[u8])> {
    let all = all.iter().enumerate();
    all.filter_map(|(place, text)| Some((place, text.bytes()?.strip_prefix(VARIABLE)?)))
}

/// The library's path; `None`: it is not known.
fn own() -> Option<&'static [u8]> {
    match LEN.load(Ordering::Acquire) {
        0 => None,
        // SAFETY: written before the length, and never again.
        len => Some(unsafe { std::slice::from_raw_parts((&raw const OWN).cast::<u8>(), len) }),
    }
}

/// Whether children hand it on, too.
fn is_for_children() -> bool {
    own().is_some_and(|own| {
        let folder = own.strip_suffix(IN_OWN_PROCESS.as_bytes());
        !folder.is_some_and(|folder| folder.ends_with(b"/"))
    })
}

/// An environment with the library's name, in memory of its own: a child of fork(2) may not
/// allocate any.
struct Environment<'a> {
    /// The array, and behind it the string that is new.
    memory: Mapping<'a, Text<'a>>,
    /// Of the array, with the null pointer that it ends with.
    len: usize,
}

impl<'a> Environment<'a> {
    /// For a file that the loader will load the library for, with these variables besides; `None`:
    /// as it is.
    fn new(others: Texts<'a>) -> Option<Environment<'a>> {
        let own = own()?;
        let count = others.iter().count();
        let (place, before) = preloads(others).last().unwrap_or((count, b""));
        let colon: &[u8] = if before.is_empty() { b"" } else { b":" };
        let parts = [VARIABLE, before, colon, own, b"\0"];
        let (len, string_len) = (
            count + 2,
            parts.iter().map(|part| part.len()).sum::<usize>(),
        );
        let mut memory = Mapping::new(len + string_len.div_ceil(size_of::<Text>()))?;
        let (all, rest) = memory.split_at_mut(len);
        for (to, text) in all.iter_mut().zip(others.iter()) {
            *to = text;
        }
        // SAFETY: the rest of the mapping, which has so many bytes.
        let string = unsafe { from_raw_parts_mut(rest.as_mut_ptr().cast::<u8>(), string_len) };
        for (to, byte) in string.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *byte;
        }
        // SAFETY: ends with a zero, and stays as long as the array that points to it.
        all[place] = unsafe { Text::given(string.as_ptr().cast()) };
        Some(Environment { memory, len })
    }

    fn texts(&self) -> Option<Texts<'_>> {
        Texts::of(&self.memory[..self.len])
    }
}

/// A file that is open for reading, by calls that are not trapped.
struct File(c_int);

impl File {
    fn open(path: *const c_char) -> Option<File> {
        // The opening of a FIFO would wait for its other end.
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
        match untrapped(SYS_openat, [libc::AT_FDCWD as u64, path as u64, flags]) {
            fd if fd >= 0 => Some(File(fd as c_int)),
            _ => None,
        }
    }

    fn read(&self, into: &mut [u8]) -> usize {
        let (to, len) = (into.as_mut_ptr() as u64, into.len() as u64);
        let done = untrapped(SYS_read, [self.0 as u64, to, len]);
        usize::try_from(done).unwrap_or(0)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        untrapped(SYS_close, [self.0 as u64, 0, 0]);
    }
}

/// Makes a system call that is the host's business alone, also in virtual time, which has its mark
/// for that in the fifth argument.
fn untrapped(nr: i64, [a, b, c]: [u64; 3]) -> i64 {
    system_call(nr, [a, b, c, 0, UNTRAPPED, UNTRAPPED])
}

/// Whether the loader of the C library is what runs a file, or its interpreter, and will find this
/// library. The path is a string, or is refused.
fn takes_library(mut path: *const c_char) -> bool {
    let mut name = [0u8; 512];
    for _ in 0..SCRIPTS {
        let Some(file) = File::open(path) else {
            return false;
        };
        let mut head = [0u8; 2048];
        let len = file.read(&mut head);
        let head = &head[..len];
        let Some(line) = head.strip_prefix(b"#!") else {
            return is_dynamic(head) && is_readable();
        };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let mut words = line.split(|byte| byte.is_ascii_whitespace());
        let Some(word) = words.find(|word| !word.is_empty()) else {
            return false;
        };
        if word.len() >= name.len() {
            return false;
        }
        name.fill(0);
        name[..word.len()].copy_from_slice(word);
        path = name.as_ptr().cast();
    }
    false
}

/// Whether this library can be opened: the user may have changed.
fn is_readable() -> bool {
    // What follows the path is zero.
    own().is_some_and(|own| File::open(own.as_ptr().cast()).is_some())
}

/// Whether a file that begins so is a program for x86-64 with that loader; elf(5).
fn is_dynamic(head: &[u8]) -> bool {
    const X86_64: u64 = 62;
    const INTERP: u64 = 3;
    let number = |at: usize, len: usize| {
        let bytes = head.get(at..at.checked_add(len)?)?;
        let digits = bytes.iter().rev();
        Some(digits.fold(0u64, |n, byte| n << 8 | u64::from(*byte)))
    };
    let found = || {
        // 64 bits, little endian.
        if !head.starts_with(b"\x7fELF\x02\x01") || number(18, 2)? != X86_64 {
            return None;
        }
        let start = usize::try_from(number(32, 8)?).ok()?;
        let (size, count) = (number(54, 2)? as usize, number(56, 2)? as usize);
        let mut headers = (0..count).map(|n| start.checked_add(n * size));
        let header = headers.find_map(|at| at.filter(|at| number(*at, 4) == Some(INTERP)))?;
        // The loader's name follows the headers, in whatever a linker has made.
        let loader = head.get(usize::try_from(number(header + 8, 8)?).ok()?..)?;
        Some(loader.starts_with(LOADER))
    };
    found() == Some(true)
}

/// The same of what a name leads to in the folders of `PATH`.
fn found_takes_library(name: Text) -> bool {
    let Some(bytes) = name.bytes() else {
        return false;
    };
    if bytes.contains(&b'/') {
        return takes_library(name.as_ptr());
    }
    let mut variables = environment().iter().filter_map(Text::bytes);
    let folders = variables.find_map(|variable| variable.strip_prefix(b"PATH="));
    let folders = folders.unwrap_or(b"/bin:/usr/bin");
    let mut path = [0u8; libc::PATH_MAX as usize];
    for folder in folders.split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        if folder.len() + bytes.len() + 2 > path.len() {
            continue;
        }
        path.fill(0);
        path[..folder.len()].copy_from_slice(folder);
        path[folder.len()] = b'/';
        path[folder.len() + 1..][..bytes.len()].copy_from_slice(bytes);
        let at = path.as_ptr().cast();
        if File::open(at).is_some() {
            return takes_library(at);
        }
    }
    false
}

/// Executes a file with the library, if that is handed on and the file takes it.
fn execute(
    next: &Next,
    takes: impl FnOnce() -> bool,
    path: Text,
    argv: Texts,
    envp: Texts,
) -> c_int {
    type Execute = extern "C" fn(Text, Texts, Texts) -> c_int;
    // SAFETY: the functions that begin with exec, and take an environment, have this type.
    let next = unsafe { std::mem::transmute::<usize, Execute>(next.address()) };
    let takes = (is_own_process() || is_for_children()) && takes();
    let with = takes.then(|| Environment::new(envp)).flatten();
    if let Some(with) = with.as_ref().filter(|_| is_vforked()) {
        with.memory.leave();
    }
    let with = with.as_ref().and_then(Environment::texts);
    next(path, argv, with.unwrap_or(envp))
}

#[no_mangle]
extern "C" fn execve(path: Text, argv: Texts, envp: Texts) -> c_int {
    let takes = || takes_library(path.as_ptr());
    execute(&EXECVE, takes, path, argv, envp)
}

#[no_mangle]
extern "C" fn execv(path: Text, argv: Texts) -> c_int {
    execve(path, argv, environment())
}

#[no_mangle]
extern "C" fn execvpe(name: Text, argv: Texts, envp: Texts) -> c_int {
    let takes = || found_takes_library(name);
    execute(&EXECVPE, takes, name, argv, envp)
}

#[no_mangle]
extern "C" fn execvp(name: Text, argv: Texts) -> c_int {
    execvpe(name, argv, environment())
}

/// Functions that make a child which executes a file.
macro_rules! spawns {
    ($($name:ident, $next:ident, $path:ident => $takes:expr;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(
                pid: *mut pid_t,
                $path: Text,
                actions: *const c_void,
                attributes: *const c_void,
                argv: Texts,
                envp: Texts,
            ) -> c_int {
                type Spawn = unsafe extern "C" fn(
                    *mut pid_t, Text, *const c_void, *const c_void, Texts, Texts,
                ) -> c_int;
                let with = (is_for_children() && $takes).then(|| Environment::new(envp)).flatten();
                let envp = with.as_ref().and_then(Environment::texts).unwrap_or(envp);
                // SAFETY: the next function of the name has this type; the rest is by the caller.
                unsafe {
                    let next = std::mem::transmute::<usize, Spawn>($next.address());
                    next(pid, $path, actions, attributes, argv, envp)
                }
            }
        )*
    };
}
spawns! {
    posix_spawn, SPAWN, path => takes_library(path.as_ptr());
    posix_spawnp, SPAWNP, name => found_takes_library(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::ptr::null_mut;

    fn strings(list: &[&str]) -> (Vec<CString>, Vec<*mut c_char>) {
        let list: Vec<CString> = list.iter().map(|s| CString::new(*s).unwrap()).collect();
        let mut array: Vec<_> = list.iter().map(|s| s.as_ptr().cast_mut()).collect();
        array.push(null_mut());
        (list, array)
    }

    fn shown(all: Texts) -> Vec<String> {
        let bytes = all.iter().filter_map(Text::bytes);
        bytes.map(|s| String::from_utf8_lossy(s).into()).collect()
    }

    /// What is left of an environment when the library's name is hidden, and what is handed on.
    fn hidden(list: &[&str]) -> (Vec<String>, Option<Vec<String>>) {
        let (_list, mut array) = strings(list);
        // SAFETY: an array of strings that lives here.
        let all = unsafe {
            hide(array.as_mut_ptr());
            Texts::given(array.as_mut_ptr())
        };
        let with = Environment::new(all);
        let with = with.map(|with| shown(with.texts().expect("it ends")));
        (shown(all), with)
    }

    /// One test, since the library's name is kept for all.
    #[test]
    fn the_variable_is_hidden_and_handed_on() {
        let owned = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let own = "LD_PRELOAD=/l/libvink_quick.so";
        let both = "LD_PRELOAD=x.so:/l/libvink_quick.so";
        let foreign = ["A=1", "LD_PRELOAD=x.so", "B=2"];
        assert_eq!(hidden(&foreign), (owned(&foreign), None));
        let (left, with) = (["A=1", "LD_PRELOAD=x.so"], ["A=1", both]);
        assert_eq!(hidden(&with), (owned(&left), Some(owned(&with))));
        let (left, with) = (["A=1", "B=2"], ["A=1", "B=2", own]);
        assert_eq!(
            hidden(&["A=1", own, "B=2"]),
            (owned(&left), Some(owned(&with)))
        );
        let (left, with) = (["LD_PRELOAD=x.so", "B=2"], [both, "B=2"]);
        assert_eq!(hidden(&left), (owned(&left), Some(owned(&with))));
        assert_eq!(hidden(&[]), (owned(&[]), Some(owned(&[own]))));
        // It is not there.
        assert!(!takes_library(c"/bin/sh".as_ptr()));
    }

    #[test]
    fn what_the_loader_runs() {
        let of = |path: &str| {
            let bytes = std::fs::read(path).expect("a file");
            is_dynamic(&bytes[..2048.min(bytes.len())])
        };
        assert!(of("/proc/self/exe") && of("/bin/sh"));
        assert!(!of("/etc/passwd") && !of("/lib64/ld-linux-x86-64.so.2"));
    }
}
