//! Numbers of a lab: fields of connections, counters, lengths of queues, reports of apps, files. Time series are
//! made of them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use vink_apps::Apps;
use vink_kernel::{EndId, Kernel, MachineId};
use vink_pcb::{Connection, Field, Layout, Value};
use vink_spec::{handle, Source};

use crate::dump::{Listed, Qdisc};
use crate::worker::wire_numbers;
use crate::NetworkConfig;

/// The most bytes read of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// IPv6's counters, which images without IPv6 do not have.
const SNMP6: &str = "/proc/net/snmp6";

/// A lab that has numbers.
pub trait Numbered {
    /// Its kernel.
    fn kernel(&mut self) -> &mut Kernel;
    /// A machine's network.
    fn network(&self, machine: &str) -> Option<NetworkConfig>;
    /// The end of a wire at `machine:interface`.
    fn end(&self, place: &str) -> Option<EndId>;
    /// The report of the app of this name on a machine; of several, the newest's.
    fn report(&self, machine: &str, app: &str) -> Option<serde_json::Value>;
    /// A machine's TCP connections.
    fn connections(&mut self, machine: &str) -> Vec<Connection>;
    /// Where fields of connections are.
    fn layout(&self) -> Option<&Layout>;
}

/// What one pass has read, for all that want it.
#[derive(Default)]
pub struct Snapshot {
    connections: HashMap<String, Vec<Connection>>,
    links: HashMap<String, Vec<Listed>>,
    qdiscs: HashMap<String, Vec<Qdisc>>,
    files: HashMap<(String, String), String>,
}

impl Snapshot {
    /// What a number is now; none: there is none now. `field` is that of a connection, `path` that of a file of the
    /// host.
    ///
    /// # Errors
    /// In words: the kernel has no such number.
    pub fn look(
        &mut self,
        lab: &mut dyn Numbered,
        source: &Source,
        field: Option<&Field>,
        path: &Path,
    ) -> Result<Option<f64>, String> {
        let text = |error: crate::Error| error.to_string();
        match source {
            Source::Tcp { machine, with, .. } => {
                let Some(field) = field else {
                    return Ok(None);
                };
                if !self.connections.contains_key(machine) {
                    let all = lab.connections(machine);
                    self.connections.insert(machine.clone(), all);
                }
                let all = &self.connections[machine];
                let busiest = busiest(lab.layout(), all, with.as_deref());
                Ok(busiest.and_then(|its| field_of(its, field)))
            }
            Source::Qdisc {
                place: end_name,
                number,
                handle: which,
            } => {
                let (machine, interface) = end_name.split_once(':').unwrap_or_default();
                let Some(network) = lab.network(machine) else {
                    return Ok(None);
                };
                let kernel = lab.kernel();
                let index = links(kernel, network, machine, self)
                    .map_err(text)?
                    .iter()
                    .find(|link| link.name == interface)
                    .map(|link| link.index);
                if !self.qdiscs.contains_key(machine) {
                    let all = network.qdiscs(kernel).map_err(text)?;
                    self.qdiscs.insert(machine.to_owned(), all);
                }
                let wanted = which.as_deref().and_then(handle);
                let its = self.qdiscs[machine].iter().find(|qdisc| {
                    Some(qdisc.index) == index
                        && wanted.map_or(qdisc.is_root, |wanted| qdisc.handle == wanted)
                });
                Ok(its.and_then(|its| named(&its.numbers, number)))
            }
            Source::Interface {
                place: end_name,
                number,
            } => {
                let (machine, interface) = end_name.split_once(':').unwrap_or_default();
                let Some(network) = lab.network(machine) else {
                    return Ok(None);
                };
                let links = links(lab.kernel(), network, machine, self).map_err(text)?;
                let link = links.iter().find(|link| link.name == interface);
                Ok(link.and_then(|link| named(&link.counters, number)))
            }
            Source::Wire {
                place: end_name,
                number,
            } => {
                // It may have gone, or be no end of a wire.
                let Some(end) = lab.end(end_name) else {
                    return Ok(None);
                };
                let all = wire_numbers(lab.kernel(), end).unwrap_or_default();
                let mut all = all.into_iter();
                Ok(all.find_map(|(name, value)| (name == *number).then_some(value as f64)))
            }
            Source::Counter { machine, name } => {
                let Some(network) = lab.network(machine) else {
                    return Ok(None);
                };
                for path in ["/proc/net/snmp", "/proc/net/netstat", SNMP6] {
                    let text = match own_file(lab.kernel(), network, machine, path, self) {
                        Ok(text) => text,
                        Err(_) if path == SNMP6 => continue,
                        Err(error) => return Err(error),
                    };
                    if let Some(number) = counter(text, name) {
                        return Ok(Some(number));
                    }
                }
                Err(format!(
                    "{machine} has no counter {name}: nstat -az shows them"
                ))
            }
            Source::App {
                machine,
                app,
                number,
            } => {
                let report = lab.report(machine, app);
                Ok(report.and_then(|report| number_in(&report, number)))
            }
            Source::Proc {
                machine,
                path,
                after,
            } => {
                let Some(network) = lab.network(machine) else {
                    return Ok(None);
                };
                let text = own_file(lab.kernel(), network, machine, path, self)?;
                Ok(first_number(text, after.as_deref()))
            }
            Source::File { after, .. } => {
                let text = host_file(path);
                Ok(text.and_then(|text| first_number(&text, after.as_deref())))
            }
        }
    }
}

