//! What holds of every run queue, batch, call and set of timers; and of futexes and locks, that the
//! host's kernel says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use vink_sched::batch::{Batch, BatchRule};
use vink_sched::conflict::{conflict_class, is_independent, Files};
use vink_sched::futex::operate;
use vink_sched::locks::{holders, range_of, LockedFile, Range};
use vink_sched::run_queue::{Queued, RunQueue};
use vink_sched::timers::{Due, Setting, TimerId, TimerNotify, Timers};
use vink_sys::errno::ENOSYS;
use vink_sys::fd::{range_lock, set_lock, LockOwner};

/// Something that can go on: its thread, and which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ready(i32, usize);

impl Queued for Ready {
    fn tid(&self) -> i32 {
        self.0
    }
}

/// What is done to a run queue.
#[derive(Clone, Debug)]
enum Step {
    Push(i32),
    PushFirst(i32),
    Take,
    Forget(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..9).prop_map(Step::Push),
        1 => (0..9).prop_map(Step::PushFirst),
        3 => Just(Step::Take),
        1 => (0..9).prop_map(Step::Forget),
    ]
}

/// What is taken of a queue, and what is left in it.
fn run(steps: &[Step], seed: Option<u64>) -> (Vec<Ready>, Vec<Ready>) {
    let (mut queue, mut taken) = (RunQueue::default(), Vec::new());
    queue.set_seed(seed);
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Push(tid) => queue.push(Ready(*tid, index)),
            Step::PushFirst(tid) => queue.push_first(Ready(*tid, index)),
            Step::Take => taken.extend(queue.take_next()),
            Step::Forget(tid) => queue.forget(*tid),
        }
    }
    (taken, queue.iter().cloned().collect())
}

/// Threads' machines, those that may be in a batch, and what is independent.
#[derive(Clone, Debug)]
struct Rules {
    machines: [u64; 40],
    may_batch: [bool; 40],
    independent: [bool; 40],
}

