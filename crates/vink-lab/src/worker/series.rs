//! Time series: numbers of the kernel and of files, sampled periodically or at events, and written
//! to files.
//!
//! A virtual clock pauses at each time that is due, after all events of that time. A row for an
//! event has the numbers at the end of its instant; only its connection's fields are those of the
//! event itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vink_kernel::{EndId, Kernel, PacketEvent, PacketKind, ProbeHit, ProbeId};
use vink_pcb::{Connection, Field, Layout, Process, Value};
use vink_spec::{handle, Growth, Quantity, SampleEvent, Series, Source};
use vink_timeseries::{Format, Writer};

use super::lab::{refused, Descriptors, EndName, Lab, WorkerError};
use super::status::numbers;
use crate::dump::{Listed, Qdisc};
use crate::socket_probe::Copied;
use crate::NetworkConfig;
use vink_protocol::{Answer, SeriesStatus};

/// The most bytes read of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// IPv6's counters, which images without IPv6 do not have.
const SNMP6: &str = "/proc/net/snmp6";
/// The most events that wait for a row.
const MAX_PENDING_EVENTS: usize = 1 << 16;

/// All series of a worker.
#[derive(Default)]
pub(super) struct AllSeries {
    all: BTreeMap<String, ActiveSeries>,
    /// Packet events since the last pass.
    packets: Vec<(EndName, SampleEvent, u64)>,
    /// This process's connections, if a series wants them.
    memory: Option<Process>,
    /// Each machine's network namespace, by its address.
    nets: HashMap<String, u64>,
}

/// A series.
struct ActiveSeries {
    what: Series,
    columns: Vec<Column>,
    /// The time of its next row, in ns of the kernel's clock.
    due: u64,
    /// `None` after an error.
    writer: Option<Writer<BufWriter<File>>>,
    rows: u64,
    missed: u64,
    error: Option<String>,
    probe: Option<ProbeId>,
}

struct Column {
    quantity: Quantity,
    /// The field of a connection.
    field: Option<Field>,
    /// The file's path.
    path: PathBuf,
    /// The last time and number.
    before: Option<(u64, f64)>,
}

/// What one pass has read, for all series that want it.
#[derive(Default)]
struct Snapshot {
    connections: HashMap<String, Vec<Connection>>,
    links: HashMap<String, Vec<Listed>>,
    qdiscs: HashMap<String, Vec<Qdisc>>,
    files: HashMap<(String, String), String>,
}

impl AllSeries {
    /// When one of them is due next, in ns of the kernel's clock.
    pub(super) fn due(&self) -> Option<u64> {
        let periodic = |set: &&ActiveSeries| set.what.every.is_some() && set.writer.is_some();
        let all = self.all.values().filter(periodic);
        all.map(|set| set.due).min()
    }

    /// Whether packets of an interface are events.
    pub(super) fn want_packets(&self, end_name: &EndName) -> bool {
        let mut all = self.all.values();
        all.any(|set| {
            let on = set.what.on;
            on.is_some_and(|on| on.tracepoint().is_none()) && set.is_at(end_name)
        })
    }

    /// Whether packets of any interface are.
    pub(super) fn are_idle(&self) -> bool {
        let mut all = self.all.values();
        !all.any(|set| set.what.on.is_some_and(|on| on.tracepoint().is_none()))
    }

    /// A packet departed, arrived or was lost.
    pub(super) fn packet(&mut self, end_name: &EndName, event: &PacketEvent) {
        let sample_event = match event.kind {
            PacketKind::Departure => SampleEvent::Departure,
            PacketKind::Arrival => SampleEvent::Arrival,
            PacketKind::Loss(_) | PacketKind::Drop { .. } => SampleEvent::Loss,
        };
        if self.packets.len() < MAX_PENDING_EVENTS {
            self.packets
                .push((end_name.clone(), sample_event, event.time));
            return;
        }
        for set in self.all.values_mut() {
            set.missed += u64::from(set.what.on == Some(sample_event) && set.is_at(end_name));
        }
    }

    /// Forgets a machine that is removed: another one may get its name.
    pub(super) fn lose(&mut self, machine: &str) {
        self.nets.remove(machine);
    }

    /// Ends all files.
    pub(super) fn finish(&mut self) {
        for set in self.all.values_mut() {
            set.finish();
        }
    }

    /// The connections of this process's kernel.
    fn memory(&mut self) -> Result<&Process, String> {
        if self.memory.is_none() {
            let process = Process::open(std::process::id());
            self.memory = Some(process.map_err(|error| error.to_string())?);
        }
        Ok(self.memory.as_ref().expect("it was just opened"))
    }

