//! A stream on its way through pods: bytes become units, units pass shared pods, and then those of
//! each tier.
//!
//! Theory of operation: this has no socket and no clock. Bytes are pushed in, the first pod makes
//! units of them, and unit n comes when n units' times have passed since the first. Several units
//! cross a wall together. Units that some tier gets pass the shared pod, once for all tiers, and wait
//! in the tiers' queues; the highest class is served first. Which tiers get a unit is decided before
//! the shared pod ([`crate::shed`]); a unit that can't be in time any more is left out before each
//! wall, too.
//!
//! A stream with a budget has a share of a processor: what a crossing takes of a processor's time makes
//! the share busy for as much longer, and what comes out is held until then. It is the time that the
//! worker's thread and the pod's process have run: what else the host does is not the stream's.
//!
//! What a crossing takes is charged to the tier, not to the pod; what the shared pod takes, in equal
//! parts to the tiers that get the unit.

use std::collections::VecDeque;
use std::mem::take;
use std::rc::Rc;

use crate::chain::END;
use crate::shed::Shedder;
use crate::{Account, Batch, Chain, Entry, PathNumbers, Stack, StreamEnded};

/// Units that wait for their time before no more bytes are wanted.
const AHEAD: usize = 64;

/// How a stream is to flow.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A unit's time, ns; 0: as fast as it goes.
    pub unit: u64,
    /// How long after it has come a unit has to have left, ns.
    pub latency: u64,
    /// Units of one crossing.
    pub crossing: usize,
    /// The share of a processor that it has; `None`: all that there is.
    pub budget: Option<f64>,
}

/// What a tier has got. `offered` is the sum of the others and of what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierNumbers {
    /// Units that came.
    pub offered: u64,
    /// Bytes of them.
    pub came: u64,
    /// Units that left in time.
    pub delivered: u64,
    /// Units that left too late.
    pub late: u64,
    /// Units that were left out before work was spent on them.
    pub shed: u64,
    /// Units whose pod has ended.
    pub lost: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Cycles of its pod's crossings, and its part of the shared one's.
    pub cycles: u64,
    /// A processor's time of them, ns.
    pub time: u64,
    /// How often its path's budget was spent when a unit came.
    pub overdrafts: u64,
}

/// Listeners of one kind: a path's.
pub struct Tier {
    /// Its path's name.
    pub name: String,
    /// The path's pods that are not shared.
    pub pods: Chain,
    /// What it has got.
    pub numbers: TierNumbers,
    account: Account,
    queue: VecDeque<Unit>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There may be more to do at once.
    More,
    /// Nothing before this time, or before bytes come (`None`).
    Wait(Option<u64>),
    /// All has left.
    Over,
}

/// A unit, or what a pod has made of it.
struct Unit {
    /// When it comes, ns.
    due: u64,
    pieces: Vec<Rc<[u8]>>,
}

/// What a crossing has given, until the processor has done it.
struct Held {
    tier: usize,
    dues: Vec<u64>,
    pieces: Vec<Rc<[u8]>>,
}

/// A stream.
pub struct Stream {
    pace: Pace,
    /// Makes units of bytes.
    pub units: Chain,
    /// What all tiers share.
    pub shared: Chain,
    /// The tiers, the highest class first.
    pub tiers: Vec<Tier>,
    shedder: Shedder,
    input: VecDeque<Unit>,
    /// When unit 0 came, and how many have come.
    began: Option<u64>,
    came: u64,
    no_more: bool,
    is_over: bool,
    /// Until when the processor is busy.
    free: u64,
    held: Vec<Held>,
    out: Vec<(usize, Rc<[u8]>)>,
    /// Tiers that have ended and were not told of.
    ended: Vec<usize>,
    batch: Batch,
    /// Walls are crossed on it.
    stack: Stack,
}

impl Tier {
    /// Of a path with this name and account.
    pub fn new(name: String, account: Account, pods: Chain) -> Tier {
        Tier {
            name,
            pods,
            numbers: TierNumbers::default(),
            account,
            queue: VecDeque::new(),
        }
    }

