//! The index of a journal: what makes any moment of a run found at once.
//!
//! It has *keyframes* (where a block begins, how the run is there, and what of the lab has changed
//! since the one before) and *bins* (how much of
//! which kind happened where, in 1 ms times a power of 4). Both are as dense as fits into a
//! twentieth of the journal: keyframes lie at least 1 MiB of records or one second of the run
//! apart, bins get four times as long whenever there are too many of them. Coarser bins are sums,
//! which are made when the index is read.
//!
//! The file stands beside the journal and can be made again from it: it has the length of the
//! journal, and the check of its last block and where that is. If any of them is another one, or
//! the index's own check does not fit, it is not used.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::bytes::{put_bytes, put_number, Bytes};
use crate::digest::Hash;
use crate::journal::{Mark, Reader, Tail};
use crate::look::{look, CLASSES};
use crate::record::{Event, LostBy, PacketOutcome, Part, Record};
use crate::Error;

const MAGIC: [u8; 8] = *b"VINKIDX3";
/// What an index may have of a journal, and what it may have anyway: keyframes, bins.
const SHARE: u64 = 40;
const LEAST: u64 = 8 << 10;
/// Bytes of records, and ns of the run, from one keyframe to the next.
const APART: usize = 1 << 20;
const SECOND: u64 = 1_000_000_000;
/// Bytes of a bin before it is compressed, about.
const BIN_BYTES: u64 = 5;
/// ns of the shortest bins.
const SHORTEST: u64 = 1_000_000;
/// How often bins get longer at most: some 50 days.
const LEVELS: u32 = 16;
/// How many times shorter the states of parts of a lab are when they are compressed, at least.
const PACKED: u64 = 2;
/// Packets under way that are kept in a keyframe at most.
const MOST_UNDER_WAY: usize = 256;
/// A packet that has not arrived for so long (ns) has left the lab, or was taken by a bus.
const LONGEST_WAY: u64 = 60 * SECOND;
/// Programs that are listed at most.
const MOST_PROGRAMS: usize = 10_000;
/// An index that would be longer is damage.
const LONGEST: usize = 1 << 30;

/// Kinds of what is counted in bins, behind those of packets that depart ([`CLASSES`]).
pub const MARKS: [&str; 9] = [
    "loss",
    "breakpoint",
    "request",
    "line",
    "program",
    "call",
    "clock",
    "drop",
    "change",
];
const FIRST_MARK: u8 = CLASSES.len() as u8;
/// The kind of changes of the lab.
pub(crate) const CHANGE: u8 = FIRST_MARK + 8;
/// How many kinds there are.
pub const KINDS: usize = CLASSES.len() + MARKS.len();

/// The kind of a record; `None`: it is counted elsewhere, or nowhere.
pub fn kind(record: &Record) -> Option<u8> {
    let mark = match &record.event {
        Event::Packet { outcome, head, .. } => match (outcome, outcome.lost_by()) {
            (PacketOutcome::Departure, _) => return Some(look(head).class),
            (_, None) => return None,
            (_, Some(LostBy::Wire | LostBy::Queue)) => 0,
            (_, Some(LostBy::Stack)) => 7,
        },
        Event::Met { .. } => 1,
        Event::Asked(_) | Event::Input { .. } => 2,
        Event::Line { .. } => 3,
        Event::Started { .. } | Event::Ended { .. } => 4,
        Event::Call { .. } => 5,
        Event::Clock(_) => 6,
        Event::Changed(_) => 8,
        Event::Thread { .. } | Event::Executed { .. } | Event::Output { .. } => return None,
    };
    Some(FIRST_MARK + mark)
}

/// What has gone through an end of a wire since the run's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that departed.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were lost here, by the wire or a full queue.
    pub lost: u64,
}

