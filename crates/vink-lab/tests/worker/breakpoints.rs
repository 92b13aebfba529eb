//! Breakpoints: which packets they are about, what becomes of those, and what stops.

use std::io::{BufRead, BufReader};

use vink_lab::worker::compile_filter;
use vink_protocol::{Action, Answer, BreakpointScope, BreakpointStatus, Event, Hit};
use vink_spec::{Breakpoint, Settings, Stop};

use crate::place::Place;
use crate::talk::Talk;

fn two_machines(place: &Place) -> Talk {
    let mut talk = Talk::new(place);
    for name in ["a", "b"] {
        talk.machine(name);
        // IPv6 looks for no neighbour and tells of none: packets would come that no test has sent.
        talk.ok(Action::Sysctl {
            machine: name.to_owned(),
            name: "net.ipv6.conf.default.disable_ipv6".to_owned(),
            value: "1".to_owned(),
        });
    }
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    talk
}

/// In the words of a command.
fn set(name: &str, words: &[&str]) -> Action {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let (_, what) = Breakpoint::from_words(&words).expect("a breakpoint");
    Action::Breakpoint {
        breakpoint: name.to_owned(),
        scope: match what.at.as_deref() {
            None => BreakpointScope::Everywhere,
            Some(at) if at.contains(':') => BreakpointScope::Interface(at.to_owned()),
            Some("w") => BreakpointScope::Wire("w".to_owned()),
            Some(at) => BreakpointScope::Machine(at.to_owned()),
        },
        filter: what
            .filter
            .as_deref()
            .map(|text| compile_filter(text).expect(text)),
        what,
    }
}

fn remove(name: &str) -> Action {
    Action::RemoveBreakpoint {
        breakpoint: name.to_owned(),
    }
}

/// Has a ping b, so many times.
fn ping(talk: &mut Talk, count: &str) -> u64 {
    let words = ["ping", "-c", count, "-i", "0.01", "10.0.0.2"];
    let action = Action::App {
        machine: "a".to_owned(),
        words: words.map(str::to_owned).to_vec(),
    };
    match talk.ok(action) {
        Answer::Program(number) => number,
        other => panic!("{other:?}"),
    }
}

/// How many answers there were.
fn pongs(talk: &mut Talk, ping: u64) -> u64 {
    talk.event(|event| match event {
        Event::Ended {
            program, report, ..
        } if *program == ping => {
            let report = report.as_ref().expect("a report");
            Some(report["received"].as_u64().expect("a number"))
        }
        _ => None,
    })
}

fn hit(talk: &mut Talk, name: &str) -> Hit {
    talk.event(|event| match event {
        Event::Breakpoint { hit, .. } if hit.breakpoint == name => Some(hit.clone()),
        _ => None,
    })
}

/// Packets that a breakpoint was about, and those that it has done something to.
fn counted(talk: &mut Talk, name: &str) -> (u64, u64) {
    match talk.ok(Action::Breakpoints) {
        Answer::Breakpoints { all, .. } => {
            let its = |status: &&BreakpointStatus| status.breakpoint == name;
            let found = all.iter().find(its).expect("its counters");
            (found.seen, found.hits)
        }
        other => panic!("{other:?}"),
    }
}

fn received(talk: &mut Talk, machine: &str) -> u64 {
    let status = talk.status(Some(&[machine]));
    let counters = &status.machines[0].interfaces[0].counters;
    let found = counters.iter().find(|(name, _)| name == "rx_packets");
    found.expect("a counter").1
}

/// Echo requests that a machine's kernel took: not what ARP asks meanwhile.
fn requests(talk: &mut Talk, machine: &str) -> u64 {
    let (code, text) = talk.run(machine, "grep ^Icmp: /proc/net/snmp");
    assert_eq!(code, 0, "{text}");
    let [names, numbers] = [0, 1].map(|line| text.lines().nth(line).expect("a line"));
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let (_, number) = pairs
        .find(|(name, _)| *name == "InEchos")
        .expect("a counter");
    number.parse().expect("a number")
}

const REQUESTS: &str = "icmp[icmptype] == icmp-echo";
/// Those with an odd number.
const ODD_REQUESTS: &str = "icmp[icmptype] == icmp-echo and icmp[7] & 1 == 1";

