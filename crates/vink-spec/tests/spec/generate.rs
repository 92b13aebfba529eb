//! What `generate` makes: each machine reaches each other one by the shortest way, with small
//! tables.

use vink_spec::{read_text, Lab};

use crate::reach::Net;

fn lab(text: &str) -> Lab {
    match read_text(text, "lab.yaml", None) {
        Ok(reading) => {
            assert_eq!(reading.warnings, [], "{text}");
            reading.lab
        }
        Err(mistakes) => panic!("{mistakes}"),
    }
}

/// All of each machine's addresses from each machine, by a way of that length.
fn all_reach_all(text: &str, hops: impl Fn(usize, usize) -> usize) {
    let lab = lab(text);
    let net = Net::of(&lab);
    for (i, from) in lab.machines.keys().enumerate() {
        for (j, to) in lab.machines.keys().enumerate() {
            let addresses = net.addresses(to);
            assert_eq!(addresses.len(), 2);
            for address in addresses {
                let crossed = net.hops(from, address).unwrap_or_else(|| {
                    panic!(
                        "{from} does not reach {to} at {address}\n{text}\n{}",
                        lab.to_yaml()
                    )
                });
                // The address may be of a wire on the far side, and belong to the machine beyond.
                let least = hops(i, j);
                assert!(
                    (least..=least + 2).contains(&crossed),
                    "{from} {to} {crossed} {text}"
                );
            }
        }
    }
}

const BOTH: &str = "addresses: [10.0.0.0/8, 'fd00::/64']";

#[test]
fn lines() {
    for n in [2, 3, 17] {
        let text = format!("generate: {{kind: line, machines: {n}, {BOTH}}}");
        all_reach_all(&text, |i, j| i.abs_diff(j));
    }
}

#[test]
fn rings() {
    for n in [3, 4, 5, 16, 21] {
        let text = format!("generate: {{kind: ring, machines: {n}, {BOTH}}}");
        all_reach_all(&text, |i, j| i.abs_diff(j).min(n - i.abs_diff(j)));
    }
}

#[test]
fn stars() {
    let text = format!("generate: {{kind: star, machines: 12, {BOTH}}}");
    all_reach_all(&text, |i, j| {
        usize::from(i != j) + usize::from(i != j && i > 0 && j > 0)
    });
}

#[test]
fn trees() {
    for (n, fanout) in [(2, 2), (31, 2), (50, 3), (111, 10), (6, 1)] {
        let text = format!("generate: {{kind: tree, machines: {n}, fanout: {fanout}, {BOTH}}}");
        all_reach_all(&text, |mut i, mut j| {
            let mut hops = 0;
            while i != j {
                if i > j {
                    i = (i - 1) / fanout;
                } else {
                    j = (j - 1) / fanout;
                }
                hops += 1;
            }
            hops
        });
    }
}

#[test]
fn grids() {
    for (n, columns) in [
        (16, "".to_owned()),
        (10, "".to_owned()),
        (23, ", columns: 5".to_owned()),
        (7, ", columns: 7".to_owned()),
        (5, ", columns: 1".to_owned()),
    ] {
        let text = format!("generate: {{kind: grid, machines: {n}{columns}, {BOTH}}}");
        let width = match columns.strip_prefix(", columns: ") {
            Some(columns) => columns.parse().unwrap(),
            None => 4,
        };
        all_reach_all(&text, |i, j| {
            (i / width).abs_diff(j / width) + (i % width).abs_diff(j % width)
        });
    }
}

/// How many wires are between each two machines, at least.
fn distances(lab: &Lab) -> Vec<Vec<usize>> {
    let number = |name: &str| lab.machines.get_index_of(name).expect("a machine");
    let ends = lab.ends();
    let pairs = ends
        .values()
        .map(|ends| (number(ends[0].0), number(ends[1].0)));
    let count = lab.machines.len();
    let mut far = vec![vec![count; count]; count];
    for (a, b) in pairs {
        (far[a][b], far[b][a]) = (1, 1);
    }
    for k in 0..count {
        far[k][k] = 0;
        for i in 0..count {
            for j in 0..count {
                far[i][j] = far[i][j].min(far[i][k] + far[k][j]);
            }
        }
    }
    far
}

