//! Which worker a machine is in: one for each image, group and host, started when it is needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vink_spec::{Core, MachineSpec};

use super::lab::{Lab, State};
use super::worker::Worker;
use crate::http_error::HttpError;

impl Lab {
    /// An image by its path, from the lab's folder, or by its name.
    pub(super) fn image(&self, path: &str) -> Result<PathBuf, HttpError> {
        let file = self.folder.join(path);
        if file.is_file() || path.contains('/') {
            return Ok(file);
        }
        vink_kernel::image_named(Path::new(path))
            .map_err(|error| HttpError::invalid(error.to_string()))
    }

    /// The worker for machines of an image and a worker group, which is started if it does not run.
    pub(super) async fn worker_for(
        self: &Arc<Lab>,
        spec: &MachineSpec,
    ) -> Result<usize, HttpError> {
        let image = spec.image.as_deref();
        let group = spec.worker_group();
        let cpus = spec.core.as_ref().map(Core::cpus).unwrap_or_default();
        let host = spec.host.as_deref();
        let path = {
            let state = self.state();
            match image {
                // Found by the agent there.
                None if host.is_some() => PathBuf::new(),
                Some(name) if host.is_some() => match state.spec.images.get(name) {
                    Some(path) => PathBuf::from(path),
                    None => return Err(state.no_image(name)),
                },
                Some(name) => match state.spec.images.get(name) {
                    Some(path) => self.image(path)?,
                    None => return Err(state.no_image(name)),
                },
                None => match self.env.get("VINK_IMAGE").filter(|path| !path.is_empty()) {
                    Some(path) => vink_kernel::image_named(Path::new(path)),
                    None => vink_kernel::find_image(),
                }
                .map_err(|error| HttpError::invalid(error.to_string()))?,
            }
        };
        // One whose machines have gone since, and come again on other processors.
        let outdated = {
            let state = self.state();
            let is_it =
                |it: &Worker| it.is_for(host, image, &path) && it.group == group && it.cpus != cpus;
            let found = state.workers.iter().position(is_it);
            found.filter(|number| state.workers[*number].machines == 0)
        };
        if let Some(number) = outdated {
            self.retire(number).await?;
        }
        let number = {
            let mut state = self.state();
            let mut workers = state.workers.iter();
            let found = workers.position(|it| it.is_for(host, image, &path) && it.group == group);
            match found {
                Some(number) if state.workers[number].cpus != cpus => {
                    let worker = &mut state.workers[number];
                    if worker.client.is_some() || worker.error.is_some() {
                        return Err(worker.has_other_cpus(&cpus));
                    }
                    worker.cpus = cpus;
                    number
                }
                Some(number) if state.workers[number].client.is_some() => return Ok(number),
                Some(number) if state.workers[number].error.is_some() => {
                    let lost = state.lost_host_of(number);
                    return Err(lost.unwrap_or_else(|| self.is_dead()));
                }
                Some(number) => number,
                None if state.clock.is_virtual && !state.workers.is_empty() => {
                    let error = format!(
                        "lab {} has a clock of its own, and that is the clock of one kernel: a machine of another image or \
                         worker needs another kernel",
                        self.name
                    );
                    return Err(HttpError::conflict(error).hint(
                        "give all machines the same image and worker, or take a lab with `time: real`",
                    ));
                }
                None => {
                    state.workers.push(Worker {
                        host: host.map(str::to_owned),
                        image: image.map(str::to_owned),
                        group,
                        cpus,
                        path,
                        generation: 0,
                        client: None,
                        pid: None,
                        release: String::new(),
                        machines: 0,
                        error: None,
                        stage: None,
                        stuck: None,
                        knows_hosts: false,
                    });
                    state.workers.len() - 1
                }
            }
        };
        self.boot(number).await?;
        Ok(number)
    }

    /// The worker of a machine.
    pub(crate) fn worker_for_machine(&self, machine: &str) -> Result<usize, HttpError> {
        self.state().worker_for_machine(machine)
    }
}

impl State {
    /// The worker of a machine.
    pub(in crate::engine) fn worker_for_machine(&self, machine: &str) -> Result<usize, HttpError> {
        match self.worker_of.get(machine) {
            Some(worker) => Ok(*worker),
            None => {
                let names = self.spec.machines.keys().map(String::as_str);
                Err(HttpError::no("machine", machine, names, "in the lab"))
            }
        }
    }

    fn no_image(&self, name: &str) -> HttpError {
        let names = self.spec.images.keys().map(String::as_str);
        HttpError::no("image", name, names, "in the lab's images")
    }

    /// The workers of groups that have no machines any more, nor a wire's uplink.
    pub(super) fn unused_workers(&self) -> Vec<usize> {
        let is_unused = |(number, worker): &(usize, &Worker)| {
            (worker.group.is_some() || worker.host.is_some())
                && worker.machines == 0
                && (worker.client.is_some() || worker.error.is_some())
                && !self.wires.values().any(|it| it.uplink == Some(*number))
        };
        let workers = self.workers.iter().enumerate().filter(is_unused);
        workers.map(|(number, _)| number).collect()
    }
}