    /// As its path counts.
    pub fn counted(&self) -> PathNumbers {
        let n = &self.numbers;
        PathNumbers {
            packets: n.offered,
            bytes: n.came,
            cycles: n.cycles,
            crossings: self.pods.crossings(),
            passed: n.delivered + n.late,
            waiting: self.queue.len() as u64,
            overdrafts: n.overdrafts,
            lost: n.lost + n.shed,
            late: n.late,
            shed: n.shed,
            ..PathNumbers::default()
        }
    }

    fn lives(&self) -> bool {
        self.pods.ended.is_none()
    }
}

/// What the calls of a batch have emitted, by call.
fn emitted(batch: &Batch, call: usize) -> impl Iterator<Item = Rc<[u8]>> + '_ {
    let of_call = batch.emitted.iter().filter(move |its| its.call == call);
    of_call.map(|its| batch.emitted_bytes[its.bytes.clone()].into())
}

impl Stream {
    /// Of a pod that makes units, those that all tiers share, and tiers, the highest class first.
    pub fn new(pace: Pace, stack: Stack, units: Chain, shared: Chain, tiers: Vec<Tier>) -> Stream {
        let room = pace.budget.filter(|_| pace.unit > 0);
        let room = room.map(|share| share * pace.unit as f64);
        Stream {
            pace,
            units,
            shared,
            shedder: Shedder::new(tiers.len(), room),
            tiers,
            input: VecDeque::new(),
            began: None,
            came: 0,
            no_more: false,
            is_over: false,
            free: 0,
            held: Vec::new(),
            out: Vec::new(),
            ended: Vec::new(),
            batch: Batch::default(),
            stack,
        }
    }

    /// Units that have come.
    pub fn came(&self) -> u64 {
        self.came
    }

    /// Which part of its units each tier gets.
    pub fn shares(&self) -> Vec<f64> {
        self.shedder.shares()
    }

    /// Whether more bytes are wanted.
    pub fn wants_bytes(&self) -> bool {
        !self.no_more && self.input.len() < AHEAD
    }

    /// Bytes have come, at this time (ns); with `is_end` they are the last.
    ///
    /// # Errors
    /// [`StreamEnded`]: the pod that makes units.
    pub fn push(&mut self, bytes: &[u8], is_end: bool, now: u64) -> Result<(), StreamEnded> {
        self.no_more |= is_end;
        self.batch.clear(now);
        let flags = if is_end { END } else { 0 };
        self.batch.push(Entry::Stream, flags, bytes);
        self.units.cross(&mut self.batch, &mut self.stack)?;
        self.busy(now, self.units.time);
        for bytes in emitted(&self.batch, 0) {
            let due = match self.pace.unit {
                0 => now,
                unit => {
                    let due = self.began.map(|began| began + self.came * unit);
                    match due.filter(|due| *due >= now) {
                        Some(due) => due,
                        // The first one, or the source was late: time goes on from here.
                        None => {
                            self.began = Some(now - (self.came * unit).min(now));
                            now
                        }
                    }
                }
            };
            self.came += 1;
            self.input.push_back(Unit {
                due,
                pieces: vec![bytes],
            });
        }
        Ok(())
    }

    /// What has left since this was last asked: tiers and bytes.
    pub fn left(&mut self) -> Vec<(usize, Rc<[u8]>)> {
        take(&mut self.out)
    }

    /// Tiers that have ended since this was last asked.
    pub fn ended(&mut self) -> Vec<usize> {
        take(&mut self.ended)
    }

