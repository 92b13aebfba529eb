//! One side of one program: a server on one end of a wire, a client on the other, on the host or on Vink.
//!
//! Runs in a process of its own, as the user in question, in the folder of the run.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::in_process::InProcess;
use crate::ready;
use crate::vink::Vink;
use crate::BoxError;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// Two network namespaces of the host.
    Host,
    /// The same, where programs are told that there is one at an end at a time.
    HostAlone,
    /// Two machines of a worker.
    Vink,
    /// The same, where dynamically linked programs post calls in shared memory.
    Shared,
    /// The same while calls come often, which is `vink run`'s default.
    Auto,
    /// A stack in each program, of which there is one at an end at a time.
    InProcess,
}

/// One of two computers joined by a wire, whose interfaces are called `eth0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Server,
    Client,
}

impl End {
    pub const BOTH: [End; 2] = [End::Server, End::Client];

    pub fn name(self) -> &'static str {
        match self {
            End::Server => "server",
            End::Client => "client",
        }
    }

    /// IPv4 and IPv6.
    pub fn addresses(self) -> [&'static str; 2] {
        match self {
            End::Server => ["10.0.0.2/24", "fd00::2/64"],
            End::Client => ["10.0.0.1/24", "fd00::1/64"],
        }
    }
}

/// A command and where its output goes; standard input is empty, the session its own.
pub(crate) struct Command<'a> {
    pub argv: &'a [&'a str],
    pub out: File,
    pub err: File,
}

/// Names a started command.
pub(crate) type Job = usize;

/// What both sides offer.
pub(crate) trait Ends {
    fn start(&mut self, end: End, command: Command) -> Result<Job, BoxError>;
    /// The exit status of an ended one, 128 and the signal if that ended it.
    fn status(&mut self, job: Job) -> Result<Option<i32>, BoxError>;
    fn signal(&mut self, job: Job, signal: i32) -> Result<(), BoxError>;
    /// Lets things happen until one of these ends, or it is that late.
    fn wait(&mut self, jobs: &[Job], until: Instant) -> Result<(), BoxError>;
    /// Ends all that was started, and what that has started.
    fn clear(&mut self) -> Result<(), BoxError>;
}

/// The file that says for how long the client has run.
pub(crate) const SECONDS: &str = "client.seconds";

const START: Duration = Duration::from_secs(60);
const WORK: Duration = Duration::from_secs(90);
const STOP: Duration = Duration::from_secs(15);

/// Runs server and client, and ends them. What the client says is left in `client.out`, and the way the
/// server ended in `server.status`.
pub(crate) fn run(side: Side, name: &str, ready: &[String]) -> Result<(), BoxError> {
    for end in End::BOTH {
        for (variable, address) in ["", "6"].iter().zip(end.addresses()) {
            let address = address.split('/').next().expect("the part before it");
            std::env::set_var(format!("{}{variable}", end.name().to_uppercase()), address);
        }
    }
    let mut ends: Box<dyn Ends> = match side {
        Side::Host => Box::new(Host::new()?),
        Side::HostAlone => {
            std::env::set_var("ALONE", "1");
            Box::new(Host::new()?)
        }
        Side::Vink => Box::new(Vink::new()?),
        Side::Shared => Box::new(Vink::shared()?),
        Side::Auto => Box::new(Vink::auto()?),
        Side::InProcess => {
            std::env::set_var("ALONE", "1");
            Box::new(InProcess::new(&std::env::current_dir()?)?)
        }
    };
    let ready: Vec<_> = match side {
        Side::InProcess => ready
            .iter()
            .filter(|what| !what.starts_with("udp/"))
            .collect(),
        _ => ready.iter().collect(),
    };
    let done = play(ends.as_mut(), side, name, &ready);
    let cleared = ends.clear();
    done.and(cleared)
}

fn play(ends: &mut dyn Ends, side: Side, name: &str, ready: &[&String]) -> Result<(), BoxError> {
    let server = match ready {
        [] => None,
        _ => Some(serve(ends, side, name, ready)?),
    };
    let script = ["bash", "-euo", "pipefail", "prelude.sh", name, "client"];
    let client = start(ends, End::Client, &script, "client.out", "client.err")?;
    let begun = Instant::now();
    ends.wait(&[client], begun + WORK)?;
    let taken = begun.elapsed().as_secs_f64();
    let status = ends.status(client)?;
    fs::write(SECONDS, taken.to_string())?;
    let server_said = || match server {
        Some(_) => format!("; the server: {}", tail(ready::OUTPUT)),
        None => String::new(),
    };
    let client_said = || format!("{}{}", tail("client.out"), tail("client.err"));
    match status {
        Some(0) => {}
        Some(n) => {
            return Err(format!(
                "the client ended with {n}: {}{}",
                client_said(),
                server_said()
            )
            .into())
        }
        None => {
            return Err(format!(
                "the client did not end in {WORK:?}: {}{}",
                client_said(),
                server_said()
            )
            .into())
        }
    }
    let Some(server) = server else { return Ok(()) };
    if ends.status(server)?.is_none() {
        // It may have ended since.
        let _ = ends.signal(server, libc::SIGTERM);
        ends.wait(&[server], Instant::now() + STOP)?;
    }
    let Some(status) = ends.status(server)? else {
        return Err(format!("the server did not end on SIGTERM{}", server_said()).into());
    };
    fs::write("server.status", format!("the server ended with {status}\n"))?;
    Ok(())
}

/// Starts the server and waits until it is ready.
fn serve(ends: &mut dyn Ends, side: Side, name: &str, ready: &[&String]) -> Result<Job, BoxError> {
    let script = ["bash", "-euo", "pipefail", "prelude.sh", name, "server"];
    let server = start(ends, End::Server, &script, ready::OUTPUT, ready::OUTPUT)?;
    let myself = std::env::current_exe()?;
    let myself = myself.to_str().ok_or("a name in UTF-8")?;
    let until = Instant::now() + START;
    for what in ready {
        // Only the server itself is on its machine, if the stack is in its process.
        let waiter = match side {
            Side::InProcess => (End::Client, &[myself, "await", "--there", what][..]),
            _ => (End::Server, &[myself, "await", what][..]),
        };
        let waiter = start(ends, waiter.0, waiter.1, "await.out", "await.out")?;
        ends.wait(&[waiter, server], until)?;
        let failed = match (ends.status(waiter)?, ends.status(server)?) {
            (Some(0), None) => continue,
            (Some(0), Some(0)) => continue,
            (_, Some(n)) => format!("the server ended with {n}"),
            (Some(n), None) => format!("await ended with {n}: {}", tail("await.out")),
            (None, None) => format!("the server did not listen in {START:?}"),
        };
        return Err(format!("{failed} (waiting for {what}): {}", tail(ready::OUTPUT)).into());
    }
    Ok(server)
}

fn start(
    ends: &mut dyn Ends,
    end: End,
    argv: &[&str],
    out: &str,
    err: &str,
) -> Result<Job, BoxError> {
    let open = |name: &str| {
        let mut options = File::options();
        options.create(true).append(true).open(name)
    };
    let (out, err) = (open(out)?, open(err)?);
    ends.start(end, Command { argv, out, err })
}

/// The last lines of a file, in one.
fn tail(name: &str) -> String {
    let text = fs::read(name).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    match lines[lines.len().saturating_sub(8)..].join(" | ") {
        text if text.is_empty() => "(no output)".to_owned(),
        text => text,
    }
}
