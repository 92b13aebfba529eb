//! Calls that programs post in shared memory instead of making them (`vink-mailbox`): lending mailboxes, and serving
//! what is posted there.
//!
//! A process that has `vink-quick` loaded asks for its mailbox, and each of its threads for a slot, by a call that no
//! kernel knows and that is trapped. The mailbox says of which descriptors calls may be posted: a stream is marked
//! when a call on it has been trapped, and unmarked when the table loses it, before its number can mean anything else.
//!
//! After a trapped call on a stream of a process with a mailbox, the worker stays awake for [`AWAKE`] and looks there
//! ("attends"); so it does after each call found. Then it sleeps, as ever, until something is trapped. It has a
//! processor of its own for that, which its programs don't use (`processors`).
//!
//! A posted call goes the way of a trapped one ([`Stage::Mail`]), but with the worker's own memory, and never waits.
//!
//! In virtual time nothing is posted, and nobody awake; what the mailbox says of pipes is for calls that are not trapped (`turn`,
//! `free`).

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null_mut, NonNull};
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vink_kernel::{Call, Outcome};
use vink_mailbox::{
    Mailbox, Request, Turn, FILES, GET_MAILBOX, GET_SLOT, HOST, OTHER, PIPE, RECEIVES, REFUSED,
    SENDS, SHOW, SLOTS, STREAM, UNKNOWN,
};

use crate::board::Laggards;
use crate::near::{affinity, bind, count};
use crate::notify::{Notification, Sent};
use crate::process::{Busy, Entry, File, Stage};
use crate::serve::{poll_fd, soften};
use crate::turn::Patience;
use crate::worker::Worker;
use crate::Error;

const EBADF: i64 = -(libc::EBADF as i64);
const FIONREAD: i32 = libc::FIONREAD as i32;
const EAGAIN: i64 = -(libc::EAGAIN as i64);

/// How long the worker stays awake for the next posted call.
const AWAKE: Duration = Duration::from_micros(50);
/// Looks at mailboxes between two at all else, and for how many of them serving what was found there counts.
const LOOKS: u32 = 256;
const SERVING: u32 = 16;

/// A process's mailbox, and whose its slots are.
pub(crate) struct Desk {
    mailbox: NonNull<Mailbox>,
    /// The thread of each slot; 0: nobody's.
    owners: RefCell<[i32; SLOTS]>,
    /// The process.
    pid: i32,
    attended: Cell<bool>,
    /// In virtual time, the call whose descriptors stand there as those waited for; 0: none.
    pub(crate) waits: Cell<u64>,
    /// ... and the one that the process itself has written down there.
    pub(crate) asks: Cell<u64>,
    laggards: Laggards,
    /// The slot whose letters are next.
    next: Cell<usize>,
}

