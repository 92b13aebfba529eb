//! The feed of a lab: its records are what a capture of the same wires has, packets that are chosen are
//! the same on each hop, and viewers change and slow down nothing.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use common::control::Control;
use common::Place;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::{json, Value};
use vink_api::{Address, Client, Feed, FromFeed, FromViewer, ToViewer};
use vink_protocol::{FeedHeader, FeedKind, FEED_HEADER};

/// A ping over a router and a wire that loses some, a rate that makes packets wait, and an ideal wire.
const LAB: &str = "
name: fed
time: virtual
seed: 7
machines:
  a: { interfaces: { eth0: { wire: w1, addresses: [10.0.1.1/24] } }, routes: [{ to: 10.0.0.0/16, via: 10.0.1.2 }] }
  r:
    forward: true
    interfaces:
      eth0: { wire: w1, addresses: [10.0.1.2/24] }
      eth1: { wire: w2, addresses: [10.0.2.2/24] }
      eth2: { wire: w3, addresses: [10.0.3.2/24] }
  b: { interfaces: { eth0: { wire: w2, addresses: [10.0.2.1/24] } }, routes: [{ to: 10.0.0.0/16, via: 10.0.2.2 }] }
  c: { interfaces: { eth0: { wire: w3, addresses: [10.0.3.1/24] } }, routes: [{ to: 10.0.0.0/16, via: 10.0.3.2 }] }
wires:
  w1: { delay: 10ms, jitter: 3ms, overtake: true, rate: 1mbit }
  w2: { delay: 5ms, loss: 10% }
  w3: {}
events:
  - { at: 2s, do: exec a ping -q -W 1 -c 100 -i 0.005 -s 400 10.0.2.1 }
  - { at: 8s, do: exec a ping -q -W 1 -c 100 -i 0.005 10.0.3.1 }
";
/// Frames of flights that go to a viewer that acknowledges none.
const UNDER_WAY: usize = 16;
/// What is on its way when a capture begins has ended by then, in ns.
const BEFORE: u64 = 1_000_000_000;
const ENDS: [&str; 6] = ["a:eth0", "r:eth0", "r:eth1", "b:eth0", "r:eth2", "c:eth0"];

/// A flight, its times in ns of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    end: usize,
    sent: u64,
    /// In µs.
    lasts: u32,
    id: u32,
    length: u16,
    class: u8,
    fate: u8,
    flow: u32,
    one_in: u32,
}

/// What a viewer has been told.
#[derive(Default)]
struct Seen {
    flights: Vec<Flight>,
    /// By end: sent, bytes, lost.
    counters: BTreeMap<usize, [u64; 3]>,
    /// By end: packets that wait.
    queues: BTreeMap<usize, u32>,
    missed: u64,
    frames: usize,
    now: u64,
}

impl Seen {
    fn take(&mut self, frame: &[u8]) -> FeedHeader {
        let header = FeedHeader::read(frame).expect("a header");
        let records = &frame[FEED_HEADER..];
        assert_eq!(records.len(), header.records());
        let word = |from: &[u8], at: usize| {
            u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"))
        };
        let long =
            |from: &[u8], at| u64::from(word(from, at)) | u64::from(word(from, at + 4)) << 32;
        self.missed += u64::from(header.missed);
        self.frames += 1;
        match header.kind {
            FeedKind::Flights => self.flights.extend(records.chunks(24).map(|of| Flight {
                end: word(of, 0) as usize,
                sent: header.base + u64::from(word(of, 4)),
                lasts: word(of, 8),
                id: word(of, 12),
                length: word(of, 16) as u16,
                class: of[18],
                fate: of[19],
                flow: word(of, 20),
                one_in: header.one_in,
            })),
            FeedKind::Counters | FeedKind::Keyframe => {
                for of in records.chunks(32) {
                    let counts = [long(of, 8), long(of, 16), long(of, 24)];
                    self.counters.insert(word(of, 0) as usize, counts);
                }
            }
            FeedKind::Clock => self.now = header.base,
            FeedKind::Queues => {
                let told = records
                    .chunks(8)
                    .map(|of| (word(of, 0) as usize, word(of, 4)));
                self.queues.extend(told);
            }
        }
        header
    }
}

/// A viewer of the lab.
struct Viewer {
    feed: Feed,
    seen: Seen,
}

impl Viewer {
    async fn open(client: &Client, subscription: Value) -> Viewer {
        let mut viewer = Viewer {
            feed: client.feed("fed").await.expect("a feed"),
            seen: Seen::default(),
        };
        assert_eq!(viewer.subscribe(subscription).await, ToViewer::Subscribed);
        viewer
    }

