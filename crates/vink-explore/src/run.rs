//! One run: drives the lab to its end, asks for each packet's fate, has properties look on.

use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use vink_kernel::{EndId, Hold, PacketHooks, PacketKind, PacketQuery, Verdict};

use crate::against::{Normal, Normalizer};
use crate::calls::Calls;
use crate::ends::Cheaply;
use crate::lab::Booted;
use crate::packet::{is_searched, segment};
use crate::properties::panic;
use crate::recording::Recording;
use crate::{
    AppCall, Deviation, Ending, Error, Fate, Fault, Packet, Point, Property, Schedule, Violation,
    World, BEHIND_LIMIT,
};

/// How long a packet that comes late waits for a timer at most, ns.
const LATEST: u64 = 300_000_000_000;

/// What ends a run that does not end by itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// How long after the last fault, and after the time that the run without faults takes, ns.
    pub stall_timeout: u64,
    /// Packets at most; or four times those of the run without faults, if that is more.
    pub packets: u64,
}

impl Default for Limits {
    /// Four minutes: twice the longest time between two retransmissions (`TCP_RTO_MAX`).
    fn default() -> Limits {
        Limits {
            stall_timeout: 240_000_000_000,
            packets: 20_000,
        }
    }
}

/// Says what becomes of packets.
pub(crate) trait Chooser: Send {
    /// The fate of this packet of an interface; `None`: it passes.
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate>;
}

/// Does what a schedule says.
impl Chooser for Schedule {
    fn choose(&mut self, from: &str, packet: u32) -> Option<Fate> {
        let is_it = |deviation: &&Deviation| deviation.from == from && deviation.packet == packet;
        self.iter().find(is_it).map(|deviation| deviation.fate)
    }
}

/// What has come of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ending: Option<Ending>,
    /// Which property it has broken.
    pub violation: Option<Violation>,
    /// When it ended, ns.
    pub end: u64,
    /// How many packets were sent.
    pub packets: u64,
    /// How many packets of each interface are searched.
    pub searched: Vec<(String, u32)>,
    /// The connections that are left.
    pub connections: usize,
    /// What the schedule has done.
    pub faults: Vec<Fault>,
    /// Its programs, and how they have ended.
    pub programs: Vec<crate::Program>,
    /// The interfaces that have sent searched packets, by their places, in the order of these.
    pub departures: Vec<u16>,
    /// A digest of all packets and of what programs have written, if that was asked for.
    pub trace: Option<String>,
    /// What is compared with another image, if that was asked for.
    pub normal: Option<Normal>,
    /// All that has happened, if that was asked for.
    pub recording: Option<Recording>,
}

/// The state of a run, which the kernel's questions, apps' calls and the driver share.
pub(crate) struct State {
    pub world: World,
    pub properties: Vec<Box<dyn Property>>,
    pub chooser: Box<dyn Chooser>,
    pub recording: Option<Recording>,
    /// Of all that has happened so far, if that is asked for.
    pub trace: Option<Box<blake3::Hasher>>,
    /// What is compared with another image, if that is asked for.
    pub normal: Option<Box<Normalizer>>,
    violation: Option<Violation>,
    names: Vec<String>,
    places: Cheaply<EndId, usize>,
    /// How many searched packets each end has sent.
    counts: Vec<u32>,
    departures: Vec<u16>,
    packets: u64,
    held: Vec<Held>,
    /// How often the clock has gone on, and whether a packet has arrived since.
    moves: u64,
    arrived: bool,
}

/// A packet that waits for a timer.
struct Held {
    end: EndId,
    fault: usize,
    since: u64,
    is_due: bool,
}

/// The state, as each of its users has it.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it is held")
    }

    /// For a lab that has not begun: the kernel asks about packets, and apps' calls are heard.
    pub fn new(lab: &mut Booted, world: World) -> Result<Shared, Error> {
        let places = lab.ids.iter().enumerate();
        let places = places.map(|(place, end)| (*end, place)).collect();
        let state = State {
            names: world.ends.iter().map(crate::End::name).collect(),
            counts: vec![0; world.ends.len()],
            places,
            departures: Vec::new(),
            properties: Vec::new(),
            chooser: Box::<Schedule>::default(),
            recording: None,
            trace: None,
            normal: None,
            violation: None,
            packets: 0,
            held: Vec::new(),
            moves: 0,
            arrived: false,
            world,
        };
        let shared = Shared(Arc::new(Mutex::new(state)));
        for end in lab.ids.clone() {
            let hooks = PacketHooks {
                departures: true,
                arrivals: true,
                losses: true,
                frames: false,
                marks: false,
            };
            lab.stack.kernel().ask(end, hooks)?;
        }
        let asked = shared.clone();
        lab.stack
            .kernel()
            .on_passing(Box::new(move |packet| asked.lock().answer(packet)));
        lab.apps.observe(Calls::observer(shared.clone()));
        Ok(shared)
    }
}

