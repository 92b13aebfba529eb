//! Calls one by one.

use crate::lab::{Lab, SERVER};
use vink_apps::State;
use vink_kernel::Clock;

#[test]
fn each_step_is_a_call() {
    for host in SERVER {
        let mut lab = Lab::new(Clock::Virtual);
        let server = lab.serve(
            "steps listen 80, accept, recv 3k, send 10, drain, close, accept, recv 1k, close",
        );
        let family = if host.contains(':') { "-6" } else { "-4" };
        let line = format!(
            "steps {family} open 7000, set nodelay 1, connect {host} 80, send 1k 3 1ms, recv 10, shutdown, \
             drain, close, sleep 1s, connect {host} 80, send 500, abort"
        );
        let client = lab.start(lab.client.id, &line);
        assert!(matches!(
            lab.end(client).state,
            State::Ended {
                status: 0,
                error: None
            }
        ));
        // The second connection was reset before all had come.
        let State::Ended {
            status: 1,
            error: Some(why),
        } = lab.end(server).state
        else {
            panic!("{host}: {:?}", lab.status(server));
        };
        assert!(
            why.starts_with("recv 1k: Connection reset by peer"),
            "{why}"
        );
    }
}
