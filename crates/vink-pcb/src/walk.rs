//! From the machines of a kernel to their connections.
//!
//! The kernel goes on while it is looked at: a list may change under the reader, which then finds
//! something twice, not at all, or what is no memory. What it takes for a connection is checked by
//! what it says of itself; a list that leads nowhere is given up until it is asked for again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::layout::Layout;
use crate::process::Process;
use crate::{Error, Value};

/// More than a list that leads somewhere has.
const MOST: usize = 1 << 20;

const TCP: u64 = libc::IPPROTO_TCP as u64;
const AF_INET: u64 = libc::AF_INET as u64;
const AF_INET6: u64 = libc::AF_INET6 as u64;

/// A machine of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    /// Where its `struct net` is.
    pub net: u64,
}

/// A TCP connection, as it was at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Where its `struct tcp_sock` is.
    pub at: u64,
    /// Where its machine's `struct net` is.
    pub net: u64,
    /// This end's address and port.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// The state's number; [`Layout::state`] has its name.
    pub state: u64,
    /// The `struct tcp_sock`.
    pub bytes: Vec<u8>,
}

impl Process {
    /// The machines of the kernel: none before it has booted.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn machines(&self) -> Result<Vec<Machine>, Error> {
        let way = &self.layout().way;
        let list = self.address(way.machines);
        let mut left = MOST;
        let mut proxies = Vec::new();
        self.entries(self.word(list + way.head as u64)?, &mut left, &mut proxies)?;
        let mut machines = Vec::new();
        for proxy in proxies {
            let uts = self.read(self.word(proxy + way.uts as u64)?, way.uts_size)?;
            if let Some(Value::Text(name)) = way.name.read(&uts) {
                let net = self.word(proxy + way.net as u64)?;
                machines.push(Machine { name, net });
            }
        }
        Ok(machines)
    }

    /// The pointers in a tree of `struct xa_node`: the kernel's own marks are in the two lowest
    /// bits.
    fn entries(&self, entry: u64, left: &mut usize, to: &mut Vec<u64>) -> Result<(), Error> {
        let way = &self.layout().way;
        if entry == 0 || *left == 0 {
            return Ok(());
        }
        *left -= 1;
        if entry & 3 != 2 {
            to.push(entry);
            return Ok(());
        }
        // Smaller ones are marks and no nodes.
        if entry < 4096 {
            return Ok(());
        }
        let node = self.read(entry - 2, way.node_size)?;
        let slots = node[way.slots..].chunks_exact(8).take(way.slot_count);
        for slot in slots.map(word) {
            self.entries(slot, left, to)?;
        }
        Ok(())
    }

    /// The connections of a machine, and those that are being made or ended; not sockets that
    /// listen.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn connections(&self, net: u64) -> Result<Vec<Connection>, Error> {
        self.connections_of(&[net])
    }

    /// What TCP has of all machines: pages of memory, and sockets, those that listen too.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn tcp_held(&self) -> Result<(i64, i64), Error> {
        let [pages, more, sockets] = self.layout().way.held.map(|at| self.address(at));
        let more = self.read(more, size_of::<i32>())?;
        let more = more.first_chunk().copied().unwrap_or_default();
        let pages = self.word(pages)? as i64 + i64::from(i32::from_ne_bytes(more));
        Ok((pages, self.word(sockets)? as i64))
    }

    /// The same of several machines, those of the first one first. Machines mostly have one table,
    /// which is read once.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn connections_of(&self, nets: &[u64]) -> Result<Vec<Connection>, Error> {
        let way = &self.layout().way;
        let mut tables: Vec<u64> = Vec::new();
        for net in nets {
            let table = self.word(net + way.table as u64)?;
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let place = |connection: &Connection| nets.iter().position(|net| *net == connection.net);
        let mut found: Vec<Connection> = Vec::new();
        for table in tables {
            let table = self.read(table, way.table_size)?;
            let buckets = word(&table[way.buckets..]);
            let count = way.mask.number(&table).unwrap_or(0) as usize + 1;
            let buckets = self.read(buckets, count.min(MOST) * way.bucket_size)?;
            for bucket in buckets.chunks_exact(way.bucket_size) {
                let mut node = word(&bucket[way.chain..]);
                // The end of a list is a number with its lowest bit set.
                while node & 1 == 0 && node != 0 && found.len() < MOST {
                    let at = node - way.node as u64;
                    // Smaller things are in the table too: what is read of them beyond their end
                    // says nothing.
                    let bytes = self.read(at, self.layout().tcp.size)?;
                    node = word(&bytes[way.node..]);
                    let connection = self.layout().connection(at, bytes);
                    found.extend(connection.filter(|one| place(one).is_some()));
                }
            }
        }
        found.sort_by_key(place);
        Ok(found)
    }
}

impl Layout {
    /// What some bytes say that are at this address; `None`: that they are no TCP connection.
    pub fn connection(&self, at: u64, bytes: Vec<u8>) -> Option<Connection> {
        let own = &self.own;
        let number = |field: &crate::Field| field.number(&bytes);
        let state = number(&own.state)?;
        // A socket that waits for its last segments to die, and a request for a connection, are no
        // tcp_sock.
        if ["TIME_WAIT", "NEW_SYN_RECV", "LISTEN", "?"].contains(&self.state(state))
            || number(&own.protocol)? != TCP
            || bytes.len() < self.tcp.size
        {
            return None;
        }
        let address = |fields: &[crate::Field; 2]| -> Option<IpAddr> {
            match number(&own.family)? {
                AF_INET => {
                    let four: [u8; 4] = fields[0].bytes(&bytes)?.try_into().ok()?;
                    Some(Ipv4Addr::from(four).into())
                }
                AF_INET6 => {
                    let sixteen: [u8; 16] = fields[1].bytes(&bytes)?.try_into().ok()?;
                    Some(Ipv6Addr::from(sixteen).to_canonical())
                }
                _ => None,
            }
        };
        let remote_port = u16::from_be(number(&own.remote_port)? as u16);
        Some(Connection {
            at,
            net: word(bytes.get(self.net..)?),
            local: SocketAddr::new(address(&own.local)?, number(&own.local_port)? as u16),
            remote: SocketAddr::new(address(&own.remote)?, remote_port),
            state,
            bytes,
        })
    }
}

/// The first eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk().copied();
    u64::from_ne_bytes(bytes.unwrap_or_default())
}
