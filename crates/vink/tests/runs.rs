//! Recorded runs: their history by the API, their moments opened as labs, and branches.

mod common;

use std::process::{Command, Stdio};

use common::control::Control;
use common::Place;
use serde_json::Value;

const LAB: &str = "
name: busy
time: virtual
seed: 7
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      host: { command: [ping, -c, \"90\", 10.0.0.2] }
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs:
      web: { app: httpserver, ready: { port: 80 } }
      marks: { command: [sh, -c, 'while sleep 1; do date +%s; done >marks'] }
wires:
  w1: { delay: 100ms, jitter: 1ms, loss: 3% }
events:
  - { at: 10050ms, do: wire set w1 loss 100% }
  - { at: 20050ms, do: wire set w1 loss 0% }
";

fn get(control: &Control, path: &str) -> Value {
    let (status, answer) = control.ask("GET", path, "");
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// What is to be the same: counters, a connection that is open, a file.
const STATE: &str =
    "ip -s link show eth0; ip neighbour; ss -tino | sort; cat marks 2>/dev/null || true";

fn state(control: &Control, lab: &str) -> String {
    let of = |machine| control.vink(&["exec", "--lab", lab, machine, "--", "sh", "-c", STATE]);
    format!("{}{}", of("a"), of("b"))
}

/// Records a lab whose clock is let go in steps: the state of it at 21 s, and that time on its own clock (ns).
fn record(control: &Control) -> (String, u64) {
    record_lab(control, LAB)
}

fn record_lab(control: &Control, lab: &str) -> (String, u64) {
    control.write("lab.yaml", lab);
    // Its clock stands between the steps.
    control.vink(&["lab", "up", "--paused", "--record", "one"]);
    control.vink(&["lab", "until", "5s"]);
    let slow = "curl -sS --limit-rate 2000 -o /dev/null http://10.0.0.2/100k";
    control.vink(&["exec", "--detach", "a", "--", "sh", "-c", slow]);
    control.vink(&["lab", "until", "12s"]);
    control.vink(&["wire", "set", "w1", "delay", "50ms"]);
    let stop = ["break", "add", "w1", "filter", "icmp", "drop", "times", "1"];
    control.vink(&stop);
    let clock = control.json(&["lab", "until", "21s", "--json"]);
    let at = clock["kernel-nanoseconds"].as_u64().expect("a time");
    let state = state(control, "busy");
    control.vink(&["lab", "until", "50s"]);
    // For no socket; and answers to the ping are more than this queue takes.
    let stray = "echo >/dev/udp/10.0.0.2/9";
    control.vink(&["exec", "a", "--", "bash", "-c", stray]);
    let few = "tc qdisc add dev eth0 root tbf rate 8bit burst 10 limit 10";
    control.vink(&["exec", "b", "--", "sh", "-c", few]);
    control.vink(&["lab", "until", "60s"]);
    control.vink(&["lab", "down"]);
    (state, at)
}

#[test]
fn a_moment_is_as_the_run_was_then_and_goes_its_own_way() {
    for place in Place::all() {
        let control = Control::of(&place);
        let (then, at) = record(&control);
        let at = format!("{at}ns");
        // Another lab of the run's name is left alone.
        control.vink(&["lab", "up", "--paused"]);
        let said = control.vink(&["replay", "one", "--until", &at, "--open", "moment"]);
        assert!(
            said.starts_with("lab moment stands at 21."),
            "{}: {said}",
            place.user()
        );
        control.vink(&["lab", "down", "busy"]);
        let opened = || {
            let all = get(&control, "/v1/labs");
            let moment = all
                .as_array()
                .expect("labs")
                .iter()
                .find(|lab| lab["name"] == "moment");
            moment.expect("it runs")["opened"].clone()
        };
        let before = opened();
        assert_eq!(before["branch"], false, "{before}");
        assert_eq!(before["nanoseconds"].to_string() + "ns", at);
        // Looking changes nothing.
        get(&control, "/v1/labs/moment/machines/a");
        assert_eq!(opened()["branch"], false);
        let runs = || get(&control, "/v1/runs").as_array().expect("runs").clone();
        assert_eq!(runs().len(), 1, "{:?}", runs());
        // The first program that is run on it makes it a branch.
        let now = state(&control, "moment");
        assert_eq!(now, then, "{}", place.user());
        assert_eq!(opened()["branch"], true);
        let all = runs();
        let branch = all
            .iter()
            .find(|run| !run["parent"].is_null())
            .expect("a branch");
        assert_eq!(branch["parent"]["nanoseconds"].to_string() + "ns", at);
        assert_eq!(branch["parent"]["run"], "one");
        control.vink(&["wire", "set", "w1", "loss", "100%", "--lab", "moment"]);
        control.vink(&["lab", "until", "30s", "--lab", "moment"]);
        control.vink(&["lab", "down", "moment"]);
        let folder = branch["path"].as_str().expect("a path");
        let said = control.vink(&["replay", folder]);
        assert!(
            said.starts_with("the run repeats: "),
            "{}: {said}",
            place.user()
        );
        let parted = control.try_vink(&["lab", "diff", "one", folder]);
        assert_eq!(parted.status.code(), Some(1));
    }
}

#[test]
fn a_moment_that_nothing_is_done_to_leaves_nothing() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    record(&control);
    let files = || {
        let all = std::fs::read_dir(control.folder()).expect("a folder");
        let mut names: Vec<_> = all
            .map(|entry| entry.expect("a file").file_name())
            // The control process's own, which ends some time after its last lab.
            .filter(|name| name != "run")
            .collect();
        names.sort();
        names
    };
    let before = files();
    let said = control.vink(&["replay", "one", "--until", "0s"]);
    // It is there when the lab was up.
    assert!(said.starts_with("lab busy-at-0s stands at "), "{said}");
    let (_, said) = control.fails(&["replay", "one", "--until", "0s"]);
    assert!(said.contains("busy-at-0s runs already"), "{said}");
    control.vink(&["lab", "down"]);
    assert_eq!(files(), before);
    let (_, said) = control.fails(&["replay", "one", "--until", "2h"]);
    assert!(said.contains("run one ends at "), "{said}");
}

#[test]
fn a_command_that_is_interrupted_leaves_no_lab() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let endless = LAB.replace(
        "events:\n",
        "events:\n  - { at: 30s, do: \"exec a sh -c 'while :; do :; done'\" }\n",
    );
    control.write("lab.yaml", &endless);
    control.vink(&["lab", "up", "--record", "one"]);
    control.vink(&["lab", "until", "29s"]);
    control.vink(&["lab", "down"]);
    // Its clock stands while a program computes.
    let path = control.folder().join("one/manifest.json");
    let text = std::fs::read_to_string(&path).expect("a manifest");
    assert!(text.contains("\"30s\""), "{text}");
    std::fs::write(&path, text.replace("\"30s\"", "\"1s\"")).expect("written");
    let mut child = control.start(&["replay", "one", "--until", "29s"]);
    let opening = || {
        let all = control.try_vink(&["lab", "ps", "--json"]);
        String::from_utf8_lossy(&all.stdout).contains("busy-at-29s")
    };
    while !opening() && child.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .stdin(Stdio::null())
        .status();
    assert!(kill.expect("kill").success());
    child.wait().expect("a child");
    while opening() {
        std::thread::yield_now();
    }
    let left = std::fs::read_dir(control.folder()).expect("a folder");
    let is_left = |name: &str| name.starts_with("one-at-");
    let names: Vec<_> = left
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| is_left(name))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

/// A client with the same question twice, once waiting for the answer. A lease of the journal (fcntl(2)) holds the control
/// process where it opens that, and tells when it has closed it: so many bytes it has read for either.
const GIVEN_UP: &str = r#"
import fcntl, os, signal, socket, sys
journal, server, question, control = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(journal, os.O_RDONLY)
def read():
    with open(f"/proc/{control}/io") as io: return int(io.readline().split()[1])
def lease():
    while True:
        try: return fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except BlockingIOError: pass
for waits in [True, False]:
    lease()
    before = read()
    client = socket.socket(socket.AF_UNIX)
    client.connect(server)
    client.sendall(f"GET {question} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    signal.sigwait([signal.SIGIO])
    if not waits:
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b"", "an answer"
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    lease()
    print(read() - before)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"#;

#[test]
fn a_question_that_is_given_up_is_not_read_on_for() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    // A journal that is many times what is read of it at once.
    let often = r#"[ping, -q, -i, "0.01", 10.0.0.2]"#;
    record_lab(
        &control,
        &LAB.replace(r#"[ping, -c, "90", 10.0.0.2]"#, often),
    );
    control.write("other.yaml", "name: other\nmachines: { m: {} }\n");
    control.vink(&["lab", "up", "other.yaml"]);
    let new = format!("{{\"path\": {:?}}}", control.folder().display().to_string());
    assert_eq!(control.ask("POST", "/v1/runs", &new).0, 201);
    // It has its index.
    let end = get(&control, "/v1/runs/one")["nanoseconds"].clone();
    let is_control = |pid: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.split('\0').nth(1) == Some("daemon"))
    };
    let process = control.processes().into_iter().find(is_control);
    for question in [
        format!("/v1/runs/one/flights?from=0&to={end}"),
        "/v1/runs/one/difference?with=one".to_owned(),
    ] {
        let output = control
            .command("python3")
            .args(["-c", GIVEN_UP])
            .arg(control.folder().join("one/run.journal"))
            .arg(control.runtime().join("control.sock"))
            .arg(&question)
            .arg(process.expect("a control process").to_string())
            .output()
            .expect("python3");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let read: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let [whole, given_up] = read[..] else {
            panic!("{text}{}", String::from_utf8_lossy(&output.stderr))
        };
        assert!(
            given_up < whole / 4,
            "{question}: {given_up} bytes of {whole}"
        );
    }
}