/// The report of the app of this name on a machine; of several, the newest's.
pub fn report_of(apps: &Apps, machine: MachineId, name: &str) -> Option<serde_json::Value> {
    let all = apps.list().into_iter().rev();
    let mut its = all.filter(|status| {
        status.machine == machine.get() && status.words.first().is_some_and(|word| word == name)
    });
    let report = its.next()?.report?;
    Some(serde_json::to_value(report).expect("a report is plain data"))
}

/// A field of a connection, as a number.
pub(crate) fn field_of(connection: &Connection, field: &Field) -> Option<f64> {
    field.read(&connection.bytes).and_then(number)
}

/// The field of a connection that a number is, by its name as `vink pcb` has it; none: it is no field.
///
/// # Errors
/// There is no such field, in words.
pub fn field(source: &Source, layout: &Layout) -> Result<Option<Field>, String> {
    let Source::Tcp { field, .. } = source else {
        return Ok(None);
    };
    let own = if field == "state" { "skc_state" } else { field };
    let found = layout.tcp.field(own).ok_or_else(|| {
        format!("a connection has no field {field}: `vink pcb --json` shows them")
    })?;
    Ok(Some(found.clone()))
}

/// Whether a text is in one of a connection's addresses.
pub(crate) fn has(connection: &Connection, with: Option<&str>) -> bool {
    with.is_none_or(|with| {
        [connection.local, connection.remote]
            .iter()
            .any(|address| address.to_string().contains(with))
    })
}

/// The one that has carried most; of several, the first by its addresses.
fn busiest<'a>(
    layout: Option<&Layout>,
    all: &'a [Connection],
    with: Option<&str>,
) -> Option<&'a Connection> {
    let bytes = |connection: &Connection| -> u64 {
        let fields = ["bytes_acked", "bytes_received"];
        let fields = fields.iter().filter_map(|name| layout?.tcp.field(name));
        fields
            .filter_map(|field| field.number(&connection.bytes))
            .sum()
    };
    all.iter()
        .filter(|connection| has(connection, with))
        .min_by_key(|its| (std::cmp::Reverse(bytes(its)), its.local, its.remote))
}

fn links<'a>(
    kernel: &mut Kernel,
    network: NetworkConfig,
    machine: &str,
    snapshot: &'a mut Snapshot,
) -> Result<&'a [Listed], crate::Error> {
    if !snapshot.links.contains_key(machine) {
        let all = network.links(kernel)?;
        snapshot.links.insert(machine.to_owned(), all);
    }
    Ok(&snapshot.links[machine])
}

