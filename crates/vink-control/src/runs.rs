//! Recorded runs that clients may look at: those of labs that this process has recorded, and what
//! the owner has named.
//!
//! A client names a run by its id, never by a path: only `POST /v1/runs`, which is the owner's, takes
//! one. A run is read with the rights of this process, which is the owner's. Every session that may
//! look at labs may look at listed runs: to list a run is to show it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use indexmap::IndexMap;
use ipnet::IpNet;
use tokio::sync::watch;
use vink_api::{
    DifferenceQuery, FlightsQuery, MachineState, NewRun, NextEventQuery, Run, RunDifference,
    RunEnd, RunEvent, RunEventsQuery, RunPoint, RunProgram, RunState, RunSummary, RunTimeline,
    RunTopology, RunWire, TimelineQuery, TimelineRow, Topology, TopologyEnd,
};
use vink_record::{
    first_difference, first_difference_in_behaviour, kind, Event, Flight, History, Index, Manifest,
    Numbered, Parts, Reader, Record, Stop, Stopping, What, CLASSES, MARKS,
};
use vink_spec::{Lab as Spec, MachineSpec, Settings, Time, WireSpec};

use crate::engine::topology_of;
use crate::http_error::HttpError;
use crate::parts::{become_recorded, plain};
use crate::views::Views;

/// A manifest's name in a folder that a lab was recorded to.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Recordings that are looked for in a folder at most, and listed at most.
const MOST_RUNS: usize = 1000;
/// A bigger manifest is none: a lab of ten thousand machines has some ten million bytes.
const LARGEST_MANIFEST: u64 = 256 << 20;
/// What a client may ask for at once.
const MOST_BINS: u64 = 10_000;
const MOST_EVENTS: usize = 10_000;
const MOST_FLIGHTS: usize = 200_000;
/// Events around a difference.
pub(crate) const CONTEXT: usize = 5;
/// Characters of two runs side by side.
const COLUMNS: usize = 160;
/// A frame of flights: bytes of its head and of a record, records, ns that it spans at most.
const FRAME_HEAD: usize = 24;
const FRAME_RECORDS: usize = 65_535;
const FRAME_SPAN: u64 = 4_000_000_000;
/// An end that is not there.
const NO_END: TopologyEnd = TopologyEnd {
    node: None,
    interface: String::new(),
};
/// A packet that is lost.
const LOST: u8 = 1;

/// The runs that are listed, by id.
#[derive(Default)]
pub(crate) struct Runs {
    state: Mutex<BTreeMap<String, Arc<Recording>>>,
}

/// A run that is listed.
pub(crate) struct Recording {
    pub(crate) id: String,
    /// Its manifest.
    pub(crate) path: PathBuf,
    manifest: Mutex<Option<(SystemTime, Arc<Manifest>)>>,
    made: Mutex<Option<Arc<Made>>>,
    topology: Mutex<Option<Arc<Then>>>,
    history: Mutex<Option<(u64, Arc<History>)>>,
    /// Where the users are that look at it.
    pub(crate) views: Arc<Views>,
    /// It ends with the run's place in the list.
    pub(crate) ending: watch::Sender<bool>,
}

impl From<vink_record::Error> for HttpError {
    fn from(error: vink_record::Error) -> HttpError {
        HttpError::conflict(error.to_string())
    }
}

/// A lab as it was made.
struct Made {
    manifest: Arc<Manifest>,
    history: Arc<History>,
    /// What of it may change.
    spec: Spec,
    /// With the ends of all flights.
    topology: Topology,
    /// Ends by their names.
    numbers: HashMap<String, usize>,
}

/// A lab as it was between two changes.
struct Then {
    made: Arc<Made>,
    changes: u64,
    topology: Topology,
    addresses: IndexMap<String, Vec<IpNet>>,
    settings: IndexMap<String, RunWire>,
}

/// Does what reads files, on a thread of its own, to its end.
pub(crate) async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let task = tokio::task::spawn_blocking(work);
    task.await
        .unwrap_or_else(|error| Err(HttpError::conflict(error.to_string())))
}

