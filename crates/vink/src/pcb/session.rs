//! The loop behind `vink pcb`: what comes, from wherever, to the screen or the stream.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vink_lab::Sample;
use vink_pcb::{Connection, Error, Field, Layout, Process, Value};

use super::choice::choose;
use super::screen::Screen;
use super::source::Event;
use super::stream::{Line, Stream};
use super::{Arguments, Form};
use crate::cli_error::CliError;
use crate::print::say;

/// How often the screen is drawn at most.
const FRAME: Duration = Duration::from_millis(50);

/// Something has come.
pub(super) enum Message {
    /// A socket, at an event.
    Sample(Sample),
    /// There will be no more of them; why, if that is an error.
    NoMore(Option<String>),
    /// From the program.
    Output(Vec<u8>),
    /// The program has ended.
    Ended(ExitStatus),
    /// From our terminal.
    Keys(Vec<u8>),
    /// A signal: vink is to end, or the terminal has another size.
    Signal(i32),
}

/// The program beside which its connections are shown.
pub(super) trait Beside {
    /// Keys for it.
    fn keys(&mut self, keys: &[u8]);
    /// Its part of the screen has another size.
    fn resize(&mut self, rows: u16, columns: u16);
    /// A signal asks it to end.
    fn signal(&mut self, number: i32);
}

/// What is watched, and how.
pub(super) struct Session<'a> {
    arguments: &'a Arguments,
    process: Process,
    /// The machines that are looked at: their names, by the address of their `struct net`.
    machines: HashMap<u64, String>,
    fields: Vec<Field>,
    output: Output,
    start: u64,
    left: u64,
    missed: u64,
    /// What was last written of a connection, so that only what is new is.
    last: HashMap<u64, Vec<u8>>,
    /// The process can't be read any more.
    over: bool,
}

enum Output {
    Screen(Box<Screen>),
    Stream(Stream),
    Once,
}

/// Why the loop is over.
pub(super) enum End {
    /// There is nothing more, or enough.
    Done,
    /// The program has ended.
    Program(ExitStatus),
}

