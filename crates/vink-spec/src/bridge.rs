//! What the kernel of a switch is told: its bridge.

use std::collections::BTreeSet;
use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{both, colon, Object, Phase, Plan};
use crate::interface::stays;
use crate::{AtSwitch, Lab, SourceAddress, SwitchSpec};

/// What the kernel of a switch is told: its bridge and the bridge's ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bridge {
    /// It keeps VLANs apart.
    pub vlan: bool,
    /// It sends what is for a group to members only.
    pub multicast_snooping: bool,
    /// Its ports, by the names of their interfaces.
    pub ports: IndexMap<String, Port>,
}

/// A port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Port {
    /// The only source of its frames.
    pub mac: Option<[u8; 6]>,
    /// The only sources of its packets; none: any.
    pub addresses: BTreeSet<SourceAddress>,
    /// The VLAN of frames without a tag, where VLANs are kept apart.
    pub vlan: Option<u16>,
    /// VLANs whose frames have tags.
    pub tagged: BTreeSet<u16>,
    /// The group that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

impl Bridge {
    /// Its groups by name, with their ports in order. What is for a group as a whole goes to the first one.
    pub fn groups(&self) -> IndexMap<&str, Vec<(&str, &Port)>> {
        let mut groups: IndexMap<&str, Vec<(&str, &Port)>> = IndexMap::new();
        for (name, port) in &self.ports {
            if let Some(group) = &port.group {
                groups.entry(group).or_default().push((name, port));
            }
        }
        groups
    }
}

/// A switch's bridge comes or changes, now that its ports are there.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchChange {
    /// Its name.
    pub switch: String,
    /// All that the lab says of it.
    pub spec: SwitchSpec,
    /// The interfaces at it, by machine and name.
    pub at: Vec<(String, String, AtSwitch)>,
    /// What its kernel was told; none: nothing yet.
    pub old: Option<Bridge>,
    /// What it is told.
    pub new: Bridge,
}

impl Object for SwitchChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        for (name, is) in &plan.new.switches {
            let bridge = |lab: &Lab| -> Option<Bridge> {
                lab.machines.get(name)?.bridge.as_deref().cloned()
            };
            let mut was = bridge(plan.old).filter(|_| !plan.machines_gone.contains(name.as_str()));
            // A port whose interface is made again is not in the bridge.
            let [before, after] = [plan.old, plan.new].map(|lab| lab.machines.get(name));
            let comes = |port: &str| match (before, after) {
                (Some(before), Some(after)) => {
                    after.interfaces.contains_key(port) && !stays(plan, port, before, after)
                }
                _ => false,
            };
            if let Some(was) = &mut was {
                was.ports.retain(|port, _| !comes(port));
            }
            let Some(bridge) = bridge(plan.new) else {
                continue;
            };
            let at = plan.new.at_switch(name);
            let said = (plan.old.switches.get(name), plan.old.at_switch(name));
            if was.as_ref() != Some(&bridge) || said != (Some(is), at.clone()) {
                steps.push(SwitchChange {
                    switch: name.clone(),
                    spec: is.clone(),
                    at,
                    old: was,
                    new: bridge,
                });
            }
        }
        for step in steps {
            plan.step(Phase::Switches, step);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        for (machine, name, at) in &self.at {
            lab.machine(machine, |m| {
                if let Some(interface) = m.interfaces.get_mut(name) {
                    interface.switch = Some(at.clone());
                }
            });
        }
        lab.switches.insert(self.switch.clone(), self.spec.clone());
        let bridge = Box::new(self.new.clone());
        lab.machine(&self.switch, |m| m.bridge = Some(bridge));
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.old {
            None => write!(f, "+ switch {}", self.switch),
            Some(old) => {
                write!(f, "~ switch {}", self.switch)?;
                colon(f, ports(old, &self.new))
            }
        }
    }
}

/// What is different about a bridge, in words.
fn ports(old: &Bridge, new: &Bridge) -> Vec<String> {
    let mut told = Vec::new();
    if old.vlan != new.vlan {
        told.push(format!("vlan {} -> {}", old.vlan, new.vlan));
    }
    if old.multicast_snooping != new.multicast_snooping {
        let (old, new) = (old.multicast_snooping, new.multicast_snooping);
        told.push(format!("multicast-snooping {old} -> {new}"));
    }
    told.extend(
        both(&old.ports, &new.ports).map(|(name, old, new)| match (old, new) {
            (_, None) => format!("- port {name}"),
            (None, _) => format!("+ port {name}"),
            _ => format!("~ port {name}"),
        }),
    );
    told
}
