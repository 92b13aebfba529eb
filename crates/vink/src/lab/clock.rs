//! `vink lab pause`, `continue`, `step`, `until`, `speed` and `clock`: what a lab's clock is told.

use std::process::ExitCode;

use vink_api::{ChangeClock, Client, Clock, LabApi, RunClock, RuntimeDir, Speed};
use vink_spec::Span;

use crate::cli_error::CliError;
use crate::client::{attentively, lab_or_only, runtime, Which, Within};
use crate::print;

/// The command line of `vink lab pause` and `vink lab clock`.
#[derive(clap::Args)]
pub(crate) struct Plain {
    #[command(flatten)]
    which: Which,
    /// Print how the clock is as JSON
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab continue`.
#[derive(clap::Args)]
pub(crate) struct Continue {
    #[command(flatten)]
    plain: Plain,
    /// Let the clock go on even if no program waits
    #[arg(long)]
    free: bool,
}

/// The command line of `vink lab step`.
#[derive(clap::Args)]
pub(crate) struct Stepped {
    /// A length of time such as 10ms; or event, packet, call: the next one
    #[arg(default_value = "event")]
    by: RunClock,
    #[command(flatten)]
    within: Within,
}

/// The command line of `vink lab until`.
#[derive(clap::Args)]
pub(crate) struct Until {
    /// How long the lab is to have been up, such as 90s or 1d
    #[arg(required_unless_present_any = ["ended", "ready"])]
    time: Option<Span>,
    /// At most until this program has ended: MACHINE.NAME, or its number
    #[arg(long, value_name = "PROGRAM")]
    ended: Option<String>,
    /// At most until this program is ready
    #[arg(long, value_name = "PROGRAM")]
    ready: Option<String>,
    #[command(flatten)]
    within: Within,
}

/// The command line of `vink lab speed`.
#[derive(clap::Args)]
pub(crate) struct Limit {
    /// How many times as fast as the host's clock, at most: 1, 0.1, 100; or max
    speed: Speed,
    #[command(flatten)]
    within: Within,
}

/// Asks for something, and tells how the clock is then.
fn ask(
    name: Option<&str>,
    json: bool,
    what: impl AsyncFnOnce(&Client, &str) -> Result<Clock, vink_api::Error>,
) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let (lab, clock) = runtime()?.block_on(async {
        let lab = lab_or_only(&client, name).await?;
        let clock = what(&client, &lab).await?;
        Ok::<_, CliError>((lab, clock))
    })?;
    match json {
        true => print::json(&clock)?,
        false => print::text(&format!("lab {lab}: {clock}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `vink lab clock`.
pub(crate) fn clock(plain: &Plain) -> Result<ExitCode, CliError> {
    ask(plain.which.name(), plain.json, async |client, lab| {
        client.clock(lab).await
    })
}

/// `vink lab pause`.
pub(crate) fn pause(plain: &Plain) -> Result<ExitCode, CliError> {
    let change = ChangeClock {
        paused: Some(true),
        ..ChangeClock::default()
    };
    ask(plain.which.name(), plain.json, async |client, lab| {
        client.change_clock(lab, &change).await
    })
}

/// `vink lab continue`.
pub(crate) fn go_on(arguments: &Continue) -> Result<ExitCode, CliError> {
    let change = ChangeClock {
        paused: Some(false),
        free: arguments.free.then_some(true),
        speed: None,
    };
    let plain = &arguments.plain;
    ask(plain.which.name(), plain.json, async |client, lab| {
        client.change_clock(lab, &change).await
    })
}

/// `vink lab step`.
pub(crate) fn step(arguments: &Stepped) -> Result<ExitCode, CliError> {
    run_clock(&arguments.within, &arguments.by)
}

/// `vink lab until`.
pub(crate) fn until(arguments: &Until) -> Result<ExitCode, CliError> {
    let run = RunClock {
        until: arguments.time,
        ended: arguments.ended.clone(),
        ready: arguments.ready.clone(),
        ..RunClock::default()
    };
    run_clock(&arguments.within, &run)
}

fn run_clock(within: &Within, run: &RunClock) -> Result<ExitCode, CliError> {
    ask(within.lab.as_deref(), within.json, async |client, lab| {
        attentively(client, lab, client.run_clock(lab, run)).await
    })
}

/// `vink lab speed`.
pub(crate) fn speed(arguments: &Limit) -> Result<ExitCode, CliError> {
    let change = ChangeClock {
        speed: Some(arguments.speed),
        ..ChangeClock::default()
    };
    let within = &arguments.within;
    ask(within.lab.as_deref(), within.json, async |client, lab| {
        client.change_clock(lab, &change).await
    })
}
