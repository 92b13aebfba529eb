//! The life of a lab worker: boot, requests and events until the socket ends.

use std::io::{self, ErrorKind};
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vink_kernel::{monotonic, stood_still, Clock, Image, Kernel, Panic};
use vink_trap::{Charge, VirtualTime, Worker};

use super::lab::{Lab, WorkerError};
use super::loader::Loader;
use crate::calls::CallsSetup;
use crate::Error;
use vink_protocol::{Action, Answer, Channel, WorkerClock, WorkerConfig};
use vink_protocol::{Event, Message, Request, VERSION};
use vink_sys::poll;
use vink_sys::process::{affinity, cpu_list, cpu_set, cpus, set_affinity};

/// Bytes that may wait to be sent before no further request is carried out.
const MAX_UNSENT: usize = 4 << 20;
/// ... and before packets are counted instead of told, and what apps write is left with them.
const MAX_UNSENT_PACKETS: usize = 1 << 20;
/// How long requests are carried out before it is the programs' turn.
const REQUEST_BUDGET: Duration = Duration::from_millis(5);
/// How much of the kernel's log may wait to be told.
const MAX_LOG: usize = 64 << 10;
/// The end of the log that goes with a panic.
const PANIC_LOG: usize = 16 << 10;
/// How long the control process has to take the news of a panic.
const PANIC_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The control process has closed the socket.
    Closed,
    /// The kernel has panicked, which the control process was told.
    Panicked,
}

/// Boots the kernel of the [`WorkerConfig`] that comes first over the socket, then serves requests
/// until the socket ends. All programs are dead when this returns.
///
/// # Errors
/// [`Error::Kernel`], [`Error::Trap`]: there is no worker to be had. [`Error::Protocol`]: what came
/// is no request, or the socket failed.
pub fn serve(socket: OwnedFd) -> Result<End, Error> {
    // Programs begin with default actions, whatever started the lab.
    vink_sys::signals::default_ignored();
    let mut channel = Channel::new(UnixStream::from(socket));
    let Some(config) = receive_config(&mut channel)? else {
        return Ok(End::Closed);
    };
    channel.socket().set_nonblocking(true).map_err(broken)?;
    stay_on(&config.cpus)?;
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
        Err(WorkerError::Kernel(vink_kernel::Error::Panic(panic))) => {
            tell_panic(&mut channel, &panic);
            Ok(End::Panicked)
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(End::Closed),
    };
    // That it was heard: what follows takes as long as there are programs.
    let _ = channel.socket().shutdown(std::net::Shutdown::Both);
    lab.series.finish();
    // All programs are dead before this process ends.
    drop(lab);
    end
}

/// Waits for the first message; `None`: the socket has ended.
fn receive_config(channel: &mut Channel) -> Result<Option<WorkerConfig>, Error> {
    loop {
        if let Some(config) = channel.next_message().map_err(broken)? {
            return Ok(Some(config));
        }
        match channel.receive() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

/// Keeps this thread on some of the processors that the control process may use, and so all that is
/// started from here on; none named: on any.
fn stay_on(core: &[u32]) -> Result<(), Error> {
    if core.is_empty() {
        return Ok(());
    }
    let own = affinity(0).unwrap_or_default();
    let wanted = cpu_set(core.iter().map(|cpu| *cpu as usize));
    let missing = cpus(&wanted).find(|cpu| !own.is_set(*cpu));
    match missing {
        None if set_affinity(0, &wanted) => Ok(()),
        missing => Err(Error::Core {
            missing: missing.unwrap_or_default(),
            there: cpu_list(&own),
        }),
    }
}

fn boot(config: &WorkerConfig, log: &Log) -> Result<(Lab, f64), Error> {
    let start = Instant::now();
    let (clock, call, counter) = match config.clock {
        WorkerClock::Real => (Clock::Real, Duration::ZERO, false),
        WorkerClock::Virtual { call, rdtsc } => (Clock::Virtual, Duration::from_nanos(call), rdtsc),
    };
    let console = log.clone();
    let kernel = Kernel::boot(
        Image::open(&config.image)?,
        vink_kernel::Config {
            arena_bytes: config.memory,
            cmdline: config.cmdline.clone(),
            clock,
            date: None,
            seed: config.seed.map(seed),
            console: Some(Box::new(move |text| console.add(text))),
        },
    )?;
    let boot_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut worker = Worker::new(kernel)?;
    worker.set_time(VirtualTime {
        seed: config.seed,
        charge: Charge {
            call,
            ..Charge::default()
        },
        tsc: counter,
    });
    let calls = CallsSetup::new(config.calls, &mut worker).map_err(Error::Calls)?;
    tracing::debug!(target: "calls", "{}", calls.form());
    // The control process may have something to do at each time.
    worker.set_max_jumps(1);
    Ok((Lab::new(worker, calls), boot_ms))
}

/// 32 bytes for [`vink_kernel::Config::seed`] from the number that a user gives: the kernel mixes
/// them.
pub fn seed(number: u64) -> [u8; 32] {
    let mut seed = [0; 32];
    for (i, part) in seed.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&(number.wrapping_add(i as u64)).to_le_bytes());
    }
    seed
}

