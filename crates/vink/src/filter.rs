//! `vink filter`: nft rules of a lab that runs, by place and version.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as HostCommand, ExitCode, Stdio};

use clap::Subcommand;
use vink_api::{
    Client, Filter, FilterCounter, FilterRules, LabApi, NewFilter, Rollback, RuntimeDir,
};

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

/// A machine, or an interface of one.
#[derive(clap::Args)]
struct Place {
    /// MACHINE, or MACHINE:INTERFACE
    place: String,
}

#[derive(Subcommand)]
enum Command {
    /// List the filters in force
    #[command(visible_alias = "ls")]
    List,
    /// Have rules in force, in one transaction: the ones that they replace hold until then
    Set {
        #[command(flatten)]
        at: Place,
        /// A file for nft(8); - is standard input
        file: PathBuf,
    },
    /// Check rules as `set` would, and change nothing
    Check {
        #[command(flatten)]
        at: Place,
        /// A file for nft(8); - is standard input
        file: PathBuf,
    },
    /// Print the rules as the kernel has them
    Show {
        #[command(flatten)]
        at: Place,
        /// As they were given
        #[arg(long)]
        source: bool,
    },
    /// Compare the rules in force with a file or an earlier version, as diff(1) does
    Diff {
        #[command(flatten)]
        at: Place,
        /// A file for nft(8); none: the version before
        #[arg(conflicts_with = "version")]
        file: Option<PathBuf>,
        /// An earlier version
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
    },
    /// Print what rules and named counters have counted
    Counters {
        #[command(flatten)]
        at: Place,
    },
    /// List the versions that can be returned to
    Versions {
        #[command(flatten)]
        at: Place,
    },
    /// Have an earlier version in force: the one before, if none is named
    Rollback {
        #[command(flatten)]
        at: Place,
        /// Its number
        version: Option<u64>,
    },
    /// Remove the rules of a filter
    Rm {
        #[command(flatten)]
        at: Place,
    },
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    let mut status = ExitCode::SUCCESS;
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            Command::List => {
                let all = client.filters(&lab).await?;
                match json {
                    true => print::json(&all),
                    false => list(&all),
                }
            }
            Command::Set { at, file } => {
                let new = new_filter(file, false)?;
                let filter = client.put_filter(&lab, &at.place, &new).await?;
                said(&filter, json)
            }
            Command::Check { at, file } => {
                let new = new_filter(file, true)?;
                let filter = client.put_filter(&lab, &at.place, &new).await?;
                match json {
                    true => print::json(&filter),
                    false => print::text(&format!("good, and not in force: {filter}\n")),
                }
            }
            Command::Rollback { at, version } => {
                let to = Rollback { version: *version };
                let filter = client.roll_back_filter(&lab, &at.place, &to).await?;
                said(&filter, json)
            }
            Command::Rm { at } => {
                client.remove_filter(&lab, &at.place).await?;
                match json {
                    true => print::json(&serde_json::json!({ "removed": at.place })),
                    false => Ok(()),
                }
            }
            Command::Show { at, source } => {
                let rules = client.filter(&lab, &at.place).await?;
                match (json, source) {
                    (true, _) => print::json(&rules),
                    (false, true) => print::text(&rules.text),
                    (false, false) => {
                        print::text(&format!("# {}\n{}", rules.filter, rules.listing))
                    }
                }
            }
            Command::Counters { at } => {
                let rules = client.filter(&lab, &at.place).await?;
                match json {
                    true => print::json(&rules.counters),
                    false => counters(&rules.counters),
                }
            }
            Command::Versions { at } => {
                let rules = client.filter(&lab, &at.place).await?;
                match json {
                    true => print::json(&rules.versions),
                    false => versions(&rules),
                }
            }
            Command::Diff { at, file, version } => {
                let rules = client.filter(&lab, &at.place).await?;
                let differs = diff(&rules, file.as_deref(), *version)?;
                if differs {
                    status = ExitCode::from(1);
                }
                Ok(())
            }
        }
    })?;
    Ok(status)
}

/// Rules from a file.
fn new_filter(file: &Path, check: bool) -> Result<NewFilter, CliError> {
    let (text, name) = text_of(file)?;
    Ok(NewFilter {
        text,
        file: Some(name),
        check,
    })
}

