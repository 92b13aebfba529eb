//! Views of a lab over raw sockets: several users that draw at once, one that may only look, revoked sessions, a full and a killed
//! control process.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use common::control::Control;
use common::page::{parts, Server};
use common::Place;
use serde_json::Value;
use yrs::types::ToJson;
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Any, Doc, Map, ReadTxn, Transact, Update};

const LAB: &str = "name: seen\nmachines: { m1: {} }\n";

fn share(control: &Control, name: &str, role: &str) -> (Server, String) {
    let url = control.vink(&["ui", "seen", "--share", name, "--role", role]);
    let (address, ticket) = parts(&url);
    let server = Server { address };
    let token = server.token(&ticket);
    (server, token)
}

/// A page without a browser: its document, and its WebSocket (RFC 6455).
struct Page {
    stream: TcpStream,
    doc: Doc,
    /// Bytes that were read, and are no whole frame yet.
    rest: Vec<u8>,
}

/// What a page is told.
enum Heard {
    Message,
    /// It is dropped: the code and the reason.
    Closed(u16, String),
    /// Without a word.
    Cut,
}

impl Page {
    fn open(server: &Server, token: &str) -> Page {
        let mut page = Page {
            stream: socket(server, token, "/v1/labs/seen/views"),
            doc: Doc::new(),
            rest: Vec::new(),
        };
        page.step();
        page
    }

    /// Asks for what it lacks: what was sent before is here when the answer is.
    fn step(&mut self) {
        let vector = self.doc.transact().state_vector().encode_v1();
        self.send(&sync(0, &vector));
        while !matches!(self.hear(), (Heard::Message, true)) {}
    }

    /// Sends a message; the mask is of zeros.
    fn send(&mut self, bytes: &[u8]) {
        let mut frame = vec![0x82];
        match bytes.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(bytes);
        // One that was dropped may find that here.
        let _ = self.stream.write_all(&frame);
    }

    /// The next frame, and whether it answers what this page has asked for.
    fn hear(&mut self) -> (Heard, bool) {
        let Some((kind, body)) = self.frame() else {
            return (Heard::Cut, false);
        };
        if kind == 8 {
            let code = u16::from_be_bytes([body[0], body[1]]);
            let reason = String::from_utf8_lossy(&body[2..]).into_owned();
            return (Heard::Closed(code, reason), false);
        }
        let is_change = body[0] == 0 && body[1] > 0;
        if is_change {
            let mut at = 2;
            let mut length = 0;
            for shift in (0..).step_by(7) {
                length |= usize::from(body[at] & 0x7f) << shift;
                at += 1;
                if body[at - 1] < 0x80 {
                    break;
                }
            }
            let update = Update::decode_v1(&body[at..at + length]).expect("an update");
            self.doc
                .transact_mut()
                .apply_update(update)
                .expect("it fits");
        }
        (Heard::Message, is_change && body[1] == 1)
    }

    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let [first, second, ..] = self.rest[..] {
                let (length, from) = match second {
                    126 if self.rest.len() >= 4 => (
                        usize::from(u16::from_be_bytes([self.rest[2], self.rest[3]])),
                        4,
                    ),
                    127 if self.rest.len() >= 10 => {
                        let length = self.rest[2..10].try_into().expect("eight bytes");
                        (u64::from_be_bytes(length) as usize, 10)
                    }
                    126 | 127 => (usize::MAX / 2, 0),
                    short => (usize::from(short), 2),
                };
                if self.rest.len() >= from + length {
                    let body = self.rest[from..from + length].to_vec();
                    self.rest.drain(..from + length);
                    return Some((first & 0xf, body));
                }
            }
            let mut piece = [0; 65536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                read => self.rest.extend(&piece[..read.expect("bytes")]),
            }
        }
    }

    /// Why it is dropped: the code and the reason.
    fn dropped(&mut self) -> (u16, String) {
        loop {
            match self.hear().0 {
                Heard::Message => {}
                Heard::Closed(code, reason) => return (code, reason),
                Heard::Cut => panic!("it is dropped without a reason"),
            }
        }
    }

    /// Puts a machine somewhere, and tells so.
    fn place(&mut self, machine: &str, x: f64) {
        let update = {
            let positions = self.doc.get_or_insert_map("positions");
            let mut txn = self.doc.transact_mut();
            positions.insert(&mut txn, machine, vec![x, 0.0]);
            txn.encode_update_v1()
        };
        self.send(&sync(2, &update));
    }

    fn positions(&self) -> Any {
        let positions = self.doc.get_or_insert_map("positions");
        positions.to_json(&self.doc.transact())
    }

    fn count(&self) -> u32 {
        let positions = self.doc.get_or_insert_map("positions");
        positions.len(&self.doc.transact())
    }
}

/// A WebSocket at this path.
fn socket(server: &Server, token: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: vink.v1, vink.bearer.{token}\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

fn sync(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, kind];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(body);
    bytes
}

