//! Paths at work: packets that the kernel has given up, the pods that they cross, and the frames
//! that come in their place.
//!
//! In the middle of the kernel a packet of a path is only copied. When the kernel has nothing else
//! to do, all of a path's packets cross its pods together, one wall after the other, and what comes
//! out of the last one goes back into the kernel, in the order in which the packets came. So one
//! crossing serves many packets, and runs on the thread's own stack.
//!
//! A packet of no path at an end keeps its place behind those that were copied there before it. What
//! waits for its path's next period lets others past, as they are no packets of that path.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use vink_kernel::{EndId, PacketHooks, PacketKind, PacketQuery, Puts, Verdict};
use vink_pod::{Account, Batch, Budget, Entry, Fault, PathNumbers, Pod, COUNTERS};
use vink_protocol::Filter;
use vink_spec::{OnFault, PathPoint, PathSpec, PodSpec};

use super::bpf;

/// `POD_PASS`, `POD_DROP`, `POD_BACK`, `POD_DEPARTS` and `POD_ARRIVES` of vink/pod.h.
const PASS: i32 = -1;
const DROP: i32 = 0;
const BACK: u32 = 1;
const DEPARTS: u32 = 0;
const ARRIVES: u32 = 1;

/// Packets of one crossing: so much may wait for a pod that is slow.
const MAX_CROSSING: usize = 256;
/// Packets, and their bytes, that are copied before the kernel's turn is over.
const MAX_TAKEN: usize = 16_384;
const MAX_TAKEN_BYTES: usize = 32 << 20;
/// Lines of pods' logs that wait to be told.
const MAX_LINES: usize = 1000;
/// The last lines of a pod's log, which are kept.
const MAX_KEPT: usize = 50;

/// A pod that paths lead through.
pub(super) struct ActivePod {
    pub(super) name: String,
    /// `None`: it has ended.
    pub(super) pod: Option<Box<dyn Pod>>,
    /// Its wall, by its word in a lab file.
    pub(super) wall: &'static str,
    /// What it was loaded as, and its file.
    pub(super) what: PodSpec,
    pub(super) file: String,
    /// A stream has passed it.
    pub(super) is_used: bool,
    /// Why it has ended.
    pub(super) ended: Option<String>,
    pub(super) crossings: u64,
    pub(super) calls: u64,
    pub(super) cycles: u64,
    pub(super) counters: [i64; COUNTERS],
    /// The last lines of its log.
    pub(super) log: VecDeque<String>,
    /// When `pod_timer()` is to be called, ns.
    timer: Option<u64>,
    /// The path that has set it: it pays.
    timer_path: Option<usize>,
}

/// A path.
pub(super) struct ActivePath {
    pub(super) name: String,
    pub(super) what: PathSpec,
    pub(super) filter: Option<Filter>,
    /// Its pods' places in the table.
    pub(super) through: Vec<usize>,
    /// Of a stream: something streams through it.
    pub(super) is_open: bool,
    /// The end that it is at, while there is one.
    end: Option<EndId>,
    account: Account,
    waiting: VecDeque<Vec<u8>>,
    pub(super) numbers: PathNumbers,
}

/// Something that a pod did, to be told.
pub(super) enum PodEvent {
    Ended {
        pod: String,
        path: Option<String>,
        fault: String,
        time: u64,
    },
    Line {
        pod: String,
        line: String,
    },
}

/// A packet that was copied.
struct Taken {
    path: Option<usize>,
    end: EndId,
    departs: bool,
    bytes: Range<usize>,
}

/// A frame on its way through a path: the packet that it comes from, and where it is in `bytes`.
#[derive(Clone)]
struct Item {
    of: usize,
    bytes: Range<usize>,
}

/// A frame that goes back into the kernel.
struct Out {
    of: usize,
    end: EndId,
    departs: bool,
    bytes: Range<usize>,
}

/// The paths at an end, by their places, and how many packets were copied there in this turn.
#[derive(Default)]
struct AtEnd {
    departing: Vec<usize>,
    arriving: Vec<usize>,
    taken: [usize; 2],
}

/// What a path may use.
pub(super) fn budget_of(what: &PathSpec) -> Budget {
    Budget {
        period: what.period().0.max(1),
        cycles: what.cycles,
        bytes: what.bytes(),
    }
}

