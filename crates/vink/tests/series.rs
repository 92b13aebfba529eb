//! Time series: by the lab's clock and at events, of everything that has a number, in each kind of file.

mod common;

use std::fs;

use common::control::Control;
use common::Place;
use vink_timeseries::{read, Cell, Format, Table};

/// A flow over 10 Mbit/s and 10 ms each way, and a program that counts in a file once in 100 ms.
const LAB: &str = r#"
name: measured
time: virtual
seed: 1
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      send: { app: source -t 2s 10.0.0.2, after: [b.sink] }
      count:
        command: |
          for i in 1 2 3 4 5 6 7 8 9 10; do echo "served $i so far" > served; sleep 0.1; done
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs: { sink: { app: sink } }
wires: { w1: { rate: 10mbit, delay: 10ms } }
series:
  flow:
    every: 10ms
    values:
      cwnd: tcp a snd_cwnd 10.0.0.2
      bytes: bitrate tcp a bytes_acked
      queue: qdisc a:eth0 qlen
      sent: interface a:eth0 tx_bytes
      under-way: wire a:eth0 under_way
      segments: counter a TcpOutSegs
      sockets: "proc a /proc/net/sockstat TCP: inuse"
      served: file served served
  acks: { on: ack, at: a, file: acks.jsonl, values: { cwnd: tcp a snd_cwnd, state: tcp a state } }
  sent: { on: departure, at: "a:eth0", file: sent.parquet, values: { bytes: interface a:eth0 tx_bytes } }
"#;

fn table(control: &Control, name: &str) -> Table {
    let path = control.folder().join(name);
    let bytes = fs::read(&path).expect(name);
    read(Format::of(&path).expect(name), &bytes).expect(name)
}

/// The numbers of a column, with their times.
fn column(table: &Table, name: &str) -> Vec<(f64, f64)> {
    let at = table.names.iter().position(|its| its == name).expect(name);
    let number = |row: &Vec<Cell>| match (&row[0], &row[at]) {
        (Cell::Number(time), Cell::Number(number)) => Some((*time, *number)),
        _ => None,
    };
    table.rows.iter().filter_map(number).collect()
}

fn last(table: &Table, name: &str) -> f64 {
    column(table, name).last().expect(name).1
}

#[test]
fn they_are_what_the_kernel_counts_and_repeat() {
    // Root's: the image's debug information is in a folder of the user that built it.
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    let mut runs = Vec::new();
    for _ in 0..2 {
        control.vink(&["lab", "up"]);
        control.vink(&["lab", "until", "--ended", "a.send"]);
        let all = control.json(&["series", "list", "--json"]);
        let rows = |at: usize| all[at]["rows"].as_u64().expect("rows") as usize;
        let (rows, interface) = (
            [rows(0), rows(1), rows(2)],
            control.json(&["machine", "show", "a", "--json"]),
        );
        control.vink(&["lab", "down"]);
        let flow = table(&control, "flow.csv");
        let acks = table(&control, "acks.jsonl");
        let sent = table(&control, "sent.parquet");
        assert_eq!(
            [flow.rows.len(), acks.rows.len(), sent.rows.len()],
            rows,
            "{all}"
        );
        // By the clock: at each time that was due, and at no other.
        for (at, row) in flow.rows.iter().enumerate() {
            assert_eq!(row[0], Cell::Number((at as f64 * 1e7) / 1e9));
        }
        // What the interface has counted at the end is what it tells.
        let counted = &interface["interfaces"][0]["counters"]["tx-bytes"];
        let counted = counted.as_f64().expect("tx-bytes");
        assert_eq!(last(&sent, "bytes"), counted);
        assert!(last(&flow, "sent") <= counted);
        // The wire is full from when slow start has ended, and holds what it must.
        let full = |points: Vec<(f64, f64)>| {
            let points = points.into_iter().filter(|(t, _)| (0.5..2.0).contains(t));
            let (n, sum) = points.fold((0, 0.0), |(n, sum), (_, y)| (n + 1, sum + y));
            sum / f64::from(n)
        };
        let rate = full(column(&flow, "bytes"));
        assert!((9.0e6..10.0e6).contains(&rate), "{rate}");
        let under_way = full(column(&flow, "under-way"));
        assert!((7.0..13.0).contains(&under_way), "{under_way}");
        assert!(full(column(&flow, "queue")) > 0.0);
        assert!(last(&flow, "segments") >= last(&flow, "sent") / 1514.0 / 44.0);
        assert!(last(&flow, "sockets") >= 1.0);
        // A file's number is there when it has been written.
        let served = column(&flow, "served");
        assert_eq!(served.last().map(|(_, n)| *n), Some(10.0));
        let steps = served.windows(2).filter(|two| two[1].1 == two[0].1 + 1.0);
        let first = served[0].1;
        assert_eq!(steps.count() as f64, 10.0 - first);
        // Slow start: a packet more with each acknowledgement.
        let cwnd = column(&acks, "cwnd");
        assert!(cwnd.windows(2).all(|two| two[0].0 <= two[1].0));
        assert_eq!((cwnd[0].1, cwnd[1].1, cwnd[2].1), (10.0, 11.0, 12.0));
        assert!(column(&acks, "state")
            .iter()
            .any(|(_, state)| *state == 1.0));
        let files = ["flow.csv", "acks.jsonl", "sent.parquet"];
        fs::remove_file(control.folder().join("served")).expect("served");
        runs.push(files.map(|name| fs::read(control.folder().join(name)).expect(name)));
    }
    assert!(runs[0] == runs[1], "two runs differ");
    for (from, to, column) in [
        ("flow.csv", "flow.svg", "under-way"),
        ("acks.jsonl", "acks.svg", "cwnd"),
        ("sent.parquet", "sent.svg", "bytes"),
    ] {
        control.vink(&["plot", from, "-o", to]);
        let picture = fs::read_to_string(control.folder().join(to)).expect(to);
        assert!(picture.contains("<svg") && picture.contains(column), "{to}");
    }
}

