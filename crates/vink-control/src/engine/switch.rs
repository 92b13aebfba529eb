//! Tells the kernel of a switch about its bridge: by ip(8), bridge(8) and nft(8), which run on the
//! switch's machine as they would on a host.
//!
//! A port is filtered before it is attached to the bridge. Its rules are a chain at its interface,
//! before anything else of the kernel sees a frame, in a table of their own (`netdev vink_switch`).
//! What is allowed comes first, and what is dropped is counted by why. A port that is not pinned, of
//! a bridge that keeps no VLANs apart, has none.
//!
//! Ports of a group have the same addresses. Flows to them are sent to one of the ports by a hash, at the
//! interfaces of all other ports, past the bridge: after all filters there. ARP, neighbour discovery and ICMP
//! errors go to all ports of the group, since each has its own neighbour table and path MTUs. All else reaches
//! the first port, by the bridge.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use vink_spec::{Bridge, EthernetAddress, Port, Rights, SourceAddress, WITH_SBIN};

use super::lab::Lab;
use super::spawn::MAX_ERROR_BYTES;
use crate::http_error::HttpError;

/// The interface of the bridge.
const BRIDGE: &str = "br0";
/// The table of the rules.
const TABLE: &str = "vink_switch";
/// Rules of groups come after the pinned addresses and the filters of users.
const AFTER_FILTERS: i32 = 500;
/// A flow keeps its port when rules are loaded again.
const SEED: u32 = 0x7669_6e6b;
/// Why frames are dropped, each with a counter of every port that has rules.
const REASONS: [&str; 6] = ["mac", "ip", "arp", "nd", "tag", "other"];

/// What the three programs are told, one command a line.
#[derive(Default)]
struct Batch {
    /// Before ports are attached, and with it.
    ip: String,
    nft: String,
    bridge: String,
}

impl Batch {
    /// A shell's script that says it: rules come before ports do.
    fn script(&self) -> String {
        let mut script = String::from("set -e\n");
        for (program, text) in [
            ("nft -f -", &self.nft),
            ("ip -batch -", &self.ip),
            ("bridge -batch -", &self.bridge),
        ] {
            if !text.is_empty() {
                script += &format!("{program} <<'END'\n{text}END\n");
            }
        }
        script
    }
}

impl Lab {
    /// Makes a switch's bridge, or changes it from what it was.
    pub(crate) async fn set_switch(
        self: &Arc<Lab>,
        switch: &str,
        old: Option<&Bridge>,
        new: &Bridge,
    ) -> Result<(), HttpError> {
        let words = WITH_SBIN.iter().copied().chain(["sh"]);
        let words = words.map(str::to_owned).collect();
        let script = batch(old, new).script();
        let all = Some(Rights::Full);
        let run = self.run_own(switch, words, all, script.as_bytes(), MAX_ERROR_BYTES);
        let (code, said) = run.await?;
        if code == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Err(HttpError::invalid(format!(
            "setting up switch {switch}: it ended with status {code}: {said}"
        ))
        .hint("a switch needs ip and bridge (Debian: iproute2) and nft (nftables), and an image with a bridge"))
    }
}

/// The way from one bridge to another.
fn batch(old: Option<&Bridge>, new: &Bridge) -> Batch {
    let mut batch = Batch::default();
    let options = |bridge: &Bridge| {
        let (vlan, snooping) = (u8::from(bridge.vlan), u8::from(bridge.multicast_snooping));
        format!("vlan_filtering {vlan} vlan_default_pvid 0 mcast_snooping {snooping}")
    };
    match old {
        None => {
            batch.ip += &format!("link add {BRIDGE} type bridge {}\n", options(new));
            batch.ip += &format!("link set {BRIDGE} up\n");
        }
        Some(old) if options(old) != options(new) => {
            batch.ip += &format!("link set {BRIDGE} type bridge {}\n", options(new));
        }
        Some(_) => {}
    }
    // An address that moves to another port goes before it comes.
    let (before, now) = (old.map(known).unwrap_or_default(), known(new));
    for gone in before.iter().filter(|entry| !now.contains(entry)) {
        if new.ports.contains_key(gone.port) {
            let _ = writeln!(batch.bridge, "fdb del {gone}");
        }
    }
    // The tag's rules and VLANs are of all ports.
    let kept = old.filter(|old| old.vlan == new.vlan);
    let gone = |name: &&String| !new.ports.contains_key(*name);
    for name in old.iter().flat_map(|old| old.ports.keys()).filter(gone) {
        batch.remove_chains(&[format!("port-{name}")]);
        for reason in REASONS {
            let counter = counter(name, reason);
            let _ = writeln!(batch.nft, "add counter netdev {TABLE} {counter}");
            let _ = writeln!(batch.nft, "delete counter netdev {TABLE} {counter}");
        }
    }
    for (name, port) in &new.ports {
        let was = old.and_then(|old| old.ports.get(name));
        if kept.is_none() || was != Some(port) {
            batch.port(name, was, port, old.is_some_and(|old| old.vlan), new.vlan);
        }
    }
    for entry in now.iter().filter(|entry| !before.contains(entry)) {
        let _ = writeln!(batch.bridge, "fdb replace {entry} static sticky");
    }
    batch.groups(&old.map(chains).unwrap_or_default(), &chains(new));
    if !batch.nft.is_empty() {
        let table = format!("add table netdev {TABLE}\n");
        batch.nft.insert_str(0, &table);
    }
    batch
}

