//! Machines of a lab worker: made, configured, removed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use vink_kernel::{EndId, WireId};
use vink_trap::{NamespaceConfig, ProgramId};

use super::lab::{refused, About, EndName, Lab, WorkerError};
use crate::files::hosts;
use crate::route::StaticRoute;
use crate::Machine;
use vink_protocol::NewMachine;
use vink_spec::Rights;

/// A machine and what the worker keeps for it.
pub(super) struct MachineEntry {
    pub(super) machine: Machine,
    /// Paths and texts that shadow the host's files.
    files: BTreeMap<String, String>,
    /// What its programs may do.
    pub(super) rights: Rights,
    /// A folder in which those without full rights find nothing.
    hidden: Option<String>,
    root: Option<String>,
    /// The value of `Lab::hosts_changes` when its files were last written; `None`: they are out of
    /// date.
    configured: Option<u64>,
    pub(super) interfaces: BTreeMap<String, Interface>,
}

/// An interface that is an end of a wire.
pub(super) struct Interface {
    pub(super) end: EndId,
    pub(super) wire: WireRef,
    /// The addresses that requests have given it.
    addresses: Vec<IpNet>,
}

/// The wire that an interface is an end of.
pub(super) enum WireRef {
    /// A wire of the lab, by its name.
    Lab(String),
    /// A wire of the interface alone, which is not connected.
    Private(WireId),
}

impl MachineEntry {
    /// Adds addresses that passt has given, and its resolver unless the machine has another one.
    pub(super) fn adopt(&mut self, interface: &str, addresses: &[IpNet], resolver: &str) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.addresses.extend(addresses);
        }
        let file = self.files.entry("/etc/resolv.conf".to_owned());
        file.or_insert_with(|| resolver.to_owned());
        self.configured = None;
    }

    /// Removes these addresses. The resolver stays.
    pub(super) fn disown(&mut self, interface: &str, addresses: &[IpNet]) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.addresses.retain(|a| !addresses.contains(a));
        }
        self.configured = None;
    }

    /// Its addresses have changed: its files are out of date.
    pub(super) fn moved(&mut self) {
        self.configured = None;
    }
}

impl Interface {
    pub(super) fn new(end: EndId, wire: WireRef, addresses: Vec<IpNet>) -> Interface {
        Interface {
            end,
            wire,
            addresses,
        }
    }
}

impl Lab {
    /// # Errors
    /// There is no machine of this name.
    pub(super) fn machine(&self, name: &str) -> Result<&MachineEntry, WorkerError> {
        self.machines.get(name).ok_or_else(|| no_machine(name))
    }

    pub(super) fn machine_mut(&mut self, name: &str) -> Result<&mut MachineEntry, WorkerError> {
        self.machines.get_mut(name).ok_or_else(|| no_machine(name))
    }

    pub(super) fn new_machine(&mut self, new: NewMachine) -> Result<(), WorkerError> {
        let name = &new.machine;
        if self.machines.contains_key(name) {
            return Err(refused(format!("machine {name}: there is one already")));
        }
        let kernel = self.worker.kernel();
        let machine = Machine::new(kernel, name).about(format!("machine {name}"))?;
        let entry = MachineEntry {
            machine: machine.clone(),
            files: new.files.into_iter().collect(),
            rights: new.rights,
            hidden: new.hidden,
            root: new.root,
            configured: None,
            interfaces: BTreeMap::new(),
        };
        self.machines.insert(name.clone(), entry);
        let ready = self.prepare(name, new.forward, &new.sysctls);
        if ready.is_err() {
            self.machines.remove(name);
            self.give_up(&machine)?;
        }
        ready
    }

    fn prepare(
        &mut self,
        name: &str,
        forward: bool,
        sysctls: &[(String, String)],
    ) -> Result<(), WorkerError> {
        if forward {
            self.set_forwarding(name, true)?;
        }
        if !self.machine(name)?.rights.is_full() {
            let machine = self.machine(name)?.machine.clone();
            machine
                .allow_users(self.worker.kernel())
                .about(format!("machine {name}"))?;
        }
        for (sysctl, value) in sysctls {
            self.sysctl(name, sysctl, value)?;
        }
        // A root folder that cannot be used fails here, not at the first program.
        match self.machine(name)?.root {
            Some(_) => self.configure_namespaces(name),
            None => Ok(()),
        }
    }

    pub(super) fn set_forwarding(&mut self, name: &str, forward: bool) -> Result<(), WorkerError> {
        let machine = self.machine(name)?.machine.clone();
        let set = machine.set_forwarding(self.worker.kernel(), forward);
        set.about(format!("machine {name}"))
    }

    fn give_up(&mut self, machine: &Machine) -> Result<(), WorkerError> {
        machine.network.close(self.worker.kernel())?;
        self.worker.destroy_machine(machine.id)?;
        Ok(())
    }

    /// Kills its programs and apps, detaches its interfaces, then removes it.
    pub(super) fn remove_machine(&mut self, name: &str) -> Result<(), WorkerError> {
        let id = self.machine(name)?.machine.id;
        let programs: Vec<ProgramId> = self.programs_on(name);
        for program in &programs {
            self.worker.kill_known(*program)?;
        }
        for program in programs {
            self.worker.kill(program)?;
        }
        self.end_apps(id)?;
        self.look_around()?;
        let interfaces: Vec<_> = self.machine(name)?.interfaces.keys().cloned().collect();
        for interface in interfaces {
            self.detach(name, &interface)?;
        }
        self.series.lose(name);
        match self.machines.remove(name) {
            Some(entry) => self.give_up(&entry.machine),
            None => Ok(()),
        }
    }

