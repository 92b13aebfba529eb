//! The parts of a lab whose changes are recorded: its machines and wires, as a journal has them.
//!
//! A journal has each part that has changed as it is from then on, not what was done to it: so the
//! last state of each part is all that is needed at any time.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use vink_api::NodeKind;
use vink_record::Part;
use vink_spec::{
    Change, Interface, InterfaceChange, Lab as Spec, MachineChange, MachineSpec, SwitchChange,
    UplinkChange, WireChange, WireSpec,
};

/// A part of a lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartName {
    Machine(String),
    Wire(String),
}

/// What is recorded of a machine: what the lab's picture has of it.
#[derive(Serialize, Deserialize)]
struct Machine {
    kind: NodeKind,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    interfaces: IndexMap<String, Interface>,
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartName::Machine(name) => write!(f, "machine {name}"),
            PartName::Wire(name) => write!(f, "wire {name}"),
        }
    }
}

/// What a machine is drawn as.
pub(crate) fn kind_of(machine: &MachineSpec) -> NodeKind {
    match machine {
        machine if machine.bridge.is_some() => NodeKind::Switch,
        machine if machine.forward => NodeKind::Router,
        _ => NodeKind::Machine,
    }
}

impl PartName {
    /// The part that a step changes, if it is one that is recorded.
    pub(crate) fn of(step: &Change) -> Option<PartName> {
        match step {
            Change::Machine(MachineChange::Add { machine, .. })
            | Change::Machine(MachineChange::Remove { machine, .. })
            | Change::Machine(MachineChange::Forward { machine, .. })
            | Change::Interface(InterfaceChange::Add { machine, .. })
            | Change::Interface(InterfaceChange::Remove { machine, .. })
            | Change::Interface(InterfaceChange::Addresses { machine, .. })
            | Change::Switch(SwitchChange {
                switch: machine, ..
            }) => Some(PartName::Machine(machine.clone())),
            Change::Wire(WireChange::Add { wire, .. })
            | Change::Wire(WireChange::Remove { wire, .. })
            | Change::Wire(WireChange::Set { wire, .. })
            | Change::Wire(WireChange::Plug { wire, .. })
            | Change::Uplink(UplinkChange::Add { wire, .. })
            | Change::Uplink(UplinkChange::Remove { wire }) => Some(PartName::Wire(wire.clone())),
            _ => None,
        }
    }

    /// How it is in a lab.
    pub(crate) fn now(&self, spec: &Spec) -> Part {
        let state = match self {
            PartName::Machine(name) => spec.machines.get(name).map(|machine| {
                let plain = |(name, interface): (&String, &Interface)| {
                    let interface = Interface {
                        filter: None,
                        ..interface.clone()
                    };
                    (name.clone(), interface)
                };
                serde_json::to_string(&Machine {
                    kind: kind_of(machine),
                    interfaces: machine.interfaces.iter().map(plain).collect(),
                })
            }),
            PartName::Wire(name) => spec.wires.get(name).map(serde_json::to_string),
        };
        Part {
            name: self.to_string(),
            state: state.map_or_else(String::new, |text| text.expect("texts and numbers")),
        }
    }
}

/// Of a complete lab what is recorded when it changes.
pub(crate) fn plain(spec: &Spec) -> Spec {
    let machine = |(name, machine): (&String, &MachineSpec)| {
        let plain = MachineSpec {
            interfaces: machine.interfaces.clone(),
            forward: machine.forward,
            bridge: machine.bridge.as_ref().map(|_| Box::default()),
            ..MachineSpec::default()
        };
        (name.clone(), plain)
    };
    Spec {
        machines: spec.machines.iter().map(machine).collect(),
        wires: spec.wires.clone(),
        ..Spec::default()
    }
}

/// Makes a part of a lab what it was recorded as. Parts of a later version are left alone.
///
/// # Errors
/// Its state can't be read.
pub(crate) fn become_recorded(
    spec: &mut Spec,
    name: &str,
    state: &str,
) -> Result<(), serde_json::Error> {
    match (name.split_once(' '), state) {
        (Some(("machine", name)), "") => {
            spec.machines.shift_remove(name);
        }
        (Some(("machine", name)), state) => {
            let Machine { kind, interfaces } = serde_json::from_str(state)?;
            let machine = MachineSpec {
                interfaces,
                forward: kind == NodeKind::Router,
                bridge: (kind == NodeKind::Switch).then(Box::default),
                ..MachineSpec::default()
            };
            spec.machines.insert(name.to_owned(), machine);
        }
        (Some(("wire", name)), "") => {
            spec.wires.shift_remove(name);
        }
        (Some(("wire", name)), state) => {
            let wire: WireSpec = serde_json::from_str(state)?;
            spec.wires.insert(name.to_owned(), wire);
        }
        _ => {}
    }
    Ok(())
}
