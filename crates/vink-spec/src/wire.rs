//! A wire of a lab: what it does to packets in each direction, and the steps by which it changes.

use std::fmt;
use std::mem::discriminant;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{both, colon, keys, why, Object, Phase, Plan};
use crate::check::Check;
use crate::node::Node;
use crate::read::{Fields, Reader};
use crate::{nearest, Lab, Rate, Share, Span, Uplink};

/// What happens to packets that are sent at one end of a wire. What is not named is ideal; with nothing named the
/// wire hands packets over whole. See docs/wires.md.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Bits per second of whole Ethernet frames; packets are sent one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long a packet travels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The travel time varies by up to this much in either direction, evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Whether jitter lets packets overtake each other (default: no).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtake: Option<bool>,
    /// Share of packets lost, each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Losses in bursts, in the place of `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Share of packets in which one bit is turned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
    /// Share of packets that arrive twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Share of packets that are not delayed, and so overtake others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Share>,
    /// How many packets may be on the way at once; more are lost (default: as many as memory allows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The largest packet in bytes, without its Ethernet header, and the MTU of interfaces attached (default 1500).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// Losses by the model of Gilbert and Elliott: a wire is in a good or in a bad state, and changes between them with
/// each packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Burst {
    /// Probability of going from good to bad (p).
    pub start: Share,
    /// Probability of going from bad to good (r).
    pub end: Share,
    /// Share of packets lost in the bad state (1-h; default 100%).
    #[serde(default = "all")]
    pub loss: Share,
    /// Share of packets lost in the good state (1-k; default none).
    #[serde(default)]
    pub good_loss: Share,
}

fn all() -> Share {
    Share(1.0)
}

impl Settings {
    /// These, with what `change` names in the place of what is here. An explicit zero makes a setting ideal again.
    pub fn with(&self, change: &Settings) -> Settings {
        Settings {
            rate: change.rate.or(self.rate),
            delay: change.delay.or(self.delay),
            jitter: change.jitter.or(self.jitter),
            overtake: change.overtake.or(self.overtake),
            loss: change.loss.or(self.loss),
            burst: change.burst.or(match change.loss {
                Some(_) => None,
                None => self.burst,
            }),
            corrupt: change.corrupt.or(self.corrupt),
            duplicate: change.duplicate.or(self.duplicate),
            reorder: change.reorder.or(self.reorder),
            limit: change.limit.or(self.limit),
            mtu: change.mtu.or(self.mtu),
        }
    }

    /// The same without what is said and makes no difference, such as a loss of 0.
    pub fn plain(&self) -> Settings {
        let lossy = |share: &Share| share.0 > 0.0;
        Settings {
            rate: self.rate.filter(|rate| rate.0 > 0),
            delay: self.delay.filter(|delay| delay.0 > 0),
            jitter: self.jitter.filter(|jitter| jitter.0 > 0),
            overtake: self.overtake.filter(|overtake| *overtake),
            loss: self.loss.filter(lossy),
            burst: self
                .burst
                .filter(|burst| lossy(&burst.good_loss) || lossy(&burst.start)),
            corrupt: self.corrupt.filter(lossy),
            duplicate: self.duplicate.filter(lossy),
            reorder: self.reorder.filter(lossy),
            limit: self.limit,
            mtu: self.mtu,
        }
    }
}

/// A wire: what it does to packets, in both directions unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireSpec {
    /// In every direction.
    #[serde(flatten)]
    pub settings: Settings,
    /// An Ethernet segment with any number of ends (default: if it has more than two).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<bool>,
    /// Whether it is plugged in (default: yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// What is different for packets that one end sends, by `machine:interface` (`outside` for the uplink).
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub from: IndexMap<String, Settings>,
    /// Joins it to something outside the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Uplink>,
}

/// What becomes of a wire.
#[derive(Clone, Debug, PartialEq)]
pub enum WireChange {
    /// It goes; nothing is attached to it any more.
    Remove {
        /// Its name.
        wire: String,
        /// It comes again with a later step, because these differ.
        again: Option<String>,
    },
    /// It comes, without ends and without its uplink. What is in `from` is for ends that come later.
    Add {
        /// Its name.
        wire: String,
        /// All of it but its uplink; `bus` is always there.
        spec: Box<WireSpec>,
    },
    /// It does something else to packets, as a whole (`settings`) or at some ends (`from`).
    Set {
        /// Its name.
        wire: String,
        /// As it was.
        old: Box<WireSpec>,
        /// As it becomes; only `settings` and `from` count here.
        new: Box<WireSpec>,
    },
    /// It is plugged in or out.
    Plug {
        /// Its name.
        wire: String,
        /// In.
        up: bool,
    },
}

