//! The life of a lab worker: boot, requests and events until the socket ends.

use std::io::{self, ErrorKind};
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vink_kernel::{monotonic, stood_still, Clock, Image, Kernel, Panic};
use vink_trap::{Charge, Virtual, Worker};

use super::channel::Channel;
use super::lab::{Lab, Trouble};
use super::protocol::{Event, Message, Request, VERSION};
use crate::Error;

/// Bytes that may wait to be sent before no further request is carried out.
const MOST_WAITING: usize = 4 << 20;
/// ... and before packets are counted instead of told, and what apps write is left with them.
const MOST_PACKETS: usize = 1 << 20;
/// How long requests are carried out before it is the programs' turn.
const TURN: Duration = Duration::from_millis(5);
/// How much of the kernel's log may wait to be told.
const MOST_LOG: usize = 64 << 10;
/// The end of the log that goes with a panic.
const LAST_LOG: usize = 16 << 10;
/// How long the control process has to take the news of a panic.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a worker is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The image's path.
    pub image: PathBuf,
    /// The kernel's memory in bytes.
    pub memory: u64,
    /// Kernel parameters added to the image's own.
    pub cmdline: String,
    /// Of the kernel's random numbers; `None`: others each time.
    pub seed: Option<u64>,
    /// The kernel's clock. A virtual one stands until it is told to go.
    pub clock: Clock,
    /// What a system call of a program costs on a virtual clock.
    pub call: Duration,
    /// The processor's time stamp counter is that clock, too.
    pub rdtsc: bool,
}

/// Why a worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The control process has closed the socket.
    Closed,
    /// The kernel has panicked, which the control process was told.
    Panicked,
}

/// Boots a kernel and does what comes over the socket, as [`protocol`](super::protocol) says, until that ends. All
/// programs are dead when this returns.
///
/// # Errors
/// [`Error::Kernel`], [`Error::Trap`]: there is no worker to be had. [`Error::Protocol`]: what came is no request, or the
/// socket failed.
pub fn serve(socket: OwnedFd, config: Config) -> Result<End, Error> {
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(true).map_err(broken)?;
    let mut channel = Channel::new(socket);
    let log = Log::default();
    let booted = boot(&config, &log);
    let (mut lab, boot_ms) = match booted {
        Err(Error::Kernel(vink_kernel::Error::Panic(panic))) => {
            tell_panic(&mut channel, &panic);
            return Ok(End::Panicked);
        }
        other => other?,
    };
    channel.push(&Message::Ready {
        protocol: VERSION,
        release: lab.release(),
        boot_ms,
    });
    let done = converse(&mut channel, &mut lab, &log);
    let end = match done {
        Err(Trouble::Kernel(vink_kernel::Error::Panic(panic))) => {
            tell_panic(&mut channel, &panic);
            Ok(End::Panicked)
        }
        Err(trouble) => Err(trouble.into()),
        Ok(()) => Ok(End::Closed),
    };
    lab.series.finish();
    // Whoever waits for our end finds no program any more.
    drop(lab);
    end
}

fn boot(config: &Config, log: &Log) -> Result<(Lab, f64), Error> {
    let start = Instant::now();
    let console = log.clone();
    let kernel = Kernel::boot(
        Image::open(&config.image)?,
        vink_kernel::Config {
            arena_bytes: config.memory,
            cmdline: config.cmdline.clone(),
            clock: config.clock,
            date: None,
            seed: config.seed.map(seed),
            console: Some(Box::new(move |text| console.add(text))),
        },
    )?;
    let boot_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut worker = Worker::new(kernel)?;
    worker.set_time(Virtual {
        seed: config.seed,
        charge: Charge {
            call: config.call,
            ..Charge::default()
        },
        counter: config.rdtsc,
    });
    // The control process may have something to do at each time.
    worker.set_jumps(1);
    Ok((Lab::new(worker), boot_ms))
}

/// 32 bytes for [`vink_kernel::Config::seed`] from the number that a user gives: the kernel mixes them.
pub fn seed(number: u64) -> [u8; 32] {
    let mut seed = [0; 32];
    for (i, part) in seed.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&(number.wrapping_add(i as u64)).to_le_bytes());
    }
    seed
}

