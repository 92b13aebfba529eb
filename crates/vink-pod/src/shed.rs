//! Which tiers get a unit when the processor is short: lower classes go without, before any work is
//! spent.
//!
//! Each tier has a cost, a processor's time for a unit on average, and so have the pods that all tiers
//! share. What the processor has of a unit's time for the stream goes to the tiers in the order of their classes: the first gets
//! all of its units if there is room for them and for the shared pods, the second as many as fit
//! into what is left, and so on. A tier that gets a part of its units gets them evenly. So a tier
//! loses nothing before those of lower classes have lost everything.
//!
//! What a tier costs is known when it has got something. So a stream begins with the highest class,
//! and the others get one unit each as soon as the cost of those before them is known. A cost for which
//! units are left out is not measured again, and it may be that of a host that was busy with something
//! else: after some units in a row it is forgotten.

/// The part of the processor's share that is given away: what is left lets a queue drain.
pub const LOAD: f64 = 0.95;

/// An average gives the newest of its units one part in so many.
const WEIGHT: u32 = 16;

/// When so many units in a row were left out, their cost is forgotten.
const LEFT_OUT: u32 = 4;

/// A processor's time for a unit on average, in ns.
#[derive(Clone, Debug, Default)]
struct Cost {
    each: f64,
    /// Crossings so far, as far as they matter.
    samples: u32,
    /// Units that were left out since the last crossing.
    left_out: u32,
}

impl Cost {
    fn add(&mut self, time: u64, units: usize) {
        if units == 0 {
            return;
        }
        let mut each = time as f64 / units as f64;
        // A host that was busy with something else says nothing about the pod.
        if self.samples >= 4 {
            each = each.min(4.0 * self.each);
        }
        self.left_out = 0;
        self.samples = (self.samples + 1).min(WEIGHT);
        self.each += (each - self.each) / f64::from(self.samples);
    }

    /// A unit can't be in time, as it seems. Whether nothing is known any more.
    fn left_out(&mut self) -> bool {
        self.left_out += 1;
        if self.left_out >= LEFT_OUT {
            *self = Cost::default();
        }
        self.samples == 0
    }
}

#[derive(Clone, Debug, Default)]
struct Tier {
    cost: Cost,
    /// What it has been promised of the next unit.
    credit: f64,
    has_ended: bool,
    /// It has got the unit that tells what it costs.
    is_tried: bool,
}

/// Decides for each unit which tiers get it.
#[derive(Clone, Debug)]
pub struct Shedder {
    /// What it has of a processor in a unit's time, ns; `None`: any time.
    room: Option<f64>,
    shared: Cost,
    tiers: Vec<Tier>,
}

impl Shedder {
    /// For so many tiers, the first one of the highest class, with so much of a processor's time for a
    /// unit (ns; `None`: any).
    pub fn new(tiers: usize, room: Option<f64>) -> Shedder {
        Shedder {
            room,
            shared: Cost::default(),
            tiers: vec![Tier::default(); tiers],
        }
    }

    /// What the shared pods have taken for so many units, in ns of a processor.
    pub fn charge_shared(&mut self, time: u64, units: usize) {
        self.shared.add(time, units);
    }

    /// What a tier's pods have taken for so many units, in ns of a processor.
    pub fn charge(&mut self, tier: usize, time: u64, units: usize) {
        self.tiers[tier].cost.add(time, units);
    }

    /// A unit that a tier was to get was left out for what the tier itself takes: if that is not known,
    /// another one tells it.
    pub fn left_out(&mut self, tier: usize) {
        let tier = &mut self.tiers[tier];
        if tier.cost.left_out() {
            tier.is_tried = false;
        }
    }

    /// A unit that a tier was to get was left out for something else, which says nothing of its cost: for
    /// what the shared pods take, or for its path's budget. If that unit was to tell the cost, another one
    /// does.
    pub fn kept_away(&mut self, tier: usize) {
        self.tiers[tier].is_tried = false;
    }

    /// A unit was left out before the shared pods.
    pub fn left_out_shared(&mut self) {
        self.shared.left_out();
    }

    /// A tier gets nothing any more.
    pub fn end(&mut self, tier: usize) {
        self.tiers[tier].has_ended = true;
    }

    /// What the shared pods take for so many units, as far as known, in ns.
    pub fn shared_cost(&self, units: usize) -> f64 {
        self.shared.each * units as f64
    }

    /// What a tier takes for so many units, as far as known, in ns.
    pub fn cost(&self, tier: usize, units: usize) -> f64 {
        self.tiers[tier].cost.each * units as f64
    }