    async fn subscribe(&mut self, subscription: Value) -> ToViewer {
        let what = serde_json::from_value(subscription).expect("a subscription");
        self.say(&FromViewer::Subscribe(what)).await;
        loop {
            match self.feed.next().await.expect("a message").expect("no end") {
                FromFeed::Told(told) => return told,
                FromFeed::Frame(_) => {}
            }
        }
    }

    async fn say(&mut self, what: &FromViewer) {
        self.feed.say(what).await.expect("it is heard");
    }

    /// Takes and acknowledges frames until this holds.
    async fn until(&mut self, mut holds: impl FnMut(&Seen) -> bool) {
        while !holds(&self.seen) {
            let message = self.feed.next().await.expect("a message");
            if let FromFeed::Frame(frame) = message.expect("no end") {
                let header = self.seen.take(&frame);
                if header.kind == FeedKind::Flights {
                    self.say(&FromViewer::Ack(header.seq)).await;
                }
            }
        }
    }

    /// Takes all that was told until the lab's clock was at this time.
    async fn until_time(&mut self, nanoseconds: u64) {
        self.until(|seen| seen.now >= nanoseconds).await;
    }
}

fn client(control: &Control) -> Client {
    Client::new(Address::Unix(control.runtime().join("control.sock")))
}

fn run<T>(what: impl std::future::Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(what)
}

/// Everything, and this many packets a second.
fn all(budget: u32) -> Value {
    json!({ "classes": ["arp", "icmp[0] = 8", "icmp"], "overview": { "hz": 10 }, "detail": { "budget": budget } })
}

/// The kernel's time so many seconds after the lab was up.
fn time(control: &Control, seconds: u64) -> u64 {
    let clock = control.json(&["lab", "clock", "--json"]);
    let [kernel, lab] = ["kernel-nanoseconds", "nanoseconds"].map(|of| clock[of].as_u64());
    kernel.expect("a time") - lab.expect("a time") + seconds * 1_000_000_000
}

/// Has the lab go on until so many seconds after it was up.
fn go(control: &Control, seconds: u64) {
    control.vink(&["lab", "until", &format!("{seconds}s")]);
}

/// A packet of a capture.
#[derive(Debug)]
struct Captured {
    end: usize,
    date: u64,
    length: u32,
    is_lost: bool,
    is_outbound: bool,
    bytes: Vec<u8>,
}

fn read(file: &std::path::Path) -> Vec<Captured> {
    let bytes = fs::read(file).expect("a capture");
    let mut reader = PcapNgReader::new(&bytes[..]).expect("pcapng");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.expect("a block") else {
            continue;
        };
        let mut options = packet.options.iter();
        packets.push(Captured {
            end: packet.interface_id as usize,
            date: packet.timestamp.as_nanos() as u64,
            length: packet.original_len,
            is_lost: options
                .clone()
                .any(|option| matches!(option, EnhancedPacketOption::Comment(_))),
            is_outbound: options.any(|option| matches!(option, EnhancedPacketOption::Flags(2))),
            bytes: packet.data.to_vec(),
        });
    }
    packets
}

/// Has the lab go on, and looks until it has; what was seen then.
fn watched(
    control: &Control,
    subscription: &Value,
    until: u64,
    before: impl AsyncFnOnce(),
) -> Seen {
    let client = client(control);
    let end = time(control, until);
    thread::scope(|scope| {
        run(async {
            let mut viewer = Viewer::open(&client, subscription.clone()).await;
            before().await;
            scope.spawn(|| go(control, until));
            viewer.until_time(end).await;
            viewer.seen
        })
    })
}

#[test]
fn as_many_as_a_class_has_follow_a_flow_each() {
    const MOST: u32 = 64;
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    let follows = |flow: u32| {
        let mut subscription = all(20_000);
        subscription["flow"] = flow.into();
        subscription
    };
    run(async {
        let mut viewers = Vec::new();
        for flow in 1..=MOST {
            viewers.push(Viewer::open(&client, follows(flow)).await);
        }
        // One more shares a feed, and is told why it gets none of its own.
        let mut more = Viewer::open(&client, follows(1)).await;
        let refused = more.subscribe(follows(MOST + 1)).await;
        let ToViewer::Refused(problem) = refused else {
            panic!("{refused:?}");
        };
        assert!(problem.error.starts_with("64 viewers"), "{problem:?}");
        assert!(problem.hint.is_some_and(|hint| hint.contains("follow")));
        // Each of the others may follow another flow instead, unless its feed is shared.
        let other = follows(MOST + 1);
        assert_eq!(viewers[1].subscribe(other).await, ToViewer::Subscribed);
        let other = viewers[0].subscribe(follows(MOST + 2)).await;
        assert!(matches!(other, ToViewer::Refused(_)), "{other:?}");
        // When one has gone there is room.
        drop(viewers.pop());
        while more.subscribe(follows(MOST + 2)).await != ToViewer::Subscribed {}
    });
    control.vink(&["lab", "down"]);
}

