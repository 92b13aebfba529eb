//! `LD_PRELOAD`: hidden from the program, and handed on to the programs that it executes.
//!
//! A program must not find a variable in its environment that it has not on the host. So this
//! library's name is taken out of it before the program begins, and is put in again by functions
//! that execute others, if the dynamic loader of the C library will load that file. Whatever is
//! executed by another way has its calls trapped, no more.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{pid_t, SYS_close, SYS_openat, SYS_read};

use crate::symbols::{native, Next};

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
    static environ: *const *const c_char;
}

/// Takes the library's name out of the environment.
///
/// # Safety
/// The array and its strings are the program's own, as the loader passes them on, and no other
/// thread is there.
pub(crate) unsafe fn hide(mut envp: *mut *mut c_char) {
    // A child after fork(2) must not look for them.
    for next in [&EXECVE, &EXECVPE, &SPAWN, &SPAWNP] {
        next.address();
    }
    if envp.is_null() {
        return;
    }
    // SAFETY: by the caller: an array that ends with a null pointer.
    unsafe {
        while !(*envp).is_null() {
            let entry = *envp;
            let bytes = CStr::from_ptr(entry).to_bytes();
            let Some(value) = bytes.strip_prefix(VARIABLE) else {
                envp = envp.add(1);
                continue;
            };
            let others = value.iter().rposition(|byte| *byte == b':');
            let own = &value[others.map_or(0, |colon| colon + 1)..];
            let len = own.len();
            if !own.ends_with(FILE) || len >= libc::PATH_MAX as usize {
                return;
            }
            let to = (&raw mut OWN).cast::<u8>();
            std::ptr::copy_nonoverlapping(own.as_ptr(), to, len);
            LEN.store(len, Ordering::Release);
            // The name with its colon; the whole string if there is no other.
            let keep = others.map_or(0, |colon| VARIABLE.len() + colon);
            entry.add(keep).write_bytes(0, bytes.len() - keep);
            if others.is_none() {
                remove(envp);
            }
            return;
        }
    }
}

/// Moves all later entries one place down.
unsafe fn remove(mut at: *mut *mut c_char) {
    // SAFETY: by the caller: an array that ends with a null pointer.
    unsafe {
        while !(*at).is_null() {
            *at = *at.add(1);
            at = at.add(1);
        }
    }
}

/// The library's path; `None`: it is not known.
fn own() -> Option<&'static [u8]> {
    match LEN.load(Ordering::Acquire) {
        0 => None,
        // SAFETY: written before the length, and never again.
        len => Some(unsafe { std::slice::from_raw_parts((&raw const OWN).cast::<u8>(), len) }),
    }
}

/// An environment with the library's name, in memory of its own: a child of fork(2) may not
/// allocate any.
struct Environment {
    memory: *mut c_void,
    len: usize,
}

impl Environment {
    /// For a file that the loader will load the library for, with these variables besides; `None`:
    /// as it is.
    ///
    /// # Safety
    /// An array of strings that ends with a null pointer, or null.
    unsafe fn new(envp: *const *const c_char) -> Option<Environment> {
        let own = own()?;
        let (mut count, mut before) = (0, None);
        // SAFETY: by the caller.
        unsafe {
            while !envp.is_null() && !(*envp.add(count)).is_null() {
                let bytes = CStr::from_ptr(*envp.add(count)).to_bytes();
                if let Some(value) = bytes.strip_prefix(VARIABLE) {
                    before = Some((count, value));
                }
                count += 1;
            }
        }
        let (place, others) = before.unwrap_or((count, b""));
        let pointers = (count + 2) * size_of::<*const c_char>();
        let len = pointers + VARIABLE.len() + others.len() + 1 + own.len() + 1;
        // SAFETY: a new mapping, all of which is written below within its length.
        unsafe {
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            let memory = libc::mmap(null_mut(), len, access, kind, -1, 0);
            if memory == libc::MAP_FAILED {
                return None;
            }
            let array = memory.cast::<*const c_char>();
            if count > 0 {
                std::ptr::copy_nonoverlapping(envp, array, count);
            }
            let string = memory.cast::<u8>().add(pointers);
            array.add(place).write(string.cast());
            let colon: &[u8] = if others.is_empty() { b"" } else { b":" };
            let mut to = string;
            for part in [VARIABLE, others, colon, own] {
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
            Some(Environment { memory, len })
        }
    }

    fn array(&self) -> *const *const c_char {
        self.memory.cast_const().cast()
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; the errno, which tells why nothing was executed, stays.
        unsafe {
            let errno = *libc::__errno_location();
            libc::munmap(self.memory, self.len);
            *libc::__errno_location() = errno;
        }
    }
}

/// A file that is open for reading, by calls that are not trapped.
struct File(c_int);

impl File {
    fn open(path: *const c_char) -> Option<File> {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let args = [libc::AT_FDCWD as u64, path as u64, flags, 0];
        match native(SYS_openat, args) {
            fd if fd >= 0 => Some(File(fd as c_int)),
            _ => None,
        }
    }

