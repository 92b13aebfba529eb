//! Machines of a lab worker: made, furnished, configured, removed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use vink_kernel::{EndId, WireId};
use vink_trap::{Home, ProgramId};

use super::lab::{refused, About, Lab, Place, Trouble};
use super::protocol::NewMachine;
use crate::files::hosts;
use crate::route::StaticRoute;
use crate::Machine;

/// A machine with all that belongs to it.
pub(super) struct Inhabited {
    pub(super) machine: Machine,
    /// What is in place of the host's files.
    files: BTreeMap<String, String>,
    root: Option<String>,
    /// What its home was made of: how often the lab's names had changed. `None`: it is to be made anew.
    furnished: Option<u64>,
    pub(super) interfaces: BTreeMap<String, Interface>,
}

/// An interface that is an end of a wire.
pub(super) struct Interface {
    pub(super) end: EndId,
    pub(super) wire: Plugged,
    /// Those that it was given by requests.
    addresses: Vec<IpNet>,
}

/// What an interface is an end of.
pub(super) enum Plugged {
    /// A wire of the lab's.
    In(String),
    /// One of its own, which is not plugged in.
    Nowhere(WireId),
}

impl Inhabited {
    /// It has got more addresses, and a resolver unless it was told another one.
    pub(super) fn adopt(&mut self, interface: &str, addresses: &[IpNet], resolver: &str) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.addresses.extend(addresses);
        }
        let file = self.files.entry("/etc/resolv.conf".to_owned());
        file.or_insert_with(|| resolver.to_owned());
        self.furnished = None;
    }

    /// It has lost addresses. The resolver stays: it was nowhere else to be found before either.
    pub(super) fn disown(&mut self, interface: &str, addresses: &[IpNet]) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.addresses.retain(|a| !addresses.contains(a));
        }
        self.furnished = None;
    }

    /// Its addresses have changed: its home is not as it was.
    pub(super) fn moved(&mut self) {
        self.furnished = None;
    }
}

impl Interface {
    pub(super) fn new(end: EndId, wire: Plugged, addresses: Vec<IpNet>) -> Interface {
        Interface {
            end,
            wire,
            addresses,
        }
    }
}

impl Lab {
    /// A machine of this name.
    pub(super) fn machine(&self, name: &str) -> Result<&Inhabited, Trouble> {
        self.machines.get(name).ok_or_else(|| no_machine(name))
    }

    pub(super) fn machine_mut(&mut self, name: &str) -> Result<&mut Inhabited, Trouble> {
        self.machines.get_mut(name).ok_or_else(|| no_machine(name))
    }

    pub(super) fn new_machine(&mut self, new: NewMachine) -> Result<(), Trouble> {
        let name = &new.machine;
        if self.machines.contains_key(name) {
            return Err(refused(format!("machine {name}: there is one already")));
        }
        let kernel = self.worker.kernel();
        let machine = Machine::new(kernel, name).about(format!("machine {name}"))?;
        let inhabited = Inhabited {
            machine: machine.clone(),
            files: new.files.into_iter().collect(),
            root: new.root,
            furnished: None,
            interfaces: BTreeMap::new(),
        };
        self.machines.insert(name.clone(), inhabited);
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
    ) -> Result<(), Trouble> {
        if forward {
            let machine = self.machine(name)?.machine.clone();
            machine
                .forward(self.worker.kernel())
                .about(format!("machine {name}"))?;
        }
        for (sysctl, value) in sysctls {
            self.sysctl(name, sysctl, value)?;
        }
        // A root folder that can't be used is found out now, not by the first program.
        match self.machine(name)?.root {
            Some(_) => self.furnish(name),
            None => Ok(()),
        }
    }

    fn give_up(&mut self, machine: &Machine) -> Result<(), Trouble> {
        machine.admin.close(self.worker.kernel())?;
        self.worker.destroy_machine(machine.id)?;
        Ok(())
    }