impl Batch {
    /// Without chains that there may be: some kernels keep one without its interface. Adding what is there changes
    /// nothing.
    fn remove_chains(&mut self, names: &[String]) {
        for verb in ["add", "flush", "delete"] {
            for name in names {
                let _ = writeln!(self.nft, "{verb} chain netdev {TABLE} {name}");
            }
        }
    }

    /// The rules of groups, all at once: a member's interface that was made again is another one to them.
    fn groups(&mut self, was: &[Chain], is: &[Chain]) {
        if was == is {
            return;
        }
        let names: BTreeSet<String> = was.iter().chain(is).map(|it| it.name.clone()).collect();
        self.remove_chains(&names.into_iter().collect::<Vec<_>>());
        for chain in is {
            let _ = writeln!(
                self.nft,
                "add chain netdev {TABLE} {}{}",
                chain.name, chain.hook
            );
        }
        for chain in is {
            for rule in &chain.rules {
                let _ = writeln!(self.nft, "add rule netdev {TABLE} {} {rule}", chain.name);
            }
        }
    }

    /// A port that comes, or becomes another one.
    fn port(&mut self, name: &str, was: Option<&Port>, is: &Port, had_vlans: bool, vlans: bool) {
        let rules = rules(name, is, vlans);
        let had = was.is_some_and(|was| !self::rules(name, was, had_vlans).is_empty());
        if had || !rules.is_empty() {
            for reason in REASONS {
                let _ = writeln!(
                    self.nft,
                    "add counter netdev {TABLE} {}",
                    counter(name, reason)
                );
            }
            self.remove_chains(&[format!("port-{name}")]);
        }
        if !rules.is_empty() {
            let _ = writeln!(
                self.nft,
                "add chain netdev {TABLE} port-{name} {{ type filter hook ingress device \"{name}\" priority -500; policy accept; }}"
            );
            for rule in &rules {
                let _ = writeln!(self.nft, "add rule netdev {TABLE} port-{name} {rule}");
            }
        }
        if was.is_none() {
            let _ = writeln!(self.ip, "link set {name} master {BRIDGE}");
        }
        if vlans {
            let before = was.filter(|_| had_vlans);
            for vlan in before.map(vlans_of).unwrap_or_default() {
                if !vlans_of(is).contains(&vlan) {
                    let _ = writeln!(self.bridge, "vlan del dev {name} vid {}", vlan.0);
                }
            }
            for (vlan, untagged) in vlans_of(is) {
                let how = if untagged { " pvid untagged" } else { "" };
                let _ = writeln!(self.bridge, "vlan add dev {name} vid {vlan}{how}");
            }
        }
        // A pinned address is known: it is not learned, and what is for none goes elsewhere.
        if was.map(|was| was.mac.is_some()) != Some(is.mac.is_some()) {
            let learns = if is.mac.is_some() { "off" } else { "on" };
            if was.is_some() || is.mac.is_some() {
                let _ = writeln!(
                    self.bridge,
                    "link set dev {name} learning {learns} flood {learns}"
                );
            }
        }
    }
}

/// An Ethernet address that the bridge knows from the beginning.
#[derive(PartialEq)]
struct Known<'a> {
    mac: [u8; 6],
    port: &'a str,
    vlan: Option<u16>,
}

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dev {} master", mac_text(self.mac), self.port)?;
        self.vlan.map_or(Ok(()), |vlan| write!(f, " vlan {vlan}"))
    }
}

