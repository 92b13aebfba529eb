//! Filters: nft rules of machines and interfaces, loaded by the control process in one transaction.
//!
//! Stock nft(8) runs on the machine as a program of the control process's own. Its input is one
//! batch: the tables of the version in force go, those of the new version come. The kernel commits
//! a batch as a whole, between two packets, or not at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use vink_api::{Filter, FilterCounter, FilterRules, FilterVersion, NewFilter, Rollback};
use vink_spec::{
    nft_messages, Change, FileSpec, FilterChange, InterfaceChange, MachineChange, Rights, Ruleset,
    RulesetTable, WITH_SBIN,
};

use super::lab::{Lab, State};
use crate::http_error::HttpError;

/// Versions of a place that can be returned to.
const MAX_VERSIONS: usize = 32;
/// Bytes of nft's output that are kept. A listing of a table with 100,000 elements has some 4 MB.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// Bytes of nft's messages in an error.
const MAX_SHOWN: usize = 2000;

/// The filters of a lab by place, those in force and earlier ones.
#[derive(Default)]
pub(crate) struct Filters(BTreeMap<String, PlaceFilters>);

#[derive(Default)]
struct PlaceFilters {
    /// Oldest first.
    versions: Vec<FilterVersion>,
    in_force: Option<Filter>,
}

impl Filters {
    /// The kernel of these machines is gone, and their rules with it.
    pub(crate) fn lost(&mut self, is_lost: impl Fn(&str) -> bool) {
        for (place, filters) in &mut self.0 {
            if is_lost(machine_of(place)) {
                filters.in_force = None;
            }
        }
    }

    /// A machine is no more.
    pub(crate) fn forget(&mut self, machine: &str) {
        self.0.retain(|place, _| machine_of(place) != machine);
    }

    /// The tables that a place has in force.
    fn tables(&self, place: &str) -> &[RulesetTable] {
        let filters = self.0.get(place).and_then(|f| f.in_force.as_ref());
        filters.map_or(&[], |filter| &filter.tables)
    }

    /// Which other place of the same machine has one of these tables.
    fn other(&self, place: &str, tables: &[RulesetTable]) -> Option<(&str, &RulesetTable)> {
        let others = self
            .0
            .iter()
            .filter(|(other, _)| *other != place && machine_of(other) == machine_of(place));
        others
            .filter_map(|(other, f)| Some((other, f.in_force.as_ref()?)))
            .find_map(|(other, filter)| {
                let table = filter.tables.iter().find(|table| tables.contains(table))?;
                Some((other.as_str(), table))
            })
    }
}

/// `machine` of `machine:interface`.
pub(super) fn machine_of(place: &str) -> &str {
    place.split_once(':').map_or(place, |(machine, _)| machine)
}

/// What becomes of rules that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Check,
    Load,
}

/// What nft said of a batch.
struct Loaded {
    tables: Vec<RulesetTable>,
    optimized: bool,
}

impl State {
    /// Whether there is such a place in the lab.
    fn place(&self, lab: &str, place: &str) -> Result<(), HttpError> {
        self.machine(lab, machine_of(place))?;
        match place.split_once(':') {
            Some((_, "lo")) => Err(HttpError::invalid("`lo` has no filter of its own")
                .hint("give it to the machine: rules there can name `lo`")),
            Some((machine, interface)) => self.interface(machine, interface).map(drop),
            None => Ok(()),
        }
    }
}

impl Lab {
    /// All filters in force.
    pub(crate) fn filters(&self) -> Vec<Filter> {
        let state = self.state();
        let all = state.rulesets.0.values();
        all.filter_map(|filters| filters.in_force.clone()).collect()
    }

