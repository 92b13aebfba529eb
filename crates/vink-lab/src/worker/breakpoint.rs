//! Breakpoints: the verdicts on packets that pass interfaces, and what stops there.
//!
//! The kernel asks about each packet of an end that a breakpoint is at, in its middle, and the
//! answer is found there and then. What else follows (an event, a line to be carried out, a stop)
//! follows after the kernel's turn. Where a packet waits for that, those behind it wait too, and
//! are asked about when it is released.
//!
//! A packet that has stopped the lab is asked about once more when the lab goes on, and has become
//! what was decided meanwhile. Other bytes in its place are put as frames of the host's. Those
//! behind it are put behind them, so that none overtakes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use vink_kernel::{
    Clock, EndId, Hold, PacketEvent, PacketHooks, PacketKind, PacketQuery, Puts, Verdict,
};
use vink_spec::{Breakpoint, Point, Stop};

use super::bpf;
use super::breakpoint_tcp::Condition;
use super::capture::with_header;
use super::lab::{refused, EndName, Lab, WorkerError};
use super::machine::WireRef;
use vink_protocol::Filter;
use vink_protocol::{Answer, BreakpointScope, BreakpointStatus, Event, Hit, PacketDecision};

/// How long a reordered packet waits at most for the packets that are to overtake it, unless a
/// delay is given.
const REORDER_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header, which breakpoints do not corrupt.
const HEADER: u32 = 14;
/// The most hits that may wait to be reported.
const MAX_PENDING_HITS: usize = 1 << 16;

/// All breakpoints of a worker.
#[derive(Default)]
pub(super) struct Breakpoints {
    table: Arc<Mutex<BreakpointTable>>,
    /// What the kernel asks about at each end.
    queries: HashMap<EndId, PacketHooks>,
    /// A breakpoint has stopped the whole lab.
    stopped: bool,
}

/// The state from which the kernel's queries are answered.
#[derive(Default)]
struct BreakpointTable {
    all: BTreeMap<String, ActiveBreakpoint>,
    /// The ends that have breakpoints, and the names of these.
    ends: HashMap<EndId, (EndName, Vec<String>)>,
    /// Where packets are halted: at an end, before departure or arrival.
    halted: HashMap<(EndId, Point), HaltReason>,
    /// The packets that have stopped the lab.
    held: HashMap<(EndId, Point), HeldPacket>,
    /// Frames in the place of packets that were taken, in order, and those that came behind.
    replacing: VecDeque<Replacement>,
    /// Machines that are stopped, and the breakpoint of each.
    machines: BTreeMap<String, String>,
    hits: Vec<PendingHit>,
    /// Hits that were dropped.
    missed: u64,
    /// The journal gets every hit, not only those that are reported.
    reports_all: bool,
}

/// A packet that has stopped the lab, and waits.
struct HeldPacket {
    /// The hits that have stopped it: breakpoint and number.
    hits: Vec<(String, u64)>,
    bytes: Vec<u8>,
    /// What becomes of it when the lab goes on.
    verdict: Verdict,
    /// What passes in its place.
    frame: Option<Vec<u8>>,
}

/// A frame that is put.
struct Replacement {
    at: (EndId, Point),
    bytes: Vec<u8>,
    /// What becomes of it; none: breakpoints are asked.
    verdict: Option<Verdict>,
    /// The kernel has it.
    given: bool,
}

/// A hit that is not yet reported.
struct PendingHit {
    hit: Hit,
    /// It is reported to the control process.
    reported: bool,
    /// What the breakpoint did to the packet, in the words of a command.
    effect: String,
}

/// A breakpoint.
struct ActiveBreakpoint {
    scope: BreakpointScope,
    what: Breakpoint,
    filter: Option<Filter>,
    condition: Option<Condition>,
    /// Packets that matched.
    seen: u64,
    /// Packets that it has acted on.
    hits: u64,
}

/// Why packets are halted at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HaltReason {
    /// The whole lab is stopped.
    Lab,
    /// The line of this breakpoint is not carried out yet.
    Line(String),
}

impl Breakpoints {
    fn table(&self) -> MutexGuard<'_, BreakpointTable> {
        self.table.lock().expect("no panic while it is held")
    }

    /// Sets whether the journal gets every hit.
    pub(super) fn report_all(&self, all: bool) {
        self.table().reports_all = all;
    }
}