#[test]
fn a_queue_that_empties_before_a_keyframe_is_told() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", &LAB.replace("rate: 1mbit", "rate: 100kbit"));
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    // Seldom, so that a keyframe is what is told next.
    let rarely = json!({ "overview": { "hz": 1 } });
    run(async {
        let mut viewer = Viewer::open(&client, rarely.clone()).await;
        control.vink(&["lab", "until", "2300ms"]);
        let waits = |seen: &Seen| seen.queues.values().any(|count| *count > 0);
        viewer.until(waits).await;
        go(&control, 7);
        // One more has all begin with a keyframe.
        let _more = Viewer::open(&client, rarely).await;
        viewer.until(|seen| !waits(seen)).await;
    });
    control.vink(&["lab", "down"]);
}

#[test]
fn records_are_what_a_capture_has() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    let file = control.folder().join("all.pcapng");
    let start = time(&control, 0);
    let mut seen = watched(&control, &all(200_000), 14, async || {
        let capture = json!({ "interfaces": ENDS, "path": file });
        let path = "/v1/labs/fed/captures";
        let made = client.repeat("POST", path, &capture.to_string()).await;
        made.expect("a capture");
    });
    assert_eq!(seen.missed, 0);
    // Of what was sent before, only the flight is told, which ends later.
    seen.flights.retain(|flight| flight.sent > start + BEFORE);
    let topology = run(client.repeat("GET", "/v1/labs/fed/topology", ""));
    let topology = topology.expect("the topology");
    let topology: Value = serde_json::from_slice(&topology).expect("JSON");
    let place_of = |number: usize| {
        let end = &topology["ends"][number];
        let node = end["node"].as_u64().expect("a node") as usize;
        let node = topology["nodes"][node]["name"].as_str().expect("a name");
        let name = format!("{node}:{}", end["interface"].as_str().expect("a name"));
        let mut ends = ENDS.iter();
        ends.position(|end| *end == name)
            .expect("an end of the lab")
    };
    let mut captured = read(&file);
    // A capture has dates: a virtual clock is 0 at midnight.
    let day = 86_400_000_000_000;
    let epoch = captured[0].date - captured[0].date % day;
    captured.retain(|packet| packet.date > epoch + start + BEFORE);
    let requests = |packet: &&Captured| packet.bytes[12..14] == [8, 0] && packet.bytes[34] == 8;
    let count = captured.iter().filter(requests).count();
    assert!(count > 500, "{count} of {}", captured.len());
    let departs = |packet: &&Captured| packet.is_outbound && !packet.is_lost;

    let departures = captured.iter().filter(departs);
    let departures = departures.map(|packet| {
        let class = match &packet.bytes[12..14] {
            [8, 6] => 1,
            [8, 0] if packet.bytes[34] == 8 => 2,
            [8, 0] => 3,
            _ => 0,
        };
        (packet.end, packet.date - epoch, packet.length, class)
    });
    let told = seen.flights.iter();
    let told = told.map(|f| (place_of(f.end), f.sent, f.length.into(), f.class));
    let (told, departures) = (sorted(told), sorted(departures));
    let parted = told.iter().zip(&departures).find(|(told, is)| told != is);
    assert_eq!((parted, told.len()), (None, departures.len()));

    // A flight's end is told in µs after its departure, which has ns.
    let ends = |lost: bool| {
        let ended = captured.iter().filter(move |packet| match lost {
            true => packet.is_lost && packet.is_outbound,
            false => !packet.is_lost && !packet.is_outbound,
        });
        sorted(ended.map(|packet| (packet.end, packet.date - epoch, packet.length)))
    };
    for lost in [false, true] {
        let told = seen.flights.iter().filter(|f| (f.fate != 0) == lost);
        let told = told.map(|f| {
            // Ends of one wire stand side by side.
            let end = if lost {
                place_of(f.end)
            } else {
                place_of(f.end) ^ 1
            };
            (end, f.sent + u64::from(f.lasts) * 1000, u32::from(f.length))
        });
        let (told, ended) = (sorted(told), ends(lost));
        assert_eq!(told.len(), ended.len(), "lost: {lost}");
        for (told, ended) in told.iter().zip(&ended) {
            let near = (told.1..told.1 + 1000).contains(&ended.1);
            assert!(
                told.0 == ended.0 && told.2 == ended.2 && near,
                "{told:?} {ended:?}"
            );
        }
    }
    assert!(ends(true).len() > 5);

    // What is counted is what the lab says itself.
    let wires: Vec<Value> = ["w1", "w2", "w3"]
        .map(|wire| control.json(&["wire", "show", wire, "--json"]))
        .to_vec();
    let ends = wires
        .iter()
        .flat_map(|wire| wire["ends"].as_array().expect("ends"));
    let said: BTreeMap<&str, [u64; 3]> = ends
        .map(|end| {
            let counts = ["sent", "sent-bytes", "lost"];
            let counts = counts.map(|name| end["counters"][name].as_u64().unwrap_or(0));
            (end["end"].as_str().expect("a name"), counts)
        })
        .collect();
    let told = seen.counters.iter();
    let told: BTreeMap<&str, [u64; 3]> = told
        .map(|(end, counts)| (ENDS[place_of(*end)], *counts))
        .collect();
    assert_eq!(told, said);
    control.vink(&["lab", "down"]);
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all
}

