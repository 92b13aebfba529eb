//! Pods and paths of a lab worker: loaded, placed, ended and told of.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use vink_kernel::{Clock, EndId, PacketHooks};
use vink_pod::{load, Limits, LoadError, Loaded, OpenPaths, Source, Wall};
use vink_protocol::{Answer, Event, Filter, PathStatus, PodStatus};
use vink_spec::{PathSpec, PodSpec};

use super::crossing::{ActivePath, ActivePod, PathTable, PodEvent};
use super::lab::{refused, Lab, WorkerError};
use super::loader::{Job, Loader};
use super::stream_path::StreamPaths;

/// All pods and paths of a worker.
#[derive(Default)]
pub(super) struct Paths {
    table: Arc<Mutex<PathTable>>,
}

/// Loads a pod as a lab file says, at this time of the lab's clock (ns), which is a virtual one or
/// not.
///
/// # Errors
/// [`LoadError`].
pub fn load_pod(what: &PodSpec, file: &Path, now: u64, repeats: bool) -> Result<Loaded, LoadError> {
    let default = Limits::default();
    load(&Source {
        file,
        config: what.config.as_bytes(),
        limits: Limits {
            memory: what.memory_bytes().unwrap_or(default.memory),
            time: what.time.map_or(default.time, |time| time.duration()),
            ..default
        },
        wall: what.wall.map(wall_of),
        now,
        repeats,
    })
}

impl Paths {
    pub(super) fn table(&self) -> MutexGuard<'_, PathTable> {
        self.table.lock().expect("no panic while it is held")
    }

    /// For the kernel's questions.
    pub(super) fn shared(&self) -> Arc<Mutex<PathTable>> {
        self.table.clone()
    }

    /// For apps; in a lab that repeats or not.
    pub(super) fn of_streams(&self, repeats: bool) -> Rc<dyn OpenPaths> {
        Rc::new(StreamPaths::new(self.table.clone(), repeats))
    }

    /// When something is to be done, in ns of the kernel's clock.
    pub(super) fn due(&self) -> Option<u64> {
        self.table().due()
    }
}

impl Lab {
    /// Loads a pod, in the place of one of this name.
    pub(super) fn load_pod(
        &mut self,
        name: String,
        what: &PodSpec,
        file: &str,
    ) -> Result<(), WorkerError> {
        let now = self.worker.now();
        let repeats = self.worker.kernel().clock() == Clock::Virtual;
        let loaded = load_pod(what, Path::new(file), now, repeats);
        let loaded = loaded.map_err(|error| refused(error.to_string()))?;
        self.place_pod(name, what, file, loaded)
    }

    /// Has a pod loaded apart, for a request whose answer is [`Lab::loaded_pods`]'s. Where time stands
    /// still meanwhile, nothing is done: false.
    pub(super) fn begin_load(
        &mut self,
        request: u64,
        pod: &str,
        what: &PodSpec,
        file: &str,
    ) -> Result<bool, WorkerError> {
        if self.worker.kernel().clock() == Clock::Virtual {
            return Ok(false);
        }
        if self.loader.is_none() {
            let loader = Loader::start();
            let loader = loader.map_err(|error| refused(format!("loading pods: {error}")))?;
            self.worker.watch_fd(loader.told())?;
            self.loader = Some(loader);
        }
        let now = self.worker.now();
        if let Some(loader) = &self.loader {
            loader.load(Job {
                request,
                pod: pod.to_owned(),
                what: what.clone(),
                file: file.to_owned(),
                now,
            });
        }
        Ok(true)
    }

    /// The requests whose pods were loaded apart, and what became of each.
    pub(super) fn loaded_pods(&mut self) -> Vec<(u64, Result<(), WorkerError>)> {
        let done = self.loader.as_ref().map(Loader::done).unwrap_or_default();
        let mut answers = Vec::new();
        for (job, loaded) in done {
            let placed = match loaded {
                Ok(loaded) => self.place_pod(job.pod, &job.what, &job.file, loaded),
                Err(why) => Err(refused(why)),
            };
            answers.push((job.request, placed));
        }
        answers
    }

    fn place_pod(
        &mut self,
        name: String,
        what: &PodSpec,
        file: &str,
        (pod, init): Loaded,
    ) -> Result<(), WorkerError> {
        let wall = word_of(pod.wall());
        let mut table = self.paths.table();
        let source = (what.clone(), file.to_owned());
        let new = ActivePod::new(name.clone(), source, pod, wall);
        let at = match table.pods.iter().position(|pod| pod.name == name) {
            Some(at) => {
                table.pods[at] = new;
                at
            }
            None => {
                table.pods.push(new);
                table.pods.len() - 1
            }
        };
        table.initialised(at, &init);
        drop(table);
        self.paths_changed()
    }