    /// Which part of its units each tier gets.
    pub fn shares(&self) -> Vec<f64> {
        let Some(room) = self.room else {
            let shares = self.tiers.iter();
            return shares.map(|t| f64::from(u8::from(!t.has_ended))).collect();
        };
        let mut left = room * LOAD;
        // The first that gets anything has the shared pods' work to pay for.
        let mut before = self.shared.each;
        let mut shares = Vec::with_capacity(self.tiers.len());
        for tier in &self.tiers {
            if tier.has_ended {
                shares.push(0.0);
                continue;
            }
            let all = tier.cost.each + before;
            let share = match left {
                0.0 => 0.0,
                _ if all <= left => 1.0,
                _ => left / all,
            };
            left = match share < 1.0 {
                true => 0.0,
                false => left - all,
            };
            before = 0.0;
            shares.push(share);
        }
        shares
    }

    /// Which tiers get the next unit.
    pub fn admit(&mut self) -> Vec<bool> {
        let shares = self.shares();
        let mut gets = Vec::with_capacity(shares.len());
        // The cost of those before; the first one needs none.
        let mut is_known = true;
        let mut is_first = true;
        for (tier, share) in self.tiers.iter_mut().zip(shares) {
            if tier.cost.samples == 0 && self.room.is_some() && !tier.has_ended {
                gets.push(is_first || (is_known && share > 0.0 && !tier.is_tried));
                tier.is_tried |= gets.last() == Some(&true);
                (is_first, is_known) = (false, false);
                continue;
            }
            is_first &= tier.has_ended;
            if share >= 1.0 {
                tier.credit = 0.0;
                gets.push(true);
                continue;
            }
            tier.credit += share;
            gets.push(tier.credit >= 1.0);
            tier.credit -= f64::from(u8::from(tier.credit >= 1.0));
        }
        gets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shedder(room: f64) -> Shedder {
        let mut shedder = Shedder::new(3, Some(room));
        shedder.charge_shared(20, 2);
        for (tier, time) in [(0, 40), (1, 30), (2, 20)] {
            shedder.charge(tier, time, 1);
        }
        shedder
    }

    #[test]
    fn the_lowest_class_goes_first() {
        // All of it takes 100 a unit.
        let shares = |room: f64| shedder(room / LOAD).shares();
        assert_eq!(shares(100.0), [1.0, 1.0, 1.0]);
        assert_eq!(shares(90.0), [1.0, 1.0, 0.5]);
        assert_eq!(shares(80.0), [1.0, 1.0, 0.0]);
        assert_eq!(shares(65.0), [1.0, 0.5, 0.0]);
        assert_eq!(shares(50.0), [1.0, 0.0, 0.0]);
        assert_eq!(shares(25.0), [0.5, 0.0, 0.0]);
        assert_eq!(Shedder::new(2, None).shares(), [1.0, 1.0]);
    }

    #[test]
    fn a_tier_whose_first_unit_was_left_out_is_tried_again() {
        let mut shedder = Shedder::new(2, Some(100.0));
        assert_eq!(shedder.admit(), [true, false]);
        shedder.charge(0, 40, 1);
        assert_eq!(shedder.admit(), [true, true]);
        assert_eq!(shedder.admit(), [true, false]);
        shedder.left_out(1);
        assert_eq!(shedder.admit(), [true, true]);
        shedder.charge(1, 30, 1);
        assert_eq!(shedder.shares(), [1.0, 1.0]);
    }

    #[test]
    fn a_unit_that_something_else_keeps_away_is_not_held_against_its_tier() {
        let mut shedder = shedder(90.0 / LOAD);
        (0..2 * LEFT_OUT).for_each(|_| shedder.kept_away(2));
        assert_eq!(shedder.cost(2, 1), 20.0);
        // What was to tell the cost is tried again.
        let mut shedder = Shedder::new(2, Some(100.0));
        shedder.charge(0, 40, 1);
        assert_eq!(shedder.admit(), [true, true]);
        shedder.kept_away(1);
        assert_eq!(shedder.admit(), [true, true]);
    }

    #[test]
    fn a_part_is_given_evenly() {
        let mut shedder = shedder(90.0 / LOAD);
        let got: Vec<bool> = (0..6).map(|_| shedder.admit()[2]).collect();
        assert_eq!(got, [false, true, false, true, false, true]);
    }

    #[test]
    fn a_tier_that_ends_leaves_its_room() {
        let mut shedder = shedder(60.0 / LOAD);
        shedder.end(0);
        assert_eq!(shedder.shares(), [0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_disturbed_crossing_changes_little() {
        let mut cost = Cost::default();
        (0..100).for_each(|_| cost.add(1000, 1));
        cost.add(1_000_000, 1);
        assert!(cost.each < 1200.0, "{}", cost.each);
    }
}
