//! How apps begin, are looked at and end.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::lab::{Lab, SERVER};
use vink_apps::{App, AppError, Apps, Calls, Error, Report, State};
use vink_kernel::{Clock, WireSettings};
use vink_trap::{Program, Status, Stdio};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_stopped_app_leaves_nothing_whatever_it_waits_for() {
    let mut lab = Lab::new(Clock::Virtual);
    lab.set_wire(WireSettings {
        delay: Duration::from_secs(1),
        ..WireSettings::default()
    });
    let before = lab.used();
    // Waiting in epoll_wait, in connect, in poll, in a sleep; and busy.
    for line in [
        "echoserver",
        "discardserver -u",
        "sink",
        "source 10.0.0.2",
        "echo fd00::2",
        "echo -u -w 100s 10.0.0.2",
        "source -u -r 1kbit 10.0.0.2",
        "source -P 5 -t 1000s 127.0.0.1 -p 6000",
    ] {
        let sink = line.contains("127.0.0.1").then(|| {
            let id = lab.start(lab.client.id, "sink -p 6000");
            lab.kernel().run().expect("it runs");
            id
        });
        let id = lab.start(lab.client.id, line);
        lab.kernel().run().expect("it runs");
        let status = lab.status(id);
        assert_eq!(status.state, State::Running, "{line}");
        assert!(lab.used().2 > before.2, "{line}");
        let status = lab.stop(id);
        let ended = State::Ended {
            status: 0,
            error: None,
        };
        assert_eq!(status.state, ended, "{line}");
        sink.map(|sink| lab.stop(sink));
        assert!(matches!(lab.apps.status(id), Err(Error::NoSuchApp(_))));
        // What is left of connections goes by timers.
        lab.run_for(Duration::from_secs(120));
        assert_eq!(lab.used(), before, "{line}");
    }
}

#[test]
fn an_app_can_be_stopped_before_it_begins() {
    let mut lab = Lab::new(Clock::Virtual);
    let id = lab.start(lab.server.id, "echoserver");
    lab.apps.stop(lab.worker.kernel(), id).expect("told");
    assert_eq!(lab.status(id).state, State::Stopping);
    assert!(matches!(lab.apps.take(id), Err(Error::Running(_))));
    let status = lab.end(id);
    let ended = State::Ended {
        status: 0,
        error: None,
    };
    assert_eq!(status.state, ended);
    assert!(matches!(
        lab.apps.stop(lab.worker.kernel(), id),
        Err(Error::NoSuchApp(_))
    ));
}

#[test]
fn busy_apps_leave_their_turn_to_the_worker() {
    let mut lab = Lab::new(Clock::Real);
    let machines = [lab.client.id, lab.server.id];
    let mut all = Vec::new();
    for machine in machines {
        all.push(lab.start(machine, "sink"));
    }
    lab.kernel().run().expect("it runs");
    for machine in machines {
        all.push(lab.start(machine, "source -t 1h 127.0.0.1"));
        all.push(lab.start(machine, "source -t 1h -P 3 127.0.0.1"));
    }
    // Each run comes back although nothing waits, and all connections make progress.
    let bytes = |lab: &Lab, id| match lab.status(id).report {
        Some(Report::Source(report)) => report.bytes,
        _ => 0,
    };
    let sources = all[2..].to_vec();
    lab.run_until(|lab| sources.iter().all(|id| bytes(lab, *id) > 10_000_000));
    let machine = lab.client.id;
    lab.shell(machine, "true");
    for id in sources {
        let status = lab.stop(id);
        assert!(matches!(status.state, State::Ended { status: 0, .. }));
    }
    for machine in machines {
        let stopped = lab.apps.stop_machine(lab.worker.kernel(), machine);
        stopped.expect("they are told");
    }
    for id in &all[..2] {
        lab.end(*id);
    }
}

struct Panics;

impl App for Panics {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let _open = calls.listen(SocketAddr::from(([0, 0, 0, 0], 80)))?;
        panic!("on purpose");
    }
}

#[test]
fn a_panic_ends_its_own_app_only() {
    let mut lab = Lab::new(Clock::Virtual);
    let server = lab.serve("echoserver");
    let before = lab.used();
    let id = lab.start_app(lab.server.id, Panics);
    let status = lab.end(id);
    let State::Ended { status, error } = status.state else {
        panic!("it has ended")
    };
    assert_eq!(status, 101);
    assert_eq!(error.as_deref(), Some("panicked: on purpose"));
    assert_eq!(lab.used(), before);
    let client = lab.start(lab.client.id, "echo 10.0.0.2");
    lab.finish(client);
    lab.stop(server);
}

