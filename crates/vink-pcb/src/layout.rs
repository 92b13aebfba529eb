//! What is known of one build of an image: a connection's fields, and the way to it.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};
use serde::{Deserialize, Serialize};

use crate::dwarf::Source;
use crate::error::file;
use crate::field::{Field, Structure};
use crate::Error;

/// Source files whose debug information has what is needed: the kernel's own, which change less
/// often than Vink's.
const TCP: &str = "net/ipv4/tcp_ipv4";
const NAMES: &str = "kernel/utsname";
const TREES: &str = "lib/xarray";

/// Raised when what is cached means something else.
const CACHE_VERSION: u32 = 2;

/// One build of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    version: u32,
    /// `struct tcp_sock`, which begins with all that a socket is.
    pub tcp: Structure,
    /// The names of a connection's states, without their prefix.
    pub states: Vec<(i64, String)>,
    /// Where a socket says which machine's it is: the offset of the address of its `struct net`.
    pub net: usize,
    pub(crate) way: Way,
    pub(crate) own: Own,
}

/// Offsets on the way from the image's symbols to sockets, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Way {
    /// Of the list of machines, from the image's start on.
    pub machines: u64,
    /// What TCP has: pages that all processors know of, those that one has by itself, sockets.
    pub held: [u64; 3],
    pub head: usize,
    pub base: usize,
    pub node_size: usize,
    pub node_shift: usize,
    pub slots: usize,
    pub slot_count: usize,
    pub net: usize,
    pub uts: usize,
    pub uts_size: usize,
    pub name: Field,
    pub table: usize,
    pub table_size: usize,
    pub buckets: usize,
    pub mask: Field,
    pub bucket_size: usize,
    pub chain: usize,
    pub node: usize,
}

/// The fields that say which connection it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Own {
    pub family: Field,
    pub state: Field,
    pub protocol: Field,
    pub local: [Field; 2],
    pub remote: [Field; 2],
    pub local_port: Field,
    pub remote_port: Field,
}

/// A function or variable of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// From the image's start on.
    pub at: u64,
    /// Bytes.
    pub size: u64,
    /// Its name.
    pub name: String,
}

impl Layout {
    /// Of the image in this file, whose build id this is: from the cache, or else from the debug
    /// information.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Debug`], [`Error::NoMember`].
    pub fn of(image: &Path, id: &[u8]) -> Result<Layout, Error> {
        let cached = cache(id);
        let text = cached.as_ref().and_then(|path| fs::read(path).ok());
        let known = text.and_then(|text| serde_json::from_slice::<Layout>(&text).ok());
        if let Some(known) = known.filter(|known| known.version == CACHE_VERSION) {
            return Ok(known);
        }
        let found = Layout::read(image, id)?;
        if let Some(path) = cached {
            // A cache that can't be written costs the next one some time, and nothing else.
            let _ = found.write(&path);
        }
        Ok(found)
    }

