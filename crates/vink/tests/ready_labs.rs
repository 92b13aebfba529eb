//! The ready labs under labs/ do what their pages say: delays, rates, losses, ways around.

mod common;

use std::fs;

use common::lab::{copy_labs, labs, median, shortest, slope, within, Up};
use common::Place;

#[test]
fn hello() {
    for place in Place::all() {
        let lab = Up::new(&place, "hello");
        // Long enough for what programs and a busy machine add.
        lab.vink(&["wire", "set", "w1", "delay", "50ms"]);
        for address in ["10.0.0.2", "fd00::2"] {
            let ping = lab.on("alice", &format!("ping -n -c 20 -i 0.05 {address}"));
            assert!(within(2.0, shortest(&ping), 100.0), "{ping}");
        }
        // By its name, too.
        let page = lab.on("alice", "curl -sS http://bob/lab.yaml");
        let file = fs::read_to_string(labs(&place).join("hello/lab.yaml")).expect("the file");
        assert_eq!(page, file, "{}", place.user());
    }
}

#[test]
fn bufferbloat() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "bufferbloat");
    let said = lab.measure(8);
    let [pfifo, codel] = ["pfifo.csv", "codel.csv"].map(|file| lab.column(file, "ping_ms"));
    // Filled to its end, a queue of 1000 packets of 1514 bytes takes 1.2 s.
    assert!(median(&pfifo) > 200.0, "{said}");
    assert!(median(&codel) < 60.0, "{said}");
    for file in ["pfifo.csv", "codel.csv"] {
        // Of each frame of 1514 bytes, 1448 are the program's. CoDel's queue runs empty at times, longer on a busy host.
        let rate = slope(&lab.column(file, "acked")) * 8.0 * 1514.0 / 1448.0;
        assert!(within(5.0, rate, 10e6), "{file}: {rate} bit/s\n{said}");
    }
    for picture in ["ping.svg", "cwnd.svg"] {
        let picture = fs::read_to_string(place.temporary().join(picture)).expect(picture);
        assert!(picture.contains("<polyline"), "{picture}");
    }
}

#[test]
fn lossy_wan() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "lossy-wan");
    let said = lab.measure(8);
    let [cubic, bbr] = ["cubic.csv", "bbr.csv"].map(|f| slope(&lab.column(f, "acked")) * 8.0);
    // Mathis, Semke, Mahdavi and Ott (1997) give 1448 * 8 * 1.22 / (0.04 s * sqrt(0.01)) = 3.5 Mbit/s.
    assert!(
        (1.5e6..9e6).contains(&cubic),
        "CUBIC: {cubic} bit/s\n{said}"
    );
    // How much of the wire it fills depends on how busy the machine is: its pacing is by timers.
    assert!(
        bbr > 2.5 * cubic,
        "BBR: {bbr}, CUBIC: {cubic} bit/s\n{said}"
    );
    for (wire, end) in [("cubic", "east:eth0"), ("bbr", "east:eth1")] {
        let (sent, lost) = lab.sent_and_lost(wire, end);
        let expected = sent * 0.01;
        // Five standard deviations: one run in a million fails by chance.
        let bound = 5.0 * (sent * 0.01 * 0.99).sqrt();
        assert!(
            sent > 1000.0 && (lost - expected).abs() < bound,
            "{wire}: {lost} of {sent} lost"
        );
    }
}

#[test]
fn two_kernels() {
    for place in Place::all() {
        let lab = Up::new(&place, "two-kernels");
        // What only one of them has.
        let setting = "test -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts";
        assert!(!lab.succeeds("old", setting));
        assert!(lab.succeeds("new", setting));
        for (from, to) in [("old", "new"), ("new", "old")] {
            let said = lab.on(from, &format!("iperf3 -c {to} -n 16M -J"));
            let said: serde_json::Value = serde_json::from_str(&said).expect(&said);
            let received = said["end"]["sum_received"]["bytes"].as_u64();
            // iperf3 does not count what is under way when all is sent.
            assert!(received > Some(8 << 20), "{from} to {to}: {said}");
        }
        let again = ["old", "new"].map(|machine| {
            let said = lab.on(machine, "./unanswered.sh 6");
            said.trim().parse::<u32>().expect(&said)
        });
        assert!(0 < again[0] && again[0] < again[1], "{again:?}");
    }
}