/// Requests and events, until the socket ends.
fn converse(channel: &mut Channel, lab: &mut Lab, log: &Log) -> Result<(), WorkerError> {
    // For the wish to write, which comes and goes.
    let writing = channel.socket().try_clone().map_err(broken)?;
    let (mut listens, mut waits) = (false, false);
    // Something may be there already.
    let mut readable = true;
    let mut missed = 0;
    loop {
        let mut unfinished = false;
        // Read when there is something to do: in most turns there is nothing.
        let mut start = None;
        while channel.waiting() < MAX_UNSENT {
            let request = channel.next_message::<Request>().map_err(broken)?;
            if request.is_none() && !readable {
                break;
            }
            let start = start.get_or_insert_with(Instant::now);
            match request {
                Some(request) => answer(channel, lab, request)?,
                None => match receive(channel)? {
                    Some(more) => readable = more,
                    None => return Ok(()),
                },
            }
            unfinished = start.elapsed() >= REQUEST_BUDGET;
            if unfinished {
                break;
            }
        }
        lab.fibers.hold = channel.waiting() >= MAX_UNSENT_PACKETS;
        lab.look_around()?;
        for (id, placed) in lab.loaded_pods() {
            answered(channel, lab, id, placed.map(|()| Answer::Nothing))?;
        }
        tell(channel, lab, log, &mut missed);
        match channel.flush() {
            Err(e) if is_end(&e) => return Ok(()),
            other => other.map_err(broken)?,
        }
        let full = channel.waiting() >= MAX_UNSENT;
        if listens == full {
            match full {
                true => lab.worker.unwatch_fd(channel.as_fd()),
                false => lab.worker.watch_fd(channel.as_fd())?,
            }
            listens = !full;
            // What is not waited for has to be asked for.
            readable |= listens;
        }
        if waits != (channel.waiting() > 0) {
            waits = !waits;
            match waits {
                true => lab.worker.watch_fd_writable(writing.as_fd())?,
                false => lab.worker.unwatch_fd(writing.as_fd()),
            }
        }
        if lab.is_stopped() {
            if !(unfinished || readable && listens) {
                wait_while_stopped(channel, listens, lab.loader.as_ref())?;
            }
            readable = true;
            continue;
        }
        let at_once = (unfinished || readable && listens).then_some(Duration::ZERO);
        let in_time = lab.set_horizon();
        lab.worker.step(at_once.or(in_time))?;
        readable |= lab.worker.take_fd_ready();
    }
}

/// Waits for the control process and for pods that are being loaded, while the kernel's clock stands.
fn wait_while_stopped(
    channel: &Channel,
    listens: bool,
    loader: Option<&Loader>,
) -> Result<(), WorkerError> {
    let wanted = [
        (listens, libc::POLLIN),
        (channel.waiting() > 0, libc::POLLOUT),
    ];
    let events = wanted.iter().filter(|(on, _)| *on);
    let all = events.fold(0, |all, (_, event)| all | event);
    let mut wait = vec![poll::wanted(channel.as_fd().as_raw_fd(), all)];
    wait.extend(loader.map(|it| poll::wanted(it.told().as_raw_fd(), libc::POLLIN)));
    let since = monotonic();
    let done = poll::poll(&mut wait, -1);
    stood_still(monotonic() - since);
    match done {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(broken(error).into()),
        _ => Ok(()),
    }
}

/// Whether there may be more to receive; `None` at the end.
fn receive(channel: &mut Channel) -> Result<Option<bool>, WorkerError> {
    match channel.receive() {
        Ok(true) => Ok(Some(true)),
        Ok(false) => Ok(None),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Some(false)),
        Err(e) if e.kind() == ErrorKind::Interrupted => Ok(Some(true)),
        Err(e) if is_end(&e) => Ok(None),
        Err(e) => Err(broken(e).into()),
    }
}

fn answer(channel: &mut Channel, lab: &mut Lab, request: Request) -> Result<(), WorkerError> {
    let Request { id, action } = request;
    if let Action::LoadPod { pod, what, file } = &action {
        match lab.begin_load(id, pod, what, file) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return answered(channel, lab, id, Err(error)),
        }
    }
    let descriptors = channel.descriptors(action.descriptors()).map_err(broken)?;
    let carried_out = lab.carry_out(action, &mut descriptors.into_iter());
    answered(channel, lab, id, carried_out)
}

/// Queues the answer to a request.
fn answered(
    channel: &mut Channel,
    lab: &mut Lab,
    id: u64,
    carried_out: Result<Answer, WorkerError>,
) -> Result<(), WorkerError> {
    // What it has brought about comes before its answer.
    for event in lab.take_events() {
        channel.push(&Message::Event(event));
    }
    channel.push(&match carried_out {
        Ok(answer) => Message::Done { id, answer },
        Err(WorkerError::Refused(error)) => Message::Failed { id, error },
        Err(error) => return Err(error),
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
            if channel.waiting() >= MAX_UNSENT_PACKETS {
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
    if *missed > 0 && channel.waiting() < MAX_UNSENT_PACKETS {
        let packets = take(missed);
        channel.push(&Message::Event(Event::Missed { packets }));
    }
}

/// The last thing that the control process hears of a kernel.
fn tell_panic(channel: &mut Channel, panic: &Panic) {
    let mut start = panic.log.len().saturating_sub(PANIC_LOG);
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
    let _ = socket.set_write_timeout(Some(PANIC_TIMEOUT));
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
        if log.len() + text.len() <= MAX_LOG {
            log.push_str(text);
        }
    }

    fn take(&self) -> String {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
