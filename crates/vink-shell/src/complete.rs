//! What could come next: names, settings, commands and files.

use std::fs;
use std::path::{Path, PathBuf};

use vink_spec::BREAKPOINT_WORDS;

use crate::host::APPS;
use crate::settings::SETTINGS;
use crate::{Definition, COMMANDS};

/// What there is that has a name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Machines with their interfaces.
    pub(crate) machines: Vec<(String, Vec<String>)>,
    /// Wires.
    pub(crate) wires: Vec<String>,
    /// Numbers of programs that run.
    pub(crate) programs: Vec<String>,
    /// What the names of files are relative to.
    pub(crate) folder: PathBuf,
}

impl Names {
    fn machine_names(&self) -> Vec<String> {
        self.machines.iter().map(|(name, _)| name.clone()).collect()
    }

    fn interfaces(&self, machine: &str) -> Vec<String> {
        let machine = self.machines.iter().find(|(name, _)| name == machine);
        machine
            .map(|(_, interfaces)| interfaces.clone())
            .unwrap_or_default()
    }

    fn ends(&self) -> Vec<String> {
        let ends = self.machines.iter().flat_map(|(machine, interfaces)| {
            interfaces
                .iter()
                .map(move |interface| format!("{machine}:{interface}"))
        });
        ends.chain(["outside".to_owned()]).collect()
    }
}

/// What the last word of a line could become, outside of machines or inside of one: where the word
/// begins, and the words that begin like it.
pub fn complete(line: &str, machine: Option<&str>, names: &Names) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = line.split_at(start);
    let before: Vec<&str> = before.split_whitespace().collect();
    let mut found = candidates(&before, word, machine, names);
    found.retain(|candidate| candidate.starts_with(word));
    found.sort();
    found.dedup();
    (start, found)
}

