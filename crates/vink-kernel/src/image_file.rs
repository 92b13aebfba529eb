//! What an image's file says of it without being loaded: its profile, and how much is in it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use addr2line::gimli::{
    AttributeValue, Dwarf, EndianSlice, LineProgramHeader, LittleEndian, SectionId, Unit,
};
use object::{elf, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SegmentFlags};

use crate::Error;

/// What the release of every image has. `-PROFILE` follows, if it has one.
const RELEASE: &str = "-vink";
/// The profile of an image from which nothing was left out.
const FULL: &str = "full";

type Cache = ReadCache<BufReader<File>>;
type Elf<'a> = object::File<'a, &'a Cache>;
type Reader<'a> = EndianSlice<'a, LittleEndian>;
type AnyError = Box<dyn std::error::Error>;

/// The file of an image. Only what is asked for is read.
#[derive(Debug)]
pub struct ImageFile {
    path: PathBuf,
    cache: Cache,
}

impl ImageFile {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::NotAnImage`], as all that it can be asked for.
    pub fn open(path: &Path) -> Result<ImageFile, Error> {
        let path = path.to_owned();
        match File::open(&path) {
            Ok(file) => Ok(ImageFile {
                path,
                cache: ReadCache::new(BufReader::new(file)),
            }),
            Err(error) => Err(Error::NotAnImage {
                path,
                why: error.to_string(),
            }),
        }
    }

    /// The profile that it was built with, such as `full`.
    pub fn profile(&self) -> Result<String, Error> {
        self.read(|elf| {
            let (banner, _) = symbol(elf, "linux_banner")?;
            Ok(profile(&String::from_utf8_lossy(banner)).to_owned())
        })
    }

    /// How much code it has, in bytes.
    pub fn text_bytes(&self) -> Result<u64, Error> {
        self.read(|elf| {
            let is_code =
                |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0);
            let code = elf.segments().filter(|segment| is_code(segment.flags()));
            Ok(code.map(|segment| segment.size()).sum())
        })
    }

    /// How many system calls it has. All others are `ENOSYS`.
    pub fn system_calls(&self) -> Result<usize, Error> {
        self.read(|elf| {
            let (table, _) = symbol(elf, "sys_call_table")?;
            let (_, none) = symbol(elf, "sys_ni_syscall")?;
            // Relocations are in place (RELR): it has the functions' addresses.
            let entries = table.chunks_exact(8);
            let is_there = |entry: &&[u8]| **entry != none.to_le_bytes();
            Ok(entries.filter(is_there).count())
        })
    }

    /// How many lines of source there is code of, each once, wherever it is inlined.
    pub fn source_lines(&self) -> Result<usize, Error> {
        self.read(source_lines)
    }

    fn read<T>(&self, what: impl Fn(&Elf<'_>) -> Result<T, AnyError>) -> Result<T, Error> {
        let read = object::File::parse(&self.cache)
            .map_err(AnyError::from)
            .and_then(|elf| what(&elf));
        read.map_err(|why| Error::NotAnImage {
            path: self.path.clone(),
            why: why.to_string(),
        })
    }
}

/// The contents of a symbol, and its address.
fn symbol<'a>(elf: &Elf<'a>, name: &str) -> Result<(&'a [u8], u64), AnyError> {
    let lacks = || format!("it has no {name}");
    let symbol = elf.symbol_by_name(name).ok_or_else(lacks)?;
    let section = symbol.section_index().ok_or_else(lacks)?;
    let section = elf.section_by_index(section)?;
    let bytes = section.data_range(symbol.address(), symbol.size())?;
    Ok((bytes.ok_or_else(lacks)?, symbol.address()))
}

/// Of `Linux version 6.12.117-vink-kvs (vink@vink) ...`.
fn profile(banner: &str) -> &str {
    let release = banner.split(' ').nth(2).unwrap_or_default();
    let end = release.split_once(RELEASE).map_or("", |(_, end)| end);
    end.strip_prefix('-').unwrap_or(FULL)
}

fn source_lines(elf: &Elf<'_>) -> Result<usize, AnyError> {
    let section = |id: SectionId| {
        let data = match elf.section_by_name(id.name()) {
            Some(section) => section.data()?,
            None => &[],
        };
        Ok::<_, object::Error>(EndianSlice::new(data, LittleEndian))
    };
    let dwarf = Dwarf::load(section)?;
    let text = elf.section_by_name(".text").ok_or("it has no .text")?;
    let mut files = HashMap::new();
    let mut lines = HashSet::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let Some(program) = unit.line_program.clone() else {
            continue;
        };
        // By the unit's own number.
        let mut known = HashMap::new();
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            // What the linker has left out is at address 0.
            let Some(line) = row.line().filter(|_| row.address() >= text.address()) else {
                continue;
            };
            let number = row.file_index();
            let file = match known.get(&number) {
                Some(file) => *file,
                None => {
                    let count = files.len();
                    let name = file_name(&dwarf, &unit, header, number)?;
                    let file = *files.entry(name).or_insert(count);
                    known.insert(number, file);
                    file
                }
            };
            lines.insert((file, line));
        }
    }
    Ok(lines.len())
}

/// The folder and the name of a file of a unit.
fn file_name(
    dwarf: &Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    header: &LineProgramHeader<Reader<'_>>,
    number: u64,
) -> Result<(String, String), AnyError> {
    let text = |value: Option<AttributeValue<_>>| match value {
        Some(value) => Ok(dwarf
            .attr_string(unit, value)?
            .to_string_lossy()
            .into_owned()),
        None => Ok::<_, AnyError>(String::new()),
    };
    let file = header.file(number);
    Ok((
        text(file.and_then(|file| file.directory(header)))?,
        text(file.map(|file| file.path_name()))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_the_profile() {
        assert_eq!(profile("Linux version 6.12.117-vink (vink@vink)"), "full");
        assert_eq!(profile("Linux version 6.1.192-vink-kvs (vink@vink)"), "kvs");
        assert_eq!(profile(""), "full");
    }
}