    /// Ends all that runs on it, then it itself.
    pub(super) fn remove_machine(&mut self, name: &str) -> Result<(), Trouble> {
        let id = self.machine(name)?.machine.id;
        let programs: Vec<ProgramId> = self.programs_on(name);
        for program in &programs {
            self.worker.strike(*program)?;
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
            Some(inhabited) => self.give_up(&inhabited.machine),
            None => Ok(()),
        }
    }

    pub(super) fn set_files(
        &mut self,
        name: &str,
        files: Vec<(String, String)>,
    ) -> Result<(), Trouble> {
        let machine = self.machine_mut(name)?;
        machine.files.extend(files);
        machine.furnished = None;
        Ok(())
    }

    pub(super) fn set_hosts(&mut self, text: String) {
        if *self.hosts != *text {
            self.name_machines(&text);
            self.hosts = text.into();
            self.hosts_changes += 1;
        }
    }

    /// Sees to it that programs started from now on find the machine's files as they shall be.
    pub(super) fn furnish(&mut self, name: &str) -> Result<(), Trouble> {
        let changes = self.hosts_changes;
        let names = self.hosts.clone();
        let machine = self.machine_mut(name)?;
        if machine.furnished == Some(changes) {
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
        let mut home = Home::new().name(name);
        for (path, text) in files {
            if !machine.files.contains_key(path) {
                home = home.file(path, text);
            }
        }
        for (path, text) in &machine.files {
            home = home.put(path, text.as_bytes());
        }
        if let Some(root) = &machine.root {
            home = home.root(root);
        }
        machine.furnished = Some(changes);
        let id = machine.machine.id;
        let furnished = self.worker.furnish(id, &home);
        if furnished.is_err() {
            self.machine_mut(name)?.furnished = None;
        }
        furnished.about(format!("machine {name}"))
    }

    pub(super) fn sysctl(&mut self, name: &str, sysctl: &str, value: &str) -> Result<(), Trouble> {
        let admin = self.machine(name)?.machine.admin;
        let path = sysctl_path(sysctl)
            .ok_or_else(|| refused(format!("machine {name}: {sysctl:?} is no sysctl")))?;
        admin
            .sysctl(self.worker.kernel(), &path, value)
            .about(format!("machine {name}: sysctl {sysctl}"))
    }

    pub(super) fn address(
        &mut self,
        name: &str,
        interface: &str,
        address: IpNet,
        remove: bool,
    ) -> Result<(), Trouble> {
        let admin = self.machine(name)?.machine.admin;
        let kernel = self.worker.kernel();
        let done = match remove {
            true => admin.remove_address(kernel, interface, address),
            false => admin.address(kernel, interface, address.addr(), address.prefix_len()),
        };
        done.about(format!("machine {name}"))?;
        let machine = self.machine_mut(name)?;
        machine.furnished = None;
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
    ) -> Result<(), Trouble> {
        let admin = self.machine(name)?.machine.admin;
        admin
            .change_route(self.worker.kernel(), route, remove)
            .about(format!("machine {name}"))
    }

    /// An interface of a machine's that is an end of a wire.
    pub(super) fn interface(&self, place: &Place) -> Result<&Interface, Trouble> {
        let machine = self.machine(&place.machine)?;
        let found = machine.interfaces.get(&place.interface);
        found.ok_or_else(|| {
            let known: Vec<&str> = machine.interfaces.keys().map(String::as_str).collect();
            let known = match known[..] {
                [] => "it has none at a wire".to_owned(),
                _ => format!("at wires it has {}", known.join(", ")),
            };
            refused(format!(
                "machine {}: there is no interface {} at a wire; {known}",
                place.machine, place.interface
            ))
        })
    }
}

fn no_machine(name: &str) -> Trouble {
    refused(format!(
        "machine {name}: there is no such machine; `vink lab ps` lists them"
    ))
}

/// The path below /proc/sys of a name as in sysctl(8): with dots, in which a slash stands for a dot, or with slashes.
fn sysctl_path(name: &str) -> Option<String> {
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
