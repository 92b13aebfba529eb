//! Pictures of a lab: for Graphviz, and for Mermaid, which Markdown viewers draw.

use std::fmt::Write;

use crate::{Lab, WireSpec};

/// What a wire is drawn as.
struct Drawn<'a> {
    /// Its name and settings.
    label: Vec<String>,
    ends: Vec<(&'a str, &'a str)>,
    outside: Option<String>,
    /// A node of its own, since it does not have exactly two ends.
    is_node: bool,
    down: bool,
}

fn wires(lab: &Lab) -> Vec<Drawn<'_>> {
    let ideal = WireSpec::default();
    let ends = lab.ends();
    let drawn = ends.into_iter().map(|(name, ends)| {
        let spec = lab.wires.get(name).unwrap_or(&ideal);
        let outside = spec.uplink.as_ref().map(ToString::to_string);
        let mut label = vec![name.to_owned()];
        let settings = &spec.settings;
        label.extend(settings.rate.map(|rate| rate.to_string()));
        label.extend(settings.delay.map(|delay| delay.to_string()));
        label.extend(settings.loss.map(|loss| format!("loss {loss}")));
        Drawn {
            label,
            is_node: spec.is_bus(ends.len()) || ends.len() + usize::from(outside.is_some()) != 2,
            outside,
            ends,
            down: spec.up == Some(false),
        }
    });
    drawn.collect()
}

impl Lab {
    /// The lab for `dot` (Graphviz): machines are boxes, switches hexagons, buses ellipses, what is outside has
    /// dashes.
    pub fn to_dot(&self) -> String {
        let lab = self.expanded();
        let mut text = format!("graph {} {{\n  node [shape=box]\n", dot(&self.name));
        for (name, machine) in &lab.machines {
            let label = match (machine.forward, lab.switches.contains_key(name)) {
                (_, true) => format!(" [label={} shape=hexagon]", dot(name)),
                (true, false) => format!(" [label={} style=rounded]", dot(name)),
                (false, false) => String::new(),
            };
            let _ = writeln!(text, "  {}{label}", dot(name));
        }
        for (number, wire) in wires(&lab).into_iter().enumerate() {
            let label = dot(&wire.label.join("\n"));
            let style = if wire.down { " style=dotted" } else { "" };
            let outside = wire.outside.map(|outside| {
                let node = dot(&format!("outside {number}"));
                let _ = writeln!(text, "  {node} [label={} style=dashed]", dot(&outside));
                node
            });
            if wire.is_node {
                let node = dot(&format!("wire {number}"));
                let _ = writeln!(text, "  {node} [label={label} shape=ellipse]");
                for (machine, interface) in &wire.ends {
                    let (machine, interface) = (dot(machine), dot(interface));
                    let _ = writeln!(text, "  {machine} -- {node} [taillabel={interface}{style}]");
                }
                if let Some(outside) = outside {
                    let _ = writeln!(text, "  {node} -- {outside} [{}]", style.trim_start());
                }
            } else {
                let (machine, interface) = wire.ends[0];
                let (other, head) = match (&outside, wire.ends.get(1)) {
                    (Some(outside), _) => (outside.clone(), String::new()),
                    (None, Some((machine, interface))) => {
                        (dot(machine), format!(" headlabel={}", dot(interface)))
                    }
                    (None, None) => continue,
                };
                let _ = writeln!(
                    text,
                    "  {} -- {other} [label={label} taillabel={}{head}{style}]",
                    dot(machine),
                    dot(interface)
                );
            }
        }
        text + "}\n"
    }

    /// The lab for Mermaid.
    pub fn to_mermaid(&self) -> String {
        let lab = self.expanded();
        let mut text = String::from("graph LR\n");
        let id = |machine: &str| match lab.machines.get_index_of(machine) {
            Some(at) => format!("m{at}"),
            None => "m".to_owned(),
        };
        for name in lab.machines.keys() {
            let _ = match lab.switches.contains_key(name) {
                true => writeln!(text, "  {}{{{{{}}}}}", id(name), mermaid(name)),
                false => writeln!(text, "  {}[{}]", id(name), mermaid(name)),
            };
        }
        for (number, wire) in wires(&lab).into_iter().enumerate() {
            let label = mermaid(&wire.label.join("<br>"));
            let line = if wire.down { "-.-" } else { "---" };
            let outside = wire.outside.map(|outside| {
                let _ = writeln!(text, "  o{number}>{}]", mermaid(&outside));
                format!("o{number}")
            });
            let mut ends: Vec<String> = wire.ends.iter().map(|(machine, _)| id(machine)).collect();
            ends.extend(outside);
            match (wire.is_node, ends.as_slice()) {
                (false, [a, b]) => {
                    let _ = writeln!(text, "  {a} {line}|{label}| {b}");
                }
                _ => {
                    let _ = writeln!(text, "  w{number}([{label}])");
                    for end in ends {
                        let _ = writeln!(text, "  {end} {line} w{number}");
                    }
                }
            }
        }
        text
    }
}

/// A text in the language of Graphviz.
fn dot(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}

/// A text in Mermaid's, which has entities in the place of escapes.
fn mermaid(text: &str) -> String {
    format!("\"{}\"", text.replace('#', "#35;").replace('"', "#quot;"))
}
