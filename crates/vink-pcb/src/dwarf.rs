//! Structures of C, from an image's debug information (DWARF 5, of which most lies beside the
//! kernel's objects).
//!
//! The image has a *skeleton* of each source file's debug information, which names the file of the
//! rest (`.dwo`) and its number. Of one source file all structures are described there that it has
//! seen.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, DwarfFileType, DwoId, EndianSlice,
    LittleEndian, Unit, UnitOffset,
};
use object::{Object, ObjectSection};

use crate::error::file;
use crate::field::{Field, Kind, Structure};
use crate::Error;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

/// Members of an array of structures that are taken apart.
const MOST_MEMBERS: usize = 64;

/// The debug information of one source file: its bytes.
pub(crate) struct Source {
    image: PathBuf,
    bytes: Vec<u8>,
}

/// What [`Source`] says.
pub(crate) struct Types<'a> {
    image: &'a Path,
    dwarf: Dwarf<Reader<'a>>,
    unit: Unit<Reader<'a>>,
    /// Where a structure is described.
    structures: HashMap<&'a str, UnitOffset>,
    /// The names of numbers, of all enumerations.
    pub enumerators: Vec<(i64, String)>,
}

impl Source {
    /// Of a source file of the kernel, such as `net/ipv4/tcp_ipv4`.
    pub fn find(image: &Path, elf: &object::File<'_>, source: &str) -> Result<Source, Error> {
        let debug = |why: String| Error::Debug {
            image: image.to_owned(),
            why,
        };
        let broken = |error: gimli::Error| debug(error.to_string());
        let dwarf = load(elf, false).map_err(broken)?;
        let wanted = format!("{source}.dwo");
        let mut units = dwarf.units();
        while let Some(header) = units.next().map_err(broken)? {
            let unit = dwarf.unit(header).map_err(broken)?;
            let Some(name) = unit.dwo_name().map_err(broken)? else {
                continue;
            };
            let name = dwarf.attr_string(&unit, name).map_err(broken)?;
            let name = name.to_string_lossy();
            if !name.ends_with(wanted.as_str()) {
                continue;
            }
            let folder = unit.comp_dir.map(|folder| folder.to_string_lossy());
            let path = Path::new(folder.as_deref().unwrap_or("")).join(name.as_ref());
            let bytes = fs::read(&path).map_err(file(&path))?;
            let found = Source {
                image: image.to_owned(),
                bytes,
            };
            if found.id().map_err(broken)? != unit.dwo_id {
                return Err(debug(format!("{} is of another build", path.display())));
            }
            return Ok(found);
        }
        Err(debug(format!(
            "it says nothing of the debug information of {source}.c"
        )))
    }

    fn elf(&self) -> Result<object::File<'_>, Error> {
        object::File::parse(&*self.bytes).map_err(|error| self.debug(error))
    }

    fn debug(&self, error: impl std::fmt::Display) -> Error {
        Error::Debug {
            image: self.image.clone(),
            why: error.to_string(),
        }
    }

    /// What tells it from those of other builds.
    fn id(&self) -> Result<Option<DwoId>, gimli::Error> {
        let Ok(elf) = self.elf() else {
            return Ok(None);
        };
        let dwarf = load(&elf, true)?;
        let header = dwarf.units().next()?;
        Ok(header.and_then(|header| match header.type_() {
            gimli::UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        }))
    }

    /// Calls `with` with what it says.
    pub fn types<T>(&self, with: impl FnOnce(&Types<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let elf = self.elf()?;
        let read = || {
            let dwarf = load(&elf, true)?;
            let header = dwarf.units().next()?;
            let unit = dwarf.unit(header.ok_or(gimli::Error::MissingUnitDie)?)?;
            let mut types = Types {
                image: &self.image,
                dwarf,
                unit,
                structures: HashMap::new(),
                enumerators: Vec::new(),
            };
            types.index()?;
            Ok::<_, gimli::Error>(types)
        };
        with(&read().map_err(|error| self.debug(error))?)
    }
}

/// The sections of a file, or none in the place of those that it does not have.
fn load<'a>(elf: &object::File<'a>, split: bool) -> Result<Dwarf<Reader<'a>>, gimli::Error> {
    let mut dwarf = Dwarf::load(|id| {
        let name = match split {
            true => id.dwo_name(),
            false => Some(id.name()),
        };
        let section = name.and_then(|name| elf.section_by_name(name));
        let data = section.and_then(|section| section.data().ok());
        Ok::<_, gimli::Error>(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    })?;
    if split {
        dwarf.file_type = DwarfFileType::Dwo;
    }
    Ok(dwarf)
}

