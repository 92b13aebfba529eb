//! Sources and sinks: what they measure is what the wire was told to do.

use crate::lab::{Lab, SERVER};
use vink_apps::{FlowReport, Report, SinkReport, SourceReport};
use vink_kernel::Clock;

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
        lab.netem("rate 10mbit delay 10ms");
        let server = lab.serve("sink -n 3 -i 1s");
        let sent = source(&mut lab, &format!("source -t 20s -P 2 {host}"));
        assert!((9.3e6..9.7e6).contains(&sent.rate), "{sent}");
        assert!((20.0..25.0).contains(&sent.seconds), "{sent}");
        let exact = source(&mut lab, &format!("source -n 1234567 {host}"));
        assert_eq!(exact.bytes, 1_234_567);
        let report = sink(lab.finish(server));
        assert_eq!((report.flows, report.open, report.errors), (3, 0, 0));
        assert_eq!(report.bytes, sent.bytes + exact.bytes);
        let second = |flow: &FlowReport| flow.intervals[5].rate;
        let both = second(&report.list[0]) + second(&report.list[1]);
        assert!((9.2e6..9.8e6).contains(&both), "{report}");
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
    let id = lab.client.id;
    lab.meet();
    lab.program(id, "tc qdisc add dev eth0 root netem delay 20ms");
    let sent = source(&mut lab, "source -u -n 1200000 -r 10mbit 10.0.0.2");
    assert_eq!(sent.arrived.expect("an answer").packets, 1000);
    let flow = sink(lab.report(server)).list.remove(0);
    let delay = flow.delay.expect("UDP");
    assert!((delay.min - 0.02).abs() < 1e-5, "{delay:?}");
    assert!((delay.max - 0.02).abs() < 1e-5, "{delay:?}");

    lab.program(id, "tc qdisc replace dev eth0 root netem loss 10%");
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit fd00::2");
    let arrived = sent.arrived.expect("an answer");
    assert_eq!(arrived.packets + arrived.lost, 10_000);
    assert!((850..1150).contains(&arrived.lost), "{arrived}");
    assert_eq!((arrived.reordered, arrived.duplicates), (0, 0));

    lab.program(id, "tc qdisc replace dev eth0 root netem duplicate 10%");
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit 10.0.0.2");
    let arrived = sent.arrived.expect("an answer");
    assert_eq!((arrived.packets, arrived.lost), (10_000, 0));
    assert!((850..1150).contains(&arrived.duplicates), "{arrived}");

    lab.program(
        id,
        "tc qdisc replace dev eth0 root netem delay 10ms reorder 10%",
    );
    let sent = source(&mut lab, "source -u -n 12000000 -r 100mbit 10.0.0.2");
    let arrived = sent.arrived.expect("an answer");
    assert_eq!((arrived.packets, arrived.lost), (10_000, 0));
    assert!(arrived.reordered > 5000, "{arrived}");
    assert!(arrived.jitter > 0.0, "{arrived}");
}

#[test]
fn who_sends_to_nobody_is_told() {
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
