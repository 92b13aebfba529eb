//! The steps from one lab to another lead there, in an order in which they can be taken.

use std::collections::HashSet;

use crate::random::Random;
use serde_json::{json, Value};
use vink_spec::{
    diff, Change, EventsChange, FileChange, FilterChange, InterfaceChange, Lab, MachineChange,
    NamedChange, ProgramChange, RoutesChange, SwitchChange, SysctlChange, UplinkChange, WireChange,
};

/// What carrying out a step needs, and what must be gone before: by the model as it is then.
fn may_be_taken(change: &Change, lab: &Lab, eth0_comes: &HashSet<String>) {
    let machine = |name: &str| {
        let found = lab.machines.get(name);
        found.unwrap_or_else(|| panic!("{change}: no machine {name}"))
    };
    let wire = |name: &str| {
        let found = lab.wires.get(name);
        found.unwrap_or_else(|| panic!("{change}: no wire {name}"))
    };
    let attached = |wire: &str| lab.ends().get(wire).is_some_and(|ends| !ends.is_empty());
    match change {
        Change::Program(ProgramChange::Remove {
            machine: m,
            program,
        }) => {
            assert!(machine(m).programs.contains_key(program));
        }
        Change::Uplink(UplinkChange::Remove { wire: w }) => assert!(wire(w).uplink.is_some()),
        Change::Interface(InterfaceChange::Remove {
            machine: m,
            interface,
        }) => {
            assert!(machine(m).interfaces.contains_key(interface));
        }
        Change::Machine(MachineChange::Remove { machine: m, .. }) => {
            machine(m);
        }
        Change::Wire(WireChange::Remove { wire: w, .. }) => {
            assert!(wire(w).uplink.is_none() && !attached(w), "{change}");
        }
        Change::Wire(WireChange::Add { wire, spec }) => {
            assert!(!lab.wires.contains_key(wire) && !attached(wire), "{change}");
            assert!(spec.uplink.is_none() && spec.bus.is_some());
        }
        Change::Wire(WireChange::Set { wire: w, .. })
        | Change::Wire(WireChange::Plug { wire: w, .. }) => {
            wire(w);
        }
        Change::Uplink(UplinkChange::Add { wire: w, .. }) => assert!(wire(w).uplink.is_none()),
        Change::Machine(MachineChange::Add { machine, spec }) => {
            assert!(!lab.machines.contains_key(machine), "{change}");
            assert!(spec.programs.is_empty() && spec.setup.is_empty());
            assert!(!spec.interfaces.contains_key("lo") && spec.filter.is_none());
            spec.interfaces
                .values()
                .filter_map(|i| i.wire.as_deref())
                .for_each(|w| {
                    wire(w);
                });
        }
        Change::Interface(InterfaceChange::Add {
            machine: m,
            interface,
            spec,
        }) => {
            assert!(!machine(m).interfaces.contains_key(interface), "{change}");
            spec.wire.as_deref().map(wire);
        }
        Change::Interface(InterfaceChange::Addresses {
            machine: m,
            interface,
            old,
            ..
        }) => {
            let now = machine(m)
                .interfaces
                .get(interface)
                .map_or(vec![], |i| i.addresses.clone());
            assert_eq!(now, *old);
            assert!(interface == "lo" || machine(m).interfaces.contains_key(interface));
        }
        Change::Program(ProgramChange::Add {
            machine: m,
            program,
            spec,
        }) => {
            assert!(!machine(m).programs.contains_key(program), "{change}");
            assert!(spec
                .after
                .iter()
                .all(|after| vink_spec::named_by(lab, m, after).is_some()));
        }
        Change::Program(ProgramChange::Restart {
            machine: m,
            program,
            ..
        }) => {
            assert!(machine(m).programs.contains_key(program), "{change}");
        }
        Change::Sysctl(SysctlChange {
            machine: m, name, ..
        }) => {
            // The kernel has names of interfaces only that are there; not all of these labs heed
            // that.
            let of_eth0 = name == "net.ipv4.conf.eth0.rp_filter";
            assert!(!of_eth0 || !eth0_comes.contains(m), "{change}");
        }
        Change::Filter(FilterChange {
            place,
            new,
            replaces,
        }) => {
            let now = match place.split_once(':') {
                None => machine(place).filter.clone(),
                Some((m, interface)) => match machine(m).interfaces.get(interface) {
                    Some(interface) => interface.filter.clone(),
                    // It goes after its interface.
                    None => {
                        assert!(*replaces && new.is_none(), "{change}: no interface {place}");
                        return;
                    }
                },
            };
            assert_eq!(now.is_some(), *replaces, "{change}");
            assert!(now.is_some() || new.is_some(), "{change}");
        }
        Change::Machine(MachineChange::Forward { machine: m, .. })
        | Change::File(FileChange { machine: m, .. })
        | Change::Routes(RoutesChange { machine: m, .. })
        | Change::Machine(MachineChange::Setup { machine: m, .. }) => {
            machine(m);
        }
        Change::Switch(SwitchChange {
            switch, old, new, ..
        }) => {
            let its = machine(switch);
            // Ports whose interfaces have gone have left by themselves.
            let left = |mut bridge: vink_spec::Bridge| {
                bridge
                    .ports
                    .retain(|port, _| its.interfaces.contains_key(port));
                bridge
            };
            assert!(its.bridge.is_some() || old.is_none(), "{change}");
            let is = its.bridge.as_deref().cloned().map(left).unwrap_or_default();
            let was = old.clone().map(left).unwrap_or_default();
            assert!(
                was.ports
                    .iter()
                    .all(|port| is.ports.iter().any(|it| it == port)),
                "{change}"
            );
            assert!(
                new.ports
                    .keys()
                    .all(|port| its.interfaces.contains_key(port)),
                "{change}"
            );
        }
        Change::Breakpoint(NamedChange::Remove { name: breakpoint }) => {
            assert!(lab.breakpoints.contains_key(breakpoint), "{change}");
        }
        Change::Breakpoint(NamedChange::Add {
            name: breakpoint, ..
        }) => {
            assert!(!lab.breakpoints.contains_key(breakpoint), "{change}");
        }
        Change::Pod(NamedChange::Remove { name: pod }) => {
            assert!(lab.pods.contains_key(pod), "{change}");
            let mut paths = lab.paths.values();
            assert!(!paths.any(|path| path.pods.contains(pod)), "{change}");
        }
        // In the place of one of its name.
        Change::Pod(NamedChange::Add { .. }) => {}
        Change::Path(NamedChange::Remove { name: path }) => {
            assert!(lab.paths.contains_key(path), "{change}");
        }
        Change::Path(NamedChange::Add { spec, .. }) => {
            let mut pods = spec.pods.iter();
            assert!(pods.all(|pod| lab.pods.contains_key(pod)), "{change}");
        }
        Change::Series(NamedChange::Remove { name: series }) => {
            assert!(lab.series.contains_key(series), "{change}");
        }
        Change::Series(NamedChange::Add { name: series, .. }) => {
            assert!(!lab.series.contains_key(series), "{change}");
        }
        Change::Options(_) | Change::Events(EventsChange { .. }) => {}
    }
}

