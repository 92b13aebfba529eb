//! What a line came to, for people and as JSON.

use serde::Serialize;
use serde_json::{json, Value};
use vink_api::{
    Breakpoints, Capture, Change, ChangeKind, Filter, FilterCounter, Interface, Machine,
    MachineSummary, PacketPath, Pod, Program, Wire,
};

use crate::error::ended;
use crate::settings;

/// What a line came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// For people: whole lines, or nothing.
    pub text: String,
    /// The same for programs: the control API's answer.
    pub value: Value,
}

impl Reply {
    /// Nothing to tell.
    pub(crate) fn nothing() -> Reply {
        Reply::default()
    }

    /// A text, and the answer that it tells about.
    pub(crate) fn new(text: String, value: &impl Serialize) -> Reply {
        Reply {
            text,
            value: serde_json::to_value(value).expect("plain data"),
        }
    }
}

/// Lines with columns under each other.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut all = vec![head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
    all.extend(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            all.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &all {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A word of the API, such as a state's.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        other => panic!("not a word: {other:?}"),
    }
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(" ")
}

pub(crate) fn machines(machines: &[MachineSummary]) -> Reply {
    let rows = machines.iter().map(|machine| {
        let interfaces = machine.interfaces.iter().map(|(name, addresses)| {
            let addresses = list(addresses);
            match addresses.is_empty() {
                true => name.clone(),
                false => format!("{name} {addresses}"),
            }
        });
        vec![
            machine.name.clone(),
            word(&machine.state),
            machine.programs.to_string(),
            interfaces.collect::<Vec<_>>().join(", "),
        ]
    });
    let text = table(
        &["MACHINE", "STATE", "PROGRAMS", "INTERFACES"],
        rows.collect(),
    );
    Reply::new(text, &machines)
}

pub(crate) fn machine(machine: &Machine) -> Reply {
    let mut text = format!("machine {}: {}", machine.name, word(&machine.state));
    if machine.forward {
        text += ", forwards";
    }
    if !machine.rights.is_full() {
        text += &format!(", rights {}", machine.rights);
    }
    if let Some(image) = &machine.image {
        text += &format!(", image {image}");
    }
    if let Some(error) = &machine.error {
        text += &format!(": {error}");
    }
    text.push('\n');
    for interface in &machine.interfaces {
        text += &interface_line(interface);
    }
    if !machine.programs.is_empty() {
        text += &format!("  programs: {}\n", list(&machine.programs));
    }
    Reply::new(text, machine)
}

fn interface_line(interface: &Interface) -> String {
    let wire = match &interface.wire {
        Some(wire) => format!("wire {wire}"),
        None => "no wire".to_owned(),
    };
    let up = if interface.up { "up" } else { "down" };
    let carrier = if interface.carrier {
        ""
    } else {
        ", no carrier"
    };
    let mut line = format!(
        "  {}: {wire}, {up}{carrier}, {}",
        interface.name, interface.mac
    );
    if !interface.addresses.is_empty() {
        line += &format!(", {}", list(&interface.addresses));
    }
    line + "\n"
}

pub(crate) fn wires(wires: &[Wire]) -> Reply {
    let rows = wires.iter().map(|wire| {
        vec![
            wire.name.clone(),
            kind(wire).to_owned(),
            list(wire.ends.iter().map(|end| &end.end)),
            what_it_does(wire),
        ]
    });
    Reply::new(
        table(&["WIRE", "STATE", "ENDS", "SETTINGS"], rows.collect()),
        &wires,
    )
}

fn kind(wire: &Wire) -> &'static str {
    match (wire.up, wire.bus) {
        (true, true) => "up, bus",
        (true, false) => "up",
        (false, true) => "down, bus",
        (false, false) => "down",
    }
}

fn what_it_does(wire: &Wire) -> String {
    let written = settings::written(&wire.settings);
    let mut text = match written.is_empty() {
        true if wire.from.is_empty() => "ideal".to_owned(),
        _ => written,
    };
    for (end, settings) in &wire.from {
        text += &format!(" (from {end}: {})", settings::written(settings));
    }
    text.trim_start().to_owned()
}

/// A wire in a line.
pub(crate) fn wire_line(wire: &Wire) -> String {
    let does = what_it_does(wire);
    format!("wire {}: {}, {does}\n", wire.name, kind(wire))
}

pub(crate) fn wire(wire: &Wire) -> Reply {
    let mut text = wire_line(wire);
    for end in &wire.ends {
        let counters: Vec<String> = end
            .counters
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        text += format!("  {}: {}", end.end, counters.join(", ")).trim_end_matches([':', ' ']);
        text.push('\n');
    }
    if let Some(uplink) = &wire.uplink {
        text += &format!("  uplink: {}", uplink.kind());
        if let Some(error) = &wire.uplink_error {
            text += &format!(": {error}");
        }
        text.push('\n');
    }
    Reply::new(text, wire)
}

