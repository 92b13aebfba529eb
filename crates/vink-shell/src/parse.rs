//! From a line to a command.

use vink_api::{ChangeClock, RunClock};
use vink_spec::{nearest, Breakpoint, Settings, Span, UnitError};

use crate::ifconfig::Ifconfig;
use crate::words::{detached, split};
use crate::{settings, Break, Command, Definition, End, Filter, ParseError, Pod, Show, COMMANDS};

/// Understands a line, written outside of machines or inside of one. None: there is nothing on it.
///
/// # Errors
/// What was expected, what was found, and how the command is written.
pub fn parse(line: &str, machine: Option<&str>) -> Result<Option<Command>, ParseError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, after) = match line.find(|c: char| c.is_whitespace()) {
        Some(end) => line.split_at(end),
        None => (line, ""),
    };
    let inside = machine.is_some();
    let of_jobs = name == "kill" && after.trim_start().starts_with('%');
    let known = |command: &&Definition| command.is_known(inside) || of_jobs;
    match (Definition::find(name).filter(known), machine) {
        (Some(definition), _) => {
            let mut words = Words {
                definition,
                machine,
                line,
                rest: split(after)
                    .map_err(|mistake| ParseError::new(format!("{name}: {mistake}")))?
                    .into(),
            };
            let command = (definition.parse)(&mut words)?;
            words.end()?;
            Ok(Some(command))
        }
        (None, Some(machine)) => match detached(line) {
            ("", _) => Err(ParseError::new("a program is missing before '&'")),
            (line, background) => Ok(Some(Command::Run {
                machine: machine.to_owned(),
                line: line.to_owned(),
                background,
            })),
        },
        (None, None) => Err(unknown(name)),
    }
}

/// Says what could have been meant.
fn unknown(name: &str) -> ParseError {
    if let Some(command) = Definition::find(name) {
        return ParseError::new(format!(
            "'{}' is known inside of a machine only: `connect MACHINE`, or `exec MACHINE {} ...`",
            command.name, command.name
        ));
    }
    let begins = |known: &&str| known.chars().next() == name.chars().next();
    let names = COMMANDS.iter().map(|command| command.name);
    ParseError::new(match nearest(name, names.filter(begins)) {
        Some(known) => format!("there is no command '{name}': did you mean '{known}'?"),
        None => format!(
            "there is no command '{name}': `help` lists them; programs run inside of a machine (`connect MACHINE`)"
        ),
    })
}

/// The words after a command's name.
pub(crate) struct Words<'a> {
    definition: &'static Definition,
    machine: Option<&'a str>,
    line: &'a str,
    rest: std::collections::VecDeque<String>,
}

impl Words<'_> {
    /// The next word, which must be there: `expected` says what it is.
    pub(crate) fn next(&mut self, expected: &str) -> Result<String, ParseError> {
        self.rest
            .pop_front()
            .ok_or_else(|| self.wrong(expected, None))
    }

    /// The next word, if there is one.
    fn optional(&mut self) -> Option<String> {
        self.rest.pop_front()
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let here = self.rest.front().is_some_and(|next| next == word);
        if here {
            self.rest.pop_front();
        }
        here
    }

    /// Something else was expected.
    pub(crate) fn wrong(&self, expected: &str, found: Option<&str>) -> ParseError {
        let found = match found {
            Some(word) => format!("'{word}'"),
            None => "the end of the line".to_owned(),
        };
        self.mistake(&format!("expected {expected}, found {found}"))
    }

    /// With the command's name before it and its usage after it.
    pub(crate) fn mistake(&self, what: &str) -> ParseError {
        let usage = self.definition.usage.join("`, or `");
        ParseError::new(format!(
            "{}: {what}; usage: `{usage}`",
            self.definition.name
        ))
    }

    /// Nothing may be left.
    fn end(&mut self) -> Result<(), ParseError> {
        match self.optional() {
            None => Ok(()),
            Some(word) => Err(self.wrong("the end of the line", Some(&word))),
        }
    }

    /// `[MACHINE] INTERFACE`, of which `after` more words follow.
    fn end_of_wire(&mut self, after: usize) -> Result<End, ParseError> {
        let machine = match self.machine {
            Some(machine) if self.rest.len() < 2 + after => machine.to_owned(),
            _ => self.next("a machine's name")?,
        };
        let interface = self.next("an interface's name")?;
        Ok(End { machine, interface })
    }

    /// The machine that the line is for. Only for commands that are known inside.
    fn here(&self) -> String {
        self.machine.expect("a command of the inside").to_owned()
    }

    /// The line behind the command's name and so many more words.
    fn raw(&self, words: usize) -> &str {
        let mut line = self.line;
        for _ in 0..=words {
            let end = line.find(char::is_whitespace).unwrap_or(line.len());
            line = line[end..].trim_start();
        }
        line
    }
}