/// All pods and paths of a worker, and what is under way.
#[derive(Default)]
pub(super) struct PathTable {
    pub(super) pods: Vec<ActivePod>,
    pub(super) paths: Vec<ActivePath>,
    ends: HashMap<EndId, AtEnd>,
    taken: Vec<Taken>,
    /// The bytes of what was taken, and then of all that comes of it in the turn.
    bytes: Vec<u8>,
    out: Vec<Out>,
    /// Frames that go nowhere.
    lost: Vec<(EndId, Range<usize>)>,
    batch: Batch,
    pub(super) events: Vec<PodEvent>,
}

impl ActivePod {
    pub(super) fn new(
        name: String,
        (what, file): (PodSpec, String),
        pod: Box<dyn Pod>,
        wall: &'static str,
    ) -> ActivePod {
        ActivePod {
            name,
            pod: Some(pod),
            wall,
            what,
            file,
            is_used: false,
            ended: None,
            crossings: 0,
            calls: 0,
            cycles: 0,
            counters: [0; COUNTERS],
            log: VecDeque::new(),
            timer: None,
            timer_path: None,
        }
    }

    /// It goes, with all that it had.
    pub(super) fn end(&mut self, why: String) {
        self.pod = None;
        self.timer = None;
        self.ended.get_or_insert(why);
    }
}

impl ActivePath {
    pub(super) fn new(
        name: String,
        what: PathSpec,
        filter: Option<Filter>,
        now: u64,
    ) -> ActivePath {
        ActivePath {
            name,
            account: Account::new(budget_of(&what), now),
            what,
            filter,
            through: Vec::new(),
            end: None,
            is_open: false,
            waiting: VecDeque::new(),
            numbers: PathNumbers::default(),
        }
    }

    fn departs(&self) -> bool {
        self.what.point() == PathPoint::Departure
    }

    /// The first of its pods that has ended.
    pub(super) fn broken<'a>(&self, pods: &'a [ActivePod]) -> Option<&'a ActivePod> {
        let mut through = self.through.iter().map(|at| &pods[*at]);
        through.find(|pod| pod.pod.is_none())
    }

    /// A frame has to wait for its next period. False: it is lost.
    fn wait(&mut self, frame: &[u8]) -> bool {
        let has_room = self.waiting.len() < self.what.queue() as usize;
        match has_room {
            true => {
                self.numbers.waited += 1;
                self.waiting.push_back(frame.to_vec());
            }
            false => self.numbers.lost += 1,
        }
        has_room
    }

    /// By name.
    pub(super) fn counted(&self) -> Vec<(String, u64)> {
        let mut numbers = self.numbers;
        if self.what.stream.is_none() {
            numbers.waiting = self.waiting.len() as u64;
        }
        numbers.by_name(self.what.stream.is_some())
    }
}

impl PathTable {
    /// Pods or paths are others now: which pods a path leads through, and no path at any end until
    /// [`PathTable::place`] says so.
    pub(super) fn changed(&mut self) {
        self.ends.clear();
        for path in &mut self.paths {
            let place = |name: &String| self.pods.iter().position(|pod| pod.name == *name);
            path.through = path.what.pods.iter().filter_map(place).collect();
            path.end = None;
        }
        for pod in &mut self.pods {
            pod.timer_path = None;
        }
    }

    /// The paths of this place are at this end. Which packets they are about.
    pub(super) fn place(&mut self, end: EndId, place: &str) -> PacketHooks {
        let mut at_end = AtEnd::default();
        let mut marks = false;
        for (at, path) in self.paths.iter_mut().enumerate() {
            if path.what.stream.is_some() || path.what.at != place {
                continue;
            }
            path.end = Some(end);
            marks |= path.what.mark.is_some();
            match path.departs() {
                true => at_end.departing.push(at),
                false => at_end.arriving.push(at),
            }
        }
        let (departures, arrivals) = (!at_end.departing.is_empty(), !at_end.arriving.is_empty());
        match departures || arrivals {
            false => self.ends.remove(&end),
            true => self.ends.insert(end, at_end),
        };
        PacketHooks {
            departures,
            arrivals,
            losses: false,
            // A pod sees what a wire would carry.
            frames: departures || arrivals,
            marks,
        }
    }

