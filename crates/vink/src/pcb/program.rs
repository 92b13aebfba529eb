//! `vink pcb --run`: a program under `vink run`, beside which its connections are shown.
//!
//! `vink run` is another process, whose memory is read. Before it starts the program both meet at a socket: `vink run` says
//! that its kernel has booted, and waits until that has been found. Samples come through the same socket.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::thread;

use vink_kernel::Kernel;
use vink_lab::SocketProbes;
use vink_pcb::{Layout, Process};
use vink_protocol::ProbeRequest;
use vink_sys::child::{prepare, Step};
use vink_sys::fd::set_cloexec;
use vink_sys::process::kill;
use vink_sys::terminal;

use super::session::{Beside, End, Message, Session};
use super::source::{by_net, pass_keys, pass_samples_of, pass_signals, points};
use super::{Arguments, Form};
use crate::cli_error::CliError;
use crate::signals::{die_by, Signals};

/// Signals that are not for us, but for the program.
const CAUGHT: [i32; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGWINCH,
];
/// Said by `vink run`, and answered.
const READY: u8 = b'r';

/// Runs the program, and ends as it ended.
pub(super) fn run(arguments: &Arguments, form: Form, start: u64) -> Result<ExitCode, CliError> {
    let signals = Signals::catch(&CAUGHT).map_err(CliError::host("signalfd"))?;
    let (mut ours, theirs) = UnixStream::pair().map_err(CliError::host("socketpair"))?;
    let terminal = match form {
        Form::Screen => Some(Terminal::open().map_err(CliError::host("opening a terminal"))?),
        _ => None,
    };
    let mut child = {
        let mut command = command(arguments, &theirs, terminal.as_ref())?;
        command
            .spawn()
            .map_err(CliError::host("starting vink run"))?
    };
    drop(theirs);
    let pid = child.id();
    let (to, messages) = sync_channel(1024);
    // If it ends before it has booted, it has said why.
    let mut ready = [0];
    if ours.read_exact(&mut ready).is_err() {
        let status = child
            .wait()
            .map_err(CliError::host("waiting for vink run"))?;
        if let Some(terminal) = terminal {
            let _ = io::copy(&mut terminal.master(), &mut io::stderr());
        }
        return Ok(ended_as(status));
    }
    let process = Process::open(pid)?;
    let machines = by_net(process.machines()?);
    let mut session = Session::new(arguments, form, start, process, machines, true)?;
    let mut beside = Program { pid, terminal };
    if let Some((rows, columns)) = session.program_size() {
        beside.resize(rows, columns);
    }
    pass_signals(signals, to.clone());
    if let Some(terminal) = &beside.terminal {
        pass_keys(to.clone());
        pass_output(terminal.master(), to.clone());
    }
    ours.write_all(&[READY])
        .map_err(CliError::host("meeting vink run"))?;
    pass_samples_of(ours, to.clone());
    thread::spawn(move || {
        let status = child.wait().unwrap_or(ExitStatus::from_raw(125 << 8));
        to.send(Message::Ended(status))
    });
    let done = session.run(&messages, Some(&mut beside));
    if done.is_err() {
        beside.signal(libc::SIGTERM);
    }
    session.close()?;
    match done? {
        End::Program(status) => Ok(ended_as(status)),
        End::Done => Ok(ExitCode::SUCCESS),
    }
}

/// `vink run`, with what the user has said of it.
fn command(
    arguments: &Arguments,
    meeting: &UnixStream,
    terminal: Option<&Terminal>,
) -> Result<Command, CliError> {
    let vink = std::env::current_exe().map_err(CliError::host("finding vink"))?;
    let mut command = Command::new(vink);
    command.arg("run");
    let meeting = meeting.as_raw_fd();
    command.arg(format!("--samples={meeting}:{}", points(&arguments.each)));
    // The first word is a program unless it is an option of vink run's.
    if !arguments.program[0].to_string_lossy().starts_with('-') {
        command.arg("--");
    }
    command.args(&arguments.program);
    let slave = terminal.map(Terminal::slave).transpose();
    let slave = slave.map_err(CliError::host("opening a terminal"))?;
    if let Some(slave) = &slave {
        let again = || slave.try_clone().map(Stdio::from);
        let host = || CliError::host("copying a descriptor");
        command.stdin(again().map_err(host())?);
        command.stdout(again().map_err(host())?);
        command.stderr(again().map_err(host())?);
    }
    // Only vink run inherits it. What we have blocked is for us.
    prepare(&mut command, [Step::Keep(meeting), Step::UnblockAll]);
    if terminal.is_some() {
        prepare(&mut command, [Step::Session, Step::Terminal]);
    }
    Ok(command)
}

