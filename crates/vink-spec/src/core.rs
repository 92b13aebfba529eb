//! Where a machine runs: which worker process it is in, and on which of the host's processors that
//! is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{Lab, MachineSpec};

/// The most processors that the host's interface knows: sched_setaffinity(2).
pub(crate) const MOST_CPUS: u32 = 1024;

/// The processors that a worker and the programs of its machines stay on: `core: 1`, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Core {
    /// One, by its number.
    One(u32),
    /// Any of these.
    Several(Vec<u32>),
}

impl Core {
    /// Their numbers, in order.
    pub fn cpus(&self) -> Vec<u32> {
        let mut cpus = match self {
            Core::One(cpu) => vec![*cpu],
            Core::Several(cpus) => cpus.clone(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The same processors, however they were said.
    pub(crate) fn normal(&self) -> Core {
        match self.cpus().as_slice() {
            &[cpu] => Core::One(cpu),
            cpus => Core::Several(cpus.to_vec()),
        }
    }
}

/// As in `taskset -c`.
impl std::fmt::Display for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpus: Vec<String> = self.cpus().iter().map(ToString::to_string).collect();
        f.write_str(&cpus.join(","))
    }
}

impl MachineSpec {
    /// The name of its worker group; none: the group of machines that say nothing. Machines of one
    /// image and one group share a worker process. A `core` without a `worker` is a group of its
    /// own, whose name no file can give.
    pub fn worker_group(&self) -> Option<String> {
        match (&self.worker, &self.core) {
            (Some(worker), _) => Some(worker.clone()),
            (None, Some(core)) => Some(format!("core {core}")),
            (None, None) => None,
        }
    }
}

impl Lab {
    /// Lets every machine of a worker group say which processors the group has.
    pub(crate) fn spread_cores(&mut self) {
        let group = |it: &MachineSpec| Some((it.host.clone(), it.worker.clone()?));
        let cores: std::collections::HashMap<_, Core> = self
            .machines
            .values()
            .rev()
            .filter_map(|machine| Some((group(machine)?, machine.core.clone()?)))
            .collect();
        for machine in self.machines.values_mut() {
            let of_group = group(machine).and_then(|name| cores.get(&name));
            let core = machine.core.take().or_else(|| of_group.cloned());
            machine.core = core.map(|core| core.normal());
        }
    }
}

impl Reader {
    pub(crate) fn core(&mut self, node: &Node) -> Option<Core> {
        let cpu = |r: &mut Reader, n: &Node| r.number(n, 0, MOST_CPUS - 1);
        match &node.kind {
            Kind::List(items) => {
                let cpus = self.list(node, cpu)?;
                if items.is_empty() {
                    let fix = "name a processor, such as 0, or leave `core` out";
                    self.wrong(node.span, "there is no processor in this list", fix);
                }
                (!cpus.is_empty()).then_some(Core::Several(cpus))
            }
            _ => cpu(self, node).map(Core::One),
        }
    }
}

impl<'a> Check<'a> {
    /// A worker has the same processors whichever of its machines says so.
    pub(crate) fn core(&mut self, spec: &MachineSpec) {
        let (Some(worker), Some(core)) = (&spec.worker, &spec.core) else {
            return;
        };
        let mut all = self.lab.machines.iter();
        let first = all.find(|(_, it)| {
            it.worker.as_ref() == Some(worker) && it.host == spec.host && it.core.is_some()
        });
        let first = first.and_then(|(name, it)| Some((name, it.core.as_ref()?)));
        if let Some((name, its)) = first.filter(|(_, its)| its.cpus() != core.cpus()) {
            self.at("core", |c| {
                let message = format!(
                    "worker {worker} has core {its} by machine {name}, and can't have core {core} too"
                );
                c.add(message, "give one of the machines another `worker`").path.len()
            });
        }
    }
}