impl State {
    /// What becomes of a packet.
    fn answer(&mut self, query: &PacketQuery<'_>) -> Verdict {
        let Some(place) = self.places.get(&query.end).copied() else {
            return Verdict::default();
        };
        self.world.now = query.time;
        let point = match query.kind {
            PacketKind::Departure => Point::Departure,
            PacketKind::Arrival => Point::Arrival,
            PacketKind::Loss(_) | PacketKind::Drop { .. } => Point::Loss,
        };
        let is_searched = !query.headless && is_searched(query.bytes);
        let one = i64::from(is_searched);
        match &query.kind {
            PacketKind::Departure => {
                self.world.under_way += one;
                self.packets += 1;
                // Nothing has come since the clock went on: a timer has had it sent.
                if !self.arrived {
                    let moves = self.moves;
                    let waiting = self.held.iter_mut().filter(|held| held.since < moves);
                    waiting.for_each(|held| held.is_due = true);
                }
            }
            PacketKind::Arrival => {
                self.arrived = true;
                self.world.under_way -= one;
            }
            PacketKind::Loss(_) => self.world.under_way -= one,
            PacketKind::Drop { .. } => {}
        }
        let tcp = match query.headless {
            true => None,
            false => segment(query.bytes),
        };
        let is_own = |tcp: crate::Segment<'_>| {
            let (own, peer) = match point {
                Point::Arrival => (tcp.to, tcp.from),
                Point::Departure | Point::Loss => (tcp.from, tcp.to),
            };
            self.world.is_of(query.socket, own.port(), peer.port())
        };
        let at_end = tcp.is_none_or(|tcp| {
            let address = match point {
                Point::Arrival => tcp.to,
                Point::Departure | Point::Loss => tcp.from,
            };
            self.world.is_at(place, address.ip())
        });
        let packet = Packet {
            at_end,
            time: query.time,
            end: place,
            point,
            frame: query.bytes,
            tcp,
            socket: match tcp.is_some_and(is_own) {
                true => query.socket,
                false => &[],
            },
        };
        self.check(|property, world| property.packet(world, &packet));
        let searched = point == Point::Departure && is_searched;
        let fate = match searched {
            true => {
                self.counts[place] += 1;
                self.departures.push(place as u16);
                let fate = self.chooser.choose(&self.names[place], self.counts[place]);
                // This may be a fork by now.
                self.world.follow_fork();
                fate
            }
            false => None,
        };
        if let Some(normal) = &mut self.normal {
            normal.packet(&self.world, &packet, fate);
        }
        if let Some(trace) = &mut self.trace {
            trace.update(&query.time.to_le_bytes());
            trace.update(&[place as u8, point as u8]);
            trace.update(query.bytes);
        }
        if let Some(recording) = &mut self.recording {
            let number = searched.then(|| self.counts[place]);
            recording.packet(&packet, &query.kind, query.headless, number, fate);
        }
        match fate {
            Some(fate) => self.do_to(place, query, fate),
            // As in the lab file, whose breakpoints see what is searched.
            None => Verdict {
                uncounted: !is_searched,
                ..Verdict::default()
            },
        }
    }

    /// Carries a fate out.
    fn do_to(&mut self, place: usize, query: &PacketQuery<'_>, fate: Fate) -> Verdict {
        self.world.faults.push(Fault {
            time: query.time,
            deviation: Deviation {
                from: self.names[place].clone(),
                packet: self.counts[place],
                fate,
            },
            until: match fate {
                Fate::Delay(ns) => Some(query.time + ns),
                _ => None,
            },
        });
        let mut verdict = Verdict::default();
        match fate {
            Fate::Drop => verdict.drop = true,
            Fate::Duplicate => {
                verdict.copies = 1;
                self.world.under_way += 1;
            }
            Fate::Behind => {
                verdict.behind = 1;
                verdict.delay = BEHIND_LIMIT;
            }
            Fate::Delay(ns) => verdict.delay = std::time::Duration::from_nanos(ns),
            Fate::Late => {
                verdict.hold = Hold::Stay;
                self.held.push(Held {
                    end: query.end,
                    fault: self.world.faults.len() - 1,
                    since: self.moves,
                    is_due: false,
                });
            }
        }
        verdict
    }

    /// An app's call has returned.
    pub fn call(&mut self, call: &AppCall<'_>) {
        self.world.now = call.time.max(self.world.now);
        if let Some(recording) = &mut self.recording {
            recording.call(call);
        }
        if let Some(normal) = &mut self.normal {
            normal.call(call);
        }
        self.check(|property, world| property.call(world, call));
    }

    /// Asks all properties, unless one has been broken already.
    fn check(&mut self, ask: impl Fn(&mut dyn Property, &World) -> crate::Check) {
        if self.violation.is_some() {
            return;
        }
        for property in &mut self.properties {
            if let Err(violation) = ask(property.as_mut(), &self.world) {
                self.violation = Some(violation);
                return;
            }
        }
    }

    /// The ends at which packets wait that are due, and what has become of these.
    fn due(&mut self, all: bool) -> Vec<EndId> {
        let now = self.world.now;
        let mut ends = Vec::new();
        self.held.retain(|held| {
            let fault = &mut self.world.faults[held.fault];
            let is_due = held.is_due || all || now > fault.time + LATEST;
            if is_due {
                fault.until = Some(now);
                ends.push(held.end);
            }
            !is_due
        });
        // All of an end go on together.
        let World { faults, .. } = &mut self.world;
        self.held.retain(|held| {
            let goes = ends.contains(&held.end);
            if goes {
                faults[held.fault].until = Some(now);
            }
            !goes
        });
        ends.dedup();
        ends
    }

    /// Whether all programs that are to end have, and what they leave behind is no more than ever.
    fn is_done(&self) -> bool {
        let World {
            programs, expected, ..
        } = &self.world;
        let mut all = programs.iter().zip(expected);
        !expected.is_empty()
            && all.all(|(program, expected)| expected.is_none() || program.ended.is_some())
            && self.held.is_empty()
            && self.world.connections().len() <= self.world.expected_connections
    }

    /// When the run is given up, ns.
    fn limit(&self, limits: &Limits) -> u64 {
        let ends = self.world.expected.iter().flatten().map(|ended| ended.time);
        let last = self.world.last_fault();
        ends.max().unwrap_or(0).max(last) + limits.stall_timeout
    }
}