#[test]
fn what_cant_be_opened_says_why() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", "name: real\nmachines:\n  m1: {}\n");
    control.vink(&["lab", "up", "--record", "real"]);
    control.vink(&["lab", "down"]);
    let (_, said) = control.fails(&["replay", "real", "--until", "0s"]);
    assert!(said.contains("it went by the host's clock"), "{said}");
    control.vink(&[
        "run", "--time", "virtual", "--record", "run.json", "--", "true",
    ]);
    let (_, said) = control.fails(&["replay", "run.json", "--until", "0s"]);
    assert!(said.contains("it is a program by itself"), "{said}");
    record(&control);
    let path = control.folder().join("one/manifest.json");
    let text = std::fs::read_to_string(&path).expect("a manifest");
    // A run that is another one than its journal says.
    std::fs::write(&path, text.replace("\"seed\": 7", "\"seed\": 8")).expect("written");
    let (_, said) = control.fails(&["replay", "one", "--until", "20s"]);
    assert!(said.contains("run one does not repeat: until "), "{said}");
    // With the first event that differs, in both runs.
    for sign in ["\n- ", "\n+ "] {
        assert!(said.contains(sign), "{said}");
    }
    // The lab goes after that was said.
    let is_left = || {
        let labs = control.try_vink(&["lab", "ps"]);
        String::from_utf8_lossy(&labs.stdout).contains("busy")
    };
    while is_left() {
        std::thread::yield_now();
    }
    std::fs::write(
        &path,
        text.replace("\"image-hash\": \"", "\"image-hash\": \"0000")
            .replacen("0000", "", 0),
    )
    .expect("written");
    let (_, said) = control.fails(&["replay", "one", "--until", "20s"]);
    assert!(said.contains("hash"), "{said}");
}

