//! Other computers on which machines of a lab run.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
