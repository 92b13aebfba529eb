//! Machines on a trimmed image, of the profile `kvs`: what is there works, what is not fails as on a Linux without it.

mod common;

use common::control::Control;
use common::Place;

/// Says what sockets can be had, and uses those that a server needs.
const SOCKETS: &str = "
import errno, select, socket
def had(*kind):
    try:
        socket.socket(*kind).close()
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
print(had(socket.AF_INET6, socket.SOCK_STREAM), had(socket.AF_PACKET, socket.SOCK_RAW),
      had(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP))
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
one, _ = server.accept()
ready = select.epoll()
ready.register(one, select.EPOLLIN)
client.send(b'tcp')
assert ready.poll() == [(one.fileno(), select.EPOLLIN)]
a, b = socket.socketpair()
b.send(b'unix')
d = socket.socket(type=socket.SOCK_DGRAM)
d.bind(('127.0.0.1', 0))
d.sendto(b'udp', d.getsockname())
print(one.recv(9), a.recv(9), d.recv(9))
";

/// A server on the image, its client on the full one, and an uplink that nothing is at.
const LAB: &str = "
images: { kvs: linux-6.12-kvs }
machines:
  store:
    image: kvs
    rights: user
    forward: true
    interfaces:
      eth0: { wire: w, addresses: [10.0.0.1/24] }
      eth1: { wire: out }
    sysctls: { net.ipv6.conf.all.disable_ipv6: 1 }
    filter: |
      table ip guard {
        chain in {
          type filter hook input priority 0; policy accept;
          ct state established accept
          tcp dport 81 counter reject with tcp reset
        }
      }
    programs:
      web: { command: exec python3 -m http.server 80, ready: { port: 80 } }
  client:
    interfaces: { eth0: { wire: w, addresses: [10.0.0.2/24] } }
wires:
  w: {}
  out: { uplink: 'udp:127.0.0.1:0:127.0.0.1:9' }
";

#[test]
fn sockets() {
    for place in Place::all() {
        let control = Control::of(&place);
        let line = ["run", "--uplink", "none", "--image", "kvs", "--"];
        let said = control.vink(&[&line[..], &["python3", "-c", SOCKETS]].concat());
        assert_eq!(
            said,
            "EAFNOSUPPORT EAFNOSUPPORT EPROTONOSUPPORT\nb'tcp' b'unix' b'udp'\n"
        );
        for missing in [
            "ip -6 address add fd00::1/64 dev lo",
            "ip link add dummy1 type dummy",
            "tc qdisc add dev lo root netem delay 1ms",
            "nft add table inet t",
        ] {
            let output = control.try_vink(&[&line[..], &["sh", "-c", missing]].concat());
            assert!(!output.status.success(), "{missing}");
        }
        control.vink(
            &[
                &line[..],
                &["sh", "-c", "tc qdisc add dev lo root fq && ss -tn"],
            ]
            .concat(),
        );
    }
}

#[test]
fn a_lab_of_both_images() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        control.vink(&["exec", "client", "--", "ping", "-c", "1", "store"]);
        let fetch = |address: &str| {
            let line = ["exec", "client", "--", "curl", "-sS", address];
            control.try_vink(&line).status.success()
        };
        assert!(fetch("http://store/"));
        assert!(!fetch("http://store:81/"));
        let counted = control.json(&["filter", "counters", "store", "--json"]);
        assert_eq!(counted[0]["packets"].as_u64(), Some(1), "{counted}");

        let apply = |text: &str| {
            control.write("lab.yaml", text);
            control.try_vink(&["lab", "apply"])
        };
        let output = apply(&LAB.replace("forward: true", "forward: false"));
        assert!(output.status.success(), "{output:?}");
        let output = apply(&LAB.replace("10.0.0.1/24", "10.0.0.1/24, 'fd00::1/64'"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("the image has no IPv6"), "{said}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn its_figures() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let all = control.json(&["image", "report", "--json", "6.12", "6.12-kvs"]);
    let [full, kvs] = [0, 1].map(|n| all[n].clone());
    assert_eq!(
        (full["profile"].as_str(), kvs["profile"].as_str()),
        (Some("full"), Some("kvs"))
    );
    for figure in ["text_bytes", "source_lines", "system_calls"] {
        let of = |report: &serde_json::Value| report[figure].as_f64().expect(figure);
        assert!(of(&kvs) < of(&full), "{figure}: {all}");
    }
    // The bar that make bench holds it to (SPECIFICATION.md).
    let text = |report: &serde_json::Value| report["text_bytes"].as_f64().expect("bytes");
    assert!(text(&kvs) <= 0.67 * text(&full), "{all}");
}
