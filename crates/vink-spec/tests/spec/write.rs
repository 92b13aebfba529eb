//! What is written reads as the same lab, always in the same words.

use crate::random::Random;
use vink_spec::{read_text, Lab};

#[test]
fn it_reads_as_the_same() {
    let mut random = Random(3);
    for _ in 0..600 {
        let mut lab = random.lab();
        if vink_spec::cycle(&lab).is_some() {
            continue;
        }
        // Other rules than those of the text.
        lab.machines
            .values_mut()
            .for_each(|machine| machine.routes.clear());
        let text = lab.to_yaml();
        match read_text(&text, "lab.yaml", None) {
            Ok(reading) => {
                assert_eq!(reading.lab, lab, "{text}");
                assert_eq!(reading.lab.to_yaml(), text);
                // By another reader, of YAML 1.1 in parts.
                let other: serde_json::Value = serde_norway::from_str(&text).expect(&text);
                assert_eq!(other, serde_json::to_value(&lab).unwrap(), "{text}");
            }
            Err(mistakes) => panic!("{mistakes}\n{text}"),
        }
    }
}

#[test]
fn it_is_readable() {
    let lab: Lab = serde_json::from_value(serde_json::json!({
        "name": "office",
        "seed": 7,
        "images": { "mine": "build/mine.so" },
        "machines": {
            "r1": {
                "interfaces": {
                    "eth0": { "wire": "lan", "addresses": ["10.0.0.1/24", "fd00::1/64"], "mac": "02:00:00:00:00:01" },
                    "eth1": { "wire": "up", "addresses": ["10.0.1.1/31"] },
                },
                "routes": [{ "to": "default", "via": "10.0.1.0" }, { "to": "fd01::/64", "dev": "eth1" }],
                "forward": true,
                "sysctls": { "net.ipv4.tcp_congestion_control": "bbr", "net.ipv4.tcp_sack": 0, "net.a": "1" },
                "files": {
                    "/etc/motd": "hello\n\n  world\n",
                    "/etc/issue": { "from": "issue" },
                    "/etc/a": "one line\n",
                    "/etc/b": " leading",
                },
                "setup": ["tc qdisc add dev eth1 root fq_codel"],
                "programs": {
                    "web": {
                        "command": "exec python3 -m http.server 80",
                        "env": { "DEBUG": "no" },
                        "after": ["m2.db"],
                        "ready": { "port": 80 },
                        "restart": "on-failure",
                    },
                },
            },
            "no": {},
            "m2": {
                "image": "mine",
                "interfaces": { "eth0": { "wire": "lan" } },
                "programs": { "db": { "command": ["db", "--name", "a: b"], "ready": "success" } },
            },
        },
        "wires": {
            "lan": { "bus": true, "rate": "1gbit" },
            "up": {
                "delay": "10ms", "burst": { "start": "1%", "end": "10%" },
                "from": { "r1:eth1": { "rate": "10mbit" } },
                "uplink": { "passt": { "publish": ["8080:80"] } },
            },
        },
        "events": [{ "at": "10s", "do": "wire down up" }, { "at": "15s", "every": "20s", "do": "wire up up" }],
    }))
    .unwrap();
    crate::golden::golden("office", &lab.to_yaml());
}
