//! Many machines in a line, ring, star, tree, grid, mesh, leaf-spine fabric, or at random: the lab file's `generate`.

use std::collections::HashSet;
use std::ops::Range;

use ipnet::IpNet;
use schemars::JsonSchema;

use crate::block::{table, ways, Plan};
use crate::node::{self, Node};
use crate::read::Reader;
use crate::template::Template;
use crate::{Lab, MachineSpec, WireSpec};

/// Machines that one `generate` makes at most.
pub(crate) const MOST: usize = 100_000;
/// Wires that one makes at most, of the kinds that have many for each machine.
const MOST_WIRES: usize = 200_000;

/// Makes machines NAME1, NAME2 ... with wires between them (`r1-r2`), addresses and routes. `machines` and `wires` may
/// name some of them to say more: theirs comes on top.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Generate {
    /// How they are wired. Interfaces: in a line and a ring `eth0` to the one before and `eth1` to the one after; in a
    /// tree and a star `eth0` to the one above, `eth1` and so on to those below; in a grid `eth0` west, `eth1` east,
    /// `eth2` north, `eth3` south; otherwise `eth0` and so on to neighbours in the order of their numbers.
    pub kind: Kind,
    /// How many.
    #[schemars(range(min = 2, max = 100_000))]
    pub machines: usize,
    /// A tree's machines below each machine (default 2).
    #[schemars(range(min = 1, max = 100_000))]
    pub fanout: Option<usize>,
    /// A grid's machines in each row (default: as many as rows).
    #[schemars(range(min = 1, max = 100_000))]
    pub columns: Option<usize>,
    /// How many of a leaf-spine fabric's machines are spines (default 2).
    #[schemars(range(min = 1, max = 100_000))]
    pub spines: Option<usize>,
    /// How many neighbours a machine of a random net has on average (default 3).
    #[schemars(range(min = 1, max = 1000))]
    pub degree: Option<usize>,
    /// What a random net follows from (default 1).
    pub seed: Option<u64>,
    /// What their names begin with (default `r`; in a leaf-spine fabric they are `spine1`, `leaf1` and so on behind it).
    pub name: Option<String>,
    /// What each machine has besides. In its texts `{{number}}` stands for its number, `{{number+65000}}` for a sum, `{{name}}` for its
    /// name, `{{router-id}}` for an address of its own, `{{role}}` for spine or leaf; a line with `{{interface}}` or `{{peer}}` is there for
    /// each neighbour, with those below it that are indented further.
    #[schemars(default)]
    pub machine: MachineSpec,
    /// What each wire is like.
    #[schemars(default)]
    pub wire: WireSpec,
    /// The network whose addresses they get, or a list of such, of both families say; none: no addresses.
    #[schemars(default)]
    pub addresses: Addresses,
    /// How they reach each other (default static).
    #[schemars(default)]
    pub routes: Routes,
}

/// How machines are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Each with the next.
    Line,
    /// Each with the next, the last with the first.
    Ring,
    /// All with the first.
    Star,
    /// The first above some, each of which is above some, level by level.
    Tree,
    /// In rows and columns.
    Grid,
    /// Each with each.
    Mesh,
    /// Some, the spines, each with all others, the leaves.
    LeafSpine,
    /// In one piece, but by chance.
    Random,
}

/// Networks whose addresses are given out.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Addresses {
    /// One.
    One(#[schemars(with = "String")] IpNet),
    /// Several.
    List(#[schemars(with = "Vec<String>")] Vec<IpNet>),
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses::List(Vec::new())
    }
}

/// Routes that are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(crate) enum Routes {
    /// To all, along shortest paths, as few as may be; all machines but leaves forward.
    #[default]
    Static,
    /// None: for routing daemons.
    None,
}

impl From<bool> for Routes {
    fn from(some: bool) -> Routes {
        if some {
            Routes::Static
        } else {
            Routes::None
        }
    }
}

/// What names begin with, if nothing is said.
const NAME: &str = "r";

/// Where machine `i` is in a tree whose machines have numbers in preorder: so each subtree is a range.
#[derive(Clone, Debug)]
struct Above {
    above: usize,
    /// It and all below it.
    subtree: Range<usize>,
}

impl Generate {
    fn networks(&self) -> &[IpNet] {
        match &self.addresses {
            Addresses::One(network) => std::slice::from_ref(network),
            Addresses::List(networks) => networks,
        }
    }