#[test]
fn chosen_packets_are_the_same_on_each_hop() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    let end = time(&control, 14);
    let (some, every) = thread::scope(|scope| {
        run(async {
            let mut some = Viewer::open(&client, all(400)).await;
            let mut every = Viewer::open(&client, all(200_000)).await;
            scope.spawn(|| go(&control, 14));
            tokio::join!(every.until_time(end), some.until_time(end));
            (some.seen, every.seen)
        })
    });
    assert_eq!(
        (every.missed, every.flights.iter().any(|f| f.one_in > 1)),
        (0, false)
    );
    let least = some.flights.iter().map(|f| f.one_in).max().unwrap_or(1);
    let is_chosen = |flight: &&Flight| u64::from(flight.id) * u64::from(least) < 1 << 32;
    // Of each packet of the smallest share, which of its hops were told.
    let hops = |of: &Seen| {
        let mut hops: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
        for flight in of.flights.iter().filter(is_chosen) {
            let hop = (flight.end, flight.sent);
            hops.entry(flight.id).or_default().push(hop);
        }
        hops.values_mut().for_each(|hops| hops.sort_unstable());
        hops
    };
    assert!(least > 1 && some.flights.len() * 2 < every.flights.len());
    let all = hops(&every);
    assert!(all.values().any(|hops| hops.len() == 2), "{all:?}");
    assert_eq!(hops(&some), all);
    control.vink(&["lab", "down"]);
}

#[test]
fn a_flow_that_is_followed_is_told_beside_the_budget() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    let seen = |subscriptions: Vec<Value>| {
        control.vink(&["lab", "up", "--paused"]);
        let client = client(&control);
        let end = time(&control, 6);
        let seen = thread::scope(|scope| {
            run(async {
                let mut viewers = Vec::new();
                for subscription in subscriptions {
                    viewers.push(Viewer::open(&client, subscription).await);
                }
                scope.spawn(|| go(&control, 6));
                for viewer in &mut viewers {
                    viewer.until_time(end).await;
                }
                viewers.into_iter().map(|viewer| viewer.seen.flights)
            })
        });
        control.vink(&["lab", "down"]);
        seen.collect::<Vec<_>>()
    };
    // The ping's, which is the same in each run.
    let mut flows: BTreeMap<u32, usize> = BTreeMap::new();
    for flight in &seen(vec![all(200_000)])[0] {
        *flows.entry(flight.flow).or_default() += 1;
    }
    let (flow, many) = flows
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .expect("flows");
    let mut followed = all(1);
    followed["flow"] = json!(flow);
    let told = seen(vec![all(1), followed]);
    let [plain, followed] = [&told[0], &told[1]].map(|flights| {
        let of = flights.iter().filter(|flight| flight.flow == flow);
        of.count()
    });
    // So many of one tick are told, and a virtual clock may do all of it in few.
    assert!(
        followed > plain && followed >= many.min(90),
        "{plain} {followed} of {many}"
    );
}