    pub(super) fn set_files(
        &mut self,
        name: &str,
        files: Vec<(String, String)>,
    ) -> Result<(), WorkerError> {
        let machine = self.machine_mut(name)?;
        machine.files.extend(files);
        machine.configured = None;
        Ok(())
    }

    pub(super) fn set_hosts(&mut self, text: String) {
        if *self.hosts != *text {
            self.name_machines(&text);
            self.hosts = text.into();
            self.hosts_changes += 1;
        }
    }

    /// Writes the machine's files if they are out of date, for programs started from now on.
    pub(super) fn configure_namespaces(&mut self, name: &str) -> Result<(), WorkerError> {
        let changes = self.hosts_changes;
        let names = self.hosts.clone();
        let machine = self.machine_mut(name)?;
        if machine.configured == Some(changes) {
            return Ok(());
        }
        let addresses: Vec<IpAddr> = machine
            .interfaces
            .values()
            .flat_map(|interface| &interface.addresses)
            .map(IpNet::addr)
            .collect();
        let files = BTreeMap::from([
            ("/etc/hostname", format!("{name}\n")),
            ("/etc/hosts", hosts(name, &addresses) + &names),
            ("/etc/resolv.conf", String::new()),
        ]);
        let mut config = NamespaceConfig::new().name(name);
        for (path, text) in files {
            if !machine.files.contains_key(path) {
                config = config.file(path, text);
            }
        }
        for (path, text) in &machine.files {
            config = config.put(path, text.as_bytes());
        }
        if let Some(root) = &machine.root {
            config = config.root(root);
        }
        if let Some(hidden) = &machine.hidden {
            config = config.hide(hidden);
        }
        machine.configured = Some(changes);
        let id = machine.machine.id;
        let configured = self.worker.configure_namespaces(id, &config);
        if configured.is_err() {
            self.machine_mut(name)?.configured = None;
        }
        configured.about(format!("machine {name}"))
    }

    pub(super) fn sysctl(
        &mut self,
        name: &str,
        sysctl: &str,
        value: &str,
    ) -> Result<(), WorkerError> {
        let network = self.machine(name)?.machine.network;
        let path = sysctl_path(sysctl)
            .ok_or_else(|| refused(format!("machine {name}: {sysctl:?} is no sysctl")))?;
        let kernel = self.worker.kernel();
        // Where there is no IPv6 it is switched off already.
        let off = path.strip_prefix("net/ipv6/");
        let off = off.filter(|path| path.ends_with("/disable_ipv6") && value == "1");
        let set = match off {
            Some(path) => network.ipv6_sysctl(kernel, path, value),
            None => network.sysctl(kernel, &path, value),
        };
        set.about(format!("machine {name}: sysctl {sysctl}"))
    }

    pub(super) fn address(
        &mut self,
        name: &str,
        interface: &str,
        address: IpNet,
        remove: bool,
    ) -> Result<(), WorkerError> {
        let network = self.machine(name)?.machine.network;
        let kernel = self.worker.kernel();
        let done = match remove {
            true => network.remove_address(kernel, interface, address),
            false => network.address(kernel, interface, address.addr(), address.prefix_len()),
        };
        done.about(format!("machine {name}"))?;
        let machine = self.machine_mut(name)?;
        machine.configured = None;
        if let Some(known) = machine.interfaces.get_mut(interface) {
            known.addresses.retain(|a| *a != address);
            if !remove {
                known.addresses.push(address);
            }
        }
        Ok(())
    }

    pub(super) fn route(
        &mut self,
        name: &str,
        route: &StaticRoute<'_>,
        remove: bool,
    ) -> Result<(), WorkerError> {
        let network = self.machine(name)?.machine.network;
        network
            .change_route(self.worker.kernel(), route, remove)
            .about(format!("machine {name}"))
    }

    /// An interface that is an end of a wire.
    pub(super) fn interface(&self, end_name: &EndName) -> Result<&Interface, WorkerError> {
        let machine = self.machine(&end_name.machine)?;
        let found = machine.interfaces.get(&end_name.interface);
        found.ok_or_else(|| {
            let known: Vec<&str> = machine.interfaces.keys().map(String::as_str).collect();
            let known = match known[..] {
                [] => "it has none at a wire".to_owned(),
                _ => format!("at wires it has {}", known.join(", ")),
            };
            refused(format!(
                "machine {}: there is no interface {} at a wire; {known}",
                end_name.machine, end_name.interface
            ))
        })
    }
}

fn no_machine(name: &str) -> WorkerError {
    refused(format!(
        "machine {name}: there is no such machine; `vink lab ps` lists them"
    ))
}

/// The path below /proc/sys of a name as in sysctl(8): with dots, in which a slash stands for a
/// dot, or with slashes.
pub fn sysctl_path(name: &str) -> Option<String> {
    let first = name.find(['.', '/'])?;
    let path: String = match &name[first..=first] {
        "/" => name.to_owned(),
        _ => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
    };
    let is_good = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.split('/').all(is_good).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::sysctl_path;

    #[test]
    fn names_of_sysctls() {
        let path = |name| sysctl_path(name).unwrap_or_default();
        assert_eq!(path("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path("net/ipv4/ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path("net.ipv4.conf.eth0/1.x"), "net/ipv4/conf/eth0.1/x");
        assert_eq!(path("net/ipv4/conf/eth0.1/x"), "net/ipv4/conf/eth0.1/x");
        for bad in [
            "",
            "net",
            "net//x",
            "../x",
            "net/../../x",
            ".",
            "net.",
            "..net",
        ] {
            assert_eq!(sysctl_path(bad), None, "{bad}");
        }
    }
}