/// Requests and events, until the socket ends.
fn converse(channel: &mut Channel, lab: &mut Lab, log: &Log) -> Result<(), Trouble> {
    // For the wish to write, which comes and goes.
    let writing = channel.socket().try_clone().map_err(broken)?;
    let (mut listens, mut waits) = (false, false);
    // Something may be there already.
    let mut readable = true;
    let mut missed = 0;
    loop {
        let mut unfinished = false;
        let start = Instant::now();
        while channel.waiting() < MOST_WAITING {
            match channel.next::<Request>().map_err(broken)? {
                Some(request) => answer(channel, lab, request)?,
                None if readable => match receive(channel)? {
                    Some(more) => readable = more,
                    None => return Ok(()),
                },
                None => break,
            }
            unfinished = start.elapsed() >= TURN;
            if unfinished {
                break;
            }
        }
        lab.fibers.hold = channel.waiting() >= MOST_PACKETS;
        lab.look_around()?;
        tell(channel, lab, log, &mut missed);
        match channel.flush() {
            Err(e) if is_end(&e) => return Ok(()),
            other => other.map_err(broken)?,
        }
        let full = channel.waiting() >= MOST_WAITING;
        if listens == full {
            match full {
                true => lab.worker.ignore(channel.as_fd()),
                false => lab.worker.attend_to(channel.as_fd())?,
            }
            listens = !full;
            // What is not waited for has to be asked for.
            readable |= listens;
        }
        if waits != (channel.waiting() > 0) {
            waits = !waits;
            match waits {
                true => lab.worker.attend_to_room(writing.as_fd())?,
                false => lab.worker.ignore(writing.as_fd()),
            }
        }
        if lab.stands_still() {
            if !(unfinished || readable && listens) {
                stand_still(channel, listens)?;
            }
            readable = true;
            continue;
        }
        let at_once = (unfinished || readable && listens).then_some(Duration::ZERO);
        let in_time = lab.set_pace();
        lab.worker.step(at_once.or(in_time))?;
        readable |= lab.worker.was_called();
    }
}

/// Waits for the control process and nothing else, while the kernel's clock stands.
fn stand_still(channel: &Channel, listens: bool) -> Result<(), Trouble> {
    let wanted = [
        (listens, libc::POLLIN),
        (channel.waiting() > 0, libc::POLLOUT),
    ];
    let events = wanted.iter().filter(|(on, _)| *on);
    let mut wait = libc::pollfd {
        fd: channel.as_fd().as_raw_fd(),
        events: events.fold(0, |all, (_, event)| all | event),
        revents: 0,
    };
    let since = monotonic();
    // SAFETY: one structure, which is there.
    let done = unsafe { libc::poll(&mut wait, 1, -1) };
    stood_still(monotonic() - since);
    match done {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(()),
            error => Err(broken(error).into()),
        },
        _ => Ok(()),
    }
}

/// Whether there may be more to receive; `None` at the end.
fn receive(channel: &mut Channel) -> Result<Option<bool>, Trouble> {
    match channel.receive() {
        Ok(true) => Ok(Some(true)),
        Ok(false) => Ok(None),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Some(false)),
        Err(e) if e.kind() == ErrorKind::Interrupted => Ok(Some(true)),
        Err(e) if is_end(&e) => Ok(None),
        Err(e) => Err(broken(e).into()),
    }
}

fn answer(channel: &mut Channel, lab: &mut Lab, request: Request) -> Result<(), Trouble> {
    let Request { id, action } = request;
    let descriptors = channel.descriptors(action.descriptors()).map_err(broken)?;
    let carried_out = lab.carry_out(action, &mut descriptors.into_iter());
    // What it has brought about comes before its answer.
    for event in lab.take_events() {
        channel.push(&Message::Event(event));
    }
    channel.push(&match carried_out {
        Ok(answer) => Message::Done { id, answer },
        Err(Trouble::Refused(error)) => Message::Failed { id, error },
        Err(trouble) => return Err(trouble),
    });
    Ok(())
}

/// Queues what has happened. Packets can be too many to be told.
fn tell(channel: &mut Channel, lab: &mut Lab, log: &Log, missed: &mut u64) {
    let text = log.take();
    if !text.is_empty() {
        channel.push(&Message::Event(Event::Log { text }));
    }
    *missed += take(&mut lab.missed);
    for event in lab.take_events() {
        if matches!(event, Event::Packet(_)) {
            if channel.waiting() >= MOST_PACKETS {
                *missed += 1;
                continue;
            }
            if *missed > 0 {
                let packets = take(missed);
                channel.push(&Message::Event(Event::Missed { packets }));
            }
        }
        channel.push(&Message::Event(event));
    }
    if *missed > 0 && channel.waiting() < MOST_PACKETS {
        let packets = take(missed);
        channel.push(&Message::Event(Event::Missed { packets }));
    }
}

/// The last thing that the control process hears of a kernel.
fn tell_panic(channel: &mut Channel, panic: &Panic) {
    let mut start = panic.log.len().saturating_sub(LAST_LOG);
    while !panic.log.is_char_boundary(start) {
        start += 1;
    }
    channel.push(&Message::Event(Event::Panic {
        message: panic.message.clone(),
        backtrace: panic.backtrace.iter().map(ToString::to_string).collect(),
        log: panic.log[start..].to_owned(),
    }));
    // It may be gone, or not want to know.
    let socket = channel.socket();
    let _ = socket.set_nonblocking(false);
    let _ = socket.set_write_timeout(Some(LAST_WORDS));
    let _ = channel.flush();
}

fn broken(error: io::Error) -> Error {
    Error::Protocol(format!("talking to the control process: {error}"))
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

/// The kernel's log, until it is told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    /// In the middle of the kernel.
    fn add(&self, text: &str) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() + text.len() <= MOST_LOG {
            log.push_str(text);
        }
    }

    fn take(&self) -> String {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