#[test]
fn history_is_told_by_the_api() {
    for place in Place::all() {
        let control = Control::of(&place);
        let (_, at) = record(&control);
        // Something that keeps the control process.
        control.write("other.yaml", "name: other\nmachines: { m: {} }\n");
        control.vink(&["lab", "up", "other.yaml"]);
        assert_eq!(get(&control, "/v1/runs"), Value::Array(Vec::new()));
        let folder = control.folder().display().to_string();
        let new = format!("{{\"path\": {folder:?}}}");
        let (status, listed) = control.ask("POST", "/v1/runs", &new);
        assert_eq!(status, 201, "{listed}");
        assert_eq!(listed[0]["id"], "one");
        assert_eq!(get(&control, "/v1/runs"), listed);
        let run = get(&control, "/v1/runs/one");
        assert_eq!(run["cut"], false);
        assert_eq!(run["topology"]["nodes"].as_array().map(Vec::len), Some(2));
        let end = run["nanoseconds"].as_u64().expect("an end");

        let text = control.vink(&["trace", "export", "--format", "text", "one"]);
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count() as u64;
        let count = |timeline: &Value, kind: &str| {
            let rows = timeline["rows"].as_array().expect("rows");
            let row = rows.iter().find(|row| row["kind"] == kind);
            let counts = row.and_then(|row| row["counts"].as_array().cloned());
            counts
                .unwrap_or_default()
                .iter()
                .filter_map(Value::as_u64)
                .sum::<u64>()
        };
        // A wire or a full queue loses; what there is no socket for has been delivered.
        let losses = lines(":eth0 loses (");
        let reasons = ["random", "breakpoint", "QDISC_DROP"];
        let each = reasons.map(|reason| lines(&format!(" loses ({reason}) ")));
        assert!(
            !each.contains(&0) && losses == each.iter().sum::<u64>(),
            "{text}"
        );
        assert!(lines(":eth0 drops (NO_SOCKET) ") > 0, "{text}");
        for bins in [1, 7, 500] {
            let all = get(&control, &format!("/v1/runs/one/timeline?bins={bins}"));
            assert!(all["bins"].as_u64() <= Some(bins), "{all}");
            assert_eq!(count(&all, "loss"), losses);
            assert_eq!(count(&all, "drop"), lines(":eth0 drops ("));
            assert_eq!(
                count(&all, "request"),
                lines(" asks for ") - lines("/clock")
            );
            assert_eq!(count(&all, "breakpoint"), 1);
        }
        // Counters are those of the interface itself.
        let state = get(&control, &format!("/v1/runs/one/state?at={end}"));
        let a = state["ends"]
            .as_array()
            .expect("ends")
            .iter()
            .find(|one| one["end"] == "a:eth0");
        assert_eq!(a.expect("an end")["sent"], lines(" a:eth0 sends "));
        // From one loss to the next, and back.
        let next = |query: &str| get(&control, &format!("/v1/runs/one/next?{query}"))[0].clone();
        let first = next("at=0&kinds=loss");
        let time = first["nanoseconds"].as_u64().expect("a time");
        let second = next(&format!("at={time}&kinds=loss"));
        let later = second["nanoseconds"].as_u64().expect("a time");
        assert!(later > time);
        let back = next(&format!("at={later}&kinds=loss&back=true"));
        assert_eq!(back["nanoseconds"], first["nanoseconds"]);
        assert_eq!(next(&format!("at={end}&kinds=breakpoint")), Value::Null);
        // All of them are losses, and no others are gone to.
        let mut last = 0;
        for _ in 0..losses {
            let found = next(&format!("at={last}&kinds=loss"));
            let text = found["text"].as_str().unwrap_or_default();
            let Some(at) = found["nanoseconds"].as_u64() else {
                break;
            };
            assert!(text.contains(" loses ("), "{text}");
            last = at;
        }
        let drop = next("at=0&kinds=drop");
        let text = drop["text"].as_str().expect("a text");
        assert!(text.contains(" drops ("), "{text}");
        let events = get(
            &control,
            &format!("/v1/runs/one/events?from={time}&to={time}&kinds=packet"),
        );
        assert!(
            events.as_array().expect("events").contains(&first),
            "{events}"
        );
        let (status, said) = control.ask("GET", "/v1/runs/one/events?kinds=any", "");
        assert_eq!(status, 422, "{said}");

        // Packets at one end, in pieces, and one of them with what is in it.
        let packets = |query: &str| get(&control, &format!("/v1/runs/one/packets?{query}"));
        let all = packets("end=a:eth0&count=2000");
        let all = all.as_array().expect("packets");
        let departures = all.iter().filter(|one| one["what"] == "departure");
        assert_eq!(departures.count() as u64, lines(" a:eth0 sends "));
        let after = all[4]["number"].as_u64().expect("a number");
        let two = packets(&format!("end=a:eth0&after={after}&count=2"));
        assert_eq!(two.as_array().expect("packets")[..], all[5..7]);
        let at_time = packets(&format!("from={time}&to={time}"));
        let lost = |one: &Value| one["number"] == first["number"] && one["what"] == "loss";
        let at_time = at_time.as_array().expect("packets");
        assert!(at_time.iter().any(lost), "{at_time:?}");
        let (status, said) = control.ask("GET", "/v1/runs/one/packets?end=c:eth0", "");
        assert_eq!(status, 404, "{said}");
        let reply = all.iter().find(|one| {
            let line = one["summary"].as_str().expect("a line");
            one["what"] == "arrival" && line.contains("10.0.0.2 > 10.0.0.1: ICMP echo reply")
        });
        let reply = reply.expect("a reply");
        let detail = get(
            &control,
            &format!("/v1/runs/one/packets/{}", reply["number"]),
        );
        assert_eq!(detail["packet"], *reply);
        let bytes = detail["bytes"].as_str().expect("bytes");
        assert!(
            bytes.len() == 2 * 98 && bytes[24..].starts_with("080045"),
            "{bytes}"
        );
        let fields = detail["fields"].as_array();
        let icmp = &fields.unwrap_or_else(|| panic!("{}", detail["undissected"]))[2];
        assert_eq!(icmp["filter"], "icmp");
        // It knows of the request.
        assert!(icmp.to_string().contains("Response time"), "{icmp}");
        // A record that is no packet, and one that is not there.
        let request = next("at=0&kinds=request")["number"].clone();
        for number in [request, 999_999_999.into(), "one".into()] {
            let path = format!("/v1/runs/one/packets/{number}").replace('"', "");
            let (status, said) = control.ask("GET", &path, "");
            assert!(status == 404 && said["hint"].is_string(), "{path}: {said}");
        }

        // Frames as the page's picture has them.
        let flights = control
            .command("curl")
            .args(["-sS", "--unix-socket"])
            .arg(control.runtime().join("control.sock"))
            .arg(format!(
                "http://localhost/v1/runs/one/flights?from={}&to={at}",
                at - 1_000_000_000
            ))
            .output()
            .expect("curl")
            .stdout;
        let records = u16::from_le_bytes([flights[2], flights[3]]);
        // A ping and its answer, which has arrived: that it is dropped there is no loss of a wire.
        assert_eq!((records, flights.len()), (2, 24 * 3), "{at}");

        let same = get(&control, "/v1/runs/one/difference?with=one");
        assert_eq!(same["same"], true);

        // No name leads to another file.
        for path in [
            "/v1/runs/..%2f..%2fetc%2fpasswd",
            "/v1/runs/%2e%2e/state?at=0",
            "/v1/runs/one%2f..%2fone",
            "/v1/runs/../labs/x",
        ] {
            let (status, said) = control.ask("GET", path, "");
            assert_eq!(status, 404, "{path}: {said}");
        }
        for path in ["one", "/etc/passwd", "/nowhere", "/proc/self/fd"] {
            let (status, said) =
                control.ask("POST", "/v1/runs", &format!("{{\"path\": {path:?}}}"));
            assert!((400..500).contains(&status), "{path}: {said}");
        }
        // A manifest whose journal is elsewhere.
        let manifest = control.folder().join("one/manifest.json");
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        for elsewhere in ["../one/run.journal", "/etc/passwd", ".."] {
            let text = text.replace("\"run.journal\"", &format!("{elsewhere:?}"));
            std::fs::write(&manifest, text).expect("written");
            let (status, said) = control.ask("GET", "/v1/runs/one/state?at=0", "");
            assert_eq!(status, 409, "{elsewhere}: {said}");
        }
        control.vink(&["lab", "down"]);
    }
}

