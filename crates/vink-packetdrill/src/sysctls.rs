//! What a script's commands have set: files below `/proc/sys/net` that differ from before.
//!
//! packetdrill runs a script's first commands (`sysctl -q net.ipv4.tcp_sack=0`) as programs of their own, after it
//! has initialised this library and before the first event. They speak to the kernel that packetdrill's process is on:
//! a machine under `vink packetdrill`, and otherwise the host's network namespace. What they have changed there is
//! changed here, too.

use std::collections::BTreeMap;
use std::fs;

/// Where the files of the whole network are; what there is for each interface is left alone.
const FOLDERS: [&str; 4] = ["core", "ipv4", "ipv6", "mptcp"];

/// The files that can be read, by their names below `/proc/sys`, and what is in them.
pub(crate) struct Snapshot(BTreeMap<String, Vec<u8>>);

impl Snapshot {
    /// Of the process's own network. What can't be read is not in it.
    pub(crate) fn take() -> Snapshot {
        let mut files = BTreeMap::new();
        for folder in FOLDERS {
            let name = format!("net/{folder}");
            let Ok(entries) = fs::read_dir(format!("/proc/sys/{name}")) else {
                continue;
            };
            for entry in entries.flatten() {
                // A folder can't be read either.
                if let Ok(text) = fs::read(entry.path()) {
                    files.insert(
                        format!("{name}/{}", entry.file_name().to_string_lossy()),
                        text,
                    );
                }
            }
        }
        Snapshot(files)
    }

    /// What is not as it was in `before`: names and values.
    pub(crate) fn since<'a>(
        &'a self,
        before: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a str, String)> {
        let changed = |name: &str, text: &[u8]| before.0.get(name).map(Vec::as_slice) != Some(text);
        let new = self
            .0
            .iter()
            .filter(move |(name, text)| changed(name, text));
        new.map(|(name, text)| {
            (
                name.as_str(),
                String::from_utf8_lossy(text).trim_end().to_owned(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_has_changed() {
        let of = |pairs: &[(&str, &str)]| {
            Snapshot(
                pairs
                    .iter()
                    .map(|(n, v)| (n.to_string(), v.as_bytes().to_vec()))
                    .collect(),
            )
        };
        let before = of(&[("net/ipv4/a", "1\n"), ("net/ipv4/b", "2\n")]);
        let after = of(&[
            ("net/ipv4/a", "1\n"),
            ("net/ipv4/b", "3\t4\n"),
            ("net/ipv4/c", "5\n"),
        ]);
        let changed: Vec<_> = after.since(&before).collect();
        assert_eq!(
            changed,
            [
                ("net/ipv4/b", "3\t4".to_owned()),
                ("net/ipv4/c", "5".to_owned())
            ]
        );
    }

    #[test]
    fn takes_those_of_the_host() {
        assert!(Snapshot::take().0.contains_key("net/ipv4/ip_default_ttl"));
    }
}
