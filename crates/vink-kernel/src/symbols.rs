//! The names and lines of an image's code, read from its file on first use.

use std::io::BufReader;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use addr2line::Context;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SymbolKind};

use crate::image::Code;
use crate::Frame;

/// How a code address came about.
#[derive(Clone, Copy)]
pub(crate) enum Address {
    /// The instruction there was being executed.
    At(u64),
    /// A call returns to it: the call itself, just before, is what is described.
    ReturnTo(u64),
}

/// Describes addresses, as well as the image's file allows.
pub(crate) fn describe(code: &Code, addresses: impl Iterator<Item = Address>) -> Vec<Frame> {
    let cache = ReadCache::new(BufReader::new(&code.file));
    let elf = object::File::parse(&cache).ok();
    let functions = elf.as_ref().map_or_else(Vec::new, functions);
    let lines = elf.as_ref().and_then(lines);
    // Where the image was loaded: the difference between here and there of a function known to be.
    let linked = functions
        .iter()
        .find(|f| f.name == "vink_info")
        .map(|f| f.start);
    let shift = linked.map(|linked| code.info - linked);
    let frame = |address| {
        let (addr, back) = match address {
            Address::At(addr) => (addr, 0),
            Address::ReturnTo(addr) => (addr, 1),
        };
        let inside = shift.filter(|_| code.text.contains(&addr));
        let Some(linked) = inside.map(|shift| addr - shift - back) else {
            return Frame {
                addr,
                symbol: None,
                location: None,
            };
        };
        Frame {
            addr,
            symbol: find(&functions, linked).map(|f| (f.name.to_owned(), linked - f.start + back)),
            location: lines.as_ref().and_then(|lines| {
                let location = lines.find_location(linked).ok()??;
                Some(format!("{}:{}", location.file?, location.line?))
            }),
        }
    };
    addresses.map(frame).collect()
}

struct Function<'data> {
    start: u64,
    size: u64,
    name: &'data str,
}

/// All of `.symtab`, by address.
fn functions<'data, R: ReadRef<'data>>(elf: &object::File<'data, R>) -> Vec<Function<'data>> {
    let mut functions: Vec<_> = elf
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
        .filter_map(|s| {
            Some(Function {
                start: s.address(),
                size: s.size(),
                name: s.name().ok()?,
            })
        })
        .collect();
    // Of several names for one address the one that covers most comes last and is found.
    functions.sort_by_key(|f| (f.start, f.size));
    functions
}

fn find<'a, 'data>(functions: &'a [Function<'data>], addr: u64) -> Option<&'a Function<'data>> {
    let behind = functions.partition_point(|f| f.start <= addr);
    let function = functions.get(behind.checked_sub(1)?)?;
    // Some assembly has no size: it reaches to the next symbol.
    (function.size == 0 || addr - function.start < function.size).then_some(function)
}

/// The line numbers. Of split DWARF only what stays in the image is needed.
fn lines<'data, R: ReadRef<'data>>(
    elf: &object::File<'data, R>,
) -> Option<Context<EndianSlice<'data, LittleEndian>>> {
    let section = |id: SectionId| {
        let data = match elf.section_by_name(id.name()) {
            Some(section) => section.data()?,
            None => &[],
        };
        Ok::<_, object::Error>(EndianSlice::new(data, LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}
