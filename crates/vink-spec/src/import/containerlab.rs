//! Topologies of containerlab: <https://containerlab.dev/manual/topo-def-file/>. Its nodes are
//! containers; machines run the host's programs instead, so that images and what depends on them
//! can't be taken over.

use indexmap::IndexMap;

use super::{Imported, Names};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Kind, Node};
use crate::{
    yaml, Command, FileSpec, Interface, Lab, MachineSpec, ProgramSpec, Restart, Scalar, Settings,
    Uplink, WireSpec,
};

pub(super) fn import(text: &str, file: &str) -> Result<Imported, Diagnostics> {
    let (node, wrong) = yaml::parse(text);
    if !wrong.is_empty() {
        let lines: Vec<&str> = text.lines().collect();
        let mistakes = wrong.into_iter().map(|wrong| Diagnostic {
            file: Some(file.to_owned()),
            excerpt: lines
                .get(wrong.span.line.wrapping_sub(1))
                .unwrap_or(&"")
                .to_string(),
            span: wrong.span,
            path: String::new(),
            message: wrong.message,
            fix: wrong.fix,
            warning: false,
        });
        return Err(Diagnostics(mistakes.collect()));
    }
    let topology = node.as_ref().and_then(|node| node.get("topology"));
    let Some((root, topology)) = node.as_ref().zip(topology) else {
        let fix = "this is to be containerlab's: give another --format if it is something else";
        return Err(super::wrong(
            super::text_place(text, 0),
            file,
            "there is no `topology` in it".to_owned(),
            fix,
        ));
    };
    let mut import = Import {
        topology,
        lab: Lab::default(),
        warnings: Vec::new(),
        names: IndexMap::new(),
        bridges: IndexMap::new(),
    };
    import.root(root);
    Ok(Imported {
        lab: import.lab,
        warnings: import.warnings,
    })
}

struct Import<'n> {
    topology: &'n Node,
    lab: Lab,
    warnings: Vec<String>,
    /// Machines by what their nodes were called.
    names: IndexMap<String, String>,
    /// Wires in the place of bridges, and interfaces of machines at them.
    bridges: IndexMap<String, String>,
}

/// One end of a link.
struct End {
    node: String,
    interface: String,
    mac: Option<String>,
}

fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { text, .. } if !node.is_null() => Some(text),
        _ => None,
    }
}

fn entries(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries: &[crate::node::Entry] = match &node.kind {
        Kind::Map(entries) => entries,
        _ => &[],
    };
    entries
        .iter()
        .map(|entry| (entry.key.as_str(), &entry.value))
}

fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        _ => &[],
    }
}