pub(crate) fn new(words: &mut Words) -> Result<Command, ParseError> {
    match words.next("'machine' or 'wire'")?.as_str() {
        "machine" => {
            let machine = words.next("a name for the machine")?;
            let (mut image, mut forward) = (None, false);
            while let Some(word) = words.optional() {
                match word.as_str() {
                    "image" => image = Some(words.next("an image's name")?),
                    "forward" => forward = true,
                    _ => {
                        return Err(
                            words.wrong("'image', 'forward' or the end of the line", Some(&word))
                        )
                    }
                }
            }
            Ok(Command::NewMachine {
                machine,
                image,
                forward,
            })
        }
        "wire" => {
            let wire = words.next("a name for the wire")?;
            let bus = words.take("bus").then_some(true);
            let mut settings = Settings::default();
            while let Some(name) = words.optional() {
                settings::take(&mut settings, &name, words)?;
            }
            Ok(Command::NewWire {
                wire,
                bus,
                settings,
            })
        }
        other => Err(words.wrong("'machine' or 'wire'", Some(other))),
    }
}

pub(crate) fn delete(words: &mut Words) -> Result<Command, ParseError> {
    let kinds = "'machine', 'wire' or 'interface'";
    match words.next(kinds)?.as_str() {
        "machine" => Ok(Command::DeleteMachine(words.next("a machine's name")?)),
        "wire" => Ok(Command::DeleteWire(words.next("a wire's name")?)),
        "interface" => Ok(Command::DeleteInterface(words.end_of_wire(0)?)),
        other => Err(words.wrong(kinds, Some(other))),
    }
}

pub(crate) fn connect(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Connect(words.next("a machine's name")?))
}

pub(crate) fn exit(_: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Exit)
}

pub(crate) fn addif(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::AddInterface(words.end_of_wire(0)?))
}

pub(crate) fn wireup(words: &mut Words) -> Result<Command, ParseError> {
    let end = words.end_of_wire(1)?;
    let wire = words.next("a wire's name")?;
    Ok(Command::WireUp { end, wire })
}

pub(crate) fn wiredown(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::WireDown(words.end_of_wire(0)?))
}

pub(crate) fn wire(words: &mut Words) -> Result<Command, ParseError> {
    // A wire may be called `set`.
    if words.rest.len() > 2 {
        words.take("set");
    }
    let wire = words.next("a wire's name")?;
    let expected = "a setting, 'up' or 'down'";
    let mut change = Settings::default();
    let mut from = None;
    let mut next = words.next(expected)?;
    if let up @ ("up" | "down") = next.as_str() {
        let up = up == "up";
        return Ok(Command::WirePlug { wire, up });
    }
    loop {
        if next == "from" && change != Settings::default() {
            let end = words.next("MACHINE:INTERFACE or 'outside'")?;
            if end != "outside" && !end.contains(':') {
                return Err(words.wrong("MACHINE:INTERFACE or 'outside'", Some(&end)));
            }
            from = Some(end);
        } else if settings::is_setting(&next) {
            settings::take(&mut change, &next, words)?;
        } else {
            let expected = format!("'up', 'down' or one of {}", settings::names());
            return Err(words.wrong(&expected, Some(&next)));
        }
        match words.optional() {
            Some(word) => next = word,
            None => break,
        }
    }
    Ok(Command::WireSet {
        wire,
        settings: change,
        from,
    })
}

pub(crate) fn show(words: &mut Words) -> Result<Command, ParseError> {
    let what = words.next("'machines', 'wires', 'programs' or a name")?;
    Ok(Command::Show(match what.as_str() {
        "machines" => Show::Machines,
        "wires" => Show::Wires,
        "programs" => Show::Programs(words.optional()),
        "machine" => Show::Machine(words.next("a machine's name")?),
        "wire" => Show::Wire(words.next("a wire's name")?),
        "program" => Show::Program(words.next("a program's number")?),
        _ => Show::Named(what),
    }))
}

pub(crate) fn ps(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Show(Show::Programs(words.optional())))
}

pub(crate) fn exec(words: &mut Words) -> Result<Command, ParseError> {
    let machine = words.next("a machine's name")?;
    let line = words.raw(1).to_owned();
    words.rest.clear();
    match parse(&line, Some(&machine))? {
        None => Err(words.wrong("a line for the machine", None)),
        Some(Command::Connect(_) | Command::Exit) => {
            Err(words.mistake("'connect' and 'exit' are not for 'exec'"))
        }
        Some(command) => Ok(command),
    }
}

