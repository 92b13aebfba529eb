//! Values below /proc/sys that a machine is given: sysctl(8).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{both, put, Object, Phase, Plan};
use crate::check::Check;
use crate::interface::stays;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{nearest, Lab, MachineSpec};

/// A value as it is written in YAML: 1 is as good as "1".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// An integer.
    Number(i64),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Number(number) => number.fmt(f),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

/// The interface that a sysctl is of, which must be there first: `net.ipv4.conf.eth0.rp_filter`.
pub(crate) fn interface_of(sysctl: &str) -> Option<&str> {
    let separator = if sysctl.contains('.') { '.' } else { '/' };
    let mut steps = sysctl.split(separator).skip(2);
    let kind = steps.next()?;
    let interface = steps.next()?;
    let is_one = matches!(kind, "conf" | "neigh") && !matches!(interface, "all" | "default" | "lo");
    is_one.then_some(interface)
}

/// A value below /proc/sys.
#[derive(Clone, Debug, PartialEq)]
pub struct SysctlChange {
    /// The machine.
    pub machine: String,
    /// Its name in sysctl(8).
    pub name: String,
    /// As the lab had it; none: it said nothing.
    pub old: Option<Scalar>,
    /// None: the lab says nothing any more. It stays until the machine is made again.
    pub new: Option<Scalar>,
}

impl Object for SysctlChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        let mut step = |machine: &str, name: &str, old: Option<&Scalar>, new: Option<&Scalar>| {
            let phase = match interface_of(name) {
                None => Phase::Sysctls,
                Some(_) => Phase::InterfaceSysctls,
            };
            let step = SysctlChange {
                machine: machine.to_owned(),
                name: name.to_owned(),
                old: old.cloned(),
                new: new.cloned(),
            };
            steps.push((phase, step));
        };
        for (machine, was, is) in plan.machines_that_stay() {
            for (name, old, new) in both(&was.sysctls, &is.sysctls) {
                step(machine, name, old, new);
            }
            // An interface that is made again has the kernel's own values.
            for (name, value) in &is.sysctls {
                let again = interface_of(name).is_some_and(|interface| {
                    is.interfaces.contains_key(interface) && !stays(plan, interface, was, is)
                });
                if again && was.sysctls.get(name) == Some(value) {
                    step(machine, name, None, Some(value));
                }
            }
        }
        for (machine, is) in plan.machines_that_come() {
            for (name, value) in &is.sysctls {
                if interface_of(name).is_some() {
                    step(machine, name, None, Some(value));
                }
            }
        }
        for (phase, step) in steps {
            plan.step(phase, step);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        lab.machine(&self.machine, |m| {
            put(&mut m.sysctls, &self.name, &self.new)
        });
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~ machine {}: {} ", self.machine, self.name)?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{old} -> {new}"),
            (None, Some(new)) => write!(f, "-> {new}"),
            (_, None) => f.write_str("stays as it is"),
        }
    }
}

impl Reader {
    pub(crate) fn scalar(&mut self, node: &Node) -> Option<Scalar> {
        let text = self.text(node)?;
        let plain = matches!(&node.kind, Kind::Scalar { plain: true, .. });
        // Only what is printed as it was written: 010 may be meant as something else.
        let number = text
            .parse()
            .ok()
            .filter(|n: &i64| plain && n.to_string() == text);
        Some(number.map_or(Scalar::Text(text), Scalar::Number))
    }
}

impl<'a> Check<'a> {
    pub(crate) fn sysctl(&mut self, name: &'a str, value: &'a Scalar) {
        let steps: Vec<&str> = match name.contains('/') {
            true => name.split('/').collect(),
            false => name.split('.').collect(),
        };
        if steps.iter().any(|step| step.is_empty() || *step == "..") || steps.len() < 2 {
            let fix = "write it as sysctl(8) does: net.ipv4.tcp_congestion_control";
            self.add(format!("{name:?} is not the name of a sysctl"), fix)
                .key = true;
        } else if steps[0] != "net" && !name.starts_with("net.") {
            let fix = "only net.* is a machine's own; remove it";
            self.add(
                format!("{name} is not a machine's, but its kernel's or the host's"),
                fix,
            )
            .key = true;
        }
        if matches!(value, Scalar::Text(text) if matches!(text.as_str(), "true" | "false")) {
            let number = i32::from(value.to_string() == "true");
            self.add(
                format!("the kernel takes numbers here, not {value}"),
                format!("write {number}"),
            );
        }
    }

    /// Some are there only with their interface.
    pub(crate) fn sysctl_of(&mut self, spec: &MachineSpec, name: &str) {
        let Some(interface) = interface_of(name) else {
            return;
        };
        // sysctl(8) writes a name's dots as `/`.
        if !spec.interfaces.contains_key(&interface.replace('/', ".")) {
            let fix = match nearest(interface, spec.interfaces.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "set it in `setup`, if a command there makes the interface".to_owned(),
            };
            let finding = self.add(format!("the machine has no interface `{interface}`"), fix);
            (finding.key, finding.may_follow) = (true, true);
        }
    }
}
