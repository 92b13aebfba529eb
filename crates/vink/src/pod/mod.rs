//! `vink pod` and `vink path`: pods of a lab that runs, and the paths of packets through them.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use vink_api::{Client, LabApi, NewPod, PacketPath, Pod, RuntimeDir};
use vink_spec::{PodSpec, Span, Wall};

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime, Within};
use crate::print::{self, Table};

/// What a pod is made with.
const POD_H: &str = include_str!("../../../../include/vink/pod.h");

/// The command line of `vink pod`.
#[derive(clap::Args)]
pub(crate) struct Pods {
    #[command(subcommand)]
    command: PodCommand,
    #[command(flatten)]
    within: Within,
}

#[derive(Subcommand)]
enum PodCommand {
    /// Write a pod to begin with: NAME.c, pod.h, and a lab file, NAME.yaml, in this folder
    New {
        /// Its name
        pod: String,
    },
    /// Load a pod, in the place of one of its name: paths go on through the new one
    Load(Load),
    /// List pods, with what they have used
    #[command(visible_alias = "list")]
    Ls,
    /// Show a pod: what it has used and counted, and the last lines of its log
    Stat {
        /// Its name
        pod: String,
    },
    /// End a pod, and take back all that it has; `vink pod load NAME` loads it again
    Revoke {
        /// Its name
        pod: String,
    },
}

#[derive(clap::Args)]
struct Load {
    /// Its name
    pod: String,
    /// A shared object, or a WebAssembly module (.wasm), made with vink/pod.h (default: the one that it has)
    file: Option<PathBuf>,
    /// process, wasm, key or none (default: wasm for a module, process for a shared object)
    #[arg(long, requires = "file", value_parser = wall)]
    wall: Option<Wall>,
    /// What its pod_init() gets
    #[arg(long, requires = "file", default_value = "", value_name = "TEXT")]
    config: String,
    /// The memory that it may have, such as 16M
    #[arg(long, requires = "file", value_name = "SIZE")]
    memory: Option<String>,
    /// The time that one crossing may take, such as 10ms
    #[arg(long, requires = "file", value_name = "TIME")]
    time: Option<Span>,
}

fn wall(word: &str) -> Result<Wall, String> {
    Wall::named(word).ok_or_else(|| "write process, wasm, key or none".to_owned())
}

/// The command line of `vink path`.
#[derive(clap::Args)]
pub(crate) struct Paths {
    #[command(subcommand)]
    command: PathCommand,
    #[command(flatten)]
    within: Within,
}

#[derive(Subcommand)]
enum PathCommand {
    /// List paths, with what their packets have used
    #[command(visible_alias = "list")]
    Ls,
    /// Show a path: all that it has counted
    Stat {
        /// Its name
        path: String,
    },
    /// Remove a path: its packets take none any more, and those that wait are lost
    Revoke {
        /// Its name
        path: String,
    },
}

