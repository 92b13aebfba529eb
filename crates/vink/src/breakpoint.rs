//! `vink break`: breakpoints of a lab that runs.

use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{Breakpoints, Client, LabApi, NewBreakpoint, RuntimeDir};
use vink_spec::Breakpoint;

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

#[derive(Subcommand)]
enum Command {
    /// List breakpoints with what they have counted, and what they have stopped
    #[command(visible_alias = "ls")]
    List,
    /// Set a breakpoint
    #[command(after_help = WORDS)]
    Add {
        /// Its name (default: a number)
        #[arg(long)]
        name: Option<String>,
        /// MACHINE:INTERFACE, a machine, a wire, or any
        place: String,
        /// Which packets, and what becomes of them, such as: departure filter 'tcp port 80' drop times 3
        words: Vec<String>,
    },
    /// Remove a breakpoint
    Rm {
        /// Its name
        breakpoint: String,
    },
    /// Have a breakpoint do something again
    Enable {
        /// Its name
        breakpoint: String,
    },
    /// Have a breakpoint do nothing for a while
    Disable {
        /// Its name
        breakpoint: String,
    },
    /// Let the lab go on, or a machine, that a breakpoint has stopped
    Continue {
        /// The machine; none: all of the lab
        machine: Option<String>,
    },
}

const WORDS: &str = "\
Which packets: departure (unless another is named), arrival, loss; filter EXPRESSION, as in pcap-filter(7);
tcp CONDITION on the packet's connection, such as 'state = ESTABLISHED and snd_cwnd < 10'; after N; times N.
What becomes of them: log, drop, corrupt, delay TIME, reorder N, duplicate N, run LINE (of the switch box),
stop all, stop machine; without any of these the lab stops. disabled: not before vink break enable.";

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::List => {
                let all = client.breakpoints(&lab).await?;
                match json {
                    true => print::json(&all),
                    false => list(&all),
                }
            }
            Command::Add { name, place, words } => {
                let words: Vec<String> = [place].into_iter().chain(words).cloned().collect();
                let (named, spec) = Breakpoint::from_words(&words).map_err(CliError::Other)?;
                let new = NewBreakpoint {
                    name: name.clone().or(named),
                    spec,
                };
                let made = client.add_breakpoint(&lab, &new).await?;
                match json {
                    true => print::json(&made),
                    false => print::text(&format!("breakpoint {}\n", made.name)),
                }
            }
            Command::Rm { breakpoint } => {
                client.remove_breakpoint(&lab, breakpoint).await?;
                match json {
                    true => print::json(&serde_json::json!({ "removed": breakpoint })),
                    false => Ok(()),
                }
            }
            Command::Enable { breakpoint } | Command::Disable { breakpoint } => {
                let enabled = matches!(arguments.command, Command::Enable { .. });
                let changed = client.enable_breakpoint(&lab, breakpoint, enabled).await?;
                match json {
                    true => print::json(&changed),
                    false => Ok(()),
                }
            }
            Command::Continue { machine } => {
                match machine {
                    Some(machine) => client.resume_machine(&lab, machine).await?,
                    None => client.resume(&lab).await?,
                }
                match json {
                    true => print::json(
                        &serde_json::json!({ "continued": machine.as_ref().unwrap_or(&lab) }),
                    ),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(all: &Breakpoints) -> Result<(), CliError> {
    let mut table = Table::new(["NAME", "HITS", "SEEN", "BREAKPOINT"]);
    for breakpoint in &all.breakpoints {
        table.row([
            breakpoint.name.clone(),
            breakpoint.hits.to_string(),
            breakpoint.seen.to_string(),
            breakpoint.spec.to_string(),
        ]);
    }
    let mut text = table.text();
    if all.stopped {
        text += "the lab is stopped: vink break continue\n";
    }
    for machine in &all.machines {
        text += &format!("machine {machine} is stopped: vink break continue {machine}\n");
    }
    print::text(&text)
}
