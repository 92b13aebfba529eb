//! Feeds: flights, counters and queues of a lab as they are now, for viewers.
//!
//! # Theory of operation
//!
//! The kernel tells of each packet that a watched end sends, in the middle of its work, to a *tap*
//! (`Tap`): that decides for each feed whether the flight is taken, finds its class, and keeps a
//! record of 24 bytes. At each *tick* of the host's clock the records are sorted into frames, which
//! go to the feed's descriptor; at some ticks counters and queues do. A descriptor that has no room
//! gets nothing, and what would have gone there is counted: nothing ever waits for a viewer. What a
//! feed costs is bounded by its budget, and a lab without feeds has no tap, no tick and no watched
//! end.
//!
//! Of packets one in so many is taken, by the packet's identity, so that the same ones are taken on
//! each hop. The number is a power of two, raised as soon as there are too many, for those too that
//! were taken since the last tick, and lowered when there have been few for a second. Flights that
//! were lost, and those that are followed, are taken beside the budget.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vink_kernel::{monotonic, EndCounts, EndId, Flight, LossCause};
use vink_port::Timer;
use vink_protocol::{Answer, EndNumber, FeedHeader, FeedKind, FeedRequest, Filter};
use vink_sys::fd::set_blocking;

use super::bpf;
use super::lab::{refused, Descriptors, EndName, Lab, WorkerError};
use super::packet_identity::PacketIdentity;

/// How often flights are told, in 1/s.
const TICKS: u32 = 20;
const TICK: Duration = Duration::from_nanos(1_000_000_000 / TICKS as u64);
/// Flights a second that are taken beside the budget.
const BESIDE: u32 = 2000;
/// So many ticks have to be calm before more of the flights are taken.
const CALM: u32 = TICKS;
/// Ticks between keyframes.
const KEYFRAME: u32 = 5 * TICKS;
/// How far the times in one frame may lie apart, in ns.
const MAX_SPAN: u64 = 4_000_000_000;
/// Records of one frame.
const MAX_RECORDS: usize = u16::MAX as usize;
/// A flight's fate has this bit if the flight was told before.
const TOLD: u8 = 0x80;
/// Bytes that the descriptor's pipe may hold, where the host lets it.
const PIPE_BYTES: usize = 1 << 20;
const MAX_ONE_IN: u32 = 1 << 20;
/// All hashes are below it.
const ALL: u64 = 1 << 32;

/// All feeds, and how their ends are named.
#[derive(Default)]
pub(super) struct Feeds {
    tap: Arc<Mutex<Tap>>,
    /// Goes off at each tick; there is none without feeds.
    timer: Option<Timer>,
    /// When that is, on the host's monotonic clock, in ns.
    due: u64,
    ticks: u32,
    revision: u64,
    numbers: Vec<EndNumber>,
    /// Those of them that are there.
    ends: Vec<(EndId, u32)>,
    /// What the kernel tells of.
    flying: HashSet<EndId>,
}

/// What hears of flights.
#[derive(Default)]
struct Tap {
    numbers: HashMap<EndId, u32>,
    feeds: Vec<Feed>,
    /// What feeds have for classes. Most pages of a lab have the same.
    classes: Vec<Classes>,
}

/// Filters of classes, and the class of the flight that is told, once a feed has asked for it.
struct Classes {
    filters: Vec<Filter>,
    class: Option<u8>,
}

struct Feed {
    file: File,
    what: FeedRequest,
    /// The place of its classes in [`Tap::classes`].
    classes: usize,
    /// The ends whose flights are told; `None`: all.
    ends: Option<HashSet<u32>>,
    sampling: Sampling,
    records: Vec<Record>,
    /// Flights that were to be told since the last frame and are not.
    missed: u32,
    /// What ends had counted when it was last told, in the order of [`Feeds::ends`]; empty: not yet.
    counts: Vec<EndCounts>,
    /// What the descriptor had no room for of the last frame.
    unsent: Vec<u8>,
}

/// Which flights of a feed are taken.
#[derive(Debug)]
struct Sampling {
    /// For each tick.
    budget: u32,
    one_in: u32,
    /// Flights since the last tick, taken or not, and those of the share.
    seen: u32,
    taken: u32,
    /// Taken beside the budget.
    beside: u32,
    calm: u32,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    sent: u64,
    end: u32,
    /// In µs.
    lasts: u32,
    id: u32,
    length: u16,
    class: u8,
    fate: u8,
    flow: u32,
    /// It is not of the share.
    is_beside: bool,
}