/// Does what `vink pod` is asked for.
pub(crate) fn run(arguments: &Pods) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    if let PodCommand::New { pod } = &arguments.command {
        return begin(pod).map(|()| ExitCode::SUCCESS);
    }
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            PodCommand::New { .. } => Ok(()),
            PodCommand::Ls => {
                let all = client.pods(&lab).await?;
                match json {
                    true => print::json(&all),
                    false => list(&all),
                }
            }
            PodCommand::Load(load) => {
                let loaded = client.load_pod(&lab, &load.new_pod()?).await?;
                match json {
                    true => print::json(&loaded),
                    false => print::text(&format!("pod {} behind {}\n", loaded.name, loaded.wall)),
                }
            }
            PodCommand::Stat { pod } => {
                let found = client.pod(&lab, pod).await?;
                match json {
                    true => print::json(&found),
                    false => print::text(&shown(&found)),
                }
            }
            PodCommand::Revoke { pod } => {
                let ended = client.revoke_pod(&lab, pod).await?;
                match json {
                    true => print::json(&ended),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Does what `vink path` is asked for.
pub(crate) fn run_paths(arguments: &Paths) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let json = arguments.within.json;
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.within.lab.as_deref()).await?;
        match &arguments.command {
            PathCommand::Ls => {
                let all = client.packet_paths(&lab).await?;
                match json {
                    true => print::json(&all),
                    false => list_paths(&all),
                }
            }
            PathCommand::Stat { path } => {
                let found = client.packet_path(&lab, path).await?;
                match json {
                    true => print::json(&found),
                    false => print::text(&shown_path(&found)),
                }
            }
            PathCommand::Revoke { path } => {
                let was = client.remove_path(&lab, path).await?;
                match json {
                    true => print::json(&was),
                    false => Ok(()),
                }
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes an example; files that are there stay.
fn begin(name: &str) -> Result<(), CliError> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(known) {
        return Err(CliError::Other(format!(
            "{name:?} can't be a pod's name here: use letters, digits, - and _"
        )));
    }
    let lab = include_str!("example.yaml").replace("NAME", name);
    for (file, text) in [
        ("pod.h".to_owned(), POD_H),
        (format!("{name}.c"), include_str!("example.c")),
        (format!("{name}.yaml"), &lab),
    ] {
        let made = File::options().write(true).create_new(true).open(&file);
        match made.and_then(|mut made| made.write_all(text.as_bytes())) {
            Err(error) if file == "pod.h" && error.kind() == ErrorKind::AlreadyExists => {}
            done => done.map_err(CliError::host(format!("writing {file}")))?,
        }
    }
    print::text(&format!(
        "cc -shared -fPIC -O2 -o {name}.so {name}.c\nvink lab up {name}.yaml\n"
    ))
}

impl Load {
    fn new_pod(&self) -> Result<NewPod, CliError> {
        let spec = match &self.file {
            None => None,
            Some(file) => {
                let file = std::path::absolute(file)
                    .map_err(CliError::host("finding the current folder".to_owned()))?;
                Some(PodSpec {
                    file: file.to_string_lossy().into_owned(),
                    wall: self.wall,
                    config: self.config.clone(),
                    memory: self.memory.clone(),
                    time: self.time,
                })
            }
        };
        Ok(NewPod {
            name: self.pod.clone(),
            spec,
        })
    }
}

fn list(all: &[Pod]) -> Result<(), CliError> {
    let mut table = Table::new([
        "NAME",
        "WALL",
        "MEMORY",
        "CROSSINGS",
        "CALLS",
        "STATE",
        "FILE",
    ]);
    for pod in all {
        table.row([
            pod.name.clone(),
            pod.wall.clone(),
            format!("{}K", pod.memory / 1024),
            pod.crossings.to_string(),
            pod.calls.to_string(),
            match &pod.ended {
                Some(_) => "ended".to_owned(),
                None => "runs".to_owned(),
            },
            pod.spec.file.clone(),
        ]);
    }
    let mut text = table.text();
    for pod in all {
        if let Some(why) = &pod.ended {
            text += &format!(
                "pod {} has ended: {why}; vink pod load {}\n",
                pod.name, pod.name
            );
        }
    }
    print::text(&text)
}

fn shown(pod: &Pod) -> String {
    let mut text = format!("pod {} behind {}: {}\n", pod.name, pod.wall, pod.spec.file);
    if let Some(why) = &pod.ended {
        text += &format!("ended: {why}\n");
    }
    for (name, number) in [
        ("memory", pod.memory),
        ("crossings", pod.crossings),
        ("calls", pod.calls),
        ("cycles", pod.cycles),
    ] {
        text += &format!("{name} {number}\n");
    }
    for (counter, value) in pod.counters.iter().enumerate().filter(|(_, v)| **v != 0) {
        text += &format!("counter {counter}: {value}\n");
    }
    for line in &pod.log {
        text += &format!("log: {line}\n");
    }
    text
}

fn list_paths(all: &[PacketPath]) -> Result<(), CliError> {
    let mut table = Table::new([
        "NAME", "PACKETS", "BYTES", "CYCLES", "PASSED", "DROPPED", "WAITING", "LOST", "PATH",
    ]);
    for path in all {
        let number = |name: &str| {
            let number = path.numbers.get(name).copied().unwrap_or_default();
            number.to_string()
        };
        table.row([
            path.name.clone(),
            number("packets"),
            number("bytes"),
            number("cycles"),
            number("passed"),
            number("dropped"),
            number("waiting"),
            number("lost"),
            path.spec.to_string(),
        ]);
    }
    let mut text = table.text();
    for path in all {
        if let Some(pod) = &path.ended {
            text += &format!("path {} is closed: pod {pod} has ended\n", path.name);
        }
    }
    print::text(&text)
}

fn shown_path(path: &PacketPath) -> String {
    let mut text = format!("path {}: {}\n", path.name, path.spec);
    if let Some(pod) = &path.ended {
        text += &format!("closed: pod {pod} has ended\n");
    }
    for (name, number) in &path.numbers {
        text += &format!("{name} {number}\n");
    }
    text
}