/// Sets it when a request ends, also as its client goes away.
struct Waiting(Stop);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Does what reads much, on a thread of its own, for as long as the answer is waited for.
pub(crate) async fn reading_while_waited<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let waiting = Waiting(Stop::default());
    let stop = waiting.0.clone();
    reading(move || work(&stop)).await
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Recording>>> {
        self.state.lock().expect("no panic while it is held")
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<Recording>, HttpError> {
        let state = self.state();
        let known = state.keys().map(String::as_str);
        let found = state.get(id).cloned();
        found.ok_or_else(|| HttpError::no("run", id, known, "listed"))
    }

    /// The run of this manifest, if it is listed.
    pub(crate) fn of(&self, manifest: &Path) -> Option<String> {
        let state = self.state();
        let mut all = state.values();
        all.find(|run| run.path == manifest)
            .map(|run| run.id.clone())
    }

    /// All, as far as they are still there.
    pub(crate) fn all(&self) -> Vec<RunSummary> {
        let runs: Vec<_> = self.state().values().cloned().collect();
        let all = runs.iter().map(|run| (run, run.summary(self)));
        let mut gone = Vec::new();
        let mut there = Vec::new();
        for (run, summary) in all {
            match summary {
                Ok(summary) => there.push(summary),
                // The journal of one that has just begun has nothing yet.
                Err(_) if run.path.exists() => {}
                Err(_) => gone.push(run.id.clone()),
            }
        }
        let mut state = self.state();
        gone.iter().for_each(|id| drop(state.remove(id)));
        there
    }

    /// Lists what is recorded at a path: a manifest, its folder, or a folder of these.
    pub(crate) fn add(&self, new: &NewRun) -> Result<Vec<RunSummary>, HttpError> {
        let path = named(&new.path)?;
        let mut listed = Vec::new();
        for manifest in manifests(&path) {
            listed.push(self.list(&manifest)?.summary(self)?);
        }
        if listed.is_empty() {
            let error = format!("nothing was recorded at {}", path.display());
            return Err(HttpError::invalid(error)
                .hint(
                    "name a manifest, the folder that a lab was recorded to, or a folder of these",
                )
                .at("/path"));
        }
        Ok(listed)
    }

    /// Lists the run of a manifest.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn list(&self, manifest: &Path) -> Result<Arc<Recording>, HttpError> {
        if let Some(id) = self.of(manifest) {
            return self.get(&id);
        }
        let name = match manifest.file_name() {
            Some(name) if name != MANIFEST => manifest.file_stem(),
            _ => manifest.parent().and_then(Path::file_name),
        };
        let name = name.unwrap_or_default().to_string_lossy();
        let good = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        };
        let name: String = name.chars().map(good).take(100).collect();
        let name = match name.trim_start_matches('.') {
            "" => "run",
            name => name,
        };
        let mut recording = Recording {
            id: name.to_owned(),
            path: manifest.to_owned(),
            manifest: Mutex::default(),
            made: Mutex::default(),
            topology: Mutex::default(),
            history: Mutex::default(),
            views: Views::of_users(),
            ending: watch::Sender::new(false),
        };
        recording.manifest()?;
        let mut state = self.state();
        if state.len() >= MOST_RUNS {
            return Err(HttpError::conflict(format!(
                "{MOST_RUNS} runs are listed already"
            )));
        }
        for number in 2.. {
            if !state.contains_key(&recording.id) {
                break;
            }
            recording.id = format!("{name}-{number}");
        }
        let recording = Arc::new(recording);
        state.insert(recording.id.clone(), recording.clone());
        Ok(recording)
    }
}

/// The absolute path that a request names, without symbolic links.
pub(crate) fn named(path: &str) -> Result<PathBuf, HttpError> {
    if !Path::new(path).is_absolute() {
        let error = format!("{path:?} is not an absolute path");
        return Err(HttpError::invalid(error).at("/path"));
    }
    fs::canonicalize(path)
        .map_err(|error| HttpError::invalid(format!("{path}: {error}")).at("/path"))
}

