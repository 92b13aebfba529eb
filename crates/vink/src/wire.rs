//! `vink wire`: wires of a lab that runs.

use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{ChangeWire, Client, LabApi, NewWire, RuntimeDir, Wire};
use vink_shell::{parse, Command as Line};
use vink_spec::Settings;

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime, Within};
use crate::print::{self, Table};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    within: Within,
}

const EXAMPLES: &str = "\
Examples:
  vink wire set w1 rate 10mbit delay 20ms loss 1%
  vink wire set w1 limit 100                    at most 100 packets wait; all else stays
  vink wire set w1 delay 80ms from alice:eth0   for packets of this end only
  vink wire set w1 loss 0%                      no more losses
The settings: docs/wires.md, or `help wire` in vink shell.";

#[derive(Subcommand)]
enum Command {
    /// List wires
    #[command(visible_alias = "list")]
    Ls,
    /// Show a wire: its settings, its ends and what happened to their packets
    Show {
        /// The wire
        wire: String,
    },
    /// Make a wire without ends
    Add {
        /// Its name
        wire: String,
        /// What it does to packets, such as: rate 10mbit delay 20ms loss 1%
        settings: Vec<String>,
    },
    /// Give a wire up
    Rm {
        /// The wire
        wire: String,
    },
    /// Change what a wire does to packets from now on
    #[command(after_help = EXAMPLES)]
    Set {
        /// The wire
        wire: String,
        /// What changes, such as: loss 1% delay 20ms; from m1:eth0: only packets that are sent there
        #[arg(required = true)]
        settings: Vec<String>,
    },
    /// Plug a wire in
    Up {
        /// The wire
        wire: String,
    },
    /// Plug a wire out
    Down {
        /// The wire
        wire: String,
    },
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::Ls => {
                let wires = client.wires(&lab).await?;
                match arguments.within.json {
                    true => print::json(&wires),
                    false => list(&wires),
                }
            }
            Command::Show { wire } => {
                let wire = client.wire(&lab, wire).await?;
                match arguments.within.json {
                    true => print::json(&wire),
                    false => show(&wire),
                }
            }
            Command::Add { wire, settings } => {
                let mut new = NewWire {
                    name: wire.clone(),
                    ..NewWire::default()
                };
                if !settings.is_empty() {
                    (new.spec.settings, _) = understood(wire, settings)?;
                }
                let made = client.add_wire(&lab, &new).await?;
                match arguments.within.json {
                    true => print::json(&made),
                    false => Ok(()),
                }
            }
            Command::Rm { wire } => {
                client.remove_wire(&lab, wire).await?;
                match arguments.within.json {
                    true => print::json(&serde_json::json!({ "removed": wire })),
                    false => Ok(()),
                }
            }
            Command::Set { wire, settings } => {
                let (settings, from) = understood(wire, settings)?;
                let wanted = ChangeWire {
                    settings,
                    from,
                    ..ChangeWire::default()
                };
                let changed = client.change_wire(&lab, wire, &wanted).await?;
                match arguments.within.json {
                    true => print::json(&changed),
                    false => print::text(&format!("{}\n", line(&changed))),
                }
            }
            Command::Up { wire } | Command::Down { wire } => {
                let up = matches!(arguments.command, Command::Up { .. });
                let wanted = ChangeWire {
                    up: Some(up),
                    ..ChangeWire::default()
                };
                let changed = client.change_wire(&lab, wire, &wanted).await?;
                match arguments.within.json {
                    true => print::json(&changed),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Settings in the words of the switch box.
fn understood(wire: &str, words: &[String]) -> Result<(Settings, Option<String>), CliError> {
    let line = format!("wire set {wire} {}", words.join(" "));
    match parse(&line, None) {
        Ok(Some(Line::WireSet { settings, from, .. })) => Ok((settings, from)),
        Ok(_) => Err(CliError::Other(format!("{line}: no settings are named"))),
        Err(mistake) => Err(CliError::Other(mistake.to_string())),
    }
}

fn words(settings: &Settings) -> String {
    let Ok(serde_json::Value::Object(settings)) = serde_json::to_value(settings) else {
        return String::new();
    };
    let word = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name} {text}"),
        value => format!("{name} {value}"),
    };
    let all: Vec<String> = settings.iter().map(word).collect();
    match all.is_empty() {
        true => "ideal".to_owned(),
        false => all.join(" "),
    }
}

fn list(wires: &[Wire]) -> Result<(), CliError> {
    let mut table = Table::new(["WIRE", "STATE", "ENDS", "SETTINGS"]);
    for wire in wires {
        let ends: Vec<&str> = wire.ends.iter().map(|end| end.end.as_str()).collect();
        table.row([
            wire.name.clone(),
            state(wire).to_owned(),
            ends.join(" "),
            effect(wire),
        ]);
    }
    print::text(&table.text())
}

fn state(wire: &Wire) -> &'static str {
    if wire.up {
        "up"
    } else {
        "down"
    }
}

/// What it does to packets, and to those of single ends.
fn effect(wire: &Wire) -> String {
    let mut text = words(&wire.settings);
    for (end, own) in &wire.from {
        text += &format!("; from {end}: {}", words(own));
    }
    text
}

/// A wire in a line.
fn line(wire: &Wire) -> String {
    let kind = if wire.bus { "bus" } else { "wire" };
    format!("{kind} {}: {}, {}", wire.name, state(wire), effect(wire))
}

fn show(wire: &Wire) -> Result<(), CliError> {
    let mut text = line(wire) + "\n";
    if let Some(error) = &wire.uplink_error {
        text += &format!("its uplink has failed: {error}\n");
    }
    if let Some(rejected) = wire.rejected {
        text += &format!("between hosts: {rejected} datagrams of others rejected\n");
    }
    for end in &wire.ends {
        let counters: Vec<String> = end
            .counters
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        text += &format!("from {}: {}\n", end.end, counters.join(", "));
    }
    print::text(&text)
}