/// Runs the lab to its end.
///
/// # Errors
/// As of the kernel. A panic of it is none: it is a violation.
pub(crate) fn drive(lab: &mut Booted, shared: &Shared, limits: &Limits) -> Result<Outcome, Error> {
    let ending = match go(lab, shared, limits) {
        Ok(ending) => ending,
        Err(Error::Kernel(vink_kernel::Error::Panic(panic))) => {
            let mut state = shared.lock();
            state.violation = Some(Violation {
                property: panic::NAME.to_owned(),
                time: state.world.now,
                machine: String::new(),
                what: format!("The kernel has panicked. {panic}"),
            });
            None
        }
        Err(error @ Error::Busy(_)) => {
            let mut state = shared.lock();
            state.violation = Some(Violation {
                property: panic::NAME.to_owned(),
                time: state.world.now,
                machine: String::new(),
                what: format!("The run has no end: {error}."),
            });
            None
        }
        Err(error) => return Err(error),
    };
    let mut state = shared.lock();
    if let Some(ending) = &ending {
        state.check(|property, world| property.end(world, ending));
    }
    let dead = state
        .violation
        .as_ref()
        .is_some_and(|violation| violation.property == panic::NAME);
    let connections = if dead {
        0
    } else {
        state.world.connections().len()
    };
    let trace = state.trace.take().map(|mut trace| {
        for line in &state.world.lines {
            trace.update(&line.time.to_le_bytes());
            trace.update(&(line.program as u64).to_le_bytes());
            trace.update(line.text.as_bytes());
        }
        let programs = state.world.programs.iter();
        for ended in programs.filter_map(|program| program.ended.as_ref()) {
            trace.update(&ended.time.to_le_bytes());
            trace.update(&ended.status.to_le_bytes());
        }
        trace.finalize().to_hex().to_string()
    });
    let normal = state.normal.take();
    let normal = normal.map(|normal| normal.end(&state.world, ending, state.violation.as_ref()));
    let mut recording = state.recording.take();
    if let Some(recording) = &mut recording {
        recording.lines = std::mem::take(&mut state.world.lines);
    }
    let searched = state.names.iter().cloned().zip(state.counts.clone());
    let searched: Vec<_> = searched.collect();
    Ok(Outcome {
        ending,
        violation: state.violation.take(),
        end: state.world.now,
        packets: state.packets,
        searched,
        connections,
        faults: std::mem::take(&mut state.world.faults),
        programs: state.world.programs.clone(),
        departures: std::mem::take(&mut state.departures),
        trace,
        normal,
        recording,
    })
}

/// `None`: a property is broken.
fn go(lab: &mut Booted, shared: &Shared, limits: &Limits) -> Result<Option<Ending>, Error> {
    lab.start(&mut shared.lock().world)?;
    loop {
        let next = lab.stack.settle()?;
        let mut state = shared.lock();
        state.world.now = lab.stack.now();
        lab.look_after_programs(&mut state.world)?;
        if let Some(line) = lab
            .complaints
            .lock()
            .expect("no panic while it is held")
            .pop()
        {
            state.world.complaints.push(line);
        }
        if lab.start(&mut state.world)? {
            continue;
        }
        lab.look_at_numbers(&mut state.world)?;
        state.check(|property, world| property.idle(world));
        if state.violation.is_some() {
            return Ok(None);
        }
        let due = state.due(next.is_none());
        if !due.is_empty() {
            drop(state);
            for end in due {
                lab.stack.kernel().release(end)?;
            }
            continue;
        }
        if state.is_done() {
            return Ok(Some(Ending::Done));
        }
        if state.packets > limits.packets {
            return Ok(Some(Ending::Flood));
        }
        let next = next.into_iter().chain(lab.next_start()).min();
        let Some(next) = next else {
            return Ok(Some(Ending::Silent));
        };
        if next > state.limit(limits) && state.held.is_empty() {
            return Ok(Some(Ending::Late));
        }
        state.moves += 1;
        state.arrived = false;
        drop(state);
        lab.stack.wait(next);
    }
}
