//! Other programs' files become labs that can be used, and what does not fit is told.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;

use vink_spec::{check_lab, import, Format, ImportOptions, Imported};

use crate::reach::Net;

fn options(addresses: &[&str]) -> ImportOptions {
    ImportOptions {
        addresses: addresses
            .iter()
            .map(|network| network.parse().unwrap())
            .collect(),
        routes: true,
    }
}

/// Imports a text, whose lab must be right, and shows both.
fn imported(text: &str, file: &str, options: &ImportOptions) -> Imported {
    let format = Format::of(file, text);
    let imported =
        import(text, file, format, options).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    if let Err(mistakes) = check_lab(&imported.lab, None) {
        panic!("{mistakes}\n{}", imported.lab.to_yaml());
    }
    imported
}

fn shown(imported: &Imported) -> String {
    let warnings: Vec<String> = imported
        .warnings
        .iter()
        .map(|w| format!("# {w}\n"))
        .collect();
    warnings.concat() + &imported.lab.to_yaml()
}

fn all_reach_all(imported: &Imported) {
    let net = Net::of(&imported.lab);
    for from in imported.lab.machines.keys() {
        for to in imported.lab.machines.keys() {
            for address in net.addresses(to) {
                assert!(
                    net.hops(from, address).is_some(),
                    "{from} does not reach {to} at {address}"
                );
            }
        }
    }
}

/// Where no wire has a delay, each way is one of the fewest wires.
fn by_the_fewest_wires(imported: &Imported) {
    let lab = &imported.lab;
    let net = Net::of(lab);
    let ends = lab.ends();
    for from in lab.machines.keys() {
        let mut hops = HashMap::from([(from.as_str(), 0)]);
        let mut queue = VecDeque::from([from.as_str()]);
        while let Some(machine) = queue.pop_front() {
            for ends in ends
                .values()
                .filter(|ends| ends.iter().any(|(m, _)| *m == machine))
            {
                for (next, _) in ends {
                    if !hops.contains_key(next) {
                        hops.insert(next, hops[machine] + 1);
                        queue.push_back(next);
                    }
                }
            }
        }
        for to in lab.machines.keys() {
            for address in net.addresses(to) {
                assert_eq!(
                    net.hops(from, address),
                    Some(hops[to.as_str()]),
                    "{from} {to}"
                );
            }
        }
    }
}

#[test]
fn containerlab() {
    let text = include_str!("containerlab.yaml");
    let imported = imported(text, "site.clab.yml", &options(&[]));
    crate::golden::golden("containerlab", &shown(&imported));
}

#[test]
fn graphml() {
    let text = include_str!("places.graphml");
    let imported = imported(
        text,
        "places.graphml",
        &options(&["10.0.0.0/8", "fd00::/64"]),
    );
    all_reach_all(&imported);
    crate::golden::golden("graphml", &shown(&imported));
}

#[test]
fn gml() {
    let text = include_str!("places.gml");
    let imported = imported(text, "places.gml", &options(&["192.168.0.0/16"]));
    crate::golden::golden("gml", &shown(&imported));
}

/// The same places, in both languages.
#[test]
fn a_topology_of_the_zoo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/abilene");
    let text = fs::read_to_string(root.join("abilene.graphml")).unwrap();
    let imported = imported(
        &text,
        "abilene.graphml",
        &options(&["10.0.0.0/8", "fd00::/64"]),
    );
    assert_eq!(imported.lab.machines.len(), 11);
    // The ready lab is what `vink import` makes.
    let ready = import(
        &text,
        "abilene.graphml",
        Format::Graphml,
        &options(&["10.0.0.0/8"]),
    );
    let ready = ready.expect("a lab").lab.to_yaml();
    let lab = root.join("lab.yaml");
    if std::env::var_os("VINK_GOLDEN").is_some_and(|how| how == "write") {
        fs::write(&lab, &ready).unwrap();
    }
    assert!(
        fs::read_to_string(&lab).unwrap() == ready,
        "labs/abilene/lab.yaml: VINK_GOLDEN=write renews it"
    );
    all_reach_all(&imported);
}

/// Graphs at random, many with several ways of the same length.
#[test]
fn graphs_at_random() {
    let mut random = crate::random::Random(5);
    for round in 0..60 {
        let count = 2 + random.below(40);
        let mut text = String::from("graph [\n");
        for node in 0..count {
            let latitude = random.below(120) as f64 - 60.0;
            text += &format!("node [ id {node} label \"Place {node}\" ");
            match round % 3 {
                0 => text += "]\n",
                _ => text += &format!("Latitude {latitude} Longitude {}.5 ]\n", random.below(180)),
            }
        }
        for node in 1..count {
            text += &format!("edge [ source {node} target {} ]\n", random.below(node));
        }
        for _ in 0..random.below(count) {
            text += &format!(
                "edge [ source {} target {} ]\n",
                random.below(count),
                random.below(count)
            );
        }
        text += "]";
        let both = options(&["10.0.0.0/8", "fd00::/64"]);
        let imported = imported(&text, "g.gml", &both);
        all_reach_all(&imported);
        if round % 3 == 0 {
            by_the_fewest_wires(&imported);
        }
    }
}

#[test]
fn mistakes() {
    let mut all = String::new();
    for (file, text) in [
        ("a.yaml", "name: x\nmachines: {}\n"),
        ("a.yaml", "topology: [\n"),
        ("a.graphml", "<graphml></graphml>"),
        (
            "a.graphml",
            "<graphml>\n <graph>\n  <node/>\n </graph></graphml>",
        ),
        ("a.graphml", "<graphml>\n <graph>\n  <node id=\"a\"></edge>"),
        ("a.gml", "graph [ node [ id 1 ]"),
        ("a.gml", "graph [ node [ id ] ]"),
        ("a.gml", "graph [ label \"a ]"),
        ("a.gml", "]"),
        ("a.gml", "Creator x"),
        (
            "a.gml",
            "graph [ node [ id 1 ] node [ id 2 ] node [ id 3 ] edge [ source 1 target 2 ] ]",
        ),
    ] {
        let format = Format::of(file, text);
        let mistakes = import(text, file, format, &options(&["10.0.0.0/31"])).expect_err(text);
        all += &format!("{mistakes}\n\n");
    }
    crate::golden::golden("import-mistakes", &all);
}

#[test]
fn pictures() {
    let text = include_str!("containerlab.yaml");
    let mut lab = imported(text, "site.clab.yml", &options(&[])).lab;
    if let Some(wire) = lab.wires.values_mut().next() {
        wire.settings.rate = Some(vink_spec::Rate(10_000_000));
        wire.up = Some(false);
    }
    crate::golden::golden(
        "pictures",
        &format!("{}\n{}", lab.to_dot(), lab.to_mermaid()),
    );
}
