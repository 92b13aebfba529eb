//! The control API as its own description has it: each route is there, each answer is as described, nothing else is.

mod common;

use std::io::Lines;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use vink_sys::poll::is_readable;
use vink_sys::process::{limit, set_limit};
use vink_sys::rustix::net::{connect, socket_with, AddressFamily, SocketFlags, SocketType};

use common::control::Control;
use common::Place;
use serde_json::{json, Value};

const LAB: &str = "
name: api
machines:
  m1:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs: { first: { command: echo begun; exec sleep 1000, ready: { output: begun } } }
  m2:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
wires: { w1: { delay: 1ms } }
";

/// Status and body of an answer.
fn ask(
    mut stream: impl Read + Write,
    head: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    // At once: a refusal may come, and the connection end, before all of it has gone.
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    let text = String::from_utf8(text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect(&text);
    let status = head.split(' ').nth(1).expect(head).parse().expect(head);
    (status, body.to_owned())
}

/// The API at its unix socket, and its description.
struct Api {
    socket: std::path::PathBuf,
    document: Value,
}

impl Api {
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let stream = UnixStream::connect(&self.socket).expect("the socket");
        ask(stream, "Host: localhost\r\n", method, path, body)
    }

    /// Asks for something by its route, and holds the answer against its description.
    fn call(&self, method: &str, route: &str, names: &[(&str, &str)], body: &Value) -> Value {
        let (status, answer) = self.raw(method, route, names, body);
        assert!(status < 300, "{method} {route}: {status}: {answer}");
        answer
    }

    fn raw(&self, method: &str, route: &str, names: &[(&str, &str)], body: &Value) -> (u16, Value) {
        let mut path = route.to_owned();
        for (name, value) in names {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let (status, answer) = self.ask(&method.to_uppercase(), &path, &text);
        let operation = &self.document["paths"][route][method];
        assert!(operation.is_object(), "{method} {route} is not described");
        let content = if status < 300 {
            let described = &operation["responses"][status.to_string()];
            assert!(
                described.is_object(),
                "{method} {route}: {status} is not described"
            );
            described["content"]["application/json"]["schema"].clone()
        } else {
            let content = &self.document["components"]["responses"]["problem"]["content"];
            content["application/problem+json"]["schema"].clone()
        };
        if content.is_null() {
            return (status, Value::String(answer));
        }
        let answer: Value = serde_json::from_str(&answer).expect(&answer);
        self.fits(&content, &answer);
        (status, answer)
    }

    fn fits(&self, schema: &Value, value: &Value) {
        let mut schema = schema.clone();
        schema["components"] = self.document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).expect("a schema");
        let wrong: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{value:#}");
    }
}

/// Packets and numbers that are kept, and numbers in a file.
const OBSERVED: &str = "
name: api
time: virtual
seed: 5
machines:
  m1: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  m2: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
wires: { w1: { delay: 1ms } }
series:
  sent: { every: 10ms, values: { packets: interface m1:eth0 tx_packets } }
";

#[test]
fn what_was_captured_and_measured_can_be_read() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", OBSERVED);
    control.vink(&["lab", "up"]);
    let mut api = Api {
        socket: control.runtime().join("control.sock"),
        document: Value::Null,
    };
    let (_, text) = api.ask("GET", "/v1/openapi.json", "");
    api.document = serde_json::from_str(&text).expect("JSON");
    let (none, lab) = (Value::Null, ("lab", "api"));
    // By the socket itself: a path with a query is not in the description.
    let get = |path: &str| {
        let (status, text) = api.ask("GET", &format!("/v1/labs/api/{path}"), "");
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str::<Value>(&text).expect(&text)
    };

    let captures = "/v1/labs/{lab}/captures";
    let capture = "/v1/labs/{lab}/captures/{capture}";
    let packets = "/v1/labs/{lab}/captures/{capture}/packets";
    let packet = "/v1/labs/{lab}/captures/{capture}/packets/{packet}";
    let file = control.folder().join("packets.pcapng");
    let mut ids = Vec::new();
    for path in ["", file.to_str().expect("a path")] {
        let new = json!({ "interfaces": ["m1:eth0"], "filter": "icmp", "path": path });
        let made = api.call("post", captures, &[lab], &new);
        assert_eq!(made["readable"], true);
        ids.push(made["id"].to_string());
    }
    let empty = api.call("get", packets, &[lab, ("capture", &ids[0])], &none);
    assert_eq!(
        (&empty["total"], &empty["packets"]),
        (&json!(0), &json!([]))
    );
    let ping = ["exec", "m1", "--", "ping", "-c3", "-i", "0.2", "10.0.0.2"];
    control.vink(&ping);
    for id in &ids {
        let id = ("capture", id.as_str());
        let stopped = api.call("delete", capture, &[lab, id], &none);
        let written = &stopped["written"];
        // What no socket was there for is told, too.
        assert!(written.as_u64() >= Some(6), "{stopped}");
        // They come through a pipe.
        let all = loop {
            let all = api.call("get", packets, &[lab, id], &none);
            if all["total"] == *written {
                break all;
            }
            std::thread::yield_now();
        };
        let lines = all["packets"].as_array().expect("packets");
        assert_eq!(json!(lines.len()), *written);
        assert_eq!(
            (
                &lines[0]["number"],
                &lines[0]["nanoseconds"],
                &lines[0]["what"]
            ),
            (&json!(0), &json!(0), &json!("departure"))
        );
        assert_eq!(
            (&lines[1]["what"], &lines[1]["end"]),
            (&json!("arrival"), &json!("m1:eth0"))
        );
        assert!(lines[1]["nanoseconds"].as_u64() >= Some(2_000_000));
        let said = lines[0]["summary"].as_str().expect("a line");
        assert!(
            said.contains("10.0.0.1 > 10.0.0.2: ICMP echo request"),
            "{said}"
        );
        let two = get(&format!("captures/{}/packets?from=4&count=1", id.1));
        assert_eq!(two["packets"], json!([lines[4]]));

        let detail = api.call("get", packet, &[lab, id, ("packet", "1")], &none);
        assert_eq!(detail["packet"], lines[1]);
        let bytes = detail["bytes"].as_str().expect("bytes");
        assert_eq!(bytes.len(), 2 * 98);
        assert!(bytes[24..].starts_with("080045"), "{bytes}");
        let fields = detail["fields"].as_array();
        let fields = fields.unwrap_or_else(|| panic!("{}", detail["undissected"]));
        let texts: Vec<&str> = fields
            .iter()
            .filter_map(|one| one["text"].as_str())
            .collect();
        assert!(
            texts[1].starts_with("Internet Protocol Version 4, Src: 10.0.0.2"),
            "{texts:?}"
        );
        assert_eq!(
            (&fields[1]["start"], &fields[1]["length"]),
            (&json!(14), &json!(20))
        );
        assert_eq!(fields[2]["filter"], "icmp");
        let parts = fields[2]["fields"].as_array().expect("parts");
        // It knows of the packet before.
        let answers = |part: &Value| {
            part["text"]
                .as_str()
                .is_some_and(|text| text.contains("Response time"))
        };
        assert!(parts.iter().any(answers), "{parts:?}");

        let (status, answer) = api.raw("get", packet, &[lab, id, ("packet", "99")], &none);
        assert_eq!(status, 404);
        assert!(
            answer["hint"]
                .as_str()
                .expect("a hint")
                .contains(&format!("{written} packets")),
            "{answer}"
        );
    }
    let (status, _) = api.raw("get", packets, &[lab, ("capture", "77")], &none);
    assert_eq!(status, 404);

    let rows = "/v1/labs/{lab}/series/{series}/rows";
    let all = api.call("get", rows, &[lab, ("series", "sent")], &none);
    assert_eq!(all["columns"], json!(["time", "packets"]));
    let given = all["rows"].as_array().expect("rows");
    assert!(given.len() > 40, "{all}");
    assert_eq!(
        (&all["more"], &all["stands-for"]),
        (&json!(false), &json!(given.len()))
    );
    assert!(given.last().expect("a row")[1].as_f64() >= Some(3.0));
    let from = given[20][0].as_f64().expect("a time");
    let some = get(&format!("series/sent/rows?from={from}&to={}", from + 0.025));
    assert_eq!(some["rows"], json!(given[20..23]));
    let few = get("series/sent/rows?points=10");
    assert_eq!(few["rows"].as_array().expect("rows").len(), 10);
    let (status, text) = api.ask("GET", "/v1/labs/api/series/sent/file", "");
    assert_eq!(status, 200);
    assert!(text.contains("time,packets"), "{text}");
    let (status, answer) = api.raw("get", rows, &[lab, ("series", "x")], &none);
    assert_eq!((status, &answer["hint"]), (404, &json!("in the lab: sent")));
    control.vink(&["lab", "down"]);
}

