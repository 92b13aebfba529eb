//! Pods and paths of a lab: a pod is loaded in each of its workers but those of switches, which run
//! no code of the lab; a path is in the worker of its interface.

use std::sync::Arc;

use vink_api::{NewPod, PacketPath, Pod};
use vink_protocol::{Action, Answer, PathStatus, PodStatus};
use vink_spec::{check_lab, Change, NamedChange, PathSpec, PodSpec};

use super::lab::{Lab, State};
use super::status::name_is_good;
use crate::http_error::HttpError;

impl State {
    /// The workers that pods are loaded in.
    pub(crate) fn pod_workers(&self) -> Vec<usize> {
        let mut workers = self.alive();
        // Pods are files of this host.
        workers
            .retain(|worker| self.workers[*worker].host.is_none() && !self.is_of_switch(*worker));
        workers
    }

    fn is_of_switch(&self, worker: usize) -> bool {
        let mut switches = self.spec.switches.keys();
        switches.any(|switch| self.worker_of.get(switch) == Some(&worker))
    }

    /// What a worker is told of a pod.
    pub(crate) fn load_pod(
        &self,
        lab: &Lab,
        name: &str,
        spec: &PodSpec,
    ) -> Result<Action, HttpError> {
        let file = spec.path(&lab.folder).map_err(|error| {
            let error = error.to_string();
            let (why, fix) = error.split_once(": ").unwrap_or((&error, ""));
            HttpError::invalid(why).hint(fix).at("/spec/file")
        })?;
        Ok(Action::LoadPod {
            pod: name.to_owned(),
            what: spec.clone(),
            file: file.display().to_string(),
        })
    }

    /// What a worker is told of a path.
    pub(crate) fn add_path(&self, name: &str, spec: &PathSpec) -> Action {
        Action::AddPath {
            path: name.to_owned(),
            what: spec.clone(),
            filter: spec
                .filter
                .as_ref()
                .and_then(|text| self.filters.get(text).cloned()),
        }
    }

    /// The worker of a path's machine; none: the machine is not there.
    pub(crate) fn worker_of_path(&self, spec: &PathSpec) -> Option<usize> {
        self.worker_of.get(spec.machine()).copied()
    }

    /// What a worker that has just started is told of pods and paths.
    pub(crate) fn pods_of(&self, lab: &Lab, worker: usize) -> Result<Vec<Action>, HttpError> {
        if self.is_of_switch(worker) {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for (name, spec) in &self.spec.pods {
            all.push(self.load_pod(lab, name, spec)?);
        }
        let paths = self.spec.paths.iter();
        let paths = paths.filter(|(_, spec)| self.worker_of_path(spec) == Some(worker));
        all.extend(paths.map(|(name, spec)| self.add_path(name, spec)));
        Ok(all)
    }
}

impl Lab {
    async fn asked_for_pods(
        self: &Arc<Lab>,
    ) -> Result<(Vec<PodStatus>, Vec<PathStatus>), HttpError> {
        let workers = self.state().pod_workers();
        let (mut all_pods, mut all_paths) = (Vec::new(), Vec::new());
        for worker in workers {
            match self.have(worker, Action::Pods, Vec::new()).await? {
                Answer::Pods { pods, paths } => {
                    all_pods.extend(pods);
                    all_paths.extend(paths);
                }
                other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
            }
        }
        Ok((all_pods, all_paths))
    }

    /// All pods, with what they have counted in all workers together.
    pub(crate) async fn pods(self: &Arc<Lab>) -> Result<Vec<Pod>, HttpError> {
        let (known, _) = self.asked_for_pods().await?;
        let state = self.state();
        let all = state.spec.pods.iter().map(|(name, spec)| {
            let its = || known.iter().filter(|status| status.pod == *name);
            let sum = |of: fn(&PodStatus) -> u64| its().map(of).sum();
            let mut counters = vec![0i64; 16];
            for status in its() {
                for (sum, more) in counters.iter_mut().zip(&status.counters) {
                    *sum = sum.wrapping_add(*more);
                }
            }
            Pod {
                name: name.clone(),
                spec: spec.clone(),
                wall: its()
                    .map(|status| status.wall.clone())
                    .next()
                    .unwrap_or_default(),
                ended: match its().next() {
                    Some(_) => its().find_map(|status| status.ended.clone()),
                    None => Some("it is in no worker".to_owned()),
                },
                memory: sum(|status| status.memory),
                crossings: sum(|status| status.crossings),
                calls: sum(|status| status.calls),
                cycles: sum(|status| status.cycles),
                counters,
                log: its().flat_map(|status| status.log.clone()).collect(),
            }
        });
        Ok(all.collect())
    }

