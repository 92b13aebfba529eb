//! `vink relay`: relays of a lab that runs.

use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{Client, NewRelay, ProgramState, Relay, RuntimeDir};
use vink_spec::{RelayProtocol, RelaySpec};

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
  vink relay add r1.web 10.0.0.1:80 10.0.1.2:80     r1's port 80 leads to the server
  vink relay add r1.dns 53 ns:53 --udp              on all addresses of r1, to the machine ns
More: docs/relay.md.";

#[derive(Subcommand)]
enum Command {
    /// List relays with what they have counted
    #[command(visible_alias = "list")]
    Ls,
    /// Add a relay to a machine, and wait until it listens
    #[command(after_help = EXAMPLES)]
    Add {
        /// The machine and the relay's name: MACHINE.NAME
        relay: String,
        /// Where it listens: ADDRESS:PORT, or PORT for all addresses
        listen: String,
        /// Where it leads: an address or a machine's name, and a port
        to: String,
        /// Datagrams in the place of TCP's connections
        #[arg(long)]
        udp: bool,
        /// The path of the lab (`stream: MACHINE`) whose pods what passes goes through
        #[arg(long)]
        path: Option<String>,
    },
    /// Show a relay: connections, bytes each way, refusals
    Stat {
        /// MACHINE.NAME
        relay: String,
        /// Also how it passes things on
        #[arg(long, short)]
        verbose: bool,
    },
    /// Remove a relay: its connections end
    Rm {
        /// MACHINE.NAME
        relay: String,
    },
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::Ls => {
                let relays = client.relays(&lab).await?;
                match json {
                    true => print::json(&relays),
                    false => list(&relays),
                }
            }
            Command::Add {
                relay,
                listen,
                to,
                udp,
                path,
            } => {
                // A machine's name may have dots, too.
                let (machine, name) = relay.rsplit_once('.').ok_or_else(|| {
                    CliError::Other(format!(
                        "{relay:?} names no machine: write MACHINE.NAME, such as r1.web"
                    ))
                })?;
                let protocol = match udp {
                    true => RelayProtocol::Udp,
                    false => RelayProtocol::Tcp,
                };
                let new = NewRelay {
                    name: name.to_owned(),
                    spec: RelaySpec {
                        protocol,
                        listen: listen.clone(),
                        to: to.clone(),
                        path: path.clone(),
                    },
                };
                let added = client.add_relay(&lab, machine, &new).await?;
                match json {
                    true => print::json(&added),
                    false => Ok(()),
                }
            }
            Command::Stat { relay, verbose } => {
                let relay = client.relay(&lab, relay).await?;
                match json {
                    true => print::json(&relay),
                    false => show(&relay, *verbose),
                }
            }
            Command::Rm { relay } => {
                let removed = client.remove_relay(&lab, relay).await?;
                match json {
                    true => print::json(&removed),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A number of its report; `of`: which of two.
fn counted(relay: &Relay, name: &str, of: Option<usize>) -> u64 {
    let value = relay.report.as_ref().and_then(|report| report.get(name));
    let value = match of {
        Some(of) => value.and_then(|pair| pair.get(of)),
        None => value,
    };
    value.and_then(serde_json::Value::as_u64).unwrap_or(0)
}

fn state(relay: &Relay) -> String {
    match (relay.state, &relay.error) {
        (ProgramState::Running, _) => "listens".to_owned(),
        (ProgramState::Ended, Some(error)) => format!("failed: {error}"),
        (ProgramState::Ended, None) => "ended".to_owned(),
        (ProgramState::Waiting | ProgramState::Starting, _) => "starts".to_owned(),
    }
}

fn list(relays: &[Relay]) -> Result<(), CliError> {
    let mut table = Table::new([
        "RELAY", "PROTO", "LISTEN", "TO", "OPEN", "TOTAL", "REFUSED", "THERE", "BACK", "STATE",
    ]);
    for relay in relays {
        let number = |name| counted(relay, name, None).to_string();
        let bytes = |way| counted(relay, "passed", Some(way)).to_string();
        table.row([
            format!("{}.{}", relay.machine, relay.name),
            relay.spec.protocol.to_string(),
            relay.spec.listen.clone(),
            relay.spec.to.clone(),
            number("open"),
            number("connections"),
            number("refused"),
            bytes(0),
            bytes(1),
            state(relay),
        ]);
    }
    print::text(&table.text())
}

fn show(relay: &Relay, verbose: bool) -> Result<(), CliError> {
    let number = |name| counted(relay, name, None);
    let (name, what) = (format!("{}.{}", relay.machine, relay.name), &relay.spec);
    let mut text = format!("{name}: {what}, {}\n", state(relay));
    let kind = match what.protocol {
        RelayProtocol::Tcp => "connections",
        RelayProtocol::Udp => "clients",
    };
    text += &format!(
        "{kind}: {} open, {} so far, {} refused, {} failed\n",
        number("open"),
        number("connections"),
        number("refused"),
        number("errors")
    );
    for (way, direction) in ["to the target", "to clients"].into_iter().enumerate() {
        text += &format!("{direction}: {} bytes", counted(relay, "passed", Some(way)));
        if what.protocol == RelayProtocol::Udp {
            let datagrams = counted(relay, "datagrams", Some(way));
            text += &format!(" in {datagrams} datagrams");
        }
        text.push('\n');
    }
    if what.protocol == RelayProtocol::Udp {
        text += &format!("dropped: {} datagrams\n", number("dropped"));
    }
    if verbose {
        text += &format!("by {}\n", relay.way);
    }
    print::text(&text)
}
