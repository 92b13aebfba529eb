//! `vink machine`: machines of a lab that runs.

use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{Client, LabApi, Machine, MachineState, NewMachine, RuntimeDir};
use vink_spec::Rights;

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime, Within};
use crate::print::{self, Table};
use crate::rights::rights_parser;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    within: Within,
}

#[derive(Subcommand)]
enum Command {
    /// List machines
    #[command(visible_alias = "list")]
    Ls,
    /// Show a machine: its interfaces with addresses and counters
    Show {
        /// The machine
        machine: String,
    },
    /// Make a machine
    Add {
        /// Its name
        machine: String,
        /// An image of the lab's
        #[arg(long, value_name = "NAME")]
        image: Option<String>,
        /// Let it forward packets
        #[arg(long)]
        forward: bool,
        /// What its programs may do; see docs/rights.md
        #[arg(long, value_name = "RIGHTS", value_parser = rights_parser(), default_value = "full")]
        rights: Rights,
    },
    /// End a machine's programs and give it up
    Rm {
        /// The machine
        machine: String,
    },
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::Ls => {
                let machines = client.machines(&lab).await?;
                if arguments.within.json {
                    return print::json(&machines);
                }
                let mut table = Table::new(["MACHINE", "STATE", "IMAGE", "PROGRAMS", "INTERFACES"]);
                for machine in machines {
                    let interfaces: Vec<String> = machine.interfaces.into_keys().collect();
                    table.row([
                        machine.name,
                        state_of(machine.state).to_owned(),
                        machine.image.unwrap_or_else(|| "-".to_owned()),
                        machine.programs.to_string(),
                        interfaces.join(" "),
                    ]);
                }
                print::text(&table.text())
            }
            Command::Show { machine } => {
                let machine = client.machine(&lab, machine).await?;
                match arguments.within.json {
                    true => print::json(&machine),
                    false => show(&machine),
                }
            }
            Command::Add {
                machine,
                image,
                forward,
                rights,
            } => {
                let mut new = NewMachine {
                    name: machine.clone(),
                    ..NewMachine::default()
                };
                new.spec.image.clone_from(image);
                new.spec.forward = *forward;
                new.spec.rights = *rights;
                let made = client.add_machine(&lab, &new).await?;
                match arguments.within.json {
                    true => print::json(&made),
                    false => Ok(()),
                }
            }
            Command::Rm { machine } => {
                client.remove_machine(&lab, machine).await?;
                match arguments.within.json {
                    true => print::json(&serde_json::json!({ "removed": machine })),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// In a word.
pub(crate) fn state_of(state: MachineState) -> &'static str {
    match state {
        MachineState::Starting => "starting",
        MachineState::Running => "running",
        MachineState::Dead => "dead",
        MachineState::Lost => "lost",
    }
}

fn show(machine: &Machine) -> Result<(), CliError> {
    let mut text = format!("machine {}: {}", machine.name, state_of(machine.state));
    if !machine.rights.is_full() {
        text += &format!(", rights {}", machine.rights);
    }
    text.push('\n');
    if let Some(error) = &machine.error {
        text += &format!("{error}\n");
    }
    if !machine.interfaces.is_empty() {
        let mut table = Table::new(["INTERFACE", "WIRE", "STATE", "MAC", "ADDRESSES"]);
        for interface in &machine.interfaces {
            let state = match (interface.up, interface.carrier) {
                (false, _) => "down",
                (true, false) => "no carrier",
                (true, true) => "up",
            };
            let addresses: Vec<String> = interface
                .addresses
                .iter()
                .map(ToString::to_string)
                .collect();
            table.row([
                interface.name.clone(),
                interface.wire.clone().unwrap_or_else(|| "-".to_owned()),
                state.to_owned(),
                interface.mac.clone(),
                addresses.join(" "),
            ]);
        }
        text += &table.text();
        for interface in &machine.interfaces {
            let told: Vec<String> = interface
                .counters
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            if !told.is_empty() {
                text += &format!("{}: {}\n", interface.name, told.join(", "));
            }
        }
    }
    print::text(&text)
}