impl Sampling {
    fn new(budget: u32) -> Sampling {
        Sampling {
            budget: (budget / TICKS).max(1),
            one_in: 1,
            seen: 0,
            taken: 0,
            beside: 0,
            calm: 0,
        }
    }

    /// Whether a packet is one of the share that is taken.
    fn has(&self, packet: u32) -> bool {
        u64::from(packet) * u64::from(self.one_in) < ALL
    }

    /// Takes one of the share; true: there are too many since the last tick, and the share is smaller
    /// from now on. A burst may have twice the budget.
    fn take(&mut self) -> bool {
        self.taken += 1;
        let is_much = self.taken > 2 * self.budget && self.one_in < MAX_ONE_IN;
        if is_much {
            self.one_in *= 2;
            self.calm = 0;
        }
        is_much
    }

    /// Takes one that is not of the share.
    fn take_beside(&mut self) -> bool {
        let is_room = self.beside < BESIDE / TICKS;
        self.beside += u32::from(is_room);
        is_room
    }

    fn tick(&mut self) {
        let share = self.seen / self.one_in;
        if share > self.budget {
            self.calm = 0;
            while self.seen / self.one_in > self.budget && self.one_in < MAX_ONE_IN {
                self.one_in *= 2;
            }
        } else if share < self.budget / 4 && self.one_in > 1 {
            self.calm += 1;
            if self.calm >= CALM {
                self.calm = 0;
                self.one_in /= 2;
            }
        } else {
            self.calm = 0;
        }
        (self.seen, self.taken, self.beside) = (0, 0, 0);
    }
}

impl Tap {
    fn hear(&mut self, flight: &Flight<'_>) {
        let Some(number) = self.numbers.get(&flight.end) else {
            return;
        };
        let identity = PacketIdentity::of(flight.bytes);
        for classes in &mut self.classes {
            classes.class = None;
        }
        for feed in &mut self.feeds {
            feed.hear(*number, flight, identity, &mut self.classes);
        }
    }

    /// Finds out which feeds have the same classes.
    fn sort_classes(&mut self) {
        self.classes.clear();
        for feed in &mut self.feeds {
            let filters = &feed.what.classes;
            let known = self.classes.iter().position(|it| it.filters == *filters);
            feed.classes = known.unwrap_or(self.classes.len());
            if known.is_none() {
                self.classes.push(Classes {
                    filters: filters.clone(),
                    class: None,
                });
            }
        }
    }
}

impl Classes {
    fn of(&mut self, flight: &Flight<'_>) -> u8 {
        let fits = |filter: &Filter| bpf::wants(filter, flight.bytes, flight.len);
        let find = || self.filters.iter().position(fits);
        *self
            .class
            .get_or_insert_with(|| find().map_or(0, |place| place as u8 + 1))
    }
}

impl Feed {
    fn hear(
        &mut self,
        number: u32,
        flight: &Flight<'_>,
        identity: PacketIdentity,
        classes: &mut [Classes],
    ) {
        if self.what.detail.is_none() || !self.ends.as_ref().is_none_or(|e| e.contains(&number)) {
            return;
        }
        let fits = |filter: &Filter| bpf::wants(filter, flight.bytes, flight.len);
        self.sampling.seen = self.sampling.seen.saturating_add(1);
        let is_beside = !self.sampling.has(identity.packet);
        if is_beside {
            let is_followed = self.what.flow == Some(identity.flow)
                || self.what.follow.as_ref().is_some_and(fits);
            if flight.lost.is_none() && !is_followed {
                return;
            }
            if !self.sampling.take_beside() {
                self.missed = self.missed.saturating_add(1);
                return;
            }
        }
        let class = classes[self.classes].of(flight);
        let fate = match flight.lost {
            None => 0,
            Some(LossCause::Random) => 1,
            Some(LossCause::Limit) => 2,
            Some(LossCause::Mtu) => 3,
            Some(LossCause::Down) => 4,
            Some(LossCause::Breakpoint | LossCause::Pod) => 5,
        };
        let told = if fate != 0 && flight.id != 0 { TOLD } else { 0 };
        let lasts = flight.arrives.saturating_sub(flight.sent) / 1000;
        self.records.push(Record {
            sent: flight.sent,
            end: number,
            lasts: u32::try_from(lasts).unwrap_or(u32::MAX),
            id: identity.packet,
            length: u16::try_from(flight.len).unwrap_or(u16::MAX),
            class,
            fate: fate | told,
            flow: identity.flow,
            is_beside,
        });
        if !is_beside && self.sampling.take() {
            let sampling = &self.sampling;
            self.records
                .retain(|of| of.is_beside || sampling.has(of.id));
            let left = self.records.iter().filter(|of| !of.is_beside);
            self.sampling.taken = left.count() as u32;
        }
    }