impl<'n> Import<'n> {
    fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    fn root(&mut self, root: &'n Node) {
        for (key, value) in entries(root) {
            match key {
                "name" => {
                    if let Some(name) = text(value) {
                        self.lab.name = Names::default().make(name, "lab");
                    }
                }
                "topology" | "prefix" => {}
                "mgmt" => self.warn("there is no management network: the switch box and `vink exec` command machines"),
                other => self.warn(format!("`{other}` is left out")),
            }
        }
        for (key, _) in entries(self.topology) {
            if !matches!(key, "nodes" | "links" | "defaults" | "kinds" | "groups") {
                self.warn(format!("`topology.{key}` is left out"));
            }
        }
        let mut names = Names::default();
        for (node, spec) in self.topology.get("nodes").into_iter().flat_map(entries) {
            let name = names.make(node, "node");
            if name != node {
                self.warn(format!(
                    "node {node} is machine {name}: a machine's name is a host name"
                ));
            }
            self.node(node, name, spec);
        }
        for (at, link) in self
            .topology
            .get("links")
            .map(items)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            self.link(at + 1, link);
        }
        for machine in self.lab.machines.values_mut() {
            machine.forward = machine.interfaces.len() > 1;
        }
    }

    /// A node's settings: its own, then its group's, its kind's, and the defaults.
    fn levels(&self, spec: &'n Node) -> Vec<&'n Node> {
        let defaults = self.topology.get("defaults");
        let find = |key: &str| {
            [Some(spec), defaults]
                .into_iter()
                .flatten()
                .find_map(|node| text(node.get(key)?))
        };
        let of = |section: &str, name: Option<&str>| self.topology.get(section)?.get(name?);
        let group = of("groups", find("group"));
        let kind = find("kind").or_else(|| text(group?.get("kind")?));
        [Some(spec), group, of("kinds", kind), defaults]
            .into_iter()
            .flatten()
            .collect()
    }

    fn node(&mut self, node: &str, name: String, spec: &'n Node) {
        let levels = self.levels(spec);
        let first = |key: &str| levels.iter().find_map(|level| level.get(key));
        let kind = first("kind").and_then(text).unwrap_or("linux");
        match kind {
            "linux" => {}
            "bridge" | "ovs-bridge" => {
                let bus = WireSpec {
                    bus: Some(true),
                    ..WireSpec::default()
                };
                self.lab.wires.insert(name.clone(), bus);
                self.bridges.insert(node.to_owned(), name);
                return;
            }
            other => self.warn(format!("{node}: kind `{other}` runs a system of its own; machine {name} runs the host's programs")),
        }
        self.names.insert(node.to_owned(), name.clone());
        let mut machine = MachineSpec::default();
        let mut env = IndexMap::new();
        // The defaults first, so that what is closer replaces them.
        let mut seen: Vec<&str> = Vec::new();
        for level in levels.iter().rev() {
            for (key, value) in entries(level) {
                match key {
                    "kind" | "group" | "cmd" => {}
                    "env" => env.extend(entries(value).map(|(name, value)| {
                        (name.to_owned(), text(value).unwrap_or_default().to_owned())
                    })),
                    "exec" => machine
                        .setup
                        .extend(items(value).iter().filter_map(text).map(str::to_owned)),
                    "sysctls" => self.sysctls(node, &mut machine, value),
                    "binds" => self.binds(node, &mut machine, items(value)),
                    _ if seen.contains(&key) => {}
                    _ => {
                        seen.push(key);
                        let shown = text(value)
                            .map(|text| format!(" ({text})"))
                            .unwrap_or_default();
                        let why = match key {
                            "image" => format!("image{shown} is left out: programs are the host's"),
                            "ports" => "ports are left out: give a wire an uplink, `passt: {publish: [...]}`".to_owned(),
                            _ => format!("`{key}`{shown} is left out"),
                        };
                        self.warn(format!("{node}: {why}"));
                    }
                }
            }
        }
        if let Some(command) = first("cmd").and_then(text) {
            let program = ProgramSpec {
                command: Some(Command::Shell(command.to_owned())),
                app: None,
                env,
                dir: None,
                after: Vec::new(),
                ready: None,
                restart: Restart::Never,
            };
            machine.programs.insert("main".to_owned(), program);
        } else if !env.is_empty() {
            self.warn(format!(
                "{node}: `env` is left out, as no `cmd` is there to have it"
            ));
        }
        self.lab.machines.insert(name, machine);
    }

    fn sysctls(&mut self, node: &str, machine: &mut MachineSpec, values: &Node) {
        for (name, value) in entries(values) {
            let Some(value) = text(value) else { continue };
            if name.starts_with("net.") {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number: &i64| number.to_string() == value);
                let value = number.map_or_else(|| Scalar::Text(value.to_owned()), Scalar::Number);
                machine.sysctls.insert(name.to_owned(), value);
            } else {
                self.warn(format!(
                    "{node}: sysctl {name} is left out: only net.* is a machine's own"
                ));
            }
        }
    }

    fn binds(&mut self, node: &str, machine: &mut MachineSpec, binds: &[Node]) {
        for bind in binds.iter().filter_map(text) {
            let mut parts = bind.split(':');
            let (Some(from), Some(to)) = (parts.next(), parts.next()) else {
                self.warn(format!("{node}: bind {bind} is left out: it has no target"));
                continue;
            };
            let inside = crate::folder::looks_inside(from).is_ok();
            // A folder is told by its looks: a file has an ending, or a name that the target
            // repeats.
            let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let is_file =
                !from.ends_with('/') && (name(to).contains('.') || name(from).contains('.'));
            if inside && is_file && to.starts_with('/') {
                let from = from.trim_start_matches("./").to_owned();
                machine.files.insert(to.to_owned(), FileSpec::From { from });
            } else if inside {
                self.warn(format!("{node}: bind {bind} is left out: put the folder below a `root` for the machine"));
            } else {
                self.warn(format!("{node}: bind {bind} is left out: machines see the host's files anyway, at their own paths"));
            }
        }
    }

    fn end(value: &Node) -> Option<End> {
        let own = |node: &str, interface: &str, mac: Option<&str>| End {
            node: node.to_owned(),
            interface: interface.to_owned(),
            mac: mac.map(str::to_owned),
        };
        match text(value) {
            Some(end) => end
                .split_once(':')
                .map(|(node, interface)| own(node, interface, None)),
            None => {
                let get = |key: &str| text(value.get(key)?);
                Some(own(get("node")?, get("interface")?, get("mac")))
            }
        }
    }

    fn link(&mut self, number: usize, link: &'n Node) {
        let kind = link.get("type").and_then(text).unwrap_or("veth");
        let ends = match (link.get("endpoints"), link.get("endpoint")) {
            (Some(ends), _) => items(ends)
                .iter()
                .map(Import::end)
                .collect::<Option<Vec<End>>>(),
            (None, Some(end)) => Import::end(end).map(|end| vec![end]),
            (None, None) => None,
        };
        let Some(ends) = ends else {
            self.warn(format!("link {number} is left out: its ends can't be read"));
            return;
        };
        let mut spec = WireSpec {
            settings: Settings {
                mtu: link
                    .get("mtu")
                    .and_then(text)
                    .and_then(|mtu| mtu.parse().ok()),
                ..Settings::default()
            },
            ..WireSpec::default()
        };
        for (key, _) in entries(link) {
            if !matches!(
                key,
                "type" | "endpoints" | "endpoint" | "mtu" | "host-interface"
            ) {
                self.warn(format!("link {number}: `{key}` is left out"));
            }
        }
        let mut bus = None;
        let mut machines: Vec<End> = Vec::new();
        for end in ends {
            let outside = match end.node.as_str() {
                "host" | "mgmt-net" => true,
                "macvlan" => {
                    spec.uplink = Some(Uplink::Interface(end.interface.clone()));
                    true
                }
                node => match self.bridges.get(node) {
                    Some(wire) => {
                        bus = Some(wire.clone());
                        true
                    }
                    None => false,
                },
            };
            if outside {
                if bus.is_none() && spec.uplink.is_none() {
                    self.warn(format!("link {number}: its end at the host, {}, is left out: give the wire an `uplink`", end.interface));
                }
            } else if self.names.contains_key(&end.node) {
                machines.push(end);
            } else {
                self.warn(format!("link {number}: there is no node {}", end.node));
            }
        }
        match (kind, link.get("host-interface").and_then(text)) {
            ("veth" | "dummy", _) => {}
            ("macvlan", Some(interface)) => spec.uplink = Some(Uplink::Interface(interface.to_owned())),
            (other, _) => self.warn(format!("link {number}: what it is beyond a wire, `{other}`, is left out: give it an `uplink`")),
        }
        let names: Vec<String> = machines
            .iter()
            .map(|end| self.names[&end.node].clone())
            .collect();
        let wire = match (bus, names.as_slice()) {
            (Some(bus), _) => bus,
            (None, []) => return,
            (None, _) if kind == "dummy" => String::new(),
            (None, names) => {
                let base = match names {
                    [one] => format!("{one}-out"),
                    two => two.join("-"),
                };
                let taken = |name: &str| {
                    self.lab.wires.contains_key(name) || self.lab.machines.contains_key(name)
                };
                let mut name = base.clone();
                let mut again = 2;
                while taken(&name) {
                    name = format!("{base}-{again}");
                    again += 1;
                }
                self.lab.wires.insert(name.clone(), spec);
                name
            }
        };
        for (end, machine) in machines.into_iter().zip(names) {
            let interface = Interface {
                filter: None,
                wire: Some(wire.clone()).filter(|wire| !wire.is_empty()),
                mac: end.mac,
                ..Interface::default()
            };
            if let Some(machine) = self.lab.machines.get_mut(&machine) {
                machine.interfaces.insert(end.interface, interface);
            }
        }
    }
}