/// Without what programs wait for that is not in the lab: machines of another one have come over some.
fn with_programs_to_wait_for(mut lab: Lab) -> Lab {
    let whole = lab.clone();
    for (machine, spec) in &mut lab.machines {
        for program in spec.programs.values_mut() {
            let is_there = |after: &String| vink_spec::named_by(&whole, machine, after).is_some();
            program.after.retain(is_there);
        }
    }
    lab
}

#[test]
fn they_lead_there() {
    let mut random = Random(1);
    let mut taken = 0;
    for round in 0..600 {
        let a = random.lab();
        // Often one that differs a little only.
        let b = match round % 3 {
            0 => random.lab(),
            1 => {
                let other = random.lab();
                let mut b = a.clone();
                b.machines.extend(other.machines);
                b.wires.extend(other.wires);
                b
            }
            _ => {
                let mut b = a.clone();
                let other = random.lab();
                for (machine, spec) in &mut b.machines {
                    if let Some(other) = other.machines.get(machine) {
                        spec.programs.extend(other.programs.clone());
                        spec.interfaces.extend(other.interfaces.clone());
                    }
                }
                b
            }
        };
        let b = with_programs_to_wait_for(b);
        let b = match vink_spec::cycle(&b) {
            Some(_) => continue,
            None => b,
        };
        assert_eq!(diff(&a, &a), []);
        let mut lab = a.normal();
        let steps = diff(&a, &b);
        // Machines whose eth0 is still to come.
        let comes = |change: &Change| match change {
            Change::Interface(InterfaceChange::Add {
                machine, interface, ..
            }) if interface == "eth0" => Some(machine.clone()),
            Change::Machine(MachineChange::Add { machine, spec })
                if spec.interfaces.contains_key("eth0") =>
            {
                Some(machine.clone())
            }
            _ => None,
        };
        let mut eth0_comes: HashSet<String> = steps.iter().filter_map(comes).collect();
        for change in steps {
            may_be_taken(&change, &lab, &eth0_comes);
            if let Some(machine) = comes(&change) {
                eth0_comes.remove(&machine);
            }
            change.apply(&mut lab);
            taken += 1;
        }
        assert_eq!(by_effect(lab), by_effect(b.normal()));
    }
    assert!(taken > 5_000, "{taken} steps");
}

/// With wires by what they do, as an explicit zero is no difference.
fn by_effect(mut lab: Lab) -> Lab {
    for wire in lab.wires.values_mut() {
        (wire.settings, wire.from) = wire.effect();
        wire.from.sort_keys();
    }
    lab
}

