//! A recorded run that is looked at: any moment of it, without running anything.
//!
//! What is asked for is found by the [`Index`]: records are read from the keyframe before them on,
//! which is 1 MiB of records or some more.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::index::{follow, kind, Counters, Index, Ran, UnderWay, CHANGE};
use crate::journal::Reader;
use crate::look::look;
use crate::record::{Event, LostBy, PacketOutcome, Record};
use crate::stop::{Stop, Stopping};
use crate::Error;

/// How far behind a window (ns, and records) arrivals of its packets are looked for.
const LOOK_AHEAD: u64 = 2_000_000_000;
const LOOK_AHEAD_RECORDS: u64 = 20_000;
/// Records that are counted one by one for bins shorter than the index's.
const MOST_COUNTED: u64 = 200_000;

/// A run that is looked at.
#[derive(Debug)]
pub struct History {
    journal: PathBuf,
    index: Arc<Index>,
    stop: Stop,
}

/// A record, and how many there are before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its place in the journal, from 0.
    pub number: u64,
    /// It.
    pub record: Record,
}

/// A packet's way over a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its departure.
    pub packet: UnderWay,
    /// When it arrived, or was lost, ns; none: it is not known.
    pub arrived: Option<u64>,
    /// It was lost.
    pub lost: bool,
}

/// How a run was at some time, at the end of what happened then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The time, ns.
    pub time: u64,
    /// Records until then.
    pub records: u64,
    /// Requests for changes until then.
    pub revision: u64,
    /// What ends have counted, by their places in [`Index::ends`].
    pub counted: Vec<Counters>,
    /// Programs that run.
    pub running: Vec<Ran>,
    /// Packets under way, as far as it is known.
    pub under_way: u64,
}

/// How the parts of a lab were at some time, at the end of what happened then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// How often some had changed.
    pub changes: u64,
    /// When the last change was, ns; 0: there was none.
    pub since: u64,
    /// When the next one is; none: there is none.
    pub until: Option<u64>,
    /// Those that had changed, by their names, each as it was then; empty: it had gone.
    pub changed: BTreeMap<String, String>,
}

/// Counts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The kind: a place in [`crate::CLASSES`], then in [`crate::MARKS`].
    pub kind: u8,
    /// For each bin.
    pub counts: Vec<u64>,
}

/// How much happened over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the first bin begins, ns.
    pub from: u64,
    /// How long each is, ns.
    pub width: u64,
    /// How many there are.
    pub bins: u64,
    /// Of the kinds that there are in this span.
    pub rows: Vec<Count>,
}

impl History {
    /// Opens a journal: by its index, which is made if there is none that fits. The second one says
    /// whether it was made.
    ///
    /// # Errors
    /// [`Error`]: the journal can't be read, or is none.
    pub fn open(journal: &Path) -> Result<(History, bool), Error> {
        let (index, made) = Index::open(journal)?;
        let history = History {
            journal: journal.to_owned(),
            index: index.into(),
            stop: Stop::default(),
        };
        Ok((history, made))
    }

    /// The same run, of which nothing is read any more once this is set: what is asked then fails.
    pub fn until(&self, stop: Stop) -> History {
        History {
            journal: self.journal.clone(),
            index: self.index.clone(),
            stop,
        }
    }

    /// Its index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The journal from a keyframe on, and the number of its first record.
    ///
    /// # Errors
    /// [`Error::Host`].
    fn read_from(&self, keyframe: usize) -> Result<(Reader<BufReader<Stopping>>, u64), Error> {
        let name = self.journal.display().to_string();
        let keyframe = &self.index.keyframes[keyframe];
        let mut file = File::open(&self.journal).map_err(Error::host(&name))?;
        file.seek(SeekFrom::Start(keyframe.mark.offset))
            .map_err(Error::host(&name))?;
        let file = Stopping::new(file, self.stop.clone());
        let file = BufReader::with_capacity(1 << 16, file);
        let reader = Reader::resume(file, name, self.index.epoch, keyframe.mark);
        Ok((reader, keyframe.records))
    }

    /// Reads records from a keyframe on, until there are no more or `each` says that it is enough.
    fn each(&self, keyframe: usize, mut each: impl FnMut(Numbered) -> bool) -> Result<(), Error> {
        let (mut reader, mut number) = self.read_from(keyframe)?;
        while number < self.index.records {
            let Some(record) = reader.next_record()? else {
                return Err(self.damaged(number));
            };
            if !each(Numbered { number, record }) {
                break;
            }
            number += 1;
        }
        Ok(())
    }

    fn damaged(&self, number: u64) -> Error {
        Error::Format {
            what: self.journal.display().to_string(),
            why: format!(
                "it is damaged behind its record {number}, which its index has found whole: remove {} to \
                 have it made again as far as the journal is whole",
                crate::index_of(&self.journal).display()
            ),
        }
    }