    fn read(&self, into: &mut [u8]) -> usize {
        let (to, len) = (into.as_mut_ptr() as u64, into.len() as u64);
        let done = native(SYS_read, [self.0 as u64, to, len, 0]);
        usize::try_from(done).unwrap_or(0)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        native(SYS_close, [self.0 as u64, 0, 0, 0]);
    }
}

/// Whether the loader of the C library is what runs a file, or its interpreter, and will find this
/// library.
///
/// # Safety
/// The path is a string.
unsafe fn takes_library(path: *const c_char) -> bool {
    let mut name = [0u8; 512];
    let mut path = path;
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
///
/// # Safety
/// The name is a string.
unsafe fn found_takes_library(name: *const c_char) -> bool {
    // SAFETY: by the caller.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.contains(&b'/') {
        // SAFETY: by the caller.
        return unsafe { takes_library(name) };
    }
    // SAFETY: a string; what it gives is one, or null.
    let folders = unsafe {
        match libc::getenv(c"PATH".as_ptr()) {
            at if at.is_null() => b"/bin:/usr/bin",
            at => CStr::from_ptr(at).to_bytes(),
        }
    };
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
            // SAFETY: a string, made above.
            return unsafe { takes_library(at) };
        }
    }
    false
}

type Execute =
    unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;

#[no_mangle]
unsafe extern "C" fn execve(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: by the caller; the next function of the name has this type.
    unsafe {
        let next = std::mem::transmute::<usize, Execute>(EXECVE.address());
        let takes = !path.is_null() && takes_library(path);
        match takes.then(|| Environment::new(envp)).flatten() {
            Some(environment) => next(path, argv, environment.array()),
            None => next(path, argv, envp),
        }
    }
}

#[no_mangle]
unsafe extern "C" fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: by the caller.
    unsafe { execve(path, argv, environ) }
}

#[no_mangle]
unsafe extern "C" fn execvpe(
    name: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let next = std::mem::transmute::<usize, Execute>(EXECVPE.address());
        let takes = !name.is_null() && found_takes_library(name);
        match takes.then(|| Environment::new(envp)).flatten() {
            Some(environment) => next(name, argv, environment.array()),
            None => next(name, argv, envp),
        }
    }
}

#[no_mangle]
unsafe extern "C" fn execvp(name: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: by the caller.
    unsafe { execvpe(name, argv, environ) }
}

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// Functions that make a child which executes a file.
macro_rules! spawns {
    ($($name:ident, $next:ident, $takes:ident;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(
                pid: *mut pid_t,
                path: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                argv: *const *const c_char,
                envp: *const *const c_char,
            ) -> c_int {
                // SAFETY: by the caller; the next function of the name has this type.
                unsafe {
                    let next = std::mem::transmute::<usize, Spawn>($next.address());
                    let takes = !path.is_null() && $takes(path);
                    let with = takes.then(|| Environment::new(envp)).flatten();
                    let envp = with.as_ref().map_or(envp, Environment::array);
                    next(pid, path, actions, attributes, argv, envp)
                }
            }
        )*
    };
}
spawns! {
    posix_spawn, SPAWN, takes_library;
    posix_spawnp, SPAWNP, found_takes_library;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::ptr::null;

    fn strings(list: &[&str]) -> (Vec<CString>, Vec<*mut c_char>) {
        let list: Vec<CString> = list.iter().map(|s| CString::new(*s).unwrap()).collect();
        let mut array: Vec<_> = list.iter().map(|s| s.as_ptr().cast_mut()).collect();
        array.push(null_mut());
        (list, array)
    }

    unsafe fn shown(mut array: *const *const c_char) -> Vec<String> {
        let mut all = Vec::new();
        // SAFETY: by the caller.
        unsafe {
            while !(*array).is_null() {
                all.push(CStr::from_ptr(*array).to_string_lossy().into_owned());
                array = array.add(1);
            }
        }
        all
    }

    /// One test, since the library's name is kept for all.
    #[test]
    fn the_variable_is_hidden_and_handed_on() {
        // SAFETY: arrays of strings that live here, and paths that are strings.
        unsafe {
            let (_list, mut array) = strings(&["A=1", "LD_PRELOAD=x.so", "B=2"]);
            hide(array.as_mut_ptr());
            assert_eq!(
                shown(array.as_ptr().cast()),
                ["A=1", "LD_PRELOAD=x.so", "B=2"]
            );
            assert!(Environment::new(null()).is_none());

            let (_list, mut array) = strings(&["A=1", "LD_PRELOAD=x.so:/l/libvink_quick.so"]);
            hide(array.as_mut_ptr());
            assert_eq!(shown(array.as_ptr().cast()), ["A=1", "LD_PRELOAD=x.so"]);
            let (_list, mut array) = strings(&["A=1", "LD_PRELOAD=/l/libvink_quick.so", "B=2"]);
            hide(array.as_mut_ptr());
            assert_eq!(shown(array.as_ptr().cast()), ["A=1", "B=2"]);

            let with = Environment::new(array.as_ptr().cast()).expect("known");
            let expected = ["A=1", "B=2", "LD_PRELOAD=/l/libvink_quick.so"];
            assert_eq!(shown(with.array()), expected);
            let (_list, array) = strings(&["LD_PRELOAD=x.so", "B=2"]);
            let with = Environment::new(array.as_ptr().cast()).expect("known");
            let expected = ["LD_PRELOAD=x.so:/l/libvink_quick.so", "B=2"];
            assert_eq!(shown(with.array()), expected);
            let with = Environment::new(null()).expect("known");
            assert_eq!(shown(with.array()), ["LD_PRELOAD=/l/libvink_quick.so"]);
            // It is not there.
            assert!(!takes_library(c"/bin/sh".as_ptr()));
        }
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
