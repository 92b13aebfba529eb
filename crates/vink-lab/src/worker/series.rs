//! Time series: numbers of the kernel and of files, sampled periodically or at events, and written
//! to files.
//!
//! A virtual clock pauses at each time that is due, after all events of that time. A row for an
//! event has the numbers at the end of its instant; only its connection's fields are those of the
//! event itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use vink_kernel::{EndId, Kernel, PacketEvent, PacketKind, ProbeHit, ProbeId};
use vink_pcb::{Connection, Field, Layout, Process};
use vink_spec::{Growth, Quantity, SampleEvent, Series, Source};
use vink_timeseries::{Format, Writer};

use super::lab::{refused, Descriptors, EndName, Lab, WorkerError};
use crate::numbers::{field, field_of, has, Numbered, Snapshot};
use crate::socket_probe::Copied;
use crate::NetworkConfig;
use vink_protocol::{Answer, SeriesStatus};

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

impl Numbered for Lab {
    fn kernel(&mut self) -> &mut Kernel {
        self.worker.kernel()
    }

    fn network(&self, machine: &str) -> Option<NetworkConfig> {
        let machine = self.machines.get(machine);
        machine.map(|entry| entry.machine.network)
    }

    fn end(&self, place: &str) -> Option<EndId> {
        let interface = self.interface(&EndName::parse(place).ok()?);
        interface.map(|interface| interface.end).ok()
    }

    fn report(&self, machine: &str, app: &str) -> Option<serde_json::Value> {
        let id = self.machines.get(machine).map(|entry| entry.machine.id);
        self.fibers.report(id?, app)
    }

    fn connections(&mut self, machine: &str) -> Vec<Connection> {
        let net = self.series.net(machine);
        let memory = self.series.memory().ok();
        let all = net
            .zip(memory)
            .and_then(|(net, memory)| memory.connections(net).ok());
        all.unwrap_or_default()
    }

    fn layout(&self) -> Option<&Layout> {
        self.series.layout()
    }
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
        match quantity.source {
            Source::Tcp { .. } => field(&quantity.source, self.series.memory()?.layout()),
            _ => Ok(None),
        }
    }

    /// What it is now; none: there is none now.
    fn look(
        &mut self,
        column: &Column,
        event: Option<&(String, Connection)>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<f64>, String> {
        if let (Source::Tcp { machine, with, .. }, Some(field), Some((its, connection))) =
            (&column.quantity.source, &column.field, event)
        {
            if its == machine && has(connection, with.as_deref()) {
                return Ok(field_of(connection, field));
            }
        }
        snapshot.look(
            self,
            &column.quantity.source,
            column.field.as_ref(),
            &column.path,
        )
    }

    /// Tells the kernel what is to be known of all interfaces.
    fn trace_everywhere(&mut self) -> Result<(), WorkerError> {
        let ends: Vec<EndId> = self.end_names.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))
    }
}

fn open(file: &str, names: &[&str], to: OwnedFd) -> Result<Writer<BufWriter<File>>, String> {
    let format = Format::of(Path::new(file))?;
    let to = BufWriter::new(File::from(to));
    Writer::new(format, names, to).map_err(|error| format!("writing {file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