#[test]
fn ospf_ring() {
    for place in Place::all() {
        let lab = Up::new(&place, "ospf-ring");
        for i in 2..=5 {
            lab.until("r1", &format!("ping -c 1 -W 1 10.255.0.{i}"));
        }
        lab.until("r1", "ip route get 10.255.0.2 | grep -q 'dev to-r2'");
        lab.vink(&["wire", "down", "w12", "--lab", lab.name]);
        assert!(lab.succeeds("r1", "ip link show to-r2 | grep -q NO-CARRIER"));
        let took = lab.until("r1", "ip route get 10.255.0.2 | grep -q 'dev to-r5'");
        lab.until("r1", "ping -c 1 -W 1 10.255.0.2");
        println!("OSPF went around the cut after {took:?} ({})", place.user());
        lab.vink(&["wire", "up", "w12", "--lab", lab.name]);
        lab.until("r1", "ip route get 10.255.0.2 | grep -q 'dev to-r2'");
        let said = lab.on(
            "r1",
            "vtysh --vty_socket \"$VINK_RUN\" -c 'show ip ospf neighbor'",
        );
        assert_eq!(said.matches("Full/").count(), 2, "{said}");
    }
}

#[test]
fn bgp_triangle() {
    for place in Place::all() {
        let lab = Up::new(&place, "bgp-triangle");
        for (from, to) in [("h1", 2), ("h1", 3), ("h2", 3)] {
            lab.until(from, &format!("ping -c 1 -W 1 192.168.{to}.2"));
        }
        lab.until("r1", "ip route get 192.168.2.2 | grep -q 'dev to-r2'");
        lab.vink(&["wire", "down", "w12", "--lab", lab.name]);
        let took = lab.until("r1", "ip route get 192.168.2.2 | grep -q 'dev to-r3'");
        lab.until("h1", "ping -c 1 -W 1 192.168.2.2");
        println!("BGP went around the cut after {took:?} ({})", place.user());
    }
}

#[test]
fn fabric() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "fabric");
    lab.on(
        "h1",
        "until ping -n -c 1 -W 1 192.168.4.2; do sleep 0.1; done",
    );
    // By both spines, and then by the one that is left.
    lab.on(
        "leaf1",
        "until [ $(ip route show 192.168.4.0/24 | grep -c via) = 2 ]; do sleep 0.1; done",
    );
    lab.vink(&["wire", "down", "spine1-leaf1"]);
    let way = lab.on(
        "leaf1",
        "until ip route show 192.168.4.0/24 | grep 'dev eth1'; do sleep 0.1; done",
    );
    assert!(way.contains("via inet6 fe80:"), "{way}");
    lab.on(
        "h1",
        "until ping -n -c 1 -W 1 192.168.4.2; do sleep 0.1; done",
    );
    for spine in ["spine1", "spine2"] {
        let bgp = lab.on(
            spine,
            "vtysh --vty_socket \"$VINK_RUN\" -c 'show bgp summary'",
        );
        assert!(bgp.contains("leaf4") || bgp.contains("eth3"), "{bgp}");
    }
}