const CHANGING: &str = "
name: changing
time: virtual
seed: 3
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      host: { command: [ping, -c, \"30\", 10.0.0.2] }
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
wires:
  w1: { delay: 10ms }
events:
  - { at: 4s, do: wire set w1 loss 5% }
";

/// What is added to it by a file: a machine with a shell line, which takes time.
const ADDED: &str = "
  d:
    forward: true
    interfaces: { eth0: { wire: w3, addresses: [10.0.3.1/24] } }
    setup: [sleep 2]
wires:
  w3: {}
";

/// Records a lab that is changed in all ways.
fn record_changes(control: &Control) {
    control.write("lab.yaml", CHANGING);
    let until = |time: &str| control.vink(&["lab", "until", time, "--lab", "changing"]);
    control.vink(&["lab", "up", "--record", "one"]);
    until("5s");
    let machine = r#"{"name": "c", "spec": {"interfaces": {"eth0": {"wire": "w2", "addresses": ["10.0.2.1/24"]}}}}"#;
    let path = "/v1/labs/changing/machines";
    let (status, said) = control.ask("POST", path, machine);
    assert_eq!(status, 201, "{said}");
    until("6s");
    let interface = r#"{"name": "eth1", "spec": {"wire": "w2", "addresses": ["10.0.2.2/24"]}}"#;
    let (status, said) = control.ask("POST", &format!("{path}/b/interfaces"), interface);
    assert_eq!(status, 201, "{said}");
    control.vink(&["exec", "c", "--", "ping", "-c", "2", "10.0.2.2"]);
    until("15s");
    control.vink(&["wire", "set", "w1", "delay", "50ms"]);
    control.vink(&["wire", "set", "w1", "delay", "20ms", "from", "a:eth0"]);
    // What changes nothing of machines and wires.
    control.vink(&["exec", "a", "--", "true"]);
    until("20s");
    control.vink(&["machine", "rm", "c"]);
    until("25s");
    let added = CHANGING.replace("wires:\n", &ADDED[1..]);
    control.write("later.yaml", &added);
    control.vink(&["lab", "apply", "later.yaml"]);
    until("29s");
    control.vink(&["wire", "down", "w1"]);
    until("40s");
    control.vink(&["lab", "down"]);
}

/// Names of machines, with what is not a plain one, and of wires with their ends and settings.
fn drawn(then: &Value) -> String {
    let topology = &then["topology"];
    let list = |of: &Value| of.as_array().expect("a list").clone();
    let nodes = list(&topology["nodes"]);
    let named = |node: &Value| node["name"].as_str().expect("a name").to_owned();
    let mut lines: Vec<String> = nodes
        .iter()
        .map(|node| format!("{} {}", named(node), node["kind"]))
        .collect();
    for wire in list(&topology["wires"]) {
        let ends = list(&wire["ends"]).into_iter().map(|number| {
            let end = &topology["ends"][number.as_u64().expect("a number") as usize];
            let node = end["node"].as_u64().expect("a node") as usize;
            format!(
                "{}:{}",
                named(&nodes[node]),
                end["interface"].as_str().expect("a name")
            )
        });
        let ends: Vec<String> = ends.collect();
        let name = named(&wire);
        let does = &then["settings"][&name];
        lines.push(format!("{name} {} {does} {}", ends.join("-"), wire["up"]));
    }
    lines.join("\n").replace('"', "")
}

#[test]
fn machines_and_wires_are_told_as_they_were() {
    for place in Place::all() {
        let control = Control::of(&place);
        record_changes(&control);
        let said = control.vink(&["replay", "one", "--keep", "again"]);
        assert!(
            said.starts_with("the run repeats: "),
            "{}: {said}",
            place.user()
        );
        // The same has become of it, at the same times.
        let changes = |run: &str| {
            let text = control.vink(&["trace", "export", "--format", "text", run]);
            let changes = text.lines().filter(|line| line.contains(" changed: "));
            changes.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(changes("one"), changes("again"));
        control.write("other.yaml", "name: other\nmachines: { m: {} }\n");
        control.vink(&["lab", "up", "other.yaml"]);
        let new = format!(
            "{{\"path\": {:?}}}",
            control.folder().join("one").display().to_string()
        );
        assert_eq!(control.ask("POST", "/v1/runs", &new).0, 201);
        let run = get(&control, "/v1/runs/one");
        let end = run["nanoseconds"].as_u64().expect("an end");
        let at = |time: u64| get(&control, &format!("/v1/runs/one/topology?at={time}"));

        let first = "a machine\nb machine\nw1 a:eth0-b:eth0 {settings:{delay:10ms}} true";
        let c = "\nw2 b:eth1-c:eth0 null true";
        let delay = "{settings:{delay:50ms,loss:5%},from:{a:eth0:{delay:20ms}}}";
        let lossy = first.replace("10ms", "10ms,loss:5%");
        let with_c = lossy.replace("\nw1", "\nc machine\nw1");
        let expected = [
            first.to_owned(),
            lossy,
            format!("{with_c}\nw2 c:eth0 null true"),
            format!("{with_c}{c}"),
            format!("a machine\nb machine\nc machine\nw1 a:eth0-b:eth0 {delay} true{c}"),
            format!("a machine\nb machine\nw1 a:eth0-b:eth0 {delay} true\nw2 b:eth1 null true"),
        ];
        let times = get(&control, "/v1/runs/one/events?kinds=change");
        let times = times.as_array().expect("events").iter();
        let times: Vec<u64> = times
            .map(|one| one["nanoseconds"].as_u64().expect("a time"))
            .collect();
        assert_eq!(run["changes"], times.len());
        // Before, at and between all changes.
        let mut since = 0;
        let mut seen = Vec::new();
        // Both settings came at one time.
        let mut distinct = times.clone();
        distinct.dedup();
        for until in distinct.iter().map(Some).chain([None]) {
            let number = times.iter().filter(|time| **time <= since).count();
            let last = until.map_or(end, |until| until - 1);
            let then = at(since);
            seen.push(drawn(&then));
            for time in [since, since + (last - since) / 2, last] {
                let now = at(time);
                assert_eq!(now["nanoseconds"], time);
                assert_eq!(now["changes"], number, "at {time}");
                assert_eq!(now["since"], since, "at {time}");
                assert_eq!(now["until"].as_u64(), until.copied(), "at {time}");
                assert_eq!(now["topology"], then["topology"], "at {time}");
            }
            since = until.copied().unwrap_or(end);
        }
        assert_eq!(seen[..expected.len()], expected, "{}", seen.join("\n\n"));
        // By the file everything else has gone, and the new machine was there before its line was run.
        let last = "a machine\nb machine\nd router\nw1 a:eth0-b:eth0 {settings:{delay:10ms}} false\nw3 d:eth0 null true";
        assert_eq!(seen.last().expect("some"), last, "{}", seen.join("\n\n"));
        let up = last.replace("false", "true");
        assert_eq!(seen[seen.len() - 2], up, "{}", seen.join("\n\n"));
        let [.., come, down] = times[..] else {
            panic!("{times:?}")
        };
        assert!(down - come >= 3_900_000_000, "{come} {down}");
        assert_eq!(at(0)["topology"]["nodes"], run["topology"]["nodes"]);
        assert_eq!(at(times[2])["addresses"]["b:eth1"][0], "10.0.2.2/24");

        // Flights name ends by the numbers that they have in all of these.
        let pings = get(&control, "/v1/runs/one/packets?end=c:eth0");
        let sent = pings[0]["nanoseconds"].as_u64().expect("a time");
        let flights = control
            .command("curl")
            .args(["-sS", "--unix-socket"])
            .arg(control.runtime().join("control.sock"))
            .arg(format!(
                "http://localhost/v1/runs/one/flights?from={sent}&to={sent}"
            ))
            .output()
            .expect("curl")
            .stdout;
        let numbers = flights[24..]
            .chunks(24)
            .map(|one| u32::from_le_bytes(*one.first_chunk().expect("four")) as usize);
        let then = at(sent)["topology"].clone();
        let names: Vec<_> = numbers
            .map(|number| {
                let end = &then["ends"][number];
                let node = end["node"]
                    .as_u64()
                    .map(|node| &then["nodes"][node as usize]["name"]);
                format!("{}:{}", node.unwrap_or(&Value::Null), end["interface"]).replace('"', "")
            })
            .collect();
        assert!(names.contains(&"c:eth0".to_owned()), "{names:?}");
        // Behind the run's end there is nothing, and nothing is refused.
        assert_eq!(at(u64::MAX)["nanoseconds"], end);

        // Of a recording that has none of this the lab as it was made is told.
        let older = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/older/2026-11-26-8d79f1c.recording");
        let copy = control.folder().join("older");
        std::fs::create_dir(&copy).expect("a folder");
        for file in ["manifest.json", "run.journal"] {
            std::fs::copy(older.join(file), copy.join(file)).expect("a copy");
        }
        let new = format!("{{\"path\": {:?}}}", copy.display().to_string());
        let (status, said) = control.ask("POST", "/v1/runs", &new);
        assert_eq!(status, 201, "{said}");
        let older = get(&control, "/v1/runs/older");
        assert_eq!(older["changes"], Value::Null, "{older}");
        let path = format!("/v1/runs/older/topology?at={}", older["nanoseconds"]);
        let then = get(&control, &path);
        assert_eq!(then["topology"]["nodes"], older["topology"]["nodes"]);
        assert!(then["until"].is_null() && then["changes"] == 0, "{then}");
        control.vink(&["lab", "down"]);
    }
}