#[test]
fn which_packets_and_what_becomes_of_them() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    // The neighbours know each other from here on.
    let first = ping(&mut talk, "1");
    assert_eq!(pongs(&mut talk, first), 1);

    talk.ok(set(
        "some",
        &[
            "a:eth0", "filter", REQUESTS, "log", "after", "1", "times", "2",
        ],
    ));
    let pings = ping(&mut talk, "4");
    assert_eq!(pongs(&mut talk, pings), 4);
    assert_eq!(counted(&mut talk, "some"), (4, 2));
    for number in [1, 2] {
        let hit = hit(&mut talk, "some");
        assert_eq!(hit.number, number);
        let packet = hit.packet;
        assert_eq!(
            (packet.end.as_str(), packet.kind.as_str()),
            ("a:eth0", "departure")
        );
        let start = "IP 10.0.0.1 > 10.0.0.2: ICMP echo request";
        assert!(packet.summary.starts_with(start), "{}", packet.summary);
        assert_eq!((hit.stopped, hit.run), (None, None));
    }
    talk.ok(remove("some"));

    // One is lost, and another breakpoint is told of that.
    talk.ok(set("lost", &["b", "loss", "log"]));
    talk.ok(set(
        "less",
        &["b", "arrival", "filter", REQUESTS, "drop", "times", "1"],
    ));
    let pings = ping(&mut talk, "2");
    assert_eq!(pongs(&mut talk, pings), 1);
    let told = hit(&mut talk, "lost");
    assert_eq!(told.packet.reason.as_deref(), Some("breakpoint"));
    assert_eq!(counted(&mut talk, "less"), (2, 1));
    talk.ok(remove("lost"));

    // While one is disabled nothing is counted.
    let enable = |enabled| Action::EnableBreakpoint {
        breakpoint: "less".to_owned(),
        enabled,
    };
    talk.ok(enable(false));
    let pings = ping(&mut talk, "1");
    assert_eq!(pongs(&mut talk, pings), 1);
    assert_eq!(counted(&mut talk, "less"), (2, 1));
    talk.ok(enable(true));
    let pings = ping(&mut talk, "1");
    assert_eq!(pongs(&mut talk, pings), 1);
    assert_eq!(counted(&mut talk, "less"), (3, 1));
    talk.ok(remove("less"));

    // A bit is another: checksums find it. On a wire: at both of its ends.
    talk.ok(set("bad", &["w", "filter", "icmp", "corrupt"]));
    let pings = ping(&mut talk, "3");
    assert_eq!(pongs(&mut talk, pings), 0);
    talk.ok(remove("bad"));

    let before = requests(&mut talk, "b");
    talk.ok(set("more", &["any", "filter", REQUESTS, "duplicate", "2"]));
    let pings = ping(&mut talk, "2");
    assert_eq!(pongs(&mut talk, pings), 2);
    assert_eq!(requests(&mut talk, "b"), before + 6);
    talk.ok(remove("more"));

    // The first of three is behind the second.
    talk.ok(set(
        "behind",
        &["a", "filter", REQUESTS, "reorder", "1", "times", "1"],
    ));
    talk.ok(set(
        "order",
        &["b:eth0", "arrival", "filter", REQUESTS, "log"],
    ));
    let numbers = order(&mut talk, 3);
    let first = numbers[1];
    assert_eq!(numbers, [first + 1, first, first + 2]);

    // The first odd one of five is behind the second odd one: what it does not match is not counted.
    talk.ok(set(
        "behind",
        &["a", "filter", ODD_REQUESTS, "reorder", "1", "times", "1"],
    ));
    let numbers = order(&mut talk, 5);
    let first = *numbers.iter().min().expect("five");
    let odd = first | 1;
    let mut expected: Vec<u64> = (first..first + 5).filter(|number| *number != odd).collect();
    let second = expected.iter().position(|number| *number == odd + 2);
    expected.insert(second.expect("it is among five") + 1, odd);
    assert_eq!(numbers, expected);
    talk.close();
}

/// Has a ping b so many times, and tells in which order the breakpoint `order` sees the requests.
fn order(talk: &mut Talk, count: usize) -> Vec<u64> {
    let pings = ping(talk, &count.to_string());
    assert_eq!(pongs(talk, pings), count as u64);
    let number = |_| {
        let summary = hit(talk, "order").packet.summary;
        let (_, rest) = summary.split_once("seq ").expect("a number");
        let number = rest.split(',').next().expect("a number");
        number.parse().expect("a number")
    };
    (0..count).map(number).collect()
}

