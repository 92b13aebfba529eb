//! Futexes in virtual time. All of futex(2) is done here, since threads must be woken in the
//! scheduler's order, and a time-out must come at its very nanosecond. Only those that inherit
//! priority (`FUTEX_LOCK_PI` and others) are the host's.
//!
//! Rules are those of the kernel's kernel/futex/: waiters are woken in the order in which they
//! came. What the host's kernel does itself at a thread's end (its `clear_child_tid`, its robust
//! mutexes) shows in the words.

use std::collections::{BTreeMap, HashMap, VecDeque};

use vink_sys::errno::{EAGAIN, EFAULT, EINVAL, ENOSYS, ETIMEDOUT};
use vink_sys::maps::MapsLine;

use crate::block::{BlockCondition, ERESTARTNOHAND, ERESTARTSYS};
use crate::{read_timespec, Syscall, Times, Tracees};

/// Set in the word of a robust mutex whose owner is dead.
const OWNER_DIED: u32 = 0x4000_0000;

/// Which futex a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A private one (`FUTEX_PRIVATE_FLAG`): in the memory that is named after a process, at this
    /// address.
    Private(i32, u64),
    /// One that could be shared, but is not. To the kernel that is another.
    Memory(i32, u64),
    /// In a file that is mapped shared: device, inode, offset.
    File((u32, u32), u64, u64),
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The host's number of it.
    pub tid: i32,
    /// Its call; see [`Syscall::id`].
    pub id: u64,
    /// What it waits for of `FUTEX_WAKE_BITSET`.
    pub bits: u32,
    /// Where it has the word, and what that was; `None` for one that was moved here.
    pub word: Option<(u64, u32)>,
}

/// All waiters. Those whose wait ended in another way are recognised and skipped when they are
/// reached.
#[derive(Default)]
pub struct Futexes {
    queues: HashMap<Key, VecDeque<(u64, Waiter)>>,
    places: BTreeMap<i32, Key>,
    /// So that waiters at different addresses have an order, too.
    serial: u64,
}

impl Futexes {
    /// The thread waits here.
    pub fn wait(&mut self, key: Key, waiter: Waiter) {
        self.forget(waiter.tid);
        self.serial += 1;
        let queue = self.queues.entry(key).or_default();
        queue.push_back((self.serial, waiter));
        self.places.insert(waiter.tid, key);
    }

    /// The thread waits no more.
    pub fn forget(&mut self, tid: i32) {
        let Some(key) = self.places.remove(&tid) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.retain(|(_, waiter)| waiter.tid != tid);
            if queue.is_empty() {
                self.queues.remove(&key);
            }
        }
    }

    /// Removes waiters that do not wait any more.
    fn tidy(&mut self, key: Key, waits: impl Fn(&Waiter) -> bool) {
        let queue = self.queues.get(&key).into_iter().flatten();
        let gone: Vec<i32> = queue
            .filter(|(_, waiter)| !waits(waiter))
            .map(|(_, waiter)| waiter.tid)
            .collect();
        for tid in gone {
            self.forget(tid);
        }
    }

    /// Takes out the first `most` that wait for one of the bits.
    pub fn wake(
        &mut self,
        key: Key,
        most: usize,
        bits: u32,
        waits: impl Fn(&Waiter) -> bool,
    ) -> Vec<Waiter> {
        self.tidy(key, waits);
        let queue = self.queues.get(&key).into_iter().flatten();
        let woken: Vec<Waiter> = queue
            .map(|(_, waiter)| *waiter)
            .filter(|waiter| waiter.bits & bits != 0)
            .take(most)
            .collect();
        for waiter in &woken {
            self.forget(waiter.tid);
        }
        woken
    }

    /// Takes out the first `wake` and moves the next `most` elsewhere: the woken ones, and how many
    /// have moved.
    pub fn requeue(
        &mut self,
        (from, to): (Key, Key),
        (wake, most): (usize, usize),
        waits: impl Fn(&Waiter) -> bool,
    ) -> (Vec<Waiter>, usize) {
        let woken = self.wake(from, wake, u32::MAX, waits);
        let queue = self.queues.get(&from).into_iter().flatten();
        let moved: Vec<Waiter> = queue.take(most).map(|(_, waiter)| *waiter).collect();
        if from != to {
            for waiter in &moved {
                self.wait(
                    to,
                    Waiter {
                        word: None,
                        ..*waiter
                    },
                );
            }
        }
        (woken, moved.len())
    }

    /// The first one in each place, in the order in which they came.
    fn first(&self) -> Vec<(Key, Waiter)> {
        let queues = self.queues.iter();
        let firsts = queues.filter_map(|(key, queue)| queue.front().map(|first| (first, *key)));
        let mut firsts: Vec<_> = firsts.collect();
        firsts.sort_unstable_by_key(|((serial, _), _)| *serial);
        let bare = firsts.into_iter().map(|((_, waiter), key)| (key, *waiter));
        bare.collect()
    }
}