#[test]
fn firewall() {
    for place in Place::all() {
        let lab = Up::new(&place, "firewall");
        // The DMZ's server, by the gateway's address.
        let page = lab.on(
            "visitor",
            "curl -sS -o /dev/null -w '%{http_code}' http://198.51.100.1/",
        );
        assert_eq!(page, "200");
        // Out of the site, by one address.
        lab.on("desk", "curl -sS -o /dev/null http://198.51.100.7/");
        let log = lab.vink(&["lab", "logs", "--lab", lab.name, "visitor.web"]);
        assert!(log.contains("198.51.100.1"), "{log}");
        // Within the site, and from it into the DMZ.
        assert_eq!(
            lab.on("printer", "echo hello | nc -q 1 -w 5 10.0.2.5 22"),
            "hello\n"
        );
        lab.on("desk", "curl -sS -o /dev/null http://10.0.1.80/");
        // And nothing else.
        lab.on("visitor", "ip route add 10.0.0.0/8 via 198.51.100.1");
        assert!(!lab.succeeds("visitor", "nc -z -w 1 10.0.2.5 22"));
        assert!(!lab.succeeds("visitor", "nc -z -w 1 10.0.2.9 9100"));
        assert!(!lab.succeeds("www", "nc -z -w 1 10.0.2.5 22"));
        let refused = lab.on("gateway", "nft list chain inet filter forward");
        assert!(!refused.contains("counter packets 0 "), "{refused}");
    }
}

#[test]
fn relay() {
    for place in Place::all() {
        let lab = Up::new(&place, "relay");
        // There is no way but the relays.
        assert!(!lab.succeeds("client", "ping -c 1 -W 1 10.0.1.2"));
        for host in ["10.0.0.1", "[fd00::1]"] {
            let line = format!("curl -sS -g -o /dev/null -w '%{{http_code}}' http://{host}/");
            assert_eq!(lab.on("client", &line), "200");
        }
        assert_eq!(
            lab.on("client", "dig +short @10.0.0.1 server.lab"),
            "10.0.1.2\n"
        );
        let log = lab.vink(&["lab", "logs", "--lab", lab.name, "server.web"]);
        assert!(
            log.contains("10.0.1.1 ") && !log.contains("10.0.0.2 "),
            "{log}"
        );
        let sent = lab.on("client", "iperf3 -c 10.0.0.1 -n 10M");
        assert!(sent.contains("iperf Done"), "{sent}");
    }
}

#[test]
fn ipv6_site() {
    for place in Place::all() {
        let lab = Up::new(&place, "ipv6-site");
        for host in ["laptop", "phone"] {
            lab.until(
                host,
                "ip -6 -o addr show dev eth0 scope global | grep -q 2001:db8:1:1:",
            );
            lab.until(host, "ip -6 route show default | grep -q 'dev eth0'");
            let page = lab.on(
                host,
                "curl -sS -o /dev/null -w '%{http_code}' http://server.example/",
            );
            assert_eq!(page, "200", "{host}");
        }
        assert_eq!(lab.on("laptop", "ip -4 route show"), "");
        // From outside comes an answer to ping, and no connection.
        let address = "ip -6 -o addr show dev eth0 scope global | sed 's/.*inet6 //; s/[/].*//'";
        let address = lab.on("laptop", address);
        let address = address.lines().next().expect("an address");
        lab.on("server", &format!("ping -c 1 -W 5 {address}"));
        let listening = lab.on(
            "laptop",
            "nc -6 -l 8080 </dev/null >/dev/null 2>&1 & echo $!",
        );
        assert!(
            !lab.succeeds("server", &format!("nc -6 -z -w 1 {address} 8080")),
            "{listening}"
        );
    }
}

#[test]
fn a_tree_of_1000_machines() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "tree-1000");
    let said = lab.vink(&["machine", "ls", "--lab", lab.name, "--json"]);
    let machines: serde_json::Value = serde_json::from_str(&said).expect(&said);
    assert_eq!(machines.as_array().expect("a list").len(), 1000);
    // From one leaf to another, through the root and seven routers.
    let ping = lab.on("n1000", "ping -n -c 3 n500");
    assert!(ping.contains(" 0% packet loss"), "{ping}");
}

