//! `vink explore --against`: an image does not differ from itself, and from an older version where a rule says so.
//! That it differs from a mutant, tests/mutants.rs shows.

mod common;

use common::control::Control;
use common::{root, Place};
use serde_json::Value;

/// A client that sends a few segments to a server.
const LAB: &str = r#"
name: small
time: virtual
memory: 32M
machines:
  client:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      source: { app: source -n 2k server, after: [server.sink] }
  server:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs:
      sink: { app: sink, ready: { port: 5001 } }
wires:
  w1: { delay: 5ms }
"#;

/// Explores a lab on two images with so many deviations, to the end: the numbers.
fn against(control: &Control<'_>, lab: &str, image: &str, other: &[&str]) -> Value {
    let start = [
        "explore", lab, "--json", "--image", image, "--against",
    ];
    let output = control.try_vink(&[&start, other].concat());
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let line = told.lines().next().unwrap_or_default();
    let numbers: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
    let differs = numbers["differences"] != serde_json::json!({});
    assert_eq!(output.status.code(), Some(differs.into()), "{said}");
    numbers
}

#[test]
fn an_image_does_not_differ_from_itself() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("small.yaml", LAB);
        let alone = control.json(&["explore", "small.yaml", "--json", "-k", "1"]);
        for engine in ["fork", "pages"] {
            let both = against(
                &control,
                "small.yaml",
                "6.12",
                &["6.12", "-k", "1", "--engine", engine],
            );
            assert_eq!(both["runs"], alone["runs"], "{both}");
            for none in ["other_packets", "alone", "unseen"] {
                assert_eq!(both[none], 0, "{both}");
            }
            assert_eq!(both["differences"], serde_json::json!({}), "{both}");
            assert_eq!(both["explained"], serde_json::json!({}), "{both}");
        }
        assert!(!control.folder().join("small.explored").exists());
    }
}
