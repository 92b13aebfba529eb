//! `vink lab up`, `apply`, `down` and `restart`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use vink_api::{
    Applied, Change, ChangeKind, Client, Error, EventFilter, Happening, LabApi, PutLab, RecordLab,
    RuntimeDir,
};
use vink_spec::{Lab, Time};
use vink_sys::rustix::rand::{getrandom, GetRandomFlags};

use super::events::{follow, line};
use crate::cli_error::CliError;
use crate::client::{attentively, lab_or_only, runtime, Which};
use crate::interrupt::Interrupts;
use crate::lab_file;
use crate::print;

/// The lab file if none is given.
const USUAL: &str = "lab.yaml";
/// How often a request is repeated when the control process ends in that moment.
const TRIES: usize = 5;

/// The command line of `vink lab up`.
#[derive(clap::Args)]
pub(crate) struct Up {
    /// The lab file (default: lab.yaml; without one a lab without machines)
    file: Option<PathBuf>,
    /// The lab's name (default: as in the file, or the file's)
    #[arg(long, visible_alias = "lab", value_name = "NAME")]
    name: Option<String>,
    /// Listen for telnet sessions on this loopback port; 0: any
    #[arg(long, value_name = "PORT")]
    switchbox: Option<u16>,
    /// Stay, tell what happens, and take the lab down at Ctrl-C
    #[arg(long)]
    foreground: bool,
    /// Write down all that happens until it is taken down, to this new folder; see docs/replay.md
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// By which clock it lives: real, virtual, virtual:uplinks or scaled:FACTOR (default: as in the file, or real)
    #[arg(long, value_name = "CLOCK")]
    time: Option<Time>,
    /// Leave the clock standing when the lab is up, until it is told to go: for virtual and scaled time
    #[arg(long)]
    paused: bool,
    /// If the lab can't be made, leave what there is of it, to be looked at
    #[arg(long)]
    keep: bool,
    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab apply`.
#[derive(clap::Args)]
pub(crate) struct Apply {
    /// The lab file (default: lab.yaml)
    file: Option<PathBuf>,
    /// The lab's name (default: as in the file, or the file's)
    #[arg(long, visible_alias = "lab", value_name = "NAME")]
    name: Option<String>,
    /// Only tell what would be changed
    #[arg(long)]
    dry_run: bool,
    /// Print what was changed as JSON
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab down`.
#[derive(clap::Args)]
pub(crate) struct Down {
    #[command(flatten)]
    which: Which,
    /// All labs
    #[arg(long, conflicts_with_all = ["word", "lab"])]
    all: bool,
    /// Print the names of the labs as JSON
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab restart`.
#[derive(clap::Args)]
pub(crate) struct Restart {
    /// The machine whose worker is meant (default: all)
    machine: Option<String>,
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Print the machines that were restarted as JSON
    #[arg(long)]
    json: bool,
}

/// What a lab file says, as a request.
fn read(file: Option<&Path>, name: Option<&str>, may_be_empty: bool) -> Result<PutLab, CliError> {
    let here = std::env::current_dir().map_err(CliError::host("the current folder"))?;
    let usual = Path::new(USUAL);
    let file = match file {
        Some(file) => Some(file),
        None if usual.exists() => Some(usual),
        None if may_be_empty => None,
        None => {
            return Err(CliError::Other(format!(
                "no lab file is given, and there is no {USUAL} here"
            )))
        }
    };
    let (mut spec, folder) = match file {
        Some(file) => {
            let folder = here.join(file.parent().unwrap_or(Path::new("")));
            (lab_file::read(file)?, folder)
        }
        None => (
            Lab {
                name: "lab".to_owned(),
                ..Lab::default()
            },
            here.clone(),
        ),
    };
    if let Some(name) = name {
        name.clone_into(&mut spec.name);
    }
    let folder = folder
        .canonicalize()
        .map_err(CliError::host(folder.display().to_string()))?;
    let env: IndexMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let file = file
        .map(|file| std::path::absolute(file).map_err(CliError::host(file.display().to_string())));
    Ok(PutLab {
        spec,
        folder: folder.display().to_string(),
        file: file.transpose()?.map(|file| file.display().to_string()),
        env,
        ..PutLab::default()
    })
}

/// Has it recorded: with the seed that it has, or one that is drawn now.
fn record(wanted: &mut PutLab, folder: &Path, file: Option<&Path>) -> Result<(), CliError> {
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).map_err(CliError::host(path.display().to_string()))?;
        Ok::<_, CliError>(path.display().to_string())
    };
    let file = file.or_else(|| Some(Path::new(USUAL)).filter(|usual| usual.exists()));
    wanted.record = Some(RecordLab {
        without_inputs: false,
        folder: absolute(folder)?,
        lab_file: file.map(absolute).transpose()?,
    });
    if wanted.spec.seed.is_none() {
        let mut seed = [0; 8];
        let _ = getrandom(&mut seed, GetRandomFlags::empty());
        // So that JSON's readers have all of its digits.
        wanted.spec.seed = Some(u64::from_le_bytes(seed) >> 12);
    }
    Ok(())
}

/// Sends it to the control process, which is started if none runs; one that is just ending makes room for the next.
async fn put(wanted: &PutLab) -> Result<(Client, Applied), CliError> {
    let dir = RuntimeDir::find();
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    let mut tries = 0;
    loop {
        tries += 1;
        let client = Client::start(&dir, &executable)?;
        let progress = Progress::start(&client, &wanted.spec.name).await;
        let name = &wanted.spec.name;
        let applied = attentively(&client, name, client.put_lab(name, wanted)).await;
        if let Some(progress) = progress {
            progress.end();
        }
        match applied {
            Ok(applied) => return Ok((client, applied)),
            Err(Error::NotRunning(_) | Error::Refused { status: 503, .. }) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A line on the terminal that says how far it is.
struct Progress(tokio::task::JoinHandle<()>);

impl Progress {
    async fn start(client: &Client, lab: &str) -> Option<Progress> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let filter = EventFilter {
            lab: Some(lab.to_owned()),
            watch: None,
        };
        let mut events = client.events(&filter).await.ok()?;
        Some(Progress(tokio::spawn(async move {
            let mut last = None;
            while let Ok(Some(event)) = events.next().await {
                let Happening::Progress { step, done, total } = event.what else {
                    continue;
                };
                let now = Instant::now();
                if last.is_some_and(|last| now - last < Duration::from_millis(50)) {
                    continue;
                }
                last = Some(now);
                let step: String = step.chars().filter(|c| !c.is_control()).collect();
                // What is longer than the terminal is wide is cut there (DECAWM), so that the next line can take its place.
                eprint!("\r\x1b[K\x1b[?7l{done}/{total} {step}\x1b[?7h");
                let _ = std::io::stderr().flush();
            }
        })))
    }

    fn end(self) {
        self.0.abort();
        eprint!("\r\x1b[K");
    }
}

/// `vink lab up`.
pub(crate) fn up(arguments: &Up) -> Result<ExitCode, CliError> {
    let mut wanted = read(arguments.file.as_deref(), arguments.name.as_deref(), true)?;
    wanted.new = true;
    wanted.keep = arguments.keep;
    wanted.switchbox = arguments.switchbox;
    wanted.paused = arguments.paused;
    if let Some(time) = arguments.time {
        wanted.spec.time = time;
    }
    if let Some(folder) = &arguments.record {
        record(&mut wanted, folder, arguments.file.as_deref())?;
    }
    let name = wanted.spec.name.clone();
    let runtime = runtime()?;
    runtime.block_on(async {
        let began = Instant::now();
        let mut interrupts = Interrupts::catch()?;
        let (client, applied) = tokio::select! {
            done = put(&wanted) => done?,
            signal = interrupts.next() => {
                let client = Client::of(&RuntimeDir::find());
                // It may not be there yet, or be another one of this name by now.
                let _ = client.remove_lab(&name).await;
                eprintln!("vink: lab {name} was taken down again");
                return Err(CliError::Signal(signal));
            }
        };
        if arguments.json {
            print::json(&applied)?;
        } else {
            let status = client.lab(&name).await?;
            print::text(&format!(
                "lab {name} is up: {}, {}, {}; {:.1} s\n",
                print::count(status.summary.machines, "machine"),
                print::count(status.summary.wires, "wire"),
                print::count(status.summary.programs, "program"),
                began.elapsed().as_secs_f64()
            ))?;
            if let Some(address) = applied.switchbox {
                print::text(&format!(
                    "switch box: telnet {} {}\n",
                    address.ip(),
                    address.port()
                ))?;
            }
            for failed in status.failed {
                eprintln!("vink: {failed}");
            }
        }
        if !arguments.foreground {
            return Ok(ExitCode::SUCCESS);
        }
        let filter = EventFilter {
            lab: Some(name.clone()),
            watch: None,
        };
        let mut events = client.events(&filter).await?;
        tokio::select! {
            done = follow(&mut events, |event| line(event).map_or(Ok(()), |l| print::text(&l))) => {
                done?;
                Ok(ExitCode::SUCCESS)
            }
            _ = interrupts.next() => {
                client.remove_lab(&name).await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// `vink lab apply`.
pub(crate) fn apply(arguments: &Apply) -> Result<ExitCode, CliError> {
    let mut wanted = read(arguments.file.as_deref(), arguments.name.as_deref(), false)?;
    wanted.dry_run = arguments.dry_run;
    wanted.running = true;
    let name = wanted.spec.name.clone();
    let applied = runtime()?.block_on(async {
        let client = Client::of(&RuntimeDir::find());
        let progress = Progress::start(&client, &name).await;
        let applied = attentively(&client, &name, client.put_lab(&name, &wanted)).await;
        if let Some(progress) = progress {
            progress.end();
        }
        applied
    })?;
    if arguments.json {
        print::json(&applied)?;
        return Ok(ExitCode::SUCCESS);
    }
    for change in &applied.changes {
        print::text(&changed(change))?;
    }
    if applied.changes.is_empty() {
        print::text(&format!("lab {name} is as the file says\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A change as a line.
pub(crate) fn changed(change: &Change) -> String {
    let sign = match change.kind {
        ChangeKind::Add => '+',
        ChangeKind::Change => '~',
        ChangeKind::Remove => '-',
    };
    match change.text.is_empty() {
        true => format!("{sign} {}\n", change.object),
        false => format!("{sign} {}: {}\n", change.object, change.text),
    }
}

/// `vink lab down`.
pub(crate) fn down(arguments: &Down) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let gone = runtime()?.block_on(async {
        let names = match arguments.all {
            true => match client.labs().await {
                Ok(labs) => labs.into_iter().map(|lab| lab.name).collect(),
                // Then none runs.
                Err(Error::NotRunning(_)) => Vec::new(),
                Err(error) => return Err(error.into()),
            },
            false => vec![lab_or_only(&client, arguments.which.name()).await?],
        };
        for name in &names {
            client.remove_lab(name).await?;
        }
        Ok::<_, CliError>(names)
    })?;
    if arguments.json {
        print::json(&gone)?;
    } else {
        for name in gone {
            print::text(&format!("lab {name} is down\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `vink lab restart`.
pub(crate) fn restart(arguments: &Restart) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let restarted = runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        Ok::<_, CliError>(match &arguments.machine {
            Some(machine) => client.restart_machine(&lab, machine).await?,
            None => client.restart_lab(&lab).await?,
        })
    })?;
    if arguments.json {
        print::json(&restarted)?;
    } else {
        let count = print::count(restarted.machines.len(), "machine");
        print::text(&format!("{count} restarted\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
