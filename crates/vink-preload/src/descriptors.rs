//! Which of the program's descriptors are Vink's: a table by their numbers.
//!
//! A Vink file has a host descriptor of the same number, its *placeholder*: a copy of one socket that is
//! connected to nothing. So the host gives out the numbers, and knows which are closed at exec. A program that
//! inherits one finds a socket on which nothing works. The table says what number the kernel's task has for
//! the file.
//!
//! An epoll instance is the host's, with one of the kernel's beside it from when a Vink file is added.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::host;

/// Larger numbers can't be Vink's.
const NUMBERS: usize = 1 << 16;
/// How many epoll instances can have Vink files in them.
const SETS: usize = 256;

const EBADF: i64 = -(libc::EBADF as i64);

/// Two bits of tag, and a number.
const TAG: u32 = 3 << 30;
const FILE: u32 = 1 << 30;
const SET: u32 = 2 << 30;
const OURS: u32 = 3 << 30;

static TABLE: [AtomicU32; NUMBERS] = [const { AtomicU32::new(0) }; NUMBERS];
/// One more than the largest number that was ever noted.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// The socket that placeholders are copies of; -1: none yet.
static PLACEHOLDER: AtomicI32 = AtomicI32::new(-1);
static EPOLLS: [Epoll; SETS] = [const {
    Epoll {
        users: AtomicU32::new(0),
        kernel: AtomicI32::new(-1),
        bell: AtomicI32::new(-1),
        mixed: AtomicBool::new(false),
        asked: AtomicU64::new(0),
    }
}; SETS];

/// What one of the program's numbers stands for.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// Nothing of Vink's.
    Host,
    /// A Vink file: its number in the kernel.
    File(i32),
    /// An epoll instance of the host, with what Vink knows of it.
    Set(&'static Epoll),
    /// A descriptor of the library's own, which the program is not to know.
    Ours,
}

/// An epoll instance.
pub(crate) struct Epoll {
    /// How many numbers it has; 0: this one is free.
    users: AtomicU32,
    /// The kernel's side; -1: there is none yet.
    kernel: AtomicI32,
    /// An eventfd(2) that becomes readable, and stays so, when the instance gets its side in the kernel; -1: no thread has
    /// waited for that.
    bell: AtomicI32,
    /// Files of the host are in it too, or may be.
    pub mixed: AtomicBool,
    /// When the host's side was last asked for what is ready, on `CLOCK_MONOTONIC` in ns.
    pub asked: AtomicU64,
}

impl Epoll {
    /// The kernel's number of its side there.
    pub fn kernel(&self) -> Option<i32> {
        let number = self.kernel.load(Ordering::SeqCst);
        (number >= 0).then_some(number)
    }

    /// Makes this its side in the kernel, or says what another thread has made it.
    pub fn adopt(&self, number: i32) -> Result<(), i32> {
        let order = Ordering::SeqCst;
        self.kernel.compare_exchange(-1, number, order, order)?;
        // A thread that waits has made the bell before it looked for the kernel's side.
        let bell = self.bell.load(order);
        if bell >= 0 {
            let args = [bell as u64, (&raw const ONE) as u64, 8, 0, 0, 0];
            host::call(libc::SYS_write, args);
        }
        Ok(())
    }

    /// Its bell, which is made if there is none, or `-errno`.
    pub fn bell(&self) -> i64 {
        let bell = self.bell.load(Ordering::SeqCst);
        if bell >= 0 {
            return bell.into();
        }
        let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as u64;
        let made = host::call(libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0]);
        if made < 0 {
            return made;
        }
        let made = move_up(made as i32);
        let order = Ordering::SeqCst;
        match self.bell.compare_exchange(-1, made, order, order) {
            Ok(_) => made.into(),
            Err(other) => {
                drop_own(made);
                other.into()
            }
        }
    }

    /// The bell goes: it has rung for another instance, or is a parent's.
    fn drop_bell(&self) {
        let bell = self.bell.swap(-1, Ordering::SeqCst);
        if bell >= 0 {
            drop_own(bell);
        }
    }
}

/// What is written to a bell.
static ONE: u64 = 1;

