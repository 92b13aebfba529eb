//! The page's way in: what a ticket is worth, and that everything else is refused.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::control::Control;
use common::page::{parts, Server};
use common::{root, Place};
use serde_json::{json, Value};

const LAB: &str = "
name: page
machines:
  m1: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  m2: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
";

/// A link for another user's browser.
fn share(control: &Control, role: &str) -> (Server, String) {
    let url = control.vink(&["ui", "page", "--share", "ann", "--role", role]);
    assert!(url.trim().ends_with("&/lab/page"), "{url}");
    let (address, ticket) = parts(&url);
    (Server { address }, ticket)
}

#[test]
fn nothing_without_a_ticket() {
    for place in &Place::all() {
        let control = Control::of(place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let (code, said) = control.fails(&["ui", "nosuch"]);
        assert!(code == 125 && said.contains("nosuch"), "{said}");

        // The owner's browser gets a file that only the owner can read.
        let file = control.vink(&["ui"]);
        let file = std::path::Path::new(file.trim());
        let mode = std::fs::metadata(file)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let page = std::fs::read_to_string(file).expect("a page");
        let url = page
            .split("href=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let (address, ticket) = parts(url.expect(&page));
        let server = Server { address };

        // The page itself is no secret, but is not for other pages.
        let page = server.send("GET", "/", &[&server.host()], "");
        assert_eq!(page.status, 200);
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
        ] {
            assert!(page.head.contains(header), "{header}: {}", page.head);
        }
        assert_eq!(
            server.send("GET", "/", &["Host: evil.example"], "").status,
            403
        );

        // A page of another origin does not use up the ticket.
        let body = json!({ "ticket": ticket }).to_string();
        for line in ["Origin: http://evil.example", "Origin: null"] {
            let lines = [&server.host(), line];
            assert_eq!(
                server.send("POST", "/v1/session", &lines, &body).status,
                403
            );
        }
        let lines = ["Host: evil.example"];
        assert_eq!(
            server.send("POST", "/v1/session", &lines, &body).status,
            403
        );
        let token = server.token(&ticket);
        assert_eq!(server.enter(&ticket).status, 401, "used");
        assert_eq!(server.enter("nonsense").status, 401);
        let old = json!({ "seconds": 0 });
        let old = server.ask("POST", "/v1/tickets", &token, &old).json();
        assert_eq!(
            server.enter(old["ticket"].as_str().expect("one")).status,
            401,
            "old"
        );

        let none = Value::Null;
        let labs = server.ask("GET", "/v1/labs", &token, &none);
        assert_eq!(labs.json()[0]["name"], "page");
        let session = server.ask("GET", "/v1/session", &token, &none).json();
        assert_eq!(session, json!({ "role": "own", "actor": "owner" }));
        for wrong in ["", "nonsense", &ticket] {
            assert_eq!(server.ask("GET", "/v1/labs", wrong, &none).status, 401);
        }
        let bearer = format!("Authorization: Bearer {token}");
        let foreign = [
            &server.host(),
            bearer.as_str(),
            "Origin: http://evil.example",
        ];
        assert_eq!(server.send("GET", "/v1/labs", &foreign, "").status, 403);
        let rebound = ["Host: evil.example", bearer.as_str()];
        assert_eq!(server.send("GET", "/v1/labs", &rebound, "").status, 403);

        // A WebSocket bears its token as a protocol's name, which the answer does not repeat.
        let protocols = format!("vink.v1, vink.bearer.{token}");
        let events = server.socket("/v1/events", &protocols, &[]);
        assert_eq!(events.status, 101, "{}", events.body);
        assert!(
            events.head.contains("sec-websocket-protocol: vink.v1\r\n"),
            "{}",
            events.head
        );
        assert!(!events.head.contains(&token));
        assert_eq!(server.socket("/v1/events", "vink.v1", &[]).status, 401);
        let foreign = ["Origin: http://evil.example"];
        assert_eq!(
            server.socket("/v1/events", &protocols, &foreign).status,
            403
        );

        // Listening is decided once.
        let port: u16 = server
            .address
            .rsplit(':')
            .next()
            .expect("a port")
            .parse()
            .expect("one");
        let other = (port ^ 1).to_string();
        let (_, said) = control.fails(&["ui", "--port", &other]);
        assert!(said.contains("already"), "{said}");
        server.ask("DELETE", "/v1/labs/page", &token, &none);
        control.nothing_is_left();
    }
}

#[test]
fn who_looks_changes_nothing() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let (server, ticket) = share(&control, "view");
    let viewer = server.token(&ticket);
    let (_, ticket) = share(&control, "operate");
    let operator = server.token(&ticket);
    let none = Value::Null;
    let session = server.ask("GET", "/v1/session", &viewer, &none).json();
    assert_eq!(session, json!({ "role": "view", "actor": "ann" }));

    let document = server.ask("GET", "/v1/openapi.json", &viewer, &none).json();
    let before = server.ask("GET", "/v1/labs/page/spec", &viewer, &none).body;
    let mut refused = 0;
    for (route, operations) in document["paths"].as_object().expect("routes") {
        for (method, operation) in operations.as_object().expect("methods") {
            let role = operation["x-role"].as_str();
            if role == Some("view") || role.is_none() {
                let is_reading = method == "get" || route == "/v1/spec/format";
                assert!(is_reading || route == "/v1/session", "{method} {route}");
                continue;
            }
            let path = route.replace("{lab}", "page").replace(['{', '}'], "");
            let method = method.to_uppercase();
            let protocols = format!("vink.v1, vink.bearer.{viewer}");
            let answer = match operation["responses"]["101"].is_null() {
                true => server.ask(&method, &path, &viewer, &json!({})),
                false => server.socket(&path, &protocols, &[]),
            };
            assert_eq!(answer.status, 403, "{method} {route}: {}", answer.body);
            if role == Some("own") {
                let answer = server.ask(&method, &path, &operator, &json!({}));
                assert_eq!(answer.status, 403, "{method} {route}: {}", answer.body);
            }
            refused += 1;
        }
    }
    assert!(refused > 30, "{refused}");
    assert_eq!(
        server.ask("GET", "/v1/labs/page/spec", &viewer, &none).body,
        before
    );
    let topology = |token: &str| {
        let answer = server.ask("GET", "/v1/labs/page/topology", token, &none);
        answer.json()
    };
    let drawn = topology(&viewer);
    let wire = json!({ "name": "w1", "up": true, "bus": false, "ends": [0, 1] });
    assert_eq!(drawn["wires"], json!([wire]));
    let end = json!({ "node": 1, "interface": "eth0" });
    assert_eq!(drawn["ends"][1], end);
    let node = json!({ "name": "m2", "kind": "machine", "state": "running" });
    assert_eq!(drawn["nodes"][1], node);
    let wire = server.ask(
        "PATCH",
        "/v1/labs/page/wires/w1",
        &operator,
        &json!({ "up": false }),
    );
    assert_eq!(wire.status, 200, "{}", wire.body);
    let after = topology(&viewer);
    assert_eq!(after["wires"][0]["up"], false);
    assert!(after["revision"].as_u64() > drawn["revision"].as_u64());
    control.vink(&["lab", "down"]);
}