impl<'a> Types<'a> {
    /// Looks where everything is.
    fn index(&mut self) -> Result<(), gimli::Error> {
        let mut entries = self.unit.entries();
        let mut structures = HashMap::new();
        let mut enumerators = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            match entry.tag() {
                gimli::DW_TAG_structure_type if !is_declaration(entry) => {
                    if let Some(name) = self.name(entry)? {
                        structures.entry(name).or_insert(entry.offset());
                    }
                }
                gimli::DW_TAG_enumerator => enumerators.extend(self.enumerator(entry)?),
                _ => {}
            }
        }
        self.structures = structures;
        self.enumerators = enumerators;
        Ok(())
    }

    /// A structure, taken apart.
    pub fn structure(&self, name: &str) -> Result<Structure, Error> {
        let debug = |why: String| Error::Debug {
            image: self.image.to_owned(),
            why,
        };
        let at = self.structures.get(name).copied();
        let at = at.ok_or_else(|| debug(format!("it does not describe struct {name}")))?;
        let take_apart = || {
            let mut found = Structure {
                size: self.size(&self.unit.entry(at)?)?,
                fields: Vec::new(),
            };
            self.members(at, 0, &Names::default(), &mut found.fields)?;
            found.name_fields();
            Ok(found)
        };
        take_apart().map_err(|error: gimli::Error| debug(error.to_string()))
    }

    /// The members of a structure or union that is at this offset in another one.
    fn members(
        &self,
        of: UnitOffset,
        base: usize,
        names: &Names,
        to: &mut Vec<Field>,
    ) -> Result<(), gimli::Error> {
        let mut tree = self.unit.entries_tree(Some(of))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let member = child.entry();
            if member.tag() != gimli::DW_TAG_member {
                continue;
            }
            let Some(kind) = reference(member) else {
                continue;
            };
            let names = match self.name(member)? {
                Some(name) => names.with(name),
                None => names.clone(),
            };
            let number = |name| {
                member
                    .attr_value(name)
                    .and_then(|value| value.udata_value())
            };
            match number(gimli::DW_AT_bit_size) {
                Some(width) => {
                    let bit = number(gimli::DW_AT_data_bit_offset).unwrap_or(0);
                    let (signed, _) = self.encoding(kind)?;
                    let kind = Kind::Bits {
                        shift: (bit % 8) as u32,
                        width: width as u32,
                        signed,
                    };
                    to.push(names.field(base + (bit / 8) as usize, kind));
                }
                None => {
                    let offset = number(gimli::DW_AT_data_member_location).unwrap_or(0);
                    self.member(kind, base + offset as usize, names, to)?;
                }
            }
        }
        Ok(())
    }

    /// What is in a member of this type.
    fn member(
        &self,
        kind: UnitOffset,
        offset: usize,
        names: Names,
        to: &mut Vec<Field>,
    ) -> Result<(), gimli::Error> {
        let kind = self.resolve(kind)?;
        let entry = self.unit.entry(kind)?;
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                let first = to.len();
                let inner = match entry.tag() {
                    gimli::DW_TAG_structure_type if offset == 0 => names.base(),
                    _ => names.clone(),
                };
                self.members(kind, offset, &inner, to)?;
                // One number in a structure of its own, as atomic_t: it has the structure's name.
                if let [only] = &mut to[first..] {
                    (only.name, only.path) = (names.name, names.path);
                }
            }
            gimli::DW_TAG_array_type => {
                let Some(of) = reference(&entry) else {
                    return Ok(());
                };
                let of = self.resolve(of)?;
                let count = self.count(kind)?;
                let stride = self.size(&self.unit.entry(of)?)?;
                if count == 0 || stride == 0 {
                    return Ok(());
                }
                if let Some(kind) = self.scalar(of)? {
                    let kind = match (kind, self.encoding(of)?) {
                        (Kind::Unsigned(1) | Kind::Signed(1), (_, true)) => Kind::Text(count),
                        (of, _) => Kind::Array {
                            of: Box::new(of),
                            count,
                            stride,
                        },
                    };
                    to.push(names.field(offset, kind));
                    return Ok(());
                }
                for i in 0..count.min(MOST_MEMBERS) {
                    self.member(of, offset + i * stride, names.at(i), to)?;
                }
            }
            _ => to.extend(self.scalar(kind)?.map(|kind| names.field(offset, kind))),
        }
        Ok(())
    }

    /// What is no structure and no array.
    fn scalar(&self, kind: UnitOffset) -> Result<Option<Kind>, gimli::Error> {
        let entry = self.unit.entry(kind)?;
        let size = self.size(&entry)?;
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type => Some(Kind::Pointer),
            gimli::DW_TAG_enumeration_type => {
                let mut names = Vec::new();
                let mut tree = self.unit.entries_tree(Some(kind))?;
                let mut children = tree.root()?.children();
                while let Some(child) = children.next()? {
                    names.extend(self.enumerator(child.entry())?);
                }
                Some(Kind::Enum(size, names))
            }
            gimli::DW_TAG_base_type => {
                let encoding = entry.attr_value(gimli::DW_AT_encoding);
                Some(match encoding {
                    Some(AttributeValue::Encoding(gimli::DW_ATE_boolean)) => Kind::Bool(size),
                    _ if self.encoding(kind)?.0 => Kind::Signed(size),
                    _ => Kind::Unsigned(size),
                })
            }
            _ => None,
        })
    }

    /// Whether a number has a sign, and whether it is a letter.
    fn encoding(&self, kind: UnitOffset) -> Result<(bool, bool), gimli::Error> {
        let entry = self.unit.entry(self.resolve(kind)?)?;
        let signed = match entry.attr_value(gimli::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => {
                encoding == gimli::DW_ATE_signed || encoding == gimli::DW_ATE_signed_char
            }
            _ => false,
        };
        Ok((signed, self.name(&entry)? == Some("char")))
    }

    /// The type behind names and qualifiers.
    fn resolve(&self, mut kind: UnitOffset) -> Result<UnitOffset, gimli::Error> {
        loop {
            let entry = self.unit.entry(kind)?;
            match (entry.tag(), reference(&entry)) {
                (
                    gimli::DW_TAG_typedef
                    | gimli::DW_TAG_const_type
                    | gimli::DW_TAG_volatile_type
                    | gimli::DW_TAG_atomic_type
                    | gimli::DW_TAG_restrict_type,
                    Some(next),
                ) => kind = next,
                _ => return Ok(kind),
            }
        }
    }

    /// In bytes.
    fn size(&self, entry: &Entry<'a>) -> Result<usize, gimli::Error> {
        let own = entry.attr_value(gimli::DW_AT_byte_size);
        if let Some(size) = own.and_then(|value| value.udata_value()) {
            return Ok(size as usize);
        }
        Ok(match (entry.tag(), reference(entry)) {
            (gimli::DW_TAG_pointer_type, _) => 8,
            (gimli::DW_TAG_array_type, Some(of)) => {
                let of = self.unit.entry(self.resolve(of)?)?;
                self.count(entry.offset())? * self.size(&of)?
            }
            _ => 0,
        })
    }

    /// How many elements an array has, of all its dimensions.
    fn count(&self, array: UnitOffset) -> Result<usize, gimli::Error> {
        let mut tree = self.unit.entries_tree(Some(array))?;
        let mut children = tree.root()?.children();
        let mut count = 1;
        while let Some(child) = children.next()? {
            let range = child.entry();
            let number = |name| range.attr_value(name).and_then(|value| value.udata_value());
            let last = number(gimli::DW_AT_upper_bound).map(|last| last.wrapping_add(1));
            // One without an end is a structure's flexible last member.
            count *= number(gimli::DW_AT_count).or(last).unwrap_or(0) as usize;
        }
        Ok(count)
    }

    fn enumerator(&self, entry: &Entry<'a>) -> Result<Option<(i64, String)>, gimli::Error> {
        let value = entry.attr_value(gimli::DW_AT_const_value);
        let value = value.and_then(|v| v.sdata_value().or(v.udata_value().map(|n| n as i64)));
        Ok(value.zip(self.name(entry)?.map(str::to_owned)))
    }

    fn name(&self, entry: &Entry<'a>) -> Result<Option<&'a str>, gimli::Error> {
        let Some(name) = entry.attr_value(gimli::DW_AT_name) else {
            return Ok(None);
        };
        let name = self.dwarf.attr_string(&self.unit, name)?;
        // Of C every name is ASCII.
        Ok(match name.to_string_lossy() {
            Cow::Borrowed(name) => Some(name),
            Cow::Owned(_) => None,
        })
    }
}