#[test]
fn all_stops_and_goes_on() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    let stop = set(
        "stop",
        &["b:eth0", "arrival", "filter", REQUESTS, "times", "2"],
    );
    talk.ok(stop);
    let pings = ping(&mut talk, "3");
    for number in 1..=2 {
        let found = hit(&mut talk, "stop");
        assert_eq!((found.number, found.stopped), (number, Some(Stop::All)));
        let state = talk.ok(Action::Breakpoints);
        assert!(
            matches!(state, Answer::Breakpoints { stopped: true, .. }),
            "{state:?}"
        );
        // What it is asked for is done nevertheless, but nothing moves.
        let [before, after] = [received(&mut talk, "b"), received(&mut talk, "b")];
        assert_eq!(before, after);
        let ended = |event: &Event| matches!(event, Event::Ended { .. });
        assert!(!talk.events.iter().any(ended), "{:?}", talk.events);
        talk.ok(Action::Resume);
    }
    assert_eq!(pongs(&mut talk, pings), 3);
    talk.close();
}

#[test]
fn a_line_is_waited_for() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    talk.ok(set(
        "run",
        &[
            "a:eth0",
            "filter",
            REQUESTS,
            "run",
            "wire set w loss 100%",
            "times",
            "1",
        ],
    ));
    let pings = ping(&mut talk, "1");
    let found = hit(&mut talk, "run");
    assert_eq!(found.run.as_deref(), Some("wire set w loss 100%"));
    talk.ok(Action::Set {
        wire: "w".to_owned(),
        end: None,
        settings: Settings {
            loss: Some(vink_spec::Share(1.0)),
            ..Settings::default()
        },
    });
    let breakpoint = "run".to_owned();
    talk.ok(Action::BreakpointRan { breakpoint });
    assert_eq!(pongs(&mut talk, pings), 0);
    talk.close();
}

#[test]
fn a_machine_stops_with_its_programs() {
    for place in Place::all() {
        let mut talk = two_machines(&place);
        talk.ok(set(
            "stop",
            &[
                "b", "arrival", "filter", REQUESTS, "stop", "machine", "times", "1",
            ],
        ));
        let (_, output) = talk.start("b", "while :; do echo on; sleep 0.01; done");
        let mut lines = BufReader::new(output).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "on");
        let pings = ping(&mut talk, "1");
        assert_eq!(hit(&mut talk, "stop").stopped, Some(Stop::Machine));
        let machines = |talk: &mut Talk| match talk.ok(Action::Breakpoints) {
            Answer::Breakpoints {
                machines, stopped, ..
            } => (machines, stopped),
            other => panic!("{other:?}"),
        };
        assert_eq!(machines(&mut talk), (vec!["b".to_owned()], false));
        let go = |machine: &str| Action::ResumeMachine {
            machine: Some(machine.to_owned()),
        };
        let error = talk.refused(go("a"));
        assert!(error.contains("no breakpoint has stopped a"), "{error}");
        talk.ok(go("b"));
        assert_eq!(machines(&mut talk), (Vec::new(), false));
        // Its packet was waiting, unless ping had given up by then; its program runs again.
        assert!(pongs(&mut talk, pings) <= 1);
        assert_eq!(lines.next().unwrap().unwrap(), "on");
        talk.close();
    }
}

#[test]
fn connections_and_mistakes() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    for (words, part) in [
        (&["a", "tcp", "state"][..], "\"state\" is no comparison"),
        (
            &["a", "tcp", "state = OPEN"],
            "OPEN is no state: ESTABLISHED",
        ),
        (&["a", "tcp", "snd_cwnd > many"], "many is no number"),
        (&["a", "tcp", "no_such_field = 1"], "no field no_such_field"),
    ] {
        let error = talk.refused(set("wrong", words));
        assert!(
            error.contains("breakpoint wrong") && error.contains(part),
            "{error}"
        );
    }
    let status = talk.ok(Action::Breakpoints);
    assert!(matches!(status, Answer::Breakpoints { all, .. } if all.is_empty()));
    talk.ok(set("syn", &["b", "tcp", "state = SYN_SENT", "log"]));
    talk.ok(set(
        "est",
        &["b", "tcp", "state = ESTABLISHED and snd_cwnd >= 1", "log"],
    ));
    talk.ok(set("closed", &["b", "tcp", "state = CLOSE", "log"]));
    let (_, server) = talk.start("a", "exec nc -l -p 80 < /dev/null");
    let listens = Action::Listens {
        machine: "a".to_owned(),
        port: 80,
        udp: false,
    };
    while talk.ok(listens.clone()) != Answer::Yes(true) {}
    let (code, text) = talk.run("b", "echo hello | nc -N 10.0.0.1 80");
    assert_eq!(code, 0, "{text}");
    drop(server);
    let (seen, hits) = counted(&mut talk, "syn");
    assert!(seen == hits && hits >= 1, "{hits}");
    assert!(counted(&mut talk, "est").1 >= 2);
    assert_eq!(counted(&mut talk, "closed").1, 0);
    talk.close();
}
