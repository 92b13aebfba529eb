//! The requests of `LabApi`, made by HTTP and made to the engine directly as a line of a lab makes them: the same answers, the
//! same errors, the same events, at the same virtual times.

mod common;

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use common::Place;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};
use tokio::sync::{mpsc, oneshot};
use vink_api::{Client, Error, Input, LabApi, Output, OutputQuery, RuntimeDir};
use vink_control::{DirectApi, Hooks, Options};

/// Two labs that differ in their names only, each with a line that is carried out when it is up.
const LABS: [&str; 2] = ["by-http", "by-line"];

fn spec(lab: &str, wires: &Value) -> Value {
    json!({
        "name": lab,
        "time": "virtual",
        "seed": 7,
        "machines": {
            "a": {
                "interfaces": { "eth0": { "wire": "w1", "mac": "02:00:00:00:00:01", "addresses": ["10.0.0.1/24"] } },
                "programs": { "echo": { "app": "echoserver -p 7" } },
            },
            "b": { "interfaces": { "eth0": { "wire": "w1", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.2/24"] } } },
        },
        "wires": wires,
        "events": [{ "at": "0s", "do": "help" }],
    })
}

/// A request's body.
fn body<T: DeserializeOwned>(value: Value) -> T {
    let text = value.to_string();
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What came of one request after the other.
#[derive(Default)]
struct Answers {
    all: Vec<(String, String)>,
}

impl Answers {
    fn note<T: Serialize>(&mut self, what: &str, answer: Result<T, Error>) -> Option<T> {
        let (text, answer) = match answer {
            Ok(answer) => {
                let mut value = serde_json::to_value(&answer).expect("plain data");
                without_host(&mut value);
                (value.to_string(), Some(answer))
            }
            Err(Error::Refused { status, problem }) => (
                format!(
                    "{status} {}",
                    serde_json::to_string(&problem).expect("plain data")
                ),
                None,
            ),
            Err(other) => (format!("{other:?}"), None),
        };
        // Only the labs' names differ.
        let text = LABS.iter().fold(text, |text, lab| text.replace(lab, "LAB"));
        self.all.push((what.to_owned(), text));
        answer
    }
}

/// What is the host's: processes, and time by its clock.
fn without_host(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for key in ["seconds", "pid", "began", "folder"] {
                object.remove(key);
            }
            object.values_mut().for_each(without_host);
        }
        Value::Array(all) => all.iter_mut().for_each(without_host),
        _ => {}
    }
}

/// Makes each request of the trait, with those that are refused among them.
async fn requests<A: LabApi>(api: &A, lab: &'static str, place: &Place) -> Vec<(String, String)> {
    let mut all = Answers::default();
    let mut events = api.lab_events(lab).await.expect("events");

    for name in [lab, "none"] {
        all.note("lab", api.lab(name).await);
        all.note("spec", api.spec(name).await);
        all.note("clock", api.clock(name).await);
        all.note("machines", api.machines(name).await);
        all.note("wires", api.wires(name).await);
        all.note("programs", api.programs(name).await);
        all.note("breakpoints", api.breakpoints(name).await);
    }
    for name in ["a", "none"] {
        all.note("machine", api.machine(lab, name).await);
        all.note("resume machine", api.resume_machine(lab, name).await);
    }

    let machine = body(json!({ "name": "c" }));
    let interface = body(json!({ "name": "eth0", "spec": { "mac": "02:00:00:00:00:03" } }));
    let wire = body(json!({ "name": "w2", "spec": { "delay": "1ms" } }));
    for _ in 0..2 {
        all.note("add machine", api.add_machine(lab, &machine).await);
        all.note(
            "add interface",
            api.add_interface(lab, "c", &interface).await,
        );
        all.note("add wire", api.add_wire(lab, &wire).await);
    }
    for (name, change) in [
        ("eth0", json!({ "wire": "w1", "add": ["10.0.0.3/24"] })),
        ("eth0", json!({ "wire": "none" })),
        ("eth0", json!({ "remove": ["10.0.0.4/24"] })),
        ("eth1", json!({ "detach": true })),
    ] {
        let changed = api.change_interface(lab, "c", name, &body(change)).await;
        all.note("change interface", changed);
    }
    for (name, change) in [
        (
            "w1",
            json!({ "settings": { "delay": "5ms", "loss": "0%" } }),
        ),
        (
            "w1",
            json!({ "settings": { "delay": "7ms" }, "from": "a:eth0" }),
        ),
        (
            "w1",
            json!({ "settings": { "delay": "7ms" }, "from": "d:eth0" }),
        ),
        ("w1", json!({ "up": false })),
        ("w1", json!({ "up": true })),
        ("none", json!({ "up": true })),
    ] {
        all.note(
            "change wire",
            api.change_wire(lab, name, &body(change)).await,
        );
    }

    for run in [
        json!({ "by": "1s" }),
        json!({ "until": "1500ms" }),
        json!({ "next": "event" }),
        json!({ "next": "call" }),
        json!({ "ended": "none" }),
        json!({ "ready": "a.echo" }),
        json!({}),
    ] {
        all.note("run clock", api.run_clock(lab, &body(run)).await);
    }
    for change in [
        json!({ "paused": true }),
        json!({ "speed": "max" }),
        json!({ "paused": false }),
        json!({}),
        // A clock that runs goes on by as much as there is time between two requests.
        json!({ "paused": true }),
    ] {
        let changed = api.change_clock(lab, &body(change)).await;
        all.note("change clock", changed);
    }

    breakpoints(api, lab, &mut all).await;
    programs(api, lab, place, &mut all).await;

    let now = |spec: Value| json!({ "spec": spec, "folder": place.temporary(), "running": true });
    let wires = json!({ "w1": { "delay": "5ms" }, "w3": { "rate": "1Mbit" } });
    let mistaken = json!({ "w1": { "uplink": { "tap": "tap0" } } });
    for wires in [&wires, &wires, &mistaken] {
        let wanted = body(now(spec(lab, wires)));
        all.note("put lab", api.put_lab(lab, &wanted).await);
    }
    all.note(
        "put lab",
        api.put_lab("none", &body(now(spec("none", &wires)))).await,
    );
    for _ in 0..2 {
        all.note("remove wire", api.remove_wire(lab, "w3").await);
        all.note("add machine", api.add_machine(lab, &machine).await);
        all.note(
            "add interface",
            api.add_interface(lab, "c", &interface).await,
        );
        all.note(
            "remove interface",
            api.remove_interface(lab, "c", "eth0").await,
        );
        all.note(
            "remove interface",
            api.remove_interface(lab, "c", "eth0").await,
        );
        all.note("remove machine", api.remove_machine(lab, "c").await);
        all.note("remove machine", api.remove_machine(lab, "c").await);
    }
    for wire in ["w1", "none"] {
        all.note("wire", api.wire(lab, wire).await);
    }
    all.note("lab", api.lab(lab).await);
    // How many packets pass from here on depends on how long the host takes for the requests.
    all.note("remove breakpoint", api.remove_breakpoint(lab, "2").await);
    all.note("resume", api.resume(lab).await);

    // A client that goes takes its program with it, by when the clock may have run on.
    let new = body(json!({ "machine": "a", "words": ["sleep", "1000"], "attach": true }));
    let left = all.note("start program", api.start_program(lab, &new).await);
    let left = left.expect("it is made").id;
    drop(api.attach(lab, left).await.expect("it is attached"));
    let is_end = |event: &Value| event["kind"] == "ended" && event["program"] == left;
    let mut seen = Vec::new();
    while !seen.last().is_some_and(is_end) {
        let event = events.next().await.expect("events go on").expect("they do");
        let mut value = serde_json::to_value(&event.what).expect("plain data");
        without_host(&mut value);
        // The line itself ends only when it has asked for all of this. A program without conditions is told as
        // ready unless it has ended before.
        let is_ready = value["kind"] == "ready" && value["name"].is_null();
        if value["kind"] != "timed" && !is_ready {
            seen.push(value);
        }
    }
    // Programs of different machines run side by side: only the events of each are in order.
    seen.sort_by_key(|event| event["program"].as_u64());
    for event in seen {
        all.note("event", Ok(event));
    }
    all.all
}

async fn breakpoints<A: LabApi>(api: &A, lab: &str, all: &mut Answers) {
    for new in [
        json!({ "name": "b1", "spec": { "at": "b:eth0", "drop": true, "times": 1 } }),
        json!({ "name": "b1", "spec": { "at": "b:eth0", "drop": true } }),
        json!({ "spec": { "at": "none", "drop": true } }),
        json!({ "spec": { "at": "a", "filter": "tcp port", "drop": true } }),
        json!({ "spec": { "at": "a", "log": true } }),
    ] {
        all.note("add breakpoint", api.add_breakpoint(lab, &body(new)).await);
    }
    for name in ["b1", "none"] {
        for enabled in [false, true] {
            let enabled = api.enable_breakpoint(lab, name, enabled);
            all.note("enable breakpoint", enabled.await);
        }
        all.note("breakpoints", api.breakpoints(lab).await);
        all.note("remove breakpoint", api.remove_breakpoint(lab, name).await);
    }
}

async fn programs<A: LabApi>(api: &A, lab: &'static str, place: &Place, all: &mut Answers) {
    for new in [
        json!({ "machine": "none", "words": ["true"] }),
        json!({ "machine": "a", "words": [] }),
        json!({ "machine": "a", "words": ["no-such-program"] }),
        json!({ "machine": "a", "words": ["ping"], "app": true, "attach": true }),
    ] {
        // One that can't be run has ended by the time of the answer, or has not.
        let started = api.start_program(lab, &body(new)).await;
        all.note("start program", started.map(|program| program.id));
    }
    let file = place.temporary().join(lab);
    for interface in ["a:eth0", "none:eth0"] {
        let capture = body(json!({ "interfaces": [interface], "path": file, "filter": "icmp" }));
        all.note("start capture", api.start_capture(lab, &capture).await);
    }

    // A virtualized process, one with a log, one that is ended, one that gets a signal.
    for words in [
        json!(["ping", "-c", "2", "10.0.0.1"]),
        json!(["sh", "-c", "echo one; echo two >&2; exit 3"]),
        json!(["sleep", "1000"]),
        json!(["sleep", "1000"]),
    ] {
        let app = words[0] == "ping";
        let new = body(json!({ "machine": "b", "words": words, "app": app }));
        // A short one may have ended by the time of the answer.
        let started = api.start_program(lab, &new).await;
        let started = started.map(|program| program.id);
        let Some(id) = all.note("start program", started) else {
            continue;
        };
        let id = id.to_string();
        if words[0] == "sleep" {
            for signal in [0, libc::SIGTERM] {
                let signalled = api.signal_program(lab, &id, signal).await;
                // It may be told as running still.
                let signalled = signalled.map(|program| program.id);
                all.note("signal program", signalled);
            }
        }
        all.note(
            "run clock",
            api.run_clock(lab, &body(json!({ "ended": id }))).await,
        );
        let query = OutputQuery {
            follow: true,
            tail: None,
        };
        let text = match api.output(lab, &id, &query).await {
            Ok(mut log) => {
                let mut text = Vec::new();
                while let Some(piece) = log.next().await.expect("a log") {
                    text.extend(piece);
                }
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Err(error) => Err(error),
        };
        all.note("output", text);
        all.note("program", api.program(lab, &id).await);
        all.note(
            "signal program",
            api.signal_program(lab, &id, libc::SIGHUP).await,
        );
        all.note("end program", api.end_program(lab, &id).await);
    }
    for name in ["a.echo", "none"] {
        all.note("program", api.program(lab, name).await);
    }
    for name in ["a.echo", "none"] {
        all.note("end program", api.end_program(lab, name).await);
    }
    for _ in 0..2 {
        let capture = api.stop_capture(lab, 4).await;
        all.note("stop capture", capture);
    }

    // Attached ones: input, output and error; a terminal; one whose client goes.
    for (words, more) in [
        (
            json!(["sh", "-c", "cat; echo error >&2; exit 2"]),
            json!({ "input": true }),
        ),
        (json!(["no-such-program"]), json!({})),
        (
            json!([
                "sh",
                "-c",
                "stty -echo; stty size; read x; stty size; echo $x; kill -9 $$"
            ]),
            json!({ "terminal": { "rows": 10, "columns": 20 } }),
        ),
    ] {
        let mut new = json!({ "machine": "a", "words": words, "attach": true });
        let object = new.as_object_mut().expect("one");
        object.extend(more.as_object().expect("one").clone());
        let Some(program) = all.note("start program", api.start_program(lab, &body(new)).await)
        else {
            continue;
        };
        let Ok(terminal) = api.attach(lab, program.id).await else {
            panic!("not attached");
        };
        let is_terminal = more.get("terminal").is_some();
        let (mut input, mut output) = terminal.split();
        let mut outputs: HashMap<&str, Vec<u8>> = HashMap::new();
        // The program's first words tell that it has begun.
        let mut fed = false;
        let ended = loop {
            if !fed && (!is_terminal || !outputs.is_empty()) {
                fed = true;
                if is_terminal {
                    let larger = body(json!({ "rows": 11, "columns": 22 }));
                    input.send(Input::Resize(larger)).await.expect("it goes on");
                }
                // The second is not there any more.
                let _ = input.send(Input::Bytes(b"hello\n"[..].into())).await;
                let _ = input.send(Input::End).await;
            }
            match output.next().await.expect("output") {
                Output::Stdout(bytes) => outputs.entry("out").or_default().extend(bytes),
                Output::Stderr(bytes) => outputs.entry("error").or_default().extend(bytes),
                Output::Ended { code, error } => break (code, error),
                Output::Told(told) => panic!("only a kept terminal is told: {told:?}"),
            }
        };
        for channel in ["out", "error"] {
            let bytes = outputs.remove(channel).unwrap_or_default();
            all.note(channel, Ok(String::from_utf8_lossy(&bytes).into_owned()));
        }
        all.note("ended", Ok(ended));
        let again = api.attach(lab, program.id).await;
        all.note("attach", again.map(drop));
        let query = OutputQuery::default();
        let output = api.output(lab, &program.id.to_string(), &query).await;
        all.note("output", output.map(drop));
    }
    all.note("attach", api.attach(lab, 999).await.map(drop));
}

#[test]
fn both_ways_give_the_same() {
    let place = &Place::all()[0];
    let dir = RuntimeDir::at(place.temporary().join("run"));
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");

    // The line of the one lab hands over what it would ask by, and ends when all is done.
    let (lines, mut begun) = mpsc::unbounded_channel::<(String, DirectApi, oneshot::Sender<()>)>();
    let hooks = Hooks {
        executable: place.folder().join("vink"),
        run_line: Arc::new(move |api, lab, _| {
            let (done, wait) = oneshot::channel();
            lines.send((lab, api, done)).expect("the test waits");
            Box::pin(async move {
                let _ = wait.await;
                Ok(())
            })
        }),
        check: Arc::new(|_, _| Vec::new()),
        switch_box: Arc::new(|_, _| Box::pin(async { Ok(()) })),
    };
    let control = {
        let dir = dir.clone();
        let ready = Some(theirs.into_raw_fd());
        let options = Options {
            ready,
            ..Options::default()
        };
        std::thread::spawn(move || vink_control::run(&dir, options, hooks))
    };
    std::io::Read::read_exact(&mut &ours, &mut [0]).expect("it listens");

    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("an event loop");
    let mut answers = None;
    runtime.block_on(async {
        let client = Client::of(&dir);
        let mut apis = Vec::new();
        let image = place.folder().join("libvink-linux-6.12.so");
        let path = std::env::var("PATH").expect("PATH");
        for lab in LABS {
            let wanted = json!({
                "spec": spec(lab, &json!({ "w1": { "delay": "10ms" } })),
                "folder": place.temporary(),
                "env": { "VINK_IMAGE": image, "PATH": path },
            });
            client.put_lab(lab, &body(wanted)).await.expect("a lab");
            let (of, api, done) = begun.recv().await.expect("a line");
            assert_eq!(of, lab);
            apis.push((api, done));
        }
        let [http, line] = LABS;
        // The first lab's line ends at once.
        drop(apis.remove(0));
        let (api, _done) = apis.remove(0);
        let by_http = requests(&client, http, place).await;
        answers = Some((by_http, requests(&api, line, place).await));
        for lab in LABS {
            client.remove_lab(lab).await.expect("it goes");
        }
    });
    let _ = ours.shutdown(Shutdown::Both);
    control.join().expect("no panic").expect("it ends");

    let (http, line) = answers.expect("both were asked");
    // What users ask for is an event of its own; a line of the lab's is no user.
    let is_asked = |text: &str| text.starts_with("{\"kind\":\"asked\"");
    let (asked, http): (Vec<_>, Vec<_>) = http.into_iter().partition(|(_, text)| is_asked(text));
    assert!(asked.len() > 20, "{asked:#?}");
    assert!(!line.iter().any(|(_, text)| is_asked(text)), "{line:#?}");
    let differ = http.iter().zip(&line).filter(|(http, line)| http != line);
    let differ: Vec<_> = differ.collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(http.len(), line.len());
    assert!(
        http.iter()
            .filter(|(_, text)| text.starts_with('4'))
            .count()
            > 20
    );
}
