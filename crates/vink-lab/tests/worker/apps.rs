//! Virtualized processes.

use vink_protocol::{Action, Answer, Event};

use crate::place::Place;
use crate::talk::Talk;

fn start(talk: &mut Talk, machine: &str, words: &[&str]) -> u64 {
    let action = Action::App {
        machine: machine.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    match talk.ok(action) {
        Answer::Program(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_and_a_client() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    talk.machine("a");
    talk.machine("b");
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    let text = "10.0.0.1\ta a-eth0\n".to_owned();
    talk.ok(Action::Hosts { text });
    let before = talk.used();
    let server = start(&mut talk, "a", &["echoserver"]);
    let listens = Action::Listens {
        machine: "a".to_owned(),
        port: 7,
        udp: false,
    };
    while talk.ok(listens.clone()) != Answer::Yes(true) {}
    let client = start(&mut talk, "b", &["echo", "-c", "3", "-i", "0.01", "a"]);
    let (code, report) = talk.event(|event| match event {
        Event::Ended {
            program,
            code,
            report,
            ..
        } if *program == client => Some((*code, report.clone())),
        _ => None,
    });
    let report = report.expect("a report");
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["received"], 3, "{report}");
    talk.gone(client);
    let stop = |report| Action::StopApp {
        program: server,
        report,
    };
    match talk.ok(stop(true)) {
        Answer::Report(report) => assert_eq!(report["connections"], 1, "{report}"),
        other => panic!("{other:?}"),
    }
    let signal = Action::Signal {
        program: server,
        signal: 15,
    };
    assert!(talk.refused(signal).contains("virtualized process"));
    talk.ok(stop(false));
    assert_eq!(talk.ended(server).0, 0);
    talk.gone(server);
    assert_eq!(talk.used(), before);
    let unknown = Action::App {
        machine: "a".to_owned(),
        words: vec!["no-such-app".to_owned()],
    };
    let error = talk.refused(unknown);
    assert!(
        error.contains("no-such-app") && error.contains("echoserver"),
        "{error}"
    );
}