#[test]
fn subscriptions_that_can_not_be_are_refused() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    let many = vec!["arp"; 33];
    let ends = vec!["a:eth0"; 401];
    let long = "arp or ".repeat(200) + "arp";
    run(async {
        let mut viewer = Viewer::open(&client, all(100)).await;
        for (what, path, part) in [
            (json!({ "classes": ["tpc"] }), "/classes/0", "tpc"),
            (
                json!({ "classes": ["arp", long] }),
                "/classes/1",
                "1000 are the most",
            ),
            (json!({ "classes": many }), "/classes", "32 are the most"),
            (
                json!({ "follow": "no filter" }),
                "/follow",
                "pcap-filter(7)",
            ),
            (
                json!({ "overview": { "hz": 1000 } }),
                "/overview/hz",
                "1 to 10",
            ),
            (
                json!({ "detail": { "budget": 0 } }),
                "/detail/budget",
                "1 to 200000",
            ),
            (
                json!({ "detail": { "budget": 4_000_000_000_u32 } }),
                "/detail/budget",
                "1 to",
            ),
            (
                json!({ "detail": { "budget": 1, "ends": ["a:eth9"] } }),
                "/detail/ends/0",
                "no end a:eth9",
            ),
            (
                json!({ "detail": { "budget": 1, "ends": ends } }),
                "/detail/ends",
                "400 are the most",
            ),
        ] {
            let ToViewer::Refused(problem) = viewer.subscribe(what.clone()).await else {
                panic!("{what} is taken");
            };
            assert_eq!(problem.paths, [path], "{what}");
            assert!(problem.error.contains(part), "{what}: {}", problem.error);
        }
        // What it had before is still in force.
        viewer.until(|seen| seen.frames > 3).await;
    });
    control.vink(&["lab", "down"]);
}

/// Digest of the lab's run with so many viewers, of which one never reads.
fn digest(control: &Control, viewers: usize) -> String {
    let folder = format!("run{viewers}");
    control.vink(&["lab", "up", "--paused", "--record", &folder]);
    let client = client(control);
    run(async {
        let mut all_viewers = Vec::new();
        for n in 0..viewers {
            let subscription = match n {
                0 => all(200_000),
                1..=4 => all(50),
                _ => json!({
                    "overview": { "hz": n },
                    "detail": { "budget": 9, "ends": ["a:eth0"] },
                    "follow": "icmp"
                }),
            };
            all_viewers.push(Viewer::open(&client, subscription).await);
        }
        // Between them nothing runs.
        for until in [1, 6, 7, 14] {
            let end = time(control, until);
            go(control, until);
            for (n, viewer) in all_viewers.iter_mut().enumerate() {
                match n {
                    0 => {}
                    1 if until == 6 => *viewer = Viewer::open(&client, all(60)).await,
                    _ => viewer.until_time(end).await,
                }
            }
        }
    });
    control.vink(&["lab", "down"]);
    let manifest = control.folder().join(folder).join("manifest.json");
    let manifest = fs::read_to_string(manifest).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert!(manifest["totals"]["packets"].as_u64() > Some(500));
    manifest["totals"]["digest"].to_string()
}

#[test]
fn a_run_is_the_same_with_any_number_of_viewers() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    let without = digest(&control, 0);
    for viewers in [1, 8] {
        let with = digest(&control, viewers);
        let difference = control.try_vink(&["lab", "diff", "run0", &format!("run{viewers}")]);
        let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
        assert_eq!(with, without, "{viewers} viewers: {difference}");
    }
}

#[test]
fn a_viewer_that_does_not_take_is_told_what_it_has_missed() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--paused"]);
    let client = client(&control);
    let ping = ["exec", "c", "--", "ping", "-c", "1", "10.0.3.2"];
    let (slow, quick) = thread::scope(|scope| {
        run(async {
            let mut slow = Viewer::open(&client, all(200_000)).await;
            let mut quick = Viewer::open(&client, all(200_000)).await;
            for _ in 0..UNDER_WAY + 4 {
                let before = quick.seen.flights.len();
                let pinging = scope.spawn(|| control.vink(&ping));
                quick.until(|seen| seen.flights.len() > before).await;
                pinging.join().expect("an answer");
            }
            let end = time(&control, 0) + 60_000_000_000;
            scope.spawn(|| go(&control, 60));
            quick.until_time(end).await;
            // This one reads late, and acknowledges nothing.
            while slow.seen.now < end {
                let message = slow.feed.next().await.expect("a message");
                if let FromFeed::Frame(frame) = message.expect("no end") {
                    slow.seen.take(&frame);
                }
            }
            (slow.seen, quick.seen)
        })
    });
    assert_eq!((quick.missed, &slow.counters), (0, &quick.counters));
    let (told, all) = (slow.flights.len() as u64, quick.flights.len() as u64);
    assert_eq!(told + slow.missed, all);
    assert!(told < all, "it was slow enough");
    control.vink(&["lab", "down"]);
}
