//! How a lab worker's machines, wires and kernel are.

use super::lab::{Lab, WorkerError};
use super::machine::WireRef;
use vink_kernel::{EndId, Kernel};
use vink_protocol::{Answer, InterfaceStatus, MachineStatus, Status, WireStatus};

impl Lab {
    pub(super) fn status(&mut self, machines: Option<Vec<String>>) -> Result<Answer, WorkerError> {
        let some = machines.as_ref().is_some_and(|names| !names.is_empty());
        let mut names = match machines {
            Some(names) => names,
            None => self.machines.keys().cloned().collect(),
        };
        names.sort();
        let mut status = Status {
            resident: resident(),
            ..Status::default()
        };
        let c = self.worker.counters()?;
        for (name, value) in [
            ("tasks", c.tasks),
            ("machines", c.machines),
            ("sockets", c.sockets),
            ("files", c.files),
            ("arena_pages", c.arena_pages),
            ("free_pages", c.free_pages),
            ("switches", c.switches),
            ("calls", c.calls),
        ] {
            status.counters.push((name.to_owned(), value));
        }
        let only = some.then(|| names.clone());
        for name in names {
            let machine = self.machine_status(name)?;
            status.machines.push(machine);
        }
        let kernel = self.worker.kernel();
        for (name, wire) in &self.wires {
            let is_theirs = |wanted: &Vec<String>| {
                let mut ends = wire.ends.iter();
                ends.any(|end_name| wanted.contains(&end_name.machine))
            };
            if !only.as_ref().is_none_or(is_theirs) {
                continue;
            }
            let mut ends = Vec::new();
            for end_name in &wire.ends {
                let interface = &self.machines[&end_name.machine].interfaces[&end_name.interface];
                ends.push((end_name.to_string(), numbers(kernel, interface.end)?));
            }
            if let Some(attached) = &wire.uplink {
                let mut outside = numbers(kernel, attached.end)?;
                outside.push(("rejected".to_owned(), attached.rejected()));
                ends.push(("outside".to_owned(), outside));
            }
            status.wires.push(WireStatus {
                wire: name.clone(),
                up: wire.up,
                ends,
                uplink_error: wire.uplink.as_ref().and_then(|attached| attached.error()),
            });
        }
        status.wires.sort_by(|a, b| a.wire.cmp(&b.wire));
        Ok(Answer::Status(status))
    }

    fn machine_status(&mut self, name: String) -> Result<MachineStatus, WorkerError> {
        let network = self.machine(&name)?.machine.network;
        let listed = network.interfaces(self.worker.kernel())?;
        let known = &self.machine(&name)?.interfaces;
        let interfaces = listed.into_iter().map(|listed| InterfaceStatus {
            wire: known
                .get(&listed.name)
                .and_then(|interface| match &interface.wire {
                    WireRef::Lab(wire) => Some(wire.clone()),
                    WireRef::Private(_) => None,
                }),
            interface: listed.name,
            mac: listed.mac,
            up: listed.up,
            carrier: listed.carrier,
            addresses: listed.addresses,
            counters: named(listed.counters),
        });
        Ok(MachineStatus {
            interfaces: interfaces.collect(),
            machine: name,
        })
    }

    pub(super) fn listens(
        &mut self,
        machine: &str,
        port: u16,
        udp: bool,
    ) -> Result<Answer, WorkerError> {
        let machine = self.machine(machine)?.machine.clone();
        let mut listens = machine.listens(self.worker.kernel(), port)?;
        if udp && !listens {
            listens = machine.takes_datagrams(self.worker.kernel(), port)?;
        }
        Ok(Answer::Yes(listens))
    }
}

/// The same for what is no part of a worker; `None`: they can't be had.
pub(crate) fn wire_numbers(kernel: &mut Kernel, end: EndId) -> Option<Vec<(String, u64)>> {
    numbers(kernel, end).ok()
}

/// What happened to the packets that an end sent.
pub(super) fn numbers(kernel: &mut Kernel, end: EndId) -> Result<Vec<(String, u64)>, WorkerError> {
    let s = match kernel.wire_statistics(end) {
        Ok(statistics) => statistics,
        // A program has removed the interface.
        Err(vink_kernel::Error::NoSuchEnd) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    Ok(named(vec![
        ("sent", s.sent),
        ("sent_bytes", s.sent_bytes),
        ("received", s.received),
        ("received_bytes", s.received_bytes),
        (
            "lost",
            s.lost_random + s.lost_limit + s.lost_mtu + s.lost_down,
        ),
        ("lost_random", s.lost_random),
        ("lost_limit", s.lost_limit),
        ("lost_mtu", s.lost_mtu),
        ("lost_down", s.lost_down),
        ("corrupted", s.corrupted),
        ("duplicated", s.duplicated),
        ("reordered", s.reordered),
        ("under_way", s.under_way),
    ]))
}

fn named(numbers: Vec<(&'static str, u64)>) -> Vec<(String, u64)> {
    let numbers = numbers.into_iter();
    numbers.map(|(name, n)| (name.to_owned(), n)).collect()
}

/// Resident memory of this process, in bytes; see proc_pid_statm(5).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}
