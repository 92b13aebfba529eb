//! The process wall: a pod is a process that can compute, and nothing else.
//!
//! Theory of operation: `vink-pod-process` gives up its rights, puts a filter of system calls in place
//! and sends its listener to the worker. Then it loads the pod, whose constructors are hostile code
//! already. From there on each of its system calls but those about memory stops it, and the worker
//! decides: while it loads, files may be read from the folders that are left; later nothing may be done.
//! The same listener is how the wall is crossed. The process stops itself by a call that means "done"
//! (pause(2)), the worker puts calls into the shared memory and answers, and waits for the next
//! notification. So one wait sees all that may happen: the answers, a forbidden call with its number
//! from the host's kernel, the process's end, the limit of time. The host's kernel runs each side on
//! the processor of the other one, so a crossing costs two switches.
//!
//! All that is read from the shared memory is copied once, and checked then.

mod area;
mod loading;
mod usage;
mod watch;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{seccomp_notif, seccomp_notif_resp};
use vink_sys::child::{spawn_into, Step};
use vink_sys::fd::in_memory_sealed;
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::poll::{events_of, poll, wanted};
use vink_sys::process::{cpu_time, getegid, geteuid, waitid, ChildEvent};
use vink_sys::procfs::{kernel_release, kernel_version};
use vink_sys::seccomp::Listener;
use vink_sys::socket::{receive_with, send_with, seqpacket_pair};

use crate::batch::{clean, lines};
use crate::calls::{check_version, CLOSE};
use crate::load::{cycles, initialised, Loaded, Source};
use crate::room::{records, Room, RECORD};
use crate::{file, Batch, Emitted, Entry, Fault, Limits, LoadError, Pod, Wall, COUNTERS, ROOM};
use area::{Pause, Sizes};
use usage::Usage;
use watch::Watch;

/// The program that a pod's process executes.
const PROGRAM: &str = "vink-pod-process";
/// Bytes of calls that one crossing takes; more go in several.
const INPUT: usize = 16 << 20;
/// The least that a pod gets for being loaded.
const LOAD_TIME: Duration = Duration::from_secs(5);
const _: () = assert!(COUNTERS == area::COUNTERS && RECORD == area::RECORD);

/// A pod behind the process wall.
struct ProcessPod {
    process: Process,
    listener: Arc<Listener>,
    /// The call of pause(2) that is to be answered.
    waiting: u64,
    area: Mapping,
    sizes: Sizes,
    limits: Limits,
    /// What its process has given up, and what the host did not let it give up.
    report: vink_confine::Report,
    /// Where the calls of a crossing are in the input.
    places: Vec<usize>,
    /// The host's kernel says by the listener that the process has ended.
    receives_ends: bool,
    usage: Usage,
}

/// A child process, which ends with this value and leaves no trace.
struct Process {
    watch: Arc<Watch>,
    end: Option<ChildEvent>,
}

/// Loads a pod, which ends with the thread that loads it, at the latest.
///
/// # Errors
/// The file is no pod, it was ended, or the host does not have what the wall needs.
pub fn load(source: &Source<'_>) -> Result<Loaded, LoadError> {
    let path = file::check(source.file)?;
    let wrong = |why: String| LoadError::File {
        path: source.file.to_owned(),
        why,
    };
    let mut pod = ProcessPod::start(&path, &source.limits)?;
    pod.load(&path).map_err(wrong)?;
    let found = pod.version().map_err(wrong)?;
    check_version(source.file, found)?;
    initialised(Box::new(pod), source)
}

