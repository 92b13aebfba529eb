//! The lab's name server, asked by programs that every host has.

use std::net::IpAddr;

use crate::lab::{Lab, SERVER};
use vink_apps::{DnsReport, Report};
use vink_kernel::Clock;
use vink_trap::NamespaceConfig;

fn report(lab: &Lab, id: vink_apps::AppId) -> DnsReport {
    match lab.report(id) {
        Report::Dns(report) => report,
        other => panic!("{other:?}"),
    }
}

fn name_all(lab: &Lab) {
    let names = lab.apps.names();
    names.set("server", SERVER.map(|a| a.parse().expect("an address")));
    names.set("many", (0..200).map(|n| IpAddr::from([10, 1, 0, n])));
}

#[test]
fn dig_gets_answers() {
    let mut lab = Lab::new(Clock::Real);
    name_all(&lab);
    let id = lab.serve("dnsserver");
    let client = lab.client.id;
    for at in SERVER {
        for (asked, answer) in [
            ("server.lab A", "10.0.0.2"),
            ("server AAAA", "fd00::2"),
            ("-x 10.0.0.2", "server.lab."),
            ("-x fd00::2", "server.lab."),
            ("+tcp server.lab A", "10.0.0.2"),
            ("+noedns server.lab A", "10.0.0.2"),
        ] {
            let script = format!("[ \"$(dig +short +tries=1 {asked} @{at})\" = {answer} ]");
            lab.shell(client, &script);
        }
        for (asked, status) in [
            ("nobody.lab", "NXDOMAIN"),
            ("server.lab MX", "NOERROR"),
            ("example.com", "REFUSED"),
            ("+opcode=NOTIFY server.lab", "NOTIMP"),
            ("+dnssec server.lab", "NOERROR"),
        ] {
            let script = format!("dig +tries=1 {asked} @{at} | grep -q 'status: {status}'");
            lab.shell(client, &script);
        }
        // Truncated, and asked once more over TCP.
        let script = format!("[ $(dig +short +tries=1 many.lab @{at} | wc -l) = 200 ]");
        lab.shell(client, &script);
    }
    let report = report(&lab, id);
    assert_eq!(
        (report.unknown, report.refused, report.malformed),
        (2, 2, 2)
    );
    assert_eq!(report.queries, 2 * 13);
}

#[test]
fn resolvers_use_it_and_see_changes() {
    let mut lab = Lab::new(Clock::Real);
    name_all(&lab);
    lab.serve("dnsserver -n");
    let client = lab.client.id;
    let config =
        NamespaceConfig::new().file("/etc/resolv.conf", "nameserver fd00::2\nsearch lab\n");
    lab.worker
        .configure_namespaces(client, &config)
        .expect("namespaces");
    lab.shell(client, "getent ahostsv4 server | grep -q 10.0.0.2");
    lab.shell(client, "getent ahostsv6 server.lab | grep -q fd00::2");
    lab.shell(client, "getent hosts 10.0.0.2 | grep -q server.lab");
    lab.shell(client, "! getent hosts example.com");
    lab.shell(client, "! getent hosts other");
    let names = lab.apps.names();
    names.set("other", [IpAddr::from([10, 0, 0, 1])]);
    lab.shell(client, "getent hosts other.lab | grep -q 10.0.0.1");
    names.replace([]);
    lab.shell(client, "! getent hosts other");
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let mut lab = Lab::new(Clock::Real);
    name_all(&lab);
    lab.serve("dnsserver");
    for (address, prefix) in [("10.0.0.77", 24), ("fd00::77", 64)] {
        let server = lab.server.network;
        let address = address.parse().expect("an address");
        let added = server.address(lab.kernel(), "eth0", address, prefix);
        added.expect("it is added");
        // dig takes no answer from another address.
        let script = format!("[ $(dig +short +tries=1 server.lab A @{address}) = 10.0.0.2 ]");
        lab.shell(lab.client.id, &script);
    }
}