impl Object for WireChange {
    fn diff(plan: &mut Plan<'_>) {
        let (old, new) = (plan.old, plan.new);
        for (name, was) in &old.wires {
            let again = match new.wires.get(name) {
                None => None,
                Some(is) if plan.again.is_none() && is.bus == was.bus => {
                    changed(plan, name, was, is);
                    continue;
                }
                Some(_) => Some(plan.again.clone().unwrap_or_else(|| "bus".to_owned())),
            };
            plan.wires_gone.insert(name);
            let wire = name.clone();
            plan.step(Phase::WiresGo, WireChange::Remove { wire, again });
        }
        for (name, is) in &new.wires {
            if plan.wire_comes(name) {
                let spec = Box::new(WireSpec {
                    uplink: None,
                    ..is.clone()
                });
                let wire = name.clone();
                plan.step(Phase::Wires, WireChange::Add { wire, spec });
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            WireChange::Remove { wire, .. } => {
                lab.wires.shift_remove(wire);
            }
            WireChange::Add { wire, spec } => {
                lab.wires.insert(wire.clone(), (**spec).clone());
            }
            WireChange::Set { wire, new, .. } => lab.wire(wire, |w| {
                w.settings = new.settings.clone();
                w.from = new.from.clone();
            }),
            WireChange::Plug { wire, up } => {
                lab.wire(wire, |w| w.up = if *up { None } else { Some(false) });
            }
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireChange::Remove { wire, again } => write!(f, "- wire {wire}{}", why(again)),
            WireChange::Add { wire, spec } => {
                write!(f, "+ wire {wire}")?;
                let ideal = (Settings::default(), IndexMap::new());
                let down = (spec.up == Some(false)).then(|| "down".to_owned());
                effects(f, &ideal, &spec.effect(), down)
            }
            WireChange::Set { wire, old, new } => {
                write!(f, "~ wire {wire}")?;
                effects(f, &old.effect(), &new.effect(), None)
            }
            WireChange::Plug { wire, up } => {
                write!(f, "~ wire {wire}: {}", if *up { "up" } else { "down" })
            }
        }
    }
}

/// A wire that stays.
fn changed(plan: &mut Plan<'_>, name: &str, was: &WireSpec, is: &WireSpec) {
    let wire = name.to_owned();
    if was.effect() != is.effect() {
        let (old, new) = (Box::new(was.clone()), Box::new(is.clone()));
        let wire = wire.clone();
        plan.step(Phase::Wires, WireChange::Set { wire, old, new });
    }
    if was.up != is.up {
        let up = is.up != Some(false);
        plan.step(Phase::Wires, WireChange::Plug { wire, up });
    }
}

/// What a wire does otherwise: to the packets of every end, then what differs for single ends.
fn effects(
    f: &mut fmt::Formatter<'_>,
    (old, old_ends): &(Settings, IndexMap<String, Settings>),
    (new, new_ends): &(Settings, IndexMap<String, Settings>),
    more: Option<String>,
) -> fmt::Result {
    let everywhere = settings(old, new);
    colon(f, everywhere.iter().cloned().chain(more).collect())?;
    for (end, was, is) in both(old_ends, new_ends) {
        let Some(is) = is else {
            write!(f, "; from {end}: as the rest")?;
            continue;
        };
        let mut told = settings(was.unwrap_or(old), is);
        told.retain(|told| !everywhere.contains(told));
        if !told.is_empty() {
            write!(f, "; from {end}: {}", told.join(", "))?;
        }
    }
    Ok(())
}

/// What differs, such as `loss 0% -> 1%`.
fn settings(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (keys(old), keys(new));
    let text = |key: &str, value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(parts)) => parts
            .iter()
            .map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(" "),
        Some(value) => value.to_string(),
        None => match key {
            "rate" => "unlimited",
            "delay" | "jitter" => "0ms",
            "overtake" => "false",
            "burst" => "none",
            "limit" => "1000",
            "mtu" => "1500",
            _ => "0%",
        }
        .to_owned(),
    };
    let mut all: Vec<&String> = old.keys().chain(new.keys()).collect();
    all.sort();
    all.dedup();
    all.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .map(|key| {
            let (old, new) = (old.get(key), new.get(key));
            format!("{key} {} -> {}", text(key, old), text(key, new))
        })
        .collect()
}

