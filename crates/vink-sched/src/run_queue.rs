//! The run queue: what can go on, in the order in which it became so; with a seed, the next one is
//! drawn.

use std::collections::VecDeque;

/// What can be in the run queue: something that a thread waits for has come.
pub trait Queued {
    /// The thread.
    fn tid(&self) -> i32;
}

/// What can go on.
pub struct RunQueue<R> {
    queue: VecDeque<R>,
    /// The state of the draw.
    draw: Option<u64>,
}

impl<R> Default for RunQueue<R> {
    fn default() -> RunQueue<R> {
        RunQueue {
            queue: VecDeque::new(),
            draw: None,
        }
    }
}

impl<R: Queued> RunQueue<R> {
    /// From now on the next one is drawn; `None`: it is the first.
    pub fn set_seed(&mut self, seed: Option<u64>) {
        self.draw = seed;
    }

    /// Behind all others.
    pub fn push(&mut self, runnable: R) {
        self.queue.push_back(runnable);
    }

    /// Before all others.
    pub fn push_first(&mut self, runnable: R) {
        self.queue.push_front(runnable);
    }

    /// Takes out the next one.
    pub fn take_next(&mut self) -> Option<R> {
        match &mut self.draw {
            Some(draw) if self.queue.len() > 1 => {
                let index = splitmix(draw) % self.queue.len() as u64;
                self.queue.remove(index as usize)
            }
            _ => self.queue.pop_front(),
        }
    }

    /// Of the first so many those that are wanted are taken out, until `wanted` says that it has
    /// enough: whether it takes this one, and whether it is the last.
    pub(crate) fn take_some(
        &mut self,
        most: usize,
        mut wanted: impl FnMut(&R) -> (bool, bool),
    ) -> Vec<R> {
        let (mut taken, mut index) = (Vec::new(), 0);
        for _ in 0..most {
            let Some(runnable) = self.queue.get(index) else {
                break;
            };
            match wanted(runnable) {
                (true, is_last) => {
                    taken.extend(self.queue.remove(index));
                    if is_last {
                        break;
                    }
                }
                (false, _) => index += 1,
            }
        }
        taken
    }

    /// From the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.queue.iter()
    }

    /// Whether something of the thread can go on.
    pub fn contains(&self, tid: i32) -> bool {
        self.iter().any(|runnable| runnable.tid() == tid)
    }

    /// The thread is gone.
    pub fn forget(&mut self, tid: i32) {
        self.queue.retain(|runnable| runnable.tid() != tid);
    }
}

/// SplitMix64: the next number of a sequence.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for i32 {
        fn tid(&self) -> i32 {
            *self
        }
    }

    fn queue(seed: Option<u64>) -> RunQueue<i32> {
        let mut queue = RunQueue::default();
        queue.set_seed(seed);
        (1..=9).for_each(|tid| queue.push(tid));
        queue
    }

    fn drained(mut queue: RunQueue<i32>) -> Vec<i32> {
        std::iter::from_fn(|| queue.take_next()).collect()
    }

    #[test]
    fn the_first_comes_first() {
        let mut first = queue(None);
        first.push_first(7);
        first.forget(3);
        assert!(first.contains(9) && !first.contains(3));
        assert_eq!(drained(first), [7, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn with_a_seed_it_is_drawn_and_the_draw_repeats() {
        let draw = |seed| drained(queue(Some(seed)));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut all = draw(1);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn some_are_taken_out_and_the_others_stay_in_order() {
        let mut queue = queue(None);
        let taken = queue.take_some(6, |tid| (tid % 2 == 0, *tid == 4));
        assert_eq!(taken, [2, 4]);
        assert_eq!(drained(queue), [1, 3, 5, 6, 7, 8, 9]);
    }
}
