//! `vink lab ps` and `save`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use vink_api::{
    Client, Error, HostState, HostStatus, LabApi, LabState, LabStatus, LabSummary, MachineSummary,
    Program, ProgramState, RuntimeDir, WorkerStatus,
};

use vink_spec::Core;

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime, Which};
use crate::machine::state_of;
use crate::print::{self, Table};

/// The command line of `vink lab ps`.
#[derive(clap::Args)]
pub(crate) struct Ps {
    #[command(flatten)]
    which: Which,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab save`.
#[derive(clap::Args)]
pub(crate) struct Save {
    #[command(flatten)]
    which: Which,
    /// Where to (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write JSON, which is a lab file too
    #[arg(long)]
    json: bool,
}

/// All about one lab.
#[derive(Serialize)]
struct All {
    #[serde(flatten)]
    status: LabStatus,
    machines: Vec<MachineSummary>,
    programs: Vec<Program>,
}

/// `vink lab ps`.
pub(crate) fn ps(arguments: &Ps) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    runtime()?.block_on(async {
        let labs = match client.labs().await {
            Ok(labs) => labs,
            Err(Error::NotRunning(_)) if arguments.which.name().is_none() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let name = match (arguments.which.name(), labs.as_slice()) {
            (Some(name), _) => name.to_owned(),
            (None, [only]) => only.name.clone(),
            (None, _) => {
                return match arguments.json {
                    true => print::json(&labs),
                    false => list(&labs),
                }
            }
        };
        let all = All {
            status: client.lab(&name).await?,
            machines: client.machines(&name).await?,
            programs: client.programs(&name).await?,
        };
        match arguments.json {
            true => print::json(&all),
            false => tell(&all),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn state(state: LabState) -> &'static str {
    match state {
        LabState::Starting => "starting",
        LabState::Running => "running",
        LabState::Broken => "broken",
        LabState::Failed => "failed",
        LabState::Ending => "ending",
    }
}

fn list(labs: &[LabSummary]) -> Result<(), CliError> {
    if labs.is_empty() {
        return print::text("no lab runs\n");
    }
    let mut table = Table::new([
        "LAB", "STATE", "MACHINES", "WIRES", "PROGRAMS", "UP", "FOLDER",
    ]);
    for lab in labs {
        table.row([
            lab.name.clone(),
            state(lab.state).to_owned(),
            lab.machines.to_string(),
            lab.wires.to_string(),
            lab.programs.to_string(),
            print::seconds(lab.up_seconds),
            lab.folder.clone(),
        ]);
    }
    print::text(&table.text())
}

fn tell(all: &All) -> Result<(), CliError> {
    let lab = &all.status.summary;
    let mut text = format!(
        "lab {}: {}, up {}, {}\n",
        lab.name,
        state(lab.state),
        print::seconds(lab.up_seconds),
        print::count(lab.wires, "wire"),
    );
    if let Some(address) = lab.switchbox {
        text += &format!("switch box: telnet {} {}\n", address.ip(), address.port());
    }
    for host in &all.status.hosts {
        text += &told(host);
    }
    for worker in &all.status.workers {
        if all
            .status
            .hosts
            .iter()
            .any(|host| worker.host.as_ref() == Some(&host.name) && host.state == HostState::Lost)
        {
            continue;
        }
        if let Some(error) = &worker.error {
            text += &format!("a worker with {} has died: {error}\n", worker.path);
        }
    }
    for line in stuck(&all.status) {
        text += &line;
        text += "\n";
    }
    for worker in &all.status.workers {
        text += &placed(worker).unwrap_or_default();
    }
    if !all.machines.is_empty() {
        let several = all.status.workers.len() > 1;
        let hosts = !all.status.hosts.is_empty();
        let mut head = vec!["MACHINE", "STATE", "HOST", "WORKER", "INTERFACES"];
        head.retain(|column| match *column {
            "HOST" => hosts,
            "WORKER" => several,
            _ => true,
        });
        let mut table = Table::new(head);
        for machine in &all.machines {
            let mut interfaces = Vec::new();
            for (name, addresses) in &machine.interfaces {
                interfaces.push(name.clone());
                interfaces.extend(addresses.iter().map(ToString::to_string));
            }
            let mut row = vec![machine.name.clone(), state_of(machine.state).to_owned()];
            if hosts {
                row.push(machine.host.clone().unwrap_or("-".to_owned()));
            }
            if several {
                row.push(machine.pid.map_or("-".to_owned(), |pid| pid.to_string()));
            }
            row.push(interfaces.join(" "));
            table.row(row);
        }
        text += "\n";
        text += &table.text();
    }
    if !all.programs.is_empty() {
        let mut table = Table::new(["ID", "PROGRAM", "STATE", "TIME", "COMMAND"]);
        for program in &all.programs {
            table.row([
                program.id.to_string(),
                match &program.name {
                    Some(name) => format!("{}.{name}", program.machine),
                    None => program.machine.clone(),
                },
                how(program),
                print::seconds(program.seconds),
                program.words.join(" ").replace('\n', " "),
            ]);
        }
        text += "\n";
        text += &table.text();
    }
    print::text(&text)
}

/// A host, and what is there.
fn told(host: &HostStatus) -> String {
    let name = &host.name;
    match (host.state, &host.error) {
        (HostState::Lost, error) => {
            let why = error.clone().unwrap_or(format!("host {name} is lost"));
            format!("{why}\n`vink lab up` again brings it back\n")
        }
        (state, _) => {
            let state = match state {
                HostState::Connected => "connected",
                _ => "connecting",
            };
            let machines = print::count(host.machines, "machine");
            format!("host {name}: {state} by {}, {machines}\n", host.way)
        }
    }
}

/// A worker that a lab file names or keeps on some processors.
fn placed(worker: &WorkerStatus) -> Option<String> {
    let named = worker.worker.as_ref().filter(|name| !name.contains(' '));
    let name = named.map_or("worker".to_owned(), |name| format!("worker {name}"));
    let core = match worker.core.is_empty() {
        true => String::new(),
        false => format!(" on core {}", Core::Several(worker.core.clone())),
    };
    let pid = worker.pid?;
    (named.is_some() || !core.is_empty()).then(|| {
        let machines = print::count(worker.machines, "machine");
        format!("{name}: process {pid}{core}, {machines}\n")
    })
}

/// Kernels that have not returned, each with what to do about it.
pub(crate) fn stuck(status: &LabStatus) -> Vec<String> {
    let workers = status.workers.iter().enumerate();
    let told = workers.filter_map(|(number, worker)| {
        let (stuck, pid) = (worker.stuck.as_ref()?, worker.pid?);
        let lab = &status.summary.name;
        Some(format!(
            "the kernel of worker {number} (process {pid}) {stuck}\n\
             to look at it: vink debug --pid {pid}; to end it: vink lab restart --lab {lab}, or vink lab down {lab}"
        ))
    });
    told.collect()
}

fn how(program: &Program) -> String {
    let again = match program.restarts {
        0 => String::new(),
        1 => ", restarted once".to_owned(),
        times => format!(", restarted {times} times"),
    };
    match (program.state, program.code) {
        (ProgramState::Waiting, _) => format!("waiting{again}"),
        (ProgramState::Starting, _) => format!("starting{again}"),
        (ProgramState::Running, _) => format!("running{again}"),
        (ProgramState::Ended, code) => format!("ended ({}){again}", code.unwrap_or(0)),
    }
}

/// `vink lab save`.
pub(crate) fn save(arguments: &Save) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let spec = runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.which.name()).await?;
        Ok::<_, CliError>(client.spec(&lab).await?)
    })?;
    let text = match arguments.json {
        true => print::pretty(&spec),
        false => spec.to_yaml(),
    };
    match &arguments.output {
        Some(path) => {
            std::fs::write(path, text).map_err(CliError::host(path.display().to_string()))?
        }
        None => print::text(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