    fn layout(&self) -> Option<&Layout> {
        self.memory.as_ref().map(Process::layout)
    }

    fn net(&mut self, machine: &str) -> Option<u64> {
        if let Some(net) = self.nets.get(machine) {
            return Some(*net);
        }
        let all = self.memory().ok()?.machines().ok()?;
        self.nets = all.into_iter().map(|its| (its.name, its.net)).collect();
        self.nets.get(machine).copied()
    }

    /// The machine of a connection.
    fn machine_of(&mut self, connection: &Connection) -> Option<String> {
        let known = |nets: &HashMap<String, u64>| {
            let mut nets = nets.iter();
            nets.find_map(|(name, net)| (*net == connection.net).then(|| name.clone()))
        };
        known(&self.nets).or_else(|| {
            self.nets.clear();
            self.net("");
            known(&self.nets)
        })
    }
}

impl ActiveSeries {
    /// Whether its events can be at an interface.
    fn is_at(&self, end_name: &EndName) -> bool {
        match &self.what.at {
            None => true,
            Some(at) if at.contains(':') => *at == end_name.to_string(),
            Some(machine) => *machine == end_name.machine,
        }
    }

    /// Whether it is about a machine's connection.
    fn wants(&self, machine: &str, connection: &Connection) -> bool {
        if self.what.at.as_ref().is_some_and(|at| at != machine) {
            return false;
        }
        let mut about = self.columns.iter().filter_map(Column::connection);
        let mut any = false;
        let wanted = about.any(|(its, with)| {
            any = true;
            its == machine && has(connection, with)
        });
        wanted || !any
    }

    fn write(&mut self, row: &[Option<f64>]) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        match writer.row(row) {
            Ok(()) => self.rows += 1,
            Err(error) => self.fail(&error),
        }
    }

    fn flush(&mut self) {
        let flushed = self.writer.as_mut().map(Writer::flush);
        if let Some(Err(error)) = flushed {
            self.fail(&error);
        }
    }

    fn finish(&mut self) {
        if let Some(Err(error)) = self.writer.take().map(Writer::finish) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &std::io::Error) {
        self.writer = None;
        self.error = Some(format!("writing it: {error}"));
    }
}

impl Column {
    /// Of which machine's connections it is, and what is in their addresses.
    fn connection(&self) -> Option<(&str, Option<&str>)> {
        match &self.quantity.source {
            Source::Tcp { machine, with, .. } => Some((machine, with.as_deref())),
            _ => None,
        }
    }

    /// The value of a row: the number that was read at `time`, or its growth since the last one.
    fn grown(&mut self, time: u64, number: Option<f64>) -> Option<f64> {
        let Some(growth) = self.quantity.growth else {
            return number;
        };
        let now = number?;
        let before = self.before.replace((time, now));
        let (then, was) = before.filter(|(then, _)| *then < time)?;
        let a_second = (now - was) * 1e9 / (time - then) as f64;
        Some(match growth {
            Growth::Rate => a_second,
            Growth::Bitrate => 8.0 * a_second,
        })
    }
}

/// Whether a text is in one of a connection's addresses.
fn has(connection: &Connection, with: Option<&str>) -> bool {
    with.is_none_or(|with| {
        [connection.local, connection.remote]
            .iter()
            .any(|address| address.to_string().contains(with))
    })
}

impl Lab {
    /// Begins a series, replacing one of this name.
    pub(super) fn add_series(
        &mut self,
        name: String,
        what: Series,
        folder: &Path,
        descriptors: &mut Descriptors,
    ) -> Result<(), WorkerError> {
        let to = descriptors.next().expect("counted before");
        self.remove_series(&name)?;
        let about = |why: String| refused(format!("series {name}: {why}"));
        let mut columns = Vec::new();
        for (column, quantity) in &what.values {
            let about = |why: String| about(format!("{column}: {quantity}: {why}"));
            columns.push(Column {
                field: self.field_of(quantity).map_err(about)?,
                path: match &quantity.source {
                    Source::File { path, .. } => folder.join(path),
                    _ => PathBuf::new(),
                },
                quantity: quantity.clone(),
                before: None,
            });
        }
        let mut snapshot = Snapshot::default();
        for column in &columns {
            self.look(column, None, &mut snapshot)
                .map_err(|why| about(format!("{}: {why}", column.quantity)))?;
        }
        let names: Vec<&str> = ["time"]
            .into_iter()
            .chain(what.values.keys().map(String::as_str))
            .collect();
        let writer = open(&what.file(&name), &names, to).map_err(about)?;
        let probe = match what.on.and_then(SampleEvent::tracepoint) {
            Some(point) => {
                self.series.memory().map_err(about)?;
                let bytes = self.series.layout().map_or(0, |layout| layout.tcp.size);
                let copied = Copied { bytes, only: None };
                Some(self.probes.tap(self.worker.kernel(), point, copied)?)
            }
            None => None,
        };
        let every = what.every.map_or(1, |every| every.0.max(1));
        let set = ActiveSeries {
            due: self.worker.now().next_multiple_of(every),
            what,
            columns,
            writer: Some(writer),
            rows: 0,
            missed: 0,
            error: None,
            probe,
        };
        self.series.all.insert(name, set);
        self.trace_everywhere()
    }

