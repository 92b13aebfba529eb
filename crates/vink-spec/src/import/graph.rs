//! A graph of places and lines between them becomes machines and wires, with addresses and shortest
//! ways.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{ImportOptions, Imported, Names};
use crate::block::{table, ways, Plan};
use crate::{Lab, Rate, Settings, Span, WireSpec};

/// Kilometres that light goes in glass in a second: two thirds of its speed in empty space.
const SPEED: f64 = 299_792.458 * 2.0 / 3.0;
/// The earth's mean radius in kilometres.
const RADIUS: f64 = 6371.0;

/// A graph as its file has it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub name: String,
    pub nodes: Vec<Vertex>,
    pub edges: Vec<Edge>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Vertex {
    pub id: String,
    pub attributes: HashMap<String, String>,
}

#[derive(Debug, Default)]
pub(super) struct Edge {
    pub source: String,
    pub target: String,
    pub attributes: HashMap<String, String>,
}

/// A wire between two machines, by number.
struct Link {
    ends: (usize, usize),
    spec: WireSpec,
}

impl Vertex {
    fn position(&self) -> Option<(f64, f64)> {
        let number = |key: &str| self.attributes.get(key)?.trim().parse::<f64>().ok();
        Some((
            number("Latitude")?.to_radians(),
            number("Longitude")?.to_radians(),
        ))
    }
}

/// Along a great circle, in kilometres (haversine formula).
fn distance((lat_a, long_a): (f64, f64), (lat_b, long_b): (f64, f64)) -> f64 {
    let part = |angle: f64| (angle / 2.0).sin().powi(2);
    let h = part(lat_b - lat_a) + lat_a.cos() * lat_b.cos() * part(long_b - long_a);
    2.0 * RADIUS * h.sqrt().min(1.0).asin()
}

impl Graph {
    /// The lab.
    pub fn lab(mut self, options: &ImportOptions) -> Result<Imported, String> {
        let mut names = Names::default();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut machines = Vec::new();
        let mut renamed = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let label = node.attributes.get("label").map(|label| label.trim());
            let label = label.filter(|label| *label != "None").unwrap_or_default();
            let name = names.make(label, &format!("n{}", node.id));
            renamed += usize::from(!label.is_empty() && name != label);
            machines.push(name);
            if numbers.insert(&node.id, number).is_some() {
                self.warnings.push(format!(
                    "two nodes have the id {}: wires go to the second one",
                    node.id
                ));
            }
        }
        if renamed > 0 {
            self.warnings.push(format!(
                "names that differ from labels, which are no host names: {renamed}"
            ));
        }
        let mut links: Vec<Link> = Vec::new();
        let mut without = 0;
        for edge in &self.edges {
            let end = |id: &str| numbers.get(id).copied();
            let (Some(a), Some(b)) = (end(&edge.source), end(&edge.target)) else {
                let message = format!(
                    "the edge from {} to {} has an end that is not there",
                    edge.source, edge.target
                );
                self.warnings.push(message);
                continue;
            };
            if a == b {
                self.warnings.push(format!(
                    "an edge from {} to itself is left out",
                    machines[a]
                ));
                continue;
            }
            let rate = edge
                .attributes
                .get("LinkSpeedRaw")
                .and_then(|speed| speed.trim().parse::<f64>().ok());
            let positions = self.nodes[a].position().zip(self.nodes[b].position());
            // To the microsecond, which is 200 metres.
            let delay =
                positions.map(|(a, b)| (distance(a, b) / SPEED * 1e6).round() as u64 * 1000);
            without += usize::from(delay.is_none());
            let settings = Settings {
                rate: rate
                    .filter(|rate| (1.0..1e15).contains(rate))
                    .map(|rate| Rate(rate as u64)),
                delay: delay.filter(|delay| *delay > 0).map(Span),
                ..Settings::default()
            };
            let spec = WireSpec {
                settings,
                ..WireSpec::default()
            };
            links.push(Link { ends: (a, b), spec });
        }
        if without > 0 && without < links.len() {
            self.warnings.push(format!(
                "wires without a delay, as not both of their ends have a position: {without}"
            ));
        }
        let mut lab = Lab::default();
        if !self.name.is_empty() {
            lab.name = Names::default().make(&self.name, "lab");
        }
        if !machines.is_empty() {
            self.warnings
                .extend(wire_up(&mut lab, machines, links, options)?);
        }
        Ok(Imported {
            lab,
            warnings: self.warnings,
        })
    }
}