    /// Checks rules, or has them in the place of those in force.
    pub(crate) async fn put_filter(
        self: &Arc<Lab>,
        place: &str,
        new: NewFilter,
    ) -> Result<Filter, HttpError> {
        let _one = self.changing.lock().await;
        self.state().place(&self.name, place)?;
        let name = new.file.as_deref().unwrap_or("the rules");
        if new.check {
            let checked = self
                .batch(place, Some((&new.text, name)), Mode::Check)
                .await?;
            let next = self.state().rulesets.0.get(place).map_or(0, last_number) + 1;
            return Ok(Filter {
                place: place.to_owned(),
                version: next,
                file: new.file,
                tables: checked.tables,
                optimized: checked.optimized,
                time: now(),
            });
        }
        self.load(place, &new.text, new.file.clone()).await?;
        let step = Change::Filter(FilterChange {
            place: place.to_owned(),
            new: Some(FileSpec::Text(new.text)),
            replaces: true,
        });
        self.commit(&step, true);
        self.filter_in_force(place)
    }

    /// Removes the rules of a place.
    pub(crate) async fn remove_filter(self: &Arc<Lab>, place: &str) -> Result<(), HttpError> {
        let _one = self.changing.lock().await;
        self.filter_in_force(place)?;
        let step = Change::Filter(FilterChange {
            place: place.to_owned(),
            new: None,
            replaces: true,
        });
        self.reconcile(vec![step], true).await
    }

    /// Returns to an earlier version, which gets a new number.
    pub(crate) async fn roll_back(
        self: &Arc<Lab>,
        place: &str,
        to: Rollback,
    ) -> Result<Filter, HttpError> {
        let found = {
            let state = self.state();
            state.place(&self.name, place)?;
            let none = Vec::new();
            let filters = state.rulesets.0.get(place);
            let versions = filters.map_or(&none, |filters| &filters.versions);
            let now = filters.and_then(|f| f.in_force.as_ref());
            let now = now.map_or(u64::MAX, |filter| filter.version);
            let found = match to.version {
                Some(number) => versions.iter().find(|version| version.version == number),
                None => versions.iter().rev().find(|version| version.version < now),
            };
            found.cloned().ok_or_else(|| {
                let error = match to.version {
                    Some(number) => format!("the filter of {place} has no version {number}"),
                    None => format!("the filter of {place} has no earlier version"),
                };
                let known: Vec<String> = versions.iter().map(|v| v.version.to_string()).collect();
                HttpError::conflict(error).hint(match known.is_empty() {
                    true => "vink filter set gives it rules".to_owned(),
                    false => format!("there are {}", known.join(", ")),
                })
            })?
        };
        let new = NewFilter {
            text: found.text,
            file: Some(format!("version {}", found.version)),
            check: false,
        };
        self.put_filter(place, new).await
    }

    /// A filter with what the kernel has of it.
    pub(crate) async fn filter(self: &Arc<Lab>, place: &str) -> Result<FilterRules, HttpError> {
        let filter = self.filter_in_force(place)?;
        let mut listing = String::new();
        let mut counters = Vec::new();
        for table in &filter.tables {
            let words = ["list", "table", &table.family, &table.name];
            let text = match self.nft(place, &words, "").await? {
                (0, text) => text,
                (_, why) => return Err(self.failed(place, "listing its rules", &why)),
            };
            counters_of(table, &text, &mut counters);
            listing += &text;
        }
        let state = self.state();
        let versions = state.rulesets.0.get(place).map(|f| f.versions.clone());
        let versions = versions.unwrap_or_default();
        let of = |version: &&FilterVersion| version.version == filter.version;
        let text = versions.iter().find(of).map(|version| version.text.clone());
        Ok(FilterRules {
            text: text.unwrap_or_default(),
            filter,
            listing,
            counters,
            versions,
        })
    }

    fn filter_in_force(&self, place: &str) -> Result<Filter, HttpError> {
        let state = self.state();
        state.place(&self.name, place)?;
        let filters = &state.rulesets.0;
        let found = filters.get(place).and_then(|f| f.in_force.clone());
        found.ok_or_else(|| {
            let all = filters.iter().filter(|(_, f)| f.in_force.is_some());
            let places = all.map(|(place, _)| place.as_str());
            HttpError::no("filter of", place, places, "with a filter")
        })
    }