/// Whether a process can be walled in here, and by what: a line each.
///
/// # Errors
/// What is missing.
pub fn probe() -> Result<vink_confine::Report, String> {
    let limits = Limits::default();
    // Nothing of it is loaded: it is not let go on.
    match ProcessPod::start(Path::new("/dev/null"), &limits) {
        Ok(pod) => Ok(pod.report.clone()),
        Err(LoadError::Host { why, .. }) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// The pod's program: beside this executable or its folder, or where `make install` puts it.
///
/// # Errors
/// A sentence, for users.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("finding vink: {error}"))?;
    let places = ["", "../lib/vink", ".."].map(|folder| own.with_file_name(folder).join(PROGRAM));
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        let [here, there, _] = places.map(|place| place.display().to_string());
        format!("{PROGRAM} is neither {here} nor {there}: cargo build -p vink-pod makes it")
    })
}

impl ProcessPod {
    /// Starts the process, up to where it loads the pod.
    fn start(path: &Path, limits: &Limits) -> Result<ProcessPod, LoadError> {
        let refused = |why| LoadError::Host {
            wall: Wall::Process,
            why,
        };
        let program = program().map_err(refused)?;
        ProcessPod::start_program(&program, path, limits)
            .map_err(|error| refused(format!("starting its process: {error}")))?
            .map_err(refused)
    }

    /// The same; the inner error is the process's own word.
    fn start_program(
        program: &Path,
        path: &Path,
        limits: &Limits,
    ) -> io::Result<Result<ProcessPod, String>> {
        let sizes = Sizes {
            input: INPUT,
            output: area::aligned(records(limits)),
        };
        let memory = in_memory_sealed(c"vink-pod", sizes.all() as u64)?;
        let area = Mapping::new(sizes.all())?;
        area.replace(0..area.len(), Pages::Shared(memory.as_fd(), 0))?;
        let (socket, theirs) = seqpacket_pair()?;
        let words = [
            theirs.as_raw_fd().to_string().into(),
            memory.as_raw_fd().to_string().into(),
            sizes.input.to_string().into(),
            sizes.output.to_string().into(),
            limits.emit.to_string().into(),
            limits.memory.to_string().into(),
            path.as_os_str().as_encoded_bytes().to_vec(),
        ];
        let words: Vec<CString> = [program.as_os_str().as_encoded_bytes().to_vec()]
            .into_iter()
            .chain(words)
            .map(CString::new)
            .collect::<Result<_, _>>()?;
        let arguments: Vec<_> = words.iter().map(CString::as_c_str).collect();
        let steps = [
            Step::UnblockAll,
            Step::CloseOthers,
            Step::Keep(theirs.as_raw_fd()),
            Step::Keep(memory.as_raw_fd()),
        ];
        let (process, namespace) = Process::spawn(&arguments, &steps, limits.time)?;
        drop((theirs, memory));
        send_with(&socket, b"go", &[])?;
        let mut text = vec![0; 16 << 10];
        let mut came = Vec::new();
        let limit = LOAD_TIME.as_millis() as i32;
        if events_of(socket.as_raw_fd(), libc::POLLIN, limit) == 0 {
            return Ok(Err("its process does not start".to_owned()));
        }
        let len = receive_with(&socket, &mut text, &mut came)?;
        let text = String::from_utf8_lossy(&text[..len]).into_owned();
        let Some(listener) = came.pop() else {
            return Ok(Err(match text.is_empty() {
                true => "its process has ended at once".to_owned(),
                false => text,
            }));
        };
        let listener = Arc::new(Listener::new(listener)?);
        process.watch.calls_by(&listener);
        listener.wake_same_cpu(true);
        let mut report: vink_confine::Report = text.lines().map(str::to_owned).collect();
        report.push(namespace);
        Ok(Ok(ProcessPod {
            process,
            listener,
            waiting: 0,
            area,
            sizes,
            limits: limits.clone(),
            report,
            places: Vec::new(),
            receives_ends: receives_ends(),
            usage: Usage::default(),
        }))
    }