impl<'a> Session<'a> {
    /// The date, in ns since 1970: times count from here.
    pub fn begin() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// Of some machines of a process.
    pub fn new(
        arguments: &'a Arguments,
        form: Form,
        start: u64,
        process: Process,
        machines: HashMap<u64, String>,
        beside: bool,
    ) -> Result<Session<'a>, CliError> {
        let fields = choose(&process.layout().tcp, &arguments.fields)?;
        let output = match form {
            Form::Screen => {
                Output::Screen(Box::new(Screen::open(beside, arguments.fields.is_empty())?))
            }
            Form::Once => Output::Once,
            Form::Json | Form::Csv => {
                let to: Box<dyn Write> = match &arguments.output {
                    Some(path) => {
                        let what = format!("creating {}", path.display());
                        Box::new(File::create(path).map_err(CliError::host(what))?)
                    }
                    None => Box::new(io::stdout()),
                };
                let names = fields.iter().map(|field| field.name.as_str());
                Output::Stream(match form {
                    Form::Csv => Stream::csv(to, names).map_err(written)?,
                    _ => Stream::json(to),
                })
            }
        };
        Ok(Session {
            arguments,
            process,
            machines,
            fields,
            output,
            start,
            left: arguments.count.unwrap_or(u64::MAX),
            missed: 0,
            last: HashMap::new(),
            over: false,
        })
    }

    /// The part of the screen that is the program's: rows and columns.
    pub fn program_size(&self) -> Option<(u16, u16)> {
        match &self.output {
            Output::Screen(screen) => screen.program_size(),
            _ => None,
        }
    }

    /// Until there is nothing more to come.
    pub fn run(
        &mut self,
        messages: &Receiver<Message>,
        mut beside: Option<&mut dyn Beside>,
    ) -> Result<End, CliError> {
        if matches!(self.output, Output::Once) {
            self.look()?;
            return Ok(End::Done);
        }
        let by_time = self.arguments.each.is_empty();
        let every = self.arguments.every.duration();
        let (mut look, mut draw) = (Instant::now(), Instant::now());
        let mut ended = None;
        let mut no_more = by_time;
        loop {
            let now = Instant::now();
            if by_time && now >= look && ended.is_none() {
                self.look()?;
                look = now + every;
            }
            if let (Output::Screen(screen), true) = (&mut self.output, now >= draw) {
                screen
                    .draw(&self.process, ended)
                    .map_err(CliError::host("drawing"))?;
                draw = now + FRAME;
            }
            let shown = matches!(self.output, Output::Screen(_));
            match ended {
                // With a screen, the user ends it.
                Some(status) if no_more && !shown => return Ok(End::Program(status)),
                None if self.left == 0 && beside.is_none() => return Ok(End::Done),
                None if self.over && beside.is_none() => return Ok(End::Done),
                _ => {}
            }
            let mut until = Instant::now() + Duration::from_secs(1);
            if by_time && ended.is_none() {
                until = until.min(look);
            }
            if shown {
                until = until.min(draw);
            }
            let wait = until.saturating_duration_since(Instant::now());
            let message = match messages.recv_timeout(wait) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                // The senders are gone: only time goes on.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(wait);
                    continue;
                }
            };
            match message {
                Message::Sample(sample) => self.sample(sample)?,
                Message::NoMore(Some(error)) => return Err(CliError::Other(error)),
                Message::NoMore(None) => {
                    no_more = true;
                    self.over |= beside.is_none();
                }
                Message::Output(bytes) => {
                    if let Output::Screen(screen) = &mut self.output {
                        screen.program(&bytes);
                    }
                }
                Message::Ended(status) => {
                    ended = Some(status);
                    if let Output::Screen(screen) = &mut self.output {
                        screen.close_all();
                    }
                }
                Message::Keys(keys) => match &mut beside {
                    Some(beside) if ended.is_none() => beside.keys(&keys),
                    _ => {
                        let Output::Screen(screen) = &mut self.output else {
                            continue;
                        };
                        if screen.keys(&keys) {
                            return Ok(ended.map_or(End::Done, End::Program));
                        }
                        draw = Instant::now();
                    }
                },
                Message::Signal(libc::SIGWINCH) => {
                    if let Output::Screen(screen) = &mut self.output {
                        screen.resize();
                        let size = screen.program_size();
                        if let (Some(beside), Some((rows, columns))) = (&mut beside, size) {
                            beside.resize(rows, columns);
                        }
                    }
                }
                Message::Signal(number) => match &mut beside {
                    Some(beside) => beside.signal(number),
                    None => return Ok(End::Done),
                },
            }
        }
    }

    /// How all connections are now.
    fn look(&mut self) -> Result<(), CliError> {
        let date = Session::begin();
        let mut found = Vec::new();
        for net in self.machines.keys() {
            match self.process.connections(*net) {
                Ok(all) => found.extend(all),
                // A list has changed under our eyes: the next look will tell.
                Err(Error::Memory { source, .. })
                    if source.raw_os_error() == Some(libc::EFAULT) => {}
                Err(Error::Memory { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => {
                    self.over = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        found.retain(|connection| self.is_wanted(connection));
        found.sort_by_key(|connection| (connection.local, connection.remote));
        if let Output::Screen(screen) = &mut self.output {
            screen.keep(&found);
        }
        let there: Vec<u64> = found.iter().map(|connection| connection.at).collect();
        self.last.retain(|at, _| there.contains(at));
        for connection in found {
            self.take(date, None, connection)?;
        }
        Ok(())
    }

    /// A socket, at an event.
    fn sample(&mut self, sample: Sample) -> Result<(), CliError> {
        self.missed += sample.missed;
        let event = self.arguments.each.get(sample.point).copied();
        match self.process.layout().connection(sample.at, sample.bytes) {
            Some(connection) if self.is_wanted(&connection) => {
                self.take(sample.date, event, connection)
            }
            _ => Ok(()),
        }
    }

    fn is_wanted(&self, connection: &Connection) -> bool {
        let wanted = &self.arguments.connections;
        let ends = format!("{} {}", connection.local, connection.remote);
        self.machines.contains_key(&connection.net)
            && (wanted.is_empty() || wanted.iter().any(|text| ends.contains(text.as_str())))
    }

    fn take(
        &mut self,
        date: u64,
        event: Option<Event>,
        connection: Connection,
    ) -> Result<(), CliError> {
        let layout = self.process.layout();
        let machine = &self.machines[&connection.net];
        match &mut self.output {
            Output::Screen(screen) => {
                screen.take(layout, &self.fields, machine, connection);
            }
            Output::Once => once(&self.process, &self.fields, machine, &connection)?,
            Output::Stream(stream) => {
                // By time, what has not changed is no news.
                let now = own_bytes(&self.fields, &connection);
                if event.is_none() && self.last.get(&connection.at) == Some(&now) {
                    return Ok(());
                }
                if self.left == 0 {
                    return Ok(());
                }
                self.left -= 1;
                let line = Line {
                    time: date as i64 - self.start as i64,
                    event: event.map_or("time", Event::name),
                    machine,
                    state: layout.state(connection.state),
                    connection: &connection,
                    missed: std::mem::take(&mut self.missed),
                    values: values(&self.process, &self.fields, &connection),
                };
                match stream.write(&line) {
                    // A reader that has read enough closes it.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.left = 0,
                    done => done.map_err(written)?,
                }
                self.last.insert(connection.at, now);
            }
        }
        Ok(())
    }

    /// What is told after the end: samples that were lost, and what was on the program's screen.
    pub fn close(self) -> Result<(), CliError> {
        match self.output {
            Output::Screen(screen) => screen.close().map_err(CliError::host("drawing"))?,
            Output::Stream(_) | Output::Once => {}
        }
        if self.missed > 0 {
            eprintln!(
                "vink: {} samples came faster than they were taken",
                self.missed
            );
        }
        Ok(())
    }
}

fn written(error: io::Error) -> CliError {
    CliError::host("writing samples")(error)
}

/// The bytes of all wanted fields, one after the other.
fn own_bytes(fields: &[Field], connection: &Connection) -> Vec<u8> {
    let bytes = fields
        .iter()
        .filter_map(|field| field.bytes(&connection.bytes));
    bytes.flatten().copied().collect()
}

/// An address in the image has a name.
pub(super) fn named(process: &Process, value: Value) -> Value {
    match value {
        Value::Pointer(at) => match process.symbol(at) {
            Some(name) => Value::Text(name.to_owned()),
            None => Value::Pointer(at),
        },
        other => other,
    }
}

fn values<'f>(
    process: &Process,
    fields: &'f [Field],
    connection: &Connection,
) -> Vec<(&'f str, Value)> {
    let value = |field: &'f Field| {
        let value = named(process, field.read(&connection.bytes)?);
        Some((field.name.as_str(), value))
    };
    fields.iter().filter_map(value).collect()
}

/// A heading for a connection.
pub(super) fn title(layout: &Layout, machine: &str, connection: &Connection) -> String {
    let Connection {
        local,
        remote,
        state,
        ..
    } = connection;
    format!("{machine} {local} > {remote} {}", layout.state(*state))
}

fn once(
    process: &Process,
    fields: &[Field],
    machine: &str,
    connection: &Connection,
) -> Result<(), CliError> {
    say!("{}", title(process.layout(), machine, connection))?;
    for (name, value) in values(process, fields, connection) {
        say!("  {name} = {value}")?;
    }
    Ok(())
}