fn some(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn candidates(before: &[&str], word: &str, machine: Option<&str>, names: &Names) -> Vec<String> {
    let inside = machine.is_some();
    let files = || files(&names.folder, word);
    let Some(name) = before.first() else {
        let commands = COMMANDS.iter().filter(|command| command.is_known(inside));
        let mut all: Vec<String> = commands.map(|command| command.name.to_owned()).collect();
        if inside {
            all.extend(some(&APPS));
        }
        return all;
    };
    if Definition::find(name).is_none_or(|command| !command.is_known(inside)) {
        return if inside { files() } else { Vec::new() };
    }
    // With the machine of an interface left out, inside.
    let own = || {
        machine
            .map(|machine| names.interfaces(machine))
            .unwrap_or_default()
    };
    match before {
        ["new"] => some(&["machine", "wire"]),
        ["new", "machine", _, ..] => some(&["forward", "image"]),
        ["new", "wire", _, rest @ ..] => settings(rest, &["bus"]),
        ["delete"] => some(&["interface", "machine", "wire"]),
        ["delete", "wire"] | ["show", "wire"] => names.wires.clone(),
        ["wireup", m, _] if names.machines.iter().any(|(name, _)| name == m) => names.wires.clone(),
        ["wireup", _] if inside && !names.machines.iter().any(|(name, _)| name == before[1]) => {
            names.wires.clone()
        }
        ["wireup" | "wiredown" | "capture", m] | ["delete", "interface", m] => names.interfaces(m),
        ["wireup" | "wiredown"] | ["delete", "interface"] => {
            let mut all = names.machine_names();
            all.extend(own());
            all
        }
        ["connect" | "exec" | "ps" | "addif"] | ["show", "programs" | "machine"] => {
            names.machine_names()
        }
        ["delete", "machine"] => names.machine_names(),
        ["exec", machine, rest @ ..] => candidates(rest, word, Some(machine), names),
        ["break"] => some(&["add", "continue", "disable", "enable", "list", "rm"]),
        ["break", "add"] => {
            let mut all = names.ends();
            all.extend(names.machine_names());
            all.extend(names.wires.iter().cloned());
            all.push("any".to_owned());
            all
        }
        ["break", "continue"] => names.machine_names(),
        ["break", "add", .., "stop"] => some(&["all", "machine"]),
        ["break", "add", ..] => some(&BREAKPOINT_WORDS),
        ["pod"] => some(&["list", "load", "revoke"]),
        ["pod", "load", _] => files(),
        ["path"] => some(&["list", "revoke"]),
        ["filter"] => some(&["check", "counters", "list", "rm", "rollback", "set", "show"]),
        ["filter", "check" | "set", _] => files(),
        ["filter", _] => {
            let mut all = names.ends();
            all.extend(names.machine_names());
            all
        }
        ["capture"] => {
            let mut all = names.machine_names();
            all.push("stop".to_owned());
            all
        }
        ["show"] => {
            let mut all = some(&[
                "machine", "machines", "program", "programs", "wire", "wires",
            ]);
            all.extend(names.machine_names());
            all.extend(names.wires.iter().cloned());
            all
        }
        ["show", "program"] | ["kill" | "wait"] => names.programs.clone(),
        ["wire"] => {
            let mut all = names.wires.clone();
            all.push("set".to_owned());
            all
        }
        ["wire", "set"] => names.wires.clone(),
        ["wire", .., "from"] => names.ends(),
        ["wire", "set", _, rest @ ..] | ["wire", _, rest @ ..] => settings(
            rest,
            if rest.is_empty() {
                &["up", "down"]
            } else {
                &["from"]
            },
        ),
        ["clock"] => some(&["continue", "pause", "speed", "step", "until"]),
        ["clock", "continue"] => some(&["free"]),
        ["clock", "step"] => some(&["call", "event", "packet"]),
        ["clock", "speed"] => some(&["max"]),
        ["errors"] => some(&["continue", "stop"]),
        ["help"] => COMMANDS
            .iter()
            .map(|command| command.name.to_owned())
            .collect(),
        ["app"] => some(&APPS),
        ["save" | "load" | "source"] | ["capture", _, _] => files(),
        _ => Vec::new(),
    }
}

/// A setting's name, unless it is its value's turn.
fn settings(before: &[&str], others: &[&str]) -> Vec<String> {
    let is_setting = |word: &&str| SETTINGS.iter().any(|(name, _)| name == word);
    if before.last().is_some_and(is_setting) {
        return Vec::new();
    }
    let mut all: Vec<String> = SETTINGS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    all.extend(some(others));
    all
}

/// Files whose path begins like this.
fn files(folder: &Path, word: &str) -> Vec<String> {
    let at = word.rfind('/').map_or(0, |at| at + 1);
    let (shown, name) = word.split_at(at);
    let Ok(entries) = fs::read_dir(folder.join(shown)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            // Hidden ones if asked for, and none that would need quotes.
            if (file.starts_with('.') && !name.starts_with('.'))
                || file.contains(char::is_whitespace)
            {
                return None;
            }
            let slash = if entry.path().is_dir() { "/" } else { "" };
            Some(format!("{shown}{file}{slash}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_come() {
        let names = Names {
            machines: vec![
                ("m1".to_owned(), some(&["vx0", "vx1"])),
                ("router".to_owned(), some(&["east"])),
            ],
            wires: some(&["w1", "slow"]),
            programs: some(&["7"]),
            folder: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        };
        for (line, machine, expected) in [
            ("sh", None, &["show"][..]),
            ("ec", Some("m1"), &["echo", "echoserver"]),
            ("ifc", None, &[]),
            ("ifc", Some("m1"), &["ifconfig"]),
            ("new ", None, &["machine", "wire"]),
            ("new wire w2 de", None, &["delay"]),
            ("connect ", None, &["m1", "router"]),
            ("wireup ", None, &["m1", "router"]),
            ("wireup router ", None, &["east"]),
            ("wireup m1 vx0 ", None, &["slow", "w1"]),
            ("wireup ", Some("m1"), &["m1", "router", "vx0", "vx1"]),
            ("wireup vx0 s", Some("m1"), &["slow"]),
            ("wire s", None, &["set", "slow"]),
            ("wire set slow lo", None, &["loss"]),
            ("wire slow u", None, &["up"]),
            ("wire slow loss 1% f", None, &["from"]),
            ("wire slow loss 1% from m1:", None, &["m1:vx0", "m1:vx1"]),
            ("wire slow loss ", None, &[]),
            ("show w", None, &["w1", "wire", "wires"]),
            ("kill ", None, &["7"]),
            ("exec m1 addif r", None, &["router"]),
            ("exec m1 app echos", None, &["echoserver"]),
            ("help wi", None, &["wire", "wiredown", "wireup"]),
            ("save sr", None, &["src/"]),
            ("cat src/comp", Some("m1"), &["src/complete.rs"]),
            ("nonsense x", None, &[]),
        ] {
            let (start, found) = complete(line, machine, &names);
            assert_eq!(found, expected, "{line}");
            assert_eq!(start, line.rfind(' ').map_or(0, |at| at + 1));
        }
    }
}