/// Makes calls none of which waits, and writes down its number at each.
struct Busy {
    number: usize,
    calls: Rc<RefCell<Vec<usize>>>,
}

impl App for Busy {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        for _ in 0..3000 {
            calls.call(libc::SYS_getppid, [0; 6])?;
            self.calls.borrow_mut().push(self.number);
        }
        Ok(0)
    }
}

#[test]
fn in_virtual_time_the_host_s_does_not_say_which_app_runs() {
    let mut lab = Lab::new(Clock::Virtual);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let apps = [0, 1].map(|number| {
        let calls = Rc::clone(&calls);
        lab.start_app(lab.server.id, Busy { number, calls })
    });
    for id in apps {
        lab.end(id);
    }
    let calls = calls.borrow();
    let turns: Vec<_> = calls.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!(turns, [1023, 1023, 1024, 1024, 953, 953]);
}

/// Serves one client, and tells how far it is.
struct Own(Rc<Cell<u64>>);

impl App for Own {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let count = Rc::clone(&self.0);
        calls.publish(move || Report::Other {
            value: count.get().into(),
        });
        let listener = calls.listen("[::]:99".parse().expect("an address"))?;
        calls.ready();
        let (client, from) = listener.accept()?;
        assert_eq!(client.peer_address()?, from);
        assert_eq!(client.local_address()?.port(), 99);
        let mut byte = [0];
        while client.recv(&mut byte, 0)? == 1 {
            self.0.set(self.0.get() + 1);
        }
        let info = client.tcp_info()?;
        calls.print(&format!("{} bytes an mss\n", info.tcpi_rcv_mss));
        Ok(3)
    }
}

#[test]
fn an_app_of_ones_own_says_what_it_likes() {
    let mut lab = Lab::new(Clock::Virtual);
    let count = Rc::new(Cell::new(0));
    let id = lab.start_app(lab.server.id, Own(Rc::clone(&count)));
    lab.run_until(|lab| lab.status(id).ready);
    let client = lab.start(lab.client.id, "source -p 99 -n 5000 fd00::2");
    lab.finish(client);
    lab.run_until(|lab| lab.has_ended(id));
    let output = lab.output(id);
    assert!(output.ends_with("bytes an mss\n5000\n"), "{output}");
    let status = lab.end(id);
    assert_eq!(status.report, Some(Report::Other { value: 5000.into() }));
    assert!(matches!(status.state, State::Ended { status: 3, .. }));
    assert_eq!(count.get(), 5000);
}

#[test]
fn mistakes_in_words_are_told() {
    let mut lab = Lab::new(Clock::Virtual);
    let machine = lab.client.id;
    let mut why = |line: &str| {
        let words = words(line);
        let refused = lab.apps.start(lab.worker.kernel(), machine, &words);
        refused.expect_err(line).to_string()
    };
    assert!(why("").starts_with("there is no app ''; there are echoserver, echo, "));
    assert!(why("firefox").starts_with("there is no app 'firefox'"));
    assert_eq!(
        why("echoserver -p 0"),
        "echoserver: -p 0: a whole number from 1 on is wanted, and not too large a one; \
         usage: echoserver [-p PORT] [-b ADDRESS] [-t] [-u]"
    );
    assert!(why("echo").starts_with("echo: HOST is missing; usage: echo "));
    assert!(why("echo nowhere").contains("'nowhere' is neither an address nor a name"));
    assert!(why("source -u -l 10 10.0.0.1").contains("25 to 65507 bytes"));
    assert!(why("source -r 10parsec 10.0.0.1").contains("a unit is one of bit, k, kbit"));
}

