//! `vink lab events`: what happens, as lines.

use std::process::ExitCode;

use vink_api::{Client, Event, EventFilter, Happening, HostState, LabState, Packet, RuntimeDir};
use vink_spec::Stop;

use super::up::changed;
use crate::cli_error::CliError;
use crate::client::runtime;
use crate::print;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Events {
    /// Of this lab only
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Also packets of this interface; may be repeated
    #[arg(long, value_name = "MACHINE:INTERFACE", requires = "lab")]
    watch: Vec<String>,
    /// An object of JSON on a line for each
    #[arg(long)]
    json: bool,
}

/// Until the control process ends.
pub(crate) fn events(arguments: &Events) -> Result<ExitCode, CliError> {
    let filter = EventFilter {
        lab: arguments.lab.clone(),
        watch: Some(arguments.watch.join(",")).filter(|watch| !watch.is_empty()),
    };
    runtime()?.block_on(async {
        let mut events = Client::of(&RuntimeDir::find()).events(&filter).await?;
        follow(&mut events, |event| match arguments.json {
            true => print::json_line(event),
            false => line(event).map_or(Ok(()), |line| {
                print::text(&format!("{}: {line}", event.lab))
            }),
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Gives each to a closure, until there are no more, or the lab has gone.
pub(crate) async fn follow(
    events: &mut vink_api::Events,
    mut each: impl FnMut(&Event) -> Result<(), CliError>,
) -> Result<(), CliError> {
    while let Some(event) = events.next().await? {
        each(&event)?;
    }
    Ok(())
}

/// What people are told, and by whose request it is; nothing of what they are told otherwise.
pub(crate) fn line(event: &Event) -> Option<String> {
    let told = without_actor(event)?;
    Some(match (&event.actor, &event.what) {
        (None, _) | (_, Happening::Asked { .. }) => told,
        (Some(actor), _) => format!("{}, by {actor}\n", told.trim_end_matches('\n')),
    })
}

fn without_actor(event: &Event) -> Option<String> {
    let called = |machine: &str, name: &Option<String>, program: u64| match name {
        Some(name) => format!("program {machine}.{name}"),
        None => format!("program {program} of {machine}"),
    };
    let failed = |error: &Option<String>| match error {
        Some(error) => format!(": {error}"),
        None => String::new(),
    };
    Some(match &event.what {
        Happening::Progress { .. } => return None,
        Happening::Lab { state } => {
            let state = match state {
                LabState::Starting => "is being made",
                LabState::Running => "is up",
                LabState::Broken => "is broken",
                LabState::Failed => "could not be made",
                LabState::Ending => "is being taken down",
            };
            format!("the lab {state}\n")
        }
        Happening::Asked { method, path, body } => {
            let actor = event.actor.as_deref().unwrap_or("a client");
            let body = body
                .iter()
                .map(|body| format!(" {body}"))
                .collect::<String>();
            format!("{actor} asks for {method} {path}{body}\n")
        }
        Happening::Changed { change, .. } => changed(change),
        Happening::Clock { clock } => format!("{clock}\n"),
        Happening::Started {
            program,
            machine,
            name,
        } => format!("{} was started\n", called(machine, name, *program)),
        Happening::Ready {
            program,
            machine,
            name,
        } => format!("{} is ready\n", called(machine, name, *program)),
        Happening::Ended {
            program,
            machine,
            name,
            code,
            error,
        } => format!(
            "{} has ended with status {code}{}\n",
            called(machine, name, *program),
            failed(error)
        ),
        Happening::Terminal {
            program,
            machine,
            viewers,
            keyboard,
        } => {
            let keyboard = keyboard.as_deref().unwrap_or("no client");
            let viewers = print::count(*viewers, "client");
            format!("at the terminal of program {program} of {machine}: {viewers}; {keyboard} has the keyboard\n")
        }
        Happening::Wire { wire, up, .. } => {
            format!("wire {wire} is {}\n", if *up { "up" } else { "down" })
        }
        Happening::Uplink { wire, error } => match error {
            Some(error) => format!("the uplink of {wire} has failed: {error}\n"),
            None => format!("the uplink of {wire} works again\n"),
        },
        Happening::Timed { line, error } => format!("timed: {line}{}\n", failed(error)),
        Happening::Dead {
            machines,
            message,
            backtrace,
            ..
        } => {
            let mut text = format!(
                "{} died ({}): {message}\n",
                print::count(machines.len(), "machine"),
                machines
                    .iter()
                    .take(5)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            for symbol in backtrace {
                text += &format!("  {symbol}\n");
            }
            text
        }
        Happening::Host { host, state, error } => match (state, error) {
            // The error says so.
            (HostState::Lost, Some(error)) => format!("! {error}"),
            (HostState::Connected, _) => format!("host {host} is connected"),
            _ => format!("host {host} is being reached"),
        },
        Happening::Kernel {
            worker,
            pid,
            message,
        } => format!("the kernel of worker {worker} (process {pid}) {message}\n"),
        Happening::Log { line, .. } => format!("kernel: {line}\n"),
        Happening::CaptureEnded { capture, error } => {
            format!("capture {capture} has ended: {error}\n")
        }
        Happening::Packet(packet) => format!("{}\n", seen(packet)),
        Happening::Breakpoint {
            breakpoint,
            number,
            packet,
            stopped,
            ..
        } => {
            let machine = packet.end.split(':').next().unwrap_or_default();
            let stopped = match stopped {
                Some(Stop::All) => "; the lab has stopped".to_owned(),
                Some(Stop::Machine) => format!("; {machine} has stopped"),
                None => String::new(),
            };
            format!(
                "breakpoint {breakpoint} ({number}): {}{stopped}\n",
                seen(packet)
            )
        }
        Happening::PodEnded { pod, path, fault } => match path {
            Some(path) => format!("pod {pod} was ended on path {path}: it {fault}\n"),
            None => format!("pod {pod} was ended: it {fault}\n"),
        },
        Happening::PodLog { pod, line } => format!("pod {pod}: {line}\n"),
        Happening::Missed { events } => format!("{events} events were missed\n"),
    })
}

/// What happened to a packet.
fn seen(packet: &Packet) -> String {
    let reason = match &packet.reason {
        Some(reason) => format!(" ({reason})"),
        None => String::new(),
    };
    format!("{} {} {}{reason}", packet.end, packet.what, packet.summary)
}