    /// Carries out a step of a lab's file.
    pub(super) async fn carry_out_filter(
        self: &Arc<Lab>,
        place: &str,
        new: Option<&FileSpec>,
    ) -> Result<(), HttpError> {
        match new {
            None => {
                // The kernel may have lost them already, with a worker.
                if !self.state().rulesets.tables(place).is_empty() {
                    self.batch(place, None, Mode::Load).await?;
                }
                if let Some(filters) = self.state().rulesets.0.get_mut(place) {
                    filters.in_force = None;
                }
                Ok(())
            }
            Some(spec) => {
                let text = self.text_of(&format!("filter of {place}"), spec)?;
                let file = match spec {
                    FileSpec::From { from } => Some(from.clone()),
                    FileSpec::Text(_) => None,
                };
                self.load(place, &text, file).await
            }
        }
    }

    /// Has rules in force, and writes them down as a version.
    async fn load(
        self: &Arc<Lab>,
        place: &str,
        text: &str,
        file: Option<String>,
    ) -> Result<(), HttpError> {
        let name = file.as_deref().unwrap_or("the rules");
        let loaded = self.batch(place, Some((text, name)), Mode::Load).await?;
        let mut state = self.state();
        let filters = state.rulesets.0.entry(place.to_owned()).or_default();
        // What a worker that was started again gets back is no new version.
        let is_same = filters
            .versions
            .last()
            .is_some_and(|last| last.text == text);
        if !is_same {
            filters.versions.push(FilterVersion {
                version: last_number(filters) + 1,
                file,
                time: now(),
                text: text.to_owned(),
            });
            let most = filters.versions.len().saturating_sub(MAX_VERSIONS);
            filters.versions.drain(..most);
        }
        let last = filters.versions.last().expect("one was added");
        filters.in_force = Some(Filter {
            place: place.to_owned(),
            version: last.version,
            file: last.file.clone(),
            tables: loaded.tables,
            optimized: loaded.optimized,
            time: last.time,
        });
        Ok(())
    }

    /// One transaction: what is in force at the place goes, and these rules come, if there are any,
    /// with the name that messages have for them.
    async fn batch(
        self: &Arc<Lab>,
        place: &str,
        rules: Option<(&str, &str)>,
        mode: Mode,
    ) -> Result<Loaded, HttpError> {
        let name = rules.map_or("the rules", |(_, name)| name);
        let (machine, interface) = match place.split_once(':') {
            Some((machine, interface)) => (machine, Some(interface)),
            None => (place, None),
        };
        let read = match rules {
            None => None,
            Some((text, _)) => {
                let read = Ruleset::read(text, machine, interface);
                Some(read.map_err(|error| {
                    let (line, message) = (error.line, error.message);
                    HttpError::invalid(format!("{name}:{line}: {message}")).hint(error.fix)
                })?)
            }
        };
        let tables = read.as_ref().map_or(Vec::new(), |read| read.tables.clone());
        let old = {
            let state = self.state();
            if let Some((other, table)) = state.rulesets.other(place, &tables) {
                let error = format!("{name}: table {table} is of the filter of {other}");
                return Err(HttpError::conflict(error)
                    .hint("give the table another name, or one with {{interface}} in it"));
            }
            state.rulesets.tables(place).to_vec()
        };
        let own = self.own_tables(place, &old, &tables).await?;
        if let Some(table) = own {
            let error = format!("{name}: machine {machine} has a table {table} of its own");
            return Err(HttpError::conflict(error).hint(format!(
                "give the filter's table another name, or remove that one: nft delete table {table}"
            )));
        }
        // On the first line, so that nft's messages have the lines of the file.
        let gone = |table: &RulesetTable| format!("table {table}; delete table {table}; ");
        let prefix: String = old.iter().map(gone).collect();
        let batch = prefix.clone() + read.as_ref().map_or("", |read| &read.text) + "\n";
        let check: &[&str] = match mode {
            Mode::Check => &["--check"],
            Mode::Load => &[],
        };
        // nft 1.0 refuses some lists as sets that it takes as rules. What it says of the rules as
        // they are written is what the user is told.
        if read.is_some() {
            let words: Vec<&str> = [check, &["--optimize", "--file", "-"]].concat();
            if let (0, _) = self.nft(place, &words, &batch).await? {
                return Ok(Loaded {
                    tables,
                    optimized: true,
                });
            }
        }
        let words: Vec<&str> = [check, &["--file", "-"]].concat();
        match self.nft(place, &words, &batch).await? {
            (0, _) => Ok(Loaded {
                tables,
                optimized: false,
            }),
            (_, why) => Err(self.failed(place, "nft", &nft_messages(&why, name, prefix.len()))),
        }
    }