#[test]
fn names_of_the_lab_are_known() {
    let mut lab = Lab::new(Clock::Virtual);
    let names = lab.apps.names();
    names.set("Server", SERVER.map(|a| a.parse().expect("an address")));
    lab.serve("echoserver -t");
    for (line, address) in [
        ("echo server", "10.0.0.2:7"),
        ("echo -6 server.", "[fd00::2]:7"),
    ] {
        let id = lab.start(lab.client.id, line);
        lab.finish(id);
        let id = lab.start(lab.client.id, &format!("{line} -p 9"));
        lab.run_until(|lab| lab.has_ended(id));
        let output = lab.output(id);
        assert!(output.contains(&format!("connect to {}", address.replace(":7", ":9"))));
    }
    names.remove("server");
    let refused = lab
        .apps
        .start(lab.worker.kernel(), lab.client.id, &words("echo server"));
    assert!(matches!(refused, Err(Error::Usage { app: "echo", .. })));
}

#[test]
fn a_thousand_clients_are_served() {
    let mut lab = Lab::with_arena(Clock::Virtual, 512 << 20);
    lab.set_wire(WireSettings {
        delay: Duration::from_millis(5),
        ..WireSettings::default()
    });
    let server = lab.serve("echoserver -t");
    let clients: Vec<_> = (0..1000)
        .map(|n| {
            let host = SERVER[n % 2];
            lab.start(lab.client.id, &format!("echo -c 10 -i 10ms {host}"))
        })
        .collect();
    for id in clients {
        let Report::Echo(report) = lab.finish(id) else {
            panic!("an echo's report")
        };
        assert_eq!(report.received, 10);
        assert!((0.01..0.0101).contains(&report.avg), "{report}");
    }
    let Report::Server(report) = lab.stop(server).report.expect("it ran") else {
        panic!("a server's report")
    };
    assert_eq!((report.connections, report.received), (1000, 640_000));
}

#[test]
fn an_unmodified_program_talks_to_an_app() {
    let mut lab = Lab::new(Clock::Real);
    lab.serve("echoserver");
    for (host, family) in [("10.0.0.2", "AF_INET"), ("fd00::2", "AF_INET6")] {
        let script = format!(
            "import socket
s = socket.create_connection(('{host}', 7))
s.sendall(b'over tcp' * 1000)
s.shutdown(socket.SHUT_WR)
assert b''.join(iter(lambda: s.recv(4096), b'')) == b'over tcp' * 1000
u = socket.socket(socket.{family}, socket.SOCK_DGRAM)
u.sendto(b'over udp', ('{host}', 7))
assert u.recvfrom(100)[0] == b'over udp'"
        );
        let program = Program::new("/usr/bin/python3")
            .args(["-c", &script])
            .stdin(Stdio::Null);
        let program = lab.worker.spawn(lab.client.id, program).expect("it starts");
        assert_eq!(
            lab.worker.wait(program).expect("it runs"),
            Status::Exited(0)
        );
    }
}

#[test]
fn a_report_is_json() {
    let mut lab = Lab::new(Clock::Virtual);
    let id = lab.serve("echoserver");
    let json = serde_json::to_value(lab.status(id)).expect("JSON");
    assert_eq!(json["report"]["kind"], "server");
    assert_eq!(json["report"]["connections"], 0);
    assert_eq!(json["state"]["is"], "running");
    let back: vink_apps::Status = serde_json::from_value(json).expect("a status");
    assert_eq!(back, lab.status(id));
    assert!(Apps::help().iter().any(|help| help.name == "echoserver"));
}

#[test]
fn apps_for_which_there_is_no_memory_end_alone() {
    let mut lab = Lab::with_arena(Clock::Virtual, 32 << 20);
    let server = lab.serve("echoserver");
    let many: Vec<_> = (0..1000)
        .map(|n| lab.start(lab.client.id, &format!("echoserver -t -p {}", 1000 + n)))
        .collect();
    lab.run_until(|lab| {
        let decided = |id| lab.status(id).ready || lab.has_ended(id);
        many.iter().all(|id| decided(*id))
    });
    let (served, refused): (Vec<_>, Vec<_>) =
        many.into_iter().partition(|id| lab.status(*id).ready);
    assert!(
        served.len() > 100 && refused.len() > 100,
        "{} served",
        served.len()
    );
    let status = lab.end(*refused.last().expect("some"));
    let State::Ended { status, error } = status.state else {
        panic!("it has ended")
    };
    assert_eq!(status, 126, "{error:?}");
    assert!(error.expect("a reason").contains("no memory for its task"));
    for id in served {
        lab.stop(id);
    }
    let client = lab.start(lab.client.id, "echo 10.0.0.2");
    lab.finish(client);
    lab.stop(server);
}
