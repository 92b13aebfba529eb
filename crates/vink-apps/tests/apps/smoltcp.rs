//! A TCP that is not Linux's, at the other end of Linux's.

use crate::lab::Lab;
use vink_apps::{AppId, State};
use vink_kernel::Clock;

/// An address of neither machine, in each of their networks.
const FOREIGN: [&str; 2] = ["10.0.0.3/24", "fd00::3/64"];

/// How it has ended, and what it has written.
fn told(lab: &mut Lab, app: AppId) -> (State, String) {
    lab.run_until(|lab| lab.has_ended(app));
    let output = lab.output(app);
    (lab.end(app).state, output)
}

fn success() -> State {
    State::Ended {
        status: 0,
        error: None,
    }
}

#[test]
fn linux_sends_to_smoltcp() {
    for foreign in FOREIGN {
        let mut lab = Lab::new(Clock::Virtual);
        let (host, _) = foreign.split_once('/').expect("a length");
        let line = format!("smoltcp -n 100k {foreign} listen 7000");
        let smoltcp = lab.start(lab.server.id, &line);
        let family = if host.contains(':') { "-6" } else { "-4" };
        let line = format!("steps {family} connect {host} 7000, send 100k, close");
        let linux = lab.start(lab.client.id, &line);
        assert_eq!(lab.end(linux).state, success());
        let (state, output) = told(&mut lab, smoltcp);
        assert_eq!(state, success(), "{output}");
        assert_eq!(output, "100000 of 100000 bytes, to the end\n");
    }
}

#[test]
fn smoltcp_sends_to_linux() {
    for (foreign, client) in FOREIGN.into_iter().zip(["10.0.0.1", "fd00::1"]) {
        let mut lab = Lab::new(Clock::Virtual);
        let linux = lab.start(
            lab.client.id,
            "steps listen 7000, accept, recv 100k, drain, close",
        );
        let line = format!("smoltcp -n 100k {foreign} connect {client} 7000");
        let smoltcp = lab.start(lab.server.id, &line);
        let (state, output) = told(&mut lab, smoltcp);
        assert_eq!(state, success(), "{output}");
        assert_eq!(lab.end(linux).state, success());
    }
}

#[test]
fn another_stream_or_none_is_a_failure() {
    let mut lab = Lab::new(Clock::Virtual);
    let failure = || State::Ended {
        status: 1,
        error: None,
    };
    for (linux, output) in [
        ("send 7k, close", "7000 of 8000 bytes, to the end\n"),
        (
            "send 9k, close",
            "9000 of 8000 bytes, not as they were sent\n",
        ),
        (
            "send 8k, sleep 1s, abort",
            "8000 of 8000 bytes, and no end\n",
        ),
    ] {
        let smoltcp = lab.start(lab.server.id, "smoltcp 10.0.0.3/24 listen 7000");
        let line = format!("steps connect 10.0.0.3 7000, {linux}");
        lab.start(lab.client.id, &line);
        assert_eq!(told(&mut lab, smoltcp), (failure(), output.to_owned()));
    }
    // Nothing listens there.
    let line = "smoltcp 10.0.0.3/24 connect 10.0.0.1 7000";
    let smoltcp = lab.start(lab.server.id, line);
    let refused = "0 of 8000 bytes, and no end\n".to_owned();
    assert_eq!(told(&mut lab, smoltcp), (failure(), refused));
    let line = "smoltcp -i eth7 10.0.0.3/24 listen 7000";
    let smoltcp = lab.start(lab.server.id, line);
    let State::Ended {
        error: Some(why), ..
    } = lab.end(smoltcp).state
    else {
        panic!("it has no such interface");
    };
    assert_eq!(why, "open the interface eth7: No such device (os error 19)");
}