impl Lab {
    /// Sets a breakpoint, replacing one of this name.
    pub(super) fn set_breakpoint(
        &mut self,
        name: String,
        scope: BreakpointScope,
        what: Breakpoint,
        filter: Option<Filter>,
    ) -> Result<(), WorkerError> {
        let about = |key: &str, text: &str, why: String| {
            refused(format!("breakpoint {name}: {key} {text:?}: {why}"))
        };
        let condition = match &what.tcp {
            Some(text) => {
                let image = self.worker.kernel().image().path().to_owned();
                Some(Condition::read(text, &image).map_err(|why| about("tcp", text, why))?)
            }
            None => None,
        };
        self.remove_breakpoint(&name)?;
        self.answer_packets();
        let set = ActiveBreakpoint {
            scope,
            what,
            filter,
            condition,
            seen: 0,
            hits: 0,
        };
        self.breakpoints.table().all.insert(name.clone(), set);
        let done = self.update_queries();
        if done.is_err() {
            self.breakpoints.table().all.remove(&name);
            self.update_queries()?;
        }
        done
    }

    /// Has the kernel's questions answered: by paths first, and what they put by breakpoints alone.
    pub(super) fn answer_packets(&mut self) {
        const FREE: &str = "no panic while it is held";
        let (breakpoints, paths) = (self.breakpoints.table.clone(), self.paths.shared());
        let (crossing, replacing) = (paths.clone(), breakpoints.clone());
        let kernel = self.worker.kernel();
        kernel.on_passing(Box::new(move |packet| {
            let mine = match packet.put {
                true => None,
                false => paths.lock().expect(FREE).answer(packet),
            };
            mine.unwrap_or_else(|| breakpoints.lock().expect(FREE).answer(packet))
        }));
        kernel.on_taken(Box::new(move |now, puts| {
            replacing.lock().expect(FREE).put_replacements(puts);
            crossing.lock().expect(FREE).turn(now, puts);
        }));
    }

    /// Removes a breakpoint, if there is one of this name; what waits because of it goes on.
    pub(super) fn remove_breakpoint(&mut self, name: &str) -> Result<(), WorkerError> {
        if self.breakpoints.table().all.remove(name).is_none() {
            return Ok(());
        }
        self.breakpoint_ran(name)?;
        self.update_queries()
    }

    /// Enables or disables one.
    pub(super) fn enable_breakpoint(
        &mut self,
        name: &str,
        enabled: bool,
    ) -> Result<(), WorkerError> {
        let found = match self.breakpoints.table().all.get_mut(name) {
            Some(set) => {
                set.what.disabled = !enabled;
                true
            }
            None => false,
        };
        match found {
            true => self.update_queries(),
            false => Err(refused(format!("there is no breakpoint {name}"))),
        }
    }

    /// Their counters, and what is stopped.
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

    /// A new end: the kernel asks about its packets if a breakpoint or a path is there.
    pub(super) fn breakpoints_at_new_end(&mut self, end: EndId) -> Result<(), WorkerError> {
        let none = self.breakpoints.table().all.is_empty() && self.paths.table().paths.is_empty();
        match none {
            true => Ok(()),
            false => self.ask(end),
        }
    }

    /// Forgets an end that is about to be detached.
    pub(super) fn forget_end_of_breakpoints(&mut self, end: EndId) {
        self.breakpoints.queries.remove(&end);
        self.paths.table().forget_end(end);
        let mut table = self.breakpoints.table();
        table.ends.remove(&end);
        table.halted.retain(|(its, _), _| *its != end);
        table.held.retain(|(its, _), _| *its != end);
        table.replacing.retain(|frame| frame.at.0 != end);
    }