    /// An end goes, and what waits there is lost.
    pub(super) fn forget_end(&mut self, end: EndId) {
        self.ends.remove(&end);
        for path in self.paths.iter_mut().filter(|path| path.end == Some(end)) {
            path.end = None;
            path.numbers.lost += path.waiting.len() as u64;
            path.waiting.clear();
        }
    }

    /// In the middle of the kernel: what becomes of a packet, if it is a path's to say.
    pub(super) fn answer(&mut self, packet: &PacketQuery<'_>) -> Option<Verdict> {
        let departs = match packet.kind {
            PacketKind::Departure => true,
            PacketKind::Arrival => false,
            _ => return None,
        };
        let at_end = self.ends.get_mut(&packet.end)?;
        let here = match departs {
            true => &at_end.departing,
            false => &at_end.arriving,
        };
        let paths = &self.paths;
        let fits = |at: &&usize| {
            let path = &paths[**at];
            let filter = path.filter.as_ref();
            path.what.mark.is_none_or(|mark| mark == packet.mark)
                && filter.is_none_or(|filter| bpf::wants(filter, packet.bytes, packet.len))
        };
        let mut path = here.iter().find(fits).copied();
        if let Some(at) = path {
            let its = &mut self.paths[at];
            its.numbers.packets += 1;
            its.numbers.bytes += packet.bytes.len() as u64;
            let full = self.taken.len() >= MAX_TAKEN || self.bytes.len() >= MAX_TAKEN_BYTES;
            let broken = its.broken(&self.pods).is_some();
            if broken && its.what.on_fault == OnFault::Pass {
                path = None;
            } else if full || broken {
                its.numbers.lost += 1;
                return Some(Verdict {
                    drop: true,
                    ..Verdict::default()
                });
            }
        }
        let taken = &mut at_end.taken[usize::from(departs)];
        if path.is_none() && *taken == 0 {
            return None;
        }
        *taken += 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(packet.bytes);
        self.taken.push(Taken {
            path,
            end: packet.end,
            departs,
            bytes: start..self.bytes.len(),
        });
        Some(Verdict {
            take: true,
            ..Verdict::default()
        })
    }

    /// When something is to be done although no packet comes, in ns of the kernel's clock.
    pub(super) fn due(&self) -> Option<u64> {
        let timers = self.pods.iter().filter_map(|pod| pod.timer);
        let waiting = self.paths.iter().filter(|path| !path.waiting.is_empty());
        timers.chain(waiting.map(|path| path.account.opens())).min()
    }