/// Puts machines and wires into a lab; what is to be said about it.
fn wire_up(
    lab: &mut Lab,
    machines: Vec<String>,
    links: Vec<Link>,
    options: &ImportOptions,
) -> Result<Vec<String>, String> {
    let count = machines.len();
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); count];
    for link in &links {
        let (a, b) = link.ends;
        near[a].push(b);
        near[b].push(a);
    }
    let order = numbering(&near);
    let mut number = vec![0; count];
    for (new, old) in order.iter().enumerate() {
        number[*old] = new;
    }
    let mut owned = vec![0; count];
    for link in &links {
        let (a, b) = link.ends;
        owned[number[a].max(number[b])] += 1;
    }
    let most = owned.iter().copied().max().unwrap_or_default();
    for name in &machines {
        lab.machines.insert(name.clone(), Default::default());
    }
    let by_number = order.iter().map(|old| machines[*old].clone()).collect();
    let mut plan = Plan::new(
        by_number,
        &options.addresses,
        most,
        !options.addresses.is_empty(),
    )?;
    plan.address(lab);
    let mut costs: Vec<Vec<(usize, u64)>> = vec![Vec::new(); count];
    let mut interfaces = vec![0; count];
    for Link { ends: (a, b), spec } in links {
        let base = format!("{}-{}", machines[a], machines[b]);
        let mut wire = base.clone();
        let mut again = 2;
        while lab.wires.contains_key(&wire) {
            wire = format!("{base}-{again}");
            again += 1;
        }
        let mut next = |machine: usize| {
            interfaces[machine] += 1;
            format!("eth{}", interfaces[machine] - 1)
        };
        let (at_a, at_b) = (next(a), next(b));
        let (a, b) = (number[a], number[b]);
        plan.join(lab, (a, &at_a), (b, &at_b), &wire);
        // A wire more costs something where there are no delays.
        let cost = spec.settings.delay.map_or(0, |delay| delay.0) + 1000;
        costs[a].push((b, cost));
        costs[b].push((a, cost));
        lab.wires.insert(wire, spec);
    }
    let mut warnings = Vec::new();
    let mut parts = false;
    for machine in 0..count {
        let ways = ways(&costs, machine);
        parts |= ways.iter().filter(|way| way.is_none()).count() > 1;
        if options.routes && !options.addresses.is_empty() {
            let (ranges, default) = table(&ways);
            plan.route(lab, machine, &ranges, default);
        }
        if let Some(spec) = lab.machines.get_mut(plan.name(machine)) {
            spec.forward = costs[machine].len() > 1;
        }
    }
    if parts {
        warnings.push("the graph has parts between which there is no way".to_owned());
    }
    Ok(warnings)
}

/// Numbers so that neighbours, and what is behind them, are close: depth first from the best
/// connected one.
fn numbering(near: &[Vec<usize>]) -> Vec<usize> {
    let mut starts: Vec<usize> = (0..near.len()).collect();
    starts.sort_by_key(|machine| Reverse(near[*machine].len()));
    // A node that a breadth-first search finds first is on a shortest path.
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); near.len()];
    let mut seen = vec![false; near.len()];
    let mut order = Vec::with_capacity(near.len());
    for start in starts {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(machine) = queue.pop_front() {
            for next in &near[machine] {
                if !seen[*next] {
                    seen[*next] = true;
                    below[machine].push(*next);
                    queue.push_back(*next);
                }
            }
        }
        let mut stack = vec![start];
        while let Some(machine) = stack.pop() {
            order.push(machine);
            stack.extend(below[machine].iter().rev());
        }
    }
    order
}