#[test]
fn what_makes_no_difference_is_none() {
    let lab = |wires: Value| -> Lab {
        let ends = json!({"m1": {"interfaces": {"eth0": {"wire": "w1"}}}, "m2": {"interfaces": {"eth0": {"wire": "w1"}}}});
        let lab = json!({"machines": ends, "wires": {"w1": wires}});
        serde_json::from_value(lab).unwrap()
    };
    let ideal = lab(json!({}));
    for same in [
        json!({"loss": "0%", "delay": 0, "rate": "0", "overtake": false}),
        json!({"from": {"m1:eth0": {"loss": "0%"}}}),
        json!({"burst": {"start": "0%", "end": "1%"}}),
    ] {
        assert_eq!(diff(&lab(same.clone()), &ideal), [], "{same}");
        assert_eq!(diff(&ideal, &lab(same.clone())), [], "{same}");
    }
    // Here it is one.
    let (lossy, not_there) = (
        lab(json!({"loss": "1%"})),
        lab(json!({"loss": "1%", "from": {"m1:eth0": {"loss": 0}}})),
    );
    let told: Vec<String> = diff(&lossy, &not_there)
        .iter()
        .map(Change::to_string)
        .collect();
    assert_eq!(told, ["~ wire w1; from m1:eth0: loss 1% -> 0%"]);
}

#[test]
fn those_of_machines_that_go_are_not_like_those_of_machines_that_come() {
    let with = |core: u32| lab(json!({"machines": {"m1": {"core": core}, "m2": {"core": core}}}));
    let steps = diff(&with(0), &with(1));
    let alike = |one: usize, other: usize| steps[one].is_like(&steps[other]);
    assert_eq!(steps.len(), 4);
    assert!(alike(0, 1) && alike(2, 3) && !alike(1, 2));
    let filter = diff(
        &Lab::default(),
        &lab(json!({"machines": {"m1": {"filter": ""}}})),
    );
    assert!(!filter[1].is_like(&filter[0]) && filter[1].is_like(&filter[1]));
}

fn lab(json: serde_json::Value) -> Lab {
    serde_json::from_value(json).unwrap()
}

#[test]
fn each_prints_a_line() {
    let old = lab(json!({
        "machines": {
            "m1": {
                "interfaces": {
                    "eth0": { "wire": "w1", "addresses": ["10.0.0.1/24"] },
                    "eth1": { "wire": "w2" },
                },
                "sysctls": { "net.ipv4.tcp_sack": 1 },
                "files": { "/etc/motd": "hello", "/etc/issue": "x" },
                "routes": [{ "to": "default", "via": "10.0.0.254" }],
                "programs": { "web": { "command": "a" }, "old": { "command": "x" } },
            },
            "m2": { "interfaces": { "eth0": { "wire": "w1" } }, "root": "a" },
            "m4": { "interfaces": { "eth0": { "wire": "w2" } } },
        },
        "wires": {
            "w1": {
                "rate": "10mbit", "bus": true,
                "from": { "m1:eth0": { "delay": "1ms" }, "m3:eth0": { "delay": "1ms" } },
            },
            "w4": { "bus": false },
            "w2": { "uplink": { "tap": "tap0" }, "bus": true },
        },
    }));
    let new = lab(json!({
        "machines": {
            "m1": {
                "interfaces": {
                    "eth0": { "wire": "w1", "addresses": ["10.0.0.2/24"] },
                    "eth2": { "wire": "w3", "addresses": ["10.3.0.1/24", "fd00::1/64"] },
                },
                "forward": true,
                "sysctls": { "net.ipv4.tcp_sack": 0, "net.ipv4.ip_default_ttl": 9 },
                "files": { "/etc/motd": "bye", "/etc/hosts.allow": "" },
                "routes": [{ "to": "default", "via": "10.0.0.254" }],
                "programs": {
                    "web": { "command": "b", "after": ["m3.db"] },
                },
            },
            "m2": { "interfaces": { "eth0": { "wire": "w1" } }, "root": "b", "setup": ["true"] },
            "m3": { "interfaces": { "eth0": { "wire": "w3" } }, "programs": { "db": { "command": "d" } } },
        },
        "wires": {
            "w1": {
                "rate": "10mbit", "loss": "1%", "bus": true,
                "from": { "m1:eth0": { "delay": "2ms" }, "m2:eth0": { "rate": "1mbit" } },
                "up": false,
                "uplink": { "passt": {} },
            },
            "w4": { "uplink": { "passt": {} }, "bus": true },
            "w3": { "burst": { "start": "1%", "end": "10%" } },
        },
        "events": [{ "at": "10s", "do": "wire down w3" }],
    }));
    let mut lines: String = diff(&old, &new)
        .iter()
        .map(|change| format!("{change}\n"))
        .collect();
    lines += "and back\n";
    lines.extend(diff(&new, &old).iter().map(|change| format!("{change}\n")));
    crate::golden::golden("diff", &lines);
}
