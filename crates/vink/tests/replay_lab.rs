//! Labs that were recorded: repeated, compared.

mod common;

use std::io::{Read, Write};

use common::control::Control;
use common::Place;
use serde_json::Value;

/// Programs of the host that begin at once, virtualized ones, chance, and events whose lines run programs.
const LAB: &str = "
name: busy
time: virtual
seed: 7
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      ping: { app: ping -c 60 10.0.0.2, after: [b.echo] }
      host: { command: [ping, -c, \"5\", 10.0.0.2] }
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs:
      slow: { app: echoserver -p 9, ready: { time: 5s } }
      echo: { app: echoserver -p 7, after: [slow], ready: { port: 7 } }
      web: { app: httpserver, ready: { port: 80 } }
      other: { command: [ping, -c, \"90\", 10.0.0.1] }
wires:
  w1: { delay: 100ms, jitter: 1ms, loss: 3% }
events:
  - { at: 10050ms, do: wire set w1 loss 100% }
  - { at: 20050ms, do: wire set w1 loss 0% }
  - { at: 25s, do: exec a curl -sS -o /dev/null http://10.0.0.2/100k }
";

fn manifest(control: &Control, folder: &str) -> Value {
    let path = control.folder().join(folder).join("manifest.json");
    let text = std::fs::read_to_string(path).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_lab_repeats() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up", "--record", "one"]);
        control.vink(&["lab", "until", "60s"]);
        // Another lab of this name is left alone.
        let (_, said) = control.fails(&["replay", "one"]);
        assert!(said.contains("busy runs already"), "{said}");
        control.vink(&["lab", "down"]);
        let made = manifest(&control, "one");
        let totals = &made["totals"];
        assert_eq!(totals["end"], 65_000_000_000_u64);
        assert_eq!(totals["unfinished"], Value::Null);
        assert!(totals["packets"].as_u64() > Some(100), "{totals}");
        let programs = totals["programs"].to_string();
        assert!(programs.contains("/curl"), "{programs}");

        let said = control.vink(&["replay", "--keep", "two", "one"]);
        let digest = totals["digest"].as_str().expect("a digest");
        assert!(
            said.starts_with("the run repeats: ")
                && said.ends_with(&format!("65.000000000 s; digest {digest}\n")),
            "{}: {said}",
            place.user()
        );
        let export = |folder| {
            let file = format!("{folder}.pcapng");
            control.vink(&["trace", "export", "--format", "pcapng", "-o", &file, folder]);
            std::fs::read(control.folder().join(file)).expect("a file")
        };
        assert!(export("one") == export("two"));

        // Another seed, another run.
        control.write("lab.yaml", &LAB.replace("seed: 7", "seed: 8"));
        control.vink(&["lab", "up", "--record", "other"]);
        control.vink(&["lab", "until", "60s"]);
        control.vink(&["lab", "down"]);
        let parted = control.try_vink(&["lab", "diff", "one", "other"]);
        assert_eq!(parted.status.code(), Some(1));
    }
}

#[test]
fn what_users_do_is_done_again() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up", "--record", "one"]);
        control.vink(&["lab", "until", "21s"]);
        let pinged = control.vink(&["exec", "a", "--", "ping", "-c", "2", "10.0.0.2"]);
        assert!(pinged.contains("2 received"), "{pinged}");
        control.vink(&["wire", "set", "w1", "delay", "50ms"]);
        control.vink(&["lab", "step", "packet"]);
        let more = LAB.replace("machines:\n", "machines:\n  c: {}\n");
        control.write("more.yaml", &more.replace("100ms", "60ms"));
        let changes = control.vink(&["lab", "apply", "more.yaml"]);
        assert!(changes.contains("machine c"), "{changes}");
        let drop = ["break", "add", "w1", "filter", "icmp", "drop", "times", "1"];
        control.vink(&drop);
        let stop = [
            "break", "add", "b", "arrival", "filter", "icmp", "after", "1", "times", "1", "--name",
            "stop",
        ];
        control.vink(&stop);
        let stopped = control.json(&["lab", "until", "60s", "--json"]);
        assert_eq!(stopped["state"], "stopped", "{stopped}");
        control.vink(&["lab", "continue"]);
        control.vink(&["lab", "until", "60s"]);
        control.vink(&["lab", "down"]);
        let text = control.vink(&["trace", "export", "--format", "text", "one"]);
        for part in [
            " carried out: wire set w1 loss 100%\n",
            " asks for PATCH /v1/labs/busy/wires/w1 ",
            " asks for PUT /v1/labs/busy ",
            " asks for POST /v1/labs/busy/clock/run ",
            " breakpoint 1 (1) at ",
            ": drop: departure ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let output = control.try_vink(&["replay", "--keep", "two", "one"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.starts_with("the run repeats: "),
            "{}: {said}",
            place.user()
        );
    }
}

/// Two shells, which run programs: what is typed in one contains this word.
fn typed_session(control: &Control, folder: &str, word: &str) {
    control.vink(&["lab", "up", "typed.yaml", "--record", folder]);
    let shell = |machine| {
        control.start(&[
            "exec", "-it", "-e", "PS1=$ ", machine, "--", "bash", "--norc",
        ])
    };
    let mut one = shell("a");
    let mut a = Typist::new(&mut one);
    let mut other = shell("b");
    let mut b = Typist::new(&mut other);
    a.types("ping -c 2 10.0.0.2\r", "2 received");
    b.types("stty size\r", "24 80");
    // No client of the tests is another user: the API, as curl.
    let input = |program: &str, body: &str| {
        let url = format!("http://localhost/v1/labs/typed/programs/{program}/input");
        let socket = control.runtime().join("control.sock");
        let mut curl = control.command("curl");
        curl.args(["-sS", "--fail", "-d", body, "--unix-socket"])
            .arg(socket)
            .arg(url);
        let output = curl.output().expect("curl");
        assert!(output.status.success(), "{output:?}");
    };
    input("2", r#"{"resize": {"rows": 33, "columns": 101}}"#);
    b.types("stty size\r", "33 101");
    // While the clock stands, it is interrupted before its end.
    control.vink(&["lab", "pause"]);
    a.types("sleep 1000\r", "sleep 1000");
    a.types("\x03", "^C");
    a.types("echo status $?\r", "status 130");
    control.vink(&["lab", "continue"]);
    input("1", &format!(r#"{{"text": "echo {word} | tr a-z A-Z\r"}}"#));
    a.types("", &word.to_uppercase());
    a.types("exit\r", "exit\r\n");
    assert!(one.wait().expect("vink").success());
    // A program that reads a pipe to its end.
    let mut sums = control.start(&["exec", "-i", "a", "--", "cksum"]);
    let mut pipe = sums.stdin.take().expect("a pipe");
    pipe.write_all(&[7; 10_000]).expect("input");
    drop(pipe);
    let mut text = String::new();
    let mut output = sums.stdout.take().expect("a pipe");
    output.read_to_string(&mut text).expect("output");
    assert!(text.ends_with(" 10000\n"), "{text}");
    assert!(sums.wait().expect("vink").success());
    // One whose terminal is kept: it is left, and typed to again.
    let shell = [
        "exec", "-it", "--keep", "-e", "PS1=$ ", "a", "--", "bash", "--norc",
    ];
    let mut kept = control.start(&shell);
    let mut typist = Typist::new(&mut kept);
    typist.types("x=20\r", "$ ");
    typist.types("\x10\x11", "");
    drop(typist);
    assert!(kept.wait().expect("vink").success());
    let mut kept = control.start(&["attach", "typed", "a"]);
    let mut typist = Typist::new(&mut kept);
    typist.types("ping -c 1 10.0.0.2; echo $((x + 22))\r", "\n42\r");
    typist.types("exit 6\r", "exit");
    assert_eq!(kept.wait().expect("vink").code(), Some(6));
    // This one's client goes away.
    b.types("sleep 1000\r", "sleep 1000");
    other.kill().expect("kill");
    other.wait().expect("vink");
    loop {
        let all = control.json(&["lab", "ps", "--json"]);
        let programs = all["programs"].as_array().expect("programs");
        if programs.iter().all(|program| program["state"] == "ended") {
            break;
        }
    }
    control.vink(&["lab", "down"]);
}

/// Types at a terminal, and reads what comes.
struct Typist {
    input: std::process::ChildStdin,
    output: std::process::ChildStdout,
}

impl Typist {
    fn new(child: &mut std::process::Child) -> Typist {
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let mut typist = Typist { input, output };
        typist.types("", "$ ");
        typist
    }

    fn types(&mut self, text: &str, until: &str) {
        self.input.write_all(text.as_bytes()).expect("input");
        let mut came = String::new();
        while !came.contains(until) {
            let mut piece = [0; 1000];
            let count = self.output.read(&mut piece).expect("output");
            assert!(count > 0, "no {until:?} in {came:?}");
            came += &String::from_utf8_lossy(&piece[..count]);
        }
    }
}

#[test]
fn what_is_typed_is_typed_again() {
    for place in Place::all() {
        let control = Control::of(&place);
        let lab = LAB.split("    programs:").next().expect("a part");
        let b = "  b: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }";
        let lab = lab.replace("name: busy", "name: typed");
        control.write(
            "typed.yaml",
            &format!("{lab}{b}\nwires: {{ w1: {{ delay: 100ms }} }}\n"),
        );
        typed_session(&control, "one", "hello");
        let digest = manifest(&control, "one")["totals"]["digest"].clone();
        let said = control.vink(&["replay", "--keep", "two", "one"]);
        let end = format!("digest {}\n", digest.as_str().expect("a digest"));
        assert!(
            said.starts_with("the run repeats: ") && said.ends_with(&end),
            "{}: {said}",
            place.user()
        );
        control.vink(&["lab", "diff", "one", "two"]);
        let one = control.vink(&["trace", "export", "--format", "text", "one"]);
        let user = if place.is_nobody() { "nobody" } else { "root" };
        for part in [
            " to program 1 of a: types \"ping -c 2 10.0.0.2\\r\"\n",
            " to program 2 of b: makes the terminal 33 lines of 101\n",
            " to program 1 of a: types \"\\x03\"\n",
            " to program 3 of a: ends the input\n",
            " to program 4 of a: types \"exit 6\\r\"\n",
            " to program 2 of b: goes away\n",
            &format!(" {user} asks for POST /v1/labs/typed/programs "),
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        // Another letter is another run.
        typed_session(&control, "other", "hallo");
        let parted = control.try_vink(&["lab", "diff", "one", "other"]);
        assert_eq!(parted.status.code(), Some(1));
    }
}

#[test]
fn a_lab_that_is_taken_down_amidst_something_repeats_so_far() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up", "--record", "one"]);
    control.vink(&["lab", "continue", "--free"]);
    control.vink(&["lab", "down"]);
    let said = control.vink(&["replay", "one"]);
    assert!(said.starts_with("the run repeats"), "{said}");
}

#[test]
fn a_lab_by_the_hosts_clock_does_not() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", "machines:\n  m1: {}\n");
    control.vink(&["lab", "up", "--record", "one"]);
    control.vink(&["lab", "down"]);
    let (_, said) = control.fails(&["replay", "one"]);
    assert!(said.contains("lived by the host's clock"), "{said}");
}
