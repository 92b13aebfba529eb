//! Echo and discard, each against its partner.

use crate::lab::{Lab, SERVER};
use vink_apps::{Report, State};
use vink_kernel::Clock;

#[test]
fn messages_come_back_over_tcp_and_udp_ipv4_and_ipv6() {
    let mut lab = Lab::new(Clock::Virtual);
    let server = lab.serve("echoserver");
    let mut bytes = 0;
    for host in SERVER {
        for kind in ["", "-u"] {
            for size in [0, 1, 64, 9000, 65000] {
                if size == 0 && kind.is_empty() {
                    continue;
                }
                let line = format!("echo {kind} -c 3 -s {size} {host}");
                let client = lab.start(lab.client.id, &line);
                let Report::Echo(report) = lab.finish(client) else {
                    panic!("an echo's report")
                };
                assert_eq!((report.sent, report.received, report.wrong), (3, 3, 0));
                bytes += 3 * size;
            }
        }
    }
    let Report::Server(report) = lab.report(server) else {
        panic!("a server's report")
    };
    assert_eq!((report.received, report.sent), (bytes, bytes));
    assert_eq!((report.connections, report.open, report.errors), (8, 0, 0));
    assert_eq!(report.datagrams, 30);
    let status = lab.stop(server);
    assert!(matches!(
        status.state,
        State::Ended {
            status: 0,
            error: None
        }
    ));
}

#[test]
fn what_is_sent_to_a_discard_server_is_gone() {
    let mut lab = Lab::new(Clock::Virtual);
    let server = lab.serve("discardserver");
    for host in SERVER {
        let client = lab.start(lab.client.id, &format!("discard -n 100k {host}"));
        lab.finish(client);
        let client = lab.start(lab.client.id, &format!("discard -u -n 12k {host}"));
        let Report::Source(report) = lab.finish(client) else {
            panic!("a source's report")
        };
        assert_eq!((report.packets, report.arrived), (Some(10), None));
    }
    let Report::Server(report) = lab.report(server) else {
        panic!("a server's report")
    };
    assert_eq!((report.received, report.sent), (224_000, 0));
    assert_eq!((report.connections, report.datagrams), (2, 20));
}