/// Those of a bridge: what is for a group is for the first of its ports.
fn known(bridge: &Bridge) -> Vec<Known<'_>> {
    let groups = bridge.groups();
    let mut all = Vec::new();
    for (name, is) in &bridge.ports {
        let group = is
            .group
            .as_ref()
            .and_then(|group| groups.get(group.as_str()));
        let is_first = group.is_none_or(|ports| ports[0].0 == name);
        let Some(mac) = is.mac.filter(|_| is_first) else {
            continue;
        };
        let port = name.as_str();
        match bridge.vlan {
            false => all.push(Known {
                mac,
                port,
                vlan: None,
            }),
            true => all.extend(vlans_of(is).into_iter().map(|(vlan, _)| Known {
                mac,
                port,
                vlan: Some(vlan),
            })),
        }
    }
    all
}

/// A chain of the rules of groups.
#[derive(PartialEq)]
struct Chain {
    name: String,
    /// Where packets come from, if not from another chain.
    hook: String,
    rules: Vec<String>,
}

/// The rules of groups. A group of one port needs none.
fn chains(bridge: &Bridge) -> Vec<Chain> {
    let groups = bridge.groups();
    let groups: Vec<_> = groups.iter().filter(|(_, ports)| ports.len() > 1).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let chain = |name: String, rules| Chain {
        name,
        hook: String::new(),
        rules,
    };
    for (group, ports) in &groups {
        let to: Vec<String> = ports
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let numbered = to.iter().enumerate();
        let numbered: Vec<String> = numbered
            .map(|(at, port)| format!("{at} : {port}"))
            .collect();
        let (count, map) = (to.len(), format!("map {{ {} }}", numbered.join(", ")));
        // The first one has it by the bridge.
        let to_all: Vec<String> = to[1..]
            .iter()
            .map(|port| format!("dup to {port}"))
            .collect();
        let to_all = to_all.join(" ");
        // Fragments have no ports: they stay together at the first one.
        let flow = |family: &str| {
            format!("fwd to jhash {family} saddr . {family} daddr . th sport . th dport mod {count} seed {SEED:#x} {map}")
        };
        let with_ports = "meta l4proto { tcp, udp, sctp }";
        let rules = vec![
            format!("meta protocol ip ip frag-off & 0x3fff == 0 {with_ports} {}", flow("ip")),
            format!("meta protocol ip6 exthdr frag missing {with_ports} {}", flow("ip6")),
            format!("meta protocol arp {to_all}"),
            format!(
                "meta protocol ip icmp type {{ destination-unreachable, time-exceeded, parameter-problem }} {to_all}"
            ),
            format!(
                "meta protocol ip6 icmpv6 type {{ destination-unreachable, packet-too-big, time-exceeded, parameter-problem, nd-neighbor-solicit, nd-neighbor-advert }} {to_all}"
            ),
        ];
        all.push(chain(format!("group-{group}"), rules));
    }
    for (name, port) in &bridge.ports {
        let mut rules = Vec::new();
        for (group, ports) in &groups {
            let member = ports[0].1;
            let mac = member.mac.map(mac_text).unwrap_or_default();
            if port.group.as_deref() == Some(**group) {
                // They do not hear each other, or each would find its address taken.
                rules.extend(requests(member).iter().map(|rule| format!("{rule} drop")));
                rules.push(format!("ether daddr {mac} drop"));
            } else if port.vlan == member.vlan {
                let no_tag =
                    match port.tagged.is_empty() && (bridge.vlan || !port.addresses.is_empty()) {
                        true => "",
                        false => "ether type != { 8021q, 8021ad } ",
                    };
                rules.push(format!("ether daddr {mac} {no_tag}goto group-{group}"));
            }
        }
        if !rules.is_empty() {
            all.push(Chain {
                name: format!("groups-{name}"),
                hook: format!(
                    " {{ type filter hook ingress device \"{name}\" priority {AFTER_FILTERS}; policy accept; }}"
                ),
                rules,
            });
        }
    }
    all
}

/// What a request for one of a group's addresses matches: in ARP, and in IPv6's neighbour discovery.
fn requests(member: &Port) -> Vec<String> {
    let v4 = member.addresses.iter().filter(|it| it.0.addr().is_ipv4());
    let v4: Vec<String> = v4.map(ToString::to_string).collect();
    let mut rules = Vec::new();
    if !v4.is_empty() {
        rules.push(format!(
            "meta protocol arp arp htype 1 arp ptype ip arp operation request arp daddr ip {}",
            set(&v4)
        ));
    }
    rules.push(format!(
        "meta protocol ip6 icmpv6 type nd-neighbor-solicit @th,64,128 {}",
        set(&targets(member))
    ));
    rules
}

/// The IPv6 addresses that a port may be asked for, as numbers.
fn targets(port: &Port) -> Vec<String> {
    let own = port.mac.map(link_local);
    let its = port.addresses.iter().filter_map(|it| number(*it));
    its.chain(own.map(|own| format!("0x{:032x}", u128::from(own))))
        .collect()
}

