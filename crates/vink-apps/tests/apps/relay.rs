//! Relays: what goes in comes out, its end too, and nothing of it stays.

use std::cell::RefCell;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::lab::Lab;
use vink_apps::{App, AppError, AppId, Calls, RelayReport, Report, State};
use vink_kernel::Clock;

/// Where relays listen, and the targets: on the machine `server` and on `client`, IPv4 and IPv6.
const RELAYS: [&str; 2] = ["10.0.0.2:80", "[fd00::2]:80"];
const TARGETS: [&str; 2] = ["10.0.0.1:81", "[fd00::1]:81"];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A closure as an app.
struct Does<F>(Option<F>);

impl<F: FnOnce(&Calls<'_>) -> Result<(), AppError>> App for Does<F> {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let what = self.0.take().expect("it runs once");
        what(calls).map(|()| 0)
    }
}

fn does(
    lab: &mut Lab,
    on_server: bool,
    what: impl FnOnce(&Calls<'_>) -> Result<(), AppError> + 'static,
) -> AppId {
    let machine = if on_server {
        lab.server.id
    } else {
        lab.client.id
    };
    lab.start_app(machine, Does(Some(what)))
}

fn relay_with(lab: &mut Lab, line: &str) -> AppId {
    let id = lab.start(lab.server.id, line);
    lab.run_until(|lab| lab.status(id).ready || lab.has_ended(id));
    assert!(!lab.has_ended(id), "{line}: {}", lab.output(id));
    id
}

fn report(report: Report) -> RelayReport {
    match report {
        Report::Relay(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Bytes that tell where they stand.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(step).collect()
}

/// All that comes until the end of the stream.
fn read_all(socket: &vink_apps::Socket<'_>) -> std::io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 65536]);
    loop {
        match socket.recv(&mut buffer, 0)? {
            0 => return Ok(all),
            got => all.extend_from_slice(&buffer[..got]),
        }
    }
}

/// Numbers of a relay, and sockets, files and tasks, are as before it.
fn ends_without_a_trace(lab: &mut Lab, relay: AppId, before: (u64, u64, u64)) -> RelayReport {
    let last = report(lab.stop(relay).report.expect("it has begun"));
    // A connection that was closed first waits for a minute or two (TIME_WAIT), without a file.
    lab.run_for(Duration::from_secs(130));
    assert_eq!(lab.used(), before);
    last
}

#[test]
fn both_directions_end_by_themselves() {
    for (relay, target) in RELAYS.into_iter().zip(TARGETS) {
        let mut lab = Lab::new(Clock::Virtual);
        lab.meet();
        let before = lab.used();
        let id = relay_with(&mut lab, &format!("relay {relay} {target}"));
        // Sends, ends, and the answer comes only then: it is made of all that has come.
        let server = does(&mut lab, false, move |calls| {
            let listener = calls.listen(address(target))?;
            let (socket, _) = listener.accept()?;
            let mut all = read_all(&socket)?;
            all.reverse();
            socket.send_all(&all)?;
            Ok(())
        });
        let sent = bytes(1, 3_000_001);
        let got = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&got);
        let all = sent.clone();
        let client = does(&mut lab, false, move |calls| {
            let socket = calls.connect(address(relay))?;
            socket.send_all(&all)?;
            socket.shutdown(Shutdown::Write)?;
            *to.borrow_mut() = read_all(&socket)?;
            Ok(())
        });
        for app in [client, server] {
            let ended = lab.end(app);
            assert!(
                matches!(ended.state, State::Ended { status: 0, .. }),
                "{ended:?}"
            );
        }
        assert!(sent.iter().rev().eq(got.borrow().iter()), "{relay}");
        lab.run_until(|lab| report(lab.report(id)).open == 0);
        let last = ends_without_a_trace(&mut lab, id, before);
        let bytes = sent.len() as u64;
        let expected = (1, 0, 0, [bytes, bytes]);
        let counted = (last.connections, last.refused, last.errors, last.passed);
        assert_eq!(counted, expected);
    }
}

#[test]
fn a_reset_and_a_refusal_are_passed_on() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.meet();
    let before = lab.used();
    let id = relay_with(&mut lab, "relay 10.0.0.2:80 10.0.0.1:81");
    let connects = |calls: &Calls<'_>| {
        let socket = calls.connect(address(RELAYS[0]))?;
        let reset = read_all(&socket).expect_err("it is reset");
        assert_eq!(reset.raw_os_error(), Some(libc::ECONNRESET));
        Ok(())
    };
    let client = does(&mut lab, false, connects);
    lab.end(client);
    let counted = report(lab.report(id));
    assert_eq!((counted.refused, counted.open), (1, 0));
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // From the target to the client.
    let server = does(&mut lab, false, move |calls| {
        let listener = calls.listen(address(TARGETS[0]))?;
        let (socket, _) = listener.accept()?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_LINGER, &linger)?;
        drop(socket);
        // And from the client to the target.
        let (socket, _) = listener.accept()?;
        let reset = read_all(&socket).expect_err("it is reset");
        assert_eq!(reset.raw_os_error(), Some(libc::ECONNRESET));
        Ok(())
    });
    let client = does(&mut lab, false, connects);
    lab.end(client);
    let client = does(&mut lab, false, move |calls| {
        let socket = calls.connect(address(RELAYS[0]))?;
        // So that the relay has connected, too.
        calls.sleep(Duration::from_millis(10))?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_LINGER, &linger)?;
        Ok(())
    });
    lab.end(client);
    let server = lab.end(server);
    assert!(
        matches!(server.state, State::Ended { status: 0, .. }),
        "{server:?}"
    );
    let last = ends_without_a_trace(&mut lab, id, before);
    assert_eq!((last.refused, last.errors, last.open), (1, 2, 0));
}