pub(crate) fn app(words: &mut Words) -> Result<Command, ParseError> {
    let (line, background) = detached(words.raw(0));
    let list = split(line)?;
    words.rest.clear();
    if list.is_empty() {
        return Err(words.wrong("a virtualized process's name", None));
    }
    Ok(Command::App {
        machine: words.here(),
        words: list,
        background,
    })
}

pub(crate) fn ifconfig(words: &mut Words) -> Result<Command, ParseError> {
    let all: Vec<String> = words.rest.drain(..).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let machine = words.here();
    if let Some(change) = Ifconfig::read(&all) {
        let line = words.line.to_owned();
        return Ok(Command::Ifconfig {
            machine,
            line,
            change,
        });
    }
    let (line, background) = detached(words.line);
    Ok(Command::Run {
        machine,
        line: line.to_owned(),
        background,
    })
}

pub(crate) fn kill(words: &mut Words) -> Result<Command, ParseError> {
    let program = words.next("a program's number or %N")?;
    let signal = match words.optional() {
        None => libc::SIGTERM,
        Some(word) => signal(&word)
            .ok_or_else(|| words.wrong("a signal such as TERM, KILL, INT or 9", Some(&word)))?,
    };
    Ok(Command::Kill { program, signal })
}

/// By name, with or without SIG, or by number.
fn signal(word: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 11] = [
        ("HUP", libc::SIGHUP),
        ("INT", libc::SIGINT),
        ("QUIT", libc::SIGQUIT),
        ("KILL", libc::SIGKILL),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("PIPE", libc::SIGPIPE),
        ("ALRM", libc::SIGALRM),
        ("TERM", libc::SIGTERM),
        ("CONT", libc::SIGCONT),
        ("STOP", libc::SIGSTOP),
    ];
    let word = word.trim_start_matches('-').to_ascii_uppercase();
    let name = word.strip_prefix("SIG").unwrap_or(&word);
    match name.parse() {
        Ok(number) => (1..=64).contains(&number).then_some(number),
        Err(_) => NAMES.iter().find(|(n, _)| *n == name).map(|(_, nr)| *nr),
    }
}

pub(crate) fn wait(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Wait(words.next("a program's number or %N")?))
}

pub(crate) fn jobs(_: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Jobs)
}

pub(crate) fn fg(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Foreground(job(words)?))
}

pub(crate) fn bg(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Background(job(words)?))
}

/// `[N]` or `[%N]`.
fn job(words: &mut Words) -> Result<Option<usize>, ParseError> {
    let Some(word) = words.optional() else {
        return Ok(None);
    };
    let number = word.trim_start_matches('%').parse();
    let number = number.map_err(|_| words.wrong("the number of a job", Some(&word)))?;
    Ok(Some(number))
}

pub(crate) fn capture(words: &mut Words) -> Result<Command, ParseError> {
    let machine = words.next("a machine's name or 'stop'")?;
    if machine == "stop" && words.rest.len() <= 1 {
        let number = words.next("the number of a capture")?;
        let stop = number.parse().map(Command::CaptureStop);
        return stop.map_err(|_| words.wrong("the number of a capture", Some(&number)));
    }
    let interface = words.next("an interface's name")?;
    let file = words.next("a file")?;
    let filter: Vec<String> = words.rest.drain(..).collect();
    Ok(Command::Capture {
        end: End { machine, interface },
        file,
        filter: (!filter.is_empty()).then(|| filter.join(" ")),
    })
}

pub(crate) fn breakpoint(words: &mut Words) -> Result<Command, ParseError> {
    let what = words.next("add, list, rm, enable, disable or continue")?;
    let named = |words: &mut Words| words.next("a breakpoint's name");
    Ok(Command::Break(match what.as_str() {
        "add" => {
            let rest: Vec<String> = words.rest.drain(..).collect();
            let (name, spec) = Breakpoint::from_words(&rest).map_err(|why| words.mistake(&why))?;
            let spec = Box::new(spec);
            Break::Add { name, spec }
        }
        "list" => Break::List,
        "rm" => Break::Remove(named(words)?),
        "enable" | "disable" => Break::Enable {
            breakpoint: named(words)?,
            enabled: what == "enable",
        },
        "continue" => Break::Continue(words.optional()),
        other => return Err(words.wrong("add, list, rm, enable, disable or continue", Some(other))),
    }))
}

