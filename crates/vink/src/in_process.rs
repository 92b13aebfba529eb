//! `vink run --in-process`: the program with the stack in its own process, by way of the dynamic loader.
//!
//! vink becomes the program, unless that is to be confined: what it was asked for goes over by the environment, as docs/in-process.md has it.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use vink_lab::loader::{find, hindrance, is_dynamic, own_path, IN_PROCESS, SCRIPTS};

use crate::cli_error::CliError;
use crate::confined;
use crate::run::Arguments;

/// What to do about a program that can't have it.
const INSTEAD: &str = "run it without --in-process, which works for every program";

/// Becomes the program, or runs it confined.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let library = IN_PROCESS
        .find()
        .map_err(|why| CliError::Other(format!("--in-process: {why}")))?;
    let preload = before(library, std::env::var_os("LD_PRELOAD"));
    let name = &arguments.program[0];
    let cannot_run = |errno| {
        let program = name.to_string_lossy().into_owned();
        CliError::from(vink_trap::Error::CannotRun { program, errno })
    };
    let program = find(name, &own_path(), Path::new("")).ok_or_else(|| cannot_run(libc::ENOENT))?;
    let why = hindrance(&program, SCRIPTS).or_else(|| hindrance_of_go(&program));
    if let Some(why) = why {
        return Err(CliError::Other(format!("{why}: {INSTEAD}")));
    }
    let mut command = Command::new(&program);
    command.arg0(name).args(&arguments.program[1..]);
    for (name, value) in environment(arguments)? {
        command.env(name, value);
    }
    command.env("LD_PRELOAD", preload);
    if !arguments.rights.is_full() {
        let program = name.to_string_lossy().into_owned();
        return confined::run(command, &arguments.uplink, |errno| {
            vink_trap::Error::CannotRun { program, errno }
        });
    }
    // Returns only if it fails.
    let error = command.exec();
    Err(cannot_run(error.raw_os_error().unwrap_or(libc::EACCES)))
}

/// The variables that say what the command line said.
fn environment(arguments: &Arguments) -> Result<Vec<(&'static str, OsString)>, CliError> {
    let absolute = |path: &Path| {
        let what = format!("finding {}", path.display());
        path.canonicalize().map_err(CliError::host(what))
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
        ("VINK_MAC", list(arguments.mac.as_slice())),
        ("VINK_ADDRESS", list(&arguments.address)),
        ("VINK_GATEWAY", list(&arguments.gateway)),
        ("VINK_PUBLISH", list(&arguments.publish)),
    ])
}

/// `LD_PRELOAD` with a library in front of what is preloaded anyway.
fn before(library: impl AsRef<Path>, others: Option<OsString>) -> OsString {
    let mut all = library.as_ref().as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

fn list(values: &[impl Display]) -> OsString {
    let words: Vec<_> = values.iter().map(ToString::to_string).collect();
    words.join(",").into()
}

/// A program of Go's, dynamically linked or not, can't have the stack in its process.
fn hindrance_of_go(program: &Path) -> Option<String> {
    let mut file = File::open(program).ok()?;
    let mut head = Vec::new();
    file.by_ref().take(1 << 16).read_to_end(&mut head).ok()?;
    let is_go = is_dynamic(&head) && is_go(&head, &file);
    is_go.then(|| {
        format!(
            "{} is a Go program: its stacks are too small for the signals by which the stack gets its system calls",
            program.display()
        )
    })
}

/// A section that Go's linker makes in each program (Go 1.13), and that strip(1) leaves there.
const GO_SECTION: &[u8] = b"\0.go.buildinfo\0";

/// Whether one of the sections of an ELF file that begins so is Go's.
fn is_go(head: &[u8], file: &File) -> bool {
    section_names(head, file).is_some_and(|names| {
        names
            .windows(GO_SECTION.len())
            .any(|name| name == GO_SECTION)
    })
}

/// Names are not longer than that in all, in any program that is one.
const MOST_NAMES: u64 = 1 << 20;

/// The names of its sections; elf(5).
fn section_names(head: &[u8], file: &File) -> Option<Vec<u8>> {
    let number = |bytes: &[u8], at: usize, len: usize| {
        let bytes = bytes.get(at..at + len)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte)),
        )
    };
    let table = number(head, 40, 8)?;
    let (size, names) = (number(head, 58, 2)?, number(head, 62, 2)?);
    let mut header = [0; 64];
    file.read_exact_at(&mut header, table.checked_add(size * names)?)
        .ok()?;
    let (at, len) = (number(&header, 24, 8)?, number(&header, 32, 8)?);
    let mut names = vec![0; len.min(MOST_NAMES) as usize];
    file.read_exact_at(&mut names, at).ok()?;
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_preloaded_libraries_stay() {
        assert_eq!(before("/a.so", None), "/a.so");
        assert_eq!(before("/a.so", Some("".into())), "/a.so");
        assert_eq!(before("/a.so", Some("b.so".into())), "/a.so:b.so");
    }

    #[test]
    fn programs_of_go_are_told_by_a_section() {
        let path = std::env::temp_dir().join(format!("vink-go-{}", std::process::id()));
        // An ELF header whose table of sections is one header, of the names that follow.
        let named = |names: &[u8], len: u64| {
            let mut bytes = vec![0; 128];
            bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
            bytes[58] = 64;
            bytes[64 + 24..64 + 32].copy_from_slice(&128u64.to_le_bytes());
            bytes[64 + 32..64 + 40].copy_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(names);
            std::fs::write(&path, &bytes).expect("a file");
            is_go(&bytes, &File::open(&path).expect("it was written"))
        };
        let names = b"\0.text\0.go.buildinfo\0.bss\0";
        assert!(named(names, names.len() as u64));
        assert!(!named(b"\0.text\0.go.build\0", 17));
        // What is not there is not looked at.
        assert!(!named(names, u64::MAX) && !named(names, 0));
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert!(!is_go(
            &own,
            &File::open("/proc/self/exe").expect("this test")
        ));
        std::fs::remove_file(&path).expect("it was written");
    }
}