/// The manifests at a path.
fn manifests(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    if path.join(MANIFEST).is_file() {
        return vec![path.join(MANIFEST)];
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let entry = entry.path();
        let is_json = entry
            .extension()
            .is_some_and(|extension| extension == "json");
        match entry.join(MANIFEST) {
            manifest if manifest.is_file() => found.push(manifest),
            _ if is_json && Manifest::read(&entry).is_ok() => found.push(entry),
            _ => {}
        }
        if found.len() == MOST_RUNS {
            break;
        }
    }
    found.sort();
    found
}

/// Why moments of a run can't be opened as labs.
pub(crate) fn only_history(manifest: &Manifest) -> Option<String> {
    let spec = match &manifest.what {
        What::Run(_) => {
            return Some("it is a program by itself, not a lab: vink replay repeats it".to_owned())
        }
        What::Lab(spec) => spec,
    };
    let spec: Spec = match serde_json::from_value(spec.clone()) {
        Ok(spec) => spec,
        Err(error) => return Some(format!("the lab in its manifest can't be read: {error}")),
    };
    if !matches!(spec.time, Time::Virtual(_)) {
        return Some(
            "it went by the host's clock, so no two runs of it are the same; with `time: virtual` they are"
                .to_owned(),
        );
    }
    if let Some((wire, _)) = spec.wires.iter().find(|(_, wire)| wire.uplink.is_some()) {
        return Some(format!(
            "wire {wire} led outside: what came from there is not recorded"
        ));
    }
    let missed = manifest.totals.as_ref().map_or(0, |totals| totals.missed);
    if missed > 0 {
        return Some(format!(
            "{missed} packets came faster than they could be recorded"
        ));
    }
    None
}

/// The lab of a manifest, complete.
pub(crate) fn spec_of(manifest: &Manifest) -> Option<Spec> {
    match &manifest.what {
        What::Run(_) => None,
        What::Lab(spec) => serde_json::from_value::<Spec>(spec.clone()).ok(),
    }
}

fn kind_name(kind: u8) -> &'static str {
    let kind = usize::from(kind);
    match CLASSES.get(kind) {
        Some(class) => class,
        None => MARKS[kind - CLASSES.len()],
    }
}

/// The kind of any record.
fn kind_of(record: &Record) -> &'static str {
    match (&record.event, kind(record)) {
        (_, Some(kind)) => kind_name(kind),
        (Event::Packet { .. }, None) => "arrival",
        (Event::Output { .. }, None) => "output",
        (_, None) => "thread",
    }
}

/// The words of a query.
fn words(text: Option<&str>, known: &[&str]) -> Result<Option<Vec<String>>, HttpError> {
    let words: Option<Vec<String>> = text.map(|text| text.split(',').map(str::to_owned).collect());
    for word in words.iter().flatten() {
        if !known.contains(&word.as_str()) {
            return Err(HttpError::invalid(format!("{word:?} is no kind of event"))
                .hint(format!("there are {}", known.join(", ")))
                .at("?kinds"));
        }
    }
    Ok(words)
}

/// The place of an end in [`Index::ends`].
pub(crate) fn place_of(index: &Index, end: &str) -> Result<u32, HttpError> {
    let known = index.ends.iter().map(String::as_str);
    let place = index.ends.iter().position(|own| own == end);
    let place = place.ok_or_else(|| HttpError::no("end", end, known, "recorded"))?;
    Ok(place as u32)
}

/// All kinds that are counted, and their numbers.
fn counted() -> impl Iterator<Item = (u8, &'static str)> {
    (0..).zip(CLASSES.into_iter().chain(MARKS))
}

fn event(one: Numbered) -> RunEvent {
    let Numbered { number, record } = one;
    RunEvent {
        number,
        nanoseconds: record.time,
        kind: kind_of(&record).to_owned(),
        end: match &record.event {
            Event::Packet { place, .. } | Event::Met { place, .. } => Some(place.clone()),
            _ => None,
        },
        text: record.event.to_string(),
    }
}

/// Reads a journal for as long as the answer is waited for.
pub(crate) type JournalReader = Reader<std::io::BufReader<Stopping>>;