    /// Has its process load it: what is wrong.
    fn load(&mut self, path: &Path) -> Result<(), String> {
        let ended = |fault: Fault| format!("was ended while it was loaded: it {fault}");
        let limit = LOAD_TIME.max(self.limits.time);
        match self.next(Some(limit)).map_err(ended)? {
            (Pause::Done, _) => Ok(()),
            (Pause::NotLoaded, _) => Err(file::explained(&self.text(), path)),
            (other, _) => Err(ended(self.fault(other))),
        }
    }

    /// What its `pod_version()` says.
    fn version(&mut self) -> Result<u32, String> {
        let ended = |fault: Fault| format!("was ended in pod_version(): it {fault}");
        match self.answered().map_err(ended)? {
            (Pause::Done, found) => Ok(found as u32),
            (other, _) => Err(ended(self.fault(other))),
        }
    }

    /// Lets the process go on, with what is in the shared memory.
    fn resume(&mut self) -> Result<(), Fault> {
        let answer = seccomp_notif_resp {
            id: self.waiting,
            val: 0,
            error: 0,
            flags: 0,
        };
        match self.listener.answer(answer) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone()),
        }
    }

    /// Lets the process go on, until it pauses again.
    fn answered(&mut self) -> Result<(Pause, u64), Fault> {
        // It runs from then on, maybe in the place of this thread.
        let began = self.process.watch.begin();
        let pause = self.resume().and_then(|()| self.next(None));
        let (time, is_late) = self.process.watch.end(began);
        self.usage.was_inside(time);
        match is_late {
            true => Err(self.ended_by(Fault::Time(self.limits.time))),
            false => pause,
        }
    }

    /// The next pause; while it is loaded, within so long.
    fn next(&mut self, loading: Option<Duration>) -> Result<(Pause, u64), Fault> {
        let start = Instant::now();
        let mut receives_ends = loading.is_none() && self.receives_ends;
        loop {
            let (may_have_call, has_ended) = match receives_ends {
                true => (true, false),
                false => self.wait(loading.map(|limit| limit.saturating_sub(start.elapsed()))),
            };
            if may_have_call {
                match self.listener.receive() {
                    Ok(call) if call.data.nr == libc::SYS_pause as i32 => {
                        self.waiting = call.id;
                        return Ok((pause(call.data.args[0]), call.data.args[1]));
                    }
                    Ok(call) => {
                        if loading.is_none() || !loading::may(&call.data) {
                            return Err(self.ended_by(called(&call)));
                        }
                        let answer = seccomp_notif_resp {
                            id: call.id,
                            val: 0,
                            error: 0,
                            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
                        };
                        let _ = self.listener.answer(answer);
                    }
                    // It ends, it was killed while it made the call, or a handler of a signal ran here.
                    Err(_) => receives_ends = false,
                }
            } else if has_ended {
                return Err(self.gone());
            }
            if let Some(limit) = loading.filter(|limit| start.elapsed() >= *limit) {
                return Err(self.ended_by(Fault::Time(limit)));
            }
        }
    }

    /// Waits until it makes a call, and whether it does; or until it has ended, and whether it has.
    fn wait(&self, time: Option<Duration>) -> (bool, bool) {
        let mut fds = [
            wanted(self.listener.as_fd().as_raw_fd(), libc::POLLIN),
            wanted(self.process.watch.pidfd().as_raw_fd(), libc::POLLIN),
        ];
        let time = time.map_or(-1, |time| time.as_millis() as i32);
        // Or a handler of a signal ran.
        let count = poll(&mut fds, time).unwrap_or(0);
        let has_call = count > 0 && fds[0].revents & libc::POLLIN != 0;
        (has_call, count > 0)
    }

    /// Ends it, for this.
    fn ended_by(&mut self, fault: Fault) -> Fault {
        self.process.end();
        fault
    }

    /// Its end, which it has come to by itself.
    fn gone(&mut self) -> Fault {
        let already = self.process.end.is_some();
        let end = self.process.end();
        match end {
            _ if already => Fault::Gone("before".to_owned()),
            ChildEvent {
                code: libc::CLD_EXITED,
                status,
                ..
            } => Fault::Gone(format!("exit status {status}")),
            ChildEvent {
                status: libc::SIGSYS,
                ..
            } => Fault::SystemCall("of another architecture".to_owned()),
            ChildEvent {
                status: libc::SIGKILL,
                ..
            } => Fault::Gone("killed from outside".to_owned()),
            ChildEvent { status, .. } => Fault::Code(format!("ended by signal {status}")),
        }
    }

    /// What a pause says that is no answer; the process is ended.
    fn fault(&mut self, why: Pause) -> Fault {
        let fault = match why {
            Pause::Done | Pause::NotLoaded | Pause::Fault => {
                let text = self.text();
                Fault::Code(match text.is_empty() {
                    true => "stopped without an answer".to_owned(),
                    false => text,
                })
            }
            Pause::Emit => Fault::Emit(self.limits.emit),
            Pause::Memory => Fault::Memory(self.limits.memory),
            Pause::EmitArgument => Fault::Argument("vink_emit()"),
            Pause::LogArgument => Fault::Argument("vink_log()"),
            Pause::CountArgument => Fault::Argument("vink_count()"),
            Pause::Abort => Fault::Code("called abort(3)".to_owned()),
        };
        self.ended_by(fault)
    }

    /// The text that the pod's process has left.
    fn text(&self) -> String {
        let len = self.number(area::TEXT_LEN) as usize;
        let mut bytes = [0; area::TEXT_ROOM];
        self.area.read(area::TEXT, &mut bytes);
        clean(&bytes[..len.min(bytes.len())], area::TEXT_ROOM)
    }

    fn number(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        self.area.read(at, &mut bytes);
        u32::from_ne_bytes(bytes)
    }

    /// A crossing, and a processor's time of it.
    fn timed(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        let pid = self.process.watch.pid();
        self.usage.begin(|| cpu_time(pid).unwrap_or_default());
        let began = Instant::now();
        let crossed = self.make_all(batch);
        let time = self.usage.of(began.elapsed(), || cpu_time(pid));
        batch.time = time.as_nanos() as u64;
        crossed
    }

    /// Makes all calls, in as many crossings as they need.
    fn make_all(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        let begin = cycles();
        if self.process.end.is_some() {
            return Err(self.gone());
        }
        let mut first = 0;
        let mut room = Room::new(&self.limits);
        while first < batch.calls.len() {
            let next = self.put(batch, first);
            if next == first {
                let len = batch.calls[first].bytes.len();
                let why = format!("a call of {len} bytes is more than {INPUT}");
                return Err(self.ended_by(Fault::Gone(why)));
            }
            let made = self.make(batch, first, &mut room);
            if made.is_err() {
                self.process.end();
            }
            batch.cycles = cycles() - begin;
            made?;
            first = next;
        }
        Ok(())
    }

    /// Puts as many calls there as fit, from this one on: the first that is not there.
    fn put(&mut self, batch: &Batch, first: usize) -> usize {
        self.places.clear();
        let mut at = area::INPUT;
        for (index, call) in batch.calls.iter().enumerate().skip(first) {
            let len = call.bytes.len();
            let room = match call.entry {
                Entry::Packet => len + ROOM,
                _ => len,
            };
            let next = area::aligned(at + area::CALL + room);
            if next > self.sizes.output_at() {
                return index;
            }
            let numbers = [call.entry as u32, call.argument, len as u32, room as u32, 0];
            for (n, number) in numbers.into_iter().enumerate() {
                self.area.write(at + 4 * n, &number.to_ne_bytes());
            }
            let bytes = &batch.bytes[call.bytes.clone()];
            self.area.write(at + area::CALL, bytes);
            self.places.push(at);
            at = next;
        }
        batch.calls.len()
    }

    /// Makes the calls that are there, which start with this one.
    fn make(&mut self, batch: &mut Batch, first: usize, room: &mut Room) -> Result<(), Fault> {
        let count = self.places.len();
        self.area.write(area::NOW, &batch.now.to_ne_bytes());
        self.area.write(area::CALLS, &(count as u32).to_ne_bytes());
        // Counters, timer and text, too.
        self.area.write(area::DONE, &[0; area::TEXT - area::DONE]);
        let pause = self.answered();
        let taken = self.take(batch, first, room);
        match (pause, taken) {
            (Err(fault), _) => Err(fault),
            (Ok((Pause::Done, _)), Ok(done)) if done == count => Ok(()),
            (Ok((Pause::Done, _)), Err(fault)) => Err(self.ended_by(fault)),
            (Ok((why, _)), _) => Err(self.fault(why)),
        }
    }

    /// Takes the answers, and what was said: how many calls have answers.
    fn take(&mut self, batch: &mut Batch, first: usize, room: &mut Room) -> Result<usize, Fault> {
        let done = (self.number(area::DONE) as usize).min(self.places.len());
        let said = self.said(batch, first, room);
        said.ok_or(Fault::Emit(self.limits.emit))?;
        for (counter, at) in batch.counted.iter_mut().zip((area::COUNTED..).step_by(8)) {
            *counter = counter.wrapping_add(self.long(at) as i64);
        }
        if self.number(area::TIMER_SET) != 0 {
            batch.timer = Some(self.long(area::TIMER));
        }
        for index in 0..done {
            let place = self.places[index];
            let answer = self.number(place + area::ANSWER) as i32;
            let call = &mut batch.calls[first + index];
            call.answer = answer;
            match (call.entry, answer) {
                (Entry::Packet, 1..) => {
                    let len = answer as usize;
                    if len > call.bytes.len() + ROOM {
                        return Err(Fault::Refused("pod_packet()", answer));
                    }
                    let start = batch.emitted_bytes.len();
                    batch.emitted_bytes.resize(start + len, 0);
                    let into = &mut batch.emitted_bytes[start..];
                    self.area.read(place + area::CALL, into);
                    call.changed = start..start + len;
                }
                (Entry::Packet, -1..=0) | (Entry::Stream, CLOSE) | (_, 0) => {}
                (Entry::Packet, _) => return Err(Fault::Refused("pod_packet()", answer)),
                (Entry::Init, _) => return Err(Fault::Refused("pod_init()", answer)),
                (Entry::Stream, _) => return Err(Fault::Refused("pod_stream()", answer)),
                (Entry::Timer, _) => {}
            }
            batch.done = first + index + 1;
        }
        Ok(done)
    }

    fn long(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.area.read(at, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Copies what the pod has said, and takes the copy apart; `None`: it is more than may be said.
    fn said(&self, batch: &mut Batch, first: usize, room: &mut Room) -> Option<()> {
        let start = batch.emitted_bytes.len();
        let len = (self.number(area::SAID) as usize).min(self.sizes.output);
        batch.emitted_bytes.resize(start + len, 0);
        self.area
            .read(self.sizes.output_at(), &mut batch.emitted_bytes[start..]);
        let mut at = start;
        while let Some(record) = batch.emitted_bytes.get(at..at + area::RECORD) {
            let number = |n: usize| {
                let bytes = record[4 * n..4 * n + 4].try_into();
                u32::from_ne_bytes(bytes.expect("four bytes"))
            };
            let (kind, call, output) = (number(0), number(1), number(2));
            let bytes = at + area::RECORD..at + area::RECORD + number(3) as usize;
            let Some(text) = batch.emitted_bytes.get(bytes.clone()) else {
                break;
            };
            match kind {
                area::EMITTED if (call as usize) < self.places.len() => {
                    room.emit(text.len())?;
                    batch.emitted.push(Emitted {
                        call: first + call as usize,
                        output,
                        bytes: bytes.clone(),
                    });
                }
                area::LOGGED => {
                    room.log(text)?;
                    batch.log.extend(lines(text));
                }
                _ => {}
            }
            at = start + area::aligned(bytes.end - start);
        }
        Some(())
    }
}

impl Pod for ProcessPod {
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        match batch.wants_time {
            true => self.timed(batch),
            false => self.make_all(batch),
        }
    }

    fn wall(&self) -> Wall {
        Wall::Process
    }

    fn memory(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.process.watch.pid()));
        let resident = pages.ok().and_then(|pages| {
            let mut fields = pages.split(' ');
            fields.nth(1)?.parse::<u64>().ok()
        });
        resident.unwrap_or(0) * 4096
    }
}