    pub(super) fn update_queries(&mut self) -> Result<(), WorkerError> {
        let ends: Vec<EndId> = self.end_names.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.ask(end))
    }

    /// Sets what the kernel asks about at an end.
    fn ask(&mut self, end: EndId) -> Result<(), WorkerError> {
        let Some(end_name) = self.end_names.get(&end) else {
            return Ok(());
        };
        let wire_ref = &self.interface(end_name)?.wire;
        let mut hooks = self.place_paths(end, &end_name.to_string());
        let mut table = self.breakpoints.table();
        let mut here = Vec::new();
        for (name, set) in &table.all {
            let it_is = match &set.scope {
                BreakpointScope::Everywhere => true,
                BreakpointScope::Interface(text) => *text == end_name.to_string(),
                BreakpointScope::Machine(machine) => *machine == end_name.machine,
                BreakpointScope::Wire(wire) => matches!(wire_ref, WireRef::Lab(its) if its == wire),
            };
            // All packets of a machine that may stop are asked about, at each of its ends.
            let stops = set.what.stops() == Some(Stop::Machine);
            let decided = set.what.stops() == Some(Stop::All);
            let mates = match &set.scope {
                BreakpointScope::Interface(text) => {
                    text.split(':').next() == Some(&end_name.machine)
                }
                _ => true,
            };
            if stops && mates && !set.what.disabled {
                (hooks.departures, hooks.arrivals) = (true, true);
            }
            if it_is && !set.what.disabled {
                // What may be changed is shown as a wire would carry it.
                hooks.frames |= decided;
                for point in set.what.points() {
                    match point {
                        Point::Departure => hooks.departures = true,
                        Point::Arrival => hooks.arrivals = true,
                        Point::Loss => hooks.losses = true,
                    }
                }
                here.push(name.clone());
            }
        }
        if table.machines.contains_key(&end_name.machine) {
            (hooks.departures, hooks.arrivals) = (true, true);
        }
        if hooks == PacketHooks::default() {
            table.ends.remove(&end);
        } else {
            table.ends.insert(end, (end_name.clone(), here));
        }
        drop(table);
        let before = self
            .breakpoints
            .queries
            .insert(end, hooks)
            .unwrap_or_default();
        if before == hooks {
            return Ok(());
        }
        match self.worker.kernel().ask(end, hooks) {
            // A program may have removed it.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => Ok(()),
            Err(vink_kernel::Error::Errno {
                errno: libc::EINVAL | libc::EOPNOTSUPP,
                ..
            }) => {
                self.breakpoints.queries.remove(&end);
                Err(refused(
                    "this image was built before Vink could ask it about packets so: build it again with stack/build or vink image build",
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The line of a breakpoint was carried out: releases the packets that it has halted.
    pub(super) fn breakpoint_ran(&mut self, name: &str) -> Result<(), WorkerError> {
        let wait = HaltReason::Line(name.to_owned());
        self.resume_at(|its, _| *its == wait)
    }

    /// Says what becomes of the packet that has stopped the lab, when it goes on.
    pub(super) fn decide_packet(
        &mut self,
        name: &str,
        number: u64,
        decision: PacketDecision,
    ) -> Result<(), WorkerError> {
        if decision
            .frame
            .as_ref()
            .is_some_and(|frame| !(HEADER as usize..=usize::from(u16::MAX)).contains(&frame.len()))
        {
            return Err(refused(format!(
                "a frame has {HEADER} to {} bytes: its Ethernet header, and what it carries",
                u16::MAX
            )));
        }
        let mut table = self.breakpoints.table();
        let mut held = table.held.values_mut();
        let is_it = |held: &&mut HeldPacket| {
            let mut hits = held.hits.iter();
            hits.any(|(its, count)| its == name && *count == number)
        };
        let Some(held) = held.find(is_it) else {
            return Err(refused(format!(
                "no packet waits for hit {number} of breakpoint {name}: it must have stopped the lab, and the packet be one that departs or arrives"
            )));
        };
        held.verdict.drop |= decision.drop;
        held.verdict.delay += Duration::from_nanos(decision.delay);
        held.frame = decision.frame.or(held.frame.take());
        Ok(())
    }

    /// Whether the whole lab is stopped: its kernel, its clock, and the programs whose calls are
    /// not answered.
    pub(super) fn is_stopped(&self) -> bool {
        self.breakpoints.stopped
    }

    /// Stops the lab, for a breakpoint of another worker.
    pub(super) fn stop(&mut self) {
        self.breakpoints.stopped = true;
    }

    /// Resumes the lab and the packets that it has halted.
    pub(super) fn resume(&mut self) -> Result<(), WorkerError> {
        self.breakpoints.stopped = false;
        self.resume_at(|its, _| *its == HaltReason::Lab)
    }

    /// Resumes a machine that a breakpoint has stopped; `None`: all of them.
    pub(super) fn resume_machine(&mut self, machine: Option<&str>) -> Result<(), WorkerError> {
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
            .end_names
            .iter()
            .filter(|(_, end_name)| stopped.contains_key(&end_name.machine))
            .map(|(end, _)| *end)
            .collect();
        for end in in_order(ends) {
            self.release_end(end)?;
        }
        for machine in stopped.keys() {
            self.signal_programs(machine, libc::SIGCONT);
        }
        self.update_queries()
    }

    fn resume_at(&mut self, which: impl Fn(&HaltReason, EndId) -> bool) -> Result<(), WorkerError> {
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

    fn release_end(&mut self, end: EndId) -> Result<(), WorkerError> {
        match self.worker.kernel().release(end) {
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports the hits since the last call.
    pub(super) fn look_after_breakpoints(&mut self) {
        let (hits, missed) = {
            let mut table = self.breakpoints.table();
            let missed = std::mem::take(&mut table.missed);
            (std::mem::take(&mut table.hits), missed)
        };
        self.missed += missed;
        for PendingHit {
            hit,
            reported,
            effect,
        } in hits
        {
            self.journal_hit(&hit, &effect);
            if !reported {
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
            let time = match hit.pauses_clock() {
                true => self.advance_epoch(),
                false => self.worker.now(),
            };
            self.events.push(Event::Breakpoint { hit, time });
        }
    }

    /// Stops or continues the programs of a machine. With a virtual clock they need no signal: they
    /// wait for packets.
    fn signal_programs(&mut self, machine: &str, signal: i32) {
        if self.worker.kernel().clock() == Clock::Virtual {
            return;
        }
        for program in self.programs_on(machine) {
            // Fails for one that has ended.
            let _ = self.worker.signal_group(program, signal);
        }
    }
}

/// Sorts ends by creation.
fn in_order(mut ends: Vec<EndId>) -> Vec<EndId> {
    ends.sort_by_key(|end| end.get());
    ends
}

impl BreakpointTable {
    /// The verdict on a packet.
    fn answer(&mut self, packet: &PacketQuery<'_>) -> Verdict {
        let point = match packet.kind {
            PacketKind::Departure => Point::Departure,
            PacketKind::Arrival => Point::Arrival,
            PacketKind::Loss(_) | PacketKind::Drop { .. } => Point::Loss,
        };
        let at = (packet.end, point);
        let put = self.replacement_passes(packet, at);
        if let Some(Some(verdict)) = put {
            return verdict;
        }
        let Some((end_name, _)) = self.ends.get(&packet.end) else {
            return Verdict::default();
        };
        let halted = self.halted.contains_key(&at);
        if point != Point::Loss && (halted || self.machines.contains_key(&end_name.machine)) {
            return Verdict {
                hold: Hold::Again,
                ..Verdict::default()
            };
        }
        if put.is_none() {
            if let Some(verdict) = self.held_goes_on(packet, at) {
                return verdict;
            }
        }
        let Some((end_name, names)) = self.ends.get(&packet.end) else {
            return Verdict::default();
        };
        let mut verdict = Verdict::default();
        let mut stopping = Vec::new();
        // Those that wait to be behind others count what their breakpoint matches.
        let (mut is_reordering, mut is_counted) = (false, false);
        // Filters see every packet with an Ethernet header.
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
            if !set.what.points().contains(&point) {
                continue;
            }
            let reorders = set.what.reorder.is_some();
            is_reordering |= reorders;
            if !set.wants(packet, bytes) {
                continue;
            }
            is_counted |= reorders;
            set.seen += 1;
            let spent = set.what.times.is_some_and(|times| set.hits >= times);
            if set.seen <= set.what.after || spent {
                continue;
            }
            set.hits += 1;
            set.change(name, packet.len, &mut verdict);
            let stop = set.what.stops();
            let reported = stop.is_some() || set.what.log || set.what.run.is_some();
            if !reported && !self.reports_all {
                continue;
            }
            if point != Point::Loss && !verdict.drop && (stop.is_some() || set.what.run.is_some()) {
                verdict.hold = Hold::Stay;
            }
            match (stop, &set.what.run) {
                (Some(Stop::Machine), _) => {
                    self.machines.insert(end_name.machine.clone(), name.clone());
                }
                (Some(Stop::All), _) => {
                    stopping.push((name.clone(), set.hits));
                    self.halted.insert(at, HaltReason::Lab);
                }
                (None, Some(_)) if point != Point::Loss => {
                    let wait = HaltReason::Line(name.clone());
                    self.halted.insert(at, wait);
                }
                _ => {}
            }
            let waits = stop.is_some() || set.what.run.is_some();
            if self.hits.len() >= MAX_PENDING_HITS && !waits && !self.reports_all {
                self.missed += 1;
                continue;
            }
            let hit = Hit {
                breakpoint: name.clone(),
                number: set.hits,
                packet: super::capture::told(end_name, &with_header(event(packet))),
                stopped: stop,
                frame: (stop == Some(Stop::All) && point != Point::Loss && is_whole(packet))
                    .then(|| packet.bytes.to_vec()),
                run: set.what.run.clone(),
            };
            let effect = set.effect();
            self.hits.push(PendingHit {
                hit,
                reported,
                effect,
            });
        }
        verdict.uncounted = is_reordering && !is_counted;
        if point != Point::Loss && !verdict.drop && !stopping.is_empty() {
            let held = HeldPacket {
                hits: stopping,
                bytes: packet.bytes.to_vec(),
                verdict: Verdict {
                    hold: Hold::No,
                    ..verdict
                },
                frame: None,
            };
            self.held.insert(at, held);
            return Verdict {
                hold: Hold::Again,
                ..Verdict::default()
            };
        }
        verdict
    }

    /// If it is a frame that was put: the verdict on it, or that breakpoints are asked.
    fn replacement_passes(
        &mut self,
        packet: &PacketQuery<'_>,
        at: (EndId, Point),
    ) -> Option<Option<Verdict>> {
        let mut frames = self.replacing.iter();
        let first = frames.position(|frame| frame.given && frame.at == at)?;
        if !packet.put || self.replacing[first].bytes != packet.bytes {
            return None;
        }
        self.replacing.remove(first).map(|frame| frame.verdict)
    }

    /// The verdict on a packet that has stopped the lab, which goes on, and on those behind it.
    fn held_goes_on(&mut self, packet: &PacketQuery<'_>, at: (EndId, Point)) -> Option<Verdict> {
        if self.replacing.iter().any(|frame| frame.at == at) {
            return Some(self.take(packet.bytes.to_vec(), at, None));
        }
        if self.held.get(&at)?.bytes != packet.bytes {
            return None;
        }
        let held = self.held.remove(&at)?;
        Some(match held.frame {
            Some(frame) if !held.verdict.drop => self.take(frame, at, Some(held.verdict)),
            _ => held.verdict,
        })
    }

    /// Takes a packet: these bytes pass in its place.
    fn take(&mut self, bytes: Vec<u8>, at: (EndId, Point), verdict: Option<Verdict>) -> Verdict {
        self.replacing.push_back(Replacement {
            at,
            bytes,
            verdict,
            given: false,
        });
        Verdict {
            take: true,
            ..Verdict::default()
        }
    }

    /// Gives the kernel what is to pass in the place of packets that were taken.
    fn put_replacements(&mut self, puts: &mut Puts) {
        for frame in self.replacing.iter_mut().filter(|frame| !frame.given) {
            frame.given = true;
            match frame.at {
                (end, Point::Departure) => puts.departs(end, &frame.bytes),
                (end, _) => puts.arrives(end, &frame.bytes),
            }
        }
    }
}

/// Whether all bytes of a packet are known, from its Ethernet header on.
fn is_whole(packet: &PacketQuery<'_>) -> bool {
    !packet.headless && packet.bytes.len() == packet.len as usize
}

impl ActiveBreakpoint {
    fn wants(&self, packet: &PacketQuery<'_>, bytes: &[u8]) -> bool {
        let filter = self.filter.as_ref();
        let condition = self.condition.as_ref();
        filter.is_none_or(|filter| bpf::wants(filter, bytes, packet.len))
            && condition.is_none_or(|condition| condition.holds(packet.socket))
    }

    /// Adds its actions to a verdict.
    fn change(&self, name: &str, len: u32, verdict: &mut Verdict) {
        let what = &self.what;
        verdict.drop |= what.drop;
        if what.corrupt && len > HEADER {
            let bits = u64::from(len - HEADER) * 8;
            let bit = chance(name, self.hits) % bits;
            verdict.corrupt = Some(HEADER * 8 + bit as u32);
        }
        verdict.copies += what.duplicate.unwrap_or(0);
        let delay = what.delay.map(|delay| delay.duration());
        if let Some(behind) = what.reorder {
            verdict.behind = verdict.behind.max(behind);
            verdict.delay += delay.unwrap_or(REORDER_TIMEOUT);
        } else {
            verdict.delay += delay.unwrap_or_default();
        }
    }
}

impl ActiveBreakpoint {
    /// Its actions, in the words of a command.
    fn effect(&self) -> String {
        let effect = Breakpoint {
            at: None,
            on: Vec::new(),
            filter: None,
            tcp: None,
            stop: self.what.stops(),
            after: 0,
            times: None,
            ..self.what.clone()
        };
        let text = effect.to_string();
        text.strip_prefix("any ").unwrap_or(&text).to_owned()
    }
}

/// A pseudo-random number, the same for the same hit of a breakpoint: FNV-1a, and the last step of
/// SplitMix.
fn chance(name: &str, hit: u64) -> u64 {
    let bytes = name.bytes().chain(hit.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let z = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The packet as a trace event.
fn event(packet: &PacketQuery<'_>) -> PacketEvent {
    PacketEvent {
        time: packet.time,
        end: packet.end,
        kind: packet.kind.clone(),
        len: packet.len,
        bytes: packet.bytes.to_vec(),
        headless: packet.headless,
    }
}
