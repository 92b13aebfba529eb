//! `vink exec`: statuses, signals, terminals, pipes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};

use common::control::Control;
use common::Place;

const ONE: &str = "
machines:
  m1: { interfaces: { eth0: { addresses: [10.0.0.1/24] } } }
";

fn up(place: &Place) -> Control<'_> {
    let control = Control::of(place);
    control.write("one.yaml", ONE);
    control.vink(&["lab", "up", "one.yaml"]);
    control
}

#[test]
fn statuses() {
    for place in Place::all() {
        let control = up(&place);
        for (words, code) in [
            (&["true"][..], 0),
            (&["sh", "-c", "exit 7"], 7),
            (&["sh", "-c", "kill -9 $$"], 137),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["no-such-program"], 127),
            (&["/etc/passwd"], 126),
        ] {
            let output = control.try_vink(&[&["exec", "m1", "--"], words].concat());
            assert_eq!(output.status.code(), Some(code), "{words:?}");
        }
        let (code, said) = control.fails(&["exec", "m9", "--", "true"]);
        assert!(
            code == 125 && said.contains("no machine m9; in the lab: m1"),
            "{said}"
        );
        // Its own environment, directory and name.
        let line = "echo $GREETING; pwd; hostname; ip -br addr show eth0 | wc -l";
        let text = control.vink(&[
            "exec",
            "-e",
            "GREETING=hi",
            "-w",
            "/usr",
            "m1",
            "--",
            "sh",
            "-c",
            line,
        ]);
        assert_eq!(text, "hi\n/usr\nm1\n1\n");
        let here = control.vink(&["exec", "m1", "--", "pwd"]);
        let folder = control.folder().canonicalize().expect("a folder");
        assert_eq!(here.trim(), folder.to_str().expect("text"));
        // What it leaves behind keeps no process waiting.
        control.vink(&["exec", "m1", "--", "sh", "-c", "sleep 1000 & echo left"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn signals_that_the_first_command_ignores_have_their_default_action() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("one.yaml", ONE);
    // As a background job of a script, and under nohup(1).
    let mut shell = control.command("sh");
    let line = "trap '' INT QUIT HUP; exec \"$@\"";
    let vink = control.command("vink").get_program().to_owned();
    shell.args(["-c", line, "sh"]).arg(vink);
    let up = shell.args(["lab", "up", "one.yaml"]).output().expect("sh");
    assert!(up.status.success(), "{up:?}");
    let ignored = control.vink(&["exec", "m1", "--", "grep", "SigIgn", "/proc/self/status"]);
    assert_eq!(ignored, "SigIgn:\t0000000000000000\n");
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn calls_have_the_form_that_the_lab_says() {
    // The library that posts calls is mapped, or not; the variable that has it loaded is hidden.
    let line =
        "grep -c libvink_quick.so /proc/$$/maps > /dev/null && echo shared || echo trapped; \
                echo \"$LD_PRELOAD\"";
    for place in Place::all() {
        let control = Control::of(&place);
        for (key, form) in [
            ("", "shared"),
            ("calls: auto", "shared"),
            ("calls: shared", "shared"),
            ("calls: trapped", "trapped"),
            ("time: virtual", "shared"),
            ("time: virtual\ncalls: trapped", "trapped"),
        ] {
            control.write("one.yaml", &format!("{key}\n{ONE}"));
            control.vink(&["lab", "up", "one.yaml"]);
            let said = control.vink(&["exec", "m1", "--", "sh", "-c", line]);
            assert_eq!(said, format!("{form}\n\n"), "{key:?}");
            control.vink(&["lab", "down"]);
        }
        control.nothing_is_left();
    }
}

#[test]
fn pipes_are_binary_clean() {
    let place = &Place::all()[0];
    let control = up(place);
    let bytes: Vec<u8> = (0..20_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut child = control.start(&["exec", "-i", "m1", "--", "cat"]);
    let mut input = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let mut got = Vec::new();
    let mut output = child.stdout.take().expect("a pipe");
    output.read_to_end(&mut got).expect("output");
    writer.join().expect("a thread").expect("input");
    assert!(child.wait().expect("vink").success());
    assert!(got == bytes, "{} bytes of {}", got.len(), bytes.len());

    // Both outputs apart, all of them, though it ends at once.
    let line = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 5";
    let output = control.try_vink(&["exec", "m1", "--", "sh", "-c", line]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        (output.stdout.len(), output.stderr.len()),
        (300_000, 200_000)
    );
    // Without -i there is no input, even if there is.
    let mut child = control.start(&["exec", "m1", "--", "wc", "-c"]);
    let mut text = String::new();
    let mut output = child.stdout.take().expect("a pipe");
    output.read_to_string(&mut text).expect("output");
    assert_eq!(text.trim(), "0");
    assert!(child.wait().expect("vink").success());
    // A program whose output has no reader ends.
    let line = "vink exec m1 -- yes | head -n 1";
    let output = control
        .command("sh")
        .args(["-c", line])
        .output()
        .expect("sh");
    assert_eq!(output.stdout, b"y\n");
}

#[test]
fn signals_are_sent_on() {
    let place = &Place::all()[0];
    let control = up(place);
    let line = "trap 'echo caught; exit 9' TERM; echo begun; while :; do sleep 0.05; done";
    let mut child = control.start(&["exec", "m1", "--", "sh", "-c", line]);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    output.read_line(&mut text).expect("a line");
    assert_eq!(text, "begun\n");
    vink_sys::process::kill(child.id() as i32, libc::SIGTERM).expect("it is there");
    output.read_line(&mut text).expect("a line");
    assert_eq!(text, "begun\ncaught\n");
    assert_eq!(child.wait().expect("vink").code(), Some(9));

    // A client that is killed takes its program along.
    let mut child = control.start(&[
        "exec",
        "m1",
        "--",
        "sh",
        "-c",
        "echo begun; exec sleep 1000",
    ]);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut text).expect("a line");
    child.kill().expect("kill");
    child.wait().expect("vink");
    loop {
        let all = control.json(&["lab", "ps", "--json"]);
        let programs = all["programs"].as_array().expect("programs");
        if programs.iter().all(|program| program["state"] == "ended") {
            break;
        }
    }
}

#[test]
fn terminals() {
    let place = &Place::all()[0];
    let control = up(place);
    // A terminal for vink itself, by script(1): it must be raw meanwhile, and as before afterwards.
    let line = "stty rows 33 cols 101; before=$(stty -g); \
                vink exec -it m1 -- sh -c 'test -t 0 && stty size; exit 3'; echo status $?; \
                test \"$before\" = \"$(stty -g)\" && echo restored";
    // Its input does not end before: script(1) would write to its terminal then, which may show it.
    let (input, _open) = std::io::pipe().expect("a pipe");
    let output = control
        .command("script")
        .args(["-qec", line, "/dev/null"])
        .stdin(input)
        .output()
        .expect("script");
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(text.contains("33 101\nstatus 3\nrestored\n"), "{text}");
    // A terminal of its own without one here: job control, and Ctrl-C by the terminal.
    let mut child = control.start(&[
        "exec",
        "-it",
        "m1",
        "--",
        "sh",
        "-c",
        "trap 'echo interrupted; exit 6' INT; echo ready; while :; do sleep 0.05; done",
    ]);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut input = child.stdin.take().expect("a pipe");
    let mut text = String::new();
    while !text.contains("ready") {
        assert!(output.read_line(&mut text).expect("a line") > 0, "{text}");
    }
    input.write_all(&[3]).expect("Ctrl-C");
    output.read_to_string(&mut text).expect("the rest");
    assert!(text.contains("interrupted"), "{text}");
    assert_eq!(child.wait().expect("vink").code(), Some(6));
}

#[test]
fn detached_programs_have_logs() {
    let place = &Place::all()[0];
    let control = up(place);
    // Its end is waited for, not only that of its output.
    let line = "echo one; echo two >&2; exec >&- 2>&-; sleep 0.2; exit 4";
    let id = control.vink(&["exec", "-d", "m1", "--", "sh", "-c", line]);
    let text = control.vink(&["lab", "logs", "-f", id.trim()]);
    assert_eq!(text, "one\ntwo\n");
    let all = control.json(&["lab", "ps", "--json"]);
    let programs = all["programs"].as_array().expect("programs");
    let program = programs
        .iter()
        .find(|p| p["id"].as_u64() == id.trim().parse().ok());
    assert_eq!(program.expect("the program")["code"], 4);
    assert_eq!(
        control.vink(&["lab", "logs", "--tail", "4", id.trim()]),
        "two\n"
    );
}
