//! `vink packetdrill`: scripts on a machine of their own, on both clocks.
//!
//! packetdrill is in no package. What the command does is seen by a shell that takes its place, for which a script is a shell
//! script. Where packetdrill's source is (`$VINK_PACKETDRILL`, or ../shared/packetdrill beside the workspace), it is built, and its
//! scripts and the kernel's run on both kernels; bench/packetdrill.json has what comes of each.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{root, Place};
use serde_json::{json, Value};

/// Its last argument is the script.
const STAND_IN: &str = "#!/bin/sh\nfor script; do :; done\n. \"./$script\"\n";

/// The stand-in, and these scripts.
fn furnish(place: &Place, scripts: &[(&str, &str)]) -> PathBuf {
    let program = place.folder().join("packetdrill");
    fs::write(&program, STAND_IN).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let folder = place.temporary().join("scripts");
    fs::create_dir(&folder).expect("a folder for scripts");
    for (name, text) in scripts {
        fs::write(folder.join(name), text).expect("a script");
    }
    folder
}

/// What the command says, standard error last, and whether it succeeded.
fn said(command: &mut Command) -> (String, bool) {
    let output = command.output().expect("vink packetdrill");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    (text, output.status.success())
}

#[test]
fn each_script_has_a_machine() {
    // An interface, a file and the priority of the first are not the second's; an hour is over at once. Where the scripts' folder
    // is below /tmp, it is there too.
    let own = "set -e; test ! -e /tmp/mark; touch /tmp/mark; ip tuntap add dev tun0 mode tun\n\
               sleep 3600; test \"$(ls /tmp | grep -v '^vink-test-')\" = mark\n";
    let priority = "if chrt --rr 1 true 2> /dev/null; then exit 1; fi\n";
    for place in Place::all() {
        let scripts = [("a.pkt", own), ("b.pkt", own), ("priority.pkt", priority)];
        let folder = furnish(&place, &scripts);
        let (text, good) = said(place.vink(&["packetdrill", "--jobs=3"]).arg(&folder));
        assert!(
            good && text.contains("6 ok, 0 failed"),
            "{}: {text}",
            place.user()
        );
        let first = text.find("a.pkt over IPv4: ok").expect("the first");
        assert!(first < text.find("b.pkt over IPv6: ok").expect("another"));
    }
}

#[test]
fn scripts_by_the_hosts_clock() {
    let place = Place::all().pop().expect("a place");
    // Where there is a limit of locked memory, threads have small stacks.
    let script = "ip tuntap add dev tun0 mode tun && test $(date +%Y) -gt 2025 || exit\n\
                  test $(ulimit -l) = unlimited || test $(ulimit -s) -le 512\n";
    let folder = furnish(&place, &[("a.pkt", script)]);
    let (text, good) = said(place.vink(&["packetdrill", "--clock=real"]).arg(&folder));
    assert!(good && text.contains("2 ok, 0 failed"), "{text}");
}

