//! `vink series`: time series of a lab that runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{Client, NewSeries, RuntimeDir, Series};
use vink_spec::{Quantity, SampleEvent, Span};

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
    /// List time series with the rows that they have
    #[command(visible_alias = "ls")]
    List,
    /// Write numbers to a file from now on, by the lab's clock or at events
    #[command(after_help = NUMBERS)]
    Add(Add),
    /// End a time series; its file stays
    Rm {
        /// Its name
        series: String,
    },
}

#[derive(clap::Args)]
struct Add {
    /// The file, whose ending says what it looks like: .csv, .jsonl or .parquet
    #[arg(short, long)]
    output: PathBuf,
    /// Look so often, such as 10ms
    #[arg(
        long,
        value_name = "TIME",
        required_unless_present = "on",
        conflicts_with = "on"
    )]
    every: Option<Span>,
    /// Look at this event: departure, arrival, loss (of a packet); ack, retransmit, congestion, state, read, end (of a connection)
    #[arg(long, value_name = "EVENT")]
    on: Option<SampleEvent>,
    /// Only events of this machine, or packets at MACHINE:INTERFACE
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
    /// Its name (default: the file's, without its ending)
    #[arg(long)]
    name: Option<String>,
    /// Columns, such as cwnd='tcp m1 snd_cwnd'
    #[arg(required = true, value_name = "NAME=NUMBER", value_parser = column)]
    columns: Vec<(String, Quantity)>,
}

const NUMBERS: &str = "\
Numbers: tcp MACHINE FIELD [ADDRESS], a field of a connection as vink pcb shows it; qdisc MACHINE:INTERFACE NUMBER [HANDLE],
interface MACHINE:INTERFACE NUMBER, wire MACHINE:INTERFACE NUMBER; counter MACHINE NAME, as nstat shows it; proc MACHINE PATH [TEXT]
and file PATH [TEXT], the first number (behind the text) of a machine's file, or of the host's. With rate or bitrate before it: how much
it grows in a second.";

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::List => {
                let all = client.series(&lab).await?;
                match json {
                    true => print::json(&all),
                    false => list(&all),
                }
            }
            Command::Add(add) => {
                let made = client.add_series(&lab, &add.new_series()?).await?;
                match json {
                    true => print::json(&made),
                    false => print::text(&format!("series {}: {}\n", made.name, made.path)),
                }
            }
            Command::Rm { series } => {
                let ended = client.remove_series(&lab, series).await?;
                match json {
                    true => print::json(&ended),
                    false => print::text(&format!("{} rows: {}\n", ended.rows, ended.path)),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Add {
    fn new_series(&self) -> Result<NewSeries, CliError> {
        let path = std::path::absolute(&self.output);
        let path = path.map_err(CliError::host("finding the current folder".to_owned()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(NewSeries {
            name: self.name.clone().unwrap_or_else(|| stem.into_owned()),
            spec: vink_spec::Series {
                every: self.every,
                on: self.on,
                at: self.at.clone(),
                values: self.columns.iter().cloned().collect(),
                file: Some(path.to_string_lossy().into_owned()),
            },
        })
    }
}

/// `NAME=NUMBER`.
fn column(text: &str) -> Result<(String, Quantity), String> {
    let (name, number) = text
        .split_once('=')
        .ok_or("write it like cwnd='tcp m1 snd_cwnd'")?;
    Ok((name.to_owned(), number.parse()?))
}

fn list(all: &[Series]) -> Result<(), CliError> {
    let mut table = Table::new(["NAME", "ROWS", "MISSED", "FILE", "SERIES"]);
    for series in all {
        table.row([
            series.name.clone(),
            series.rows.to_string(),
            series.missed.to_string(),
            series.path.clone(),
            series.spec.to_string(),
        ]);
    }
    let mut text = table.text();
    for series in all {
        if let Some(error) = &series.error {
            text += &format!("series {} has ended: {error}\n", series.name);
        }
    }
    print::text(&text)
}
