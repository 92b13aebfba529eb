//! The files of `/etc` by which a machine knows its own name and how to find others.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use vink_trap::NamespaceConfig;

use crate::Machine;

/// What a name stands for on a machine that has nothing but its loopback interface, as Debian does
/// it.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1));

impl Machine {
    /// What its programs see: its host name, `/etc/hostname`, `/etc/hosts` with these addresses
    /// of its own, and `/etc/resolv.conf` with this text (see resolv.conf(5)).
    pub fn namespaces(&self, addresses: &[IpAddr], resolver: &str) -> NamespaceConfig {
        NamespaceConfig::new()
            .name(&self.name)
            .file("/etc/hostname", format!("{}\n", self.name))
            .file("/etc/hosts", hosts(&self.name, addresses))
            .file("/etc/resolv.conf", resolver)
    }
}

/// See hosts(5).
pub(crate) fn hosts(name: &str, addresses: &[IpAddr]) -> String {
    let mut text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    let own = match addresses {
        [] => &[NOWHERE],
        addresses => addresses,
    };
    for address in own {
        writeln!(text, "{address}\t{name}").expect("writing to a string");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_name() {
        let lines = |addresses: &[IpAddr]| hosts("m", addresses).lines().count();
        assert!(hosts("m", &[]).ends_with("\n127.0.1.1\tm\n"));
        let two = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert!(hosts("m", &two).ends_with("\n10.0.0.1\tm\nfd00::1\tm\n"));
        assert_eq!((lines(&[]), lines(&two)), (3, 4));
    }
}