pub(crate) fn pod(words: &mut Words) -> Result<Command, ParseError> {
    const WHAT: &str = "list, load or revoke";
    let what = words.next(WHAT)?;
    Ok(Command::Pod(match what.as_str() {
        "list" => Pod::List,
        "load" => Pod::Load {
            pod: words.next("a pod's name")?,
            file: words.optional(),
        },
        "revoke" => Pod::Revoke(words.next("a pod's name")?),
        other => return Err(words.wrong(WHAT, Some(other))),
    }))
}

pub(crate) fn path(words: &mut Words) -> Result<Command, ParseError> {
    const WHAT: &str = "list or revoke";
    let what = words.next(WHAT)?;
    Ok(Command::Pod(match what.as_str() {
        "list" => Pod::Paths,
        "revoke" => Pod::RevokePath(words.next("a path's name")?),
        other => return Err(words.wrong(WHAT, Some(other))),
    }))
}

pub(crate) fn filter(words: &mut Words) -> Result<Command, ParseError> {
    const WHAT: &str = "list, set, check, show, counters, rollback or rm";
    let what = words.next(WHAT)?;
    let place = |words: &mut Words| words.next("a machine or MACHINE:INTERFACE");
    Ok(Command::Filter(match what.as_str() {
        "list" => Filter::List,
        "set" | "check" => Filter::Set {
            place: place(words)?,
            file: words.next("a file for nft(8)")?,
            check: what == "check",
        },
        "show" => Filter::Show(place(words)?),
        "counters" => Filter::Counters(place(words)?),
        "rollback" => {
            let place = place(words)?;
            let version = words.optional().map(|word| {
                let number = word.parse();
                number.map_err(|_| words.wrong("a version's number", Some(&word)))
            });
            let version = version.transpose()?;
            Filter::Rollback { place, version }
        }
        "rm" => Filter::Remove(place(words)?),
        other => return Err(words.wrong(WHAT, Some(other))),
    }))
}

pub(crate) fn save(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Save(words.next("a file")?))
}

pub(crate) fn load(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Load(words.next("a lab file")?))
}

pub(crate) fn source(words: &mut Words) -> Result<Command, ParseError> {
    Ok(Command::Source(words.next("a file of lines")?))
}

pub(crate) fn sleep(words: &mut Words) -> Result<Command, ParseError> {
    let word = words.next("a time, such as 1s")?;
    let span = word.parse::<Span>();
    Ok(Command::Sleep(
        span.map_err(|e| words.mistake(&e.to_string()))?,
    ))
}

pub(crate) fn clock(words: &mut Words) -> Result<Command, ParseError> {
    const EXPECTED: &str = "'pause', 'continue', 'step', 'until' or 'speed'";
    let Some(word) = words.optional() else {
        return Ok(Command::Clock);
    };
    let change = |change| Ok(Command::ChangeClock(change));
    match word.as_str() {
        "pause" => change(ChangeClock {
            paused: Some(true),
            ..ChangeClock::default()
        }),
        "continue" => change(ChangeClock {
            paused: Some(false),
            free: words.take("free").then_some(true),
            speed: None,
        }),
        "speed" => {
            let speed = words.next("a factor, such as 1, or 'max'")?.parse();
            change(ChangeClock {
                speed: Some(speed.map_err(|e: UnitError| words.mistake(&e.to_string()))?),
                ..ChangeClock::default()
            })
        }
        "step" => {
            let by = words
                .optional()
                .unwrap_or_else(|| "event".to_owned())
                .parse();
            Ok(Command::RunClock(
                by.map_err(|e: UnitError| words.mistake(&e.to_string()))?,
            ))
        }
        "until" => {
            let until = words.next("a time, such as 10s")?.parse();
            Ok(Command::RunClock(RunClock {
                until: Some(until.map_err(|e: UnitError| words.mistake(&e.to_string()))?),
                ..RunClock::default()
            }))
        }
        other => Err(words.wrong(EXPECTED, Some(other))),
    }
}

pub(crate) fn errors(words: &mut Words) -> Result<Command, ParseError> {
    match words.next("'stop' or 'continue'")?.as_str() {
        "stop" => Ok(Command::Errors { stop: true }),
        "continue" => Ok(Command::Errors { stop: false }),
        other => Err(words.wrong("'stop' or 'continue'", Some(other))),
    }
}

pub(crate) fn help(words: &mut Words) -> Result<Command, ParseError> {
    let Some(name) = words.optional() else {
        return Ok(Command::Help(None));
    };
    match Definition::find(&name) {
        Some(definition) => Ok(Command::Help(Some(definition))),
        None => Err(unknown(&name)),
    }
}