#[test]
fn by_command_and_by_the_hosts_clock() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write(
        "lab.yaml",
        "name: real\nmachines:\n  a: {interfaces: {eth0: {wire: w, addresses: [10.0.0.1/24]}}}\n  b: {interfaces: {eth0: {wire: w, addresses: [10.0.0.2/24]}}}\n",
    );
    control.vink(&["lab", "up"]);
    let sent = "sent=wire a:eth0 sent";
    let new = ["series", "add", "--every", "5ms", "-o", "x.csv", sent];
    let said = control.vink(&new);
    assert!(said.starts_with("series x: /"), "{said}");
    // It goes on by itself.
    loop {
        let all = control.json(&["series", "list", "--json"]);
        assert!(all[0]["error"].is_null(), "{all}");
        if all[0]["rows"].as_u64() > Some(3) {
            break;
        }
    }
    let saved = control.vink(&["lab", "save"]);
    assert!(saved.contains("sent: wire a:eth0 sent"), "{saved}");
    let (_, said) = control.fails(&new);
    assert!(said.contains("series x is in lab real already"), "{said}");
    for (words, error) in [
        (
            &["--every", "1s", "y=tcp a cwnd"][..],
            "a connection has no field cwnd",
        ),
        (
            &["--every", "1s", "y=tcp c snd_cwnd"],
            "the lab has no machine c",
        ),
        (
            &["--every", "1s", "y=wire a:eth7 sent"],
            "a has no interface eth7",
        ),
        (
            &["--every", "1s", "y=counter a TcpNone"],
            "a has no counter TcpNone",
        ),
        (&["--every", "1s", "y=queue a"], "is no number of a lab"),
        (
            &["--on", "acks", "y=tcp a snd_cwnd"],
            "is no event: departure",
        ),
        (
            &["--on", "ack", "--at", "a:eth0", "y=tcp a snd_cwnd"],
            "a connection is at no interface",
        ),
        (&["y=tcp a snd_cwnd"], "--every"),
    ] {
        let all = [&["series", "add", "-o", "y.csv"], words].concat();
        let (_, said) = control.fails(&all);
        assert!(said.contains(error), "{words:?}: {said}");
    }
    let (_, said) = control.fails(&["series", "add", "--every", "1s", "-o", "y.xls", sent]);
    assert!(said.contains(".csv, .jsonl or .parquet"), "{said}");
    let (_, said) = control.fails(&["series", "add", "--every", "1s", "-o", "no/y.csv", sent]);
    assert!(said.contains("no/y.csv"), "{said}");
    // A machine that goes leaves its cells empty.
    control.vink(&["machine", "rm", "a"]);
    let said = control.vink(&["series", "rm", "x"]);
    assert!(said.contains(" rows: /"), "{said}");
    let (_, said) = control.fails(&["series", "rm", "x"]);
    assert!(said.contains("there is no series in the lab"), "{said}");
    let rows = column(&table(&control, "x.csv"), "sent");
    assert!(rows.len() > 3 && rows.windows(2).all(|two| two[0].0 < two[1].0));
    control.vink(&["lab", "down"]);
}