#[test]
fn abilene() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "abilene");
    // The shortest way, by Denver, Kansas City, Indianapolis and Chicago, is 4,672 km: 46.8 ms to and fro at two thirds
    // of the speed of light.
    let ping = lab.on("seattle", "ping -n -c 20 -i 0.05 new-york");
    assert!(within(5.0, shortest(&ping), 46.8), "{ping}");
}

#[test]
fn transcoder() {
    let place = &Place::all()[0];
    copy_labs(place);
    let built = place
        .command("labs/transcoder/build.sh")
        .arg("5")
        .current_dir(place.temporary())
        .status();
    assert!(built.expect("build.sh").success());
    let lab = Up::new(place, "transcoder");
    let measured = lab.command("labs/transcoder/measure.sh").output();
    let measured = measured.expect("measure.sh");
    let said = String::from_utf8_lossy(&measured.stdout).into_owned()
        + &String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{said}");
    let [gold, silver, bronze, gold_spent] =
        ["gold", "silver", "bronze", "gold_spent"].map(|column| lab.column("overload.csv", column));
    // What a unit takes changes with all else that the host does, so each run is held against what it took itself.
    for at in 0..gold.len() {
        let (gold, silver, bronze) = (gold[at].1, silver[at].1, bronze[at].1);
        // It loses some only where hardly anything was spent on the others.
        assert!(gold > 95.0 || gold_spent[at].1 > 75.0, "{said}");
        assert!(gold >= silver && silver >= bronze, "{said}");
    }
    assert!(bronze[8].1 < 10.0 && silver[8].1 < 50.0, "{said}");
    assert!(
        silver[8].1 < silver[0].1 && bronze[4].1 < bronze[0].1,
        "{said}"
    );
    for picture in ["overload.svg", "tiers.svg"] {
        let picture = fs::read_to_string(place.temporary().join(picture)).expect(picture);
        assert!(picture.contains("<polyline"), "{picture}");
    }
    // Each is played by an unmodified player, whole.
    let source = lab.on("listener", "mpg123 -q -s --no-gapless music.mp3 | wc -c");
    for tier in ["gold", "silver", "bronze"] {
        let file = place.temporary().join(format!("{tier}.mp3"));
        let kept = lab.on(
            "listener",
            &format!("mpg123 -q -s {} | wc -c", file.display()),
        );
        let bytes = [&kept, &source].map(|text| text.trim().parse::<u64>().expect(text));
        assert!(
            (0..=3 * 4608).contains(&(bytes[0] - bytes[1])),
            "{tier}: {bytes:?}"
        );
    }
}

#[test]
fn kvs() {
    for place in Place::all() {
        let lab = Up::new(&place, "kvs");
        lab.on("client", "redis-cli -h 10.0.0.3 set greeting hello");
        assert_eq!(
            lab.on("client", "redis-cli -h 10.0.0.3 get greeting"),
            "hello\n"
        );
        // Four behind one address: all of them have something to do.
        lab.on("client", "redis-benchmark -h 10.0.0.4 -t get -n 1000 -q");
        for instance in ["kv1", "kv2", "kv3", "kv4"] {
            let gets = "redis-cli info commandstats | grep -q cmdstat_get:";
            assert!(lab.succeeds(instance, gets), "{instance}");
        }
        // Requests from elsewhere are refused, and redis cannot change that.
        assert!(!lab.succeeds("stranger", "nc -z -w 1 10.0.0.3 6379"));
        let counters = lab.vink(&["filter", "counters", "--lab", lab.name, "single"]);
        assert!(counters.contains("refused"), "{counters}");
        assert!(!lab.succeeds("single", "nft flush ruleset"));
        // Requests go on while rules are replaced.
        let said = lab.measure(1);
        let rates = said.lines().filter_map(|line| {
            let rate = line.strip_suffix(" a second")?.rsplit(' ').next()?;
            rate.parse::<u64>().ok()
        });
        assert_eq!(rates.filter(|rate| *rate > 0).count(), 5, "{said}");
    }
}