impl Counters {
    pub(crate) fn count(&mut self, outcome: &PacketOutcome, length: u32) {
        match outcome {
            PacketOutcome::Departure => {
                self.sent += 1;
                self.sent_bytes += u64::from(length);
            }
            PacketOutcome::Arrival => {
                self.received += 1;
                self.received_bytes += u64::from(length);
            }
            PacketOutcome::Loss(_) => {
                self.lost += u64::from(outcome.lost_by() != Some(LostBy::Stack));
            }
        }
    }

    fn numbers(&mut self) -> [&mut u64; 5] {
        [
            &mut self.sent,
            &mut self.sent_bytes,
            &mut self.received,
            &mut self.received_bytes,
            &mut self.lost,
        ]
    }

    pub(crate) fn add(&mut self, mut other: Counters) {
        for (own, other) in self.numbers().into_iter().zip(other.numbers()) {
            *own += *other;
        }
    }
}

/// A packet that has departed and not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The hash of its bytes.
    pub hash: u64,
    /// Where it departed, by its place in [`Index::ends`].
    pub end: u32,
    /// When, ns.
    pub sent: u64,
    /// Its length in bytes.
    pub length: u32,
    /// [`look`] at it.
    pub class: u8,
    /// The same on each hop.
    pub id: u32,
    /// Of its flow.
    pub flow: u32,
}

/// How the run is where a block begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyframe {
    /// Where.
    pub mark: Mark,
    /// The latest time of a record before it, ns.
    pub time: u64,
    /// Records before it.
    pub records: u64,
    /// Requests for changes before it.
    pub revision: u64,
    /// Changes of machines and wires before it, and when the last one was (ns).
    pub changes: (u64, u64),
    /// How the parts of the lab are that have changed since the keyframe before it, by their names.
    pub changed: Vec<Part>,
    /// Of packets and calls before it, and how many they are: [`crate::Digest::main`].
    pub digest: (u64, Hash),
    /// What ends have counted since the keyframe before it, by their places in [`Index::ends`].
    pub counted: Vec<(u32, Counters)>,
    /// Packets that are under way, the oldest 256 at most.
    pub under_way: Vec<UnderWay>,
}

/// How much of one kind happened somewhere in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bin {
    /// Which span: its beginning divided by its length.
    pub at: u64,
    /// The end's place in [`Index::ends`]; none: it was at no end.
    pub end: Option<u32>,
    /// A place in [`CLASSES`], then in [`MARKS`].
    pub kind: u8,
    /// How much.
    pub count: u64,
}

/// A program of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its number.
    pub program: u64,
    /// Where.
    pub machine: String,
    /// Its name: the first of its words.
    pub name: String,
    /// When the worker saw it started, ns.
    pub started: u64,
    /// When it ended, and as what; none: it did not.
    pub ended: Option<(u64, i32)>,
}

/// The index of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The date at which the run's clock was at 0, ns since 1970.
    pub epoch: u64,
    /// The journal's bytes, which may be more than are whole.
    length: u64,
    /// Where the last whole block of records is.
    last: Mark,
    /// The journal has lost its end, or is still written.
    pub cut: bool,
    /// When the run ended, ns.
    pub end: u64,
    /// How many records there are.
    pub records: u64,
    /// How many departures, arrivals and losses of packets.
    pub packets: u64,
    /// How many calls.
    pub calls: u64,
    /// How many changes of machines and wires.
    pub changes: u64,
    /// Packets that were not seen.
    pub missed: u64,
    /// Of all of the run.
    pub digest: Option<Hash>,
    /// Ends of wires, `machine:interface`, in the order in which packets were seen at them.
    pub ends: Vec<String>,
    /// In their order; the first one is the run's beginning.
    pub keyframes: Vec<Keyframe>,
    /// Programs, in the order of their beginnings: the first 10,000.
    pub programs: Vec<Ran>,
    /// The power of 4 that the finest bins are long, in ms.
    level: u32,
    /// Bins, the finest first, each level in order.
    bins: Vec<Vec<Bin>>,
}