/// What `vink dissect` says of a file's first packet when the host's sharkd is this script of a shell.
fn dissected_by(script: &str) -> Value {
    let folder = std::env::temp_dir().join(format!("vink-sharkd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("sharkd");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode");
    let place = "mount --bind $0 /usr/bin/sharkd && exec $1 dissect 0";
    let words = ["--mount", "sh", "-c", place];
    let output = Command::new("unshare")
        .args(words)
        .arg(&program)
        .arg(env!("CARGO_BIN_EXE_vink"))
        .stdin(Stdio::null())
        .output()
        .expect("unshare");
    std::fs::remove_dir_all(&folder).expect("it was there");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_dissects_packets_reaches_nothing_and_may_die() {
    let died = "sharkd has ended at this packet, or has found too much in it";
    assert_eq!(dissected_by("exit 3")["Err"], died);
    assert_eq!(
        dissected_by("yes $(printf %01000d 0) | head -c 20000000; cat")["Err"],
        died
    );
    assert_eq!(dissected_by("while :; do :; done & exec cat")["Err"], died);
    // Files besides programs, interfaces that are up, and what could be written.
    let seen = dissected_by(
        "files=$(find /etc /root /home /tmp /var /run /dev /srv -type f 2>&1 | wc -l)\n\
         up=$(grep -c : /proc/net/dev)\n\
         made=0; for folder in /usr /usr/bin / /tmp /proc; do (: > $folder/made) 2>/dev/null && made=1; done\n\
         caps=$(grep CapEff /proc/self/status | tr -d '\\t')\n\
         echo \"{\\\"id\\\":2,\\\"error\\\":{\\\"message\\\":\\\"$files $up $made $caps\\\"}}\"",
    );
    // Its loopback interface is there, and down.
    assert_eq!(seen["Err"], "sharkd: 0 1 0 CapEff:0000000000000000");
    // An ordinary user's is confined, too, and then it is sharkd that refuses.
    for place in &Place::all() {
        let control = Control::of(place);
        let said = control.json(&["dissect", "0"]);
        let said = said["Err"].as_str().expect("an error");
        assert!(
            said.starts_with("sharkd: Invalid frame"),
            "{}: {said}",
            place.user()
        );
    }
}

#[test]
fn answers_are_as_described() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let socket = control.runtime().join("control.sock");
    let mode = |path: &std::path::Path| {
        let about = std::fs::metadata(path).expect("a file");
        about.permissions().mode() & 0o777
    };
    assert_eq!(mode(&control.runtime()), 0o700);
    let mut api = Api {
        socket,
        document: Value::Null,
    };
    let (status, text) = api.ask("GET", "/v1/openapi.json", "");
    assert_eq!(status, 200);
    api.document = serde_json::from_str(&text).expect("JSON");
    assert_eq!(api.document["openapi"], "3.1.0");

    let none = Value::Null;
    let lab = ("lab", "api");
    let m1 = ("machine", "m1");
    for route in ["/v1/version", "/v1/labs"] {
        api.call("get", route, &[], &none);
    }
    for rest in [
        "",
        "/spec",
        "/machines",
        "/wires",
        "/programs",
        "/captures",
        "/series",
        "/statistics",
    ] {
        api.call("get", &format!("/v1/labs/{{lab}}{rest}"), &[lab], &none);
    }
    let spec = api.call("get", "/v1/labs/{lab}/spec", &[lab], &none);
    let folder = control.folder().canonicalize().expect("a folder");
    let again = json!({ "spec": spec, "folder": folder });
    let applied = api.call("put", "/v1/labs/{lab}", &[lab], &again);
    assert_eq!(applied["changes"], json!([]));

    let machines = "/v1/labs/{lab}/machines";
    let machine = "/v1/labs/{lab}/machines/{machine}";
    let made = json!({ "name": "m3", "spec": { "interfaces": { "eth0": { "wire": "w2" } } } });
    api.call("post", machines, &[lab], &made);
    assert_eq!(api.raw("post", machines, &[lab], &made).0, 409);
    let shown = api.call("get", machine, &[lab, m1], &none);
    assert_eq!(shown["interfaces"][0]["carrier"], true);
    let interfaces = "/v1/labs/{lab}/machines/{machine}/interfaces";
    let interface = "/v1/labs/{lab}/machines/{machine}/interfaces/{interface}";
    let eth1 = ("interface", "eth1");
    let new = json!({ "name": "eth1", "spec": { "addresses": ["10.1.0.1/24"] } });
    api.call("post", interfaces, &[lab, m1], &new);
    let change = json!({ "wire": "w2", "add": ["fd00::5/64"], "remove": ["10.1.0.1/24"] });
    let changed = api.call("patch", interface, &[lab, m1, eth1], &change);
    assert_eq!(
        (&changed["wire"], &changed["carrier"]),
        (&json!("w2"), &json!(true))
    );
    assert!(changed["addresses"]
        .as_array()
        .expect("addresses")
        .contains(&json!("fd00::5/64")));
    api.call("get", interface, &[lab, m1, eth1], &none);
    api.call("delete", interface, &[lab, m1, eth1], &none);
    api.call("delete", machine, &[lab, ("machine", "m3")], &none);

    let wire = "/v1/labs/{lab}/wires/{wire}";
    let w3 = ("wire", "w3");
    let new = json!({ "name": "w3", "spec": { "rate": "10mbit" } });
    api.call("post", "/v1/labs/{lab}/wires", &[lab], &new);
    let change = json!({ "settings": { "loss": "1%" }, "up": false });
    let changed = api.call("patch", wire, &[lab, w3], &change);
    assert_eq!(
        changed["settings"],
        json!({ "rate": "10mbit", "loss": "1%" })
    );
    assert_eq!(changed["up"], false);
    let one_way = json!({ "settings": { "delay": "7ms" }, "from": "m1:eth0" });
    let changed = api.call("patch", wire, &[lab, ("wire", "w1")], &one_way);
    assert_eq!(changed["from"]["m1:eth0"]["delay"], "7ms");
    api.call("get", wire, &[lab, ("wire", "w1")], &none);
    api.call("delete", wire, &[lab, w3], &none);

    let programs = "/v1/labs/{lab}/programs";
    let program = "/v1/labs/{lab}/programs/{program}";
    let new = json!({ "machine": "m1", "words": ["sleep", "1000"] });
    let made = api.call("post", programs, &[lab], &new);
    let id = made["id"].to_string();
    let id = ("program", id.as_str());
    api.call("get", program, &[lab, id], &none);
    api.call("get", program, &[lab, ("program", "m1.first")], &none);
    let output = "/v1/labs/{lab}/programs/{program}/output";
    let first = api.call("get", output, &[lab, ("program", "m1.first")], &none);
    assert!(first.as_str().expect("bytes").contains("begun"));
    let signal = "/v1/labs/{lab}/programs/{program}/signal";
    api.call("post", signal, &[lab, id], &json!({ "signal": 10 }));
    let ended = api.call("delete", program, &[lab, id], &none);
    assert_eq!(ended["state"], "ended");
    let app = json!({ "machine": "m2", "words": ["echoserver"], "app": true });
    let made = api.call("post", programs, &[lab], &app);
    let id = made["id"].to_string();
    let id = ("program", id.as_str());
    api.call(
        "get",
        "/v1/labs/{lab}/programs/{program}/report",
        &[lab, id],
        &none,
    );
    api.call("delete", program, &[lab, id], &none);

    let captures = "/v1/labs/{lab}/captures";
    let file = folder.join("packets.pcapng");
    let new = json!({ "interfaces": ["m1:eth0"], "path": file });
    let made = api.call("post", captures, &[lab], &new);
    control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
    let id = made["id"].to_string();
    let id = ("capture", id.as_str());
    let stopped = api.call(
        "delete",
        "/v1/labs/{lab}/captures/{capture}",
        &[lab, id],
        &none,
    );
    assert!(stopped["written"].as_u64() >= Some(2), "{stopped}");
    assert!(std::fs::metadata(&file).expect("packets").len() > 200);

    // What is wrong is said in its place.
    for (method, route, names, body, status, said) in [
        (
            "get",
            machine,
            &[lab, ("machine", "m7")][..],
            none.clone(),
            404,
            "m1, m2",
        ),
        (
            "post",
            machines,
            &[lab],
            json!({ "name": "a/b" }),
            422,
            "/name",
        ),
        (
            "post",
            machines,
            &[lab],
            json!({ "name": "x", "spec": { "forward": 3 } }),
            422,
            "/spec/forward",
        ),
        // In the words of lab files' mistakes.
        (
            "put",
            "/v1/labs/{lab}",
            &[lab],
            json!({ "spec": { "machines": { "m1": { "imagee": "x" } } }, "folder": "/" }),
            422,
            "did you mean `image`?",
        ),
        (
            "put",
            "/v1/labs/{lab}",
            &[lab],
            json!({ "spec": { "wires": { "w1": { "mtu": 1 } } }, "folder": "/" }),
            422,
            "/spec/wires/w1/mtu",
        ),
        (
            "patch",
            wire,
            &[lab, ("wire", "w1")],
            json!({ "settings": { "loss": "much" } }),
            422,
            "/settings/loss",
        ),
        (
            "patch",
            wire,
            &[lab, ("wire", "w1")],
            json!({ "from": "m9:eth0" }),
            404,
            "/from",
        ),
        (
            "post",
            programs,
            &[lab],
            json!({ "machine": "m1", "words": [] }),
            422,
            "/words",
        ),
        (
            "post",
            signal,
            &[lab, ("program", "m1.first")],
            json!({ "signal": 99 }),
            422,
            "/signal",
        ),
    ] {
        let (found, problem) = api.raw(method, route, names, &body);
        assert_eq!(found, status, "{problem}");
        assert!(problem.to_string().contains(said), "{problem}");
    }
    assert_eq!(api.ask("POST", "/v1/labs/api/machines", "{").0, 400);

    // Every route of the description is served, by the methods that it says and no others.
    let mut nothing = 0;
    for (route, operations) in api.document["paths"].as_object().expect("paths") {
        let path = route
            .replace("{lab}", "no-such-lab")
            .replace(['{', '}'], "");
        for method in ["get", "put", "post", "patch", "delete"] {
            let (status, text) = api.ask(&method.to_uppercase(), &path, "{}");
            match operations.get(method) {
                None => assert_eq!(status, 405, "{method} {route}: {text}"),
                Some(operation) => {
                    assert!(status != 405, "{method} {route}");
                    assert!(!text.contains("nothing at this path"), "{method} {route}");
                    let summary = operation["summary"].as_str();
                    assert!(summary.is_some_and(|text| !text.is_empty()));
                    nothing += u32::from(status == 404);
                }
            }
        }
    }
    assert!(nothing > 20, "{nothing}");
    let (status, text) = api.ask("GET", "/v1/nonsense", "");
    assert!(status == 404 && text.contains("nothing at this path"));

    // Events, as they are described.
    let schema = &api.document["paths"]["/v1/events"]["get"]["x-messages"]["from-server"]["text"];
    let mut events = control.start(&[
        "lab", "events", "--json", "--lab", "api", "--watch", "m1:eth0",
    ]);
    let mut lines = BufReader::new(events.stdout.take().expect("a pipe")).lines();
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let _ = tell.send(line);
        }
    });
    let mut kinds = std::collections::BTreeSet::new();
    while !["packet", "ended", "changed"]
        .iter()
        .all(|kind| kinds.contains(*kind))
    {
        control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
        control.vink(&["machine", "add", "marker"]);
        control.vink(&["machine", "rm", "marker"]);
        for line in told.try_iter() {
            let event: Value = serde_json::from_str(&line).expect(&line);
            api.fits(schema, &event);
            kinds.insert(event["kind"].as_str().expect("a kind").to_owned());
        }
    }
    let _ = events.kill();
    let _ = events.wait();
    let _ = reader.join();
    api.call("post", "/v1/labs/{lab}/restart", &[lab], &none);
    api.call("delete", "/v1/labs/{lab}", &[lab], &none);
    control.nothing_is_left();
}