/// What something in a structure is called, for short and in full.
#[derive(Clone, Default)]
struct Names {
    name: String,
    path: String,
}

impl Names {
    /// Of a member.
    fn with(&self, member: &str) -> Names {
        let join = |of: &str| match of {
            "" => member.to_owned(),
            of => format!("{of}.{member}"),
        };
        Names {
            name: join(&self.name),
            path: join(&self.path),
        }
    }

    /// Of one of several.
    fn at(&self, i: usize) -> Names {
        Names {
            name: format!("{}[{i}]", self.name),
            path: format!("{}[{i}]", self.path),
        }
    }

    /// Of a structure that the whole one begins with, and extends: its members have their own
    /// names.
    fn base(&self) -> Names {
        Names {
            name: String::new(),
            path: self.path.clone(),
        }
    }

    fn field(self, offset: usize, kind: Kind) -> Field {
        let Names { name, path } = self;
        Field {
            name,
            path,
            offset,
            kind,
        }
    }
}

/// The type that an entry refers to.
fn reference(entry: &Entry<'_>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type) {
        Some(AttributeValue::UnitRef(at)) => Some(at),
        _ => None,
    }
}

fn is_declaration(entry: &Entry<'_>) -> bool {
    entry.attr_value(gimli::DW_AT_declaration) == Some(AttributeValue::Flag(true))
}