    /// Of the image in this file.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn of_file(image: &Path) -> Result<Layout, Error> {
        let bytes = fs::read(image).map_err(file(image))?;
        let elf = object::File::parse(&*bytes).ok();
        let id = elf.and_then(|elf| elf.build_id().ok().flatten().map(<[u8]>::to_vec));
        let id = id.ok_or(Error::Debug {
            image: image.to_owned(),
            why: "it has no build id".to_owned(),
        })?;
        Layout::of(image, &id)
    }

    /// From the debug information.
    fn read(image: &Path, id: &[u8]) -> Result<Layout, Error> {
        let bytes = fs::read(image).map_err(file(image))?;
        let debug = |why: String| Error::Debug {
            image: image.to_owned(),
            why,
        };
        let elf = object::File::parse(&*bytes).map_err(|error| debug(error.to_string()))?;
        let theirs = elf.build_id().ok().flatten();
        if theirs != Some(id) {
            return Err(debug("it was built anew since it was loaded".into()));
        }
        let address = |name: &str| {
            let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name));
            let why = || debug(format!("it has no symbol {name}"));
            symbol.map(|symbol| symbol.address()).ok_or_else(why)
        };

        let source = |name| Source::find(image, &elf, name);
        let mut states = Vec::new();
        let [tcp, net, table, bucket, proxy, idr] = source(TCP)?.types(|types| {
            states = states_of(&types.enumerators);
            Ok([
                types.structure("tcp_sock")?,
                types.structure("net")?,
                types.structure("inet_hashinfo")?,
                types.structure("inet_ehash_bucket")?,
                types.structure("nsproxy")?,
                types.structure("idr")?,
            ])
        })?;
        let uts = source(NAMES)?.types(|types| types.structure("uts_namespace"))?;
        let node = source(TREES)?.types(|types| types.structure("xa_node"))?;
        let slots = member(&node, "xa_node", "slots")?;
        let way = Way {
            machines: address("machines")?,
            held: [
                address("tcp_memory_allocated")?,
                address("tcp_memory_per_cpu_fw_alloc")?,
                address("tcp_sockets_allocated")?,
            ],
            head: member(&idr, "idr", "xa_head")?.offset,
            base: member(&idr, "idr", "idr_base")?.offset,
            node_size: node.size,
            node_shift: member(&node, "xa_node", "shift")?.offset,
            slots: slots.offset,
            slot_count: slots.kind.size() / 8,
            net: member(&proxy, "nsproxy", "net_ns")?.offset,
            uts: member(&proxy, "nsproxy", "uts_ns")?.offset,
            uts_size: uts.size,
            name: member(&uts, "uts_namespace", "nodename")?.clone(),
            table: member(&net, "net", "tcp_death_row.hashinfo")?.offset,
            table_size: table.size,
            buckets: member(&table, "inet_hashinfo", "ehash")?.offset,
            mask: member(&table, "inet_hashinfo", "ehash_mask")?.clone(),
            bucket_size: bucket.size,
            chain: member(&bucket, "inet_ehash_bucket", "chain")?.offset,
            node: member(&tcp, "tcp_sock", "skc_nulls_node.next")?.offset,
        };
        let own = |name| member(&tcp, "tcp_sock", name).cloned();
        Ok(Layout {
            version: CACHE_VERSION,
            states,
            net: own("skc_net")?.offset,
            own: Own {
                family: own("skc_family")?,
                state: own("skc_state")?,
                protocol: own("sk_protocol")?,
                local: [
                    own("skc_rcv_saddr")?,
                    own("skc_v6_rcv_saddr.in6_u.u6_addr8")?,
                ],
                remote: [own("skc_daddr")?, own("skc_v6_daddr.in6_u.u6_addr8")?],
                local_port: own("skc_num")?,
                remote_port: own("skc_dport")?,
            },
            tcp,
            way,
        })
    }

    /// For the next one; never half of it.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let new = path.with_extension(std::process::id().to_string());
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// The name of a connection's state.
    pub fn state(&self, number: u64) -> &str {
        let mut states = self.states.iter();
        let found = states.find(|(value, _)| *value as u64 == number);
        found.map_or("?", |(_, name)| name)
    }
}

/// The functions and variables of an image, by address; none if the file can't be read.
pub(crate) fn symbols(image: &Path) -> Vec<Symbol> {
    let bytes = fs::read(image).unwrap_or_default();
    let Ok(elf) = object::File::parse(&*bytes) else {
        return Vec::new();
    };
    let wanted = [SymbolKind::Text, SymbolKind::Data];
    let mut found: Vec<Symbol> = elf
        .symbols()
        .filter(|symbol| wanted.contains(&symbol.kind()) && symbol.is_definition())
        .filter_map(|symbol| {
            Some(Symbol {
                at: symbol.address(),
                size: symbol.size(),
                name: symbol.name().ok()?.to_owned(),
            })
        })
        .collect();
    found.sort_by_key(|symbol| (symbol.at, symbol.size));
    found
}

fn member<'a>(of: &'a Structure, structure: &str, name: &str) -> Result<&'a Field, Error> {
    of.field(name).ok_or_else(|| Error::NoMember {
        structure: format!("struct {structure}"),
        member: name.to_owned(),
    })
}

/// Of all enumerators those of net/tcp_states.h: from TCP_ESTABLISHED on, up to TCP_MAX_STATES.
fn states_of(all: &[(i64, String)]) -> Vec<(i64, String)> {
    let states = all.iter();
    states
        .skip_while(|(_, name)| name != "TCP_ESTABLISHED")
        .take_while(|(_, name)| name != "TCP_MAX_STATES")
        .map(|(value, name)| {
            let name = name.strip_prefix("TCP_").unwrap_or(name);
            (*value, name.to_owned())
        })
        .collect()
}

/// Where it is kept: `$VINK_CACHE/pcb` or `~/.cache/vink/pcb`.
fn cache(id: &[u8]) -> Option<PathBuf> {
    let cache = match std::env::var_os("VINK_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME")?).join(".cache/vink"),
    };
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(cache.join("pcb").join(id + ".json"))
}