/// What is collected while a journal is read.
#[derive(Default)]
struct Builder {
    ends: Vec<String>,
    places: HashMap<String, u32>,
    counted: HashMap<u32, Counters>,
    under_way: HashMap<u64, Vec<UnderWay>>,
    keyframes: Vec<Keyframe>,
    keyframe_bytes: u64,
    programs: Vec<Ran>,
    level: u32,
    bins: HashMap<(u64, Option<u32>, u8), u64>,
    time: u64,
    records: u64,
    revision: u64,
    changes: (u64, u64),
    changed: BTreeMap<String, String>,
}

/// ns of a bin of this level.
fn width(level: u32) -> u64 {
    SHORTEST << (2 * level)
}

/// Bins four times as long.
fn coarser(bins: &[Bin]) -> Vec<Bin> {
    let mut sums: HashMap<_, u64> = HashMap::new();
    for bin in bins {
        *sums.entry((bin.at / 4, bin.end, bin.kind)).or_default() += bin.count;
    }
    in_order(sums)
}

fn in_order(sums: HashMap<(u64, Option<u32>, u8), u64>) -> Vec<Bin> {
    let bin = |((at, end, kind), count)| Bin {
        at,
        end,
        kind,
        count,
    };
    let mut bins: Vec<Bin> = sums.into_iter().map(bin).collect();
    bins.sort_unstable();
    bins
}

impl Builder {
    fn end(&mut self, place: &str) -> u32 {
        if let Some(end) = self.places.get(place) {
            return *end;
        }
        let end = self.ends.len() as u32;
        self.ends.push(place.to_owned());
        self.places.insert(place.to_owned(), end);
        end
    }

    fn add(&mut self, record: &Record) {
        let mut at = None;
        match &record.event {
            Event::Packet {
                place,
                outcome,
                length,
                hash,
                head,
            } => {
                let end = self.end(place);
                at = Some(end);
                self.counted.entry(end).or_default().count(outcome, *length);
                follow(&mut self.under_way, outcome, || UnderWay {
                    hash: *hash,
                    end,
                    sent: record.time,
                    length: *length,
                    class: look(head).class,
                    id: look(head).id,
                    flow: look(head).flow,
                });
            }
            Event::Met { place, .. } => at = Some(self.end(place)),
            Event::Asked(_) => self.revision += 1,
            Event::Changed(parts) => {
                self.changes = (self.changes.0 + 1, record.time);
                let parts = parts.iter().cloned();
                self.changed
                    .extend(parts.map(|part| (part.name, part.state)));
            }
            Event::Started {
                program,
                machine,
                words,
            } if self.programs.len() < MOST_PROGRAMS => self.programs.push(Ran {
                program: *program,
                machine: machine.clone(),
                name: words.first().cloned().unwrap_or_default(),
                started: record.time,
                ended: None,
            }),
            Event::Ended { program, code, .. } => {
                let mut all = self.programs.iter_mut().rev();
                if let Some(ran) = all.find(|ran| ran.program == *program && ran.ended.is_none()) {
                    ran.ended = Some((record.time, *code));
                }
            }
            _ => {}
        }
        if let Some(kind) = kind(record) {
            let key = (record.time / width(self.level), at, kind);
            *self.bins.entry(key).or_default() += 1;
        }
        self.time = self.time.max(record.time);
        self.records += 1;
    }

    /// Makes bins longer until they are few enough for a journal of this length.
    fn fit(&mut self, length: u64) {
        let most = LEAST + length / SHARE;
        while (self.bins.len() as u64) * BIN_BYTES > most && self.level < LEVELS {
            let bins = std::mem::take(&mut self.bins);
            for ((at, end, kind), count) in bins {
                *self.bins.entry((at / 4, end, kind)).or_default() += count;
            }
            self.level += 1;
        }
    }

