//! The trapped programs of a lab: started, and heard, until they end.
//!
//! What one writes to its standard output and error is in a file in memory, which is looked at whenever all
//! machines wait. It has none of the caller's environment but a few variables, so that it is the same for
//! other users.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use vink_lab::{credentials, Machine};
use vink_spec::{inside, FileSpec, Lab, MachineSpec, ProgramSpec, Rights};
use vink_sys::fd::in_memory;
use vink_trap::{NamespaceConfig, ProgramId, Stdio, Worker};

use crate::lab::Surroundings;
use crate::{Ended, Error};

/// Variables that programs have of the caller's environment.
const VARIABLES: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"];
/// Bytes of a program's output that are read.
const MOST_OUTPUT: usize = 1 << 20;

/// Those of the caller's variables that programs have.
pub(crate) fn environment() -> Vec<(String, String)> {
    let all = VARIABLES.into_iter();
    all.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect()
}

/// How a program is started.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub words: Vec<String>,
    env: Vec<(String, String)>,
    dir: PathBuf,
    rights: Rights,
}

impl Recipe {
    /// Of a program of this lab; `None`: it is a virtualized process.
    pub fn of(
        lab: &Lab,
        machine: &str,
        program: &ProgramSpec,
        folder: &Path,
        env: &[(String, String)],
    ) -> Option<Recipe> {
        let words = program.command.as_ref()?.words();
        let mut env = env.to_vec();
        env.push(("VINK_LAB".to_owned(), lab.name.clone()));
        env.push(("VINK_MACHINE".to_owned(), machine.to_owned()));
        env.extend(program.env.clone());
        Some(Recipe {
            words,
            env,
            dir: program
                .dir
                .as_ref()
                .map_or(folder.to_owned(), |dir| folder.join(dir)),
            rights: lab.machines[machine].rights,
        })
    }
}

/// What a machine's programs find in the place of the host's files: the machines' names, and what the lab file
/// says.
pub(crate) fn surroundings(
    lab: &Lab,
    machine: &Machine,
    around: &Surroundings,
) -> Result<NamespaceConfig, Error> {
    let name = &machine.name;
    let Some(spec) = lab.machines.get(name) else {
        return Ok(NamespaceConfig::new());
    };
    let wrong = |what: &str, why: String| Error::Lab(format!("machine {name}: {what}: {why}"));
    let addresses = |name: &str, spec: &MachineSpec| {
        let interfaces = spec.interfaces.iter().filter(|(name, _)| *name != "lo");
        let all = interfaces.flat_map(|(_, interface)| &interface.addresses);
        let lines = all.map(|address| format!("{}\t{name}\n", address.addr()));
        lines.collect::<String>()
    };
    let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    hosts += &addresses(name, spec);
    let others = lab.machines.iter().filter(|(other, _)| *other != name);
    hosts.extend(others.map(|(other, spec)| addresses(other, spec)));
    let mut config = NamespaceConfig::new().name(name);
    for (path, text) in [
        ("/etc/hostname", format!("{name}\n")),
        ("/etc/hosts", hosts),
        ("/etc/resolv.conf", String::new()),
    ] {
        if !spec.files.contains_key(path) {
            config = config.file(path, text);
        }
    }
    let Surroundings { folder, hidden, .. } = around;
    for (path, file) in &spec.files {
        let text = match file {
            FileSpec::Text(text) => text.clone(),
            FileSpec::From { from } => {
                let file = inside(folder, from).map_err(|why| wrong(path, why.to_string()))?;
                let read = vink_spec::read_text_file(&file, vink_spec::LARGEST_FILE);
                read.map_err(|why| wrong(path, why.to_string()))?
            }
        };
        config = config.put(path, text);
    }
    if let Some(root) = &spec.root {
        let root = inside(folder, root).map_err(|why| wrong("root", why.to_string()))?;
        config = config.root(root);
    }
    if let Some(hidden) = hidden {
        config = config.hide(hidden);
    }
    Ok(config)
}

/// Programs that have been started.
#[derive(Default)]
pub(crate) struct Trapped {
    running: HashMap<ProgramId, usize>,
    outputs: Vec<Output>,
}

/// What a program has written.
struct Output {
    program: usize,
    file: File,
    taken: usize,
}

impl Trapped {
    /// Starts the program of this place.
    pub fn start(
        &mut self,
        worker: &mut Worker,
        machine: vink_kernel::MachineId,
        place: usize,
        recipe: &Recipe,
    ) -> Result<ProgramId, Error> {
        let [name, arguments @ ..] = &recipe.words[..] else {
            return Err(Error::Lab("no program is named".to_owned()));
        };
        let file = in_memory(c"output").map_err(Error::host("memfd_create(2)"))?;
        let copy = || file.try_clone().map_err(Error::host("dup(2)"));
        let mut program = vink_trap::Program::new(name)
            .args(arguments)
            .env_clear()
            .credentials(credentials(recipe.rights))
            .current_dir(&recipe.dir)
            .stdin(Stdio::Null)
            .stdout(Stdio::Fd(copy()?.into()))
            .stderr(Stdio::Fd(copy()?.into()))
            .new_session();
        for (name, value) in &recipe.env {
            program = program.env(name, value);
        }
        let id = worker.spawn(machine, program)?;
        self.running.insert(id, place);
        self.outputs.push(Output {
            program: place,
            file,
            taken: 0,
        });
        Ok(id)
    }

    /// What programs have written since this was last asked for, with their places.
    pub fn written(&mut self) -> Vec<(usize, String)> {
        let news = self.outputs.iter_mut().filter_map(|output| {
            let mut text = Vec::new();
            let mut piece = [0; 4096];
            while output.taken < MOST_OUTPUT {
                match output.file.read_at(&mut piece, output.taken as u64) {
                    Ok(count) if count > 0 => {
                        text.extend(&piece[..count]);
                        output.taken += count;
                    }
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            (!text.is_empty()).then_some((output.program, text))
        });
        news.collect()
    }

    /// Programs that have ended since this was last asked for, with their places.
    pub fn ended(&mut self, worker: &mut Worker) -> Result<Vec<(usize, Ended)>, Error> {
        let mut all = Vec::new();
        while let Some(id) = worker.next_changed() {
            let (status, error) = match worker.status(id) {
                Ok(None) => continue,
                Ok(Some(status)) => (status.code(), None),
                Err(error @ vink_trap::Error::CannotRun { .. }) => {
                    (error.exit_status(), Some(error.to_string()))
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(place) = self.running.remove(&id) {
                let time = worker.now();
                all.push((
                    place,
                    Ended {
                        time,
                        status,
                        error,
                    },
                ));
            }
        }
        all.sort_by_key(|(place, _)| *place);
        Ok(all)
    }
}