/// One of a machine's own files.
fn own_file<'a>(
    kernel: &mut Kernel,
    network: NetworkConfig,
    machine: &str,
    path: &str,
    snapshot: &'a mut Snapshot,
) -> Result<&'a str, String> {
    let key = (machine.to_owned(), path.to_owned());
    if !snapshot.files.contains_key(&key) {
        let text = network.read(kernel, path);
        let text = text.map_err(|error| error.to_string())?;
        snapshot.files.insert(key.clone(), text);
    }
    Ok(&snapshot.files[&key])
}

/// A file of the host, which a program may be writing; one that can't be read is not there.
fn host_file(path: &Path) -> Option<String> {
    let file = File::options()
        .read(true)
        // A pipe has no numbers, and reading it would block.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn number(value: Value) -> Option<f64> {
    match value {
        Value::Unsigned(number) | Value::Pointer(number) => Some(number as f64),
        Value::Signed(number) => Some(number as f64),
        Value::Bool(yes) => Some(f64::from(u8::from(yes))),
        Value::Text(_) | Value::List(_) => None,
    }
}

fn named(numbers: &[(&'static str, u64)], name: &str) -> Option<f64> {
    let mut numbers = numbers.iter();
    numbers.find_map(|(its, number)| (*its == name).then_some(*number as f64))
}

/// A number in data, by names with dots between them.
fn number_in(data: &serde_json::Value, name: &str) -> Option<f64> {
    let mut names = name.split('.');
    names.try_fold(data, |data, name| data.get(name))?.as_f64()
}

/// A counter by nstat(8)'s name, in a file as /proc/net/snmp (two lines for each protocol) or as
/// /proc/net/snmp6.
fn counter(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((protocol, names)) = line.split_once(": ") else {
            let (its, number) = line.split_once(char::is_whitespace)?;
            if its == name {
                return number.trim().parse().ok();
            }
            continue;
        };
        let (_, numbers) = lines.next()?.split_once(": ")?;
        let Some(own) = name.strip_prefix(protocol) else {
            continue;
        };
        let mut both = names.split(' ').zip(numbers.split(' '));
        if let Some((_, number)) = both.find(|(its, _)| *its == own) {
            return number.parse().ok();
        }
    }
    None
}

/// The first number of a text, behind another text.
pub fn first_number(text: &str, after: Option<&str>) -> Option<f64> {
    let text = match after {
        Some(after) => &text[text.find(after)? + after.len()..],
        None => text,
    };
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let sign = text[..start].ends_with('-');
    let rest = &text[start..];
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let number: f64 = rest[..end].trim_end_matches('.').parse().ok()?;
    Some(if sign { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_files() {
        let text = "TCP: inuse 3 orphan 0\nload -1.5, 2.\n";
        assert_eq!(first_number(text, None), Some(3.0));
        assert_eq!(first_number(text, Some("orphan")), Some(0.0));
        assert_eq!(first_number(text, Some("load")), Some(-1.5));
        assert_eq!(first_number(text, Some("-1.5")), Some(2.0));
        assert_eq!(first_number(text, Some("UDP")), None);
        assert_eq!(first_number("none", None), None);
    }

    #[test]
    fn counters() {
        let text = "Ip: Forwarding TTL\nIp: 1 64\nTcp: MaxConn RetransSegs\nTcp: -1 7\n";
        assert_eq!(counter(text, "IpTTL"), Some(64.0));
        assert_eq!(counter(text, "TcpMaxConn"), Some(-1.0));
        assert_eq!(counter(text, "TcpRetransSegs"), Some(7.0));
        assert_eq!(counter(text, "TcpTTL"), None);
        let text = "Ip6InReceives                   \t12\nIp6InHdrErrors\t0\n";
        assert_eq!(counter(text, "Ip6InReceives"), Some(12.0));
    }

    #[test]
    fn numbers_in_reports() {
        let report = serde_json::json!({"units": 7, "tiers": {"gold": {"share": 0.5}}});
        assert_eq!(number_in(&report, "units"), Some(7.0));
        assert_eq!(number_in(&report, "tiers.gold.share"), Some(0.5));
        assert_eq!(number_in(&report, "tiers.gold"), None);
        assert_eq!(number_in(&report, "tiers.tin.share"), None);
    }
}