/// What `FUTEX_WAKE_OP` does with the second word: what it becomes, and whether its waiters are
/// woken too. That is `None` for a comparison that there is not: the word is written all the same.
/// `None`: there is no such operation.
pub fn operate(encoded: u32, old: u32) -> Option<(u32, Option<bool>)> {
    let extended = |shift: u32| ((encoded << (20 - shift)) as i32) >> 20;
    let (mut operand, compared) = (extended(12), extended(0));
    if encoded & (libc::FUTEX_OP_OPARG_SHIFT as u32) << 28 != 0 {
        operand = 1_i32.wrapping_shl(operand as u32 & 31);
    }
    let operand = operand as u32;
    let new = match (encoded >> 28 & 7) as i32 {
        libc::FUTEX_OP_SET => operand,
        libc::FUTEX_OP_ADD => old.wrapping_add(operand),
        libc::FUTEX_OP_OR => old | operand,
        libc::FUTEX_OP_ANDN => old & !operand,
        libc::FUTEX_OP_XOR => old ^ operand,
        _ => return None,
    };
    let old = old as i32;
    let holds = match (encoded >> 24 & 15) as i32 {
        libc::FUTEX_OP_CMP_EQ => Some(old == compared),
        libc::FUTEX_OP_CMP_NE => Some(old != compared),
        libc::FUTEX_OP_CMP_LT => Some(old < compared),
        libc::FUTEX_OP_CMP_LE => Some(old <= compared),
        libc::FUTEX_OP_CMP_GT => Some(old > compared),
        libc::FUTEX_OP_CMP_GE => Some(old >= compared),
        _ => None,
    };
    Some((new, holds))
}

/// The futex of a word that is not said to be private, by the text of `/proc/PID/maps`.
pub fn key_by_maps(maps: &str, memory: i32, address: u64) -> Key {
    let mut lines = maps.lines().filter_map(MapsLine::of);
    match lines.find(|line| line.range.contains(&address) && !line.is_private()) {
        Some(line) => {
            let offset = line.offset + address - line.range.start;
            Key::File(line.device, line.inode, offset)
        }
        None => Key::Memory(memory, address),
    }
}

/// What is to be done about a futex(2).
#[derive(Debug, PartialEq, Eq)]
pub enum FutexOutcome {
    /// These threads have waited long enough, and then this is the call's result.
    Answer(i64, Vec<Waiter>),
    /// Its thread waits.
    Block(BlockCondition),
    /// The host does it.
    Host,
}

