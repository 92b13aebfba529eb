//! Tells the kernel of a switch about its bridge: by ip(8), bridge(8) and nft(8), which run on the
//! switch's machine as they would on a host.
//!
//! A port is filtered before it is attached to the bridge. Its rules are a chain at its interface,
//! before anything else of the kernel sees a frame, in a table of their own (`netdev vink_switch`).
//! What is allowed comes first, and what is dropped is counted by why. A port that is not pinned, of
//! a bridge that keeps no VLANs apart, has none.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use vink_spec::{Bridge, Port, Rights, SourceAddress, WITH_SBIN};

use super::lab::Lab;
use super::spawn::MAX_ERROR_BYTES;
use crate::http_error::HttpError;

/// The interface of the bridge.
const BRIDGE: &str = "br0";
/// The table of the rules.
const TABLE: &str = "vink_switch";
/// An argument of a program is at most 128 KiB on Linux: execve(2).
const LONGEST_LINE: usize = 100_000;
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
    fn is_empty(&self) -> bool {
        self.ip.is_empty() && self.nft.is_empty() && self.bridge.is_empty()
    }

    fn len(&self) -> usize {
        self.ip.len() + self.nft.len() + self.bridge.len()
    }

    /// A shell's line that says it: rules come before ports do.
    fn line(&self) -> String {
        let mut line = String::from("set -e\n");
        for (program, text) in [
            ("nft -f -", &self.nft),
            ("ip -batch -", &self.ip),
            ("bridge -batch -", &self.bridge),
        ] {
            if !text.is_empty() {
                line += &format!("{program} <<'END'\n{text}END\n");
            }
        }
        line
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
        for batch in batches(old, new) {
            let line = batch.line();
            let words = WITH_SBIN.iter().copied().chain(["sh", "-c", &line]);
            let words = words.map(str::to_owned).collect();
            let (code, said) = self
                .run_own(switch, words, Some(Rights::Full), b"", MAX_ERROR_BYTES)
                .await?;
            if code != 0 {
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                return Err(HttpError::invalid(format!(
                    "setting up switch {switch}: it ended with status {code}: {said}"
                ))
                .hint("a switch needs ip and bridge (Debian: iproute2) and nft (nftables), and an image with a bridge"));
            }
        }
        Ok(())
    }
}

/// The way from one bridge to another.
fn batches(old: Option<&Bridge>, new: &Bridge) -> Vec<Batch> {
    let mut all = Vec::new();
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
    // The tag's rules and VLANs are of all ports.
    let kept = old.filter(|old| old.vlan == new.vlan);
    let gone = |name: &&String| !new.ports.contains_key(*name);
    for name in old.iter().flat_map(|old| old.ports.keys()).filter(gone) {
        batch.remove_chain(name);
        for reason in REASONS {
            let counter = counter(name, reason);
            let _ = writeln!(batch.nft, "add counter netdev {TABLE} {counter}");
            let _ = writeln!(batch.nft, "delete counter netdev {TABLE} {counter}");
        }
    }
    for (name, port) in &new.ports {
        let was = old.and_then(|old| old.ports.get(name));
        if kept.is_some() && was == Some(port) {
            continue;
        }
        if batch.len() > LONGEST_LINE / 2 {
            all.push(std::mem::take(&mut batch));
        }
        batch.port(name, was, port, old.is_some_and(|old| old.vlan), new.vlan);
    }
    if !batch.is_empty() {
        all.push(batch);
    }
    for batch in &mut all {
        if !batch.nft.is_empty() {
            batch
                .nft
                .insert_str(0, &format!("add table netdev {TABLE}\n"));
        }
    }
    all
}

impl Batch {
    /// Without a chain that there may be: some kernels keep it without its interface. Adding what is there changes
    /// nothing.
    fn remove_chain(&mut self, name: &str) {
        for verb in ["add", "flush", "delete"] {
            let _ = writeln!(self.nft, "{verb} chain netdev {TABLE} port-{name}");
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
            self.remove_chain(name);
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
        let addresses = |port: &Port, vlans: bool| -> Vec<String> {
            let Some(mac) = port.mac else {
                return Vec::new();
            };
            let mac = mac_text(mac);
            match vlans {
                false => vec![format!("{mac} dev {name} master")],
                true => vlans_of(port)
                    .iter()
                    .map(|(vlan, _)| format!("{mac} dev {name} master vlan {vlan}"))
                    .collect(),
            }
        };
        let (now, before) = (
            addresses(is, vlans),
            was.map(|was| addresses(was, had_vlans)).unwrap_or_default(),
        );
        if was.map(|was| was.mac.is_some()) != Some(is.mac.is_some()) {
            let learns = if is.mac.is_some() { "off" } else { "on" };
            if was.is_some() || is.mac.is_some() {
                let _ = writeln!(
                    self.bridge,
                    "link set dev {name} learning {learns} flood {learns}"
                );
            }
        }
        for gone in before.iter().filter(|entry| !now.contains(entry)) {
            let _ = writeln!(self.bridge, "fdb del {gone}");
        }
        for entry in now {
            let _ = writeln!(self.bridge, "fdb replace {entry} static sticky");
        }
    }
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
    mac.map(|byte| format!("{byte:02x}")).join(":")
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
        let targets: Vec<String> = port
            .addresses
            .iter()
            .filter_map(|it| number(*it))
            .chain(own.map(|own| format!("0x{:032x}", u128::from(own))))
            .collect();
        rules.push(format!(
            "meta protocol ip6 icmpv6 type nd-neighbor-advert @th,64,128 != {} {}",
            set(&targets),
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