    /// Ends a pod, if there is one.
    pub(super) fn revoke_pod(&mut self, name: &str, forget: bool) -> Result<(), WorkerError> {
        let mut table = self.paths.table();
        let Some(at) = table.pods.iter().position(|pod| pod.name == name) else {
            return Ok(());
        };
        table.pods[at].end("it was revoked".to_owned());
        if !forget {
            return Ok(());
        }
        table.pods.remove(at);
        drop(table);
        self.paths_changed()
    }

    /// Makes a path, in the place of one of this name.
    pub(super) fn add_path(
        &mut self,
        name: String,
        what: PathSpec,
        filter: Option<Filter>,
    ) -> Result<(), WorkerError> {
        let now = self.worker.now();
        let mut table = self.paths.table();
        let lacks = |pod: &&String| !table.pods.iter().any(|known| known.name == **pod);
        if let Some(pod) = what.pods.iter().find(lacks) {
            return Err(refused(format!(
                "path {name}: there is no pod {pod}: load it first, by `pods:` or vink pod load"
            )));
        }
        let mut new = ActivePath::new(name, what, filter, now);
        // In the order of their names: a packet takes the first that it fits.
        match table
            .paths
            .binary_search_by(|path| path.name.cmp(&new.name))
        {
            Ok(at) => {
                new.is_open = table.paths[at].is_open;
                table.paths[at] = new;
            }
            Err(at) => table.paths.insert(at, new),
        }
        drop(table);
        self.paths_changed()
    }

    /// Removes a path, if there is one.
    pub(super) fn remove_path(&mut self, name: &str) -> Result<(), WorkerError> {
        let mut table = self.paths.table();
        let before = table.paths.len();
        table.paths.retain(|path| path.name != name);
        if table.paths.len() == before {
            return Ok(());
        }
        drop(table);
        self.paths_changed()
    }

    fn paths_changed(&mut self) -> Result<(), WorkerError> {
        self.paths.table().changed();
        self.answer_packets();
        self.update_queries()
    }

    /// How they are.
    pub(super) fn pods(&self) -> Answer {
        let table = self.paths.table();
        let pods = table.pods.iter().map(|pod| PodStatus {
            pod: pod.name.clone(),
            wall: pod.wall.to_owned(),
            ended: pod.ended.clone(),
            memory: pod.pod.as_ref().map_or(0, |pod| pod.memory()),
            crossings: pod.crossings,
            calls: pod.calls,
            cycles: pod.cycles,
            counters: pod.counters.to_vec(),
            log: pod.log.iter().cloned().collect(),
        });
        let paths = table.paths.iter().map(|path| PathStatus {
            path: path.name.clone(),
            ended: path.broken(&table.pods).map(|pod| pod.name.clone()),
            numbers: path.counted(),
        });
        Answer::Pods {
            pods: pods.collect(),
            paths: paths.collect(),
        }
    }

    /// The paths at an end: which packets they are about.
    pub(super) fn place_paths(&self, end: EndId, place: &str) -> PacketHooks {
        let mut table = self.paths.table();
        match table.paths.is_empty() {
            true => PacketHooks::default(),
            false => table.place(end, place),
        }
    }

    /// To be called after each step: what is due without a packet, and what pods have done.
    pub(super) fn look_after_paths(&mut self) -> Result<(), WorkerError> {
        let idle = !self.driver.is_virtual() || self.worker.is_idle();
        let due = self.paths.due().filter(|_| idle);
        // Read only if it matters.
        let now = due.map(|due| (due, self.worker.now()));
        if let Some((_, now)) = now.filter(|(due, now)| due <= now) {
            let table = self.paths.shared();
            self.worker.kernel().put(|puts| {
                let mut table = table.lock().expect("no panic while it is held");
                table.turn(now, puts);
            })?;
            self.worker.mark_kernel_dirty();
        }
        let mut table = self.paths.table();
        for event in table.events.drain(..) {
            self.events.push(match event {
                PodEvent::Ended {
                    pod,
                    path,
                    fault,
                    time,
                } => Event::PodEnded {
                    pod,
                    path,
                    fault,
                    time,
                },
                PodEvent::Line { pod, line } => Event::PodLog { pod, line },
            });
        }
        Ok(())
    }
}

fn wall_of(wall: vink_spec::Wall) -> Wall {
    match wall {
        vink_spec::Wall::Process => Wall::Process,
        vink_spec::Wall::Wasm => Wall::Wasm,
        vink_spec::Wall::Key => Wall::Key,
        vink_spec::Wall::None => Wall::None,
    }
}

fn word_of(wall: Wall) -> &'static str {
    match wall {
        Wall::Process => vink_spec::Wall::Process.word(),
        Wall::Wasm => vink_spec::Wall::Wasm.word(),
        Wall::Key => vink_spec::Wall::Key.word(),
        Wall::None => vink_spec::Wall::None.word(),
    }
}