    /// One of these tables that the machine has, and no filter.
    async fn own_tables(
        self: &Arc<Lab>,
        place: &str,
        old: &[RulesetTable],
        new: &[RulesetTable],
    ) -> Result<Option<RulesetTable>, HttpError> {
        let new: Vec<&RulesetTable> = new.iter().filter(|table| !old.contains(table)).collect();
        if new.is_empty() {
            return Ok(None);
        }
        let listed = match self.nft(place, &["list", "tables"], "").await? {
            (0, text) => text,
            (_, why) => return Err(self.failed(place, "listing its tables", &why)),
        };
        let has = |table: &&&RulesetTable| {
            let line = format!("table {table}");
            listed.lines().any(|listed| listed == line)
        };
        Ok(new.iter().find(has).map(|table| (*table).clone()))
    }

    fn failed(&self, place: &str, what: &str, why: &str) -> HttpError {
        let why = why.trim_end();
        let mut shown: String = why.chars().take(MAX_SHOWN).collect();
        if shown.len() < why.len() {
            shown += "...";
        }
        let machine = machine_of(place);
        HttpError::invalid(format!("machine {machine}: {what}: {shown}"))
    }

    /// Runs nft(8) on the machine of a place: its status, and what it wrote.
    async fn nft(
        self: &Arc<Lab>,
        place: &str,
        words: &[&str],
        input: &str,
    ) -> Result<(i32, String), HttpError> {
        let all = WITH_SBIN.iter().chain(&["nft"]).chain(words);
        let words = all.map(|word| (*word).to_owned()).collect();
        let machine = machine_of(place);
        // Whatever the machine's own programs may.
        let all = Some(Rights::Full);
        let run = self.run_own(machine, words, all, input.as_bytes(), MAX_OUTPUT_BYTES);
        let (code, output) = run.await?;
        let output = String::from_utf8_lossy(&output).into_owned();
        match code {
            126 | 127 => Err(self
                .failed(place, "nft(8)", &output)
                .hint("apt-get install nftables")),
            code => Ok((code, output)),
        }
    }

