//! Much data over AF_PACKET: it arrives as it was sent, in packets that are not cut.

use vink_lab::UplinkAttachment;
use vink_spec::Uplink;

use crate::common::{alone, machine, meanwhile, run, sh, start, wait_for_line, worker};

/// Sends 64 MiB of a known pattern to each client at port 7, then receives as much, and prints
/// its hash.
const SERVER: &str = r#"
import hashlib, random, socket, sys
data = random.Random(1).randbytes(1 << 20)
listener = socket.create_server(("0.0.0.0", 7))
print("ready", flush=True)
peer = listener.accept()[0]
for _ in range(64): peer.sendall(data)
h = hashlib.sha256(); n = 0
while n < 64 << 20:
    piece = peer.recv(1 << 20)
    assert piece, n
    n += len(piece); h.update(piece)
print(h.hexdigest())
"#;

/// The other side.
const CLIENT: &str = r#"
import hashlib, random, socket, sys
data = random.Random(1).randbytes(1 << 20)
peer = socket.create_connection((sys.argv[1], 7))
h = hashlib.sha256(); n = 0
while n < 64 << 20:
    piece = peer.recv(1 << 20)
    assert piece, n
    n += len(piece); h.update(piece)
for _ in range(64): peer.sendall(data)
print(h.hexdigest())
"#;

const SAME: &str = r#"
import hashlib, random
data = random.Random(1).randbytes(1 << 20); h = hashlib.sha256()
for _ in range(64): h.update(data)
print(h.hexdigest())
"#;

#[test]
fn whole_packets() {
    if !alone("bulk::whole_packets") {
        return;
    }
    sh(
        "ip link add host0 type veth peer name plug0; ip link set plug0 up
        ip link set host0 up; ip address add 10.9.0.1/24 dev host0",
    );
    let mut worker = worker();
    let (machine, outside) = machine(&mut worker, "m", &["10.9.0.2/24"], |worker, machine| {
        let uplink = Uplink::Interface("plug0".to_owned());
        UplinkAttachment::attach(worker, machine, "out", &uplink).expect("attached")
    });
    wait_for_line(&mut worker, &outside, true);
    let (server, output) = start(&mut worker, &machine, &["python3", "-c", SERVER]);
    let (found, output) = meanwhile(&mut worker, move || {
        use std::io::{BufRead, BufReader};
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).expect("ready");
        let client = std::process::Command::new("python3")
            .args(["-c", CLIENT, "10.9.0.2"])
            .output();
        let client = crate::common::good("the client", &client.expect("python3"));
        (client, std::io::read_to_string(output).expect("a hash"))
    });
    worker.wait(server).expect("its end");
    let expected = sh(&format!("python3 -c '{SAME}'"));
    assert_eq!(found, expected);
    assert_eq!(output, expected);
    // 64 MiB each way: were they packets of 1,500 bytes, it would be more than 44,000 of them.
    let state = outside.state().clone();
    assert!(state.sent < 30_000 && state.received < 30_000, "{state:?}");
    // Small ones have their checksums, too.
    run(
        &mut worker,
        &machine,
        &["ping", "-c", "1", "-s", "1000", "10.9.0.1"],
    );
    let errors = run(
        &mut worker,
        &machine,
        &["sh", "-c", "grep ^Tcp: /proc/net/snmp"],
    );
    let errors: Vec<_> = errors
        .lines()
        .map(|l| l.split(' ').collect::<Vec<_>>())
        .collect();
    let place = errors[0].iter().position(|name| *name == "InCsumErrors");
    assert_eq!(errors[1][place.expect("a counter")], "0");
}