/// A reader of a journal.
///
/// # Errors
/// It can't be opened, or is none.
pub(crate) fn reader_of(journal: &Path, stop: &Stop) -> Result<JournalReader, vink_record::Error> {
    let name = journal.display().to_string();
    let file = fs::File::open(journal).map_err(|error| vink_record::Error::Host {
        what: name.clone(),
        error,
    })?;
    let file = Stopping::new(file, stop.clone());
    Reader::new(std::io::BufReader::new(file), name)
}

impl Recording {
    pub(crate) fn manifest(&self) -> Result<Arc<Manifest>, HttpError> {
        let name = self.path.display().to_string();
        let host = |error| HttpError::host(&name, error);
        let about = fs::metadata(&self.path).map_err(host)?;
        let changed = about.modified().map_err(host)?;
        let mut kept = self.manifest.lock().expect("no panic while it is held");
        if let Some((_, manifest)) = kept.as_ref().filter(|(then, _)| *then == changed) {
            return Ok(manifest.clone());
        }
        let text = vink_spec::read_text_file(&self.path, LARGEST_MANIFEST).map_err(host)?;
        let manifest = Arc::new(Manifest::parse(&text, &name)?);
        *kept = Some((changed, manifest.clone()));
        Ok(manifest)
    }

    /// The journal, which is beside the manifest.
    pub(crate) fn journal(&self) -> Result<PathBuf, HttpError> {
        let journal = self.manifest()?.journal.clone();
        let mut parts = journal.components();
        let is_name = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        );
        let path = self.path.with_file_name(&journal);
        // No other file is read, or gets an index beside it.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file());
        match is_name && is_file {
            true => Ok(path),
            false => Err(HttpError::conflict(format!(
                "{} is no file beside the manifest {}",
                journal.display(),
                self.path.display()
            ))),
        }
    }

    /// What happened, until now. Its index is made to its end, for all that ask, whether the first one waits for it or not.
    pub(crate) fn history(&self) -> Result<Arc<History>, HttpError> {
        let journal = self.journal()?;
        let name = journal.display().to_string();
        let length = fs::metadata(&journal).map_err(|error| HttpError::host(&name, error))?;
        let length = length.len();
        let mut kept = self.history.lock().expect("no panic while it is held");
        if let Some((_, history)) = kept.as_ref().filter(|(then, _)| *then == length) {
            return Ok(history.clone());
        }
        let (history, _) = History::open(&journal)?;
        let history = Arc::new(history);
        *kept = Some((length, history.clone()));
        Ok(history)
    }

    /// A reader of all of it.
    pub(crate) fn reader(&self, stop: &Stop) -> Result<JournalReader, vink_record::Error> {
        let wrong = |error: HttpError| vink_record::Error::Format {
            what: self.path.display().to_string(),
            why: error.problem.error.clone(),
        };
        reader_of(&self.journal().map_err(wrong)?, stop)
    }

    pub(crate) fn summary(&self, runs: &Runs) -> Result<RunSummary, HttpError> {
        let manifest = self.manifest()?;
        let epoch = self.reader(&Stop::default())?.epoch();
        Ok(RunSummary {
            id: self.id.clone(),
            lab: match &manifest.what {
                What::Run(words) => words.last().cloned().unwrap_or_default(),
                What::Lab(spec) => spec["name"].as_str().unwrap_or_default().to_owned(),
            },
            path: self.path.display().to_string(),
            began: epoch as f64 / 1e9,
            nanoseconds: manifest.totals.as_ref().map(|totals| totals.end),
            only_history: only_history(&manifest),
            parent: manifest.parent.as_ref().map(|parent| RunPoint {
                path: parent.manifest.display().to_string(),
                run: runs.of(&parent.manifest),
                nanoseconds: parent.at,
            }),
        })
    }

    /// The lab as it was made; of a program by itself its machine.
    fn made(&self) -> Result<Arc<Made>, HttpError> {
        let (manifest, history) = (self.manifest()?, self.history()?);
        // Each seek asks for it, and that of many machines takes long.
        let mut kept = self.made.lock().expect("no panic while it is held");
        let is_it = |made: &&Arc<Made>| {
            Arc::ptr_eq(&made.manifest, &manifest) && Arc::ptr_eq(&made.history, &history)
        };
        if let Some(made) = kept.as_ref().filter(is_it) {
            return Ok(made.clone());
        }
        let spec = match spec_of(&manifest) {
            Some(spec) => plain(&spec.normal()),
            None => {
                let programs = history.index().programs.iter();
                let machines = programs.take(1).map(|ran| ran.machine.clone());
                Spec {
                    machines: machines
                        .map(|name| (name, MachineSpec::default()))
                        .collect(),
                    ..Spec::default()
                }
            }
        };
        let mut topology = topology_of(&spec, 0, |_| MachineState::Running);
        let mut numbers = HashMap::new();
        for (number, end) in topology.ends.iter().enumerate() {
            if let Some(node) = end.node {
                let name = format!("{}:{}", topology.nodes[node].name, end.interface);
                numbers.insert(name, number);
            }
        }
        // Those that came later, and have seen packets.
        for end in &history.index().ends {
            if !numbers.contains_key(end) {
                numbers.insert(end.clone(), topology.ends.len());
                topology.ends.push(NO_END);
            }
        }
        let made = Arc::new(Made {
            manifest,
            history,
            spec,
            topology,
            numbers,
        });
        *kept = Some(made.clone());
        Ok(made)
    }

    /// Machines and wires at a time, until they change.
    pub(crate) fn topology_at(&self, at: u64, stop: &Stop) -> Result<RunTopology, HttpError> {
        let made = self.made()?;
        let at = at.min(made.history.index().end);
        let parts = made.history.until(stop.clone()).parts(at)?;
        let then = self.then(&made, &parts)?;
        Ok(RunTopology {
            nanoseconds: at,
            changes: parts.changes,
            since: parts.since,
            until: parts.until,
            topology: then.topology.clone(),
            addresses: then.addresses.clone(),
            settings: then.settings.clone(),
        })
    }

    fn then(&self, made: &Arc<Made>, parts: &Parts) -> Result<Arc<Then>, HttpError> {
        let mut kept = self.topology.lock().expect("no panic while it is held");
        let is_it =
            |then: &&Arc<Then>| Arc::ptr_eq(&then.made, made) && then.changes == parts.changes;
        if let Some(then) = kept.as_ref().filter(is_it) {
            return Ok(then.clone());
        }
        let mut spec = made.spec.clone();
        for (name, state) in &parts.changed {
            become_recorded(&mut spec, name, state).map_err(|error| {
                HttpError::conflict(format!("{name} in the journal can't be read: {error}"))
            })?;
        }
        let topology = topology_of(&spec, parts.changes, |_| MachineState::Running);
        let does_something = |(_, wire): &(&String, &WireSpec)| {
            wire.settings != Settings::default() || !wire.from.is_empty()
        };
        let settings = spec
            .wires
            .iter()
            .filter(does_something)
            .map(|(name, wire)| {
                let (settings, from) = (wire.settings.clone(), wire.from.clone());
                (name.clone(), RunWire { settings, from })
            });
        let machines = spec.machines.iter();
        let interfaces = machines.flat_map(|(machine, spec)| {
            let own = spec.interfaces.iter();
            own.map(move |(name, own)| (format!("{machine}:{name}"), own.addresses.clone()))
        });
        let then = Arc::new(Then {
            made: made.clone(),
            changes: parts.changes,
            addresses: interfaces.filter(|(_, all)| !all.is_empty()).collect(),
            settings: settings.collect(),
            topology: made.numbered(topology),
        });
        *kept = Some(then.clone());
        Ok(then)
    }

    pub(crate) fn run(&self, runs: &Runs) -> Result<Run, HttpError> {
        let made = self.made()?;
        let index = made.history.index();
        Ok(Run {
            summary: self.summary(runs)?,
            topology: made.topology.clone(),
            changes: made.manifest.changes.then_some(index.changes),
            nanoseconds: index.end,
            cut: index.cut,
            records: index.records,
            packets: index.packets,
            calls: index.calls,
            missed: index.missed,
            kinds: CLASSES
                .iter()
                .chain(&MARKS)
                .map(|&kind| kind.to_owned())
                .collect(),
            classes: CLASSES.len(),
        })
    }

    pub(crate) fn timeline(
        &self,
        query: &TimelineQuery,
        stop: &Stop,
    ) -> Result<RunTimeline, HttpError> {
        let history = self.history()?.until(stop.clone());
        let index = history.index();
        let of = query.end.as_ref().map(|end| place_of(index, end));
        let of = of.transpose()?;
        let (from, to) = (query.from.unwrap_or(0), query.to.unwrap_or(index.end));
        let bins = query.bins.unwrap_or(500).clamp(1, MOST_BINS);
        let line = history.timeline(from, to, bins, of)?;
        let row = |row: vink_record::Count| TimelineRow {
            kind: kind_name(row.kind).to_owned(),
            counts: row.counts,
        };
        Ok(RunTimeline {
            from: line.from,
            width: line.width,
            bins: line.bins,
            rows: line.rows.into_iter().map(row).collect(),
        })
    }

    pub(crate) fn events(
        &self,
        query: &RunEventsQuery,
        stop: &Stop,
    ) -> Result<Vec<RunEvent>, HttpError> {
        let history = self.history()?.until(stop.clone());
        let span = (query.from.unwrap_or(0), query.to.unwrap_or(u64::MAX));
        let known: Vec<_> = counted().map(|(_, name)| name).collect();
        let known = [&known[..], &["packet", "arrival", "thread", "output"]].concat();
        let words = words(query.kinds.as_deref(), &known)?;
        let wanted = |record: &Record| {
            let is = |word: &String| {
                word == kind_of(record)
                    || word == "packet" && matches!(record.event, Event::Packet { .. })
            };
            words.as_ref().is_none_or(|words| words.iter().any(is))
        };
        let count = query.count.unwrap_or(200).min(MOST_EVENTS);
        let found = history.events(span, query.after, &wanted, count)?;
        Ok(found.into_iter().map(event).collect())
    }

    /// The next event of some kinds: its answer is a list of one, or empty.
    pub(crate) fn next(
        &self,
        query: &NextEventQuery,
        stop: &Stop,
    ) -> Result<Vec<RunEvent>, HttpError> {
        let history = self.history()?.until(stop.clone());
        let known: Vec<_> = counted().map(|(_, name)| name).collect();
        let words = words(query.kinds.as_deref(), &[&known[..], &["packet"]].concat())?;
        let is_packet = |kind: u8| {
            usize::from(kind) < CLASSES.len() || ["loss", "drop"].contains(&kind_name(kind))
        };
        let wanted = |(kind, name): &(u8, &str)| {
            let is = |word: &String| word == name || word == "packet" && is_packet(*kind);
            words.as_ref().is_none_or(|words| words.iter().any(is))
        };
        let wanted: Vec<u8> = counted().filter(wanted).map(|(kind, _)| kind).collect();
        let found = history.next(query.at, &wanted, query.back)?;
        Ok(found.into_iter().map(event).collect())
    }

    pub(crate) fn state(&self, at: u64, stop: &Stop) -> Result<RunState, HttpError> {
        let history = self.history()?.until(stop.clone());
        let moment = history.at(at.min(history.index().end))?;
        let ends = history.index().ends.iter().zip(moment.counted);
        Ok(RunState {
            nanoseconds: moment.time,
            records: moment.records,
            revision: moment.revision,
            under_way: moment.under_way,
            ends: ends
                .map(|(end, counters)| RunEnd {
                    end: end.clone(),
                    sent: counters.sent,
                    sent_bytes: counters.sent_bytes,
                    received: counters.received,
                    received_bytes: counters.received_bytes,
                    lost: counters.lost,
                })
                .collect(),
            programs: moment
                .running
                .into_iter()
                .map(|ran| RunProgram {
                    program: ran.program,
                    machine: ran.machine,
                    name: ran.name,
                    started: ran.started,
                })
                .collect(),
        })
    }

    /// Flights as frames of the page's picture, one behind the other.
    pub(crate) fn flights(&self, query: &FlightsQuery, stop: &Stop) -> Result<Vec<u8>, HttpError> {
        let made = self.made()?;
        let history = made.history.until(stop.clone());
        let count = query.count.unwrap_or(20_000).min(MOST_FLIGHTS);
        let (flights, more) = history.flights(query.from, query.to.max(query.from), count)?;
        let own = made.history.index().ends.iter();
        let numbers = own.map(|end| made.numbers.get(end).map(|number| *number as u32));
        Ok(frames(&flights, more, &numbers.collect::<Vec<_>>()))
    }

    /// Where this run and another one part.
    pub(crate) fn difference(
        &self,
        other: &Recording,
        query: &DifferenceQuery,
        stop: &Stop,
    ) -> Result<RunDifference, HttpError> {
        let first = |records: &[Record]| records.first().map(|record| record.time);
        if query.behaviour {
            let found = first_difference_in_behaviour(
                [&|| self.reader(stop), &|| other.reader(stop)],
                CONTEXT,
            )?;
            return Ok(RunDifference {
                same: found.is_none(),
                nanoseconds: found.as_ref().map_or([None; 2], |found| found.times()),
                text: found.map_or_else(String::new, |found| found.side_by_side(COLUMNS)),
            });
        }
        let found = first_difference(self.reader(stop)?, other.reader(stop)?, CONTEXT)?;
        Ok(RunDifference {
            same: found.is_none(),
            nanoseconds: found.as_ref().map_or([None; 2], |found| {
                [0, 1].map(|side: usize| first(&found.sides[side].after))
            }),
            text: found.map_or_else(String::new, |found| found.to_string()),
        })
    }
}