/// Whether `SECCOMP_IOCTL_NOTIF_RECV` returns when the last process of a filter has ended: since Linux 6.11.
/// Before, and if that is not known, another system call waits first.
fn receives_ends() -> bool {
    let release = kernel_release().unwrap_or_default();
    kernel_version(&release) >= (Some(6), Some(11))
}

fn pause(number: u64) -> Pause {
    match number {
        0 => Pause::Done,
        1 => Pause::NotLoaded,
        3 => Pause::Emit,
        4 => Pause::Memory,
        5 => Pause::EmitArgument,
        6 => Pause::LogArgument,
        7 => Pause::Abort,
        8 => Pause::CountArgument,
        _ => Pause::Fault,
    }
}

/// What the system call was.
fn called(call: &seccomp_notif) -> Fault {
    let (number, arguments) = (i64::from(call.data.nr), call.data.args);
    let signal = match number {
        libc::SYS_kill | libc::SYS_tkill => arguments[1],
        libc::SYS_tgkill => arguments[2],
        _ => 0,
    };
    // As libc's own code calls it.
    if signal == libc::SIGABRT as u64 {
        return Fault::Code("called abort(3)".to_owned());
    }
    Fault::SystemCall(match vink_syscalls::name(number) {
        Some(name) => name.to_owned(),
        None => format!("number {number}"),
    })
}

