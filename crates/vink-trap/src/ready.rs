//! Waiting for readiness: poll, select and epoll over Vink files, host files, or both.
//!
//! If all descriptors are Vink's and one of them is ready, the answer is what the kernel says of
//! them, exactly. In all other cases the placeholders are made to show the files' state and the host
//! does the waiting: so time-outs, signal masks, `EINTR` (which poll(2) gives even with `SA_RESTART`,
//! other than a call that waits for a seccomp answer) and mixed sets are the host's own.

use std::rc::Rc;

use vink_mailbox::NATIVE;

use crate::limits::{limits_of, read_ppoll};
use crate::notify::Notification;
use crate::process::{Entry, File, Thread};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

pub(crate) const POLLFD: usize = size_of::<libc::pollfd>();
/// The most descriptors that one call may name here; the host's limit is its descriptor limit.
pub(crate) const MOST: u64 = 1 << 20;

/// Bytes of memory that are kept from one call to the next.
const KEPT: usize = 64 << 10;

/// What select(2) takes for readable, writable and exceptional, as in the kernel's fs/select.c.
pub(crate) const SETS: [u32; 3] = [
    (libc::EPOLLRDNORM | libc::EPOLLRDBAND | libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR)
        as u32,
    (libc::EPOLLWRBAND | libc::EPOLLWRNORM | libc::EPOLLOUT | libc::EPOLLERR) as u32,
    libc::EPOLLPRI as u32,
];

/// A Vink descriptor that a call asks about.
struct Asked {
    fd: i32,
    entry: Entry,
    /// Where the call names it: an index of the array, or a bit of a set.
    place: usize,
    /// What makes it ready for this call (`EPOLL*`).
    wanted: u32,
    /// What is true of it.
    events: u32,
}

impl Worker {
    /// poll(2) and ppoll(2).
    pub(crate) fn poll(&mut self, call: Notification) -> Result<(), Error> {
        self.scratch.clear();
        self.scratch.shrink_to(KEPT);
        let count = call.args[1] & 0xffff_ffff;
        let process = &self.processes[&self.threads[&call.tid].pid];
        if process.table.is_empty() || count == 0 || count > MOST {
            return self.pass(call);
        }
        self.scratch.resize(count as usize * POLLFD, 0);
        // What the host refuses whatever is ready is the host's.
        let is_sound = match call.nr {
            libc::SYS_ppoll => read_ppoll(call, &mut self.scratch).is_ok(),
            _ => target::read(call.tid, call.args[0], &mut self.scratch),
        };
        if !is_sound {
            return self.pass(call);
        }
        let (mut asked, mut hosts) = (Vec::new(), Vec::new());
        let mut pure = true;
        for (place, pollfd) in self.scratch.chunks_exact_mut(POLLFD).enumerate() {
            let fd = i32::from_ne_bytes(pollfd[..4].try_into().expect("four bytes"));
            let events = u16::from_ne_bytes(pollfd[4..6].try_into().expect("two bytes"));
            pollfd[6..].fill(0);
            match process.table.get(fd as u64) {
                Some(entry) => asked.push(Asked {
                    fd,
                    entry: entry.clone(),
                    place,
                    wanted: u32::from(events) | (libc::EPOLLERR | libc::EPOLLHUP) as u32,
                    events: 0,
                }),
                None if fd < 0 => {}
                None => {
                    pure = false;
                    hosts.push(fd);
                }
            }
        }
        self.show_to_others(call.tid, &hosts);
        self.lay_open(call, &asked)?;
        if !self.look(call, &mut asked)? || !pure {
            return self.wait_natively(call, &asked);
        }
        let mut ready = 0;
        for asked in &asked {
            let found = asked.events & asked.wanted;
            ready += i64::from(found != 0);
            let at = asked.place * POLLFD + 6;
            self.scratch[at..at + 2].copy_from_slice(&(found as u16).to_ne_bytes());
        }
        let written = target::write(call.tid, call.args[0], &self.scratch);
        self.answer(call, if written { ready } else { EFAULT })
    }