#[cfg(test)]
mod tests {
    use vink_spec::{Burst, Rate, Share};

    use super::*;

    fn end(machine: &str, interface: &str) -> End {
        End {
            machine: machine.to_owned(),
            interface: interface.to_owned(),
        }
    }

    fn run(line: &str, background: bool) -> Command {
        Command::Run {
            machine: "m1".to_owned(),
            line: line.to_owned(),
            background,
        }
    }

    fn set(settings: Settings, from: Option<&str>) -> Command {
        Command::WireSet {
            wire: "w1".to_owned(),
            settings,
            from: from.map(str::to_owned),
        }
    }

    fn loss() -> Settings {
        Settings {
            loss: Some(Share(0.01)),
            ..Settings::default()
        }
    }

    #[test]
    fn every_command_outside() {
        let m1 = || "m1".to_owned();
        let w1 = || "w1".to_owned();
        let all = Settings {
            rate: Some(Rate(10_000_000)),
            delay: Some(Span(10_000_000)),
            jitter: Some(Span(2_000_000)),
            overtake: Some(true),
            loss: Some(Share(0.01)),
            burst: Some(Burst {
                start: Share(0.01),
                end: Share(0.2),
                loss: Share(0.5),
                good_loss: Share(0.0),
            }),
            corrupt: Some(Share(0.001)),
            duplicate: Some(Share(0.002)),
            reorder: Some(Share(0.05)),
            limit: Some(100),
            mtu: Some(1400),
        };
        let written = settings::written(&all);
        for (line, command) in [
            (
                "new machine m1".to_owned(),
                Command::NewMachine {
                    machine: m1(),
                    image: None,
                    forward: false,
                },
            ),
            (
                "new machine m1 forward image mine".to_owned(),
                Command::NewMachine {
                    machine: m1(),
                    image: Some("mine".to_owned()),
                    forward: true,
                },
            ),
            (
                "new wire w1".to_owned(),
                Command::NewWire {
                    wire: w1(),
                    bus: None,
                    settings: Settings::default(),
                },
            ),
            (
                "new wire w1 bus loss 1%".to_owned(),
                Command::NewWire {
                    wire: w1(),
                    bus: Some(true),
                    settings: loss(),
                },
            ),
            ("delete machine m1".to_owned(), Command::DeleteMachine(m1())),
            ("delete wire w1".to_owned(), Command::DeleteWire(w1())),
            (
                "delete interface m1 vx0".to_owned(),
                Command::DeleteInterface(end("m1", "vx0")),
            ),
            ("connect m1".to_owned(), Command::Connect(m1())),
            ("exit".to_owned(), Command::Exit),
            (
                "addif m1 vx0".to_owned(),
                Command::AddInterface(end("m1", "vx0")),
            ),
            (
                "wireup m1 vx0 w1".to_owned(),
                Command::WireUp {
                    end: end("m1", "vx0"),
                    wire: w1(),
                },
            ),
            (
                "wiredown m1 vx0".to_owned(),
                Command::WireDown(end("m1", "vx0")),
            ),
            ("wire set w1 loss 1%".to_owned(), set(loss(), None)),
            ("wire w1 loss 1%".to_owned(), set(loss(), None)),
            (
                "wire set w1 loss 1% from m1:vx0".to_owned(),
                set(loss(), Some("m1:vx0")),
            ),
            (
                "wire w1 loss 1% from outside".to_owned(),
                set(loss(), Some("outside")),
            ),
            (format!("wire set w1 {written}"), set(all, None)),
            (
                "wire w1 up".to_owned(),
                Command::WirePlug {
                    wire: w1(),
                    up: true,
                },
            ),
            (
                "wire set down".to_owned(),
                Command::WirePlug {
                    wire: "set".to_owned(),
                    up: false,
                },
            ),
            ("show machines".to_owned(), Command::Show(Show::Machines)),
            ("show wires".to_owned(), Command::Show(Show::Wires)),
            (
                "show programs".to_owned(),
                Command::Show(Show::Programs(None)),
            ),
            (
                "show programs m1".to_owned(),
                Command::Show(Show::Programs(Some(m1()))),
            ),
            (
                "show machine m1".to_owned(),
                Command::Show(Show::Machine(m1())),
            ),
            ("show wire w1".to_owned(), Command::Show(Show::Wire(w1()))),
            (
                "show program 7".to_owned(),
                Command::Show(Show::Program("7".to_owned())),
            ),
            ("show m1".to_owned(), Command::Show(Show::Named(m1()))),
            ("ps".to_owned(), Command::Show(Show::Programs(None))),
            (
                "ps m1".to_owned(),
                Command::Show(Show::Programs(Some(m1()))),
            ),
            (
                "exec m1 ping -c 1  'a b' &".to_owned(),
                run("ping -c 1  'a b'", true),
            ),
            (
                "exec m1 addif vx0".to_owned(),
                Command::AddInterface(end("m1", "vx0")),
            ),
            (
                "kill 7".to_owned(),
                Command::Kill {
                    program: "7".to_owned(),
                    signal: libc::SIGTERM,
                },
            ),
            (
                "kill m1.web -sigkill".to_owned(),
                Command::Kill {
                    program: "m1.web".to_owned(),
                    signal: libc::SIGKILL,
                },
            ),
            ("wait 7".to_owned(), Command::Wait("7".to_owned())),
            ("jobs".to_owned(), Command::Jobs),
            ("fg".to_owned(), Command::Foreground(None)),
            ("fg %2".to_owned(), Command::Foreground(Some(2))),
            ("bg 2".to_owned(), Command::Background(Some(2))),
            (
                "capture m1 vx0 f.pcapng".to_owned(),
                Command::Capture {
                    end: end("m1", "vx0"),
                    file: "f.pcapng".to_owned(),
                    filter: None,
                },
            ),
            (
                "capture m1 vx0 'a b' tcp port 80".to_owned(),
                Command::Capture {
                    end: end("m1", "vx0"),
                    file: "a b".to_owned(),
                    filter: Some("tcp port 80".to_owned()),
                },
            ),
            ("capture stop 3".to_owned(), Command::CaptureStop(3)),
            (
                "break add m1:vx0 arrival filter 'tcp port 80' drop times 3 name http".to_owned(),
                Command::Break(Break::Add {
                    name: Some("http".to_owned()),
                    spec: Box::new(Breakpoint {
                        at: Some("m1:vx0".to_owned()),
                        on: vec![vink_spec::Point::Arrival],
                        filter: Some("tcp port 80".to_owned()),
                        drop: true,
                        times: Some(3),
                        ..Breakpoint::default()
                    }),
                }),
            ),
            ("break list".to_owned(), Command::Break(Break::List)),
            (
                "pod load count count.so".to_owned(),
                Command::Pod(Pod::Load {
                    pod: "count".to_owned(),
                    file: Some("count.so".to_owned()),
                }),
            ),
            ("path list".to_owned(), Command::Pod(Pod::Paths)),
            ("filter list".to_owned(), Command::Filter(Filter::List)),
            (
                "filter check m1:eth0 web.nft".to_owned(),
                Command::Filter(Filter::Set {
                    place: "m1:eth0".to_owned(),
                    file: "web.nft".to_owned(),
                    check: true,
                }),
            ),
            (
                "filter rollback m1 3".to_owned(),
                Command::Filter(Filter::Rollback {
                    place: "m1".to_owned(),
                    version: Some(3),
                }),
            ),
            (
                "filter rm m1".to_owned(),
                Command::Filter(Filter::Remove("m1".to_owned())),
            ),
            (
                "break rm http".to_owned(),
                Command::Break(Break::Remove("http".to_owned())),
            ),
            (
                "break disable http".to_owned(),
                Command::Break(Break::Enable {
                    breakpoint: "http".to_owned(),
                    enabled: false,
                }),
            ),
            (
                "break continue".to_owned(),
                Command::Break(Break::Continue(None)),
            ),
            (
                "break continue m1".to_owned(),
                Command::Break(Break::Continue(Some("m1".to_owned()))),
            ),
            (
                "save lab.yaml # as it is".to_owned(),
                Command::Save("lab.yaml".to_owned()),
            ),
            (
                "load lab.yaml".to_owned(),
                Command::Load("lab.yaml".to_owned()),
            ),
            (
                "source lines".to_owned(),
                Command::Source("lines".to_owned()),
            ),
            ("sleep 200ms".to_owned(), Command::Sleep(Span(200_000_000))),
            ("clock".to_owned(), Command::Clock),
            (
                "clock until 2s".to_owned(),
                Command::RunClock(RunClock {
                    until: Some(Span(2_000_000_000)),
                    ..RunClock::default()
                }),
            ),
            (
                "clock continue free".to_owned(),
                Command::ChangeClock(ChangeClock {
                    paused: Some(false),
                    free: Some(true),
                    speed: None,
                }),
            ),
            ("errors stop".to_owned(), Command::Errors { stop: true }),
            (
                "errors continue".to_owned(),
                Command::Errors { stop: false },
            ),
            ("help".to_owned(), Command::Help(None)),
            (
                "help wire".to_owned(),
                Command::Help(Definition::find("wire")),
            ),
        ] {
            assert_eq!(parse(&line, None), Ok(Some(command)), "{line}");
        }
    }

