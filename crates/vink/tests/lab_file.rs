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

/// What `vink lab up` would fail at, or events later: with its place, before anything starts.
#[test]
fn check_finds_what_up_finds() {
    let lab = r#"machines:
  m1:
    interfaces: {eth0: {wire: w1}}
    programs:
      a: {app: ecoserver -p 7}
      b: {app: ping -z 10.0.0.1}
      c: {app: ping -c 3 10.0.0.1}
  m2: {interfaces: {eth0: {wire: w1}}}
events:
  - {at: 1s, do: wire w2 down}
  - {at: 1s, do: wrie w1 down}
  - {at: 1s, do: wire set w1 los 1%}
  - {at: 1s, do: exec m3 true}
  - {at: 1s, do: exec m1 app png 10.0.0.1}
  - {at: 1s, do: capture m1 eth1 file}
  - {at: 2s, do: new machine m4}
  - {at: 3s, do: exec m4 true}
  - {at: 3s, do: wire set w1 loss 1% from m2:eth0}
breakpoints:
  syn: {filter: tpc port 80, log: true}
  good: {filter: tcp port 80, run: wire w9 down}
series:
  flow:
    every: 10ms
    values: {a: tcp m1 snd_cwdn, b: counter m1 TcpRetransSgs, c: tcp m1 snd_cwnd, d: counter m1 TcpExtTCPTimeouts, e: counter m1 Ip6InReceives}
"#;
    let told = [
        "5:16: error: there is no app `ecoserver`|did you mean `echoserver`?",
        "6:16: error: ping: there is no option -z|write ping ",
        "10:18: error: there is no wire `w2`|did you mean `w1`?",
        "11:18: error: there is no command 'wrie'|did you mean 'wire'?",
        "12:18: error: wire: expected 'up', 'down' or one of rate, |write `wire [set] WIRE",
        "13:18: error: there is no machine `m3`|did you mean `m1`?",
        "14:18: error: there is no app `png`|did you mean `ping`?",
        "15:18: error: there is no interface `m1:eth1`|did you mean `m1:eth0`?",
        "20:17: error: `tpc port 80` is no filter: |pcap-filter(7)",
        "21:36: error: there is no wire `w9`|did you mean `w1`?",
        "25:17: error: a connection has no field `snd_cwdn`|did you mean `snd_cwnd`?",
        "25:37: error: the kernel has no counter `TcpRetransSgs`|nstat -az",
    ];
    // The kernel's fields are in its debug information, which is root's.
    let place = &Place::all()[0];
    {
        let file = place.temporary().join("up.yaml").display().to_string();
        fs::write(&file, lab).unwrap();
        let checked = vink(place, &["lab", "check", &file]);
        assert_eq!(checked.status.code(), Some(1));
        let checked = text(&checked.stderr);
        for told in told {
            let (head, fix) = told.split_once('|').unwrap();
            let head = format!("{file}:{head}");
            let at = checked
                .find(&head)
                .unwrap_or_else(|| panic!("{head}: {checked}"));
            let after = &checked[at..];
            let its = &after[..after
                .find("  fix: ")
                .map_or(0, |fix| fix + 200)
                .min(after.len())];
            assert!(its.contains(fix), "{fix}: {its}");
        }
        assert_eq!(checked.matches("error:").count(), told.len(), "{checked}");
        // The same is told before anything starts.
        let up = vink(place, &["lab", "up", &file]);
        assert_eq!(text(&up.stderr), checked);
    }
}
