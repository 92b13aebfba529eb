//! Breakpoints: what becomes of packets that pass interfaces, and what stops there.
//!
//! The kernel asks about each packet of an end that a breakpoint is at, in its middle, and the answer is found there
//! and then. What else follows (an event, a line to be carried out, a stop) follows after the kernel's turn. Where a packet
//! waits for that, those behind it wait too, and are asked about when it goes on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use vink_kernel::{Asks, Clock, EndId, Fate, Hold, PacketEvent, PacketKind, Passing};
use vink_spec::{Breakpoint, Point, Stop};

use super::bpf::Filter;
use super::breakpoint_tcp::Condition;
use super::capture::with_header;
use super::lab::{refused, Lab, Place, Trouble};
use super::machine::Plugged;
use super::protocol::{Answer, BreakpointStatus, Event, Hit, Where};

/// How long a packet waits at most for those that it is to be behind, unless something else is said.
const BEHIND: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header, which no breakpoint corrupts.
const HEADER: u32 = 14;
/// Hits that wait to be told.
const MOST_HITS: usize = 1 << 16;

/// All breakpoints of a lab's part.
#[derive(Default)]
pub(super) struct Breakpoints {
    table: Arc<Mutex<Table>>,
    /// What the kernel asks about.
    asked: HashMap<EndId, Asks>,
    /// All of the lab stands still.
    stopped: bool,
}

/// What the kernel's questions are answered by.
#[derive(Default)]
struct Table {
    all: BTreeMap<String, Set>,
    /// The interfaces that breakpoints are at, and which.
    ends: HashMap<EndId, (Place, Vec<String>)>,
    /// Where packets wait: at an end, and for a departure or an arrival.
    halted: HashMap<(EndId, Point), Wait>,
    /// Machines that have stopped, and by which breakpoint.
    machines: BTreeMap<String, String>,
    hits: Vec<Met>,
    /// Hits that were not kept.
    missed: u64,
    /// All that is done is written down, not only what is to be told.
    tells_all: bool,
}

/// A breakpoint was met.
struct Met {
    hit: Hit,
    /// The control process is to know.
    told: bool,
    /// What was done, in words.
    deed: String,
}

/// A breakpoint.
struct Set {
    place: Where,
    what: Breakpoint,
    filter: Option<Filter>,
    condition: Option<Condition>,
    /// Packets that it was about.
    seen: u64,
    /// Packets that it has done something to.
    hits: u64,
}

/// Why packets wait at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wait {
    /// For all of the lab to go on.
    Lab,
    /// For the line of this breakpoint.
    Line(String),
}

impl Breakpoints {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no panic while it is held")
    }

    /// Whether all that breakpoints do is written down.
    pub(super) fn tell_all(&self, all: bool) {
        self.table().tells_all = all;
    }
}

impl Lab {
    /// Sets a breakpoint, in the place of one of this name.
    pub(super) fn set_breakpoint(
        &mut self,
        name: String,
        place: Where,
        what: Breakpoint,
    ) -> Result<(), Trouble> {
        let about = |key: &str, text: &str, why: String| {
            refused(format!("breakpoint {name}: {key} {text:?}: {why}"))
        };
        let filter = match &what.filter {
            Some(text) => Some(
                Filter::compile(text)
                    .map_err(|why| about("filter", text, format!("{why}; see pcap-filter(7)")))?,
            ),
            None => None,
        };
        let condition = match &what.tcp {
            Some(text) => {
                let image = self.worker.kernel().image().path().to_owned();
                Some(Condition::read(text, &image).map_err(|why| about("tcp", text, why))?)
            }
            None => None,
        };
        self.remove_breakpoint(&name)?;
        let table = self.breakpoints.table.clone();
        self.worker.kernel().on_passing(Box::new(move |packet| {
            let mut table = table.lock().expect("no panic while it is held");
            table.answer(packet)
        }));
        let set = Set {
            place,
            what,
            filter,
            condition,
            seen: 0,
            hits: 0,
        };
        self.breakpoints.table().all.insert(name.clone(), set);
        let done = self.ask_everywhere();
        if done.is_err() {
            self.breakpoints.table().all.remove(&name);
            self.ask_everywhere()?;
        }
        done
    }

