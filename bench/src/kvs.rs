//! A key-value store behind a switch and its filter: redis and redis-benchmark, each with a stack of its own,
//! beside the same programs in network namespaces at a bridge of the host with the same rules.
//!
//! Of the rows `kvs_x1_p1`, `kvs_x1_p16` and `kvs_x4` both programs have their stack in their own process, and
//! the filter is at the server's port, where the server cannot change it. `kvs_x4` are four servers: on Vink
//! behind one address, on the host with an address each, whose rates are added up. Each has a client of its
//! own. Of `kvs_x1_auto` server and client are machines of a lab, and the filter is in the server's stack; of
//! `kvs_x1_auto_workers` each of them is in a worker of its own.
//!
//! On both sides the scheduler says which processor a program is on. The nine processes of Vink's `kvs_x4` do not
//! spin while they wait, since each processor has several of them.

use std::process::{Child, Stdio};
use std::time::Instant;

use crate::host::{self, Bridged, Server};
use crate::lab::Lab;
use crate::programs::{in_front, read_figure, Directory, Pair};
use crate::side::Round;
use crate::BoxError;

/// Servers of `kvs_x4`.
const INSTANCES: u8 = 4;
/// The Ethernet address of the group.
const GROUP: &str = "02:00:00:00:00:64";

/// Rules at a server's port: requests of clients to redis, and its answers.
pub(crate) fn rules(port: &str, address: [u8; 4]) -> String {
    let address = text(address);
    format!(
        "table netdev guard-{port} {{
  chain from {{
    type filter hook ingress device {port} priority 0; policy drop;
    ip saddr {address} tcp sport 6379 accept
    meta protocol arp accept
  }}
  chain to {{
    type filter hook egress device {port} priority 0; policy drop;
    ip saddr 10.0.0.0/24 tcp dport 6379 accept
    meta protocol arp accept
  }}
}}
"
    )
}

pub(crate) fn text(address: [u8; 4]) -> String {
    address.map(|byte| byte.to_string()).join(".")
}

/// Servers of a benchmark.
fn count(group: &str) -> u8 {
    match group {
        "kvs_x4" => INSTANCES,
        _ => 1,
    }
}

/// A client's and a server's address.
pub(crate) fn client(number: u8) -> [u8; 4] {
    [10, 0, 0, 1 + number]
}

pub(crate) fn server(number: u8) -> [u8; 4] {
    [10, 0, 0, 100 + number]
}

/// Vink's side.
pub(crate) fn on_vink(group: &str) -> Result<Round, BoxError> {
    if group == "kvs_x1_auto" {
        return on_machines();
    }
    let count = count(group);
    let wires = Directory::new()?;
    let wire = |name: &str| format!("wire:{}", wires.path().join(name).display());
    let mut file = "name: kvs\nswitches:\n  sw:\n    ports:\n".to_owned();
    let mut uplinks = "wires:\n".to_owned();
    for number in 0..count {
        let at = text(client(number));
        file += &format!("      c{number}: {{ wire: c{number}, addresses: [{at}] }}\n");
        let at = text(server(0));
        file += &format!(
            "      s{number}: {{ wire: s{number}, group: kvs, mac: \"{GROUP}\", addresses: [{at}] }}\n"
        );
        for name in [format!("c{number}"), format!("s{number}")] {
            uplinks += &format!("  {name}: {{ uplink: \"{}\" }}\n", wire(&name));
        }
    }
    let lab = Lab::up(&(file + &uplinks))?;
    let vink = host::own("vink")?;
    let mut pairs = Vec::new();
    let mut servers = Vec::new();
    for number in 0..count {
        let port = format!("s{number}");
        lab.write("rules.nft", &rules(&port, server(0)))?;
        lab.vink(&["filter", "set", &format!("sw:{port}"), "rules.nft"])?;
        let mut pair = Pair::new(group, server(0))?;
        in_front(
            &mut pair.server,
            &vink,
            &wire(&port),
            server(0),
            Some(GROUP),
        );
        let port = format!("c{number}");
        in_front(&mut pair.client, &vink, &wire(&port), client(number), None);
        if count > 1 {
            for words in [&mut pair.server, &mut pair.client] {
                words.splice(0..0, ["env", "VINK_SPIN=0"].map(str::to_owned));
            }
        }
        servers.push(Server::start(&pair)?);
        pairs.push(pair);
    }
    Ok(Box::new(move || {
        // They end with this, and so does the lab.
        let _ = (&lab, &servers, &wires);
        rate(&pairs, |_| Ok(()))
    }))
}