    /// Crosses a wall, if there is a reason to, at this time (ns).
    ///
    /// # Errors
    /// [`StreamEnded`]: the shared pod, or that of the last tier.
    pub fn step(&mut self, now: u64) -> Result<Next, StreamEnded> {
        if now < self.free {
            return Ok(Next::Wait(Some(self.free)));
        }
        self.release(now);
        if self.is_over {
            return Ok(Next::Over);
        }
        let mut waiting = self.tiers.iter().map(|tier| !tier.queue.is_empty());
        let waiting = waiting.position(|waits| waits);
        let highest = self.tiers.iter().position(|tier| tier.lives());
        let has_come = self.input.iter().take(self.pace.crossing);
        let has_come = has_come.take_while(|unit| unit.due <= now).count();
        let rest = self.no_more && has_come == self.input.len();
        let is_full = has_come == self.pace.crossing || (rest && has_come > 0);
        match waiting {
            Some(tier) if Some(tier) == highest || !is_full => self.serve(tier, now)?,
            _ if is_full => self.share(has_come, now)?,
            _ if self.no_more && self.input.is_empty() => self.finish(now)?,
            _ => {
                let last = self.input.get(self.pace.crossing - 1);
                let last = last.or(self.input.back().filter(|_| self.no_more));
                return Ok(Next::Wait(last.map(|unit| unit.due)));
            }
        }
        Ok(Next::More)
    }

    /// The processor's share is busy with so many ns of a whole one's work from now on.
    fn busy(&mut self, now: u64, work: u64) {
        if let Some(share) = self.pace.budget {
            self.free = self.free.max(now) + (work as f64 / share) as u64;
        }
    }

    /// Whether a unit that came then can have left in time, after so much work.
    fn can_be_in_time(&self, due: u64, now: u64, work: f64) -> bool {
        let work = self.pace.budget.map_or(work, |share| work / share) as u64;
        self.pace.unit == 0 || now + work <= due + self.pace.latency
    }

    /// What the processor has done leaves.
    fn release(&mut self, now: u64) {
        for held in self.held.drain(..) {
            let numbers = &mut self.tiers[held.tier].numbers;
            for due in held.dues {
                match self.pace.unit == 0 || now <= due + self.pace.latency {
                    true => numbers.delivered += 1,
                    false => numbers.late += 1,
                }
            }
            for piece in held.pieces {
                numbers.bytes += piece.len() as u64;
                self.out.push((held.tier, piece));
            }
        }
    }

