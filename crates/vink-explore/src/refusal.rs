//! Which labs can be explored: those that are whole in one process, besides programs of the host.
//!
//! What has a process, a descriptor or a clock beside the worker's would be shared by all runs that
//! fork from one another, or go on in only one of them. Programs of the host are started anew in each run.

use indexmap::IndexSet;
use vink_spec::{Lab, LabDiagnostic, Ready, Restart, Source, Term, Time, Virtual};

use crate::properties;

/// Apps that have something outside of their worker.
const OUTSIDE: [(&str, &str); 1] = [("stream", "its pods are processes")];

/// Why a lab can't be explored: each mistake with its place. None: it can.
pub fn refusals(lab: &Lab) -> Vec<LabDiagnostic> {
    let mut found = Vec::new();
    let mut refuse = |path: &[&str], message: String, fix: &str| {
        found.push(LabDiagnostic::new(path, message, fix));
    };
    let has_trapped = lab.machines.values().any(|machine| {
        let mut programs = machine.programs.values();
        programs.any(|program| program.command.is_some())
    });
    let is_good = match lab.time {
        Time::Virtual(time) if has_trapped => !time.uplinks,
        time => time == Time::Virtual(Virtual::default()),
    };
    if !is_good {
        let message = format!(
            "exploring needs a virtual clock; this lab's is {}",
            lab.time
        );
        refuse(&["time"], message, "write `time: virtual`, and no more");
    }
    for (kind, names, why, fix) in [
        (
            "switches",
            first(lab.switches.keys()),
            "is a worker of its own",
            "join machines by a wire (`bus: true` for more than two)",
        ),
        (
            "breakpoints",
            first(lab.breakpoints.keys()),
            "decides of packets, as exploring does",
            "leave it out",
        ),
        (
            "pods",
            first(lab.pods.keys()),
            "is beside the worker",
            "leave it out",
        ),
        (
            "paths",
            first(lab.paths.keys()),
            "leads through pods",
            "leave it out",
        ),
        (
            "series",
            first(lab.series.keys()),
            "writes a file, which all runs would share",
            "leave it out",
        ),
    ] {
        if let Some(name) = names {
            let message = format!("{kind}: {name} {why}: this lab can't be explored");
            refuse(&[kind, name], message, fix);
        }
    }
    if !lab.events.is_empty() {
        let message = "events: the control process carries them out, which takes no part here";
        refuse(
            &["events"],
            message.to_owned(),
            "have apps do what happens, at their own times",
        );
    }
    for (name, wire) in &lab.wires {
        if wire.uplink.is_some() {
            let message = format!("wire {name} has an uplink, whose packets come from outside");
            refuse(
                &["wires", name, "uplink"],
                message,
                "put a machine at its other end",
            );
        }
    }
    let workers: IndexSet<_> = lab
        .machines
        .values()
        .map(|machine| {
            (
                &machine.image,
                &machine.worker,
                format!("{:?}", machine.core),
            )
        })
        .collect();
    if workers.len() > 1 {
        let name = lab.machines.keys().nth(1).map_or("", String::as_str);
        let message = format!(
            "the machines are on {} workers: only one process can be copied at a time",
            workers.len()
        );
        refuse(
            &["machines", name],
            message,
            "give all machines the same `image`, `worker` and `core`, or none",
        );
    }
    let known: Vec<_> = properties::all();
    for (kind, claims) in [("always", &lab.always), ("eventually", &lab.eventually)] {
        for (name, claim) in claims {
            if known.iter().any(|property| property.name() == name) {
                let message = format!("{name} is the name of a property that is always checked");
                refuse(&[kind, name], message, "give it another name");
            }
            let is_outside = |term: &Term| matches!(term, Term::Quantity(quantity) if matches!(quantity.source, Source::File { .. }));
            if claim.terms().any(is_outside) {
                let message = format!("{kind}: {name}: a file of the host is shared by all runs");
                refuse(
                    &[kind, name],
                    message,
                    "have a program write the number, and compare its `output`",
                );
            }
        }
    }
    let mut programs = 0;
    for (name, machine) in &lab.machines {
        let in_place_of = [
            (
                "setup",
                !machine.setup.is_empty(),
                "setup runs programs of the host",
                "use `sysctls`, `addresses` and `routes`",
            ),
            (
                "filter",
                machine.filter.is_some(),
                "a filter is loaded by nft, a program of the host",
                "leave it out",
            ),
            (
                "root",
                has_trapped && machine.root.is_some(),
                "what programs change below a root, all runs would share",
                "use `files`",
            ),
            (
                "relays",
                !machine.relays.is_empty(),
                "relays are started by the control process",
                "write a program with `app: relay …`",
            ),
        ];
        for (key, is_there, why, fix) in in_place_of {
            if is_there {
                let message = format!("machine {name}: {why}: this lab can't be explored");
                refuse(&["machines", name, key], message, fix);
            }
        }
        for (interface, spec) in &machine.interfaces {
            if spec.filter.is_some() {
                let message = format!(
                    "interface {name}:{interface}: a filter is loaded by nft, a program of the host"
                );
                let path = ["machines", name, "interfaces", interface, "filter"];
                refuse(&path, message, "leave it out");
            }
        }
        for (program, spec) in &machine.programs {
            programs += 1;
            let path = ["machines", name, "programs", program];
            let about = format!("program {program} of {name}");
            if spec.restart != Restart::Never {
                let message = format!("{about} is started again by the control process");
                refuse(&path, message, "leave `restart` out");
            }
            if let Some(Ready::Command(_)) = spec.ready.as_ref().map(|ready| &ready.by) {
                let message = format!("{about}: `ready: command` runs programs of the host");
                refuse(&path, message, "use port, output, time or success");
            }
            let Some(app) = &spec.app else {
                continue;
            };
            let word = app.split_whitespace().next().unwrap_or_default();
            if let Some((_, why)) = OUTSIDE.iter().find(|(outside, _)| *outside == word) {
                let message = format!("{about}: {word} can't be copied: {why}");
                refuse(&path, message, "use another app");
            }
        }
    }
    if programs == 0 {
        refuse(
            &["machines"],
            "no machine has a program: nothing would happen".to_owned(),
            "give two machines apps, such as `sink` and `source`",
        );
    }
    found
}

fn first<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    names.next().map(String::as_str)
}