/// The lab of `kvs_x1_auto`.
const LAB: &str = "name: kvs
machines:
  client:
    interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24] } }
  server:
    rights: user
    interfaces: { eth0: { switch: sw, addresses: [10.0.0.100/24] } }
    filter: |
      table inet guard {
        chain input { type filter hook input priority 0; policy drop; ip saddr 10.0.0.0/24 tcp dport 6379 accept; }
        chain output { type filter hook output priority 0; policy drop; ip saddr 10.0.0.100 tcp sport 6379 accept; }
      }
    programs:
      redis:
        command: exec redis-server --bind 0.0.0.0 --protected-mode no --save ''
        ready: { port: 6379 }
switches: { sw: {} }
";

/// Vink's, in a lab: trapped calls, and the filter in the server's own stack. First both machines are where a lab
/// puts them, in one worker beside the switch's; then each is in a worker of its own.
fn on_machines() -> Result<Round, BoxError> {
    let pair = Pair::new("kvs_x1_auto", server(0))?;
    let apart = ["client", "server"]
        .iter()
        .fold(LAB.to_owned(), |lab, name| {
            let machine = format!("  {name}:\n");
            lab.replace(&machine, &format!("{machine}    worker: {name}\n"))
        });
    let labs = [Lab::up(LAB)?, Lab::up(&apart)?];
    Ok(Box::new(move || {
        let words: Vec<&str> = ["exec", "client", "--"]
            .into_iter()
            .chain(pair.client.iter().map(String::as_str))
            .collect();
        let rate = |lab: &Lab| Ok(Some(read_figure(&pair, &lab.vink(&words)?)?));
        labs.iter().map(rate).collect()
    }))
}

/// The host's side.
pub(crate) fn on_the_host(group: &str) -> Result<Round, BoxError> {
    let count = count(group);
    let figures = if group == "kvs_x1_auto" { 2 } else { 1 };
    let network = Bridged::new(count)?;
    let mut pairs = Vec::new();
    let mut servers = Vec::new();
    for number in 0..count {
        let pair = Pair::new(group, server(number))?;
        network.enter_server(number)?;
        servers.push(Server::start(&pair)?);
        pairs.push(pair);
    }
    Ok(Box::new(move || {
        let _ = &servers;
        let rate = rate(&pairs, |number| network.enter_client(number))?;
        Ok(rate.repeat(figures))
    }))
}

/// Thousands of requests a second of all clients, which run at the same time.
fn rate(
    pairs: &[Pair],
    enter: impl Fn(u8) -> Result<(), BoxError>,
) -> Result<Vec<Option<f64>>, BoxError> {
    let begun = Instant::now();
    let mut clients: Vec<Child> = Vec::new();
    for (number, pair) in (0..).zip(pairs) {
        enter(number)?;
        let mut command = host::command(&pair.client);
        clients.push(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()?,
        );
    }
    let mut alone = 0.0;
    let mut requests = 0.0;
    for (pair, client) in pairs.iter().zip(clients) {
        let output = client.wait_with_output()?;
        alone = read_figure(pair, &String::from_utf8_lossy(&output.stdout))?;
        requests += pair.requests;
    }
    // Of one, its own figure: without its start.
    Ok(vec![Some(match pairs {
        [_] => alone,
        _ => requests / begun.elapsed().as_secs_f64() / 1000.0,
    })])
}