impl Process {
    /// Starts it in a PID namespace, if the host has one for it: and a line about that.
    fn spawn(
        arguments: &[&std::ffi::CStr],
        steps: &[Step],
        limit: Duration,
    ) -> io::Result<(Process, String)> {
        let start = |namespaces| spawn_into(namespaces, arguments[0], arguments, steps);
        let (pid, is_user) = match start(libc::CLONE_NEWPID) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                (start(libc::CLONE_NEWPID | libc::CLONE_NEWUSER), true)
            }
            other => (other, false),
        };
        let (pid, mut report) = match pid {
            Ok(pid) => (pid, "processes: it sees none but itself".to_owned()),
            Err(error) => {
                let why = format!("processes: the host does not allow a PID namespace: {error}");
                (start(0)?, why)
            }
        };
        // This process waits for it, so the number is its own.
        let process = Process {
            watch: Watch::new(pid, limit)?,
            end: None,
        };
        if is_user {
            let (user, group) = (geteuid(), getegid());
            if let Err(error) = vink_confine::map_ids(&pid.to_string(), user, group) {
                report = format!("{report}; its user has no number there: {error}");
            }
        }
        Ok((process, report))
    }

    /// Ends it, if it has not ended: how.
    fn end(&mut self) -> ChildEvent {
        if let Some(end) = self.end {
            return end;
        }
        self.watch.kill();
        let number = self.watch.pidfd().as_raw_fd();
        let end = loop {
            match waitid(libc::P_PIDFD, number, libc::WEXITED) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another part of this program has waited for it.
                Err(_) => {
                    break ChildEvent {
                        pid: self.watch.pid(),
                        code: libc::CLD_KILLED,
                        status: libc::SIGKILL,
                    }
                }
                Ok(event) => break event,
            }
        };
        *self.end.insert(end)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
