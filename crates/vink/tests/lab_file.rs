//! `vink lab check|graph|schema` and `vink import`: what they print, and how they end.

mod common;

use std::fs;
use std::process::Output;

use common::{root, Place};

fn vink(place: &Place, arguments: &[&str]) -> Output {
    place
        .command("vink")
        .args(arguments)
        .output()
        .expect("vink")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn check_tells_file_line_column_and_fix() {
    for place in Place::all() {
        let path = |name: &str| place.temporary().join(name).display().to_string();
        fs::write(path("good.yaml"), "machines: {m1: {}}\n").unwrap();
        fs::write(path("bad.yaml"), "machines:\n  m1:\n    forwrd: true\n").unwrap();
        let good = vink(&place, &["lab", "check", &path("good.yaml")]);
        assert!(good.status.success() && good.stdout.is_empty() && good.stderr.is_empty());
        let bad = vink(
            &place,
            &["lab", "check", &path("good.yaml"), &path("bad.yaml")],
        );
        assert_eq!(bad.status.code(), Some(1));
        let expected = format!(
            "{}:3:5: error: a machine has no key `forwrd`\n  3 |     forwrd: true\n    |     ^^^^^^\n  \
             fix: did you mean `forward`?\n",
            path("bad.yaml")
        );
        assert_eq!(text(&bad.stderr), expected);
        let json = vink(&place, &["lab", "check", "--json", &path("bad.yaml")]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
        assert_eq!(json[0]["line"], 3);
        assert_eq!(json[0]["column"], 5);
        assert_eq!(json[0]["fix"], "did you mean `forward`?");
        let graph = vink(&place, &["lab", "graph", &path("bad.yaml")]);
        assert_eq!(graph.status.code(), Some(125));
        assert_eq!(text(&graph.stderr), expected);
    }
}

#[test]
fn schema_is_the_published_one() {
    let place = &Place::all()[0];
    let schema = vink(place, &["lab", "schema"]);
    let published = fs::read(root().join("labs/lab.schema.json")).unwrap();
    assert!(schema.stdout == published);
}

/// A topology becomes a lab that is right and can be drawn.
#[test]
fn import_and_graph() {
    for place in Place::all() {
        let zoo = root().join("labs/abilene/abilene.graphml");
        let from = place.temporary().join("abilene.graphml");
        fs::copy(zoo, &from).unwrap();
        let from = from.display().to_string();
        let to = place.temporary().join("abilene.yaml").display().to_string();
        let addresses = ["--addresses", "10.0.0.0/8", "--addresses", "fd00::/64"];
        let done = vink(
            &place,
            &[&["import", &from, "-o", &to], &addresses[..]].concat(),
        );
        assert!(done.status.success(), "{}", text(&done.stderr));
        let check = vink(&place, &["lab", "check", &to]);
        assert!(
            check.status.success() && check.stderr.is_empty(),
            "{}",
            text(&check.stderr)
        );
        let printed = vink(&place, &[&["import", &from], &addresses[..]].concat());
        assert_eq!(text(&printed.stdout), fs::read_to_string(&to).unwrap());
        let dot = vink(&place, &["lab", "graph", &to]);
        assert!(text(&dot.stdout).starts_with("graph \"abilene\" {\n"));
        let mermaid = vink(&place, &["lab", "graph", "--format", "mermaid", &to]);
        assert!(text(&mermaid.stdout).starts_with("graph LR\n"));
        let none = vink(&place, &["import", &from, "--routes", "none"]);
        assert!(!text(&none.stdout).contains("routes"));
        let wrong = vink(&place, &["import", &from, "--format", "gml"]);
        assert_eq!(wrong.status.code(), Some(125));
        assert!(
            text(&wrong.stderr).contains("this is to be GML"),
            "{}",
            text(&wrong.stderr)
        );
    }
}
