//! Other computers on which machines of a lab run.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::{nearest, MachineSpec, Time};

/// A computer, and the way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostSpec {
    /// Its name for ssh(1), as in `ssh NAME`: `lab2`, `user@10.0.0.7`, `ssh://user@lab2:2222`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// In the place of `ssh`: a program and its arguments, before the words that start `vink` there, such as
    /// [kubectl, exec, -i, POD, --].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where vink is there (default: vink, on the path).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vink: Option<String>,
    /// Its address for packets of wires (default: the one that ssh has reached it by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub address: Option<IpAddr>,
    /// The first UDP port for wires there: each takes the next one that is free (default: any).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Reader {
    pub(crate) fn host(&mut self, node: &Node) -> Option<HostSpec> {
        self.fields(node, "a host", |r, f| HostSpec {
            ssh: r.field(f, "ssh", Reader::text),
            command: r.field_or_default(f, "command", |r, n| r.list(n, Reader::text)),
            vink: r.field(f, "vink", Reader::text),
            address: r.field(f, "address", Reader::parsed),
            port: r.field(f, "port", |r, n| r.number(n, 1, u16::MAX)),
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn host(&mut self, name: &str, spec: &HostSpec) {
        self.name("a host", name, false);
        let (message, fix) = match (&spec.ssh, spec.command.first()) {
            (None, None) => (
                "nothing says how this host is reached",
                "write `ssh: NAME`, as in `ssh NAME`, or `command:` with a list of words that lead there",
            ),
            (Some(_), Some(_)) => ("a host has one way to it", "leave `ssh` or `command` out"),
            (Some(name), None) if name.is_empty() || name.starts_with('-') => (
                "this is no name for ssh",
                "write it as in `ssh NAME`: lab2, user@10.0.0.7",
            ),
            (None, Some(program)) if program.is_empty() => {
                ("the command has no program", "write its name first")
            }
            _ => return,
        };
        self.add(message, fix);
    }

    /// What can't be on another computer.
    pub(crate) fn place(&mut self, spec: &MachineSpec) {
        let Some(host) = &spec.host else { return };
        let hosts = &self.lab.hosts;
        if !hosts.contains_key(host) {
            let fix = match nearest(host, hosts.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "say how it is reached, in the lab's `hosts`: {{{host}: {{ssh: {host}}}}}"
                ),
            };
            self.at("host", |c| {
                c.add(format!("there is no host `{host}` in this lab"), fix)
                    .may_follow = true;
            });
        }
        if self.lab.time != Time::Real {
            self.at("host", |c| {
                let message = format!(
                    "a clock of the lab's own is the clock of one kernel, and host {host} has another"
                );
                c.add(message, "leave `host` out, or say `time: real`");
            });
        }
        if spec.root.is_some() {
            self.at("root", |c| {
                let message = format!("the lab's folder is not on host {host}");
                c.add(message, "give the machine `files`, or leave `host` out");
            });
        }
    }
}