impl Reader {
    pub(crate) fn wire(&mut self, node: &Node) -> Option<WireSpec> {
        self.fields(node, "a wire", |r, f| WireSpec {
            settings: r.settings(f),
            bus: r.field(f, "bus", Reader::flag),
            up: r.field(f, "up", Reader::flag),
            from: r.field_or_default(f, "from", |r, n| {
                r.named(n, |r, n| {
                    r.fields(n, "one direction of a wire", Reader::settings)
                })
            }),
            uplink: r.field(f, "uplink", Reader::uplink),
        })
    }

    pub(crate) fn settings(&mut self, f: &mut Fields<'_>) -> Settings {
        Settings {
            rate: self.field(f, "rate", Reader::parsed),
            delay: self.field(f, "delay", Reader::parsed),
            jitter: self.field(f, "jitter", Reader::parsed),
            overtake: self.field(f, "overtake", Reader::flag),
            loss: self.field(f, "loss", Reader::parsed),
            burst: self
                .field(f, "burst", |r, n| {
                    r.fields(n, "`burst`", |r, f| {
                        let start = r.needed(f, (n, "start", "1%"), Reader::parsed);
                        let end = r.needed(f, (n, "end", "10%"), Reader::parsed);
                        let loss = r.field(f, "loss", Reader::parsed);
                        let good_loss = r.field(f, "good-loss", Reader::parsed);
                        Some(Burst {
                            start: start?,
                            end: end?,
                            loss: loss.unwrap_or(crate::Share(1.0)),
                            good_loss: good_loss.unwrap_or_default(),
                        })
                    })
                })
                .flatten(),
            corrupt: self.field(f, "corrupt", Reader::parsed),
            duplicate: self.field(f, "duplicate", Reader::parsed),
            reorder: self.field(f, "reorder", Reader::parsed),
            limit: self.field(f, "limit", |r, n| r.number(n, 1, u32::MAX)),
            mtu: self.field(f, "mtu", |r, n| r.number(n, 68, 65_535)),
        }
    }
}

impl<'a> Check<'a> {
    pub(crate) fn wire(&mut self, name: &'a str, spec: &'a WireSpec, ends: &[(&str, &str)]) {
        self.name("a wire", name, false);
        self.places_of_wire(spec, ends);
        let outside = usize::from(spec.uplink.is_some());
        let count = ends.len() + outside;
        if spec.bus == Some(false) && count > 2 {
            let all: Vec<String> = ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
            let uplink = if outside == 1 { " and an uplink" } else { "" };
            let message = format!(
                "`{name}` is not to be a bus and has {count} ends: {}{uplink}",
                all.join(", ")
            );
            let fix = "remove `bus: false`, or use a wire for each pair";
            self.at("bus", |c| c.add(message, fix).key = true);
        }
        if count < 2 && spec.bus != Some(true) {
            let message = match (ends, outside) {
                ([], 0) => format!("nothing is attached to wire `{name}`"),
                ([(machine, interface)], _) => {
                    format!("wire `{name}` has one end only, {machine}:{interface}")
                }
                _ => format!("wire `{name}` has an uplink and no machine"),
            };
            let finding = self.add(
                message,
                format!("name it as the `wire` of another interface: `wire: {name}`"),
            );
            finding.warning = true;
            finding.key = true;
            finding.may_follow = true;
        }
        self.settings(&spec.settings, &spec.settings);
        for (end, settings) in &spec.from {
            self.path.extend(["from".to_owned(), end.clone()]);
            let known: Vec<String> = ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
            let there = match end.as_str() {
                "outside" => outside == 1,
                end => known.iter().any(|known| known == end),
            };
            if !there {
                let fix = match nearest(end, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "attach an interface to it first".to_owned(),
                    None => format!("its ends are {}", known.join(", ")),
                };
                let finding = self.add(format!("`{end}` is not an end of this wire"), fix);
                (finding.key, finding.may_follow) = (true, true);
            }
            self.settings(settings, &spec.settings.with(settings));
            self.path.truncate(self.path.len() - 2);
        }
        if let Some(uplink) = &spec.uplink {
            self.path.push("uplink".to_owned());
            self.uplink(uplink);
            self.path.pop();
        }
    }