    fn keyframe<R: Read>(&mut self, reader: &Reader<R>, mark: Mark) {
        let mut counted: Vec<_> = self.counted.drain().collect();
        counted.sort_unstable_by_key(|(end, _)| *end);
        let oldest = self.time.saturating_sub(LONGEST_WAY);
        self.under_way.retain(|_, packets| {
            packets.retain(|packet| packet.sent >= oldest);
            !packets.is_empty()
        });
        let mut under_way: Vec<_> = self.under_way.values().flatten().copied().collect();
        under_way.sort_unstable_by_key(|packet| (packet.sent, packet.end, packet.hash));
        under_way.truncate(MOST_UNDER_WAY);
        self.keyframe_bytes += keyframe_bytes(counted.len(), under_way.len(), &self.changed);
        let changed = std::mem::take(&mut self.changed).into_iter();
        self.keyframes.push(Keyframe {
            mark,
            time: self.time,
            records: self.records,
            revision: self.revision,
            changes: self.changes,
            changed: changed.map(|(name, state)| Part { name, state }).collect(),
            digest: reader.digest().map_or((0, Hash::of(&[])), |d| d.main()),
            counted,
            under_way,
        });
    }
}

fn keyframe_bytes(counted: usize, under_way: usize, changed: &BTreeMap<String, String>) -> u64 {
    let parts = changed.iter();
    let changed: usize = parts.map(|(name, state)| name.len() + state.len()).sum();
    80 + 8 * counted as u64 + 24 * under_way as u64 + changed as u64 / PACKED
}

/// What a packet's record changes in those that are under way.
pub(crate) fn follow(
    under_way: &mut HashMap<u64, Vec<UnderWay>>,
    outcome: &PacketOutcome,
    packet: impl Fn() -> UnderWay,
) -> Option<UnderWay> {
    let new = packet();
    match outcome {
        PacketOutcome::Departure => {
            under_way.entry(new.hash).or_default().push(new);
            None
        }
        outcome => {
            let lost = match outcome.lost_by() {
                None => false,
                Some(LostBy::Wire) => true,
                // It was on no wire any more, or not yet.
                Some(LostBy::Queue | LostBy::Stack) => return None,
            };
            let packets = under_way.get_mut(&new.hash)?;
            // A packet is lost where it departed, and arrives elsewhere.
            let which = packets.iter().position(|p| (p.end == new.end) == lost)?;
            let found = packets.remove(which);
            if packets.is_empty() {
                under_way.remove(&new.hash);
            }
            Some(found)
        }
    }
}

/// The index's file, beside its journal.
pub fn index_of(journal: &Path) -> PathBuf {
    journal.with_extension("index")
}

impl Index {
    /// Reads the index of a journal, or makes it, and writes it beside the journal if that can be
    /// done: the second one says whether it was made.
    ///
    /// # Errors
    /// [`Error`]: the journal can't be read, or is none.
    pub fn open(journal: &Path) -> Result<(Index, bool), Error> {
        let name = journal.display().to_string();
        let mut file = File::open(journal).map_err(Error::host(&name))?;
        if let Some(index) = Index::read(&index_of(journal), &mut file) {
            return Ok((index, false));
        }
        let length = file.metadata().map_err(Error::host(&name))?.len();
        file.rewind().map_err(Error::host(&name))?;
        let mut reader = Reader::new(BufReader::with_capacity(1 << 18, file), &name)?;
        let index = Index::build(&mut reader, length)?;
        // A folder that can't be written to has none.
        let _ = index.write(&index_of(journal));
        Ok((index, true))
    }