/// A program as one would type it.
fn command(program: &Program) -> String {
    match &program.words[..] {
        [sh, c, line] if sh == "sh" && c == "-c" => line.clone(),
        words if program.app => format!("app {}", words.join(" ")),
        words => words.join(" "),
    }
}

fn state(program: &Program) -> String {
    match program.code {
        Some(code) => ended(code, program.error.as_deref()),
        None => word(&program.state),
    }
}

pub(crate) fn programs(programs: &[Program]) -> Reply {
    let rows = programs.iter().map(|program| {
        vec![
            program.id.to_string(),
            program.machine.clone(),
            program.name.clone().unwrap_or_default(),
            state(program),
            format!("{:.1}s", program.seconds),
            command(program),
        ]
    });
    let head = ["PROGRAM", "MACHINE", "NAME", "STATE", "TIME", "COMMAND"];
    Reply::new(table(&head, rows.collect()), &programs)
}

/// A program with what there is of its output.
pub(crate) fn program(program: &Program, output: &[u8]) -> Reply {
    let output = String::from_utf8_lossy(output);
    let mut text = format!(
        "program {} on {}: {}, {:.1}s: {}\n",
        program.id,
        program.machine,
        state(program),
        program.seconds,
        command(program)
    );
    text += &output;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(found) = &program.report {
        text += &report(found);
    }
    Reply::new(text, &json!({ "program": program, "output": output }))
}

/// What a virtualized process has found out: a line for each figure.
pub(crate) fn report(report: &Value) -> String {
    match report {
        Value::Object(figures) => figures
            .iter()
            .map(|(name, figure)| {
                let figure = figure.as_str().map_or(figure.to_string(), str::to_owned);
                format!("{}: {figure}\n", name.replace(['_', '-'], " "))
            })
            .collect(),
        Value::Null => String::new(),
        other => format!("{other}\n"),
    }
}

/// What has changed, a line each.
pub(crate) fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "nothing to change\n".to_owned();
    }
    let line = |change: &Change| {
        let sign = match change.kind {
            ChangeKind::Add => '+',
            ChangeKind::Change => '~',
            ChangeKind::Remove => '-',
        };
        let text = match change.text.is_empty() {
            true => String::new(),
            false => format!(": {}", change.text),
        };
        format!("{sign} {}{text}\n", change.object)
    };
    changes.iter().map(line).collect()
}

pub(crate) fn breakpoints(all: &Breakpoints) -> Reply {
    let mut text = String::new();
    for one in &all.breakpoints {
        let (name, spec) = (&one.name, &one.spec);
        text += &format!("{name}: {spec}: {} of {} packets\n", one.hits, one.seen);
    }
    if all.stopped {
        text += "the lab is stopped: break continue\n";
    }
    for machine in &all.machines {
        text += &format!("machine {machine} is stopped: break continue {machine}\n");
    }
    Reply::new(text, all)
}

pub(crate) fn pods(all: &[Pod]) -> Reply {
    let line = |pod: &Pod| {
        let how = match &pod.ended {
            Some(why) => format!("has ended: {why}"),
            None => format!("{} calls in {} crossings", pod.calls, pod.crossings),
        };
        format!("{} behind {}: {how}\n", pod.name, pod.wall)
    };
    Reply::new(all.iter().map(line).collect(), &all)
}

pub(crate) fn paths(all: &[PacketPath]) -> Reply {
    let line = |path: &PacketPath| {
        let number = |name: &str| path.numbers.get(name).copied().unwrap_or_default();
        let closed = match &path.ended {
            Some(pod) => format!("; closed: pod {pod} has ended"),
            None => String::new(),
        };
        format!(
            "{}: {}: {} of {} packets passed, {} lost{closed}\n",
            path.name,
            path.spec,
            number("passed"),
            number("packets"),
            number("lost")
        )
    };
    Reply::new(all.iter().map(line).collect(), &all)
}

pub(crate) fn filters(all: &[Filter]) -> Reply {
    let text = all.iter().map(|filter| format!("{filter}\n")).collect();
    Reply::new(text, &all)
}

pub(crate) fn counters(all: &[FilterCounter]) -> Reply {
    let line = |counter: &FilterCounter| {
        let chain = counter.chain.as_deref().unwrap_or("counter");
        let (table, rule) = (&counter.table, &counter.rule);
        format!(
            "table {table}, {chain} {rule}: {} packets, {} bytes\n",
            counter.packets, counter.bytes
        )
    };
    Reply::new(all.iter().map(line).collect(), &all)
}

pub(crate) fn captured(capture: &Capture) -> Reply {
    let count = |number: Option<u64>| number.unwrap_or(0);
    let path = capture.path.as_deref().unwrap_or_default();
    let text = format!(
        "capture {}: {} packets in {path}, {} missed\n",
        capture.id,
        count(capture.written),
        count(capture.missed)
    );
    Reply::new(text, capture)
}
