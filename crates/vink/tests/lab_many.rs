//! Many: programs at once, and images.

mod common;

use common::control::Control;
use common::Place;

/// Programs that run at the same time.
const PROGRAMS: usize = 500;

/// A server that answers none before all are there.
const SERVER: &str = "
import asyncio, sys
there = []
async def greet(reader, writer):
    there.append(await reader.readline())
    if len(there) == COUNT:
        all_there.set()
    await all_there.wait()
    writer.write(b'you are one of %d\\n' % len(there))
    await writer.drain()
    writer.close()
async def main():
    global all_there
    all_there = asyncio.Event()
    server = await asyncio.start_server(greet, '0.0.0.0', 7, backlog=COUNT)
    await server.serve_forever()
asyncio.run(main())
";

/// A client, without what Python loads for others.
const CLIENT: &str = "
import socket
s = socket.create_connection(('10.0.0.2', 7))
s.sendall(b'hello\\n')
print(s.recv(100).decode(), end='')
";

#[test]
fn five_hundred_programs() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("server.py", &SERVER.replace("COUNT", &PROGRAMS.to_string()));
    control.write("client.py", CLIENT);
    let mut lab = "
name: crowd
machines:
  server:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/16] } }
    programs: { greeter: { command: exec python3 server.py, ready: { port: 7 } } }
"
    .to_owned();
    // Ten machines with fifty clients each.
    for machine in 0..10 {
        lab += &format!(
            "  m{machine}:\n    interfaces: {{ eth0: {{ wire: w1, addresses: [10.0.1.{machine}/16] }} }}\n    programs:\n"
        );
        for program in 0..PROGRAMS / 10 {
            lab += &format!(
                "      c{program}: {{ command: [python3, -S, -E, client.py], after: [server.greeter], ready: success }}\n"
            );
        }
    }
    lab += "wires: { w1: { bus: true } }\n";
    control.write("lab.yaml", &lab);
    // Up when all of them have succeeded.
    control.vink(&["lab", "up"]);
    let all = control.json(&["lab", "ps", "--json"]);
    let clients = all["programs"].as_array().expect("programs");
    let done = clients
        .iter()
        .filter(|program| program["code"] == 0)
        .count();
    assert_eq!(done, PROGRAMS);
    let said = control.vink(&["lab", "logs", "m9.c49"]);
    assert!(said.ends_with(&format!("of {PROGRAMS}\n")), "{said}");
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn machines_of_two_images() {
    for place in Place::all() {
        let control = Control::of(&place);
        let image = place.folder().join("libvink-linux-6.12.so");
        let other = control.folder().join("other.so");
        std::fs::copy(image, other).expect("an image");
        control.write(
            "lab.yaml",
            "
name: mixed
images: { other: other.so }
machines:
  m1: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  m2: { image: other, interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
  m3: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.3/24] } } }
wires: { w1: { delay: 5ms } }
",
        );
        control.vink(&["lab", "up"]);
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["workers"].as_array().map(Vec::len), Some(2));
        let trip = |to: &str| -> f64 {
            let text = control.vink(&["exec", "m1", "--", "ping", "-c2", "-i0.2", to]);
            let times = text.split("time=").skip(1);
            let times = times.filter_map(|rest| rest.split(' ').next()?.parse().ok());
            times.fold(f64::INFINITY, f64::min)
        };
        // Both ways once, whichever is at the other end.
        assert!(trip("m2") >= 10.0 && trip("m3") >= 10.0);
        // One worker dies: the other's machines go on, and their wire has lost its end there.
        let workers = all["workers"].as_array().expect("workers");
        let found = workers.iter().find(|worker| worker["image"] == "other");
        let pid = found.expect("the other")["pid"]
            .as_i64()
            .expect("a process");
        vink_sys::process::kill(pid as i32, libc::SIGKILL).expect("it is there");
        assert!(trip("m3") >= 10.0);
        let down = control.try_vink(&["exec", "m1", "--", "ping", "-c1", "-W1", "m2"]);
        assert!(!down.status.success());
        while control.json(&["lab", "ps", "--json"])["summary"]["state"] != "broken" {}
        let all = control.json(&["machine", "ls", "--json"]);
        let states: Vec<&str> = all
            .as_array()
            .expect("machines")
            .iter()
            .map(|machine| machine["state"].as_str().expect("a state"))
            .collect();
        assert_eq!(states, ["running", "dead", "running"]);
        let restarted = control.json(&["lab", "restart", "m2", "--json"]);
        assert_eq!(restarted["machines"], serde_json::json!(["m2"]));
        assert!(trip("m2") >= 10.0);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}
