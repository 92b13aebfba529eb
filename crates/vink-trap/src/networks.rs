//! Which network namespaces of the kernel those of the host stand for (`network`).

use std::collections::HashMap;
use std::fs;

use vink_kernel::{MachineId, TaskId};

use crate::tracee;

/// What tells a host namespace from all others: device and inode.
pub(crate) type NetnsId = (u64, u64);

/// Which of the kernel's namespaces each of the host's stands for.
#[derive(Default)]
pub(crate) struct Networks {
    pub(crate) known: HashMap<NetnsId, Network>,
    pub(crate) keeper: Option<Keeper>,
}

/// What one of the host's stands for.
pub(crate) enum Network {
    Machine(MachineId),
    Made {
        /// The keeper's descriptor of it.
        number: i32,
        /// Keeps the host's number of it from being used again.
        _host: fs::File,
    },
}

/// A task that no program has: it has the namespaces that were made open.
pub(crate) struct Keeper {
    pub(crate) task: TaskId,
    /// Its process in the kernel.
    pub(crate) pid: i64,
}

impl Networks {
    /// Programs on this machine begin in the process's namespace.
    pub(crate) fn register_machine(&mut self, machine: MachineId, pid: i32) {
        if let Some((key, _)) = tracee::network(pid) {
            self.known.entry(key).or_insert(Network::Machine(machine));
        }
    }
}
