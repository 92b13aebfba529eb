//! A process with a kernel in it: where its image is, and what is in its memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vink_sys::memory;

use object::elf::{FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::LittleEndian;

use crate::layout::{symbols, Layout, Symbol};
use crate::Error;

/// What an image's file is called.
const PREFIX: &str = "libvink-linux-";
/// Bytes by which an image identifies itself.
const HEAD: usize = 4096;

/// A process that has an image loaded. It is read from outside, and goes on meanwhile.
pub struct Process {
    pid: u32,
    /// Where the image begins.
    base: u64,
    layout: Layout,
    image: PathBuf,
    /// Read when the first one is asked for.
    symbols: OnceLock<Vec<Symbol>>,
}

impl Process {
    /// The process of this number.
    ///
    /// # Errors
    /// [`Error::NoImage`]: it has none (yet). [`Error::Memory`]: it can't be read. As [`Layout::of`].
    pub fn open(pid: u32) -> Result<Process, Error> {
        let (base, image) = image_of(pid)?;
        let mut head = vec![0; HEAD];
        read(pid, base, &mut head)?;
        let id = build_id(&head).ok_or(Error::Debug {
            image: image.clone(),
            why: "it has no build id".to_owned(),
        })?;
        Ok(Process {
            pid,
            base,
            layout: Layout::of(&image, &id)?,
            image,
            symbols: OnceLock::new(),
        })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// From now on reads this process, a fork of it, whose image is at the same place.
    pub fn follow_fork(&mut self, pid: u32) {
        self.pid = pid;
    }

    /// What its image is like.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The name of what is at an address in the image.
    pub fn symbol(&self, address: u64) -> Option<&str> {
        let at = address.checked_sub(self.base)?;
        let symbols = self.symbols.get_or_init(|| symbols(&self.image));
        let behind = symbols.partition_point(|symbol| symbol.at <= at);
        let symbol = symbols.get(behind.checked_sub(1)?)?;
        (symbol.at == at).then_some(symbol.name.as_str())
    }

    /// Where something of the image is in the process.
    pub(crate) fn address(&self, in_image: u64) -> u64 {
        self.base + in_image
    }

    /// Some of its memory.
    ///
    /// # Errors
    /// [`Error::Memory`]: it is gone, or nothing is there.
    pub fn read(&self, address: u64, size: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; size];
        read(self.pid, address, &mut bytes)?;
        Ok(bytes)
    }

    /// An address or other number of eight bytes.
    pub(crate) fn word(&self, address: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        read(self.pid, address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Where a process has an image, and its file.
///
/// # Errors
/// [`Error::NoImage`]: it has none (yet). [`Error::Memory`]: its mappings can't be read.
pub fn image_of(pid: u32) -> Result<(u64, PathBuf), Error> {
    let maps = format!("/proc/{pid}/maps");
    let maps = fs::read_to_string(maps).map_err(|source| Error::Memory { pid, source })?;
    maps.lines().find_map(image).ok_or(Error::NoImage(pid))
}

/// Fills `to` from another process's memory; see process_vm_readv(2).
fn read(pid: u32, address: u64, to: &mut [u8]) -> Result<(), Error> {
    let done = memory::try_read(pid as i32, address, to);
    done.map_err(|source| Error::Memory { pid, source })
}

/// The start of an image, if this line of /proc/PID/maps (proc_pid_maps(5)) has it.
fn image(line: &str) -> Option<(u64, PathBuf)> {
    let mut words = line.splitn(6, ' ');
    let (range, _, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
    let name = path.file_name()?.to_str()?;
    if !name.starts_with(PREFIX) || u64::from_str_radix(offset, 16) != Ok(0) {
        return None;
    }
    let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
    Some((start, path.to_owned()))
}

/// What an image says of itself, in its first bytes.
fn build_id(head: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<LittleEndian>::parse(head).ok()?;
    let endian = LittleEndian;
    for segment in header.program_headers(endian, head).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, head) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_among_mappings() {
        let line =
            "7f00aa000000-7f00aa0da000 r--p 00000000 fe:00 131 /a b/libvink-linux-6.12-mine.so";
        let path = PathBuf::from("/a b/libvink-linux-6.12-mine.so");
        assert_eq!(image(line), Some((0x7f00_aa00_0000, path.clone())));
        let gone = format!("{line} (deleted)");
        assert_eq!(image(&gone), Some((0x7f00_aa00_0000, path)));
        assert_eq!(image(&line.replace("00000000 ", "000da000 ")), None);
        assert_eq!(image(&line.replace("libvink", "lib")), None);
        assert_eq!(image("7f00-7f10 rw-p 00000000 00:00 0"), None);
    }
}