    #[test]
    fn every_command_inside() {
        let inside = |line: &str| parse(line, Some("m1"));
        for (line, command) in [
            ("addif vx0", Command::AddInterface(end("m1", "vx0"))),
            ("addif m2 vx0", Command::AddInterface(end("m2", "vx0"))),
            (
                "delete interface vx0",
                Command::DeleteInterface(end("m1", "vx0")),
            ),
            (
                "wireup vx0 w1",
                Command::WireUp {
                    end: end("m1", "vx0"),
                    wire: "w1".to_owned(),
                },
            ),
            (
                "wireup m2 vx0 w1",
                Command::WireUp {
                    end: end("m2", "vx0"),
                    wire: "w1".to_owned(),
                },
            ),
            ("wiredown vx0", Command::WireDown(end("m1", "vx0"))),
            ("connect m2", Command::Connect("m2".to_owned())),
            ("exit", Command::Exit),
            (
                "ifconfig vx0 10.0.0.1",
                Command::Ifconfig {
                    machine: "m1".to_owned(),
                    line: "ifconfig vx0 10.0.0.1".to_owned(),
                    change: Ifconfig {
                        interface: "vx0".to_owned(),
                        address: "10.0.0.1/8".parse().expect("an address"),
                        remove: false,
                    },
                },
            ),
            ("ifconfig", run("ifconfig", false)),
            ("ifconfig | head -1", run("ifconfig | head -1", false)),
            ("route", run("route", false)),
            (
                "app ping -c 1 'm 2'&",
                Command::App {
                    machine: "m1".to_owned(),
                    words: ["ping", "-c", "1", "m 2"].map(str::to_owned).to_vec(),
                    background: true,
                },
            ),
            ("echoserver&", run("echoserver", true)),
            (
                "ps aux | grep 'x' # all",
                run("ps aux | grep 'x' # all", false),
            ),
            ("sleep 100", run("sleep 100", false)),
            ("kill 1234", run("kill 1234", false)),
            (
                "kill %1 int",
                Command::Kill {
                    program: "%1".to_owned(),
                    signal: libc::SIGINT,
                },
            ),
            ("exec ls", run("exec ls", false)),
            ("echo \"it's", run("echo \"it's", false)),
        ] {
            assert_eq!(inside(line), Ok(Some(command)), "{line}");
        }
    }