    /// Ends a series, if there is one of this name.
    pub(super) fn remove_series(&mut self, name: &str) -> Result<(), WorkerError> {
        let Some(mut set) = self.series.all.remove(name) else {
            return Ok(());
        };
        set.finish();
        if let Some(probe) = set.probe {
            self.probes.end_tap(self.worker.kernel(), probe)?;
        }
        self.trace_everywhere()
    }

    /// How they are.
    pub(super) fn all_series(&self) -> Answer {
        let all = self.series.all.iter().map(|(name, set)| SeriesStatus {
            series: name.clone(),
            rows: set.rows,
            missed: set.missed,
            error: set.error.clone(),
        });
        Answer::Series(all.collect())
    }

    /// To be called after each step: looks at what is due, and at what has happened.
    pub(super) fn look_after_series(&mut self) {
        if self.series.all.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.series.all);
        let mut snapshot = Snapshot::default();
        for hit in self.probes.tapped() {
            self.passed(&mut all, hit, &mut snapshot);
        }
        for (end_name, sample_event, time) in std::mem::take(&mut self.series.packets) {
            for set in all.values_mut() {
                if set.what.on == Some(sample_event) && set.is_at(&end_name) {
                    self.write_row(set, time, None, &mut snapshot);
                }
            }
        }
        let now = self.worker.now();
        if !self.driver.is_virtual() || self.worker.is_idle() {
            for set in all.values_mut() {
                let Some(every) = set.what.every.filter(|_| set.due <= now) else {
                    continue;
                };
                set.due = (now + 1).next_multiple_of(every.0.max(1));
                self.write_row(set, now, None, &mut snapshot);
            }
        }
        all.values_mut().for_each(ActiveSeries::flush);
        self.series.all = all;
    }

    /// A connection has passed a tracepoint.
    fn passed(
        &mut self,
        all: &mut BTreeMap<String, ActiveSeries>,
        hit: ProbeHit,
        snapshot: &mut Snapshot,
    ) {
        let Some(layout) = self.series.layout() else {
            return;
        };
        let Some(connection) = layout.connection(hit.args[0], hit.bytes) else {
            return;
        };
        let Some(machine) = self.series.machine_of(&connection) else {
            return;
        };
        let event = (machine, connection);
        for set in all.values_mut() {
            if set.probe == Some(hit.probe) && set.wants(&event.0, &event.1) {
                self.write_row(set, hit.time, Some(&event), snapshot);
            }
        }
    }

    fn write_row(
        &mut self,
        set: &mut ActiveSeries,
        time: u64,
        event: Option<&(String, Connection)>,
        snapshot: &mut Snapshot,
    ) {
        let mut row = vec![Some(time as f64 / 1e9)];
        for column in &mut set.columns {
            // What is not there, or not any more, leaves its cell empty.
            let number = self.look(column, event, snapshot).unwrap_or_default();
            row.push(column.grown(time, number));
        }
        set.write(&row);
    }

    /// The field of a connection that it is.
    fn field_of(&mut self, quantity: &Quantity) -> Result<Option<Field>, String> {
        let Source::Tcp { field, .. } = &quantity.source else {
            return Ok(None);
        };
        let own = if field == "state" { "skc_state" } else { field };
        let layout = self.series.memory()?.layout();
        let snapshot = layout.tcp.field(own).ok_or_else(|| {
            format!("a connection has no field {field}: `vink pcb --json` shows them")
        })?;
        Ok(Some(snapshot.clone()))
    }

    /// What it is now; none: there is none now.
    fn look(
        &mut self,
        column: &Column,
        event: Option<&(String, Connection)>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<f64>, String> {
        let network_of = |machine: &str| {
            let machine = self.machines.get(machine);
            machine.map(|entry| entry.machine.network)
        };
        let text = |error: crate::Error| error.to_string();
        match &column.quantity.source {
            Source::Tcp { machine, with, .. } => {
                let Some(field) = &column.field else {
                    return Ok(None);
                };
                if let Some((_, its)) = event
                    .filter(|(its, connection)| its == machine && has(connection, with.as_deref()))
                {
                    return Ok(field.read(&its.bytes).and_then(number));
                }
                let connections = self.connections(machine, snapshot);
                let busiest = busiest(self.series.layout(), connections, with.as_deref());
                Ok(busiest.and_then(|its| field.read(&its.bytes).and_then(number)))
            }
            Source::Qdisc {
                place: end_name,
                number,
                handle: which,
            } => {
                let (machine, interface) = end_name.split_once(':').unwrap_or_default();
                let Some(network) = network_of(machine) else {
                    return Ok(None);
                };
                let kernel = self.worker.kernel();
                let index = links(kernel, network, machine, snapshot)
                    .map_err(text)?
                    .iter()
                    .find(|link| link.name == interface)
                    .map(|link| link.index);
                if !snapshot.qdiscs.contains_key(machine) {
                    let all = network.qdiscs(kernel).map_err(text)?;
                    snapshot.qdiscs.insert(machine.to_owned(), all);
                }
                let wanted = which.as_deref().and_then(handle);
                let its = snapshot.qdiscs[machine].iter().find(|qdisc| {
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
                let Some(network) = network_of(machine) else {
                    return Ok(None);
                };
                let links =
                    links(self.worker.kernel(), network, machine, snapshot).map_err(text)?;
                let link = links.iter().find(|link| link.name == interface);
                Ok(link.and_then(|link| named(&link.counters, number)))
            }
            Source::Wire {
                place: end_name,
                number,
            } => {
                let end_name = EndName::parse(end_name);
                let interface = end_name.and_then(|end_name| self.interface(&end_name));
                // It may have gone, or be no end of a wire.
                let Ok(end) = interface.map(|interface| interface.end) else {
                    return Ok(None);
                };
                let all = numbers(self.worker.kernel(), end).unwrap_or_default();
                let mut all = all.into_iter();
                Ok(all.find_map(|(name, value)| (name == *number).then_some(value as f64)))
            }
            Source::Counter { machine, name } => {
                let Some(network) = network_of(machine) else {
                    return Ok(None);
                };
                for path in ["/proc/net/snmp", "/proc/net/netstat", SNMP6] {
                    let text =
                        match own_file(self.worker.kernel(), network, machine, path, snapshot) {
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
                let id = self.machines.get(machine).map(|entry| entry.machine.id);
                let report = id.and_then(|id| self.fibers.report(id, app));
                Ok(report.and_then(|report| number_in(&report, number)))
            }
            Source::Proc {
                machine,
                path,
                after,
            } => {
                let Some(network) = network_of(machine) else {
                    return Ok(None);
                };
                let text = own_file(self.worker.kernel(), network, machine, path, snapshot)?;
                Ok(first_number(text, after.as_deref()))
            }
            Source::File { after, .. } => {
                let text = host_file(&column.path);
                Ok(text.and_then(|text| first_number(&text, after.as_deref())))
            }
        }
    }

    /// A machine's connections.
    fn connections<'a>(&mut self, machine: &str, snapshot: &'a mut Snapshot) -> &'a [Connection] {
        if !snapshot.connections.contains_key(machine) {
            let net = self.series.net(machine);
            let memory = self.series.memory().ok();
            let all = net
                .zip(memory)
                .and_then(|(net, memory)| memory.connections(net).ok());
            snapshot
                .connections
                .insert(machine.to_owned(), all.unwrap_or_default());
        }
        &snapshot.connections[machine]
    }

    /// Tells the kernel what is to be known of all interfaces.
    fn trace_everywhere(&mut self) -> Result<(), WorkerError> {
        let ends: Vec<EndId> = self.end_names.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))
    }
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

fn open(file: &str, names: &[&str], to: OwnedFd) -> Result<Writer<BufWriter<File>>, String> {
    let format = Format::of(Path::new(file))?;
    let to = BufWriter::new(File::from(to));
    Writer::new(format, names, to).map_err(|error| format!("writing {file}: {error}"))
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
fn first_number(text: &str, after: Option<&str>) -> Option<f64> {
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

    #[test]
    fn growth() {
        let mut column = Column {
            quantity: "bitrate file x".parse().unwrap(),
            field: None,
            path: PathBuf::new(),
            before: None,
        };
        assert_eq!(column.grown(0, Some(10.0)), None);
        assert_eq!(column.grown(500_000_000, Some(20.0)), Some(160.0));
        assert_eq!(column.grown(1_000_000_000, None), None);
        assert_eq!(column.grown(1_500_000_000, Some(20.0)), Some(0.0));
        assert_eq!(column.grown(1_500_000_000, Some(20.0)), None);
    }
}