#[test]
fn meshes_fabrics_and_chance() {
    for kind in [
        "kind: mesh, machines: 2",
        "kind: mesh, machines: 9",
        "kind: leaf-spine, machines: 14, spines: 4",
        "kind: leaf-spine, machines: 3",
        "kind: random, machines: 2",
        "kind: random, machines: 30",
        "kind: random, machines: 40, degree: 5, seed: 7",
    ] {
        let text = format!("generate: {{{kind}, {BOTH}}}");
        let far = distances(&lab(&text));
        all_reach_all(&text, |i, j| far[i][j]);
    }
    let wires = |text: &str| lab(text).wires.len();
    assert_eq!(wires("generate: {kind: mesh, machines: 9}"), 36);
    assert_eq!(
        wires("generate: {kind: leaf-spine, machines: 14, spines: 4}"),
        40
    );
    assert_eq!(
        wires("generate: {kind: random, machines: 40, degree: 5}"),
        100
    );
    // The same seed, the same net; another one, another.
    let random = |seed| {
        lab(&format!(
            "generate: {{kind: random, machines: 40, seed: {seed}}}"
        ))
    };
    assert_eq!(random(3), random(3));
    assert_ne!(random(3), random(4));
    let fabric = lab("generate: {kind: leaf-spine, machines: 5, name: a-}");
    let names: Vec<&String> = fabric.machines.keys().collect();
    assert_eq!(
        names,
        ["a-spine1", "a-spine2", "a-leaf1", "a-leaf2", "a-leaf3"]
    );
}

#[test]
fn templates() {
    let lab = lab("
generate:
  kind: leaf-spine
  machines: 3
  machine:
    files:
      /etc/frr.conf: |
        router bgp {{number+65000}}
         bgp router-id {{router-id}}
         neighbor {{interface}} interface remote-as external ! {{peer}}
        ! {{name}} is a {{role}}, {{nothing}} {{
      /etc/ospfd.conf: |
        interface {{interface}}
         ip ospf cost 10
        router ospf
    setup: ['ip address add {{router-id}}/32 dev lo']
    programs: {a: {command: 'echo {{number}}', ready: {output: '{{number}}'}}}
");
    let conf = |machine: &str, file: &str| {
        let file = serde_json::to_value(&lab.machines[machine].files[file]).unwrap();
        file.as_str().unwrap().to_owned()
    };
    assert_eq!(
        conf("leaf1", "/etc/ospfd.conf"),
        "interface eth0\n ip ospf cost 10\ninterface eth1\n ip ospf cost 10\nrouter ospf\n"
    );
    assert_eq!(
        conf("spine2", "/etc/frr.conf"),
        "router bgp 65002\n bgp router-id 10.255.0.2\n neighbor eth0 interface remote-as external ! leaf1\n! spine2 is a spine, {{nothing}} {{\n"
    );
    assert_eq!(
        conf("leaf1", "/etc/frr.conf"),
        "router bgp 65003\n bgp router-id 10.255.0.3\n neighbor eth0 interface remote-as external ! spine1\n \
         neighbor eth1 interface remote-as external ! spine2\n! leaf1 is a leaf, {{nothing}} {{\n"
    );
    let leaf = &lab.machines["leaf1"];
    assert_eq!(leaf.setup, ["ip address add 10.255.0.3/32 dev lo"]);
    let program = serde_json::to_value(&leaf.programs["a"]).unwrap();
    assert_eq!(program["command"], "echo 3");
    assert_eq!(program["ready"]["output"], "3");
}

/// Most machines of a tree have one route; of a line, a few.
#[test]
fn tables_are_small() {
    let routes = |text: &str| -> usize {
        lab(text)
            .machines
            .values()
            .map(|machine| machine.routes.len())
            .sum()
    };
    let tree = routes("generate: {kind: tree, machines: 10000, fanout: 10, addresses: 10.0.0.0/8}");
    assert!(tree < 15_000, "{tree} routes in the tree");
    let binary = routes("generate: {kind: tree, machines: 10000, addresses: 10.0.0.0/8}");
    assert!(binary < 60_000, "{binary} routes in the binary tree");
    let line = routes("generate: {kind: line, machines: 10000, addresses: 10.0.0.0/8}");
    assert!(line < 80_000, "{line} routes in the line");
}

#[test]
fn what_is_said_besides_comes_on_top() {
    let lab = lab("generate:
  kind: line
  machines: 3
  name: h
  addresses: 10.0.0.0/24
  wire: {delay: 1ms, rate: 1gbit}
  machine:
    sysctls: {net.ipv4.tcp_sack: 0}
machines:
  h3:
    sysctls: {net.ipv4.tcp_sack: 1}
    programs: {echo: {app: echoserver}}
  extra: {interfaces: {eth0: {wire: h1-h2}}}
wires:
  h1-h2: {rate: 1mbit}
");
    assert_eq!(
        lab.machines.keys().collect::<Vec<_>>(),
        ["h1", "h2", "h3", "extra"]
    );
    crate::golden::golden("generate", &lab.to_yaml());
}

#[test]
fn without_addresses_or_routes() {
    let none = lab("generate: {kind: ring, machines: 4, routes: none, addresses: 10.0.0.0/24}");
    assert!(none
        .machines
        .values()
        .all(|m| m.routes.is_empty() && !m.forward));
    let bare = lab("generate: {kind: ring, machines: 4}");
    assert!(bare
        .machines
        .values()
        .flat_map(|m| m.interfaces.values())
        .all(|i| i.addresses.is_empty()));
    assert!(bare.machines.values().all(|m| m.routes.is_empty()));
}