    /// The kernel's turn is over: what was taken crosses its pods, and so does what has waited and
    /// may go on.
    pub(super) fn turn(&mut self, now: u64, puts: &mut Puts) {
        let taken = std::mem::take(&mut self.taken);
        for at_end in self.ends.values_mut() {
            at_end.taken = [0; 2];
        }
        for pod in 0..self.pods.len() {
            if self.pods[pod].timer.is_some_and(|at| at <= now) {
                self.time_has_come(pod, now);
            }
        }
        let mut order: Vec<usize> = (0..self.paths.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.paths[*at].what.class));
        for path in order {
            self.serve(path, &taken, now);
        }
        for (of, packet) in taken.iter().enumerate() {
            if packet.path.is_none() {
                self.out.push(Out {
                    of: of + 1,
                    end: packet.end,
                    departs: packet.departs,
                    bytes: packet.bytes.clone(),
                });
            }
        }
        // What has waited is 0, before all others.
        self.out.sort_by_key(|out| out.of);
        for out in self.out.drain(..) {
            let frame = &self.bytes[out.bytes];
            match out.departs {
                true => puts.departs(out.end, frame),
                false => puts.arrives(out.end, frame),
            }
        }
        for (end, bytes) in self.lost.drain(..) {
            puts.loses(end, &self.bytes[bytes]);
        }
        self.bytes.clear();
        self.taken = taken;
        self.taken.clear();
    }

    /// A path's packets: those that have waited, and those that have come.
    fn serve(&mut self, at: usize, taken: &[Taken], now: u64) {
        let new = taken.iter().enumerate();
        let new = new.filter(|(_, packet)| packet.path == Some(at));
        let mut new = new.map(|(of, packet)| Item {
            of: of + 1,
            bytes: packet.bytes.clone(),
        });
        let mut next = new.next();
        if next.is_none() && self.paths[at].waiting.is_empty() {
            return;
        }
        let mut over = false;
        loop {
            let path = &mut self.paths[at];
            let most = path.account.admits(now).unwrap_or(usize::MAX);
            let most = most.min(MAX_CROSSING);
            let mut items = Vec::new();
            while items.len() < most {
                let item = match path.waiting.pop_front() {
                    Some(frame) => {
                        let start = self.bytes.len();
                        self.bytes.extend_from_slice(&frame);
                        Item {
                            of: 0,
                            bytes: start..self.bytes.len(),
                        }
                    }
                    None => match next.take() {
                        Some(item) => {
                            next = new.next();
                            item
                        }
                        None => break,
                    },
                };
                let more = path.account.enter(item.bytes.len());
                items.push(item);
                if !more {
                    break;
                }
            }
            if items.is_empty() {
                break;
            }
            self.cross(at, 0, items, now);
        }
        let path = &mut self.paths[at];
        while let Some(item) = next {
            over = true;
            let frame = &self.bytes[item.bytes.clone()];
            if let (false, Some(end)) = (path.wait(frame), path.end) {
                self.lost.push((end, item.bytes));
            }
            next = new.next();
        }
        path.numbers.overdrafts += u64::from(over);
    }

    /// Frames cross the pods of a path from the `from`-th on, and what comes out goes on.
    fn cross(&mut self, at: usize, from: usize, mut items: Vec<Item>, now: u64) {
        let Some(end) = self.paths[at].end else {
            return;
        };
        let departs = self.paths[at].departs();
        let count = items.len();
        let mut cycles = 0;
        let mut pass = Vec::new();
        for place in from..self.paths[at].through.len() {
            if items.is_empty() {
                break;
            }
            let pod = self.paths[at].through[place];
            self.batch.clear(now);
            let direction = if departs { DEPARTS } else { ARRIVES };
            for item in &items {
                let frame = &self.bytes[item.bytes.clone()];
                self.batch.push(Entry::Packet, direction, frame);
            }
            let crossed = self.over_the_wall(pod, Some(at), now);
            cycles += self.batch.cycles;
            let path = &mut self.paths[at];
            path.numbers.crossings += 1;
            if !crossed {
                // What the pod has answered before is so.
                let rest = items.split_off(self.batch.done.min(items.len()));
                match path.what.on_fault {
                    OnFault::Drop => {
                        path.numbers.lost += rest.len() as u64;
                        let lost = rest.into_iter().map(|item| (end, item.bytes));
                        self.lost.extend(lost);
                    }
                    // They pass as they have come here.
                    OnFault::Pass => pass.extend(rest),
                }
            }
            let mut next = Vec::with_capacity(items.len());
            let mut emitted = self.batch.emitted.iter().peekable();
            for (call, (item, answer)) in items.drain(..).zip(&self.batch.calls).enumerate() {
                while let Some(frame) = emitted.next_if(|frame| frame.call <= call) {
                    let start = self.bytes.len();
                    let bytes = &self.batch.emitted_bytes[frame.bytes.clone()];
                    self.bytes.extend_from_slice(bytes);
                    let bytes = start..self.bytes.len();
                    path.numbers.emitted += 1;
                    match frame.output {
                        BACK => self.out.push(Out {
                            of: item.of,
                            end,
                            departs: !departs,
                            bytes,
                        }),
                        _ => next.push(Item { of: item.of, bytes }),
                    }
                }
                match answer.answer {
                    PASS => next.push(item),
                    DROP => {
                        path.numbers.dropped += 1;
                        self.lost.push((end, item.bytes));
                    }
                    _ => {
                        let start = self.bytes.len();
                        let bytes = &self.batch.emitted_bytes[answer.changed.clone()];
                        self.bytes.extend_from_slice(bytes);
                        path.numbers.changed += 1;
                        next.push(Item {
                            of: item.of,
                            bytes: start..self.bytes.len(),
                        });
                    }
                }
            }
            items = next;
        }
        items.append(&mut pass);
        let path = &mut self.paths[at];
        path.account.charge(cycles, count);
        path.numbers.cycles += cycles;
        path.numbers.passed += items.len() as u64;
        self.out.extend(items.into_iter().map(|item| Out {
            of: item.of,
            end,
            departs,
            bytes: item.bytes,
        }));
    }

    /// A pod's timer: what it emits goes on from there.
    fn time_has_come(&mut self, pod: usize, now: u64) {
        self.pods[pod].timer = None;
        let payer = self.pods[pod].timer_path;
        let payer = payer.or_else(|| {
            let mut paths = self.paths.iter();
            paths.position(|path| path.what.stream.is_none() && path.through.contains(&pod))
        });
        self.batch.clear(now);
        self.batch.push(Entry::Timer, 0, &[]);
        let crossed = self.over_the_wall(pod, payer, now);
        let Some(at) = payer else { return };
        let cycles = self.batch.cycles;
        let path = &mut self.paths[at];
        path.numbers.crossings += 1;
        path.numbers.cycles += cycles;
        path.account.charge(cycles, 1);
        let (Some(end), true) = (path.end, crossed) else {
            return;
        };
        let departs = path.departs();
        let place = path.through.iter().position(|its| *its == pod);
        let mut items = Vec::new();
        for frame in &self.batch.emitted {
            let start = self.bytes.len();
            let bytes = &self.batch.emitted_bytes[frame.bytes.clone()];
            self.bytes.extend_from_slice(bytes);
            let bytes = start..self.bytes.len();
            path.numbers.emitted += 1;
            match frame.output {
                BACK => self.out.push(Out {
                    of: 0,
                    end,
                    departs: !departs,
                    bytes,
                }),
                _ => items.push(Item { of: 0, bytes }),
            }
        }
        self.cross(at, place.map_or(0, |place| place + 1), items, now);
    }

    /// Has a pod make the calls of the batch. False: it has ended.
    fn over_the_wall(&mut self, at: usize, path: Option<usize>, now: u64) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let crossed = self.crossed(at, path, now, &mut batch, |pod, batch| pod.cross(batch));
        self.batch = batch;
        crossed.is_ok()
    }

    /// The same with a batch of the caller's, and with what it does to cross: what has ended it.
    pub(super) fn crossed(
        &mut self,
        at: usize,
        path: Option<usize>,
        now: u64,
        batch: &mut Batch,
        cross: impl FnOnce(&mut dyn Pod, &mut Batch) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let its = &mut self.pods[at];
        let Some(pod) = &mut its.pod else {
            return Err(Fault::Ended(its.ended.clone().unwrap_or_default()));
        };
        let crossed = cross(&mut **pod, batch);
        its.crossings += 1;
        its.calls += batch.calls.len() as u64;
        its.cycles += batch.cycles;
        for (counter, more) in its.counters.iter_mut().zip(batch.counted) {
            *counter = counter.wrapping_add(more);
        }
        if let Some(timer) = batch.timer {
            its.timer = (timer > 0).then_some(timer);
            its.timer_path = path;
        }
        keep_lines(&mut self.events, its, batch);
        crossed.inspect_err(|fault| {
            its.end(format!("it {fault}"));
            self.events.push(PodEvent::Ended {
                pod: its.name.clone(),
                path: path.map(|at| self.paths[at].name.clone()),
                fault: fault.to_string(),
                time: now,
            });
        })
    }

    /// What a pod has said in `pod_init()`.
    pub(super) fn initialised(&mut self, at: usize, init: &Batch) {
        let pod = &mut self.pods[at];
        pod.counters = init.counted;
        pod.timer = init.timer.filter(|at| *at > 0);
        keep_lines(&mut self.events, pod, init);
    }
}

/// The lines of a pod's log are told later, if there are not too many; the last ones are kept.
fn keep_lines(events: &mut Vec<PodEvent>, pod: &mut ActivePod, batch: &Batch) {
    for line in &batch.log {
        if pod.log.len() == MAX_KEPT {
            pod.log.pop_front();
        }
        pod.log.push_back(line.clone());
        if events.len() < MAX_LINES {
            events.push(PodEvent::Line {
                pod: pod.name.clone(),
                line: line.clone(),
            });
        }
    }
}