impl Made {
    /// A topology whose ends have the numbers that they have in flights; those that are in none come
    /// behind them.
    fn numbered(&self, mut topology: Topology) -> Topology {
        let own = std::mem::take(&mut topology.ends);
        topology.ends = vec![NO_END; self.topology.ends.len()];
        let mut places = Vec::with_capacity(own.len());
        for end in own {
            let name = end
                .node
                .map(|node| format!("{}:{}", topology.nodes[node].name, end.interface));
            let known = name.and_then(|name| self.numbers.get(&name).copied());
            let place = known.unwrap_or_else(|| {
                topology.ends.push(NO_END);
                topology.ends.len() - 1
            });
            topology.ends[place] = end;
            places.push(place);
        }
        for wire in &mut topology.wires {
            for end in &mut wire.ends {
                *end = places[*end];
            }
        }
        topology
    }
}

/// Frames of flights (`ui/src/canvas/feed.ts`), little-endian: kind, flags, count (16 bits), number,
/// time (64), missed, one in how many; then for each packet its end, departure behind the time (ns),
/// how long it was under way (µs), id, length (16), class, fate, flow.
fn frames(flights: &[Flight], more: u64, numbers: &[Option<u32>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let known = |one: &&Flight| {
        numbers
            .get(one.packet.end as usize)
            .is_some_and(Option::is_some)
    };
    let known: Vec<&Flight> = flights.iter().filter(known).collect();
    let mut rest = &known[..];
    let mut number = 0_u32;
    // One without records says what was left out, too.
    loop {
        let base = rest.first().map_or(0, |one| one.packet.sent);
        let inside = rest.partition_point(|one| one.packet.sent - base < FRAME_SPAN);
        let (these, others) = rest.split_at(inside.min(FRAME_RECORDS));
        rest = others;
        bytes.reserve(FRAME_HEAD * (1 + these.len()));
        bytes.extend([0, 0]);
        bytes.extend((these.len() as u16).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(base.to_le_bytes());
        let missed = if number == 0 { more } else { 0 };
        bytes.extend(u32::try_from(missed).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        for one in these {
            let packet = &one.packet;
            let lasts = one.arrived.map_or(0, |arrived| arrived - packet.sent) / 1000;
            let end = numbers[packet.end as usize].unwrap_or_default();
            bytes.extend(end.to_le_bytes());
            bytes.extend(((packet.sent - base) as u32).to_le_bytes());
            bytes.extend(u32::try_from(lasts).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(packet.id.to_le_bytes());
            bytes.extend((packet.length.min(0xffff) as u16).to_le_bytes());
            bytes.extend([packet.class, if one.lost { LOST } else { 0 }]);
            bytes.extend(packet.flow.to_le_bytes());
        }
        number += 1;
        if rest.is_empty() {
            return bytes;
        }
    }
}