#[test]
fn what_scripts_are_run_with() {
    let place = &Place::all()[0];
    let show = "echo \"$*\"\n";
    let scripts = [
        ("a.pkt", show),
        ("only-v6.pkt", show),
        ("none.txt", "exit 1"),
    ];
    let folder = furnish(place, &scripts);
    let (text, good) = said(place.vink(&["packetdrill", "-o", "--extra"]).arg(&folder));
    assert!(good && text.contains("3 ok, 0 failed"), "{text}");
    for part in [
        "--ip_version=ipv4 ",
        "--ip_version=ipv6 --mtu=1520",
        "--extra only-v6.pkt",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut mapped = place.vink(&["packetdrill", "--ip=mapped", "--json"]);
    let (text, _) = said(mapped.arg(folder.join("a.pkt")));
    let told: Value = serde_json::from_str(&text).expect("an object");
    assert_eq!(
        (&told["ok"], &told["ip"]),
        (&json!(true), &json!("IPv4-mapped IPv6"))
    );
    let output = told["output"].as_str().expect("a text");
    assert!(output.contains("--ip_version=ipv4-mapped-ipv6"), "{text}");
}

#[test]
fn failures_are_told() {
    let place = &Place::all()[0];
    let scripts = [
        ("wrong.pkt", "echo it went wrong >&2; exit 3"),
        ("hangs.pkt", "while :; do :; done"),
    ];
    let folder = furnish(place, &scripts);
    let mut command = place.vink(&["packetdrill", "--ip=4", "--limit=2s"]);
    let (text, good) = said(command.arg(&folder));
    assert!(!good, "{text}");
    for part in [
        "it went wrong",
        "wrong.pkt over IPv4: FAILED (exit status: 3)",
        "hangs.pkt over IPv4: FAILED (not done in 2s)",
        "0 ok, 2 failed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, good) = said(place.vink(&["packetdrill"]).arg(folder.join("none.pkt")));
    assert!(!good && text.contains("none.pkt: No such file"), "{text}");
    fs::remove_file(place.folder().join("packetdrill")).expect("the program");
    let mut command = place.vink(&["packetdrill"]);
    command.arg(folder.join("wrong.pkt"));
    command.env("PATH", "/usr/bin:/bin");
    let (text, good) = said(&mut command);
    assert!(!good && text.contains("make packetdrill SOURCE="), "{text}");
}

/// Builds packetdrill, and puts it and all scripts where the user can read them: each corpus with its folder.
fn build(place: &Place, source: &Path) -> [(&'static str, PathBuf); 2] {
    common::packetdrill::build(place, source);
    let sources = place.folder().join("packetdrill-source");
    let mut command = Command::new("find");
    command
        .arg(&sources)
        .args(["-path", "*/gtests/net/tcp", "-print", "-quit"]);
    let google = PathBuf::from(said(&mut command).0.trim());
    let tree =
        fs::read_to_string(root().join("build/libvink-linux-6.12.tree")).expect("make stack");
    let linux = Path::new(tree.trim()).join("tools/testing/selftests/net/packetdrill");
    let selftests = place.folder().join("selftests");
    let mut copy = Command::new("cp");
    let (text, good) = said(copy.arg("-r").arg(linux).arg(&selftests));
    assert!(good, "{text}");
    [("google", google), ("selftests", selftests)]
}

/// A run of a script: corpus, script, IP, version of the kernel.
type Name = (String, String, String, String);

/// All runs of all scripts: whether it was ok, what was written, what was wrong.
fn run_corpora(
    place: &Place,
    corpora: &[(&str, PathBuf)],
    version: &str,
) -> BTreeMap<Name, (bool, String, String)> {
    let mut all = BTreeMap::new();
    for (corpus, folder) in corpora {
        // As run_all.py and ksft_runner.sh have it.
        let versions: &[&[&str]] = match (*corpus, version) {
            ("google", "6.12") => &[&[], &["--ip=mapped"]],
            ("google", _) => &[&["--ip=4"]],
            _ => &[&[]],
        };
        for ip in versions {
            let mut command = place.vink(&["packetdrill", "--json", "--option=-v"]);
            command
                .arg(format!("--image={version}"))
                .args(*ip)
                .arg(folder);
            let output = command.output().expect("vink packetdrill");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                !text.is_empty(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            for line in text.lines() {
                let told: Value = serde_json::from_str(line).expect("an object");
                let text = |key: &str| told[key].as_str().expect("a text").to_owned();
                let script = text("script");
                let script = Path::new(&script).strip_prefix(folder).expect("below it");
                let script = script.display().to_string();
                if text("ip") != "IPv6" && script.ends_with("v6.pkt") {
                    continue;
                }
                let name = ((*corpus).to_owned(), script, text("ip"), version.to_owned());
                let ok = told["ok"] == json!(true);
                all.insert(name, (ok, text("output"), text("errors") + &text("end")));
            }
        }
    }
    all
}

/// bench/packetdrill.json: which runs are ok, and why others are not.
fn table() -> BTreeMap<Name, (bool, String)> {
    let text = fs::read_to_string(root().join("bench/packetdrill.json")).expect("the table");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("rows");
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().expect("a text").to_owned();
        let name = (text("corpus"), text("script"), text("ip"), text("version"));
        (name, (row["ok"] == json!(true), text("why")))
    };
    rows.iter().map(row).collect()
}

/// packetdrill itself locks its memory, and then starts a thread. Its tolerance is for busy machines.
fn locks_memory(place: &Place) {
    let script = place.temporary().join("thread.pkt");
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                +0 bind(3, ..., ...) = 0\n\
                +0 listen(3, 1) = 0\n\
                +0 < S 0:0(0) win 32792 <mss 1000>\n\
                +0 > S. 0:0(0) ack 1 <mss 1460>\n\
                +0 < . 1:1(0) ack 1 win 257\n\
                +0 accept(3, ..., ...) = 4\n";
    fs::write(&script, text).expect("a script");
    let mut command = place.vink(&["packetdrill", "--clock=real", "--ip=4"]);
    command.arg("--option=--tolerance_usecs=30000000");
    let (text, good) = said(command.arg(&script));
    assert!(good && text.contains("1 ok, 0 failed"), "{text}");
}

#[test]
fn corpora() {
    let note = |text: &str| writeln!(std::io::stderr(), "note: {text}").expect("standard error");
    let Some(source) = common::packetdrill::source() else {
        return note("no packetdrill ($VINK_PACKETDRILL, ../shared/packetdrill): 0 scripts run");
    };
    let table = table();
    let mut places = Place::all();
    let place = places.pop().expect("a place");
    let corpora = build(&place, &source);
    locks_memory(&place);
    let (mut runs, mut wrong) = (0, Vec::new());
    let mut found = BTreeMap::new();
    for version in ["6.12", "6.1"] {
        let first = run_corpora(&place, &corpora, version);
        runs += first.len();
        // Each run takes its time: of one kernel they are looked at twice.
        let second = match version {
            "6.12" => run_corpora(&place, &corpora, version),
            _ => first.clone(),
        };
        for (name, (ok, output, why)) in &first {
            if second.get(name).is_none_or(|(_, again, _)| output != again) {
                wrong.push(format!("{name:?} is not the same twice"));
            }
            let expected = table.get(name);
            if expected.is_none_or(|(expected, why)| expected != ok || !ok && why.is_empty()) {
                wrong.push(format!("{name:?}: {ok}, not {expected:?}: {why}"));
            }
        }
        let expected = table.keys().filter(|(.., of)| of == version);
        let missing = expected.filter(|name| !first.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{name:?} was not run")));
        found.extend(first);
    }
    if let Some(path) = std::env::var_os("VINK_PACKETDRILL_TABLE") {
        write_table(Path::new(&path), &found, &table);
    }
    note(&format!("{runs} scripts run"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A row for each run. A cause that is known stays.
fn write_table(
    path: &Path,
    found: &BTreeMap<Name, (bool, String, String)>,
    known: &BTreeMap<Name, (bool, String)>,
) {
    let row = |(name, (ok, _, errors)): (&Name, &(bool, String, String))| {
        let (corpus, script, ip, version) = name;
        let known = known
            .get(name)
            .map(|(_, why)| why.clone())
            .filter(|why| !why.is_empty());
        let why = match ok {
            true => String::new(),
            false => known.unwrap_or_else(|| errors.clone()),
        };
        json!({"corpus": corpus, "script": script, "ip": ip, "version": version, "ok": ok, "why": why}).to_string()
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    fs::write(path, format!("[\n{}\n]\n", rows.join(",\n"))).expect("the table");
}