/// Closes a descriptor of the library's.
fn drop_own(fd: i32) {
    clear(fd as u64);
    give_back(fd as u64);
}

/// In a child that may get a stack of its own: its bells are not its parent's.
pub(crate) fn forked() {
    EPOLLS.iter().for_each(Epoll::drop_bell);
}

/// What the number stands for.
#[inline(always)]
pub(crate) fn get(fd: u64) -> Entry {
    match TABLE.get(fd as u32 as usize) {
        Some(word) => decode(word.load(Ordering::Acquire)),
        None => Entry::Host,
    }
}

#[inline(always)]
fn decode(word: u32) -> Entry {
    match word & TAG {
        0 => Entry::Host,
        FILE => Entry::File((word & !TAG) as i32),
        SET => Entry::Set(&EPOLLS[(word & !TAG) as usize]),
        _ => Entry::Ours,
    }
}

/// Gives the number another meaning; the one before.
fn put(fd: u64, word: u32) -> Entry {
    let Some(entry) = TABLE.get(fd as u32 as usize) else {
        return Entry::Host;
    };
    if word != 0 {
        TOP.fetch_max(fd as usize + 1, Ordering::Relaxed);
    }
    decode(entry.swap(word, Ordering::AcqRel))
}

/// It is a Vink file of this number in the kernel from now on. What it was.
pub(crate) fn set_file(fd: u64, kernel: i32) -> Entry {
    put(fd, FILE | kernel as u32)
}

/// It is this epoll instance, too. What it was.
pub(crate) fn set_epoll(fd: u64, epoll: &'static Epoll) -> Entry {
    epoll.users.fetch_add(1, Ordering::Relaxed);
    let index = EPOLLS.iter().position(|e| std::ptr::eq(e, epoll));
    put(fd, SET | index.expect("one of these") as u32)
}

/// It is a new epoll instance of the host's.
pub(crate) fn new_epoll(fd: u64) {
    let order = Ordering::Relaxed;
    let free = EPOLLS
        .iter()
        .position(|epoll| epoll.users.compare_exchange(0, 1, order, order).is_ok());
    if let Some(index) = free {
        EPOLLS[index].drop_bell();
        EPOLLS[index].kernel.store(-1, order);
        EPOLLS[index].mixed.store(false, order);
        put(fd, SET | index as u32);
    }
}

/// It is none of Vink's any more. What it was.
pub(crate) fn clear(fd: u64) -> Entry {
    put(fd, 0)
}

/// One number less for an epoll instance: its side in the kernel if that was the last one.
pub(crate) fn release(epoll: &Epoll) -> Option<i32> {
    let kernel = epoll.kernel();
    match epoll.users.fetch_sub(1, Ordering::Relaxed) {
        1 => kernel,
        _ => None,
    }
}

/// What is noted of the numbers from `first` to `last`.
pub(crate) fn noted(first: u64, last: u64) -> impl Iterator<Item = (u64, Entry)> {
    let end = TOP.load(Ordering::Relaxed) as u64;
    (first..end.min(last.saturating_add(1)))
        .map(|fd| (fd, get(fd)))
        .filter(|(_, entry)| !matches!(entry, Entry::Host))
}

/// Takes the lowest free number not below `least` for a Vink file, or `-errno`.
pub(crate) fn take_number(least: u64, cloexec: bool) -> i64 {
    let command = match cloexec {
        true => libc::F_DUPFD_CLOEXEC,
        false => libc::F_DUPFD,
    };
    let placeholder = PLACEHOLDER.load(Ordering::Relaxed) as u64;
    let fd = host::call(
        libc::SYS_fcntl,
        [placeholder, command as u64, least, 0, 0, 0],
    );
    if fd >= NUMBERS as i64 {
        give_back(fd as u64);
        return -i64::from(libc::EMFILE);
    }
    fd
}

/// Takes this very number, whatever it was: dup3(2) without the case of equal numbers.
pub(crate) fn take_this(fd: u64, cloexec: bool) -> i64 {
    if fd >= NUMBERS as u64 {
        return EBADF;
    }
    let placeholder = PLACEHOLDER.load(Ordering::Relaxed) as u64;
    let flags = if cloexec { libc::O_CLOEXEC as u64 } else { 0 };
    host::call(libc::SYS_dup3, [placeholder, fd, flags, 0, 0, 0])
}

