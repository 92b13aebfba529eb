//! What the worker waits for on the host: descriptors, each with a token that says what it is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use vink_kernel::monotonic;
use vink_sys::epoll;

use crate::alarm::Alarm;
use crate::Error;

/// What has become ready. What comes first here is handled first, whatever epoll_wait(2) says:
/// what a call of another process sees must be after a death, and signals can end calls until all
/// of them have been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// What is due by the clock may be due now.
    Alarm,
    /// A process has ended: its pid.
    ProcessExit(i32),
    /// The placeholder of a file that is held in flight.
    HeldFile,
    /// A pipe that a thread waits for: its number.
    Pipe(i32),
    /// A device's host side: its place.
    Device(usize),
    /// A descriptor of the worker's caller.
    Caller,
    /// A program's listener: the program's place.
    Listener(usize),
}

impl Token {
    /// Its kind, by the order of handling, and its number.
    fn parts(self) -> (u32, u32) {
        match self {
            Token::Alarm => (0, 0),
            Token::ProcessExit(pid) => (1, pid as u32),
            Token::HeldFile => (2, 0),
            Token::Pipe(tid) => (3, tid as u32),
            Token::Device(id) => (4, id as u32),
            Token::Caller => (5, 0),
            Token::Listener(id) => (6, id as u32),
        }
    }

    /// As epoll(7) keeps it.
    fn encode(self) -> u64 {
        let (kind, number) = self.parts();
        u64::from(kind) << 32 | u64::from(number)
    }

    /// The same back.
    fn decode(data: u64) -> Token {
        let number = data as u32;
        match data >> 32 {
            0 => Token::Alarm,
            1 => Token::ProcessExit(number as i32),
            2 => Token::HeldFile,
            3 => Token::Pipe(number as i32),
            4 => Token::Device(number as usize),
            5 => Token::Caller,
            6 => Token::Listener(number as usize),
            kind => unreachable!("no token of kind {kind} was added"),
        }
    }
}

/// Events that are received at once.
const MAX_EVENTS: usize = 64;

/// An epoll instance, its timer, and what is to be handled again without having become ready.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    alarm: Alarm,
    again: Vec<Token>,
    /// Room for what becomes ready, unless that is being handled.
    room: Vec<libc::epoll_event>,
}

impl Reactor {
    /// # Errors
    /// [`Error::System`] as epoll_create1(2), timerfd_create(2).
    pub(crate) fn new() -> Result<Reactor, Error> {
        let reactor = Reactor {
            epoll: epoll::create().map_err(Error::of("epoll_create1()"))?,
            alarm: Alarm::new()?,
            again: Vec::new(),
            room: Vec::new(),
        };
        // Once each time that it goes off: it is not read.
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        reactor.add(reactor.alarm.as_raw_fd(), events, Token::Alarm)?;
        Ok(reactor)
    }

    /// Waits for these events (`EPOLL*`) of a descriptor until [`Reactor::remove`].
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub(crate) fn add(&self, fd: RawFd, events: u32, token: Token) -> Result<(), Error> {
        let added = epoll::add(&self.epoll, fd, events, token.encode());
        added.map_err(Error::of("epoll_ctl(EPOLL_CTL_ADD)"))
    }

    /// The same when it can be read.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub(crate) fn add_readable(&self, fd: RawFd, token: Token) -> Result<(), Error> {
        self.add(fd, libc::EPOLLIN as u32, token)
    }

    /// Waits for other events of a descriptor that may be there.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub(crate) fn replace(&self, fd: RawFd, events: u32, token: Token) -> Result<(), Error> {
        self.remove(fd);
        self.add(fd, events, token)
    }

    /// Waits for it no more; nothing happens if it is not there.
    pub(crate) fn remove(&self, fd: RawFd) {
        let _ = epoll::remove(self.epoll.as_raw_fd(), fd);
    }

    /// The next [`Reactor::wait`] returns at once, with this.
    pub(crate) fn handle_again(&mut self, token: Token) {
        if !self.again.contains(&token) {
            self.again.push(token);
        }
    }

    /// Waits for something to become ready, for `limit` at most. Nothing is if a signal handler ran.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_pwait2(2).
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Result<Ready, Error> {
        self.wait_for(limit, false)
    }

    /// The same, until `due` (`CLOCK_MONOTONIC`, ns) at the latest: then [`Token::Alarm`] is ready.
    /// It may be so before, too, and more than once.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_pwait2(2), timerfd_settime(2).
    pub(crate) fn wait_until(
        &mut self,
        due: Option<u64>,
        limit: Option<Duration>,
    ) -> Result<Ready, Error> {
        let until = self.alarm.limit(due, monotonic)?;
        let least = [until, limit].into_iter().flatten().min();
        self.wait_for(least, until.is_some())
    }

    /// `is_due`: when nothing is ready by the end, the alarm is.
    fn wait_for(&mut self, limit: Option<Duration>, is_due: bool) -> Result<Ready, Error> {
        let again = self.again.len().min(MAX_EVENTS / 2);
        let limit = match again {
            0 => limit,
            _ => Some(Duration::ZERO),
        };
        let mut events = std::mem::take(&mut self.room);
        // Nothing, once they are there.
        events.resize(MAX_EVENTS, libc::epoll_event { events: 0, u64: 0 });
        let room = MAX_EVENTS - again;
        let host_events = match epoll::wait_precisely(&self.epoll, &mut events[..room], limit) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(Error::of("epoll_pwait2()")(error)),
        };
        for (event, token) in events[host_events..]
            .iter_mut()
            .zip(self.again.drain(..again))
        {
            (event.events, event.u64) = (0, token.encode());
        }
        let mut count = host_events + again;
        // By kind only: of one kind the host's order stays.
        events[..count].sort_by_key(|event| event.u64 >> 32);
        let alarm = Token::Alarm.encode();
        if count == 0 && is_due {
            (events[0].u64, count) = (alarm, 1);
        } else if count > 0 && { events[0].u64 } == alarm {
            self.alarm.went_off();
        }
        Ok(Ready {
            events,
            count,
            host_events,
        })
    }

    /// What was ready has been handled: the next wait uses its memory.
    pub(crate) fn reuse(&mut self, ready: Ready) {
        self.room = ready.events;
    }
}