#[test]
fn lab_files_are_checked_by_their_text() {
    let place = &Place::all()[0];
    // As they are installed: in a folder above the executable.
    let copied = Command::new("cp")
        .arg("-r")
        .arg(root().join("labs"))
        .arg(place.folder())
        .status();
    assert!(copied.expect("cp").success());
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let (server, ticket) = share(&control, "own");
    let token = server.token(&ticket);
    let check = |text: &str| {
        let asked = json!({ "text": text, "folder": control.folder(), "name": "new.yaml" });
        let answer = server.ask("POST", "/v1/spec/check", &token, &asked);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let good = check(LAB);
    assert_eq!(good["mistakes"], json!([]));
    let machines = good["spec"]["machines"].as_object().expect("machines");
    assert_eq!(machines.len(), 2);
    let bad = check("machines:\n  m1: { interfaces: { eth0: { addresses: [10.0.0.1/33] } } }\n");
    assert_eq!(bad["spec"], Value::Null);
    assert_eq!(bad["mistakes"][0]["line"], 2);
    assert_eq!(
        bad["mistakes"][0]["path"],
        "machines.m1.interfaces.eth0.addresses.0"
    );
    // What only those know that run it.
    let app = check("machines: { m1: { programs: { p: { app: nosuch } } } }\n");
    assert!(app["mistakes"][0]["message"]
        .as_str()
        .expect("text")
        .contains("nosuch"));
    let asked = json!({ "spec": good["spec"] });
    let text = server.ask("POST", "/v1/spec/format", &token, &asked).json();
    assert_eq!(
        check(text["text"].as_str().expect("text"))["spec"],
        good["spec"]
    );

    let ready = server.ask("GET", "/v1/ready", &token, &Value::Null).json();
    let all = ready.as_array().expect("a list");
    let hello = all
        .iter()
        .find(|lab| lab["name"] == "hello")
        .expect("it is ready");
    assert_eq!(hello["title"], "two machines");
    let hello = server
        .ask("GET", "/v1/ready/hello", &token, &Value::Null)
        .json();
    assert!(hello["text"]
        .as_str()
        .expect("text")
        .contains("name: hello"));
    assert_eq!(
        server
            .ask("GET", "/v1/ready/..", &token, &Value::Null)
            .status,
        404
    );
    control.vink(&["lab", "down"]);
}
