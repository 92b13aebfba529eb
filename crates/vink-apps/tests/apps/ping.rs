//! ping, over wires of every kind.

use std::time::Duration;

use crate::lab::{Lab, SERVER};
use vink_apps::{PingReport, Report};
use vink_kernel::{Clock, Loss, WireSettings};

fn ping(lab: &mut Lab, line: &str) -> (PingReport, String) {
    let id = lab.start(lab.client.id, line);
    lab.run_until(|lab| lab.has_ended(id));
    let output = lab.output(id);
    match lab.end(id).report {
        Some(Report::Ping(report)) => (report, output),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_take_as_long_as_the_wire() {
    for host in SERVER {
        let mut lab = Lab::new(Clock::Virtual);
        lab.set_wire(WireSettings {
            delay: Duration::from_millis(10),
            ..WireSettings::default()
        });
        lab.meet();
        let (report, output) = ping(&mut lab, &format!("ping -c 5 -i 100ms -s 1000 {host}"));
        assert_eq!((report.sent, report.received, report.errors), (5, 5, 0));
        assert!((report.min - 0.02).abs() < 1e-5, "{report}");
        assert!(report.mdev < 1e-6, "{report}");
        let line = format!("1008 bytes from {host}: icmp_seq=5 ttl=64 time=20.0");
        assert!(output.contains(&line), "{output}");
        let end = "5 packets transmitted, 5 received, 0 duplicates, 0 errors, 0.000% packet loss";
        assert!(output.contains(end), "{output}");
    }
}

#[test]
fn loss_and_copies_are_counted() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.meet();
    lab.set_way(WireSettings {
        loss: Loss::Random(0.2),
        ..WireSettings::default()
    });
    for host in SERVER {
        let (report, _) = ping(&mut lab, &format!("ping -q -c 1000 -i 1ms {host}"));
        assert!((740..860).contains(&report.received), "{report}");
    }
    lab.set_way(WireSettings {
        duplicate: 0.2,
        ..WireSettings::default()
    });
    let (report, _) = ping(&mut lab, "ping -q -c 1000 -i 1ms 10.0.0.2");
    assert_eq!(report.received, 1000);
    assert!((140..260).contains(&report.duplicates), "{report}");
}

#[test]
fn an_absent_host_is_told() {
    let mut lab = Lab::new(Clock::Virtual);
    let (report, output) = ping(&mut lab, "ping -c 2 -W 5s 10.0.0.99");
    assert_eq!((report.received, report.errors), (0, 2), "{output}");
    assert!(output.contains("From 10.0.0.1: icmp_seq=1 Destination Host Unreachable"));
    let (report, output) = ping(&mut lab, "ping -c 2 -W 5s fd00::99");
    assert_eq!((report.received, report.errors), (0, 2), "{output}");
    assert!(output.contains("From fd00::1: icmp_seq=1 Address Unreachable"));
    let (report, output) = ping(&mut lab, "ping -c 1 192.0.2.1");
    assert_eq!((report.sent, report.errors), (1, 1));
    assert!(
        output.contains("icmp_seq=1: Network is unreachable"),
        "{output}"
    );
}

#[test]
fn many_at_once_don_t_mix_up() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.set_wire(WireSettings {
        delay: Duration::from_millis(5),
        ..WireSettings::default()
    });
    let all: Vec<_> = (0..100)
        .map(|n| {
            let host = SERVER[n % 2];
            lab.start(lab.client.id, &format!("ping -c 10 -i 10ms {host}"))
        })
        .collect();
    for id in all {
        let Report::Ping(report) = lab.finish(id) else {
            panic!("a ping's report")
        };
        assert_eq!((report.received, report.duplicates), (10, 0));
    }
}

#[test]
fn link_local_addresses_name_their_interface() {
    let mut lab = Lab::new(Clock::Virtual);
    let (report, _) = ping(&mut lab, "ping -c 1 ff02::1%eth0");
    assert_eq!(report.received, 1);
    let id = lab.start(lab.client.id, "ping -c 1 ff02::1%eth7");
    lab.run_until(|lab| lab.has_ended(id));
    assert!(lab.output(id).contains("No such device"));
}