    /// Removes a breakpoint, if there is one of this name; what waits because of it goes on.
    pub(super) fn remove_breakpoint(&mut self, name: &str) -> Result<(), Trouble> {
        if self.breakpoints.table().all.remove(name).is_none() {
            return Ok(());
        }
        self.breakpoint_ran(name)?;
        self.ask_everywhere()
    }

    /// Has one do something, or nothing for a while.
    pub(super) fn enable_breakpoint(&mut self, name: &str, enabled: bool) -> Result<(), Trouble> {
        let found = match self.breakpoints.table().all.get_mut(name) {
            Some(set) => {
                set.what.disabled = !enabled;
                true
            }
            None => false,
        };
        match found {
            true => self.ask_everywhere(),
            false => Err(refused(format!("there is no breakpoint {name}"))),
        }
    }

    /// What they have counted.
    pub(super) fn breakpoints(&self) -> Answer {
        let table = self.breakpoints.table();
        let all = table.all.iter().map(|(name, set)| BreakpointStatus {
            breakpoint: name.clone(),
            seen: set.seen,
            hits: set.hits,
        });
        Answer::Breakpoints {
            all: all.collect(),
            stopped: self.breakpoints.stopped,
            machines: table.machines.keys().cloned().collect(),
        }
    }

    /// An interface has come.
    pub(super) fn break_at(&mut self, end: EndId) -> Result<(), Trouble> {
        let none = self.breakpoints.table().all.is_empty();
        match none {
            true => Ok(()),
            false => self.ask(end),
        }
    }

    /// An interface goes.
    pub(super) fn breakpoints_lose(&mut self, end: EndId) {
        self.breakpoints.asked.remove(&end);
        let mut table = self.breakpoints.table();
        table.ends.remove(&end);
        table.halted.retain(|(its, _), _| *its != end);
    }

