//! Sources and sinks: what they measure is what the wire was told to do.

use std::time::Duration;

use crate::lab::{Lab, SERVER};
use vink_apps::{FlowReport, Report, SinkReport, SourceReport};
use vink_kernel::{Clock, Loss, WireSettings};

fn source(lab: &mut Lab, line: &str) -> SourceReport {
    let id = lab.start(lab.client.id, line);
    match lab.finish(id) {
        Report::Source(report) => report,
        other => panic!("{other:?}"),
    }
}

fn sink(report: Report) -> SinkReport {
    match report {
        Report::Sink(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tcp_comes_at_the_rate_of_the_wire() {
    for host in SERVER {
        let mut lab = Lab::new(Clock::Virtual);
        lab.set_wire(WireSettings {
            rate: 10_000_000,
            delay: Duration::from_millis(10),
            limit: 1000,
            ..WireSettings::default()
        });
        let server = lab.serve("sink -n 3 -i 1s");
        let sent = source(&mut lab, &format!("source -t 20s -P 2 {host}"));
        // 1428 or 1448 bytes in each frame of 1514.
        let best = 1e7 * if host.contains(':') { 1428.0 } else { 1448.0 } / 1514.0;
        assert!((0.98 * best..=best).contains(&sent.rate), "{sent}");
        assert!((20.0..25.0).contains(&sent.seconds), "{sent}");
        let exact = source(&mut lab, &format!("source -n 1234567 {host}"));
        assert_eq!(exact.bytes, 1_234_567);
        let report = sink(lab.finish(server));
        assert_eq!((report.flows, report.open, report.errors), (3, 0, 0));
        assert_eq!(report.bytes, sent.bytes + exact.bytes);
        let second = |flow: &FlowReport| flow.intervals[5].rate;
        let both = second(&report.list[0]) + second(&report.list[1]);
        assert!((0.98 * best..=1.02 * best).contains(&both), "{report}");
    }
}

#[test]
fn a_rate_is_kept_exactly() {
    for host in SERVER {
        let mut lab = Lab::new(Clock::Virtual);
        let server = lab.serve("sink -n 3");
        let sent = source(&mut lab, &format!("source -t 10s -r 3mbit {host}"));
        assert!((sent.rate - 3e6).abs() < 3e3, "{sent}");
        // 1200 bytes each 9.6 ms: the first at 0, the last before 10 s.
        let sent = source(&mut lab, &format!("source -u -t 10s -r 1mbit -P 2 {host}"));
        assert_eq!((sent.packets, sent.bytes), (Some(1042), 1042 * 1200));
        assert!((sent.rate - 1e6).abs() < 1.0, "{sent}");
        let arrived = sent.arrived.expect("the sink answers");
        assert_eq!((arrived.packets, arrived.lost), (1042, 0));
        let report = sink(lab.finish(server));
        assert_eq!(report.open, 0);
        for flow in &report.list[1..] {
            let arrived = flow.arrived.expect("UDP");
            assert_eq!((arrived.packets, arrived.jitter), (521, 0.0));
        }
    }
}

#[test]
fn loss_delay_order_and_copies_are_counted() {
    let mut lab = Lab::new(Clock::Virtual);
    let server = lab.serve("sink -u");
    lab.meet();
    lab.set_way(WireSettings {
        delay: Duration::from_millis(20),
        ..WireSettings::default()
    });
    let sent = source(&mut lab, "source -u -n 1200000 -r 10mbit 10.0.0.2");
    assert_eq!(sent.arrived.expect("an answer").packets, 1000);
    let flow = sink(lab.report(server)).list.remove(0);
    let delay = flow.delay.expect("UDP");
    assert_eq!((delay.min, delay.max), (0.02, 0.02));

    // The wire's own word for it.
    lab.set_way(WireSettings {
        loss: Loss::Random(0.1),
        ..WireSettings::default()
    });
    let before = lab.way();
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit fd00::2");
    let after = lab.way();
    let arrived = sent.arrived.expect("an answer");
    assert_eq!(arrived.packets + arrived.lost, 10_000);
    // The question what has come may be lost, too.
    let lost = after.lost_random - before.lost_random;
    let asked = after.sent - before.sent - 10_000;
    assert!((lost - asked..=lost).contains(&arrived.lost), "{arrived}");
    assert!((850..1150).contains(&arrived.lost), "{arrived}");
    assert_eq!((arrived.reordered, arrived.duplicates), (0, 0));

    lab.set_way(WireSettings {
        duplicate: 0.1,
        ..WireSettings::default()
    });
    let before = lab.way().duplicated;
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit 10.0.0.2");
    let arrived = sent.arrived.expect("an answer");
    assert_eq!((arrived.packets, arrived.lost), (10_000, 0));
    let copies = lab.way().duplicated - before;
    assert!(copies.abs_diff(arrived.duplicates) <= 1, "{arrived}");

    lab.set_way(WireSettings {
        delay: Duration::from_millis(10),
        reorder: 0.1,
        ..WireSettings::default()
    });
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit 10.0.0.2");
    let arrived = sent.arrived.expect("an answer");
    assert_eq!((arrived.packets, arrived.lost), (10_000, 0));
    assert!(arrived.reordered > 5000, "{arrived}");
    assert!(arrived.jitter > 0.0, "{arrived}");
}

#[test]
fn a_sender_without_a_receiver_is_told() {
    let mut lab = Lab::new(Clock::Virtual);
    for (line, why) in [
        (
            "source 10.0.0.2",
            "connect to 10.0.0.2:5001: Connection refused",
        ),
        (
            "source fd00::2",
            "connect to [fd00::2]:5001: Connection refused",
        ),
        (
            "source -u 10.0.0.2",
            "send to 10.0.0.2:5001: Connection refused",
        ),
        (
            "source 10.0.0.99",
            "connect to 10.0.0.99:5001: No route to host",
        ),
        (
            "source -u -t 1s 10.0.0.99",
            "does not say what has come: is a sink there?",
        ),
    ] {
        let id = lab.start(lab.client.id, line);
        lab.run_until(|lab| lab.has_ended(id));
        let output = lab.output(id);
        assert!(output.contains(why), "{line}: {output}");
    }
}