    /// The machines and wires; or why there are none.
    pub fn lab(&self) -> Result<Lab, String> {
        let count = self.machines;
        if self.kind == Kind::Ring && count < 3 {
            return Err("a ring has at least 3 machines".to_owned());
        }
        let spines = self.spines.unwrap_or(2);
        if self.kind == Kind::LeafSpine && spines >= count {
            return Err(format!("{spines} spines leave no machine for a leaf"));
        }
        let edges = self.edges(spines)?;
        let fanout = match self.kind {
            Kind::Star => count - 1,
            _ => self.fanout.unwrap_or(2),
        };
        let tree = self.tree(fanout);
        // Names count level by level, addresses by subtrees.
        let begins = self.name.as_deref();
        let name = |level: usize| match (self.kind, level.checked_sub(spines)) {
            (Kind::LeafSpine, None) => format!("{}spine{}", begins.unwrap_or_default(), level + 1),
            (Kind::LeafSpine, Some(leaf)) => {
                format!("{}leaf{}", begins.unwrap_or_default(), leaf + 1)
            }
            _ => format!("{}{}", begins.unwrap_or(NAME), level + 1),
        };
        let mut names = vec![String::new(); count];
        match self.kind {
            Kind::Star | Kind::Tree => {
                for (level, place) in tree.iter().enumerate() {
                    names[place.subtree.start] = name(level);
                }
            }
            _ => names = (0..count).map(name).collect(),
        }
        let mut lab = Lab::default();
        for level in 0..count {
            lab.machines.insert(name(level), MachineSpec::default());
        }
        // How many neighbours with lower numbers a machine has: the last of a ring has the first besides.
        let wires = match self.kind {
            Kind::Grid | Kind::Ring => 2,
            Kind::Mesh | Kind::LeafSpine | Kind::Random => most_below(&edges, count),
            _ => 1,
        };
        let mut plan = Plan::new(names.clone(), self.networks(), wires, false)?;
        let mut join = |lab: &mut Lab, a: (usize, &str), b: (usize, &str)| {
            let wire = format!("{}-{}", names[a.0], names[b.0]);
            plan.join(lab, a, b, &wire);
            lab.wires.insert(wire, self.wire.clone());
        };
        let columns = self.columns.unwrap_or_else(|| {
            let root = count.isqrt();
            if root * root == count {
                root
            } else {
                root + 1
            }
        });
        match self.kind {
            Kind::Line | Kind::Ring => {
                for i in 1..count {
                    join(&mut lab, (i - 1, "eth1"), (i, "eth0"));
                }
                if self.kind == Kind::Ring {
                    join(&mut lab, (count - 1, "eth1"), (0, "eth0"));
                }
            }
            Kind::Star | Kind::Tree => {
                let mut below = vec![0; count];
                for Above { above, subtree } in &tree[1..] {
                    below[*above] += 1;
                    let down = format!("eth{}", below[*above]);
                    join(&mut lab, (*above, &down), (subtree.start, "eth0"));
                }
            }
            Kind::Grid => {
                for i in 0..count {
                    if i % columns > 0 {
                        join(&mut lab, (i - 1, "eth1"), (i, "eth0"));
                    }
                    if i >= columns {
                        join(&mut lab, (i - columns, "eth3"), (i, "eth2"));
                    }
                }
            }
            Kind::Mesh | Kind::LeafSpine | Kind::Random => {
                let mut next = vec![0; count];
                for (a, b) in edges {
                    let ends = [a, b].map(|end| {
                        next[end] += 1;
                        format!("eth{}", next[end] - 1)
                    });
                    join(&mut lab, (a, &ends[0]), (b, &ends[1]));
                }
            }
        }
        // Joined as the wires come; there are at most four.
        if matches!(self.kind, Kind::Ring | Kind::Grid) {
            for machine in lab.machines.values_mut() {
                machine.interfaces.sort_keys();
            }
        }
        if self.routes == Routes::Static {
            self.routes(&mut lab, &plan, &tree, columns);
        }
        self.fill(&mut lab, &plan, spines);
        Ok(lab)
    }

    /// Gives machines what they have besides, with their own names and numbers in it.
    fn fill(&self, lab: &mut Lab, plan: &Plan, spines: usize) {
        for i in 0..self.machines {
            let name = plan.name(i);
            let Some(place) = lab.machines.get_index_of(name) else {
                continue;
            };
            let role = match self.kind {
                Kind::LeafSpine if i < spines => "spine",
                Kind::LeafSpine => "leaf",
                _ => "",
            };
            let made = std::mem::take(&mut lab.machines[place]);
            let interfaces: Vec<&String> = made.interfaces.keys().collect();
            let peers = plan.neighbours(i).map(|peer| plan.name(peer));
            // Joined in the order of the interfaces' names, but for rings and grids.
            let template = Template {
                name,
                number: place + 1,
                role,
                neighbours: interfaces
                    .iter()
                    .map(|its| its.as_str())
                    .zip(peers)
                    .collect(),
            };
            let mut machine = template.machine(&self.machine);
            machine.forward |= made.forward;
            machine.interfaces.extend(made.interfaces);
            machine.routes.extend(made.routes);
            lab.machines[place] = machine;
        }
    }