/// A control process that listens over TCP too: its lines, and where it listens.
fn listening(mut command: Command) -> (Child, Lines<BufReader<ChildStderr>>, String) {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut daemon = command.spawn().expect("vink daemon");
    let mut lines = BufReader::new(daemon.stderr.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("a line");
    let address = line
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    let address = address.expect(&line).to_owned();
    lines.next().expect("the unix socket's").expect("a line");
    (daemon, lines, address)
}

/// Connections that say nothing, as many of these as this process may have; some are still under way.
fn half_open(address: &str, count: usize) -> Vec<OwnedFd> {
    let address: SocketAddr = address.parse().expect("an address");
    let SocketAddr::V4(address) = address else {
        panic!("{address}")
    };
    let mut most = limit(0, libc::RLIMIT_NOFILE).expect("a limit");
    most.rlim_cur = most.rlim_max.min(1 << 16);
    let _ = set_limit(0, libc::RLIMIT_NOFILE, &most);
    let connect = |_| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
        let socket = socket.expect("a socket");
        let _ = connect(&socket, &address);
        socket
    };
    let count = count.min(most.rlim_cur as usize / 2);
    (0..count).map(connect).collect()
}

#[test]
fn strangers_keep_none_from_the_owner() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    // Without a limit of connections these would be all of its descriptors.
    let mut command = control.command("prlimit");
    command.args([
        "--nofile=300:300",
        "vink",
        "daemon",
        "--listen",
        "127.0.0.1:0",
    ]);
    let (mut daemon, lines, address) = listening(command);
    let token = std::fs::read_to_string(control.runtime().join("token")).expect("the token");
    let strangers = half_open(&address, 3000);
    assert!(strangers.len() > 400, "{}", strangers.len());
    for name in ["one", "two"] {
        control.vink(&["lab", "up", "--name", name]);
        control.vink(&["machine", "add", "m1", "--lab", name]);
        let ping = [
            "exec",
            "--lab",
            name,
            "m1",
            "--",
            "ping",
            "-qc1",
            "127.0.0.1",
        ];
        control.vink(&ping);
    }
    control.vink(&["lab", "down", "--all"]);
    // They are not waited for for ever.
    assert!(is_readable(&strangers[0], 300_000), "no timeout");
    drop(strangers);
    let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
    let stream = TcpStream::connect(&address).expect("a connection");
    assert_eq!(ask(stream, &head, "GET", "/v1/labs", "").0, 200);
    vink_sys::process::kill(daemon.id() as i32, libc::SIGTERM).expect("it is there");
    assert!(daemon.wait().expect("vink").success());
    let said: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    assert!(said.len() < 10, "{} lines: {:?}", said.len(), said.first());
}