    /// A pod.
    pub(crate) async fn pod(self: &Arc<Lab>, name: &str) -> Result<Pod, HttpError> {
        let all = self.pods().await?;
        let names = all.iter().map(|pod| pod.name.as_str());
        let none = HttpError::no("pod", name, names, "in the lab");
        all.into_iter().find(|pod| pod.name == name).ok_or(none)
    }

    /// Loads a pod, in the place of one of its name; without a specification, again as it was.
    pub(crate) async fn new_pod(self: &Arc<Lab>, new: NewPod) -> Result<Pod, HttpError> {
        name_is_good("pod", &new.name)?;
        {
            let _one = self.changing.lock().await;
            let known = self.state().spec.pods.get(&new.name).cloned();
            let Some(spec) = new.spec.or(known) else {
                return Err(HttpError::no(
                    "pod",
                    &new.name,
                    self.state().spec.pods.keys().map(String::as_str),
                    "in the lab",
                ));
            };
            let mut with = self.state().spec.clone();
            with.pods.insert(new.name.clone(), spec.clone());
            if let Err(mistakes) = check_lab(&with, Some(&self.folder)) {
                let object = format!("pods.{}", new.name);
                if let Some(fault) = HttpError::of_object(&mistakes, &object) {
                    return Err(fault);
                }
            }
            let step = Change::Pod(NamedChange::Add {
                name: new.name.clone(),
                spec,
            });
            self.reconcile(vec![step], true).await?;
        }
        self.pod(&new.name).await
    }

    /// Ends a pod, and takes back what it has. It stays in the lab, and can be loaded again.
    pub(crate) async fn revoke_pod(self: &Arc<Lab>, name: &str) -> Result<Pod, HttpError> {
        self.pod(name).await?;
        {
            let _one = self.changing.lock().await;
            let workers = self.state().pod_workers();
            for worker in workers {
                let pod = name.to_owned();
                let action = Action::RevokePod { pod, forget: false };
                self.have(worker, action, Vec::new()).await?;
            }
        }
        self.pod(name).await
    }

    /// All paths, with what they have counted.
    pub(crate) async fn packet_paths(self: &Arc<Lab>) -> Result<Vec<PacketPath>, HttpError> {
        let (_, known) = self.asked_for_pods().await?;
        let state = self.state();
        let all = state.spec.paths.iter().map(|(name, spec)| {
            let status = known.iter().find(|status| status.path == *name);
            PacketPath {
                name: name.clone(),
                spec: spec.clone(),
                ended: status.and_then(|status| status.ended.clone()),
                numbers: status
                    .map(|status| status.numbers.iter().cloned().collect())
                    .unwrap_or_default(),
            }
        });
        Ok(all.collect())
    }

    /// A path.
    pub(crate) async fn packet_path(self: &Arc<Lab>, name: &str) -> Result<PacketPath, HttpError> {
        let all = self.packet_paths().await?;
        let names = all.iter().map(|path| path.name.as_str());
        let none = HttpError::no("path", name, names, "in the lab");
        all.into_iter().find(|path| path.name == name).ok_or(none)
    }

    /// Removes a path: its packets take none any more.
    pub(crate) async fn remove_path(self: &Arc<Lab>, name: &str) -> Result<PacketPath, HttpError> {
        let was = self.packet_path(name).await?;
        let _one = self.changing.lock().await;
        let path = name.to_owned();
        self.reconcile(vec![Change::Path(NamedChange::Remove { name: path })], true)
            .await?;
        Ok(was)
    }
}
