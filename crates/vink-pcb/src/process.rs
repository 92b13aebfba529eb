//! A process with a kernel in it: where its image is, and what is in its memory.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vink_sys::maps::MapsLine;
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
    /// Memory of this process itself, which is read without asking the host.
    own: Vec<Range<u64>>,
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
            own: Vec::new(),
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

    /// From now on reads the kernel's memory as this process has it, which has the kernel itself, or is a fork of
    /// the one that was opened: where the kernel's data is, and the `struct net`s of these addresses.
    ///
    /// # Errors
    /// [`Error::Memory`]: its mappings can't be read.
    ///
    /// # Safety
    /// As long as this is asked, the kernel is there, in each process that asks, and does not run meanwhile.
    pub unsafe fn read_directly(&mut self, nets: &[u64]) -> Result<(), Error> {
        let pid = std::process::id();
        let maps = fs::read_to_string("/proc/self/maps");
        let maps = maps.map_err(|source| Error::Memory { pid, source })?;
        let mut mapped: Vec<Range<u64>> = Vec::new();
        let lines = maps.lines().filter_map(MapsLine::of);
        for line in
            lines.filter(|line| line.is_readable() && line.is_writable() && line.is_private())
        {
            let range = line.range;
            match mapped.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => mapped.push(range),
            }
        }
        let data = self.address(self.layout.way.machines);
        mapped.retain(|range| range.contains(&data) || nets.iter().any(|net| range.contains(net)));
        self.own = mapped;
        Ok(())
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
        self.fill(address, &mut bytes)?;
        Ok(bytes)
    }

    /// An address or other number of eight bytes.
    pub(crate) fn word(&self, address: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Fills `to` from its memory.
    fn fill(&self, address: u64, to: &mut [u8]) -> Result<(), Error> {
        let end = address.saturating_add(to.len() as u64);
        let is_in = |range: &Range<u64>| range.start <= address && end <= range.end;
        if !self.own.iter().any(is_in) {
            return read(self.pid, address, to);
        }
        // SAFETY: mapped, and the kernel does not run: by the caller of read_directly().
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
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

/// The start of an image, if this line of /proc/PID/maps has it.
fn image(line: &str) -> Option<(u64, PathBuf)> {
    let line = MapsLine::of(line)?;
    let path = Path::new(line.name_as_mapped());
    let is_image = path.file_name()?.to_str()?.starts_with(PREFIX) && line.offset == 0;
    is_image.then(|| (line.range.start, path.to_owned()))
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