    #[test]
    fn nothing() {
        for line in ["", "  ", "# new machine m1", "  # x"] {
            assert_eq!(parse(line, None), Ok(None), "{line}");
            assert_eq!(parse(line, Some("m1")), Ok(None), "{line}");
        }
    }

    #[test]
    fn mistakes_say_what_is_expected() {
        for (line, why) in [
            (
                "new",
                "new: expected 'machine' or 'wire', found the end of the line; usage: `new machine",
            ),
            (
                "new lab x",
                "new: expected 'machine' or 'wire', found 'lab'",
            ),
            (
                "new machine",
                "new: expected a name for the machine, found the end of the line",
            ),
            (
                "new machine m1 bus",
                "expected 'image', 'forward' or the end of the line, found 'bus'",
            ),
            ("new machine m1 image", "expected an image's name"),
            ("new wire", "new: expected a name for the wire"),
            (
                "new wire w1 fast",
                "new: expected one of rate, delay, jitter, ",
            ),
            (
                "new wire w1 rate",
                "new: expected after 'rate' bits per second, such as 10mbit",
            ),
            (
                "new wire w1 rate fast",
                "new: rate: \"fast\" is not a rate: write it like 10mbit",
            ),
            (
                "delete",
                "delete: expected 'machine', 'wire' or 'interface'",
            ),
            (
                "delete m1",
                "delete: expected 'machine', 'wire' or 'interface', found 'm1'",
            ),
            (
                "delete interface vx0",
                "delete: expected an interface's name",
            ),
            ("connect", "connect: expected a machine's name"),
            (
                "connect m1 m2",
                "connect: expected the end of the line, found 'm2'",
            ),
            ("exit 1", "exit: expected the end of the line, found '1'"),
            ("addif vx0", "addif: expected an interface's name"),
            ("wireup m1 vx0", "wireup: expected a wire's name"),
            ("wiredown m1", "wiredown: expected an interface's name"),
            ("wire", "wire: expected a wire's name"),
            ("wire w1", "wire: expected a setting, 'up' or 'down'"),
            (
                "wire w1 sideways",
                "wire: expected 'up', 'down' or one of rate, ",
            ),
            ("wire w1 loss", "wire: expected after 'loss' a share"),
            ("wire w1 loss often", "wire: loss: \"often\" is not a share"),
            ("wire w1 delay soon", "wire: delay: \"soon\" is not a time"),
            (
                "wire w1 overtake perhaps",
                "wire: expected after 'overtake' yes or no, found 'perhaps'",
            ),
            ("wire w1 burst 1%", "wire: burst: \"1%\" is not START,END"),
            (
                "wire w1 limit 1.5",
                "wire: limit: \"1.5\" is not a whole number",
            ),
            (
                "wire w1 loss 1% from m1",
                "wire: expected MACHINE:INTERFACE or 'outside', found 'm1'",
            ),
            (
                "wire w1 from m1:vx0",
                "wire: expected 'up', 'down' or one of",
            ),
            (
                "show",
                "show: expected 'machines', 'wires', 'programs' or a name",
            ),
            ("show machine", "show: expected a machine's name"),
            ("exec m1", "exec: expected a line for the machine"),
            (
                "exec m1 exit",
                "exec: 'connect' and 'exit' are not for 'exec'",
            ),
            (
                "exec m1 new lab",
                "new: expected 'machine' or 'wire', found 'lab'",
            ),
            ("kill", "kill: expected a program's number or %N"),
            ("kill 7 softly", "kill: expected a signal such as TERM"),
            ("kill 7 65", "kill: expected a signal such as TERM"),
            ("wait", "wait: expected a program's number"),
            ("jobs all", "jobs: expected the end of the line"),
            ("fg x", "fg: expected the number of a job, found 'x'"),
            ("bg x", "bg: expected the number of a job"),
            ("capture m1 vx0", "capture: expected a file"),
            ("capture stop", "capture: expected the number of a capture"),
            (
                "break",
                "break: expected add, list, rm, enable, disable or continue",
            ),
            (
                "break all",
                "break: expected add, list, rm, enable, disable or continue, found 'all'",
            ),
            (
                "break add m1 times none",
                "break: times: expected a number, found 'none'",
            ),
            (
                "capture stop it",
                "capture: expected the number of a capture, found 'it'",
            ),
            ("save", "save: expected a file"),
            ("load", "load: expected a lab file"),
            ("source", "source: expected a file of lines"),
            ("sleep", "sleep: expected a time, such as 1s"),
            ("sleep long", "sleep: \"long\" is not a time"),
            ("errors", "errors: expected 'stop' or 'continue'"),
            (
                "errors off",
                "errors: expected 'stop' or 'continue', found 'off'",
            ),
            ("save 'x", "save: the quote ' has no end"),
            ("help nwe", "there is no command 'nwe': did you mean 'new'?"),
            (
                "conect m1",
                "there is no command 'conect': did you mean 'connect'?",
            ),
            (
                "ls -l",
                "there is no command 'ls': `help` lists them; programs run inside",
            ),
            ("ifconfig", "'ifconfig' is known inside of a machine only"),
            ("app ping", "'app' is known inside of a machine only"),
        ] {
            let mistake = parse(line, None).expect_err(line).to_string();
            assert!(
                mistake.starts_with(why) || mistake.contains(why),
                "{line}: {mistake}"
            );
        }
        for (line, why) in [
            ("addif", "addif: expected an interface's name"),
            ("wireup", "wireup: expected an interface's name"),
            ("app", "app: expected a virtualized process's name"),
            ("app &", "app: expected a virtualized process's name"),
            ("&", "a program is missing before '&'"),
        ] {
            let mistake = parse(line, Some("m1")).expect_err(line).to_string();
            assert!(mistake.starts_with(why), "{line}: {mistake}");
        }
    }

    #[test]
    fn everything_has_its_help() {
        for command in &COMMANDS {
            let help = command.help();
            for usage in command.usage {
                assert!(usage.starts_with(command.name), "{usage}");
                assert!(help.contains(usage), "{help}");
            }
            assert!(
                help.lines()
                    .skip(command.usage.len())
                    .all(|line| line.len() <= 80),
                "{help}"
            );
            assert!(crate::overview().contains(command.summary));
            let outside = parse(&format!("help {}", command.name), None);
            assert_eq!(outside, Ok(Some(Command::Help(Some(command)))));
        }
    }
}