    /// Writes what the descriptor has no room for yet of the last frame.
    ///
    /// # Errors
    /// The descriptor's, when its reader has gone.
    fn flush(&mut self) -> std::io::Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.file.write(&self.unsent[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Writes a frame, if the one before is written. Whether it was.
    fn write(&mut self, header: FeedHeader, records: &[u8]) -> std::io::Result<bool> {
        self.flush()?;
        if !self.unsent.is_empty() {
            return Ok(false);
        }
        self.unsent.extend(header.to_bytes());
        self.unsent.extend(records);
        self.flush()?;
        Ok(true)
    }

    /// Writes the flights since the last tick.
    fn write_flights(&mut self, header: FeedHeader) -> std::io::Result<()> {
        let mut records = std::mem::take(&mut self.records);
        // They were told when their arrival was known, which is nearly the order of departures.
        records.sort_by_key(|record| record.sent);
        let one_in = self.sampling.one_in;
        let mut rest = &records[..];
        let mut bytes = Vec::new();
        while let Some(first) = rest.first() {
            let base = first.sent;
            let near = rest.partition_point(|record| record.sent - base < MAX_SPAN);
            let (some, others) = rest.split_at(near.min(MAX_RECORDS));
            rest = others;
            bytes.clear();
            some.iter()
                .for_each(|record| record.write(base, &mut bytes));
            let header = FeedHeader {
                kind: FeedKind::Flights,
                count: some.len() as u16,
                base,
                missed: self.missed,
                one_in,
                ..header
            };
            self.missed = match self.write(header, &bytes)? {
                true => 0,
                false => self.missed.saturating_add(some.len() as u32),
            };
        }
        records.clear();
        self.records = records;
        self.sampling.tick();
        Ok(())
    }

    /// Writes what ends have counted, that which has changed or all of it in a keyframe, and the time.
    fn write_counts(
        &mut self,
        header: FeedHeader,
        ends: &[(EndId, u32)],
        counts: &[EndCounts],
        is_keyframe: bool,
    ) -> std::io::Result<()> {
        self.flush()?;
        if !self.unsent.is_empty() {
            return Ok(());
        }
        let is_new = is_keyframe || self.counts.len() != counts.len();
        let kind = match is_new {
            true => FeedKind::Keyframe,
            false => FeedKind::Counters,
        };
        let before = (!is_new).then(|| std::mem::take(&mut self.counts));
        let (mut counters, mut queues) = (Vec::new(), Vec::new());
        for (place, ((_, number), now)) in ends.iter().zip(counts).enumerate() {
            let last = before.as_ref().map(|all| all[place]);
            let is_same = |last: EndCounts| {
                EndCounts {
                    queued: now.queued,
                    ..last
                } == *now
            };
            if !last.is_some_and(is_same) {
                counters.extend(number.to_le_bytes());
                counters.extend(now.under_way.to_le_bytes());
                for count in [now.sent, now.sent_bytes, now.lost] {
                    counters.extend(count.to_le_bytes());
                }
            }
            // A keyframe tells of empty queues, too: a viewer may know them as they were before it.
            if last.is_none_or(|last| last.queued != now.queued) {
                queues.extend(number.to_le_bytes());
                queues.extend(now.queued.to_le_bytes());
            }
        }
        let mut is_whole = true;
        for (kind, records) in [(kind, counters), (FeedKind::Queues, queues)] {
            for some in records.chunks(MAX_RECORDS * kind.record()) {
                let count = (some.len() / kind.record()) as u16;
                let header = FeedHeader {
                    kind,
                    count,
                    ..header
                };
                is_whole &= self.write(header, some)?;
            }
        }
        // Last, so that what is told of this time is told before it.
        is_whole &= self.write(header, &[])?;
        // What was not written is told by the next keyframe.
        if is_whole {
            self.counts = counts.to_vec();
        }
        Ok(())
    }

    /// Whether flights of this end are told.
    fn watches(&self, number: u32) -> bool {
        self.what.detail.is_some() && self.ends.as_ref().is_none_or(|e| e.contains(&number))
    }
}

impl Record {
    fn write(&self, base: u64, to: &mut Vec<u8>) {
        to.extend(self.end.to_le_bytes());
        to.extend(((self.sent - base) as u32).to_le_bytes());
        to.extend(self.lasts.to_le_bytes());
        to.extend(self.id.to_le_bytes());
        to.extend(self.length.to_le_bytes());
        to.extend([self.class, self.fate]);
        to.extend(self.flow.to_le_bytes());
    }
}

impl Feeds {
    fn tap(&self) -> MutexGuard<'_, Tap> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lab {
    /// From now on frames name ends by these numbers.
    pub(super) fn number_ends(
        &mut self,
        revision: u64,
        numbers: Vec<EndNumber>,
    ) -> Result<(), WorkerError> {
        self.feeds.revision = revision;
        self.feeds.numbers = numbers;
        self.find_feed_ends()
    }

    /// Begins a feed.
    pub(super) fn feed(
        &mut self,
        what: FeedRequest,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        let file = File::from(descriptors.next().expect("counted before"));
        // What is not possible leaves a pipe of the usual size.
        let _ = set_blocking(&file, false);
        let _ = vink_sys::fd::set_pipe_size(&file, PIPE_BYTES);
        if self.feeds.timer.is_none() {
            let timer = Timer::new().and_then(|timer| timer.every(TICK).map(|()| timer));
            let timer = timer.map_err(|error| refused(format!("a timer for the feed: {error}")))?;
            self.worker.watch_fd(timer.as_fd())?;
            self.feeds.timer = Some(timer);
            let tap = self.feeds.tap.clone();
            let kernel = self.worker.kernel();
            kernel.on_flight(Box::new(move |flight| {
                tap.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .hear(flight);
            }));
        }
        let budget = what.detail.as_ref().map_or(0, |detail| detail.budget);
        self.feeds.tap().feeds.push(Feed {
            file,
            what,
            classes: 0,
            ends: None,
            sampling: Sampling::new(budget),
            records: Vec::new(),
            missed: 0,
            counts: Vec::new(),
            unsent: Vec::new(),
        });
        self.find_feed_ends()?;
        Ok(Answer::Nothing)
    }

    /// An interface goes: its number is of nothing any more.
    pub(super) fn forget_end_of_feeds(&mut self, end: EndId) {
        self.feeds.tap().numbers.remove(&end);
        self.feeds.flying.remove(&end);
        let before = self.feeds.ends.len();
        self.feeds.ends.retain(|(known, _)| *known != end);
        if self.feeds.ends.len() != before {
            self.feeds
                .tap()
                .feeds
                .iter_mut()
                .for_each(|feed| feed.counts.clear());
        }
    }

    /// Finds the ends that have numbers, and has the kernel tell of those that feeds watch.
    fn find_feed_ends(&mut self) -> Result<(), WorkerError> {
        let mut ends = Vec::with_capacity(self.feeds.numbers.len());
        for EndNumber { end, number } in &self.feeds.numbers {
            let id = match end.strip_prefix(':') {
                Some(wire) => {
                    let uplink = self.wires.get(wire).and_then(|wire| wire.uplink.as_ref());
                    uplink.map(|uplink| uplink.end)
                }
                None => {
                    let name = EndName::parse(end)?;
                    self.interface(&name).ok().map(|interface| interface.end)
                }
            };
            ends.extend(id.map(|id| (id, *number)));
        }
        let mut watched = HashSet::new();
        {
            let mut tap = self.feeds.tap();
            tap.sort_classes();
            tap.numbers = ends.iter().copied().collect();
            for feed in &mut tap.feeds {
                let wanted = feed.what.detail.as_ref().and_then(|it| it.ends.as_ref());
                feed.ends = wanted.map(|names| {
                    let names: HashSet<&String> = names.iter().collect();
                    let numbers = self.feeds.numbers.iter();
                    let numbers = numbers.filter(|known| names.contains(&known.end));
                    numbers.map(|known| known.number).collect()
                });
                feed.counts.clear();
                let seen = ends.iter().filter(|(_, number)| feed.watches(*number));
                watched.extend(seen.map(|(end, _)| *end));
            }
        }
        self.feeds.ends = ends;
        let kernel = self.worker.kernel();
        for end in self.feeds.flying.symmetric_difference(&watched) {
            match kernel.fly(*end, watched.contains(end)) {
                // A program has removed the interface.
                Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.feeds.flying = watched;
        Ok(())
    }

    /// To be called after each step: tells what is due.
    pub(super) fn look_after_feeds(&mut self) -> Result<(), WorkerError> {
        let feeds = &mut self.feeds;
        let Some(timer) = &feeds.timer else {
            return Ok(());
        };
        let now = monotonic();
        if now < feeds.due {
            return Ok(());
        }
        feeds.due = now + TICK.as_nanos() as u64;
        // It wakes a worker that waits, and is due when it does.
        let _ = timer.every(TICK);
        feeds.ticks = feeds.ticks.wrapping_add(1);
        let is_keyframe = feeds.ticks.is_multiple_of(KEYFRAME);
        let is_counted = |hz: u32| hz > 0 && feeds.ticks.is_multiple_of((TICKS / hz).max(1));
        let all = feeds.tap();
        let is_counted: Vec<bool> = all.feeds.iter().map(|it| is_counted(it.what.hz)).collect();
        drop(all);
        let kernel = self.worker.kernel();
        let header = FeedHeader {
            kind: FeedKind::Clock,
            revision: feeds.revision as u8,
            count: 0,
            seq: 0,
            base: kernel.now(),
            missed: 0,
            one_in: 1,
        };
        let counts = match is_counted.contains(&true) {
            true => {
                let ends: Vec<EndId> = feeds.ends.iter().map(|(end, _)| *end).collect();
                kernel.counts(&ends)?
            }
            false => Vec::new(),
        };
        let before = is_counted.len();
        let mut is_counted = is_counted.into_iter();
        let mut tap = self
            .feeds
            .tap
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tap.feeds.retain_mut(|feed| {
            let mut done = feed.write_flights(header);
            if is_counted.next() == Some(true) {
                done = done.and_then(|()| {
                    feed.write_counts(header, &self.feeds.ends, &counts, is_keyframe)
                });
            }
            done.is_ok()
        });
        let left = tap.feeds.len();
        drop(tap);
        if left < before {
            self.find_feed_ends()?;
        }
        if left == 0 {
            if let Some(timer) = self.feeds.timer.take() {
                self.worker.unwatch_fd(timer.as_fd());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_raised_at_once_and_lowered_when_it_is_calm() {
        // 100 for each tick.
        let mut sampling = Sampling::new(2000);
        sampling.seen = 1000;
        sampling.tick();
        assert_eq!(sampling.one_in, 16);
        for _ in 0..CALM {
            sampling.seen = 300;
            sampling.tick();
        }
        assert_eq!(sampling.one_in, 8);
        sampling.seen = 500;
        for _ in 0..2 * CALM {
            sampling.seen = 500;
            sampling.tick();
        }
        assert_eq!(sampling.one_in, 8, "neither few nor many");
        for _ in 0..200 {
            assert!(!sampling.take());
        }
        assert!(sampling.take(), "a burst");
        assert_eq!(sampling.one_in, 16);
    }

    #[test]
    fn shares_lie_within_each_other() {
        let mut sampling = Sampling::new(2000);
        for one_in in [1, 2, 4, 1024] {
            sampling.one_in = one_in;
            assert!(sampling.has(0));
            assert_eq!(sampling.has(u32::MAX), one_in == 1);
            assert_eq!(sampling.has(1 << 31), one_in == 1);
            assert_eq!(sampling.has((1 << 31) - 1), one_in <= 2);
        }
    }
}
