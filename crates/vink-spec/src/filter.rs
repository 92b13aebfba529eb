//! Filters: rules for nft(8) that the control process loads (docs/filter.md).

use std::fmt;

use crate::change::{sign, Object, Phase, Plan};
use crate::check::Check;
use crate::interface::{attached, stays, LOOPBACK};
use crate::{inside, FileSpec, Lab, Ruleset, RulesetTable};

/// Rules for nft(8), in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterChange {
    /// A machine, or `machine:interface`.
    pub place: String,
    /// None: they go.
    pub new: Option<FileSpec>,
    /// Whether there were others.
    pub replaces: bool,
}

impl FilterChange {
    fn new(place: String, old: Option<&FileSpec>, new: Option<&FileSpec>) -> FilterChange {
        FilterChange {
            place,
            new: new.cloned(),
            replaces: old.is_some(),
        }
    }
}

impl Object for FilterChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        let mut step = |phase, place: String, old: Option<&FileSpec>, new: Option<&FileSpec>| {
            steps.push((phase, FilterChange::new(place, old, new)));
        };
        for (name, was, is) in plan.machines_that_stay() {
            for (interface, old) in attached(was) {
                // After its interface: nothing passes without it.
                if old.filter.is_some() && !stays(plan, interface, was, is) {
                    let place = format!("{name}:{interface}");
                    step(Phase::InterfacesGo, place, old.filter.as_ref(), None);
                }
            }
            let mut fresh = false;
            for (interface, spec) in &is.interfaces {
                let comes = interface != LOOPBACK && !stays(plan, interface, was, is);
                fresh |= comes;
                let old = was.interfaces.get(interface).filter(|_| !comes);
                let old = old.and_then(|old| old.filter.as_ref());
                if old != spec.filter.as_ref() {
                    let place = format!("{name}:{interface}");
                    step(Phase::Filters, place, old, spec.filter.as_ref());
                }
            }
            // Chains at a device go with it, and have to come again.
            if was.filter != is.filter || fresh && is.filter.is_some() {
                let (old, new) = (was.filter.as_ref(), is.filter.as_ref());
                step(Phase::Filters, name.to_owned(), old, new);
            }
        }
        for (name, is) in plan.machines_that_come() {
            if is.filter.is_some() {
                step(Phase::Filters, name.to_owned(), None, is.filter.as_ref());
            }
            for (interface, spec) in &is.interfaces {
                if spec.filter.is_some() {
                    let place = format!("{name}:{interface}");
                    step(Phase::Filters, place, None, spec.filter.as_ref());
                }
            }
        }
        for (phase, step) in steps {
            plan.step(phase, step);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        match self.place.split_once(':') {
            None => lab.machine(&self.place, |m| m.filter = self.new.clone()),
            Some((machine, interface)) => lab.machine(machine, |m| {
                if let Some(interface) = m.interfaces.get_mut(interface) {
                    interface.filter = self.new.clone();
                }
            }),
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = sign(&self.new, self.replaces);
        write!(f, "{sign} filter of {}", self.place)
    }
}

impl<'a> Check<'a> {
    /// What can be known of a filter's rules without nft(8). `others`: the tables that filters of the
    /// machine have declared so far.
    pub(crate) fn filter(
        &mut self,
        spec: &'a FileSpec,
        (machine, interface): (&str, Option<&str>),
        others: &mut Vec<RulesetTable>,
    ) {
        if interface == Some("lo") {
            let fix = "give it to the machine: rules there can name `lo`";
            self.add("`lo` has no filter of its own", fix).key = true;
            return;
        }
        let (read, file) = match spec {
            FileSpec::Text(text) => (Ruleset::read(text, machine, interface), None),
            FileSpec::From { from } => {
                self.at("from", |c| c.inside(from, Some(false)));
                let found = self.folder.and_then(|folder| inside(folder, from).ok());
                let Some(path) = found.filter(|path| !path.is_dir()) else {
                    return;
                };
                match crate::read_text_file(&path, crate::LARGEST_FILE) {
                    Err(error) => {
                        let fix = "write the path of a text for nft(8)";
                        self.add(format!("`{from}` can't be read: {error}"), fix);
                        return;
                    }
                    Ok(text) => (Ruleset::read(&text, machine, interface), Some(from)),
                }
            }
        };
        match (read, file) {
            (Err(error), None) => drop(self.add(format!("the rules, {error}"), error.fix)),
            (Err(error), Some(from)) => {
                let (line, message) = (error.line, error.message);
                self.add(format!("{from}:{line}: {message}"), error.fix);
            }
            (Ok(read), _) => {
                if let Some(table) = read.tables.iter().find(|table| others.contains(table)) {
                    let fix = format!("give it another name, such as `{table}-2`, or with {{{{interface}}}} in it");
                    self.add(
                        format!("another filter of {machine} has table {table}"),
                        fix,
                    );
                }
                others.extend(read.tables);
            }
        }
    }
}