/// `vink run` and its terminal.
struct Program {
    pid: u32,
    terminal: Option<Terminal>,
}

impl Beside for Program {
    fn keys(&mut self, keys: &[u8]) {
        if let Some(terminal) = &self.terminal {
            // If it has ended, that is told.
            let _ = terminal.master().write_all(keys);
        }
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        if let Some(terminal) = &self.terminal {
            terminal.resize(rows, columns);
        }
    }

    fn signal(&mut self, number: i32) {
        // What our terminal sends, the program has got by itself.
        if self.terminal.is_some() || number == libc::SIGTERM || number == libc::SIGHUP {
            // The process is our child, which a thread waits for until it ends.
            let _ = kill(self.pid as i32, number);
        }
    }
}

/// From the program's terminal to the loop.
fn pass_output(mut from: File, to: SyncSender<Message>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        // EIO: no process has the terminal open any more.
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.send(Message::Output(buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
}

fn ended_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        die_by(signal);
        return ExitCode::from(128 + signal as u8);
    }
    ExitCode::from(status.code().unwrap_or(125) as u8)
}

/// See pty(7).
struct Terminal(File);

impl Terminal {
    fn open() -> io::Result<Terminal> {
        terminal::open_master().map(Terminal)
    }

    fn master(&self) -> File {
        self.0.try_clone().expect("a descriptor can be copied")
    }

    /// The program's side, by the master, not by a path below /dev.
    fn slave(&self) -> io::Result<OwnedFd> {
        terminal::slave_of(&self.0)
    }

    fn resize(&self, rows: u16, columns: u16) {
        let _ = terminal::resize(&self.0, rows, columns);
    }
}

/// `vink run`'s side: where `vink pcb` waits, and at which tracepoints it wants samples.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    meeting: RawFd,
    points: Vec<String>,
}

impl FromStr for Watcher {
    type Err = String;

    fn from_str(text: &str) -> Result<Watcher, String> {
        let (meeting, points) = text.split_once(':').ok_or("FD:POINTS")?;
        let points = points.split(',').filter(|point| !point.is_empty());
        Ok(Watcher {
            meeting: meeting.parse().map_err(|_| "FD:POINTS")?,
            points: points.map(str::to_owned).collect(),
        })
    }
}

impl Watcher {
    /// No process that we start is to have our end of the socket.
    pub(crate) fn keep(&self) {
        let _ = set_cloexec(self.meeting, true);
    }

    /// Begins to record, if that is wanted, and waits until the kernel has been found.
    pub(crate) fn meet(
        &self,
        probes: &mut SocketProbes,
        kernel: &mut Kernel,
        image: &Path,
    ) -> Result<(), CliError> {
        // SAFETY: vink pcb has left it open for this.
        let mut meeting = unsafe { UnixStream::from_raw_fd(self.meeting) };
        let copy = meeting.try_clone();
        if !self.points.is_empty() {
            let layout = Layout::of_file(image)?;
            let request = ProbeRequest {
                points: self.points.clone(),
                bytes: layout.tcp.size,
                only: None,
            };
            let to = copy.map_err(CliError::host("copying a descriptor"))?;
            probes.start(kernel, &request, to.into())?;
        }
        // A reader that has gone is not waited for.
        let mut answer = [0];
        let _ = meeting.set_nonblocking(false);
        let met = meeting.write_all(&[READY]);
        let _ = met.and_then(|()| meeting.read_exact(&mut answer));
        let _ = meeting.set_nonblocking(true);
        Ok(())
    }
}