    /// The wires of the kinds that are no more than their wires: pairs of machines, the lower number first.
    fn edges(&self, spines: usize) -> Result<Vec<(usize, usize)>, String> {
        let count = self.machines;
        let wires = match self.kind {
            Kind::Mesh => count.saturating_mul(count - 1) / 2,
            Kind::LeafSpine => spines.saturating_mul(count - spines),
            Kind::Random => count.saturating_mul(self.degree.unwrap_or(3)) / 2,
            _ => return Ok(Vec::new()),
        };
        if wires > MOST_WIRES {
            return Err(format!("{wires} wires are more than {MOST_WIRES}"));
        }
        Ok(match self.kind {
            Kind::Mesh => (0..count)
                .flat_map(|a| (a + 1..count).map(move |b| (a, b)))
                .collect(),
            Kind::LeafSpine => (spines..count)
                .flat_map(|leaf| (0..spines).map(move |spine| (spine, leaf)))
                .collect(),
            _ => self.random(wires.min(count * (count - 1) / 2)),
        })
    }

    /// A tree by chance, so that there is a way from each to each, and then further wires between any two.
    fn random(&self, wires: usize) -> Vec<(usize, usize)> {
        let count = self.machines;
        let mut state = self.seed.unwrap_or(1);
        // splitmix64
        let mut below = |limit: usize| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % limit as u64) as usize
        };
        let mut edges: HashSet<(usize, usize)> = (1..count).map(|i| (below(i), i)).collect();
        while edges.len() < wires {
            let (a, b) = (below(count), below(count));
            if a != b {
                edges.insert((a.min(b), a.max(b)));
            }
        }
        let mut edges: Vec<(usize, usize)> = edges.into_iter().collect();
        edges.sort_unstable();
        edges
    }

    /// Level by level: where each machine is.
    fn tree(&self, fanout: usize) -> Vec<Above> {
        let count = self.machines;
        let mut sizes = vec![1; count];
        for i in (1..count).rev() {
            sizes[(i - 1) / fanout] += sizes[i];
        }
        let mut starts = vec![0; count];
        // Where the next machine below each one starts.
        let mut next = vec![1; count];
        let mut places = vec![Above {
            above: 0,
            subtree: 0..count,
        }];
        for i in 1..count {
            let above = (i - 1) / fanout;
            starts[i] = next[above];
            next[above] += sizes[i];
            next[i] = starts[i] + 1;
            places.push(Above {
                above: starts[above],
                subtree: starts[i]..starts[i] + sizes[i],
            });
        }
        places
    }

    fn routes(&self, lab: &mut Lab, plan: &Plan, tree: &[Above], columns: usize) {
        let count = self.machines;
        if matches!(self.kind, Kind::Mesh | Kind::LeafSpine | Kind::Random) {
            let cost = |i| plan.neighbours(i).map(|neighbour| (neighbour, 1)).collect();
            let costs: Vec<Vec<(usize, u64)>> = (0..count).map(cost).collect();
            for i in 0..count {
                let (ranges, default) = table(&ways(&costs, i));
                plan.route(lab, i, &ranges, default);
                if let Some(machine) = lab.machines.get_mut(plan.name(i)) {
                    machine.forward = costs[i].len() > 1;
                }
            }
            return;
        }
        // By number, not by level.
        let mut subtrees = vec![0..0; count];
        for place in tree {
            subtrees[place.subtree.start] = place.subtree.clone();
        }
        for i in 0..count {
            let at = |number: usize| plan.neighbours(i).position(|neighbour| neighbour == number);
            let mut ranges: Vec<(Range<usize>, usize)> = Vec::new();
            let mut default = None;
            let mut towards = |range: Range<usize>, neighbour: Option<usize>| {
                ranges.extend(neighbour.map(|neighbour| (range, neighbour)));
            };
            match self.kind {
                Kind::Line => {
                    default = at(i + 1);
                    match default {
                        Some(_) => towards(0..i, i.checked_sub(1).and_then(at)),
                        None => default = at(i - 1),
                    }
                }
                Kind::Ring => {
                    default = at((i + 1) % count);
                    // The nearer half to the left, round the corner.
                    let left = at((i + count - 1) % count);
                    let half = (count - 1) / 2;
                    towards(i.saturating_sub(half)..i, left);
                    if i < half {
                        towards(count - (half - i)..count, left);
                    }
                }
                Kind::Star | Kind::Tree => {
                    for (place, neighbour) in plan.neighbours(i).enumerate() {
                        match neighbour > i {
                            true => towards(subtrees[neighbour].clone(), Some(place)),
                            false => default = Some(place),
                        }
                    }
                }
                Kind::Grid => {
                    // First along the column, then along the row. The last row may be short: what has no machine
                    // to the south in its own column goes there from its left neighbour.
                    let row = i / columns * columns;
                    let end = (row + columns).min(count);
                    let below = match at(i + columns) {
                        Some(south) => Some(south),
                        None if end < count => i.checked_sub(1).and_then(at),
                        None => None,
                    };
                    towards(0..row, i.checked_sub(columns).and_then(at));
                    towards(row..i, i.checked_sub(1).and_then(at));
                    if i + 1 < end {
                        towards(i + 1..end, at(i + 1));
                    }
                    default = below;
                }
                Kind::Mesh | Kind::LeafSpine | Kind::Random => unreachable!("see above"),
            }
            let leaf = plan.neighbours(i).count() == 1;
            if let Some((_, neighbour)) = ranges.first().filter(|_| leaf && default.is_none()) {
                default = Some(*neighbour);
            }
            if leaf {
                ranges.clear();
            }
            plan.route(lab, i, &ranges, default);
            if !leaf {
                if let Some(machine) = lab.machines.get_mut(plan.name(i)) {
                    machine.forward = true;
                }
            }
        }
    }
}