    /// Whether nothing before this time is to come any more. What is told of programs as a whole
    /// has the time at which the worker looked.
    fn is_past(record: &Record, time: u64) -> bool {
        record.time > time && record.event.strand().is_none()
    }

    /// Records of some kinds (none: all) in a span of time, both ends included, from a number on, at
    /// most so many.
    ///
    /// # Errors
    /// [`Error`].
    pub fn events(
        &self,
        (from, to): (u64, u64),
        after: Option<u64>,
        kinds: &dyn Fn(&Record) -> bool,
        most: usize,
    ) -> Result<Vec<Numbered>, Error> {
        let first = after.map_or(0, |after| after.saturating_add(1));
        let keyframe = self.index.before(from).max(self.index.before_record(first));
        let mut found = Vec::new();
        if most == 0 {
            return Ok(found);
        }
        self.each(keyframe, |one| {
            let record = &one.record;
            if History::is_past(record, to) {
                return false;
            }
            let inside = (from..=to).contains(&record.time) && one.number >= first;
            if inside && kinds(record) {
                found.push(one);
            }
            found.len() < most
        })?;
        Ok(found)
    }

    /// The first record of these kinds behind a time (ns), or (`back`) the last one before it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn next(&self, time: u64, kinds: &[u8], back: bool) -> Result<Option<Numbered>, Error> {
        let is_it = |record: &Record| {
            let beyond = if back {
                record.time < time
            } else {
                record.time > time
            };
            beyond && kind(record).is_some_and(|kind| kinds.contains(&kind))
        };
        let (width, bins) = self.index.bins(0, u64::MAX, 0);
        let here = time / width;
        let (until, from) = (
            bins.partition_point(|bin| bin.at <= here),
            bins.partition_point(|bin| bin.at < here),
        );
        let mut ahead = bins[from..].iter();
        let mut behind = bins[..until].iter().rev();
        let mut seen = None;
        loop {
            let bin = if back { behind.next() } else { ahead.next() };
            let Some(bin) = bin else {
                return Ok(None);
            };
            if !kinds.contains(&bin.kind) || seen.replace(bin.at) == Some(bin.at) {
                continue;
            }
            let span = (bin.at * width, bin.at * width + (width - 1));
            let most = if back { usize::MAX } else { 1 };
            let found = self.events(span, None, &is_it, most)?;
            if let Some(last) = found.into_iter().next_back() {
                return Ok(Some(last));
            }
        }
    }

    /// A record by its number.
    ///
    /// # Errors
    /// [`Error`].
    pub fn record(&self, number: u64) -> Result<Option<Numbered>, Error> {
        let mut found = None;
        self.each(self.index.before_record(number), |one| {
            let go_on = one.number < number;
            if !go_on {
                found = Some(one);
            }
            go_on
        })?;
        Ok(found)
    }

    /// The number of the last record at this time or before it; none: there is none.
    ///
    /// # Errors
    /// [`Error`].
    pub fn number_at(&self, time: u64) -> Result<Option<u64>, Error> {
        let mut last = None;
        let keyframe = self.index.before(time);
        self.each(keyframe, |one| {
            if one.record.time <= time {
                last = Some(one.number);
            }
            !History::is_past(&one.record, time)
        })?;
        let before = self.index.keyframes[keyframe].records;
        Ok(last.or(before.checked_sub(1)))
    }

    /// Packets that were under way in a span of time, in the order of their departures, at most so
    /// many; the second one: how many there are more.
    ///
    /// # Errors
    /// [`Error`].
    pub fn flights(&self, from: u64, to: u64, most: usize) -> Result<(Vec<Flight>, u64), Error> {
        let keyframe = self.index.before(from);
        let mut under_way: HashMap<u64, Vec<UnderWay>> = HashMap::new();
        for packet in &self.index.keyframes[keyframe].under_way {
            under_way.entry(packet.hash).or_default().push(*packet);
        }
        let mut flights = Vec::new();
        let mut behind = 0;
        let mut ends: HashMap<&str, u32> = HashMap::new();
        for (number, end) in self.index.ends.iter().enumerate() {
            ends.insert(end, number as u32);
        }
        self.each(keyframe, |Numbered { record, .. }| {
            let Event::Packet {
                place,
                outcome,
                length,
                hash,
                head,
            } = &record.event
            else {
                return true;
            };
            let time = record.time;
            if time > to {
                behind += 1;
                if *outcome == PacketOutcome::Departure {
                    return !under_way.is_empty();
                }
            }
            let seen = look(head);
            let packet = UnderWay {
                hash: *hash,
                end: ends.get(place.as_str()).copied().unwrap_or_default(),
                sent: time,
                length: *length,
                class: seen.class,
                id: seen.id,
                flow: seen.flow,
            };
            let lost = matches!(outcome.lost_by(), Some(LostBy::Wire | LostBy::Queue));
            let departed = follow(&mut under_way, outcome, || packet);
            if let Some(packet) = departed.or(lost.then_some(packet)) {
                if time >= from && packet.sent <= to {
                    flights.push(Flight {
                        packet,
                        arrived: Some(time),
                        lost,
                    });
                }
            }
            let far = time > to.saturating_add(LOOK_AHEAD) || behind > LOOK_AHEAD_RECORDS;
            time <= to || (!far && !under_way.is_empty())
        })?;
        let left = under_way.into_values().flatten();
        flights.extend(
            left.filter(|packet| packet.sent <= to)
                .map(|packet| Flight {
                    packet,
                    arrived: None,
                    lost: false,
                }),
        );
        flights.sort_unstable_by_key(|one| (one.packet.sent, one.packet.end, one.packet.hash));
        let more = flights.len().saturating_sub(most) as u64;
        flights.truncate(most);
        Ok((flights, more))
    }

    /// How the run was at the end of what happened at this time.
    ///
    /// # Errors
    /// [`Error`].
    pub fn at(&self, time: u64) -> Result<Snapshot, Error> {
        let number = self.index.before(time);
        let keyframe = &self.index.keyframes[number];
        let mut moment = Snapshot {
            time,
            records: keyframe.records,
            revision: keyframe.revision,
            counted: self.index.counted(number),
            running: Vec::new(),
            under_way: 0,
        };
        let places: HashMap<&str, usize> = self
            .index
            .ends
            .iter()
            .enumerate()
            .map(|(place, end)| (end.as_str(), place))
            .collect();
        let mut under_way: HashMap<u64, Vec<UnderWay>> = HashMap::new();
        for packet in &keyframe.under_way {
            under_way.entry(packet.hash).or_default().push(*packet);
        }
        self.each(number, |Numbered { number, record }| {
            if History::is_past(&record, time) {
                return false;
            }
            if record.time > time {
                return true;
            }
            moment.records = number + 1;
            match &record.event {
                Event::Packet {
                    place,
                    outcome,
                    length,
                    hash,
                    ..
                } => {
                    if let Some(end) = places.get(place.as_str()) {
                        moment.counted[*end].count(outcome, *length);
                        follow(&mut under_way, outcome, || UnderWay {
                            hash: *hash,
                            end: *end as u32,
                            sent: record.time,
                            length: *length,
                            class: 0,
                            id: 0,
                            flow: 0,
                        });
                    }
                }
                Event::Asked(_) => moment.revision += 1,
                _ => {}
            }
            true
        })?;
        moment.under_way = under_way.values().map(|packets| packets.len() as u64).sum();
        let runs =
            |ran: &&Ran| ran.started <= time && ran.ended.is_none_or(|(ended, _)| ended > time);
        moment.running = self.index.programs.iter().filter(runs).cloned().collect();
        Ok(moment)
    }

    /// How the parts of the lab were at the end of what happened at this time.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parts(&self, time: u64) -> Result<Parts, Error> {
        let index = &self.index;
        let keyframe = index.before(time);
        let (changes, since) = index.keyframes[keyframe].changes;
        let owned = |(name, state): (&str, &str)| (name.to_owned(), state.to_owned());
        let mut parts = Parts {
            changes,
            since,
            until: None,
            changed: index.changed(keyframe).into_iter().map(owned).collect(),
        };
        if changes == index.changes {
            return Ok(parts);
        }
        // Journals have them in the order of their times.
        self.each(keyframe, |Numbered { record, .. }| {
            let is_past = History::is_past(&record, time);
            let Event::Changed(states) = record.event else {
                return !is_past;
            };
            if record.time > time {
                parts.until = Some(record.time);
                return false;
            }
            (parts.changes, parts.since) = (parts.changes + 1, record.time);
            let states = states.into_iter();
            let states = states.map(|part| (part.name, part.state));
            parts.changed.extend(states);
            true
        })?;
        if parts.until.is_none() && parts.changes < index.changes {
            let next = self.next(time, &[CHANGE], false)?;
            parts.until = next.map(|next| next.record.time);
        }
        Ok(parts)
    }

    /// How much happened in a span of time, in at most so many bins. `of`: at one end only.
    ///
    /// # Errors
    /// [`Error`].
    pub fn timeline(
        &self,
        from: u64,
        to: u64,
        bins: u64,
        of: Option<u32>,
    ) -> Result<Timeline, Error> {
        let from = from.min(self.index.end);
        let to = to.clamp(from, self.index.end);
        let mut width = self.index.finest();
        // A bin at each end is cut by the span.
        let fits = |width: u64| to / width - from / width < bins.max(1);
        while width >= 4 && fits(width >> 2) {
            width >>= 2;
        }
        while !fits(width) {
            width <<= 2;
        }
        if width < self.index.finest() {
            let (first, last) = (self.index.before(from), self.index.before(to));
            let records = self.index.keyframes[last].records - self.index.keyframes[first].records;
            if records <= MOST_COUNTED {
                return self.counted_timeline(from, to, width, of);
            }
            width = self.index.finest();
        }
        let (width, found) = self.index.bins(from, to, width);
        let mut timeline = Timeline::new(from, to, width);
        for bin in found.iter().filter(|bin| of.is_none() || bin.end == of) {
            timeline.count(bin.kind, bin.at, bin.count);
        }
        Ok(timeline)
    }

    /// Whether a run that is repeated goes as this one until a time: packets and calls. Its digest is
    /// compared at each keyframe, and what came behind the last one record by record. What happens
    /// at that time itself may still be to come. `Ok`: how many keyframes were passed; the
    /// inner `Err`: when it was the same for the last time, ns.
    ///
    /// # Errors
    /// [`Error`]: either of them can't be read.
    pub fn goes_as<R: Read>(
        &self,
        other: &mut Reader<R>,
        until: u64,
    ) -> Result<Result<u64, u64>, Error> {
        let keyframes = &self.index.keyframes;
        let mut passed = 0;
        // What came behind the last keyframe that was passed.
        let mut behind = Vec::new();
        while let Some(digest) = other.digest() {
            while let Some(next) = keyframes
                .get(passed)
                .filter(|next| next.digest.0 == digest.count())
            {
                if next.digest != digest.main() {
                    return Ok(Err(passed
                        .checked_sub(1)
                        .map_or(0, |last| keyframes[last].time)));
                }
                passed += 1;
                behind.clear();
            }
            match other.next_record()? {
                Some(record) if is_in_order(&record) => behind.push(record),
                Some(_) => {}
                None => break,
            }
        }
        let Some(last) = passed.checked_sub(1) else {
            return Ok(Err(0));
        };
        let mut time = keyframes[last].time;
        let mut same = true;
        let mut behind = behind.into_iter();
        self.each(last, |Numbered { record, .. }| {
            if !is_in_order(&record) {
                return true;
            }
            let now = record.time;
            same = match behind.next() {
                Some(other) => other.compared() == record.compared(),
                None => now >= until,
            };
            if same {
                time = now;
            }
            same && (now < until || behind.len() > 0)
        })?;
        // It may not have done more than the run, as far as that is known.
        same &= behind.len() == 0 || self.index.cut;
        Ok(match same {
            true => Ok(passed as u64 - 1),
            false => Err(time),
        })
    }

    fn counted_timeline(
        &self,
        from: u64,
        to: u64,
        width: u64,
        of: Option<u32>,
    ) -> Result<Timeline, Error> {
        let mut timeline = Timeline::new(from, to, width);
        let of = of.map(|end| self.index.ends[end as usize].as_str());
        let to = timeline.from + timeline.bins * width - 1;
        self.each(
            self.index.before(timeline.from),
            |Numbered { record, .. }| {
                let inside = (timeline.from..=to).contains(&record.time);
                let here = match (&record.event, of) {
                    (_, None) => true,
                    (Event::Packet { place, .. } | Event::Met { place, .. }, Some(of)) => {
                        place == of
                    }
                    _ => false,
                };
                if let Some(kind) = kind(&record).filter(|_| inside && here) {
                    timeline.count(kind, record.time / width, 1);
                }
                !History::is_past(&record, to)
            },
        )?;
        Ok(timeline)
    }
}

/// Whether a record is in the order of packets and calls.
fn is_in_order(record: &Record) -> bool {
    record.event.is_compared() && record.event.strand().is_none()
}

impl Timeline {
    fn new(from: u64, to: u64, width: u64) -> Timeline {
        Timeline {
            from: from / width * width,
            width,
            bins: to / width - from / width + 1,
            rows: Vec::new(),
        }
    }

    fn count(&mut self, kind: u8, at: u64, count: u64) {
        let bin = (at - self.from / self.width) as usize;
        let place = match self.rows.binary_search_by_key(&kind, |row| row.kind) {
            Ok(place) => place,
            Err(place) => {
                let counts = vec![0; self.bins as usize];
                self.rows.insert(place, Count { kind, counts });
                place
            }
        };
        self.rows[place].counts[bin] += count;
    }
}