impl Desk {
    /// A mailbox that nobody has yet, and its file.
    fn new(id: u64, pid: i32) -> io::Result<(Desk, OwnedFd)> {
        let len = size_of::<Mailbox>();
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: makes a file, whose size nobody can change, and maps all of it.
        let (mailbox, file) = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let fd = libc::memfd_create(c"vink-mailbox".as_ptr(), flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let file = OwnedFd::from_raw_fd(fd);
            if libc::ftruncate(fd, len as libc::off_t) < 0
                || libc::fcntl(fd, libc::F_ADD_SEALS, seals) < 0
            {
                return Err(io::Error::last_os_error());
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            match libc::mmap(null_mut(), len, access, libc::MAP_SHARED, fd, 0) {
                libc::MAP_FAILED => return Err(io::Error::last_os_error()),
                at => (NonNull::new_unchecked(at.cast::<Mailbox>()), file),
            }
        };
        let desk = Desk {
            mailbox,
            owners: RefCell::new([0; SLOTS]),
            pid,
            attended: Cell::new(false),
            waits: Cell::new(0),
            asks: Cell::new(0),
            laggards: Laggards::default(),
            next: Cell::new(0),
        };
        desk.mailbox().id.store(id, Ordering::Relaxed);
        desk.mailbox().natives.store(1, Ordering::Relaxed);
        Ok((desk, file))
    }

    fn mailbox(&self) -> &Mailbox {
        // SAFETY: mapped until this is dropped; all that another process can change are atomics, and bytes that
        // are reached by pointers only.
        unsafe { self.mailbox.as_ref() }
    }

    /// Says what a descriptor of the program's is.
    fn mark(&self, fd: i32, kind: u8) {
        if let Some(file) = self.mailbox().files.get(fd as u32 as usize) {
            file.store(kind, Ordering::Release);
        }
    }

    /// It is a pipe of the host's, in virtual time.
    pub(crate) fn mark_pipe(&self, fd: i32) {
        self.mark(fd, PIPE);
    }

    /// No number is known as a pipe's any more.
    pub(crate) fn unmark_pipes(&self) {
        let files = self.mailbox().files.iter();
        for file in files.filter(|file| file.load(Ordering::Relaxed) == PIPE) {
            file.store(UNKNOWN, Ordering::Release);
        }
    }

    /// What there is to say in virtual time.
    pub(crate) fn turn(&self) -> &Turn {
        &self.mailbox().turn
    }

    fn kind(&self, fd: i32) -> u8 {
        let file = self.mailbox().files.get(fd as u32 as usize);
        file.map_or(OTHER, |file| file.load(Ordering::Relaxed))
    }

    /// The number does not mean what it has meant.
    pub(crate) fn unmark(&self, fd: i32) {
        self.mark(fd, UNKNOWN);
    }

    /// The same when it has been closed.
    pub(crate) fn clear(&self, fd: i32) {
        self.unmark(fd);
        if let Some(board) = self.mailbox().boards.get(fd as u32 as usize) {
            board.renew();
        }
    }

    pub(crate) fn has_board(&self, fd: i32) -> bool {
        (fd as u32 as usize) < FILES && !self.is_closed()
    }

    /// So many bytes can be sent for certain on a number.
    pub(crate) fn tell_room(&self, fd: i32, room: u32) {
        let mailbox = self.mailbox();
        if let Some(board) = mailbox.boards.get(fd as u32 as usize) {
            board.tell_room(mailbox.traps.load(Ordering::Relaxed), room);
        }
    }

    /// Whether a letter for a number is on its way.
    fn has_letter_for(&self, fd: i32) -> bool {
        let board = self.mailbox().boards.get(fd as u32 as usize);
        board.is_some_and(|board| board.is_taken())
    }

    /// A call of the process has been trapped: what room there is is not certain any more.
    pub(crate) fn note_trap(&self) {
        self.mailbox().traps.fetch_add(1, Ordering::AcqRel);
    }

    fn has_letters(&self) -> bool {
        self.mailbox().letters.0.load(Ordering::SeqCst) != 0
    }

    /// A slot that may have letters: each has its turn.
    fn next_letters(&self) -> Option<usize> {
        let there = self.mailbox().letters.0.load(Ordering::Acquire);
        if there == 0 {
            return None;
        }
        let first = self.next.get() as u32;
        let ahead = there.rotate_right(first).trailing_zeros();
        let slot = (first + ahead) as usize % SLOTS;
        self.next.set((slot + 1) % SLOTS);
        Some(slot)
    }

    /// Tells on a number's board what is true, and of what it has become so.
    pub(crate) fn tell(&self, fd: i32, events: u32, again: u32, shared: bool) {
        let mailbox = self.mailbox();
        if let Some(board) = mailbox.boards.get(fd as u32 as usize) {
            board.tell(events, again, shared);
            mailbox.changes.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether nobody looks but those who look at boards.
    pub(crate) fn answers(&self) -> bool {
        self.attended.get()
            && self.laggards.are_allowed()
            && self.mailbox().natives.load(Ordering::SeqCst) == 0
    }

    /// Whether this thread, which polls, is counted as one who looks.
    pub(crate) fn counts(&self, tid: i32) -> bool {
        let slot = self.owners.borrow().iter().position(|o| *o == tid);
        let looking = self.mailbox().looking.load(Ordering::SeqCst);
        slot.is_some_and(|slot| looking & 1 << slot != 0 && !self.answers())
    }

    /// This file's placeholder lags.
    pub(crate) fn lags(&self, file: Weak<File>) {
        self.laggards.add(file);
    }

    pub(crate) fn allows_lags(&self) -> bool {
        self.laggards.are_allowed()
    }

    /// From now on none does.
    pub(crate) fn forbid_lags(&self) {
        self.laggards.forbid();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.laggards.is_closed()
    }

    /// Nothing is told here any more.
    pub(crate) fn close(&self) {
        self.laggards.close();
        self.unmark_range(0, u32::MAX);
    }

    /// The same of all numbers from `first` to `last`.
    pub(crate) fn unmark_range(&self, first: u32, last: u32) {
        let files = self.mailbox().files.iter().enumerate();
        for (fd, file) in files.skip(first as usize) {
            if fd > last as usize {
                break;
            }
            file.store(UNKNOWN, Ordering::Release);
            self.mailbox().boards[fd].renew();
        }
    }

    /// Whether nothing is posted.
    fn is_empty(&self) -> bool {
        self.mailbox().posted.0.load(Ordering::SeqCst) == 0 && !self.has_letters()
    }

    fn attend(&self, attended: bool) {
        if !attended {
            self.laggards.catch_up();
        }
        self.attended.set(attended);
        let attended = attended.into();
        self.mailbox().attended.store(attended, Ordering::SeqCst);
    }

    /// A slot for a thread; none if all are taken by threads that are `alive`.
    fn slot(&self, tid: i32, alive: impl Fn(i32) -> bool) -> Option<usize> {
        let mut owners = self.owners.borrow_mut();
        let own = owners.iter().position(|owner| *owner == tid);
        let free = || owners.iter().position(|o| *o == 0 || !alive(*o));
        let slot = own.or_else(free)?;
        if owners[slot] != tid {
            owners[slot] = tid;
            self.mailbox().slots[slot].outbox.clear();
        }
        Some(slot)
    }

    pub(crate) fn answer(&self, slot: usize, result: i64) {
        self.mailbox().slots[slot].set_answer(result);
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A thread that has just posted finds that nobody attends.
        self.attend(false);
        // SAFETY: mapped by `new`, and nobody refers to it any more.
        unsafe { libc::munmap(self.mailbox.as_ptr().cast(), size_of::<Mailbox>()) };
    }
}

/// Who runs where.
pub(crate) struct Processors {
    worker: libc::cpu_set_t,
    programs: libc::cpu_set_t,
}

impl Processors {
    /// Takes the last of this thread's processors for it alone: the first one tends to have the most
    /// interrupts. `None` if there is no other.
    fn part() -> Option<Processors> {
        let mut programs = affinity(0).filter(|own| count(own) > 1)?;
        // SAFETY: changes and looks at sets, by numbers that they can have; all zero is an empty one.
        unsafe {
            let all = 0..libc::CPU_SETSIZE as usize;
            let last = all.rev().find(|cpu| libc::CPU_ISSET(*cpu, &programs))?;
            libc::CPU_CLR(last, &mut programs);
            let mut worker: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(last, &mut worker);
            bind(0, &worker).then_some(Processors { worker, programs })
        }
    }

    /// What is forked meanwhile is a program.
    fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        bind(0, &self.programs);
        let done = fork();
        bind(0, &self.worker);
        done
    }
}

/// The mail of a worker's programs.
pub(crate) struct Mail {
    /// `None`: in virtual time.
    processors: Option<Processors>,
    last_id: u64,
    /// Those attended to.
    desks: Vec<Rc<Desk>>,
    /// Until when, if nothing is posted.
    until: Option<Instant>,
    /// Looks at mailboxes since the last one at all else.
    looks: u32,
    /// What has come of an answered call may not be told yet.
    untold: bool,
}

impl Mail {
    fn new(processors: Option<Processors>) -> Mail {
        Mail {
            processors,
            last_id: 0,
            desks: Vec::new(),
            until: None,
            looks: 0,
            untold: false,
        }
    }

    /// Whether all that has come of answered calls is told: to those who look at boards.
    pub(crate) fn set_untold(&mut self, untold: bool) {
        if self.untold != untold {
            self.untold = untold;
            for desk in &self.desks {
                desk.mailbox()
                    .untold
                    .0
                    .store(untold.into(), Ordering::SeqCst);
            }
        }
    }

    /// What is forked meanwhile is a program.
    pub(crate) fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        match &self.processors {
            Some(processors) => processors.lend(fork),
            None => fork(),
        }
    }
}

impl Worker {
    /// Lets programs that are started from now on with `libvink_quick.so` loaded (`LD_PRELOAD`) post calls in shared
    /// memory, which costs them no system call. From now on this thread has one processor for itself, and programs have
    /// the others. False if it can't be: there is one processor only, or calls are traced.
    ///
    /// In virtual time they post nothing, and all stay on their processors: what they do with pipes of the host's is not trapped,
    /// if it can be done without waiting. Then such calls are not seen ([`Worker::observe_calls`]), nor charged for; where
    /// calls are to be charged for ([`crate::Charge::call`]), all are trapped.
    pub fn allow_mail(&mut self) -> bool {
        if self.tracer.is_some() {
            return false;
        }
        self.near = None;
        self.mail = match self.turn {
            Some(_) => Some(Mail::new(None)),
            None => Processors::part().map(|processors| Mail::new(Some(processors))),
        };
        self.mail.is_some()
    }