fn text_of(file: &Path) -> Result<(String, String), CliError> {
    let what = || format!("reading the rules in {}", file.display());
    if file == Path::new("-") {
        let mut text = String::new();
        let input = io::stdin().lock().take(vink_spec::LARGEST_FILE);
        let mut input = io::BufReader::new(input);
        input.read_to_string(&mut text).map_err(CliError::host(
            "reading the rules from standard input".to_owned(),
        ))?;
        return Ok((text, "standard input".to_owned()));
    }
    let text = vink_spec::read_text_file(file, vink_spec::LARGEST_FILE);
    let text = text.map_err(CliError::host(what()))?;
    Ok((text, file.display().to_string()))
}

fn said(filter: &Filter, json: bool) -> Result<(), CliError> {
    match json {
        true => print::json(filter),
        false => print::text(&format!("{filter}\n")),
    }
}

fn list(all: &[Filter]) -> Result<(), CliError> {
    let mut table = Table::new(["PLACE", "VERSION", "FILE", "TABLES"]);
    for filter in all {
        let tables: Vec<String> = filter.tables.iter().map(|t| t.to_string()).collect();
        table.row([
            filter.place.clone(),
            filter.version.to_string(),
            filter.file.clone().unwrap_or_default(),
            tables.join(", "),
        ]);
    }
    print::text(&table.text())
}

fn counters(all: &[FilterCounter]) -> Result<(), CliError> {
    let mut table = Table::new(["TABLE", "CHAIN", "PACKETS", "BYTES", "RULE"]);
    for counter in all {
        table.row([
            counter.table.to_string(),
            counter.chain.clone().unwrap_or_default(),
            counter.packets.to_string(),
            counter.bytes.to_string(),
            counter.rule.clone(),
        ]);
    }
    print::text(&table.text())
}

fn versions(rules: &FilterRules) -> Result<(), CliError> {
    let mut table = Table::new(["VERSION", "LINES", "FILE"]);
    for version in &rules.versions {
        let mark = match version.version == rules.filter.version {
            true => " (in force)",
            false => "",
        };
        table.row([
            format!("{}{mark}", version.version),
            version.text.lines().count().to_string(),
            version.file.clone().unwrap_or_default(),
        ]);
    }
    print::text(&table.text())
}

/// Prints what differs between the rules in force and others; whether anything does.
fn diff(rules: &FilterRules, file: Option<&Path>, version: Option<u64>) -> Result<bool, CliError> {
    let now = &rules.filter;
    let of = |number: u64| format!("version {number}");
    let (old, new) = match (file, version) {
        (Some(file), _) => ((rules.text.clone(), of(now.version)), text_of(file)?),
        (None, version) => {
            let wanted = |number: u64| match version {
                Some(version) => number == version,
                None => number < now.version,
            };
            let found = rules.versions.iter().rev().find(|v| wanted(v.version));
            let found = found.ok_or_else(|| {
                let place = &now.place;
                CliError::Other(match version {
                    Some(version) => format!("the filter of {place} has no version {version}: vink filter versions {place}"),
                    None => format!("the filter of {place} has no earlier version to compare with: name a file"),
                })
            })?;
            (
                (found.text.clone(), of(found.version)),
                (rules.text.clone(), of(now.version)),
            )
        }
    };
    if old.0 == new.0 {
        return Ok(false);
    }
    let failed = |error| CliError::host("running diff(1)".to_owned())(error);
    let mut before = vink_sys::fd::in_memory(c"rules").map_err(failed)?;
    before.write_all(old.0.as_bytes()).map_err(failed)?;
    let before_path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        std::os::fd::AsRawFd::as_raw_fd(&before)
    );
    let mut child = HostCommand::new("diff")
        .args([
            "-u",
            "--label",
            &old.1,
            "--label",
            &new.1,
            &before_path,
            "-",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut input = child.stdin.take().expect("a pipe");
    // It may have ended early, which its status tells.
    let _ = input.write_all(new.0.as_bytes());
    drop(input);
    let status = child.wait().map_err(failed)?;
    match status.code() {
        Some(0 | 1) => Ok(status.code() == Some(1)),
        _ => Err(CliError::Other(format!("diff(1) failed: {status}"))),
    }
}