impl AsRawFd for Reactor {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

/// What has become ready, in the order of handling.
pub(crate) struct Ready {
    events: Vec<libc::epoll_event>,
    count: usize,
    host_events: usize,
}

impl Ready {
    /// How many events epoll_wait(2) had.
    pub(crate) fn host_events(&self) -> usize {
        self.host_events
    }

    /// What is ready, and its events (`EPOLL*`); none of what is to be handled again.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, u32)> + '_ {
        let events = self.events[..self.count].iter();
        events.map(|event| (Token::decode(event.u64), event.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const ALL: [Token; 7] = [
        Token::Alarm,
        Token::ProcessExit(i32::MAX),
        Token::HeldFile,
        Token::Pipe(1),
        Token::Device(2),
        Token::Caller,
        Token::Listener(u32::MAX as usize),
    ];

    #[test]
    fn what_is_ready_comes_in_the_order_of_handling() {
        let mut reactor = Reactor::new().unwrap();
        let mut pairs = Vec::new();
        for token in ALL.iter().rev() {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            reactor.add_readable(theirs.as_raw_fd(), *token).unwrap();
            ours.write_all(b"x").unwrap();
            pairs.push((ours, theirs));
        }
        let ready = reactor.wait(None).unwrap();
        assert_eq!(ready.host_events(), ALL.len());
        let readable = libc::EPOLLIN as u32;
        let expected: Vec<_> = ALL.iter().map(|token| (*token, readable)).collect();
        assert_eq!(ready.iter().collect::<Vec<_>>(), expected);
        for (_, theirs) in &pairs {
            reactor.remove(theirs.as_raw_fd());
        }
        let ready = reactor.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(ready.iter().next(), None);
    }

    #[test]
    fn what_is_to_be_handled_again_is_so_once_without_waiting() {
        let mut reactor = Reactor::new().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        reactor
            .add_readable(theirs.as_raw_fd(), Token::Listener(0))
            .unwrap();
        ours.write_all(b"x").unwrap();
        reactor.handle_again(Token::Device(1));
        reactor.handle_again(Token::Device(1));
        let ready = reactor.wait(None).unwrap();
        let readable = (Token::Listener(0), libc::EPOLLIN as u32);
        assert_eq!(
            ready.iter().collect::<Vec<_>>(),
            [(Token::Device(1), 0), readable]
        );
        assert_eq!(ready.host_events(), 1);
        assert_eq!(
            reactor.wait(None).unwrap().iter().collect::<Vec<_>>(),
            [readable]
        );
    }

    #[test]
    fn more_than_fits_is_handled_next_time() {
        let mut reactor = Reactor::new().unwrap();
        for id in 0..MAX_EVENTS {
            reactor.handle_again(Token::Device(id));
        }
        let mut seen = 0;
        for _ in 0..2 {
            seen += reactor.wait(None).unwrap().iter().count();
        }
        assert_eq!(seen, MAX_EVENTS);
        assert_eq!(
            reactor.wait(Some(Duration::ZERO)).unwrap().iter().count(),
            0
        );
    }

    #[test]
    fn an_alarm_for_what_is_over_loses_nothing_that_is_due_later() {
        let mut reactor = Reactor::new().unwrap();
        let early = monotonic() + 1_000_000;
        let late = early + 1_000_000;
        // The second one sets the timer.
        for _ in 0..2 {
            reactor.handle_again(Token::Caller);
            reactor.wait_until(Some(early), None).unwrap();
        }
        // Far longer than it takes; nothing would be ready then.
        let limit = Some(Duration::from_secs(60));
        let mut first = |due| {
            let ready = reactor.wait_until(due, limit).unwrap();
            let token = ready.iter().map(|(token, _)| token).next();
            token
        };
        // For the earlier one, and then for itself.
        assert_eq!(first(Some(late)), Some(Token::Alarm));
        loop {
            assert_eq!(first(Some(late)), Some(Token::Alarm));
            if monotonic() >= late {
                break;
            }
        }
        // What has been due for long is so at once, as often as it is asked for.
        for _ in 0..3 {
            assert_eq!(first(Some(early)), Some(Token::Alarm));
        }
        let ready = reactor.wait_until(None, Some(Duration::ZERO)).unwrap();
        assert_eq!(ready.iter().next(), None);
    }
}
