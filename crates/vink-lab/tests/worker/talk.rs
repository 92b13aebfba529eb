//! A worker, and words to ask it for things.

use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use vink_protocol::{
    Action, Answer, Event, Message, NewInterface, NewMachine, NewProgram, Request, Status,
    WorkerClock, WorkerConfig,
};
use vink_spec::{Calls, Rights};

use crate::place::Place;
use crate::worker_process::WorkerProcess;

/// A worker that is ready.
pub struct Talk {
    pub link: WorkerProcess,
    last: u64,
    /// What was told so far and not looked at.
    pub events: Vec<Event>,
}

impl Talk {
    pub fn new(place: &Place) -> Talk {
        Talk::with_memory(place, 64 << 20)
    }

    pub fn with_memory(place: &Place, memory: u64) -> Talk {
        let config = WorkerConfig {
            image: image(place),
            cpus: Vec::new(),
            memory,
            cmdline: String::new(),
            seed: Some(1),
            calls: Calls::Auto,
            clock: WorkerClock::Real,
        };
        let link = WorkerProcess::spawn(place.worker(), &config).expect("a worker");
        let mut talk = Talk {
            link,
            last: 0,
            events: Vec::new(),
        };
        match talk.link.receive().expect("a message") {
            Some(Message::Ready { release, .. }) => assert!(release.starts_with("6."), "{release}"),
            other => panic!("{other:?}"),
        }
        talk
    }