    fn ask_everywhere(&mut self) -> Result<(), Trouble> {
        let ends: Vec<EndId> = self.places.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.ask(end))
    }

    /// Tells the kernel what to ask about at an end.
    fn ask(&mut self, end: EndId) -> Result<(), Trouble> {
        let Some(place) = self.places.get(&end) else {
            return Ok(());
        };
        let plugged = &self.interface(place)?.wire;
        let mut table = self.breakpoints.table();
        let mut asks = Asks::default();
        let mut here = Vec::new();
        for (name, set) in &table.all {
            let it_is = match &set.place {
                Where::Everywhere => true,
                Where::Interface(text) => *text == place.to_string(),
                Where::Machine(machine) => *machine == place.machine,
                Where::Wire(wire) => matches!(plugged, Plugged::In(its) if its == wire),
            };
            // What a machine sends and receives waits when it has stopped, wherever that is.
            let stops = set.what.stops() == Some(Stop::Machine);
            let mates = match &set.place {
                Where::Interface(text) => text.split(':').next() == Some(&place.machine),
                _ => true,
            };
            if stops && mates && !set.what.disabled {
                (asks.departures, asks.arrivals) = (true, true);
            }
            if it_is && !set.what.disabled {
                for point in set.what.points() {
                    match point {
                        Point::Departure => asks.departures = true,
                        Point::Arrival => asks.arrivals = true,
                        Point::Loss => asks.losses = true,
                    }
                }
                here.push(name.clone());
            }
        }
        if table.machines.contains_key(&place.machine) {
            (asks.departures, asks.arrivals) = (true, true);
        }
        if asks == Asks::default() {
            table.ends.remove(&end);
        } else {
            table.ends.insert(end, (place.clone(), here));
        }
        drop(table);
        let before = self.breakpoints.asked.insert(end, asks).unwrap_or_default();
        if before == asks {
            return Ok(());
        }
        match self.worker.kernel().ask(end, asks) {
            // It may be gone, and then nothing passes there.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => Ok(()),
            Err(vink_kernel::Error::Errno {
                errno: libc::EINVAL | libc::EOPNOTSUPP,
                ..
            }) => {
                self.breakpoints.asked.remove(&end);
                Err(refused(
                    "this image was built before Vink had breakpoints: build it again with stack/build or vink image build",
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The line of a breakpoint was carried out: what waited for it goes on.
    pub(super) fn breakpoint_ran(&mut self, name: &str) -> Result<(), Trouble> {
        let wait = Wait::Line(name.to_owned());
        self.go_on_at(|its, _| *its == wait)
    }

    /// Whether all of the lab stands still: the kernel and its clock, and programs whose calls are not answered.
    pub(super) fn stands_still(&self) -> bool {
        self.breakpoints.stopped
    }

    /// A breakpoint elsewhere has stopped the lab.
    pub(super) fn stop(&mut self) {
        self.breakpoints.stopped = true;
    }

    /// The lab goes on, if a breakpoint has stopped it: what waited for that does, too.
    pub(super) fn goes_on(&mut self) -> Result<(), Trouble> {
        self.breakpoints.stopped = false;
        self.go_on_at(|its, _| *its == Wait::Lab)
    }

    /// A machine that a breakpoint has stopped goes on; none is named: all of them.
    pub(super) fn machine_goes_on(&mut self, machine: Option<&str>) -> Result<(), Trouble> {
        let stopped = {
            let mut table = self.breakpoints.table();
            let before = table.machines.clone();
            table
                .machines
                .retain(|name, _| machine.is_some_and(|machine| machine != name));
            let mut stopped = before;
            stopped.retain(|name, _| !table.machines.contains_key(name));
            stopped
        };
        if let (Some(machine), true) = (machine, stopped.is_empty()) {
            self.machine(machine)?;
            return Err(refused(format!("no breakpoint has stopped {machine}")));
        }
        let ends: Vec<EndId> = self
            .places
            .iter()
            .filter(|(_, place)| stopped.contains_key(&place.machine))
            .map(|(end, _)| *end)
            .collect();
        for end in in_order(ends) {
            self.release_end(end)?;
        }
        for machine in stopped.keys() {
            self.signal_programs(machine, libc::SIGCONT);
        }
        self.ask_everywhere()
    }

    fn go_on_at(&mut self, which: impl Fn(&Wait, EndId) -> bool) -> Result<(), Trouble> {
        let ends: HashSet<EndId> = {
            let mut table = self.breakpoints.table();
            let ends = table.halted.iter();
            let ends = ends.filter(|((end, _), wait)| which(wait, *end));
            let ends = ends.map(|((end, _), _)| *end).collect();
            table.halted.retain(|(end, _), wait| !which(wait, *end));
            ends
        };
        for end in in_order(ends.into_iter().collect()) {
            self.release_end(end)?;
        }
        Ok(())
    }

    fn release_end(&mut self, end: EndId) -> Result<(), Trouble> {
        match self.worker.kernel().release(end) {
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What breakpoints have found since this was last asked.
    pub(super) fn look_after_breakpoints(&mut self) {
        let (hits, missed) = {
            let mut table = self.breakpoints.table();
            let missed = std::mem::take(&mut table.missed);
            (std::mem::take(&mut table.hits), missed)
        };
        self.missed += missed;
        for Met { hit, told, deed } in hits {
            self.journal_hit(&hit, &deed);
            if !told {
                continue;
            }
            match hit.stopped {
                Some(Stop::All) => self.breakpoints.stopped = true,
                Some(Stop::Machine) => {
                    let machine = hit.packet.end.split(':').next().unwrap_or_default();
                    self.signal_programs(machine, libc::SIGSTOP);
                }
                None => {}
            }
            let time = match hit.is_news() {
                true => self.note_news(),
                false => self.worker.now(),
            };
            self.events.push(Event::Breakpoint { hit, time });
        }
    }

    /// Programs of a machine stop, or go on. With a virtual clock they wait for packets only.
    fn signal_programs(&mut self, machine: &str, signal: i32) {
        if self.worker.kernel().clock() == Clock::Virtual {
            return;
        }
        for program in self.programs_on(machine) {
            // One that has ended needs no signal.
            let _ = self.worker.signal_group(program, signal);
        }
    }
}

/// Ends in the order in which they were made.
fn in_order(mut ends: Vec<EndId>) -> Vec<EndId> {
    ends.sort_by_key(|end| end.get());
    ends
}

impl Table {
    /// What becomes of a packet.
    fn answer(&mut self, packet: &Passing<'_>) -> Fate {
        let point = match packet.kind {
            PacketKind::Departure => Point::Departure,
            PacketKind::Arrival => Point::Arrival,
            PacketKind::Loss(_) | PacketKind::Drop { .. } => Point::Loss,
        };
        let Some((place, names)) = self.ends.get(&packet.end) else {
            return Fate::default();
        };
        let halted = self.halted.contains_key(&(packet.end, point));
        if point != Point::Loss && (halted || self.machines.contains_key(&place.machine)) {
            return Fate {
                hold: Hold::Again,
                ..Fate::default()
            };
        }
        let mut fate = Fate::default();
        // All look alike to filters.
        let framed;
        let bytes = match packet.headless {
            true => {
                framed = with_header(event(packet)).bytes;
                &framed
            }
            false => packet.bytes,
        };
        for name in names {
            let Some(set) = self.all.get_mut(name) else {
                continue;
            };
            if !set.what.points().contains(&point) || !set.wants(packet, bytes) {
                continue;
            }
            set.seen += 1;
            let spent = set.what.times.is_some_and(|times| set.hits >= times);
            if set.seen <= set.what.after || spent {
                continue;
            }
            set.hits += 1;
            set.change(name, packet.len, &mut fate);
            let stop = set.what.stops();
            let told = stop.is_some() || set.what.log || set.what.run.is_some();
            if !told && !self.tells_all {
                continue;
            }
            if point != Point::Loss && !fate.drop && (stop.is_some() || set.what.run.is_some()) {
                fate.hold = Hold::Stay;
            }
            match (stop, &set.what.run) {
                (Some(Stop::Machine), _) => {
                    self.machines.insert(place.machine.clone(), name.clone());
                }
                (Some(Stop::All), _) => {
                    self.halted.insert((packet.end, point), Wait::Lab);
                }
                (None, Some(_)) if point != Point::Loss => {
                    let wait = Wait::Line(name.clone());
                    self.halted.insert((packet.end, point), wait);
                }
                _ => {}
            }
            let waits = stop.is_some() || set.what.run.is_some();
            if self.hits.len() >= MOST_HITS && !waits && !self.tells_all {
                self.missed += 1;
                continue;
            }
            let hit = Hit {
                breakpoint: name.clone(),
                number: set.hits,
                packet: super::capture::told(place, &with_header(event(packet))),
                stopped: stop,
                run: set.what.run.clone(),
            };
            let deed = set.deed();
            self.hits.push(Met { hit, told, deed });
        }
        fate
    }
}

impl Set {
    fn wants(&self, packet: &Passing<'_>, bytes: &[u8]) -> bool {
        let filter = self.filter.as_ref();
        let condition = self.condition.as_ref();
        filter.is_none_or(|filter| filter.wants(bytes, packet.len))
            && condition.is_none_or(|condition| condition.holds(packet.socket))
    }

    /// Adds what it does to a packet's fate.
    fn change(&self, name: &str, len: u32, fate: &mut Fate) {
        let what = &self.what;
        fate.drop |= what.drop;
        if what.corrupt && len > HEADER {
            let bits = u64::from(len - HEADER) * 8;
            let bit = chance(name, self.hits) % bits;
            fate.corrupt = Some(HEADER * 8 + bit as u32);
        }
        fate.copies += what.duplicate.unwrap_or(0);
        let delay = what.delay.map(|delay| delay.duration());
        if let Some(behind) = what.reorder {
            fate.behind = fate.behind.max(behind);
            fate.delay += delay.unwrap_or(BEHIND);
        } else {
            fate.delay += delay.unwrap_or_default();
        }
    }
}

impl Set {
    /// What it does to packets, in the words of a command.
    fn deed(&self) -> String {
        let deed = Breakpoint {
            at: None,
            on: Vec::new(),
            filter: None,
            tcp: None,
            stop: self.what.stops(),
            after: 0,
            times: None,
            ..self.what.clone()
        };
        let text = deed.to_string();
        text.strip_prefix("any ").unwrap_or(&text).to_owned()
    }
}

/// A number that is always the same for the same hit of a breakpoint: FNV-1a, and SplitMix's last step.
fn chance(name: &str, hit: u64) -> u64 {
    let bytes = name.bytes().chain(hit.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let z = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// As a trace has it.
fn event(packet: &Passing<'_>) -> PacketEvent {
    PacketEvent {
        time: packet.time,
        end: packet.end,
        kind: packet.kind.clone(),
        len: packet.len,
        bytes: packet.bytes.to_vec(),
        headless: packet.headless,
    }
}