/// The operation, without what says where and by which clock.
fn operation(call: &Syscall) -> i32 {
    call.args[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

fn read_word(tracees: &impl Tracees, tid: i32, address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    let read = tracees.read(tid, address, &mut bytes);
    read.then(|| u32::from_ne_bytes(bytes))
}

/// How many a call wakes: the kernel counts when it has woken one.
fn most(argument: u64) -> usize {
    (argument as i32).max(1) as usize
}

/// The futex of a word that a call is about.
fn key(tracees: &mut impl Tracees, call: &Syscall, address: u64) -> Result<Key, i64> {
    if !address.is_multiple_of(4) {
        return Err(EINVAL);
    }
    let memory = tracees.memory(call.tid);
    if call.args[1] as i32 & libc::FUTEX_PRIVATE_FLAG != 0 {
        return Ok(Key::Private(memory, address));
    }
    if read_word(tracees, call.tid, address).is_none() {
        return Err(EFAULT);
    }
    Ok(key_by_maps(&tracees.maps(call.tid), memory, address))
}

impl Futexes {
    /// futex(2).
    pub fn call(
        &mut self,
        call: &Syscall,
        times: &Times,
        tracees: &mut impl Tracees,
    ) -> FutexOutcome {
        let result = match operation(call) {
            libc::FUTEX_WAIT => {
                return self.wait_call(call, times, u32::MAX, tracees);
            }
            libc::FUTEX_WAIT_BITSET => {
                return self.wait_call(call, times, call.args[5] as u32, tracees);
            }
            libc::FUTEX_WAKE => self.wake_call(call, u32::MAX, tracees),
            libc::FUTEX_WAKE_BITSET => self.wake_call(call, call.args[5] as u32, tracees),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => self.requeue_call(call, tracees),
            libc::FUTEX_WAKE_OP => self.wake_op_call(call, tracees),
            libc::FUTEX_LOCK_PI
            | libc::FUTEX_LOCK_PI2
            | libc::FUTEX_UNLOCK_PI
            | libc::FUTEX_TRYLOCK_PI
            | libc::FUTEX_WAIT_REQUEUE_PI
            | libc::FUTEX_CMP_REQUEUE_PI => return FutexOutcome::Host,
            _ => Err(ENOSYS),
        };
        match result {
            Ok((count, woken)) => FutexOutcome::Answer(count, woken),
            Err(errno) => FutexOutcome::Answer(errno, Vec::new()),
        }
    }

    fn wait_call(
        &mut self,
        call: &Syscall,
        times: &Times,
        bits: u32,
        tracees: &mut impl Tracees,
    ) -> FutexOutcome {
        match self.try_wait(call, times, bits, tracees) {
            Ok(condition) => FutexOutcome::Block(condition),
            Err(errno) => FutexOutcome::Answer(errno, Vec::new()),
        }
    }

    fn try_wait(
        &mut self,
        call: &Syscall,
        times: &Times,
        bits: u32,
        tracees: &mut impl Tracees,
    ) -> Result<BlockCondition, i64> {
        let by_date = call.args[1] as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
        let relative = operation(call) == libc::FUTEX_WAIT;
        if by_date && relative {
            return Err(ENOSYS);
        }
        let deadline = match call.args[3] {
            0 => None,
            address => {
                let time = read_timespec(tracees, call.tid, address)?;
                let shown = match (relative, by_date) {
                    (true, _) => 0,
                    (false, true) => times.realtime,
                    (false, false) => times.monotonic,
                };
                times.deadline(Some(time.saturating_sub(shown)))
            }
        };
        if bits == 0 {
            return Err(EINVAL);
        }
        let key = key(tracees, call, call.args[0])?;
        let value = read_word(tracees, call.tid, call.args[0]).ok_or(EFAULT)?;
        if value != call.args[2] as u32 {
            return Err(EAGAIN);
        }
        if deadline.is_some_and(|deadline| deadline <= times.now) {
            return Err(ETIMEDOUT);
        }
        let waiter = Waiter {
            tid: call.tid,
            id: call.id,
            bits,
            word: Some((call.args[0], value)),
        };
        self.wait(key, waiter);
        Ok(BlockCondition {
            deadline,
            on_timeout: Some(ETIMEDOUT),
            on_signal: match deadline {
                Some(_) => ERESTARTNOHAND,
                None => ERESTARTSYS,
            },
            ..BlockCondition::forever()
        })
    }

    /// Takes out the first `most` that still wait: how many, and which.
    fn wake_blocked(
        &mut self,
        key: Key,
        most: usize,
        bits: u32,
        tracees: &impl Tracees,
    ) -> (i64, Vec<Waiter>) {
        let woken = self.wake(key, most, bits, |w| tracees.is_blocked(w.tid, w.id));
        (woken.len() as i64, woken)
    }

    fn wake_call(
        &mut self,
        call: &Syscall,
        bits: u32,
        tracees: &mut impl Tracees,
    ) -> Result<(i64, Vec<Waiter>), i64> {
        if bits == 0 {
            return Err(EINVAL);
        }
        let key = key(tracees, call, call.args[0])?;
        Ok(self.wake_blocked(key, most(call.args[2]), bits, tracees))
    }

    fn requeue_call(
        &mut self,
        call: &Syscall,
        tracees: &mut impl Tracees,
    ) -> Result<(i64, Vec<Waiter>), i64> {
        let [wake, moved] = [call.args[2], call.args[3]].map(|n| usize::try_from(n as i32));
        let (Ok(wake), Ok(moved)) = (wake, moved) else {
            return Err(EINVAL);
        };
        let from = key(tracees, call, call.args[0])?;
        let to = key(tracees, call, call.args[4])?;
        if operation(call) == libc::FUTEX_CMP_REQUEUE {
            let value = read_word(tracees, call.tid, call.args[0]).ok_or(EFAULT)?;
            if value != call.args[5] as u32 {
                return Err(EAGAIN);
            }
        }
        let waits = |waiter: &Waiter| tracees.is_blocked(waiter.tid, waiter.id);
        let (woken, moved) = self.requeue((from, to), (wake, moved), waits);
        Ok((woken.len() as i64 + moved as i64, woken))
    }

    fn wake_op_call(
        &mut self,
        call: &Syscall,
        tracees: &mut impl Tracees,
    ) -> Result<(i64, Vec<Waiter>), i64> {
        let first = key(tracees, call, call.args[0])?;
        let second = key(tracees, call, call.args[4])?;
        let old = read_word(tracees, call.tid, call.args[4]).ok_or(EFAULT)?;
        let (new, holds) = operate(call.args[5] as u32, old).ok_or(ENOSYS)?;
        // No other thread runs: this is as good as atomic.
        if !tracees.write(call.tid, call.args[4], &new.to_ne_bytes()) {
            return Err(EFAULT);
        }
        let holds = holds.ok_or(ENOSYS)?;
        let (mut count, mut woken) =
            self.wake_blocked(first, most(call.args[2]), u32::MAX, tracees);
        if holds {
            let (more, others) = self.wake_blocked(second, most(call.args[3]), u32::MAX, tracees);
            count += more;
            woken.extend(others);
        }
        Ok((count, woken))
    }

    /// A thread is gone, which knew itself by this number: the host's kernel has cleared the word
    /// that had it (`CLONE_CHILD_CLEARTID`), marked its robust mutexes, and woken the host's
    /// waiters for these. Takes out those that wait for that here.
    pub fn wake_after_end(&mut self, number: i32, tracees: &impl Tracees) -> Vec<Waiter> {
        let mut woken = Vec::new();
        for (key, waiter) in self.first() {
            let Some((address, value)) = waiter.word else {
                continue;
            };
            let now = read_word(tracees, waiter.tid, address).unwrap_or(value);
            let is_cleared = now == 0 && value == number as u32;
            if is_cleared || now & !value & OWNER_DIED != 0 {
                woken.extend(self.wake_blocked(key, 1, u32::MAX, tracees).1);
            }
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    fn key(address: u64) -> Key {
        Key::Private(1, address)
    }

    impl Futexes {
        fn put(&mut self, tid: i32, at: u64, bits: u32) {
            let word = Some((at, 0));
            self.wait(
                key(at),
                Waiter {
                    tid,
                    id: 0,
                    bits,
                    word,
                },
            );
        }

        fn woken(&mut self, at: u64, most: usize, bits: u32) -> Vec<i32> {
            tids(&self.wake(key(at), most, bits, |_| true))
        }

        fn moved(&mut self, ends: [u64; 2], wake: usize, most: usize) -> (Vec<i32>, usize) {
            let ends = (key(ends[0]), key(ends[1]));
            let (woken, moved) = self.requeue(ends, (wake, most), |_| true);
            (tids(&woken), moved)
        }

        fn is_empty(&self) -> bool {
            self.queues.is_empty() && self.places.is_empty()
        }
    }

    fn tids(waiters: &[Waiter]) -> Vec<i32> {
        waiters.iter().map(|waiter| waiter.tid).collect()
    }

    fn waiting(tids: &[i32], at: u64) -> Futexes {
        let mut futexes = Futexes::default();
        for tid in tids {
            futexes.put(*tid, at, ALL);
        }
        futexes
    }

    #[test]
    fn the_first_waiter_is_woken_first() {
        let mut f = waiting(&[7, 3, 5], 4);
        f.put(9, 8, ALL);
        assert_eq!(f.woken(4, 2, ALL), [7, 3]);
        assert_eq!(f.woken(4, 2, ALL), [5]);
        assert_eq!(f.woken(4, 2, ALL), []);
        assert!(f.wake(Key::Private(2, 8), 1, ALL, |_| true).is_empty());
        assert_eq!(f.woken(8, 1, ALL), [9]);
        assert!(f.is_empty());
    }

    #[test]
    fn bits_choose() {
        let mut f = Futexes::default();
        for (tid, bits) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
            f.put(tid, 4, bits);
        }
        assert_eq!(f.woken(4, 9, 2), [2, 3]);
        assert_eq!(f.woken(4, 9, 8), []);
        assert_eq!(f.woken(4, 9, ALL), [1, 4]);
    }

    #[test]
    fn whose_wait_is_over_is_not_woken() {
        let mut f = waiting(&[1, 2, 3, 4], 4);
        f.forget(2);
        f.forget(2);
        f.forget(8);
        let woken = f.wake(key(4), 1, ALL, |waiter| waiter.tid != 1);
        assert_eq!((tids(&woken), f.places.len()), (vec![3], 1));
        // It is in one place only.
        f.put(4, 8, ALL);
        assert_eq!((f.woken(4, 9, ALL), f.woken(8, 9, ALL)), (vec![], vec![4]));
        assert!(f.is_empty());
    }

    #[test]
    fn moved_waiters_queue_behind_those_that_are_there() {
        let mut f = waiting(&[1, 2, 3, 4], 4);
        f.put(9, 8, ALL);
        assert_eq!(f.moved([4, 8], 1, 2), (vec![1], 2));
        assert_eq!(f.woken(8, 9, ALL), [9, 2, 3]);
        assert_eq!(f.moved([4, 8], 0, 9), (vec![], 1));
        f.forget(4);
        assert_eq!(f.moved([8, 4], 1, 1), (vec![], 0));
        assert!(f.is_empty());
    }

    #[test]
    fn moving_to_the_same_place_only_counts() {
        let mut f = waiting(&[1, 2, 3], 4);
        assert_eq!(f.moved([4, 4], 1, 1), (vec![1], 1));
        assert_eq!(f.woken(4, 9, ALL), [2, 3]);
    }

    #[test]
    fn places_are_in_the_order_of_their_first() {
        let mut f = waiting(&[5], 12);
        for (tid, at) in [(1, 4), (2, 8), (3, 4), (4, 8)] {
            f.put(tid, at, ALL);
        }
        assert_eq!(f.woken(4, 1, ALL), [1]);
        let first = f.first().into_iter().map(|(key, waiter)| (key, waiter.tid));
        let expected = [(key(12), 5), (key(8), 2), (key(4), 3)];
        assert_eq!(first.collect::<Vec<_>>(), expected);
    }

    fn encoded(op: i32, operand: i32, comparison: i32, compared: i32) -> u32 {
        let field = |n: i32| n as u32 & 0xfff;
        (op as u32) << 28 | (comparison as u32) << 24 | field(operand) << 12 | field(compared)
    }

    #[test]
    fn operations() {
        use libc::*;
        let new = |op, operand, old| operate(encoded(op, operand, FUTEX_OP_CMP_EQ, 0), old);
        assert_eq!(new(FUTEX_OP_SET, -1, 5), Some((u32::MAX, Some(false))));
        assert_eq!(new(FUTEX_OP_ADD, -2, 1), Some((u32::MAX, Some(false))));
        assert_eq!(new(FUTEX_OP_OR, 6, 3), Some((7, Some(false))));
        assert_eq!(new(FUTEX_OP_ANDN, 6, 3), Some((1, Some(false))));
        assert_eq!(new(FUTEX_OP_XOR, 6, 0), Some((6, Some(true))));
        assert_eq!(new(5, 6, 0), None);
        let shifted = FUTEX_OP_SET | FUTEX_OP_OPARG_SHIFT;
        assert_eq!(new(shifted, 31, 1), Some((1 << 31, Some(false))));
        assert_eq!(new(shifted, 33, 1), Some((2, Some(false))));
    }

    #[test]
    fn comparisons_are_of_signed_numbers() {
        use libc::*;
        let holds = |comparison, old: i32| {
            let op = encoded(FUTEX_OP_SET, 0, comparison, -3);
            operate(op, old as u32).and_then(|(_, holds)| holds)
        };
        for (comparison, expected) in [
            (FUTEX_OP_CMP_EQ, [false, true, false]),
            (FUTEX_OP_CMP_NE, [true, false, true]),
            (FUTEX_OP_CMP_LT, [true, false, false]),
            (FUTEX_OP_CMP_LE, [true, true, false]),
            (FUTEX_OP_CMP_GT, [false, false, true]),
            (FUTEX_OP_CMP_GE, [false, true, true]),
        ] {
            let found = [-4, -3, 0].map(|old| holds(comparison, old).unwrap());
            assert_eq!(found, expected, "comparison {comparison}");
        }
        assert_eq!(holds(6, 0), None);
    }

    #[test]
    fn shared_words_are_known_by_file_and_offset() {
        let maps = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon\n\
                    7f0000001000-7f0000003000 rw-s 00004000 00:01 2054 /dev/zero (deleted)\n\
                    7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n";
        let at = |address| key_by_maps(maps, 7, address);
        assert_eq!(at(0x7f00_0000_2010), Key::File((0, 1), 2054, 0x5010));
        assert_eq!(at(0x7f00_0000_3000), Key::Memory(7, 0x7f00_0000_3000));
        assert_eq!(at(0x40_0010), Key::Memory(7, 0x40_0010));
        assert_eq!(at(8), Key::Memory(7, 8));
    }
}
