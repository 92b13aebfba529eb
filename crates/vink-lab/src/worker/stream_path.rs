//! Paths of streams: an app opens them, and crosses the worker's pods by them.
//!
//! Pods are the table's, as those of packets are. An app has names of them, and each crossing looks
//! them up: so a pod that is loaded again or revoked, and a path that is removed, are so at once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use vink_pod::{
    Account, Batch, Entry, Fault, Meter, OpenPath, OpenPaths, PathNumbers, Pod, Stage, Wall,
};
use vink_spec::OnFault;

use super::crossing::{budget_of, ActivePath, PathTable};
use super::path::load_pod;

/// `POD_CLOSE`.
const CLOSE: i32 = -1;

/// Where apps find paths.
pub(super) struct StreamPaths {
    table: Arc<Mutex<PathTable>>,
    /// The lab is by a virtual clock.
    repeats: bool,
}

/// A pod on an open path.
struct PathPod {
    table: Arc<Mutex<PathTable>>,
    path: String,
    /// The paths that were opened together with it, and it.
    together: Arc<[String]>,
    pod: String,
    /// It has one stream, which can't be closed alone.
    is_alone: bool,
}

/// An open path; it is closed when this is dropped.
struct Open {
    table: Arc<Mutex<PathTable>>,
    path: String,
}

fn locked(table: &Mutex<PathTable>) -> MutexGuard<'_, PathTable> {
    table.lock().expect("no panic while it is held")
}

impl StreamPaths {
    pub(super) fn new(table: Arc<Mutex<PathTable>>, repeats: bool) -> StreamPaths {
        StreamPaths { table, repeats }
    }
}

impl PathTable {
    /// The places of paths that can be opened.
    fn openable(&self, names: &[String]) -> Result<Vec<usize>, String> {
        let mut places = Vec::new();
        for name in names {
            let at = self.paths.iter().position(|path| path.name == *name);
            let Some(at) = at.filter(|at| self.paths[*at].what.stream.is_some()) else {
                let streams = self.paths.iter().filter(|path| path.what.stream.is_some());
                let known: Vec<&str> = streams.map(|path| path.name.as_str()).collect();
                return Err(format!(
                    "no path {name} of a stream is here, of: {}; write one in `paths`, with `stream: MACHINE`",
                    known.join(", ")
                ));
            };
            if self.paths[at].is_open || places.contains(&at) {
                return Err(format!(
                    "path {name} has another stream: give each program a path of its own"
                ));
            }
            places.push(at);
        }
        Ok(places)
    }

    /// Each of these pods is to be as it was loaded.
    fn begin_anew(&mut self, pod: usize, now: u64, repeats: bool) -> Result<(), String> {
        let its = &mut self.pods[pod];
        if let (Some(why), name) = (&its.ended, &its.name) {
            return Err(format!("pod {name} has ended: {why}; vink pod load {name}"));
        }
        if !std::mem::replace(&mut its.is_used, true) {
            return Ok(());
        }
        let loaded = load_pod(&its.what, Path::new(&its.file), now, repeats);
        let (loaded, init) = loaded.map_err(|error| error.to_string())?;
        its.pod = Some(loaded);
        self.initialised(pod, &init);
        Ok(())
    }
}

impl OpenPaths for StreamPaths {
    fn open(&self, names: &[String], anew: bool, now: u64) -> Result<Vec<OpenPath>, String> {
        let mut table = locked(&self.table);
        let places = table.openable(names)?;
        let pods = places.iter().flat_map(|at| &table.paths[*at].through);
        let pods: BTreeSet<usize> = pods.copied().collect();
        if anew {
            let open = table.paths.iter().filter(|path| path.is_open);
            let shared = open.flat_map(|path| path.through.iter().map(move |pod| (path, pod)));
            if let Some((path, pod)) = shared.into_iter().find(|(_, pod)| pods.contains(pod)) {
                let (path, pod) = (&path.name, &table.pods[*pod].name);
                return Err(format!(
                    "pod {pod} has the stream of path {path}: give each stream pods of its own"
                ));
            }
            for pod in pods {
                table.begin_anew(pod, now, self.repeats)?;
            }
        }
        let mut opened = Vec::new();
        let together: Arc<[String]> = names.into();
        for at in places {
            let path = &mut table.paths[at];
            path.is_open = true;
            path.numbers = PathNumbers::default();
            let stage = |pod: &String| {
                let handle = PathPod {
                    table: self.table.clone(),
                    path: path.name.clone(),
                    together: together.clone(),
                    pod: pod.clone(),
                    is_alone: anew,
                };
                Stage::new(pod.clone(), Box::new(handle))
            };
            opened.push(OpenPath {
                pods: path.what.pods.iter().map(stage).collect(),
                class: path.what.class,
                account: Account::new(budget_of(&path.what), now),
                passes_on_fault: path.what.on_fault == OnFault::Pass,
                meter: Box::new(Open {
                    table: self.table.clone(),
                    path: path.name.clone(),
                }),
                name: path.name.clone(),
            });
        }
        Ok(opened)
    }
}

impl Meter for Open {
    fn count(&self, numbers: PathNumbers) {
        let mut table = locked(&self.table);
        let path = table.paths.iter_mut().find(|path| path.name == self.path);
        if let Some(path) = path {
            path.numbers = numbers;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        let path = table.paths.iter_mut().find(|path| path.name == self.path);
        if let Some(path) = path {
            path.is_open = false;
        }
    }
}

impl PathPod {
    fn with<R>(&self, nothing: R, of: impl FnOnce(&dyn Pod) -> R) -> R {
        let table = locked(&self.table);
        let pod = table.pods.iter().find(|pod| pod.name == self.pod);
        let pod = pod.and_then(|pod| pod.pod.as_deref());
        pod.map_or(nothing, of)
    }
}

impl Pod for PathPod {
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        let mut table = locked(&self.table);
        let Some(pod) = table.pods.iter().position(|pod| pod.name == self.pod) else {
            return Err(Fault::Ended("is not in the lab any more".to_owned()));
        };
        let open = |path: &&ActivePath| {
            path.is_open && path.what.stream.is_some() && self.together.contains(&path.name)
        };
        let all = table.paths.iter().filter(open);
        let all = all.filter(|path| path.through.contains(&pod));
        let its = all.clone().find(|path| path.name == self.path);
        // Others share the pod.
        let Some(path) = its.or_else(|| all.clone().next()) else {
            let why = format!("lost path {}, which was revoked", self.path);
            return Err(Fault::Ended(why));
        };
        let path = table.paths.iter().position(|its| its.name == path.name);
        table.pods[pod].is_used = true;
        let is_alone = self.is_alone;
        table.crossed(pod, path, batch.now, batch, |pod, batch| {
            pod.cross(batch)?;
            let is_stream = |call: &&vink_pod::Call| call.entry == Entry::Stream;
            let mut answers = batch.calls.iter().filter(is_stream);
            match answers.any(|call| call.answer == CLOSE) {
                true if is_alone => Err(Fault::Refused("pod_stream()", CLOSE)),
                _ => Ok(()),
            }
        })
    }

    fn wall(&self) -> Wall {
        self.with(Wall::None, |pod| pod.wall())
    }

    fn memory(&self) -> u64 {
        self.with(0, |pod| pod.memory())
    }
}
