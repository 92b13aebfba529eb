//! `vink explore --against`: an image does not differ from itself, and from an older version, or from a TCP that is not
//! Linux's, where a rule says so. That it differs from a mutant, tests/mutants.rs shows.

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::app::app;
use common::control::Control;
use common::{root, Place};
use serde_json::{json, Value};
use vink_explore::against::{OUTLINE_RULES, RULES};

/// Explores a lab on two images with so many deviations, to the end: the numbers, and what was said.
fn against(control: &Control<'_>, lab: &str, other: &str, arguments: &[&str]) -> (Value, String) {
    let start = [
        "explore",
        lab,
        "--json",
        "--image",
        "6.12",
        "--against",
        other,
    ];
    let output = control.try_vink(&[&start, arguments].concat());
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = told.lines().next().unwrap_or_default();
    let numbers: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
    let differs = numbers["differences"] != json!({});
    assert_eq!(output.status.code(), Some(differs.into()), "{said}");
    (numbers, said)
}

/// Puts a file of the tree there.
fn put(control: &Control<'_>, folder: &str, name: &str) {
    let text = fs::read_to_string(root().join(folder).join(name)).expect(name);
    control.write(name, &text);
}

#[test]
fn an_image_does_not_differ_from_itself() {
    for place in Place::all() {
        let control = Control::of(&place);
        put(&control, "labs/explore", "lab.yaml");
        let alone = control.json(&["explore", "lab.yaml", "--json", "-k", "1"]);
        for engine in ["fork", "pages"] {
            let (both, said) = against(
                &control,
                "lab.yaml",
                "6.12",
                &["-k", "1", "--engine", engine],
            );
            assert_eq!(both["runs"], alone["runs"], "{said}");
            for none in ["other_packets", "alone", "unseen"] {
                assert_eq!(both[none], 0, "{both}");
            }
            assert_eq!(both["differences"], json!({}), "{both}");
            assert_eq!(both["explained"], json!({}), "{both}");
        }
        // Programs of the host.
        put(&control, "labs/explore", "bank.yaml");
        put(&control, "labs/explore", "bank.py");
        let (both, said) = against(&control, "bank.yaml", "6.12", &["-k", "0"]);
        assert_eq!(
            (&both["runs"], &both["differences"]),
            (&json!(1), &json!({})),
            "{said}"
        );
        assert!(!control.folder().join("explore.explored").exists());
    }
}

/// Each rule is needed: without it there is a difference in one of these.
#[test]
fn an_older_version_differs_where_a_rule_says_so() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    app(&control, "tests/coverage/tcp.c", "tcp.so", &[]);
    let mut used = BTreeSet::new();
    for (folder, lab, deviations, rules) in [
        (
            "labs/explore",
            "lab.yaml",
            "1",
            &["acknowledgements", "syn-challenge"][..],
        ),
        ("tests/coverage", "crowd.yaml", "1", &["fin-waits"]),
        ("tests/coverage", "closed.yaml", "0", &["windows"]),
        ("tests/coverage", "tight.yaml", "0", &["segments"]),
        ("tests/coverage", "silent.yaml", "0", &["syn-timeouts"]),
    ] {
        put(&control, folder, lab);
        let (both, said) = against(
            &control,
            lab,
            "6.1",
            &["-k", deviations, "--stall-timeout=1500s"],
        );
        assert_eq!(both["differences"], json!({}), "{lab}: {said}");
        assert_eq!(both["complete"].to_string(), deviations, "{lab}: {said}");
        let explained = both["explained"].as_object().expect("rules");
        let names: BTreeSet<&str> = explained.keys().map(String::as_str).collect();
        assert_eq!(names, rules.iter().copied().collect(), "{lab}: {said}");
        used.extend(rules);
    }
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(used, all);
}