/// Those of a port, each with whether its frames have no tag.
fn vlans_of(port: &Port) -> Vec<(u16, bool)> {
    let tagged = port.tagged.iter().map(|vlan| (*vlan, false));
    port.vlan
        .map(|vlan| (vlan, true))
        .into_iter()
        .chain(tagged)
        .collect()
}

fn counter(port: &str, reason: &str) -> String {
    format!("port-{port}-{reason}")
}

fn mac_text(mac: [u8; 6]) -> String {
    EthernetAddress(mac).to_string()
}

/// The address of the link that Linux makes of an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let of_mac = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let mut bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[8..].copy_from_slice(&of_mac);
    bytes.into()
}

/// A set of nft's, or the one that is in it.
fn set(of: &[String]) -> String {
    match of {
        [one] => one.clone(),
        all => format!("{{ {} }}", all.join(", ")),
    }
}

/// The rules of a port, without what adds them: what may pass first.
fn rules(name: &str, port: &Port, vlans: bool) -> Vec<String> {
    let drop = |reason: &str| format!("counter name {} drop", counter(name, reason));
    let mut rules = Vec::new();
    if let Some(mac) = port.mac {
        rules.push(format!("ether saddr != {} {}", mac_text(mac), drop("mac")));
    }
    if vlans || !port.addresses.is_empty() {
        // A tag within a tag, and any where none is expected.
        let tags = "{ 8021q, 8021ad }";
        if vlans && !port.tagged.is_empty() {
            rules.push(format!("ether type 8021ad {}", drop("tag")));
            rules.push(format!("vlan type {tags} {}", drop("tag")));
        } else {
            rules.push(format!("ether type {tags} {}", drop("tag")));
        }
    }
    let mac = port.mac.map(mac_text);
    if port.addresses.is_empty() {
        let arp = |mac| format!("meta protocol arp arp saddr ether != {mac} {}", drop("arp"));
        rules.extend(mac.map(arp));
        return rules;
    }
    let of = |v4: bool| -> Vec<String> {
        let its = |it: &&SourceAddress| it.0.addr().is_ipv4() == v4;
        port.addresses
            .iter()
            .filter(its)
            .map(ToString::to_string)
            .collect()
    };
    let (v4, mut v6) = (of(true), of(false));
    let own = port.mac.map(link_local);
    v6.extend(
        own.map(|own| own.to_string())
            .filter(|own| !v6.contains(own)),
    );
    let sender = mac.map(|mac| format!(" arp saddr ether {mac}"));
    let arp = format!(
        "meta protocol arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4{}",
        sender.unwrap_or_default()
    );
    if !v4.is_empty() {
        rules.push(format!("meta protocol ip ip saddr {} accept", set(&v4)));
        // A probe (RFC 5227) has no sender yet.
        let senders: Vec<String> = v4.iter().cloned().chain(["0.0.0.0".to_owned()]).collect();
        rules.push(format!("{arp} arp saddr ip {} accept", set(&senders)));
    }
    if !v6.is_empty() {
        let from = set(&v6);
        rules.push(format!(
            "meta protocol ip6 meta l4proto != icmpv6 ip6 saddr {from} accept"
        ));
        // The address that an advertisement is about, and what only routers send.
        rules.push(format!(
            "meta protocol ip6 icmpv6 type nd-neighbor-advert @th,64,128 != {} {}",
            set(&targets(port)),
            drop("nd")
        ));
        rules.push(format!(
            "meta protocol ip6 icmpv6 type {{ nd-router-advert, nd-redirect }} {}",
            drop("nd")
        ));
        rules.push(format!("meta protocol ip6 ip6 saddr {from} accept"));
        rules.push(
            "meta protocol ip6 ip6 saddr :: icmpv6 type { nd-neighbor-solicit, nd-router-solicit, mld-listener-report, mld2-listener-report } accept"
                .to_owned(),
        );
    }
    rules.push(format!("meta protocol {{ ip, ip6 }} {}", drop("ip")));
    rules.push(format!("meta protocol arp {}", drop("arp")));
    rules.push(drop("other"));
    rules
}

/// An IPv6 address as the number that it is in a packet; a network as the range of its addresses.
fn number(source: SourceAddress) -> Option<String> {
    let ends = [source.0.network(), source.0.broadcast()];
    let [first, last] = ends.map(|address| match address {
        IpAddr::V6(address) => Some(format!("0x{:032x}", u128::from(address))),
        IpAddr::V4(_) => None,
    });
    let (first, last) = (first?, last?);
    Some(match first == last {
        true => first,
        false => format!("{first}-{last}"),
    })
}