/// Closes a placeholder.
pub(crate) fn give_back(fd: u64) -> i64 {
    host::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])
}

/// Below this are the program's descriptors, above it the library's, if the limit allows for it.
const HIGH: u64 = 1024;
/// How many of the library's there may be.
const OWN: u64 = 1024;

/// The lowest number for the library's descriptors.
static LEAST: AtomicU32 = AtomicU32::new(0);

/// The limit of numbers, lifted as long as this is there.
struct Lifted(libc::rlimit64);

impl Lifted {
    fn new() -> Lifted {
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        set_limit(None, Some(&mut limit));
        let least = match limit.rlim_max {
            most if most >= HIGH + OWN => limit.rlim_cur.min(HIGH),
            _ => limit.rlim_cur / 2,
        };
        let lifted = libc::rlimit64 {
            rlim_cur: limit.rlim_cur.max((least + OWN).min(limit.rlim_max)),
            ..limit
        };
        set_limit(Some(&lifted), None);
        LEAST.store(least as u32, Ordering::Relaxed);
        Lifted(limit)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        set_limit(Some(&self.0), None);
    }
}

/// prlimit(2) of the number of descriptors.
fn set_limit(new: Option<&libc::rlimit64>, old: Option<&mut libc::rlimit64>) {
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as u64);
    let old = old.map_or(0, |old| std::ptr::from_mut(old) as u64);
    let what = u64::from(libc::RLIMIT_NOFILE);
    host::call(libc::SYS_prlimit64, [0, what, new, old, 0, 0]);
}

/// fcntl(2) with `F_DUPFD_CLOEXEC`.
fn copy(fd: u64, least: u64) -> i64 {
    let command = libc::F_DUPFD_CLOEXEC as u64;
    host::call(libc::SYS_fcntl, [fd, command, least, 0, 0, 0])
}

/// Moves a descriptor to the library's. It stays where it is if there is no room.
pub(crate) fn move_up(fd: i32) -> i32 {
    let _lifted = Lifted::new();
    let moved = copy(fd as u64, LEAST.load(Ordering::Relaxed).into());
    let there = match moved {
        0.. => {
            give_back(fd as u64);
            moved as u64
        }
        _ => fd as u64,
    };
    put(there, OURS);
    there as i32
}

/// It is the library's, and this program's heirs have it, too.
pub(crate) fn hold(fd: i32) {
    put(fd as u64, OURS);
}

/// Low numbers that are taken while the library makes descriptors of its own.
pub(crate) struct Room {
    filled: Vec<u64>,
    _lifted: Lifted,
}

/// Takes all low numbers for a while, so that the library's are high ones. Makes the placeholder.
pub(crate) fn make_room() -> Room {
    let lifted = Lifted::new();
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
    let args = [libc::AF_UNIX as u64, kind, 0, 0, 0, 0];
    let placeholder = move_up(host::call(libc::SYS_socket, args) as i32);
    PLACEHOLDER.store(placeholder, Ordering::Relaxed);
    let least = LEAST.load(Ordering::Relaxed).into();
    let mut filled = Vec::new();
    loop {
        let fd = copy(placeholder as u64, 0);
        if !(0..least).contains(&fd) {
            if fd >= 0 {
                give_back(fd as u64);
            }
            break;
        }
        filled.push(fd as u64);
    }
    Room {
        filled,
        _lifted: lifted,
    }
}

/// Gives the low numbers back, and keeps those that the library has got meanwhile.
pub(crate) fn keep(room: Room) {
    for fd in &room.filled {
        give_back(*fd);
    }
    let least = u64::from(LEAST.load(Ordering::Relaxed));
    for fd in least..least + OWN {
        let open = host::call(libc::SYS_fcntl, [fd, libc::F_GETFD as u64, 0, 0, 0, 0]) >= 0;
        if open && matches!(get(fd), Entry::Host) {
            put(fd, OURS);
        }
    }
}