    /// Whether the call asks for a mailbox or a slot; it is answered then.
    pub(crate) fn lend(&mut self, call: Notification) -> Result<bool, Error> {
        if call.nr != libc::SYS_ioctl || call.args[0] as i32 != -1 {
            return Ok(false);
        }
        match call.args[1] {
            GET_MAILBOX => self.lend_mailbox(call)?,
            GET_SLOT => {
                let table = self.table_of(call.tid);
                let pid = self.threads[&call.tid].pid;
                let alive = |tid| self.threads.get(&tid).is_some_and(|t| t.pid == pid);
                let desk = table.desk();
                let slot = desk.and_then(|desk| desk.slot(call.tid, alive));
                self.answer(call, slot.map_or(EBADF, |slot| slot as i64))?;
            }
            SHOW => {
                let desk = self.table_of(call.tid).desk();
                if let Some(desk) = &desk {
                    self.send_letters_of(desk)?;
                    desk.laggards.catch_up();
                }
                self.answer(call, desk.map_or(EBADF, |_| 0))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn lend_mailbox(&mut self, call: Notification) -> Result<(), Error> {
        let table = self.table_of(call.tid);
        let shares = table.is_shared() || table.desk().is_some();
        let (is_virtual, all_trapped) = (self.turn.is_some(), self.charges_calls());
        let (Some(mail), false) = (&mut self.mail, shares || all_trapped) else {
            return self.answer(call, EBADF);
        };
        mail.last_id += 1;
        let pid = self.threads[&call.tid].pid;
        let Ok((desk, file)) = Desk::new(mail.last_id, pid) else {
            return self.answer(call, -i64::from(libc::ENOMEM));
        };
        let turn = desk.turn();
        turn.is_virtual.store(is_virtual.into(), Ordering::Relaxed);
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        self.show_time(call.tid, Patience::Runs);
        match listener.answer_fd(call.id, file.as_raw_fd(), true) {
            Ok((Sent::Gone, _)) => Ok(()),
            Ok((Sent::Taken, fd)) => {
                self.tell_of(call, Some(fd.into()));
                self.goes_out(call, Sent::Taken, Patience::Runs);
                let table = self.table_of(call.tid);
                if table.is_seen_by_others() {
                    desk.forbid_lags();
                }
                table.set_desk(Rc::new(desk));
                Ok(())
            }
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }

    /// A call on one of Vink's files has been trapped, though its process may have a mailbox.
    pub(crate) fn expect_mail(&mut self, call: Notification, entry: &Entry) -> Result<(), Error> {
        let desk = self.table_of(call.tid).desk();
        let Some(desk) = desk.filter(|_| self.turn.is_none()) else {
            return Ok(());
        };
        let fd = call.args[0] as i32;
        if self.finds_stream(call.tid, &desk, fd, entry)? {
            entry.file.lay_open(&desk, fd);
            self.stay_awake_for(desk);
        }
        Ok(())
    }

    /// Attends to a mailbox.
    pub(crate) fn stay_awake_for(&mut self, desk: Rc<Desk>) {
        let mail = self.mail.as_mut().expect("it has lent this one");
        mail.until = Some(Instant::now() + AWAKE);
        if !desk.attended.get() {
            desk.attend(true);
            mail.desks.push(desk);
        }
    }

    /// Whether a descriptor of a process with a mailbox is a stream, which is marked there from now on.
    pub(crate) fn finds_stream(
        &mut self,
        tid: i32,
        desk: &Desk,
        fd: i32,
        entry: &Entry,
    ) -> Result<bool, Error> {
        if desk.kind(fd) == UNKNOWN {
            let is_stream = self.is_stream(tid, entry)?;
            desk.mark(fd, if is_stream { STREAM } else { OTHER });
        }
        Ok(desk.kind(fd) == STREAM)
    }

    /// A call on one of the host's files has been trapped, though its process may have a mailbox.
    pub(crate) fn expect_none(&self, call: Notification) {
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if self.carrier.is_none() && self.turn.is_none() {
            if let Some(desk) = self.table_of(call.tid).desk() {
                desk.mark(call.args[0] as i32, HOST);
            }
        }
    }

    /// Whether it is a stream socket of the internet's.
    fn is_stream(&mut self, tid: i32, entry: &Entry) -> Result<bool, Error> {
        let file = &entry.file;
        if file.copy.is_some() || file.named || file.rtnetlink.get() {
            return Ok(false);
        }
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(|_| false),
        };
        let mut option = |name: i32| -> Result<i32, Error> {
            let (mut value, mut len) = (-1i32, size_of::<i32>() as libc::socklen_t);
            let at = [(&raw mut value) as u64, (&raw mut len) as u64];
            let level = libc::SOL_SOCKET as u64;
            let args = [entry.number as u64, level, name as u64, at[0], at[1], 0];
            let result = self.call(task, libc::SYS_getsockopt, args)?;
            Ok(if result < 0 { -1 } else { value })
        };
        let of_internet = matches!(option(libc::SO_DOMAIN)?, libc::AF_INET | libc::AF_INET6);
        Ok(of_internet && option(libc::SO_PROTOCOL)? == libc::IPPROTO_TCP)
    }

    /// Serves what is posted.
    pub(crate) fn serve_mail(&mut self) -> Result<(), Error> {
        let count = self.mail.as_ref().map_or(0, |mail| mail.desks.len());
        for n in 0..count {
            let Some(desk) = self
                .mail
                .as_ref()
                .and_then(|mail| mail.desks.get(n))
                .cloned()
            else {
                break;
            };
            let mut posted = desk.mailbox().posted.0.load(Ordering::Acquire);
            let mut served = posted != 0;
            while posted != 0 {
                let slot = posted.trailing_zeros() as usize;
                posted &= posted - 1;
                if desk.mailbox().take(slot) {
                    self.serve_posted(&desk, slot)?;
                }
            }
            // One at a time: somebody waits for what is posted.
            if let Some(slot) = desk.next_letters() {
                served = true;
                self.send_letter(&desk, slot)?;
            }
            if let Some(mail) = self.mail.as_mut().filter(|_| served) {
                mail.until = Some(Instant::now() + AWAKE);
            }
        }
        Ok(())
    }

    /// Sends all letters that have been left so far, before what was done later.
    pub(crate) fn send_letters(&mut self) -> Result<(), Error> {
        let desks = || Some(self.mail.as_ref()?.desks.iter());
        let late: Vec<_> = desks()
            .into_iter()
            .flatten()
            .filter(|desk| desk.has_letters())
            .cloned()
            .collect();
        late.iter().try_for_each(|desk| self.send_letters_of(desk))
    }

    fn send_letters_of(&mut self, desk: &Rc<Desk>) -> Result<(), Error> {
        let mailbox = desk.mailbox();
        let mut there = mailbox.letters.0.load(Ordering::SeqCst);
        while there != 0 {
            let slot = there.trailing_zeros() as usize;
            there &= there - 1;
            // Those that are there: who goes on leaving some must not keep all others waiting.
            for _ in 0..mailbox.slots[slot].outbox.count() {
                self.send_letter(desk, slot)?;
            }
        }
        Ok(())
    }

    /// Sends the first letter that a slot's thread has left, if there is one.
    fn send_letter(&mut self, desk: &Rc<Desk>, slot: usize) -> Result<(), Error> {
        let mailbox = desk.mailbox();
        let outbox = &mailbox.slots[slot].outbox;
        mailbox.letters.0.fetch_and(!(1 << slot), Ordering::SeqCst);
        let Some(letter) = outbox.first() else {
            return Ok(());
        };
        let (fd, flags, len) = letter.read();
        let request = Request {
            nr: libc::SYS_sendto,
            fd,
            flags: flags | libc::MSG_NOSIGNAL,
            len,
        };
        let at = letter.data() as u64;
        // Until what comes of it is told.
        desk.tell_room(fd, 0);
        if let Some(tid) = self.sender(desk, slot)? {
            let outcome = self.make_posted(desk, slot, tid, request, at, true)?;
            self.conclude_posted(tid, outcome.flatten())?;
            self.finish_posted(tid)?;
            self.statistics.letters += 1;
        }
        outbox.pop();
        if outbox.first().is_some() {
            mailbox.letters.0.fetch_or(1 << slot, Ordering::SeqCst);
        }
        Ok(())
    }

    /// The thread in whose name letters of a slot are sent. It makes no call that is trapped as long as there are letters; who
    /// pretends that has none.
    fn sender(&mut self, desk: &Rc<Desk>, slot: usize) -> Result<Option<i32>, Error> {
        let owner = desk.owners.borrow()[slot];
        let is_own = |tid: &i32| self.threads.get(tid).is_some_and(|t| t.pid == desk.pid);
        let Some(tid) = Some(owner).filter(is_own) else {
            return Ok(None);
        };
        self.finish_posted(tid)?;
        let thread = self.threads.get(&tid);
        Ok(thread.is_some_and(|t| t.busy.is_none()).then_some(tid))
    }

    /// Goes on until a thread's posted call, if there is one, is done: in the kernel it waits for nothing but another task's lock.
    fn finish_posted(&mut self, tid: i32) -> Result<(), Error> {
        loop {
            let thread = self.threads.get(&tid);
            let stage = thread.and_then(|t| Some(&t.busy.as_ref()?.busy.stage));
            if !stage.is_some_and(|stage| matches!(stage, Stage::Mail { .. })) {
                return Ok(());
            }
            self.stirred = true;
            self.settle()?;
        }
    }

    /// Whether a request may be served before letters that were left before it: receipts that are certain to find something. What
    /// is on its way over a wire may come later.
    fn may_overtake(&self, desk: &Rc<Desk>, request: Request, tid: i32) -> bool {
        let table = self
            .threads
            .get(&tid)
            .map(|thread| &self.processes[&thread.pid].table);
        let entry = table.and_then(|table| table.get(request.fd as u64));
        request.nr == libc::SYS_recvfrom
            && desk.kind(request.fd) == STREAM
            && entry.is_some_and(|e| e.file.placeholder.telling.told() & libc::EPOLLIN as u32 != 0)
    }

    fn serve_posted(&mut self, desk: &Rc<Desk>, slot: usize) -> Result<(), Error> {
        let tid = desk.owners.borrow()[slot];
        if desk.mailbox().slots[slot].read() == Request::SHOW {
            desk.laggards.catch_up();
            desk.answer(slot, 0);
            return Ok(());
        }
        let place = &desk.mailbox().slots[slot];
        let request = place.read();
        if !self.may_overtake(desk, request, tid) {
            self.send_letters()?;
        }
        let at = place.data() as u64;
        let Some(outcome) = self.make_posted(desk, slot, tid, request, at, false)? else {
            desk.answer(slot, REFUSED);
            return Ok(());
        };
        self.conclude_posted(tid, outcome)
    }

    /// Goes on with a posted call, if it is done.
    fn conclude_posted(&mut self, tid: i32, outcome: Option<Outcome>) -> Result<(), Error> {
        // Before all that the call has brought about elsewhere is shown, as the thread waits awake.
        if let Some(outcome) = outcome {
            self.end(tid, outcome);
            while let Some((running, outcome)) = self.finished.pop_front() {
                self.conclude(running, outcome)?;
            }
        }
        self.heed()?;
        self.settle()
    }

    /// Makes a posted call in the kernel, if all is as it must be; what has come of it, if it is done.
    fn make_posted(
        &mut self,
        desk: &Rc<Desk>,
        slot: usize,
        tid: i32,
        request: Request,
        at: u64,
        is_letter: bool,
    ) -> Result<Option<Option<Outcome>>, Error> {
        let Some(thread) = self.threads.get(&tid) else {
            return Ok(None);
        };
        let process = &self.processes[&thread.pid];
        let table = &process.table;
        let awaits = self.carrier.is_some() && table.is_receiving();
        let is_its_own = table.desk().is_some_and(|own| Rc::ptr_eq(&own, desk));
        let is_elsewhere = thread.busy.is_some()
            || thread.aside.is_some()
            || process.attention
            || process.executing.is_some()
            || awaits;
        let entry = table.get(request.fd as u64);
        // What a letter is for was looked at when there was room for it, and the kernel looks again.
        let may = is_letter || !is_elsewhere && is_its_own && desk.kind(request.fd) == STREAM;
        let Some(entry) = entry.filter(|_| may) else {
            return Ok(None);
        };
        let number = entry.number as u64;
        let args = match (request.nr, request.flags) {
            (nr @ (libc::SYS_sendto | libc::SYS_recvfrom), flags) => {
                let known = match nr {
                    libc::SYS_sendto => SENDS,
                    _ => RECEIVES,
                };
                if flags & !known != 0 {
                    return Ok(None);
                }
                let flags = (flags | libc::MSG_DONTWAIT) as u64;
                [number, at, request.len as u64, flags, 0, 0]
            }
            (libc::SYS_ioctl, FIONREAD) => [number, FIONREAD as u64, at, 0, 0, 0],
            (libc::SYS_fcntl, libc::F_GETFL) => [number, libc::F_GETFL as u64, 0, 0, 0, 0],
            _ => return Ok(None),
        };
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(|_| None),
        };
        let nr = request.nr;
        let poll_fd = poll_fd(&entry);
        let space = 0;
        let call = Call {
            nr,
            args,
            space,
            poll_fd,
            mail: match is_letter {
                true => vink_kernel::Mail::Certain,
                // What is on its way would not be counted.
                false if desk.has_letter_for(request.fd) => vink_kernel::Mail::None,
                false => vink_kernel::Mail::Room,
            },
        };
        let entered = match self.kernel.enter(task, &call) {
            Ok(entered) => entered,
            Err(error) => return soften(error).map(|_| None),
        };
        self.deadline = entered.deadline;
        let busy = Busy {
            call: Notification {
                id: 0,
                tid,
                nr,
                args,
            },
            stage: Stage::Mail {
                desk: desk.clone(),
                slot,
                may_wait: request.flags & libc::MSG_DONTWAIT == 0,
                is_letter,
            },
            file: Some(entry.file),
        };
        self.statistics.posted += 1;
        let thread = self.threads.get_mut(&tid).expect("looked at");
        thread.busy = Some(self.pulse.begin(busy));
        Ok(Some(entered.outcome))
    }

    /// The kernel has answered a posted call.
    pub(crate) fn answer_posted(&mut self, busy: &Busy, result: i64) -> Result<(), Error> {
        let Stage::Mail {
            desk,
            slot,
            may_wait,
            is_letter: false,
        } = &busy.stage
        else {
            return Ok(());
        };
        let refused = match result {
            // Whoever would wait makes the call.
            EAGAIN if *may_wait => {
                let number = busy.call.args[0];
                let flags = match self.task_of(busy.call.tid) {
                    Ok(task) => {
                        let args = [number, libc::F_GETFL as u64, 0, 0, 0, 0];
                        self.call(task, libc::SYS_fcntl, args)?
                    }
                    Err(error) => soften(error)?,
                };
                flags & i64::from(libc::O_NONBLOCK) == 0
            }
            // Interrupted, by whatever: nothing has been done.
            _ => result == -i64::from(libc::EINTR),
        };
        if let Some(mail) = &mut self.mail {
            mail.set_untold(true);
        }
        desk.answer(*slot, if refused { REFUSED } else { result });
        Ok(())
    }

    /// What to do next as far as mail is concerned.
    pub(crate) fn look_for_mail(&mut self) -> Look {
        let Some(mail) = self.mail.as_mut().filter(|mail| !mail.desks.is_empty()) else {
            return Look::Sleep;
        };
        loop {
            if mail.looks >= LOOKS {
                mail.looks = 0;
                if mail.until.is_some_and(|until| Instant::now() < until) {
                    return Look::Around;
                }
                for desk in &mail.desks {
                    desk.attend(false);
                }
                // What was posted before that was seen must be served.
                if mail.desks.iter().all(|desk| desk.is_empty()) {
                    mail.desks.clear();
                    return Look::Sleep;
                }
                for desk in &mail.desks {
                    desk.attend(true);
                }
            }
            mail.looks += 1;
            if mail.desks.iter().any(|desk| !desk.is_empty()) {
                mail.looks += SERVING;
                return Look::Serve;
            }
            std::hint::spin_loop();
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Serve what is posted.
    Serve,
    /// See what else there is, without waiting for it.
    Around,
    /// Nobody posts anything: wait for something else.
    Sleep,
}