/// How many neighbours with lower numbers a machine has at most.
fn most_below(edges: &[(usize, usize)], count: usize) -> usize {
    let mut below = vec![0; count];
    for (_, high) in edges {
        below[*high] += 1;
    }
    below.into_iter().max().unwrap_or(0)
}

impl Lab {
    /// Adds what was generated; what is here already comes on top of it.
    pub(crate) fn add(&mut self, generated: Lab) {
        let mut machines = generated.machines;
        for (name, mut own) in std::mem::take(&mut self.machines) {
            if let Some(base) = machines.get_mut(&name) {
                base.host = own.host.or(base.host.take());
                base.image = own.image.or(base.image.take());
                base.root = own.root.or(base.root.take());
                base.filter = own.filter.or(base.filter.take());
                base.forward |= own.forward;
                if !own.rights.is_full() {
                    base.rights = own.rights;
                }
                base.interfaces.extend(own.interfaces);
                base.sysctls.extend(own.sysctls);
                base.files.extend(own.files);
                base.programs.extend(own.programs);
                base.routes.append(&mut own.routes);
                base.setup.append(&mut own.setup);
            } else {
                machines.insert(name, own);
            }
        }
        self.machines = machines;
        let mut wires = generated.wires;
        for (name, own) in std::mem::take(&mut self.wires) {
            let wire = wires.entry(name).or_default();
            wire.settings = wire.settings.with(&own.settings);
            wire.bus = own.bus.or(wire.bus);
            wire.up = own.up.or(wire.up);
            wire.from.extend(own.from);
            wire.uplink = own.uplink.or(wire.uplink.take());
        }
        self.wires = wires;
    }
}

impl Reader {
    pub(crate) fn generate(&mut self, node: &Node) -> Option<Generate> {
        let generate = self.fields(node, "`generate`", |r, f| {
            let kinds = [
                ("line", Kind::Line),
                ("ring", Kind::Ring),
                ("star", Kind::Star),
                ("tree", Kind::Tree),
                ("grid", Kind::Grid),
                ("mesh", Kind::Mesh),
                ("leaf-spine", Kind::LeafSpine),
                ("random", Kind::Random),
            ];
            let kind = r.needed(f, (node, "kind", "line"), |r, n| r.word(n, &kinds));
            let most = MOST;
            let machines = r.needed(f, (node, "machines", "10"), |r, n| r.number(n, 2, most));
            let fanout = r.field(f, "fanout", |r, n| r.number(n, 1, most));
            let columns = r.field(f, "columns", |r, n| r.number(n, 1, most));
            let spines = r.field(f, "spines", |r, n| r.number(n, 1, most));
            let degree = r.field(f, "degree", |r, n| r.number(n, 1, 1000));
            let seed = r.field(f, "seed", |r, n| r.number(n, 0, u64::MAX));
            let name = r.field(f, "name", Reader::text);
            let machine = r.field_or_default(f, "machine", Reader::machine);
            let wire = r.field_or_default(f, "wire", Reader::wire);
            let addresses = r.field(f, "addresses", |r, n| match &n.kind {
                node::Kind::List(_) => r.list(n, Reader::address).map(Addresses::List),
                _ => r.address(n).map(Addresses::One),
            });
            let routes = r.field(f, "routes", |r, n| {
                r.word(n, &[("static", true), ("none", false)])
            });
            Some(Generate {
                kind: kind?,
                machines: machines?,
                fanout,
                columns,
                spines,
                degree,
                seed,
                name,
                machine,
                wire,
                addresses: addresses.unwrap_or_default(),
                routes: Routes::from(routes.unwrap_or(true)),
            })
        });
        generate.flatten()
    }
}
