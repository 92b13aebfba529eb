//! `vink run --in-process`: the program with the stack in its own process, by way of the dynamic loader.
//!
//! vink becomes the program: what it was asked for goes over by the environment, as docs/in-process.md has it.

use std::ffi::{CString, OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::failure::Failure;
use crate::preload::Preload;
use crate::run::Arguments;

/// The interposer.
const LIBRARY: Preload = Preload {
    file: "libvink_preload.so",
    package: "vink-preload",
    option: "--in-process",
};

/// What to do about a program that can't have it.
const INSTEAD: &str = "run it without --in-process, which works for every program";

/// Interpreters of interpreters: as many as the host's kernel follows (`BINPRM_MAX_RECURSION`).
const SCRIPTS: u32 = 4;

/// Becomes the program.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let preload = LIBRARY.variable()?;
    let name = &arguments.program[0];
    let cannot_run = |errno| {
        let program = name.to_string_lossy().into_owned();
        Failure::from(vink_trap::Error::CannotRun { program, errno })
    };
    let program = find(name).ok_or_else(|| cannot_run(libc::ENOENT))?;
    if let Some(why) = hindrance(&program, SCRIPTS) {
        return Err(Failure::Other(format!("{why}: {INSTEAD}")));
    }
    let mut command = Command::new(&program);
    command.arg0(name).args(&arguments.program[1..]);
    for (name, value) in environment(arguments)? {
        command.env(name, value);
    }
    command.env("LD_PRELOAD", preload);
    // Returns only if it fails.
    let error = command.exec();
    Err(cannot_run(error.raw_os_error().unwrap_or(libc::EACCES)))
}

/// The variables that say what the command line said.
fn environment(arguments: &Arguments) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let absolute = |path: &Path| {
        let what = format!("finding {}", path.display());
        path.canonicalize().map_err(Failure::host(what))
    };
    let image = match &arguments.image {
        Some(name) => vink_kernel::image_named(name)?,
        None => vink_kernel::find_image()?,
    };
    Ok(vec![
        ("VINK_IMAGE", absolute(&image)?.into()),
        ("VINK_ARENA", arguments.arena.to_string().into()),
        ("VINK_CMDLINE", arguments.cmdline.clone().into()),
        ("VINK_NAME", arguments.machine.clone().into()),
        ("VINK_UPLINK", arguments.uplink.to_string().into()),
        ("VINK_ADDRESS", list(&arguments.address)),
        ("VINK_GATEWAY", list(&arguments.gateway)),
        ("VINK_PUBLISH", list(&arguments.publish)),
    ])
}

fn list(values: &[impl Display]) -> OsString {
    let words: Vec<_> = values.iter().map(ToString::to_string).collect();
    words.join(",").into()
}

/// The file that execvp(3) would execute.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: a string that ends with a NUL byte.
    unsafe { libc::access(name.as_ptr(), libc::X_OK) == 0 }
}

/// Why the loader would not load the interposer into this program; `None` if it would, or if exec(2) is to say what is
/// wrong with it.
fn hindrance(program: &Path, scripts: u32) -> Option<String> {
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
    // SAFETY: these can't fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
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
        Elf::Static => Some(format!(
            "{shown} is statically linked: no loader could bring the stack into it"
        )),
        Elf::Foreign => Some(format!("{shown} is not a program for x86-64")),
    }
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
    find(words.find(|word| !is_option(word))?)
}

/// See capabilities(7).
fn has_capabilities(program: &Path) -> bool {
    let Ok(name) = CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    let attribute = c"security.capability".as_ptr();
    // SAFETY: strings that end with a NUL byte; nothing is filled in.
    unsafe { libc::getxattr(name.as_ptr(), attribute, std::ptr::null_mut(), 0) > 0 }
}

/// What an ELF file is to the loader; elf(5).
#[derive(Debug, PartialEq, Eq)]
enum Elf {
    Dynamic,
    Static,
    Foreign,
}

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
                return Some(Elf::Dynamic);
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
        assert_eq!(of("/usr/bin/env -S A=b sh -e\n"), find(OsStr::new("sh")));
        assert!(find(OsStr::new("sh")).is_some());
        assert_eq!(of("\n"), None);
    }
}