    /// Makes the index of a journal of so many bytes, which is read from its beginning to its end.
    ///
    /// # Errors
    /// [`Error`]: it can't be read.
    pub fn build<R: Read>(reader: &mut Reader<R>, length: u64) -> Result<Index, Error> {
        let mut builder = Builder::default();
        let start = reader.mark().unwrap_or_default();
        builder.keyframe(reader, start);
        let (mut last, mut next_block) = (start, start);
        let mut bytes = 0;
        loop {
            let ended = reader.mark();
            if let Some(mark) = ended.filter(|mark| mark.offset > next_block.offset) {
                last = std::mem::replace(&mut next_block, mark);
                builder.fit(length);
                let before = builder.keyframes.last().map_or(0, |keyframe| keyframe.time);
                let due = bytes >= APART || builder.time >= before + SECOND;
                let (counted, under_way) = (builder.counted.len(), builder.under_way.len());
                let next = keyframe_bytes(counted, under_way, &builder.changed);
                let room = LEAST + mark.offset / SHARE;
                if due && builder.keyframe_bytes + next <= room {
                    builder.keyframe(reader, mark);
                    bytes = 0;
                }
            }
            let before = reader.left();
            let Some(record) = reader.next_record()? else {
                break;
            };
            bytes += before.saturating_sub(reader.left());
            builder.add(&record);
        }
        builder.fit(length);
        let tail = reader.tail().expect("it was read to its end");
        let totals = tail.totals();
        let mut index = Index {
            epoch: reader.epoch(),
            length,
            last,
            cut: matches!(tail, Tail::Cut(_)),
            end: totals.end.max(builder.time),
            records: builder.records,
            packets: totals.packets,
            calls: totals.calls,
            changes: builder.changes.0,
            missed: totals.missed,
            digest: totals.digest,
            ends: builder.ends,
            keyframes: builder.keyframes,
            programs: builder.programs,
            level: builder.level,
            bins: vec![in_order(builder.bins)],
        };
        index.sum();
        Ok(index)
    }

    /// Coarser bins.
    fn sum(&mut self) {
        self.bins.truncate(1);
        while self.bins.len() < LEVELS as usize {
            let last = self.bins.last().expect("the finest");
            if last.iter().all(|bin| bin.at == 0) {
                break;
            }
            let next = coarser(last);
            self.bins.push(next);
        }
    }

    /// ns of the finest bins.
    pub fn finest(&self) -> u64 {
        width(self.level)
    }

    /// The finest bins that are at least so long (ns) and have something in a span, and how long
    /// they are. Bins begin at multiples of that.
    pub fn bins(&self, from: u64, to: u64, at_least: u64) -> (u64, &[Bin]) {
        let long_enough = |level: &usize| width(self.level + *level as u32) >= at_least;
        let level = (0..self.bins.len()).find(long_enough);
        let level = level.unwrap_or(self.bins.len() - 1);
        let width = width(self.level + level as u32);
        let bins = &self.bins[level];
        let first = bins.partition_point(|bin| bin.at < from / width);
        let last = bins.partition_point(|bin| bin.at <= to / width);
        (width, &bins[first..last.max(first)])
    }

    /// The last keyframe with no record of this time or a later one before it.
    pub fn before(&self, time: u64) -> usize {
        let earlier = |keyframe: &Keyframe| keyframe.time < time;
        self.keyframes.partition_point(earlier).saturating_sub(1)
    }

    /// The last keyframe that is not behind this record.
    pub fn before_record(&self, number: u64) -> usize {
        let earlier = |keyframe: &Keyframe| keyframe.records <= number;
        self.keyframes.partition_point(earlier).saturating_sub(1)
    }

    /// How the parts of the lab are that have changed before a keyframe, by their names; those that
    /// have gone have an empty state.
    pub fn changed(&self, keyframe: usize) -> BTreeMap<&str, &str> {
        let parts = self.keyframes[..=keyframe].iter().flat_map(|k| &k.changed);
        parts.map(|part| (&*part.name, &*part.state)).collect()
    }

    /// What ends have counted before a keyframe, by their places.
    pub fn counted(&self, keyframe: usize) -> Vec<Counters> {
        let mut all = vec![Counters::default(); self.ends.len()];
        for (end, counters) in self.keyframes[..=keyframe].iter().flat_map(|k| &k.counted) {
            all[*end as usize].add(*counters);
        }
        all
    }