    /// `all`: with what is said of the wire elsewhere.
    pub(crate) fn settings(&mut self, own: &Settings, all: &Settings) {
        let zero = |span: Option<crate::Span>| span.is_none_or(|span| span.0 == 0);
        if own.loss.is_some() && own.burst.is_some() {
            let fix = "remove `loss`: `burst` has a `loss` and a `good-loss` of its own";
            self.at("burst", |c| {
                c.add("`loss` and `burst` are both there", fix).key = true
            });
        }
        let touched = own.jitter.is_some() || own.delay.is_some();
        if touched && all.jitter > all.delay && !zero(all.jitter) {
            let fix = "give it a `delay` of at least that, around which it varies";
            let step = if own.jitter.is_some() {
                "jitter"
            } else {
                "delay"
            };
            self.at(step, |c| {
                c.add(
                    "`jitter` is more than `delay`, and no packet arrives before it was sent",
                    fix,
                )
                .key = false
            });
        }
        if own.reorder.is_some_and(|share| share.0 > 0.0) && zero(all.delay) {
            let fix = "give the wire a `delay`, which some packets then don't have";
            self.at("reorder", |c| {
                c.add("without a `delay` there is nothing to overtake", fix)
                    .warning = true
            });
        }
    }

    /// A wire has two sides, each on one computer.
    pub(crate) fn places_of_wire(&mut self, wire: &WireSpec, ends: &[(&str, &str)]) {
        let of_end = |(machine, _): &(&str, &str)| self.lab.machines.get(*machine);
        let mut places: Vec<&Option<String>> =
            ends.iter().filter_map(of_end).map(|it| &it.host).collect();
        places.sort();
        places.dedup();
        let name = |host: &Option<String>| host.clone().unwrap_or("this computer".to_owned());
        if places.len() > 2 {
            let names: Vec<String> = places.iter().map(|host| name(host)).collect();
            let message = format!("a wire of {} computers: {}", names.len(), names.join(", "));
            self.add(
                message,
                "use wires of two, and a machine or a switch between them",
            );
        }
        let Some(uplink) = &wire.uplink else { return };
        if let (2.., Some(Some(host))) = (places.len(), places.last()) {
            let message = format!("a wire with an uplink leads to host {host}, too");
            let fix =
                "give the uplink to a wire of its own, and join both by a machine that forwards";
            self.at("uplink", |c| c.add(message, fix).path.len());
        } else if let (true, Some(Some(host))) = (uplink.driver().is_some(), places.last()) {
            let message =
                format!("a driver process runs on this computer, and the wire is on host {host}");
            let fix = "use an uplink of the worker's own: passt, tap, interface or udp";
            self.at("uplink", |c| c.add(message, fix).path.len());
        }
    }

    /// A wire that only interfaces name is fine; one that only one of them names is likely a slip.
    pub(crate) fn undeclared<'w>(
        &mut self,
        wire: &str,
        ends: &[(&str, &str)],
        known: impl Iterator<Item = &'w str>,
    ) {
        if self.lab.wires.contains_key(wire) {
            return;
        }
        let [(machine, interface)] = ends else {
            let (machine, interface) = ends[0];
            self.path = ["machines", machine, "interfaces", interface, "wire"]
                .map(str::to_owned)
                .to_vec();
            self.name("a wire", wire, false);
            self.path.clear();
            return;
        };
        self.path = ["machines", machine, "interfaces", interface, "wire"]
            .map(str::to_owned)
            .to_vec();
        let fix = match nearest(wire, known.filter(|other| *other != wire)) {
            Some(near) => format!("did you mean `{near}`? If not, add `{wire}: {{}}` to `wires`"),
            None => format!("attach another interface to it, or add `{wire}: {{}}` to `wires`"),
        };
        let message = format!("there is no wire `{wire}`: it is not in `wires`, and no other interface is attached to it");
        self.add(message, fix).may_follow = true;
        self.path.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_the_rest() {
        let old = Settings {
            rate: Some(Rate(1000)),
            loss: Some(Share(0.5)),
            ..Settings::default()
        };
        let change = Settings {
            loss: Some(Share(0.0)),
            ..Settings::default()
        };
        let new = old.with(&change);
        assert_eq!(new.rate, Some(Rate(1000)));
        assert_eq!(new.loss, Some(Share(0.0)));
    }
}
