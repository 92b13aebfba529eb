//! Whether the dynamic loader loads a library of Vink's into a program, and where that library is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vink_sys::process::{getegid, geteuid};
use vink_sys::rustix::fs::{access, getxattr, Access};

/// Interpreters of interpreters: as many as the host's kernel follows (`BINPRM_MAX_RECURSION`).
pub const SCRIPTS: u32 = 4;

/// A library of Vink's that programs are started with (`LD_PRELOAD`).
#[derive(Debug)]
pub struct Library {
    /// Its file.
    pub file: &'static str,
    /// The package that it is made from.
    pub package: &'static str,
}

/// Posts a program's calls in the shared ring.
pub const SHARED_CALLS: Library = Library {
    file: "libvink_quick.so",
    package: "vink-quick",
};

/// Brings the stack into a program's process.
pub const IN_PROCESS: Library = Library {
    file: "libvink_preload.so",
    package: "vink-preload",
};

impl Library {
    /// Its path: beside this executable, or where `make install` puts it.
    ///
    /// # Errors
    /// A sentence, for users.
    pub fn find(&self) -> Result<PathBuf, String> {
        let vink = std::env::current_exe().map_err(|error| format!("finding vink: {error}"))?;
        let places = ["", "../lib/vink"].map(|folder| vink.with_file_name(folder).join(self.file));
        let found = places.iter().find(|path| path.exists());
        found.cloned().ok_or_else(|| {
            let Library { file, package } = self;
            let [here, there] = places.map(|place| place.display().to_string());
            format!("{file} is neither {here} nor {there}: cargo build -p {package} makes it")
        })
    }
}

/// The file that execvpe(3) executes in this directory, with this value of `PATH`.
pub fn find(name: &OsStr, path: &OsStr, folder: &Path) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(folder.join(name));
    }
    std::env::split_paths(path)
        .map(|place| folder.join(place).join(name))
        .find(|file| file.is_file() && is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    access(file, Access::EXEC_OK).is_ok()
}

/// Whether a file that begins so is a program that glibc's loader runs.
pub fn is_dynamic(head: &[u8]) -> bool {
    Elf::of(head) == Some(Elf::Dynamic)
}

/// Why the loader would not load a library of ours into this program; `None` if it would, or if exec(2) is to say what is
/// wrong with it.
pub fn hindrance(program: &Path, scripts: u32) -> Option<String> {
    let mut file = File::open(program).ok()?;
    let about = file.metadata().ok()?;
    let shown = program.display();
    let mut head = Vec::new();
    // Program headers follow the header, or nearly so, in whatever a linker has made.
    file.by_ref().take(1 << 16).read_to_end(&mut head).ok()?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let interpreter = interpreter(line)?;
        return hindrance(&interpreter, scripts.checked_sub(1)?);
    }
    let (user, group) = (geteuid(), getegid());
    let takes_user = about.mode() & libc::S_ISUID != 0 && about.uid() != user;
    let takes_group = about.mode() & libc::S_ISGID != 0 && about.gid() != group;
    if takes_user || takes_group {
        return Some(format!(
            "{shown} is set-user-id or set-group-id, for which the loader ignores LD_PRELOAD"
        ));
    }
    if user != 0 && has_capabilities(program) {
        return Some(format!(
            "{shown} has file capabilities, for which the loader ignores LD_PRELOAD"
        ));
    }
    match Elf::of(&head)? {
        Elf::Dynamic => None,
        Elf::OtherLoader => Some(format!(
            "{shown} needs another loader than glibc's, for which the library is not"
        )),
        Elf::Static => Some(format!(
            "{shown} is statically linked: no loader could bring the stack into it"
        )),
        Elf::Foreign => Some(format!("{shown} is not a program for x86-64")),
    }
}

/// `PATH` of this process.
pub fn own_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Of a script's first line; of `env`, what it looks for.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let words = line.split(|byte| byte.is_ascii_whitespace());
    let mut words = words.filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let first = Path::new(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned());
    }
    let is_option =
        |word: &&OsStr| word.as_bytes().starts_with(b"-") || word.as_bytes().contains(&b'=');
    find(
        words.find(|word| !is_option(word))?,
        &own_path(),
        Path::new(""),
    )
}

/// See capabilities(7).
fn has_capabilities(program: &Path) -> bool {
    let mut room = [0u8; 0];
    getxattr(program, c"security.capability", &mut room).is_ok_and(|length| length > 0)
}

/// What an ELF file is to the loader; elf(5).
#[derive(Debug, PartialEq, Eq)]
enum Elf {
    Dynamic,
    /// Dynamic, with a loader that is not glibc's.
    OtherLoader,
    Static,
    Foreign,
}

/// glibc's loader.
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

impl Elf {
    /// Of a file that begins so; `None`: it is none.
    fn of(head: &[u8]) -> Option<Elf> {
        const X86_64: u16 = 62;
        const INTERP: u32 = 3;
        head.strip_prefix(b"\x7fELF")?;
        let half = |at: usize| {
            let bytes = head.get(at..at + 2)?.try_into().ok()?;
            Some(u16::from_le_bytes(bytes))
        };
        // 64 bits, little endian.
        if head.get(4..6)? != [2, 1] || half(18)? != X86_64 {
            return Some(Elf::Foreign);
        }
        let start = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        for index in 0..count {
            let at = usize::try_from(start).ok()?.checked_add(index * size)?;
            let kind = head.get(at..at.checked_add(4)?)?;
            if kind == INTERP.to_le_bytes() {
                let place = head.get(at.checked_add(8)?..at.checked_add(16)?)?;
                let place = u64::from_le_bytes(place.try_into().ok()?);
                let loader = usize::try_from(place)
                    .ok()
                    .and_then(|place| head.get(place..));
                let is_usual = loader.is_some_and(|loader| loader.starts_with(LOADER));
                return Some(if is_usual {
                    Elf::Dynamic
                } else {
                    Elf::OtherLoader
                });
            }
        }
        Some(Elf::Static)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert_eq!(Elf::of(&own), Some(Elf::Dynamic));
        let mut foreign = own[..4096].to_vec();
        foreign[18] = 3;
        assert_eq!(Elf::of(&foreign), Some(Elf::Foreign));
        let mut bare = own[..4096].to_vec();
        bare[56..58].copy_from_slice(&[0, 0]);
        assert_eq!(Elf::of(&bare), Some(Elf::Static));
        assert_eq!(Elf::of(b"#!/bin/sh\n"), None);
        for cut in 0..200 {
            // Whatever it is taken for, it is not looked at beyond its end.
            Elf::of(&own[..cut]);
        }
    }

    #[test]
    fn interpreters() {
        let of = |line: &str| interpreter(line.as_bytes());
        assert_eq!(of("/bin/sh\nexit"), Some("/bin/sh".into()));
        assert_eq!(of(" /bin/sh -e\n"), Some("/bin/sh".into()));
        let shell = find(OsStr::new("sh"), &own_path(), Path::new(""));
        assert_eq!(of("/usr/bin/env -S A=b sh -e\n"), shell);
        assert!(shell.is_some());
        assert_eq!(of("\n"), None);
    }
}
