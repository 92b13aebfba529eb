//! Web servers and their clients: each other's, and those that every host has.

use std::time::Duration;

use crate::lab::{Lab, SERVER};
use vink_apps::{HttpReport, Report, State};
use vink_kernel::{Clock, WireSettings};

fn http(lab: &mut Lab, line: &str) -> HttpReport {
    let id = lab.start(lab.client.id, line);
    match lab.end(id).report {
        Some(Report::Http(report)) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_take_as_long_as_the_wire() {
    for host in SERVER {
        let mut lab = Lab::new(Clock::Virtual);
        lab.meet();
        lab.set_wire(WireSettings {
            delay: Duration::from_millis(10),
            ..WireSettings::default()
        });
        lab.serve("httpserver");
        let report = http(&mut lab, &format!("http -n 100 {host}"));
        assert_eq!(
            (report.requests, report.errors, report.connections),
            (100, 0, 1)
        );
        assert_eq!(report.received, 100_000);
        // The first has to connect.
        let latency = &report.latency;
        assert!((latency.p50 - 0.02).abs() < 2e-4, "{report}");
        assert!((latency.p99 - 0.02).abs() < 2e-4, "{report}");
        assert!((latency.max - 0.04).abs() < 4e-4, "{report}");

        let report = http(&mut lab, &format!("http -n 100 -c 10 -K -s 1 {host}"));
        assert_eq!((report.requests, report.connections), (100, 100));
        assert!((report.latency.p50 - 0.04).abs() < 4e-4, "{report}");
        assert!((report.seconds - 0.4).abs() < 0.01, "{report}");

        // One begins each 120 ms of thought and way.
        let report = http(&mut lab, &format!("http -t 12s -k 100ms {host}"));
        assert_eq!(report.requests, 100);
        let report = http(
            &mut lab,
            &format!("http -t 120s -k 100ms -d exponential {host}"),
        );
        assert!((850..1150).contains(&report.requests), "{report}");
        let report = http(&mut lab, &format!("http -n 3 -b 1M -s 2M {host}"));
        assert_eq!((report.requests, report.received), (3, 6_000_000));
    }
}

#[test]
fn failures_are_counted() {
    let mut lab = Lab::new(Clock::Virtual);
    let report = http(&mut lab, "http -n 5 10.0.0.2");
    assert_eq!(
        (report.requests, report.errors, report.connections),
        (0, 5, 5)
    );
    lab.serve("httpserver");
    let report = http(&mut lab, "http -n 5 -u /missing 10.0.0.2");
    assert_eq!((report.requests, report.errors), (0, 5));
    // A server that never answers.
    lab.serve("discardserver");
    let before = lab.kernel().now();
    let report = http(&mut lab, "http -n 2 -p 9 -w 5s fd00::2");
    assert_eq!((report.requests, report.errors), (0, 2));
    let seconds = (lab.kernel().now() - before) / 1_000_000_000;
    assert_eq!(seconds, 10);
}

#[test]
fn programs_of_the_host_load_pages() {
    let mut lab = Lab::new(Clock::Real);
    let server = lab.serve("httpserver -p 8080");
    for script in [
        "[ \"$(curl -sS http://10.0.0.2:8080/)\" = 'Hello from server.' ]",
        "[ $(curl -sS 'http://[fd00::2]:8080/100k' | wc -c) = 100000 ]",
        "[ $(curl -sS http://10.0.0.2:8080/1M http://10.0.0.2:8080/10 | wc -c) = 1000010 ]",
        "curl -sSI http://10.0.0.2:8080/1G | grep -q 'Content-Length: 1000000000'",
        "curl -sS -d some=thing http://10.0.0.2:8080/ | grep -q Hello",
        "curl -sS -0 http://10.0.0.2:8080/ | grep -q Hello",
        "! curl -sSf http://10.0.0.2:8080/nothing 2> /dev/null",
    ] {
        lab.shell(lab.client.id, script);
    }
    let status = lab.stop(server);
    assert!(matches!(status.state, State::Ended { status: 0, .. }));
}