    /// Asks, and doesn't wait for the answer.
    pub fn send(&mut self, action: Action, descriptors: &[BorrowedFd<'_>]) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = Request { id, action };
        self.link
            .send(&request, descriptors)
            .expect("a request sent");
        id
    }

    /// The answer to what was asked first of all that was not answered yet.
    pub fn answer(&mut self, expected: u64) -> Result<Answer, String> {
        loop {
            match self.link.receive().expect("a message") {
                Some(Message::Done { id, answer }) => {
                    assert_eq!(id, expected);
                    return Ok(answer);
                }
                Some(Message::Failed { id, error }) => {
                    assert_eq!(id, expected);
                    return Err(error);
                }
                Some(Message::Event(event)) => self.events.push(event),
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn ask_with(
        &mut self,
        action: Action,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, String> {
        let id = self.send(action, descriptors);
        self.answer(id)
    }

    pub fn ask(&mut self, action: Action) -> Result<Answer, String> {
        self.ask_with(action, &[])
    }

    /// What is asked for must be done.
    pub fn ok(&mut self, action: Action) -> Answer {
        let what = format!("{action:?}");
        self.ask(action).unwrap_or_else(|e| panic!("{what}: {e}"))
    }

    /// ... or refused.
    pub fn refused(&mut self, action: Action) -> String {
        let what = format!("{action:?}");
        match self.ask(action) {
            Ok(answer) => panic!("{what}: {answer:?}"),
            Err(error) => error,
        }
    }

    /// Waits for an event, and takes it.
    pub fn event<T>(&mut self, mut is_it: impl FnMut(&Event) -> Option<T>) -> T {
        let mut looked_at = 0;
        loop {
            while let Some(event) = self.events.get(looked_at) {
                if let Some(found) = is_it(event) {
                    self.events.remove(looked_at);
                    return found;
                }
                looked_at += 1;
            }
            match self.link.receive().expect("a message") {
                Some(Message::Event(event)) => self.events.push(event),
                other => panic!("an event was waited for: {other:?}"),
            }
        }
    }

    /// Waits until a program's first process has ended.
    pub fn ended(&mut self, number: u64) -> (i32, Option<String>) {
        self.event(|event| match event {
            Event::Ended {
                program,
                code,
                error,
                ..
            } if *program == number => Some((*code, error.clone())),
            _ => None,
        })
    }

    /// Waits until nothing is left of a program.
    pub fn gone(&mut self, number: u64) {
        self.event(|event| {
            matches!(event, Event::Gone { program } if *program == number).then_some(())
        });
    }

    pub fn machine(&mut self, name: &str) {
        self.ok(machine(name));
    }

    pub fn wire(&mut self, name: &str) {
        let wire = name.to_owned();
        self.ok(Action::Wire { wire, bus: false });
    }

    /// An interface with an IPv4 address in a network of 256.
    pub fn attach(&mut self, machine: &str, interface: &str, wire: &str, address: &str) {
        self.ok(attach(machine, interface, Some(wire), &[address]));
    }

    /// Starts a program; its output goes where it is said.
    pub fn spawn(&mut self, program: NewProgram, stdio: [BorrowedFd<'_>; 3]) -> u64 {
        match self.ask_with(Action::Spawn(program), &stdio) {
            Ok(Answer::Program(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Starts a shell's line; what it writes can be read.
    pub fn start(&mut self, machine: &str, line: &str) -> (u64, File) {
        let (output, end) = pipe();
        let null = null();
        let stdio = [null.as_fd(), end.as_fd(), end.as_fd()];
        (self.spawn(shell(machine, line), stdio), output)
    }

    /// Runs a shell's line to its end: exit status and output.
    pub fn run(&mut self, machine: &str, line: &str) -> (i32, String) {
        let (program, mut output) = self.start(machine, line);
        let (code, _) = self.ended(program);
        let mut text = String::new();
        output.read_to_string(&mut text).expect("output");
        self.gone(program);
        (code, text)
    }

    pub fn status(&mut self, machines: Option<&[&str]>) -> Status {
        let machines = machines.map(|list| list.iter().map(|m| (*m).to_owned()).collect());
        match self.ok(Action::Status { machines }) {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// The kernel's tasks, machines, sockets and files.
    pub fn used(&mut self) -> Vec<(String, u64)> {
        let mut counters = self.status(Some(&[])).counters;
        let counted = ["tasks", "machines", "sockets", "files"];
        counters.retain(|(name, _)| counted.contains(&name.as_str()));
        counters
    }

    /// Closes the socket and waits for the worker's end: its exit status.
    pub fn close(mut self) -> Option<i32> {
        let socket = self.link.socket();
        socket
            .shutdown(std::net::Shutdown::Write)
            .expect("a socket");
        while self.link.receive().expect("a message").is_some() {}
        self.link.process().wait().expect("an exit status").code()
    }
}

/// The image beside this place's vink.
pub fn image(place: &Place) -> PathBuf {
    place.folder().join("libvink-linux-6.12.so")
}

pub fn machine(name: &str) -> Action {
    Action::Machine(NewMachine {
        machine: name.to_owned(),
        forward: false,
        rights: Rights::Full,
        hidden: None,
        files: Vec::new(),
        root: None,
        sysctls: Vec::new(),
    })
}

pub fn attach(machine: &str, interface: &str, wire: Option<&str>, addresses: &[&str]) -> Action {
    let addresses: Vec<_> = addresses.iter().map(|a| a.parse().expect("CIDR")).collect();
    let number = match addresses.first().map(|a: &ipnet::IpNet| a.addr()) {
        Some(IpAddr::V4(v4)) => v4.octets(),
        _ => [0, 0, 0, 1],
    };
    let [a, b, c, d] = number;
    Action::Attach(NewInterface {
        machine: machine.to_owned(),
        interface: interface.to_owned(),
        wire: wire.map(str::to_owned),
        mac: [2, 0, a, b, c, d],
        mtu: 1500,
        addresses,
    })
}

/// A line of a shell on a machine.
pub fn shell(machine: &str, line: &str) -> NewProgram {
    program(machine, &["/bin/bash", "-c", line])
}

pub fn program(machine: &str, words: &[&str]) -> NewProgram {
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    NewProgram {
        machine: machine.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("PATH".to_owned(), path.to_owned())],
        dir: "/".to_owned(),
        terminal: false,
        rights: None,
    }
}

pub fn null() -> File {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("/dev/null")
}

/// What is written to the second end can be read from the first.
pub fn pipe() -> (File, OwnedFd) {
    let (read, write) = vink_sys::fd::pipe().expect("a pipe");
    (read.into(), write)
}

/// A pseudo-terminal of this size: what a user has, and what a program gets.
pub fn terminal(columns: u16, rows: u16) -> (Terminal, OwnedFd) {
    let (file, program) = vink_sys::terminal::open(rows, columns).expect("a terminal");
    let seen = String::new();
    (Terminal { file, seen }, program)
}

/// A user's side of a terminal.
pub struct Terminal {
    pub file: File,
    seen: String,
}

impl Terminal {
    /// Reads until this has appeared, and forgets all up to it.
    pub fn until(&mut self, text: &str) {
        let mut piece = [0; 4096];
        while !self.seen.contains(text) {
            let n = self.file.read(&mut piece).unwrap_or_else(|e| {
                panic!("{e}; {text:?} was waited for, and {:?} seen", self.seen)
            });
            self.seen += &String::from_utf8_lossy(&piece[..n]);
        }
        let end = self.seen.find(text).expect("found") + text.len();
        self.seen.drain(..end);
    }

    pub fn write(&mut self, keys: &str) {
        self.file.write_all(keys.as_bytes()).expect("typing");
    }
}
