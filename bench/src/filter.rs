//! What nft rules cost: requests to a filtered server over those to the same server without rules, on Vink
//! with rules as `vink filter` loads them, and on the host.

use std::fs;
use std::process::{Command, Stdio};

use crate::host;
use crate::lab::Lab;
use crate::programs::{read_figure, Pair};
use crate::side::Round;
use crate::BoxError;

/// Numbers of rules, as `vink filter` loads them.
const COUNTS: [usize; 3] = [1, 100, 1000];

/// Rules that no packet of the benchmark meets, and one that all meet.
fn rules(count: usize) -> String {
    let mut text =
        "table inet f {\n  chain c {\n    type filter hook input priority 0; policy drop;\n"
            .to_owned();
    for at in 0..count.saturating_sub(1) {
        text += &format!("    ip saddr 198.18.{}.{} drop\n", at / 250, at % 250);
    }
    text + "    ip saddr 10.0.0.0/24 accept\n  }\n}\n"
}

/// What a side does with rules.
enum Rules {
    None,
    /// Sets where there can be.
    Optimized(usize),
    /// One after the other.
    Listed(usize),
}

/// Ratios of rates: with each number of rules, and with the largest as a list, over none.
fn ratios(
    mut rate: impl FnMut(Rules) -> Result<f64, BoxError>,
) -> Result<Vec<Option<f64>>, BoxError> {
    let mut all = Vec::new();
    let mut ratio = |rules: fn(usize) -> Rules, count: usize| -> Result<f64, BoxError> {
        // Before and after, so that a slow drift of the machine is in neither.
        let before = rate(Rules::None)?;
        let with = rate(rules(count))?;
        let after = rate(Rules::None)?;
        Ok(with / ((before + after) / 2.0))
    };
    for count in COUNTS {
        all.push(Some(ratio(Rules::Optimized, count)?));
    }
    all.push(Some(ratio(Rules::Listed, COUNTS[COUNTS.len() - 1])?));
    Ok(all)
}

/// Vink's: two machines of a lab, redis on one of them.
pub(crate) fn on_vink() -> Result<Round, BoxError> {
    let lab = Lab::up(
        "name: filter
machines:
  a: { interfaces: { eth0: { wire: w, addresses: [10.0.0.1/24] } } }
  b:
    interfaces: { eth0: { wire: w, addresses: [10.0.0.2/24] } }
    programs:
      redis:
        command: exec redis-server --bind 0.0.0.0 --protected-mode no --save ''
        ready: { port: 6379 }
wires: { w: {} }
",
    )?;
    let pair = Pair::new("filter", [10, 0, 0, 2])?;
    let mut has_filter = false;
    Ok(Box::new(move || {
        ratios(|rules_of| {
            if std::mem::take(&mut has_filter) {
                lab.vink(&["filter", "rm", "b"])?;
            }
            lab.vink(&["exec", "b", "--", "nft", "flush", "ruleset"])?;
            match rules_of {
                Rules::None => {}
                Rules::Optimized(count) => {
                    lab.write("rules.nft", &rules(count))?;
                    lab.vink(&["filter", "set", "b", "rules.nft"])?;
                    has_filter = true;
                }
                Rules::Listed(count) => {
                    lab.write("rules.nft", &rules(count))?;
                    lab.vink(&["exec", "b", "--", "nft", "-f", "rules.nft"])?;
                }
            }
            let words: Vec<&str> = ["exec", "a", "--"]
                .into_iter()
                .chain(pair.client.iter().map(String::as_str))
                .collect();
            let output = lab.vink(&words)?;
            read_figure(&pair, &output)
        })
    }))
}

/// The host's: two namespaces.
pub(crate) fn on_the_host() -> Result<Round, BoxError> {
    let path = host::Path::direct()?;
    let pair = Pair::new("filter", [10, 0, 0, 2])?;
    path.enter_server()?;
    let _server = host::Server::start(&pair)?;
    Ok(Box::new(move || {
        let _server = &_server;
        ratios(|rules_of| {
            path.enter_server()?;
            let mut nft = Command::new("nft");
            let file = pair.output();
            match rules_of {
                Rules::None => nft.args(["flush", "ruleset"]),
                Rules::Optimized(count) => {
                    fs::write(&file, rules(count))?;
                    nft.args(["--optimize", "--file"]).arg(&file)
                }
                Rules::Listed(count) => {
                    fs::write(&file, rules(count))?;
                    nft.arg("--file").arg(&file)
                }
            };
            let done = nft.stdin(Stdio::null()).output()?;
            if !done.status.success() {
                let why = String::from_utf8_lossy(&done.stderr).into_owned();
                return Err(format!("nft: {why}").into());
            }
            path.enter_client()?;
            let output = host::command(&pair.client)
                .stderr(Stdio::inherit())
                .output()?;
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            read_figure(&pair, &output)
        })
    }))
}