impl BatchRule<Ready> for Rules {
    fn machine(&self, ready: &Ready) -> u64 {
        self.machines[ready.0 as usize]
    }
    fn may_batch(&self, tid: i32) -> bool {
        self.may_batch[tid as usize]
    }
    fn is_independent(&mut self, ready: &Ready) -> bool {
        self.independent[ready.0 as usize]
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let machines = any::<[u8; 40]>().prop_map(|all| all.map(|n| u64::from(n % 40)));
    let often = || any::<[u8; 40]>().prop_map(|all| all.map(|n| n % 8 != 0));
    (machines, often(), often()).prop_map(|(machines, may_batch, independent)| Rules {
        machines,
        may_batch,
        independent,
    })
}

/// What is behind the descriptors of a thread.
#[derive(Clone, Debug)]
struct Descriptors {
    vink: BTreeSet<u64>,
    private: BTreeSet<u64>,
    read_only: BTreeSet<u64>,
    polled: Vec<u64>,
}

impl Files for Descriptors {
    fn is_vink(&self, fd: u64) -> bool {
        self.vink.contains(&fd)
    }
    fn is_private(&mut self, fd: u64, _: i16) -> bool {
        self.private.contains(&fd)
    }
    fn is_read_only(&self, fd: u64) -> bool {
        self.read_only.contains(&fd)
    }
    fn polled(&self) -> Option<Vec<u64>> {
        Some(self.polled.clone())
    }
    fn is_null_device(&self, _: u64) -> bool {
        false
    }
    fn names_no_socket(&self, _: u64) -> bool {
        false
    }
}

fn descriptors() -> impl Strategy<Value = Descriptors> {
    let some = || proptest::collection::btree_set(0..6_u64, 0..6);
    let all = (some(), some(), some(), vec(0..6_u64, 0..4));
    all.prop_map(|(vink, private, read_only, polled)| Descriptors {
        vink,
        private,
        read_only,
        polled,
    })
}

/// Calls that move data by a descriptor.
fn plain_io() -> Vec<i64> {
    let all = 0..500;
    all.filter(|nr| vink_syscalls::is_plain_io(*nr)).collect()
}

/// All timers that are due at this time, in their order.
fn fired(timers: &mut Timers, now: u64) -> Vec<Due> {
    std::iter::from_fn(|| timers.take_due(now)).collect()
}

/// How often each was due.
fn count(all: &[Due]) -> BTreeMap<TimerId, u64> {
    let mut counts = BTreeMap::new();
    for due in all {
        *counts.entry(due.name).or_default() += due.times;
    }
    counts
}

fn timers(settings: &[(u64, u64)]) -> Timers {
    let mut timers = Timers::default();
    for (next, interval) in settings {
        let number = timers.make(7, libc::CLOCK_MONOTONIC, |_| TimerNotify::Signal {
            signal: libc::SIGALRM,
            value: 0,
            thread: None,
        });
        let setting = Setting {
            next: *next,
            interval: *interval,
        };
        timers.set(TimerId::Made(7, number), 0, setting);
    }
    timers
}

fn lock(write: bool, whence: i32, start: i64, length: i64) -> libc::flock {
    let kind = if write { libc::F_WRLCK } else { libc::F_RDLCK };
    range_lock(kind, whence, start, length)
}

proptest! {
    #[test]
    fn a_run_queue_loses_nothing_and_repeats(steps in vec(step(), 0..60), seed in any::<u64>()) {
        let mut model = std::collections::VecDeque::new();
        let mut expected = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Push(tid) => model.push_back(Ready(*tid, index)),
                Step::PushFirst(tid) => model.push_front(Ready(*tid, index)),
                Step::Take => expected.extend(model.pop_front()),
                Step::Forget(tid) => model.retain(|ready| ready.0 != *tid),
            }
        }
        prop_assert_eq!(run(&steps, None), (expected, model.into()));
        let drawn = run(&steps, Some(seed));
        prop_assert_eq!(&drawn, &run(&steps, Some(seed)));
        // Each comes out once at most, and stays in the queue's order until then.
        let (taken, left) = drawn;
        let all: BTreeSet<usize> = taken.iter().chain(&left).map(|ready| ready.1).collect();
        prop_assert_eq!(all.len(), taken.len() + left.len());
        let forgets = steps.iter().any(|step| matches!(step, Step::Forget(_)));
        let pushed = |step: &&Step| matches!(step, Step::Push(_) | Step::PushFirst(_));
        prop_assert!(forgets || all.len() == steps.iter().filter(pushed).count());
    }

    #[test]
    fn a_batch_has_one_thread_of_a_machine_and_keeps_the_others_order(
        tids in vec(0..40, 1..200),
        mut rules in rules(),
    ) {
        let mut queue = RunQueue::default();
        let all: Vec<Ready> = tids.iter().enumerate().map(|(n, tid)| Ready(*tid, n)).collect();
        all.iter().for_each(|ready| queue.push(ready.clone()));
        let mut batch = Batch::default();
        let mut left = all;
        while batch.begin_next(&mut queue, &mut rules) {
            let members: Vec<Ready> = std::iter::from_fn(|| batch.next_member(false)).collect();
            // The first one is always among them: none is passed over for ever.
            prop_assert_eq!(&members[0], &left[0]);
            if members.len() > 1 {
                let machines: BTreeSet<u64> = members.iter().map(|m| rules.machine(m)).collect();
                prop_assert_eq!(machines.len(), members.len());
                for member in &members {
                    let tid = member.0;
                    prop_assert!(rules.may_batch(tid) && rules.is_independent(member));
                }
            }
            left.retain(|ready| !members.contains(ready));
            prop_assert!(queue.iter().eq(&left));
        }
        prop_assert!(left.is_empty());
    }

    #[test]
    fn data_is_moved_beside_others_only_where_they_are_not(
        nr in prop_oneof![0..500_i64, select(plain_io())],
        args in any::<[u8; 6]>(),
        mut files in descriptors(),
    ) {
        let args = args.map(|argument| u64::from(argument % 8));
        let runs = is_independent(&conflict_class(nr, args), &mut files);
        if runs && vink_syscalls::is_plain_io(nr) {
            prop_assert!(files.vink.contains(&args[0]) || files.private.contains(&args[0]));
        }
        // More that is a thread's own never makes its call conflict.
        files.vink.extend(0..8);
        prop_assert!(!runs || is_independent(&conflict_class(nr, args), &mut files));
    }

    #[test]
    fn timers_are_due_as_often_however_time_passes(
        settings in vec((1..1000_u64, prop_oneof![Just(0), 1..50_u64]), 1..6),
        mut stops in vec(1..2000_u64, 0..8),
    ) {
        stops.push(2000);
        stops.sort_unstable();
        let at_once = fired(&mut timers(&settings), 2000);
        let (mut stepped, mut in_steps) = (timers(&settings), Vec::new());
        for now in stops {
            in_steps.extend(fired(&mut stepped, now));
            prop_assert!(stepped.next().is_none_or(|next| next > now));
        }
        prop_assert_eq!(count(&at_once), count(&in_steps));
        for (number, (next, interval)) in settings.iter().enumerate() {
            let expected = (2000 - next).checked_div(*interval).unwrap_or(0) + 1;
            let name = TimerId::Made(7, number as i32);
            prop_assert_eq!(count(&at_once)[&name], expected);
        }
    }

    #[test]
    fn the_host_makes_the_same_of_a_futex_word(encoded in any::<u32>(), old in any::<u32>()) {
        let (first, second) = (0_u32, old);
        let mut words = [first, second];
        let at = words.as_mut_ptr();
        // SAFETY: both words live until the call has returned, and nothing waits for them.
        let found = unsafe {
            let op = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, at, op, 1, 1_usize, at.add(1), encoded)
        };
        let (word, result) = match operate(encoded, old) {
            None => (old, ENOSYS),
            Some((word, None)) => (word, ENOSYS),
            Some((word, Some(_))) => (word, 0),
        };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let found = if found < 0 { -i64::from(errno) } else { found };
        prop_assert_eq!((words[1], found), (word, result));
    }

    #[test]
    fn the_host_grants_the_same_locks(
        held in vec((any::<bool>(), 0..60_i64, 0..20_i64), 0..4),
        (write, whence) in (any::<bool>(), 0..3),
        (start, length) in (-30..80_i64, -30..30_i64),
    ) {
        const SIZE: i64 = 40;
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"locks".as_ptr(), libc::MFD_CLOEXEC) };
        prop_assert!(fd >= 0);
        // SAFETY: the descriptor is new, and nothing else has it.
        let file = unsafe { fs::File::from_raw_fd(fd) };
        file.set_len(SIZE as u64).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = fs::File::options().read(true).write(true).open(path).unwrap();
        for (write, start, length) in held {
            let lock = lock(write, libc::SEEK_SET, start, length);
            set_lock(&file, LockOwner::OpenFile, &lock).unwrap();
        }
        let metadata = file.metadata().unwrap();
        let (major, minor) = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
        let device = format!("{major:02x}:{minor:02x}");
        let place = LockedFile { device, inode: metadata.ino() };
        let before = fs::read_to_string("/proc/locks").unwrap();
        let wanted = lock(write, whence, start, length);
        let expected = range_of(&wanted, 0, SIZE).map(|range: Range| {
            holders(&before, 0, &place, range).is_empty()
        });
        let found = match set_lock(&other, LockOwner::OpenFile, &wanted) {
            Ok(()) => Some(true),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Some(false),
            Err(_) => None,
        };
        prop_assert_eq!(found, expected);
    }
}