    /// Steps that carry filters within them, with the filters as steps of their own.
    pub(super) fn with_filters(&self, steps: Vec<Change>) -> Vec<Change> {
        let gone = |step: &Change| match step {
            Change::Filter(FilterChange {
                place, new: None, ..
            }) => Some(place.clone()),
            _ => None,
        };
        let said: HashSet<String> = steps.iter().filter_map(gone).collect();
        let mut all = Vec::with_capacity(steps.len());
        for step in steps {
            let mut later = Vec::new();
            let mut add = |place: String, filter: &mut Option<FileSpec>| {
                later.extend(filter.take().map(|filter| {
                    Change::Filter(FilterChange {
                        place,
                        new: Some(filter),
                        replaces: false,
                    })
                }));
            };
            let step = match step {
                Change::Machine(MachineChange::Add { machine, mut spec }) => {
                    add(machine.clone(), &mut spec.filter);
                    for (interface, its) in &mut spec.interfaces {
                        add(format!("{machine}:{interface}"), &mut its.filter);
                    }
                    Change::Machine(MachineChange::Add { machine, spec })
                }
                Change::Interface(InterfaceChange::Add {
                    machine,
                    interface,
                    mut spec,
                }) => {
                    add(format!("{machine}:{interface}"), &mut spec.filter);
                    Change::Interface(InterfaceChange::Add {
                        machine,
                        interface,
                        spec,
                    })
                }
                Change::Interface(InterfaceChange::Remove { machine, interface }) => {
                    let place = format!("{machine}:{interface}");
                    let has = !self.state().rulesets.tables(&place).is_empty();
                    // After the interface: nothing passes without it.
                    if has && !said.contains(&place) {
                        later.push(Change::Filter(FilterChange {
                            place,
                            new: None,
                            replaces: true,
                        }));
                    }
                    Change::Interface(InterfaceChange::Remove { machine, interface })
                }
                step => step,
            };
            all.push(step);
            all.append(&mut later);
        }
        all
    }
}

fn last_number(filters: &PlaceFilters) -> u64 {
    filters.versions.last().map_or(0, |last| last.version)
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |time| time.as_secs_f64())
}

/// The rules that count and the named counters in a listing of `nft list table`.
fn counters_of(table: &RulesetTable, listing: &str, all: &mut Vec<FilterCounter>) {
    let (mut chain, mut named) = (None, None);
    for line in listing.lines().map(str::trim) {
        if let Some(name) = opened(line, "chain ") {
            (chain, named) = (Some(name), None);
        } else if let Some(name) = opened(line, "counter ") {
            (chain, named) = (None, Some(name));
        } else if line == "}" {
            (chain, named) = (None, None);
        } else if let Some((rule, packets, bytes)) = counted(line) {
            let rule = match (&chain, &named) {
                (Some(_), _) => rule,
                (None, Some(name)) => name.clone(),
                (None, None) => continue,
            };
            all.push(FilterCounter {
                table: table.clone(),
                chain: chain.clone(),
                rule,
                packets,
                bytes,
            });
        }
    }
}

/// The name of what a line opens.
fn opened(line: &str, kind: &str) -> Option<String> {
    let name = line.strip_prefix(kind)?.strip_suffix('{')?.trim();
    (!name.is_empty() && !name.contains(' ')).then(|| name.to_owned())
}

/// A line with `packets N bytes N`: what is left without it, and both numbers.
fn counted(line: &str) -> Option<(String, u64, u64)> {
    let (before, rest) = match line.split_once("counter packets ") {
        Some(found) => found,
        None => ("", line.strip_prefix("packets ")?),
    };
    let mut words = rest.splitn(4, ' ');
    let packets = words.next()?.parse().ok()?;
    let bytes = words.nth(1)?.parse().ok()?;
    let after = words.next().unwrap_or("");
    Some((format!("{before}{after}").trim().to_owned(), packets, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found() {
        let table = RulesetTable {
            family: "inet".to_owned(),
            name: "web".to_owned(),
        };
        let listing = "table inet web {\n\tcounter lost {\n\t\tpackets 3 bytes 180\n\t}\n\n\tset s {\n\t\ttype ipv4_addr\n\t}\n\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\ttcp dport 80 counter packets 12 bytes 720 accept\n\t\tcounter packets 1 bytes 60\n\t}\n}\n";
        let mut all = Vec::new();
        counters_of(&table, listing, &mut all);
        let told: Vec<String> = all
            .iter()
            .map(|c| {
                format!(
                    "{:?} {} {} {}",
                    c.chain.as_deref().unwrap_or(""),
                    c.rule,
                    c.packets,
                    c.bytes
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "\"\" lost 3 180",
                "\"input\" tcp dport 80 accept 12 720",
                "\"input\"  1 60"
            ]
        );
    }
}
