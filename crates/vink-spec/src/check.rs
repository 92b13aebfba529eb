//! What a lab must mean: names that can be used, ends that fit together, routes that the kernel
//! takes.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

use crate::diagnostic::{nearest, Diagnostic, SourceSpan};
use crate::{port_name, Lab};

/// Something wrong at a path of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabDiagnostic {
    pub(crate) path: Vec<String>,
    /// The path's last key is what is wrong, not its value.
    pub(crate) key: bool,
    /// May only follow from another mistake.
    pub(crate) may_follow: bool,
    pub(crate) message: String,
    pub(crate) fix: String,
    pub(crate) warning: bool,
}

impl LabDiagnostic {
    /// The value at this path of keys and list indices is wrong; if something else of the lab could
    /// not be read, it may be right. The fix is a line for people.
    pub fn new(path: &[&str], message: impl Into<String>, fix: impl Into<String>) -> LabDiagnostic {
        LabDiagnostic {
            path: path.iter().map(|&step| step.to_owned()).collect(),
            key: false,
            may_follow: true,
            message: message.into(),
            fix: fix.into(),
            warning: false,
        }
    }

    pub(crate) fn mistake(self, span: SourceSpan) -> Diagnostic {
        Diagnostic {
            file: None,
            span,
            excerpt: String::new(),
            path: self.path.join("."),
            message: self.message,
            fix: self.fix,
            warning: self.warning,
        }
    }
}

pub(crate) struct Check<'a> {
    /// With all that its switches are.
    pub(crate) lab: &'a Lab,
    /// As it was written.
    pub(crate) said: &'a Lab,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) path: Vec<String>,
    pub(crate) found: Vec<LabDiagnostic>,
    /// The addresses at each wire.
    pub(crate) at_wires: HashMap<&'a str, HashSet<IpAddr>>,
}

/// All that is wrong or suspicious. Without a folder, what paths lead to is not looked at.
pub(crate) fn check(said: &Lab, folder: Option<&Path>) -> Vec<LabDiagnostic> {
    let whole = said.expanded();
    let lab = &whole;
    let mut check = Check {
        lab,
        said,
        folder,
        path: Vec::new(),
        found: Vec::new(),
        at_wires: HashMap::new(),
    };
    for interface in lab.machines.values().flat_map(|m| m.interfaces.values()) {
        if let Some(wire) = &interface.wire {
            let there = check.at_wires.entry(wire).or_default();
            there.extend(interface.addresses.iter().map(IpNet::addr));
        }
    }
    for switch in lab.switches.keys() {
        check.join_wires_of(switch);
    }
    check.lab();
    for finding in &mut check.found {
        said_at(said, &mut finding.path);
    }
    check.found
}

/// What was made of a switch is where the switch is, or the interface that makes the port.
fn said_at(said: &Lab, path: &mut Vec<String>) {
    let Some([machines, switch]) = path.first_chunk_mut() else {
        return;
    };
    if machines != "machines" || said.machines.contains_key(switch) {
        return;
    }
    *machines = "switches".to_owned();
    let (switch, key) = (switch.clone(), path.get_mut(2));
    let Some(key) = key.filter(|key| *key == "interfaces") else {
        return;
    };
    *key = "ports".to_owned();
    let Some(port) = path.get(3) else { return };
    let made_by = said.at_switch(&switch).into_iter();
    let mut made_by = made_by.filter(|(machine, name, _)| port_name(machine, name) == *port);
    let is_own = said
        .switches
        .get(&switch)
        .is_some_and(|its| its.ports.contains_key(port));
    if let Some((machine, interface, _)) = made_by.next().filter(|_| !is_own) {
        let place = ["machines", &machine, "interfaces", &interface, "switch"];
        path.splice(..4, place.map(str::to_owned));
    }
}

impl<'a> Check<'a> {
    pub(crate) fn add(
        &mut self,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> &mut LabDiagnostic {
        self.found.push(LabDiagnostic {
            path: self.path.clone(),
            key: false,
            may_follow: false,
            message: message.into(),
            fix: fix.into(),
            warning: false,
        });
        self.found.last_mut().expect("it was just added")
    }

    pub(crate) fn at<T>(
        &mut self,
        step: impl ToString,
        check: impl FnOnce(&mut Check<'a>) -> T,
    ) -> T {
        self.path.push(step.to_string());
        let value = check(self);
        self.path.pop();
        value
    }

    pub(crate) fn each<V>(
        &mut self,
        key: &str,
        map: impl IntoIterator<Item = (&'a String, &'a V)>,
        mut check: impl FnMut(&mut Check<'a>, &'a str, &'a V),
    ) where
        V: 'a,
    {
        self.path.push(key.to_owned());
        for (name, value) in map {
            self.at(name, |c| check(c, name, value));
        }
        self.path.pop();
    }

    pub(crate) fn no_program(&mut self, name: &str) {
        let message = format!("the lab has no program {name}");
        self.add(message, "write MACHINE.PROGRAM, by their names");
    }

    /// A machine, and an interface of it.
    pub(crate) fn is_there(&mut self, machine: &str, interface: Option<&str>) {
        let machines = &self.lab.machines;
        let near = |name, names: &mut dyn Iterator<Item = &'a String>| {
            let near = nearest(name, names.map(String::as_str));
            near.map_or_else(String::new, |near| format!("did you mean {near}?"))
        };
        let Some(spec) = machines.get(machine) else {
            let fix = near(machine, &mut machines.keys());
            self.add(format!("the lab has no machine {machine}"), fix);
            return;
        };
        let Some(interface) = interface else { return };
        if !spec.interfaces.contains_key(interface) {
            let fix = near(interface, &mut spec.interfaces.keys());
            self.add(format!("{machine} has no interface {interface}"), fix);
        }
    }

    /// A name of something that has no rules of its own.
    pub(crate) fn name(&mut self, what: &str, name: &str, empty_is_fine: bool) {
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = name.len() <= 63 && name.chars().all(usable);
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !(fits && (starts || name.is_empty() && empty_is_fine)) {
            let message = format!("{name:?} can't be the name of {what}");
            let fix = "use at most 63 letters, digits, `-`, `_` and `.`, and begin with a letter or digit";
            self.add(message, fix).key = true;
        }
    }
}