    /// select(2) and pselect6(2).
    pub(crate) fn select(&mut self, call: Notification) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&call.tid].pid];
        let count = call.args[0] as i32;
        if process.table.is_empty() || count <= 0 || count as u64 > MOST {
            return self.pass(call);
        }
        let set_len = (count as usize).div_ceil(64) * 8;
        self.scratch.clear();
        self.scratch.shrink_to(KEPT);
        self.scratch.resize(SETS.len() * set_len, 0);
        let sets = self.scratch.chunks_exact_mut(set_len).zip(&call.args[1..4]);
        let named = |(set, address): (_, &u64)| (*address != 0).then_some((*address, set));
        let mut named: Vec<_> = sets.filter_map(named).collect();
        if target::read_parts(call.tid, &mut named) != named.len() * set_len {
            return self.pass(call);
        }
        let (mut asked, mut hosts) = (Vec::new(), Vec::new());
        let mut pure = true;
        for (n, set) in self.scratch.chunks_exact(set_len).enumerate() {
            for fd in 0..count as usize {
                if set[fd / 8] & 1 << (fd % 8) == 0 {
                    continue;
                }
                match process.table.get(fd as u64) {
                    Some(entry) => asked.push(Asked {
                        fd: fd as i32,
                        entry: entry.clone(),
                        place: n * set_len * 8 + fd,
                        wanted: SETS[n],
                        events: 0,
                    }),
                    None => {
                        pure = false;
                        hosts.push(fd as i32);
                    }
                }
            }
        }
        self.show_to_others(call.tid, &hosts);
        self.lay_open(call, &asked)?;
        if !self.look(call, &mut asked)? || !pure || limits_of(call).is_err() {
            return self.wait_natively(call, &asked);
        }
        self.scratch.fill(0);
        let mut ready = 0;
        for asked in asked.iter().filter(|a| a.events & a.wanted != 0) {
            self.scratch[asked.place / 8] |= 1 << (asked.place % 8);
            ready += 1;
        }
        let sets = self.scratch.chunks_exact(set_len).zip(&call.args[1..4]);
        let named = |(set, address): (_, &u64)| (*address != 0).then_some((*address, set));
        let named: Vec<_> = sets.filter_map(named).collect();
        let written = target::write_parts(call.tid, &named) == named.len() * set_len;
        self.answer(call, if written { ready } else { EFAULT })
    }

    /// epoll_create(2): from now on the placeholders of all that the process has follow their files.
    pub(crate) fn epoll_create(&mut self, call: Notification) -> Result<(), Error> {
        let table = self.table_of(call.tid);
        table.set_followed();
        if call.args[5] != NATIVE {
            table.set_seen_by_others();
        }
        for entry in table.entries() {
            self.follow(call.tid, &entry)?;
        }
        self.pass(call)
    }

    /// Has a file's placeholder show every change of it, for an epoll instance that may get it. For a
    /// thread that makes a call.
    pub(crate) fn follow(&mut self, tid: i32, entry: &Entry) -> Result<(), Error> {
        if entry.file.followed.replace(true) {
            return Ok(());
        }
        match self.task_of(tid) {
            Ok(task) => {
                let events = self.watch(task, entry)?;
                entry.file.placeholder.show(events);
                Ok(())
            }
            Err(error) => soften(error).map(drop),
        }
    }

    /// Finds out what is true of the files. Whether any is as wanted.
    fn look(&mut self, call: Notification, asked: &mut [Asked]) -> Result<bool, Error> {
        if asked.is_empty() {
            return Ok(false);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(|_| false),
        };
        let mut ready = false;
        for asked in asked {
            asked.events = self.watch(task, &asked.entry)?;
            ready |= asked.events & asked.wanted != 0;
        }
        Ok(ready)
    }

    /// From now on boards tell a process that has a mailbox of the streams that it waits for.
    fn lay_open(&mut self, call: Notification, asked: &[Asked]) -> Result<(), Error> {
        let desk = self.table_of(call.tid).desk();
        let Some(desk) = desk.filter(|_| self.mail.is_some() && self.turn.is_none()) else {
            return Ok(());
        };
        let mut any = false;
        for Asked { fd, entry, .. } in asked {
            if !self.finds_stream(call.tid, &desk, *fd, entry)? {
                continue;
            }
            any = true;
            // A call that is in progress would not tell what it leaves.
            let is_it = |file: &Rc<File>| Rc::ptr_eq(file, &entry.file);
            let has_it = |t: &Thread| {
                t.busy
                    .as_ref()
                    .and_then(|b| b.busy.file.as_ref())
                    .is_some_and(is_it)
            };
            if !entry.file.followed.get() && self.threads.values().any(has_it) {
                continue;
            }
            self.follow(call.tid, entry)?;
            if entry.file.cookie.get() != 0 {
                entry.file.lay_open(&desk, *fd);
            }
        }
        if any {
            self.stay_awake_for(desk);
        }
        Ok(())
    }

    /// Shows what is true and lets the host do the call.
    fn wait_natively(&mut self, call: Notification, asked: &[Asked]) -> Result<(), Error> {
        let desk = self.table_of(call.tid).desk();
        let is_counted = desk.is_some_and(|desk| desk.counts(call.tid));
        for asked in asked {
            let placeholder = &asked.entry.file.placeholder;
            match is_counted {
                true => placeholder.catch_up(),
                false => placeholder.share(),
            }
            placeholder.show(asked.events);
        }
        self.pass(call)
    }
}

const EFAULT: i64 = -(libc::EFAULT as i64);