#[test]
fn over_tcp_with_the_token_only() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let mut command = control.command("vink");
    command.args(["daemon", "--listen", "127.0.0.1:0"]);
    let (mut daemon, _lines, address) = listening(command);
    let path = control.runtime().join("token");
    let about = std::fs::metadata(&path).expect("the token");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(path).expect("the token");
    let status = |head: String| {
        let stream = TcpStream::connect(&address).expect("a connection");
        ask(stream, &head, "GET", "/v1/labs", "").0
    };
    let host = format!("Host: {address}\r\n");
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(status(format!("{host}{right}")), 200);
    assert_eq!(status(host.clone()), 401);
    assert_eq!(
        status(format!("{host}Authorization: Bearer nonsense\r\n")),
        401
    );
    assert_eq!(status(format!("Host: evil.example\r\n{right}")), 403);
    assert_eq!(
        status(format!("{host}{right}Origin: http://evil.example\r\n")),
        403
    );
    assert_eq!(
        status(format!("{host}{right}Origin: http://{address}\r\n")),
        200
    );
    // Not where others could connect to.
    let (code, said) = control.fails(&["daemon", "--listen", "0.0.0.0:0"]);
    assert!(code == 125 && said.contains("listens at"), "{said}");
    vink_sys::process::kill(daemon.id() as i32, libc::SIGTERM).expect("it is there");
    assert!(daemon.wait().expect("vink").success());
    let (code, said) = control.fails(&["daemon", "--listen", "0.0.0.0:0"]);
    assert!(code == 125 && said.contains("loopback"), "{said}");
    control.nothing_is_left();
}

#[test]
fn a_runtime_folder_of_others_is_refused() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let real = control.folder().join("real");
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, control.runtime()).expect("a link");
    let (code, said) = control.fails(&["lab", "up", "--name", "x"]);
    assert!(code == 125 && said.contains("not a folder"), "{said}");
    std::fs::remove_file(control.runtime()).expect("the link");
    // Only root can make one of another user.
    let chown = control
        .command("sh")
        .args(["-c", "mkdir run && chown nobody run"])
        .output();
    if chown.is_ok_and(|output| output.status.success()) {
        let (code, said) = control.fails(&["lab", "up", "--name", "x"]);
        assert!(code == 125 && said.contains("belongs to user"), "{said}");
    }
}
