//! Whether a file may be a pod, and what to do if it is none.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::LoadError;

/// The first bytes of a file, at most so many. It is a file: open(2) would wait for a pipe, and a device
/// may have no end.
pub(crate) fn start(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let text = |error: io::Error| error.to_string();
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(text)?;
    if !file.metadata().map_err(text)?.is_file() {
        return Err("is no file: give the pod's .so or .wasm".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most as u64)
        .read_to_end(&mut bytes)
        .map_err(text)?;
    Ok(bytes)
}

/// The file's path without symbolic links.
pub(crate) fn check(path: &Path) -> Result<PathBuf, LoadError> {
    head(path).map_err(|why| LoadError::File {
        path: path.to_owned(),
        why,
    })
}

fn head(path: &Path) -> Result<PathBuf, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    kind(&start(&path, 20)?)?;
    Ok(path)
}

/// elf(5): for 64-bit x86, and a shared object.
pub(crate) fn kind(head: &[u8]) -> Result<(), String> {
    const SHARED: u16 = 3;
    const X86_64: u16 = 62;
    let made = "cc -shared -fPIC makes one for this machine";
    if !head.starts_with(b"\x7fELF") {
        return Err(format!("is no ELF file: {made}"));
    }
    let half = |at: usize| {
        head.get(at..at + 2)
            .map(|two| u16::from_le_bytes([two[0], two[1]]))
    };
    if head.get(4..6) != Some(&[2, 1]) || half(18) != Some(X86_64) {
        return Err(format!("is an ELF file, but not for 64-bit x86: {made}"));
    }
    if half(16) != Some(SHARED) {
        return Err(format!("is an ELF file, but no shared object: {made}"));
    }
    Ok(())
}

/// The dynamic loader's words, and what to do about them.
pub(crate) fn explained(words: &str, path: &Path) -> String {
    let shown = path.display().to_string();
    let words = words.strip_prefix(&shown).unwrap_or(words);
    let words = words.trim_start_matches([':', ' ']);
    let hint = match words {
        _ if words.contains("undefined symbol") => {
            "link the library that has it (-l...), or leave it out"
        }
        _ if words.contains("cannot open shared object file") => {
            "a pod's libraries come from the system's folders, as /usr/lib: install it there, or link it statically"
        }
        _ if words.contains("failed to map segment") => {
            "its memory is too small for its code (or its file system is mounted noexec)"
        }
        _ => return words.to_owned(),
    };
    format!("{words}: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert_eq!(kind(&own[..20]), Ok(()));
        for cut in 0..20 {
            assert!(kind(&own[..cut]).is_err(), "{cut}");
        }
        for (at, byte, word) in [(4, 1, "64-bit"), (18, 3, "64-bit"), (16, 2, "shared")] {
            let mut head = own[..20].to_vec();
            head[at] = byte;
            assert!(kind(&head).unwrap_err().contains(word));
        }
    }
}