#[test]
fn twenty_users_converge_and_their_views_outlive_the_lab() {
    for place in &Place::all() {
        let control = Control::of(place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let (server, token) = share(&control, "ann", "draw");
        let mut pages: Vec<Page> = (0..20).map(|_| Page::open(&server, &token)).collect();
        for (number, page) in pages.iter_mut().enumerate() {
            page.place(&format!("m{number}"), number as f64);
            page.place("all", number as f64);
        }
        for page in &mut pages {
            while page.count() < 21 {
                assert!(matches!(page.hear().0, Heard::Message));
            }
        }
        let mut joiner = Page::open(&server, &token);
        for page in &mut pages {
            page.step();
            assert_eq!(page.positions(), joiner.positions());
        }
        // Nonsense drops its sender, with a reason, and the others go on.
        joiner.send(&sync(2, b"nonsense"));
        let (code, reason) = joiner.dropped();
        assert!(
            code == 1007 && reason.contains("can't be read"),
            "{code} {reason}"
        );
        pages[0].place("after", 1.0);
        while pages[1].count() < 22 {
            assert!(matches!(pages[1].hear().0, Heard::Message));
        }

        // Beside the lab file, and as text for git.
        control.vink(&["lab", "down"]);
        let file = control.folder().join("seen.views.yjs");
        assert!(file.exists(), "{}", file.display());
        control.vink(&["lab", "up"]);
        let (server, token) = share(&control, "ann", "draw");
        assert_eq!(
            Page::open(&server, &token).positions(),
            pages[1].positions()
        );
        let saved = server.ask("POST", "/v1/labs/seen/views/save", &token, &Value::Null);
        let json = control.folder().join("seen.views.json");
        assert_eq!(saved.json()["json"], json.display().to_string());
        let text = std::fs::read_to_string(&json).expect("a file");
        assert!(text.contains("\n    \"m7\": [7, 0],\n"), "{text}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn who_may_look_is_dropped_for_drawing() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let (server, token) = share(&control, "ann", "draw");
    let mut painter = Page::open(&server, &token);
    let (_, token) = share(&control, "ben", "view");
    let mut viewer = Page::open(&server, &token);
    painter.place("m1", 1.0);
    while viewer.count() == 0 {
        assert!(matches!(viewer.hear().0, Heard::Message));
    }
    viewer.place("m1", 2.0);
    let (code, reason) = viewer.dropped();
    assert!(
        code == 1008 && reason.contains("role draw"),
        "{code} {reason}"
    );
    let refused = server.ask("POST", "/v1/labs/seen/views/save", &token, &Value::Null);
    assert_eq!(refused.status, 403);
    let again = Page::open(&server, &token);
    assert_eq!(again.positions(), painter.positions());
    // A lab without a file keeps its views with its logs, and nothing is beside them.
    control.vink(&["lab", "down"]);
}

#[test]
fn a_revoked_session_is_cut_at_once() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let (server, ann) = share(&control, "ann", "operate");
    let (_, ben) = share(&control, "ben", "view");
    let mut cut = Page::open(&server, &ann);
    let others = [
        "/v1/events",
        "/v1/labs/seen/feed",
        "/v1/labs/seen/statistics/stream",
    ];
    let others = others.map(|path| socket(&server, &ann, path));
    let mut stays = Page::open(&server, &ben);
    let list = control.json(&["ui", "--sessions", "--json"]);
    let of = |name: &str| {
        let sessions = list.as_array().expect("a list");
        let found = sessions.iter().find(|one| one["actor"] == name);
        found.expect("a session").clone()
    };
    assert_eq!(
        (&of("ann")["role"], &of("ann")["connections"]),
        (&"operate".into(), &4.into())
    );
    let table = control.vink(&["ui", "--sessions"]);
    assert!(
        table.starts_with("SESSION") && table.contains("ann"),
        "{table}"
    );

    let said = control.vink(&["ui", "--revoke", "ann"]);
    assert_eq!(said, "ann: 1 session and 0 unused links ended\n");
    loop {
        match cut.hear().0 {
            Heard::Message => {}
            Heard::Cut => break,
            Heard::Closed(..) => panic!("it is cut, whatever it carries"),
        }
    }
    for mut other in others {
        let end = other
            .read_to_end(&mut Vec::new())
            .map_err(|error| error.kind());
        assert!(
            matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)),
            "{end:?}"
        );
    }
    let refused = server.ask("GET", "/v1/labs", &ann, &Value::Null);
    assert!(
        refused.status == 401 && refused.body.contains("ended by the owner"),
        "{}",
        refused.body
    );
    assert_eq!(
        server.ask("GET", "/v1/labs", &ben, &Value::Null).status,
        200
    );
    stays.step();
    let (code, said) = control.fails(&["ui", "--revoke", "ann"]);
    assert!(code == 125 && said.contains("no session ann"), "{said}");
    control.vink(&["lab", "down"]);
}

#[test]
fn a_control_process_that_is_killed_in_a_save_leaves_a_whole_file() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let (server, token) = share(&control, "ann", "draw");
    let mut page = Page::open(&server, &token);
    page.place("before", 1.0);
    page.step();
    let saved = server.ask("POST", "/v1/labs/seen/views/save", &token, &Value::Null);
    assert_eq!(saved.status, 201, "{}", saved.body);
    let pid = server
        .ask("GET", "/v1/version", &token, &Value::Null)
        .json()["pid"]
        .clone();
    // Large enough that a save takes a while.
    let update = {
        let whiteboard = page.doc.get_or_insert_map("whiteboard");
        let mut txn = page.doc.transact_mut();
        whiteboard.insert(&mut txn, "large", "x".repeat(1_000_000));
        txn.encode_update_v1()
    };
    page.send(&sync(2, &update));
    let new = control.folder().join(".seen.views.yjs.new");
    let file = control.folder().join("seen.views.yjs");
    let before = std::fs::metadata(&file).expect("it is saved").len();
    // In the middle, or, if that was missed, just after it.
    while !new.exists() && length(&file) == before {
        std::hint::spin_loop();
    }
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("kill").success());
    control.wait_for_no_process();
    control.vink(&["lab", "up"]);
    let (server, token) = share(&control, "ann", "view");
    let page = Page::open(&server, &token);
    assert_eq!(page.count(), 1, "{:?}", page.positions());
    control.vink(&["lab", "down"]);
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}