#[test]
fn a_slow_reader_holds_the_sender() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.meet();
    let id = relay_with(&mut lab, "relay 10.0.0.2:80 10.0.0.1:81");
    let before = lab.kernel().counters().expect("counters").free_pages;
    does(&mut lab, false, |calls| {
        let listener = calls.listen(address(TARGETS[0]))?;
        let (socket, _) = listener.accept()?;
        calls.sleep(Duration::from_secs(20))?;
        let all = read_all(&socket)?;
        assert!(all.iter().all(|byte| *byte == 0x55));
        Ok(())
    });
    let source = does(&mut lab, false, |calls| {
        let socket = calls.connect(address(RELAYS[0]))?;
        for _ in 0..1000 {
            socket.send_all(&[0x55; 65536])?;
        }
        Ok(())
    });
    lab.run_for(Duration::from_secs(10));
    let held = before - lab.kernel().counters().expect("counters").free_pages;
    assert!(held < 4 << 10, "{held} pages for one connection");
    assert!(!lab.has_ended(source));
    lab.end(source);
    lab.run_until(|lab| report(lab.report(id)).open == 0);
    let last = report(lab.report(id));
    assert_eq!((last.passed, last.errors), ([65_536_000, 0], 0));
}

#[test]
fn a_removed_relay_ends_its_connections() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.meet();
    let before = lab.used();
    let id = relay_with(&mut lab, "relay -n 20 80 10.0.0.1:81");
    let server = lab.start(lab.client.id, "echoserver -p 81");
    let mut clients = Vec::new();
    let reached = Rc::new(RefCell::new(0));
    for number in 0..30u8 {
        let to = RELAYS[usize::from(number % 2)];
        let reached = Rc::clone(&reached);
        clients.push(does(&mut lab, false, move |calls| {
            let socket = calls.connect(address(to))?;
            socket.send_all(&[number])?;
            let mut answer = [0; 2];
            if socket.recv(&mut answer, 0)? == 1 {
                assert_eq!(answer[0], number);
                *reached.borrow_mut() += 1;
                // Its end.
                assert_eq!(socket.recv(&mut answer, 0)?, 0);
            }
            Ok(())
        }));
    }
    lab.run_for(Duration::from_secs(1));
    // Ten of them wait in the queue.
    assert_eq!(*reached.borrow(), 20);
    assert_eq!(report(lab.report(id)).open, 20);
    lab.stop(id);
    for client in clients {
        // Those that wait are reset with the listener.
        lab.end(client);
    }
    lab.run_for(Duration::from_secs(1));
    lab.stop(server);
    lab.run_for(Duration::from_secs(130));
    assert_eq!(lab.used(), before);
}