    /// Units that have come cross the shared pod's wall, those that some tier gets.
    fn share(&mut self, count: usize, now: u64) -> Result<(), StreamEnded> {
        let mut wanted: Vec<(Unit, Vec<bool>)> = Vec::new();
        self.batch.clear(now);
        for unit in self.input.drain(..count).collect::<Vec<_>>() {
            let mut gets = self.shedder.admit();
            let in_time = self.can_be_in_time(unit.due, now, self.shedder.shared_cost(1));
            if !in_time {
                self.shedder.left_out_shared();
            }
            let bytes = unit.pieces[0].len();
            for (at, (tier, gets)) in self.tiers.iter_mut().zip(&mut gets).enumerate() {
                let was_to_get = *gets;
                *gets &= in_time;
                if tier.lives() {
                    if *gets && tier.account.admits(now) == Some(0) {
                        tier.numbers.overdrafts += 1;
                        *gets = false;
                    }
                    if *gets {
                        tier.account.enter(bytes);
                    } else if was_to_get {
                        self.shedder.kept_away(at);
                    }
                    tier.numbers.offered += 1;
                    tier.numbers.came += bytes as u64;
                    tier.numbers.shed += u64::from(!*gets);
                }
            }
            if gets.contains(&true) {
                self.batch.push(Entry::Stream, 0, &unit.pieces[0]);
                wanted.push((unit, gets));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        self.shared.cross(&mut self.batch, &mut self.stack)?;
        self.busy(now, self.shared.time);
        self.shedder.charge_shared(self.shared.time, wanted.len());
        let each = self.batch.cycles / wanted.len() as u64;
        let each_time = self.shared.time / wanted.len() as u64;
        for (call, (unit, gets)) in wanted.into_iter().enumerate() {
            let pieces: Vec<Rc<[u8]>> = emitted(&self.batch, call).collect();
            let takers = gets.iter().filter(|gets| **gets).count() as u64;
            for (tier, _) in self.tiers.iter_mut().zip(gets).filter(|(_, gets)| *gets) {
                tier.numbers.cycles += each / takers;
                tier.account.charge(each / takers, 0);
                tier.numbers.time += each_time / takers;
                tier.queue.push_back(Unit {
                    due: unit.due,
                    pieces: pieces.clone(),
                });
            }
        }
        Ok(())
    }

    /// Units of a tier cross its pod's wall.
    fn serve(&mut self, at: usize, now: u64) -> Result<(), StreamEnded> {
        self.batch.clear(now);
        let mut dues = Vec::new();
        while dues.len() < self.pace.crossing {
            let Some(unit) = self.tiers[at].queue.pop_front() else {
                break;
            };
            let cost = self.shedder.cost(at, dues.len() + 1);
            if !self.can_be_in_time(unit.due, now, cost) {
                self.shedder.left_out(at);
                self.tiers[at].numbers.shed += 1;
                continue;
            }
            for piece in &unit.pieces {
                self.batch.push(Entry::Stream, 0, piece);
            }
            dues.push(unit.due);
        }
        match dues.is_empty() {
            true => Ok(()),
            false => self.cross_tier(at, dues, now),
        }
    }

    fn cross_tier(&mut self, at: usize, dues: Vec<u64>, now: u64) -> Result<(), StreamEnded> {
        let tier = &mut self.tiers[at];
        let crossed = tier.pods.cross(&mut self.batch, &mut self.stack);
        let time = tier.pods.time;
        tier.numbers.cycles += self.batch.cycles;
        tier.account.charge(self.batch.cycles, dues.len());
        tier.numbers.time += time;
        if let Err(ended) = crossed {
            tier.numbers.lost += (dues.len() + tier.queue.len()) as u64;
            tier.queue.clear();
            self.shedder.end(at);
            self.ended.push(at);
            self.busy(now, time);
            return match self.tiers.iter().all(|tier| !tier.lives()) {
                true => Err(ended),
                false => Ok(()),
            };
        }
        self.shedder.charge(at, time, dues.len());
        self.busy(now, time);
        let all = self.batch.emitted.iter();
        let pieces = all.map(|its| self.batch.emitted_bytes[its.bytes.clone()].into());
        self.held.push(Held {
            tier: at,
            dues,
            pieces: pieces.collect(),
        });
        Ok(())
    }

    /// All units are through: the pods give what they have held back.
    fn finish(&mut self, now: u64) -> Result<(), StreamEnded> {
        self.batch.clear(now);
        self.batch.push(Entry::Stream, END, &[]);
        self.shared.cross(&mut self.batch, &mut self.stack)?;
        let last: Vec<Rc<[u8]>> = emitted(&self.batch, 0).collect();
        for at in 0..self.tiers.len() {
            if !self.tiers[at].lives() {
                continue;
            }
            self.batch.clear(now);
            for piece in &last {
                self.batch.push(Entry::Stream, 0, piece);
            }
            self.batch.push(Entry::Stream, END, &[]);
            self.cross_tier(at, Vec::new(), now)?;
        }
        self.is_over = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Fault, Pod, Stage, Wall};

    /// So long that what this thread really takes is nothing beside it.
    const UNIT: u64 = 26_000_000_000;

    /// Emits what it gets, at a price for each unit; ends at a unit of this number.
    struct Fake {
        price: u64,
        ends_at: Option<u8>,
        /// What the first crossing takes besides.
        first: u64,
    }

    impl Pod for Fake {
        fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
            for at in 0..batch.calls.len() {
                let bytes = batch.bytes[batch.calls[at].bytes.clone()].to_vec();
                if bytes.is_empty() {
                    continue;
                }
                batch.time += 1000 * take(&mut self.first);
                if self.ends_at.is_some_and(|number| bytes[0] == number) {
                    return Err(Fault::Memory(7));
                }
                batch.cycles += self.price;
                batch.time += 1000 * self.price;
                let start = batch.emitted_bytes.len();
                batch.emitted_bytes.extend_from_slice(&bytes);
                batch.emitted.push(crate::Emitted {
                    call: at,
                    output: 0,
                    bytes: start..batch.emitted_bytes.len(),
                });
            }
            Ok(())
        }

        fn wall(&self) -> Wall {
            Wall::None
        }

        fn memory(&self) -> u64 {
            0
        }
    }

    fn stage(name: &str, price: u64) -> Stage {
        let fake = Fake {
            price,
            ends_at: None,
            first: 0,
        };
        Stage::new(name.to_owned(), Box::new(fake))
    }

    fn tier(name: &str, pods: Vec<Stage>, bytes: Option<u64>) -> Tier {
        let budget = Budget {
            period: 10 * UNIT,
            cycles: None,
            bytes,
        };
        Tier::new(name.to_owned(), Account::new(budget, 0), Chain::new(pods))
    }

    /// Each unit is a byte; all tiers together take 100 ms for one.
    fn stream(overload: Option<f64>) -> Stream {
        let all = 100e6 / UNIT as f64 / crate::shed::LOAD;
        let pace = Pace {
            unit: UNIT,
            latency: 4 * UNIT,
            crossing: 2,
            budget: overload.map(|overload| all / overload),
        };
        let tiers = [("gold", 40_000), ("silver", 35_000), ("bronze", 20_000)];
        Stream::new(
            pace,
            Stack::new().expect("a stack"),
            Chain::new(vec![stage("units", 0)]),
            Chain::new(vec![stage("decode", 2_000), stage("more", 3_000)]),
            tiers
                .map(|(name, price)| tier(name, vec![stage(name, price)], None))
                .into(),
        )
    }

    /// Lets so many units flow, and time pass as it is waited for. What left, by tier.
    fn flow(stream: &mut Stream, units: u8) -> Result<Vec<Vec<u8>>, StreamEnded> {
        let mut now = 1_000;
        let mut sent = 0;
        let mut left = vec![Vec::new(); stream.tiers.len()];
        loop {
            while stream.wants_bytes() {
                stream.push(&[sent], sent + 1 == units, now)?;
                sent += 1;
            }
            let next = stream.step(now)?;
            for (tier, bytes) in stream.left() {
                left[tier].extend_from_slice(&bytes);
            }
            match next {
                Next::More => {}
                Next::Wait(Some(until)) => now = until,
                Next::Wait(None) => panic!("nothing comes any more"),
                Next::Over => return Ok(left),
            }
        }
    }

    #[test]
    fn all_arrive_in_order() {
        let mut stream = stream(None);
        let all: Vec<u8> = (0..200).collect();
        let left = flow(&mut stream, 200).expect("no fault");
        assert_eq!(left, [all.clone(), all.clone(), all]);
        for tier in &stream.tiers {
            assert_eq!(tier.numbers.delivered, 200);
        }
        // Five thousand of decoding are three tiers' in equal parts.
        assert_eq!(stream.tiers[2].numbers.cycles, 200 * (20_000 + 5_000 / 3));
    }

    #[test]
    fn the_lowest_class_is_shed_first_and_gold_is_in_time_until_it_alone_is_too_much() {
        let mut before = [200; 3];
        // Gold alone and decoding are 45 %: 2.2 times.
        for overload in [0.99, 1.2, 1.5, 1.8, 2.0, 2.2, 3.0, 4.0] {
            let mut stream = stream(Some(overload));
            let left = flow(&mut stream, 200).expect("no fault");
            let delivered: Vec<u64> = stream.tiers.iter().map(|t| t.numbers.delivered).collect();
            for (at, tier) in stream.tiers.iter().enumerate() {
                let numbers = &tier.numbers;
                assert_eq!(numbers.delivered + numbers.late + numbers.shed, 200);
                assert_eq!(left[at].len() as u64, numbers.delivered + numbers.late);
                assert!(
                    numbers.delivered <= before[at] + 2,
                    "{overload}: {delivered:?}"
                );
                before[at] = numbers.delivered;
            }
            let gold = stream.tiers[0].numbers;
            if overload <= 2.2 {
                assert_eq!(gold.delivered, 200, "{overload}: {gold:?}");
            } else {
                let expected = 200.0 / 0.45 / overload;
                let difference = gold.delivered as f64 - expected;
                assert!(difference.abs() < 12.0, "{overload}: {gold:?}");
                assert_eq!(delivered[2], 0, "{overload}");
            }
        }
        assert!(before[2] == 0 && before[1] == 0);
    }

    #[test]
    fn a_slow_first_crossing_leaves_nothing_out_for_good() {
        // As much as eight units of all tiers: by such a cost no unit is ever in time.
        const FIRST: u64 = 800_000;
        for (slow, price, least) in [(0, 40_000, [150, 150]), (1, 35_000, [150, 80])] {
            let mut stream = stream(Some(1.2));
            let pod = Fake {
                price,
                ends_at: None,
                first: FIRST,
            };
            let pods = Chain::new(vec![Stage::new("slow".to_owned(), Box::new(pod))]);
            stream.tiers[slow].pods = pods;
            flow(&mut stream, 200).expect("no fault");
            let delivered = [0, 1].map(|at| stream.tiers[at].numbers.delivered);
            assert!(
                delivered[0] > least[0] && delivered[1] > least[1],
                "{slow}: {delivered:?}"
            );
        }
    }

    #[test]
    fn a_pod_that_ends_takes_its_tier_with_it() {
        let mut stream = stream(None);
        let pod = Fake {
            price: 1,
            ends_at: Some(50),
            first: 0,
        };
        stream.tiers[1].pods = Chain::new(vec![Stage::new("bad".to_owned(), Box::new(pod))]);
        let left = flow(&mut stream, 200).expect("two tiers are left");
        assert_eq!([left[0].len(), left[2].len()], [200, 200]);
        assert_eq!(left[1].len(), 50);
        assert_eq!(stream.ended(), [1]);
        let ended = stream.tiers[1].pods.ended.as_deref();
        let why = "pod bad has ended: it wanted more than 7 bytes of memory";
        assert_eq!(ended, Some(why));
    }

    #[test]
    fn a_tier_has_several_pods_or_none_and_a_budget() {
        let mut stream = stream(None);
        stream.tiers[0] = tier("gold", Vec::new(), None);
        // Units are bytes: three of ten, and then the debt of none.
        stream.tiers[1] = tier("silver", vec![stage("a", 1), stage("b", 2)], Some(3));
        let left = flow(&mut stream, 200).expect("no fault");
        assert_eq!(left[0].len(), 200);
        let numbers = stream.tiers[1].counted();
        assert_eq!([numbers.packets, numbers.passed], [200, 60]);
        assert_eq!([numbers.shed, numbers.lost, numbers.overdrafts], [140; 3]);
        assert_eq!(left[1].len(), 60);
    }

    #[test]
    fn an_overdraft_says_nothing_of_what_a_tier_costs() {
        let mut stream = stream(Some(0.99));
        // Three units of ten, and then seven that are left out.
        stream.tiers[1] = tier("silver", vec![stage("silver", 35_000)], Some(3));
        flow(&mut stream, 200).expect("no fault");
        let numbers = stream.tiers[1].numbers;
        assert_eq!(numbers.delivered, 60);
        assert!(numbers.overdrafts > 130, "{numbers:?}");
        let cost = stream.shedder.cost(1, 1);
        assert!((34e6..40e6).contains(&cost), "{cost}");
    }

    #[test]
    fn a_shared_pod_that_ends_is_the_end() {
        let mut stream = stream(None);
        let pod = Fake {
            price: 1,
            ends_at: Some(9),
            first: 0,
        };
        stream.shared = Chain::new(vec![Stage::new("bad".to_owned(), Box::new(pod))]);
        let ended = flow(&mut stream, 200).expect_err("there is nothing to share");
        assert_eq!(ended.pod, "bad");
    }
}
