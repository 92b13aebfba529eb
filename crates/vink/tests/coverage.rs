//! `vink explore --coverage`: what the labs of tests/coverage reach of TCP is what issue 21 asks for, and is added up.
//!
//! Here each lab has its run without faults only, and by `make coverage` (VINK_COVERAGE=all) all runs of one deviation, as
//! have the labs of tests/mutants. Some have these here, too: no property is broken but for a reason that docs/mutants.md
//! tells.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::app::app;
use common::control::Control;
use common::stock::{labs, properties, unexplained, STALL_TIMEOUT};
use common::{root, Place};

/// Lines of net/ipv4/tcp*.c, and edges of RFC 9293's figure, in percent.
const LINES: f64 = 70.0;
const EDGES: f64 = 95.0;

/// Labs that have all runs of one deviation each time. Each has broken a property once, for no reason of Linux's.
const TRACED: [&str; 8] = [
    "asked",
    "closed",
    "fastopen",
    "fastopen-any",
    "map",
    "repair",
    "silent",
    "tight",
];

/// The image of the profile, and the app that its labs have, where any user can read them.
fn prepare(control: &Control<'_>) {
    let image = root().join("build/libvink-linux-6.12-coverage.so");
    assert!(
        image.is_file(),
        "no image: stack/build --profile coverage makes it"
    );
    fs::copy(
        image,
        control.folder().join("libvink-linux-6.12-coverage.so"),
    )
    .expect("a copy");
    app(control, "tests/coverage/tcp.c", "tcp.so", &[]);
}

/// Explores a lab file there, with so many deviations. What is said of it, and what was reached so far.
fn explore(control: &Control<'_>, lab: &Path, deviations: &str) -> (String, String) {
    let name = lab
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    control.write(&name, &fs::read_to_string(lab).expect("a lab"));
    let image = control.folder().join("libvink-linux-6.12-coverage.so");
    // A long transfer has thousands of runs.
    let budget = match deviations {
        "0" => "--budget=10min",
        _ => "--budget=20s",
    };
    let arguments = [
        "explore",
        &name,
        "-k",
        deviations,
        "--image",
        image.to_str().expect("a path"),
        STALL_TIMEOUT,
        "--keep-going",
        budget,
        "--output",
        "found",
        "--coverage",
        "reached.json",
    ];
    let _ = fs::remove_dir_all(control.folder().join("found"));
    let output = control.try_vink(&[&arguments, properties(&name)].concat());
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = told(&output.stderr);
    assert!(said.contains(", among them "), "{name}: {said}");
    (said, told(&output.stdout))
}

/// The percents behind these words.
fn percent(report: &str, words: &str) -> f64 {
    let line = report.lines().find(|line| line.starts_with(words));
    let line = line.unwrap_or_else(|| panic!("no {words} in {report}"));
    let percent = line
        .split_once('(')
        .and_then(|(_, rest)| rest.split(' ').next());
    percent
        .and_then(|percent| percent.parse().ok())
        .unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn labs_reach_what_they_are_to_reach() {
    let is_all = std::env::var_os("VINK_COVERAGE").is_some_and(|wanted| wanted == "all");
    let place = &Place::all()[0];
    let control = Control::of(place);
    prepare(&control);
    let mut report = String::new();
    let mut broken = Vec::new();
    for lab in labs("coverage") {
        let (said, reached) = explore(&control, &lab, "0");
        if !said.contains("; no property is broken") {
            broken.push(format!("{}: {said}", lab.display()));
        }
        report = reached;
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    if is_all {
        for lab in labs("coverage").into_iter().chain(labs("mutants")) {
            report = explore(&control, &lab, "1").1;
            broken.extend(unexplained(&control.folder().join("found")).0);
        }
        print!("{report}");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
    for (words, least) in [
        ("lines: ", LINES),
        ("states: ", 100.0),
        ("edges of RFC 9293's figure 5: ", EDGES),
        ("edges by a RST, ", 100.0),
    ] {
        assert!(percent(&report, words) >= least, "{report}");
    }
    let missing: Vec<_> = report
        .lines()
        .filter(|line| line.starts_with("  not: "))
        .collect();
    // listen(2) leaves no way to connect(2).
    assert_eq!(missing, ["  not: LISTEN -> SYN-SENT: SEND"], "{report}");
    println!("note: {}", report.lines().next().unwrap_or_default());
}

#[test]
fn one_deviation_breaks_no_property_without_a_reason() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    prepare(&control);
    let traced = |lab: &PathBuf| {
        let name = lab.file_stem().expect("a name").to_string_lossy();
        TRACED.contains(&&*name)
    };
    let labs: Vec<_> = labs("coverage").into_iter().filter(traced).collect();
    assert_eq!(labs.len(), TRACED.len());
    let mut broken = Vec::new();
    let mut explained = 0;
    for lab in &labs {
        let (said, _) = explore(&control, lab, "1");
        assert!(said.contains("all schedules of one deviation"), "{said}");
        let (others, count) = unexplained(&control.folder().join("found"));
        broken.extend(others);
        explained += count;
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    // Linux's own mistake: no property that has become blind.
    assert!(explained > 0);
}

#[test]
fn what_was_reached_is_added_up_by_each_user() {
    for place in Place::all() {
        let control = Control::of(&place);
        prepare(&control);
        let folder = root().join("tests/mutants");
        let (_, plain) = explore(&control, &folder.join("26-no-probe.yaml"), "0");
        let (_, faults) = explore(&control, &folder.join("26-no-probe.yaml"), "1");
        let lines = |report: &str| percent(report, "lines: ");
        // A lost segment is sent again: code that nothing else runs.
        assert!(
            lines(&faults) > lines(&plain) && lines(&plain) > 10.0,
            "{plain}{faults}"
        );
        assert!(
            plain.contains("  not: SYN-SENT -> SYN-RECEIVED: rcv SYN\n"),
            "{plain}"
        );
        let (_, both) = explore(&control, &folder.join("10-simultaneous-open.yaml"), "0");
        assert!(lines(&both) > lines(&faults), "{both}");
        assert!(!both.contains("SYN-SENT -> SYN-RECEIVED"), "{both}");
        assert!(both.contains(" reached by 2 labs\n"), "{both}");

        let image = "./libvink-linux-6.12-coverage.so";
        let shown = control.vink(&["explore", "--coverage", "reached.json", "--image", image]);
        assert_eq!(shown, both);
        let shown = ["explore", "--coverage", "reached.json", "--image", image];
        let json = control.json(&[&shown[..], &["--json"]].concat());
        let state = |number: usize| json["states"][number].clone();
        assert_eq!(state(0), serde_json::json!(["CLOSED", true]), "{json}");
        assert_eq!(json["labs"].as_array().map(Vec::len), Some(2), "{json}");
        let missing = control.vink(&[
            "explore",
            "--coverage",
            "reached.json",
            "--image",
            image,
            "--missing",
        ]);
        assert!(missing.contains("\n    not: "), "{missing}");

        let refused = |arguments: &[&str]| {
            let output = control.try_vink(arguments);
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let stock = ["explore", "26-no-probe.yaml", "--coverage", "other.json"];
        assert!(refused(&stock).contains("has no counters of its source: build one"));
        let saved = fs::read_to_string(control.folder().join("reached.json")).expect("a file");
        control.write(
            "other.json",
            &saved.replacen("\"image\":\"", "\"image\":\"0", 1),
        );
        let other = ["explore", "--coverage", "other.json", "--image", image];
        assert!(refused(&other).contains("is of another image"));
        control.write("other.json", "{}");
        assert!(refused(&other).contains("has not what was reached"));
    }
}