#[test]
fn room_is_given_to_those_that_wait() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.meet();
    let id = relay_with(&mut lab, "relay -n 3 80 10.0.0.1:81");
    lab.start(lab.client.id, "echoserver -p 81");
    let clients: Vec<AppId> = (0..40)
        .map(|_| lab.start(lab.client.id, "echo -p 80 -c 10 -s 5000 10.0.0.2"))
        .collect();
    for client in clients {
        let Report::Echo(echo) = lab.finish(client) else {
            panic!("a report of echo");
        };
        assert_eq!((echo.received, echo.wrong), (10, 0));
    }
    lab.run_until(|lab| report(lab.report(id)).open == 0);
    let last = report(lab.report(id));
    assert_eq!((last.connections, last.errors), (40, 0));
    assert_eq!(last.passed, [40 * 50_000; 2]);
}

#[test]
fn datagrams_find_their_way_back() {
    for listen in ["80", "10.0.0.2:80", "[fd00::2]:80"] {
        let mut lab = Lab::new(Clock::Virtual);
        lab.meet();
        let before = lab.used();
        let id = relay_with(&mut lab, &format!("relay -u -w 10s {listen} 10.0.0.1:81"));
        let server = lab.start(lab.client.id, "echoserver -p 81");
        let host = if listen.starts_with('[') {
            "fd00::2"
        } else {
            "10.0.0.2"
        };
        let clients: Vec<AppId> = [1, 64, 1200, 9000]
            .iter()
            .map(|size| {
                lab.start(
                    lab.client.id,
                    &format!("echo -u -p 80 -c 50 -s {size} {host}"),
                )
            })
            .collect();
        for client in clients {
            let Report::Echo(echo) = lab.finish(client) else {
                panic!("a report of echo");
            };
            assert_eq!((echo.received, echo.wrong), (50, 0), "{listen}");
        }
        let counted = report(lab.report(id));
        assert_eq!((counted.connections, counted.open), (4, 4));
        assert_eq!((counted.datagrams, counted.dropped), ([200, 200], 0));
        assert_eq!(counted.passed, [50 * 10_265; 2]);
        // Nothing comes for a while: they are forgotten.
        lab.run_for(Duration::from_secs(21));
        assert_eq!(report(lab.report(id)).open, 0);
        lab.stop(server);
        let client = lab.start(lab.client.id, &format!("echo -u -p 80 -c 3 -s 10 {host}"));
        lab.end(client);
        let last = ends_without_a_trace(&mut lab, id, before);
        assert_eq!((last.connections, last.refused), (5, 3));
    }
}

#[test]
fn what_is_wrong_with_the_words() {
    let mut lab = Lab::new(Clock::Virtual);
    for (line, why) in [
        ("relay 80", "TARGET is missing"),
        ("relay 80 10.0.0.1", "no host and port"),
        ("relay web:80 10.0.0.1:80", "no address and port"),
        ("relay 80 nowhere:80", "neither an address nor a name"),
    ] {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        let machine = lab.server.id;
        let started = lab.apps.start(lab.worker.kernel(), machine, &words);
        let error = started.expect_err(line).to_string();
        assert!(error.contains(why), "{line}: {error}");
    }
}