#[test]
fn a_lab_that_the_other_image_can_not_make_is_refused() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = fs::read_to_string(root().join("labs/explore/lab.yaml")).expect("the lab");
    let newer = "    sysctls: { net.ipv4.tcp_plb_enabled: 1 }\n    programs:\n      source:";
    control.write(
        "newer.yaml",
        &lab.replace("    programs:\n      source:", newer),
    );
    let explore = |arguments: &[&str]| {
        let refused = control.try_vink(&[&["explore", "newer.yaml"], arguments].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        (refused.status.code(), said)
    };
    let (status, said) = explore(&["--image", "6.12", "--against", "6.1"]);
    assert_eq!(status, Some(125), "{said}");
    assert!(
        said.contains("libvink-linux-6.1.so: writing \"1\" to "),
        "{said}"
    );
    let (status, said) = explore(&["--against", "6.1", "--property", "stall"]);
    assert_eq!(status, Some(2), "{said}");
}

/// lwIP, as an app.
const LWIP: [&str; 3] = ["-I/usr/include/lwip", "-Wl,--no-as-needed", "-llwip"];

/// Puts an IPv6 address in the place of each of a lab's.
fn put_ipv6(control: &Control<'_>, lab: &str) {
    let path = root().join("labs/explore").join(lab);
    let text = fs::read_to_string(path).expect("a lab");
    control.write(
        lab,
        &text.replace("10.0.0.", "fd00::").replace("/24", "/64"),
    );
}

#[test]
fn another_tcp_comes_to_the_same_or_a_rule_says_so() {
    let mut used = BTreeSet::new();
    for place in Place::all() {
        let control = Control::of(&place);
        app(&control, "labs/explore/lwip.c", "lwip.so", &LWIP);
        for role in ["", "-sends"] {
            let linux = format!("linux{role}.yaml");
            for other in ["lwip", "smoltcp"] {
                let other = format!("{other}{role}.yaml");
                for is_six in [false, true] {
                    for lab in [&linux, &other] {
                        match is_six {
                            true => put_ipv6(&control, lab),
                            false => put(&control, "labs/explore", lab),
                        }
                    }
                    let (both, said) = against(&control, &linux, &other, &["-k", "1"]);
                    assert_eq!(both["differences"], json!({}), "{other}: {said}");
                    assert_eq!(both["complete"], 1, "{other}: {said}");
                    assert!(both["runs"].as_u64() > Some(4 * 8), "{other}: {said}");
                    assert!(said.contains("of each of two labs"), "{said}");
                    let explained = both["explained"].as_object().expect("rules");
                    used.extend(explained.keys().cloned());
                }
            }
        }
    }
    let all = OUTLINE_RULES.iter().map(|rule| rule.name.to_owned());
    assert_eq!(used, all.collect());
}

#[test]
fn a_mistake_in_another_tcp_is_found() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lwip = fs::read_to_string(root().join("labs/explore/lwip.c")).expect("the app");
    // It gives up what takes long, instead of ending it.
    let ends = "\tif (!data) {\n\t\tstream.has_ended = true;\n\t\tstream.is_closed = true;\n";
    let gives_up = "\t\tif (sys_now() % 1000000 > 1500) {\n\t\t\ttcp_abort(pcb);\n\t\t\treturn ERR_ABRT;\n\t\t}\n";
    assert!(lwip.contains(ends));
    control.write("lwip.c", &lwip.replace(ends, &format!("{ends}{gives_up}")));
    app(&control, control.folder().join("lwip.c"), "lwip.so", &LWIP);
    for lab in ["linux.yaml", "lwip.yaml", "lab.yaml"] {
        put(&control, "labs/explore", lab);
    }
    let (both, said) = against(&control, "linux.yaml", "lwip.yaml", &["-k", "1"]);
    let kinds = both["differences"].as_object().expect("kinds");
    let [kind] = kinds.keys().collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    let folder = format!("linux.explored/difference-{kind}");
    let story = fs::read_to_string(control.folder().join(&folder).join("story.txt"));
    let story = story.expect("a story");
    assert!(
        story.contains("Labs linux and lwip do not come to the same."),
        "{story}"
    );
    assert!(story.contains("One packet had another fate:"), "{story}");
    assert!(story.contains("RST"), "{story}");
    let again = control.try_vink(&["explore", "--replay", &folder]);
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(told.starts_with("the runs repeat: "), "{told}");
    let refused = control.try_vink(&["explore", "linux.yaml", "--against", "lab.yaml"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{said}");
    assert!(
        said.contains("machines are not the same in linux and explore"),
        "{said}"
    );
}