    /// Its file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut raw = Vec::new();
        let to = &mut raw;
        for number in [
            self.epoch,
            self.length,
            self.last.offset,
            self.cut.into(),
            self.end,
            self.records,
            self.packets,
            self.calls,
            self.changes,
            self.missed,
        ] {
            put_number(to, number);
        }
        to.extend(self.last.check);
        put_bytes(to, self.digest.as_ref().map_or(&[], |hash| &hash.0[..]));
        put_number(to, self.ends.len() as u64);
        for end in &self.ends {
            put_bytes(to, end.as_bytes());
        }
        put_number(to, self.programs.len() as u64);
        for ran in &self.programs {
            put_number(to, ran.program);
            put_bytes(to, ran.machine.as_bytes());
            put_bytes(to, ran.name.as_bytes());
            put_number(to, ran.started);
            put_number(to, ran.ended.map_or(0, |(time, _)| time + 1));
            put_number(to, ran.ended.map_or(0, |(_, code)| code as u32).into());
        }
        put_number(to, self.keyframes.len() as u64);
        for keyframe in &self.keyframes {
            put_number(to, keyframe.mark.offset);
            to.extend(keyframe.mark.check);
            put_number(to, keyframe.time);
            put_number(to, keyframe.records);
            put_number(to, keyframe.revision);
            put_number(to, keyframe.changes.0);
            put_number(to, keyframe.changes.1);
            Part::write_all(&keyframe.changed, to);
            put_number(to, keyframe.digest.0);
            to.extend(keyframe.digest.1 .0);
            put_number(to, keyframe.counted.len() as u64);
            for (end, counters) in &keyframe.counted {
                put_number(to, (*end).into());
                for number in counters.clone().numbers() {
                    put_number(to, *number);
                }
            }
            put_number(to, keyframe.under_way.len() as u64);
            for packet in &keyframe.under_way {
                to.extend(packet.hash.to_le_bytes());
                put_number(to, packet.end.into());
                put_number(to, packet.sent);
                put_number(to, packet.length.into());
                to.push(packet.class);
                to.extend(packet.id.to_le_bytes());
                to.extend(packet.flow.to_le_bytes());
            }
        }
        put_number(to, self.level.into());
        put_number(to, self.bins[0].len() as u64);
        let mut before = 0;
        for bin in &self.bins[0] {
            put_number(to, bin.at - before);
            before = bin.at;
            put_number(to, bin.end.map_or(0, |end| u64::from(end) + 1));
            to.push(bin.kind);
            put_number(to, bin.count);
        }
        let stored = lz4_flex::block::compress(&raw);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(Hash::number(&stored).to_le_bytes());
        bytes.extend((raw.len() as u32).to_le_bytes());
        bytes.extend(stored);
        bytes
    }

    /// Reads one; `None`: these bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Index> {
        let mut head = Bytes(bytes);
        if head.array::<8>()? != MAGIC {
            return None;
        }
        let check = u64::from_le_bytes(head.array()?);
        let length = u32::from_le_bytes(head.array()?) as usize;
        if Hash::number(head.0) != check || length > LONGEST {
            return None;
        }
        let raw = lz4_flex::block::decompress(head.0, length).ok()?;
        let mut from = Bytes(&raw);
        let from = &mut from;
        let mut index = Index {
            epoch: from.number()?,
            length: from.number()?,
            last: Mark {
                offset: from.number()?,
                check: [0; 8],
            },
            cut: from.number()? != 0,
            end: from.number()?,
            records: from.number()?,
            packets: from.number()?,
            calls: from.number()?,
            changes: from.number()?,
            missed: from.number()?,
            digest: None,
            ends: Vec::new(),
            keyframes: Vec::new(),
            programs: Vec::new(),
            level: 0,
            bins: Vec::new(),
        };
        index.last.check = from.array()?;
        index.digest = match from.bytes()? {
            [] => None,
            bytes => Some(Hash(bytes.try_into().ok()?)),
        };
        for _ in 0..from.number()? {
            index.ends.push(from.text()?);
        }
        for _ in 0..from.number()? {
            index.programs.push(Ran {
                program: from.number()?,
                machine: from.text()?,
                name: from.text()?,
                started: from.number()?,
                ended: match (from.number()?, from.number()?) {
                    (0, _) => None,
                    (time, code) => Some((time - 1, u32::try_from(code).ok()? as i32)),
                },
            });
        }
        let ends = index.ends.len() as u64;
        for _ in 0..from.number()? {
            let keyframe = Index::keyframe(from, ends)?;
            index.keyframes.push(keyframe);
        }
        index.level = u32::try_from(from.number()?)
            .ok()
            .filter(|l| *l <= LEVELS)?;
        let mut bins = Vec::new();
        let mut at = 0_u64;
        for _ in 0..from.number()? {
            at = at.checked_add(from.number()?)?;
            bins.push(Bin {
                at,
                end: match from.number()? {
                    0 => None,
                    end if end <= ends => Some(end as u32 - 1),
                    _ => return None,
                },
                kind: from.byte().filter(|kind| usize::from(*kind) < KINDS)?,
                count: from.number()?,
            });
        }
        index.bins.push(bins);
        index.sum();
        (from.0.is_empty() && !index.keyframes.is_empty()).then_some(index)
    }

    fn keyframe(from: &mut Bytes<'_>, ends: u64) -> Option<Keyframe> {
        let end = |end: u64| (end < ends).then_some(end as u32);
        let mut keyframe = Keyframe {
            mark: Mark {
                offset: from.number()?,
                check: from.array()?,
            },
            time: from.number()?,
            records: from.number()?,
            revision: from.number()?,
            changes: (from.number()?, from.number()?),
            changed: Part::read_all(from)?,
            digest: (from.number()?, Hash(from.array()?)),
            counted: Vec::new(),
            under_way: Vec::new(),
        };
        for _ in 0..from.number()? {
            let end = end(from.number()?)?;
            let mut counters = Counters::default();
            for number in counters.numbers() {
                *number = from.number()?;
            }
            keyframe.counted.push((end, counters));
        }
        for _ in 0..from.number()? {
            keyframe.under_way.push(UnderWay {
                hash: u64::from_le_bytes(from.array()?),
                end: end(from.number()?)?,
                sent: from.number()?,
                length: u32::try_from(from.number()?).ok()?,
                class: from.byte()?,
                id: u32::from_le_bytes(from.array()?),
                flow: u32::from_le_bytes(from.array()?),
            });
        }
        Some(keyframe)
    }

    /// Reads it; `None`: there is none, or it is none of this journal as it is now.
    fn read(path: &Path, journal: &mut File) -> Option<Index> {
        let index = Index::from_bytes(&std::fs::read(path).ok()?)?;
        index.fits(journal)?.then_some(index)
    }

    fn fits(&self, journal: &mut File) -> Option<bool> {
        let mut start = [0; 16];
        journal.read_exact(&mut start).ok()?;
        let epoch = u64::from_le_bytes(*start.last_chunk()?);
        if journal.metadata().ok()?.len() != self.length || epoch != self.epoch {
            return Some(false);
        }
        // The last block's check is that of all blocks before it.
        journal.seek(SeekFrom::Start(self.last.offset)).ok()?;
        let mut reader = Reader::resume(&mut *journal, "", epoch, self.last);
        while reader.next_record().ok()?.is_some() {}
        Some(matches!(reader.tail(), Some(Tail::Cut(_))) == self.cut)
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let new = path.with_extension(format!("index-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&new)
            .and_then(|mut file| file.write_all(&self.to_bytes()))
            .and_then(|()| std::fs::rename(&new, path))
            .inspect_err(|_| drop(std::fs::remove_file(&new)))
    }
}
