//! The lab labs/daytona: receivers that lie, and senders that believe them.

mod common;

use std::fs;

use common::lab::{copy_labs, labs, Up};
use common::{root, Place};

/// How often an attack may come out slower than it can be: the machine may be busy.
const ATTEMPTS: usize = 10;

/// An honest download takes eight round trips of 200 ms, however fast the machine: for the connection, the request,
/// and windows of 10, 20, 40, 80, 160, 320 and 640 segments. What cheats takes less.
const HONEST: f64 = 1.5;

/// The images, from objects that CI has made anyway. Gone when dropped, if they were not there before.
struct Built<'a>(&'a Place, Vec<String>);

impl Built<'_> {
    fn new(place: &Place) -> Built<'_> {
        copy_labs(place);
        let vink = |arguments: &[&str]| place.vink(arguments).output().expect("vink").stdout;
        let there = String::from_utf8(vink(&["image", "list"])).expect("text");
        let patches = fs::read_dir(labs(place).join("daytona")).expect("the lab");
        let names = patches
            .filter_map(|entry| entry.expect("a file").file_name().into_string().ok())
            .filter_map(|name| Some(format!("daytona-{}", name.strip_suffix(".patch")?)))
            .filter(|name| !there.contains(name.as_str()));
        let built = Built(place, names.collect());
        let output = place
            .command("sh")
            .arg(labs(place).join("daytona/build.sh"))
            .env("VINK_ROOT", root())
            .output()
            .expect("sh");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        built
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        for name in &self.1 {
            // A test's failure matters more than what it leaves.
            let _ = self.0.vink(&["image", "rm", name]).output();
        }
    }
}

#[test]
fn which_senders_believe_which_receivers() {
    let place = &Place::all()[0];
    let _built = Built::new(place);
    let lab = Up::new(place, "daytona");
    // What has not been cheated of its time yet.
    let mut attacks = vec![
        ("divider", "old"),
        ("spoofer", "old"),
        ("optimist", "old"),
        ("spoofer", "today"),
        ("optimist", "today"),
    ];
    for _ in 0..ATTEMPTS {
        let output = lab
            .command("sh")
            .args(["labs/daytona/measure.sh", "."])
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{errors}");
        let row = |receiver: &str| -> Vec<String> {
            let line = said
                .lines()
                .find(|line| line.split_whitespace().next() == Some(receiver));
            let cells = line.expect(receiver).split_whitespace().skip(1);
            cells.map(str::to_owned).collect()
        };
        let time = |receiver: &str, sender: &str| -> f64 {
            let senders = ["old", "today", "defended"];
            let column = senders
                .iter()
                .position(|name| *name == sender)
                .expect(sender);
            let cell = &row(receiver)[column];
            cell.trim_end_matches('s')
                .parse()
                .unwrap_or_else(|_| panic!("{cell}\n{said}"))
        };
        // No receiver gets what is not to be had, be the machine fast or slow.
        for (receiver, sender) in [
            ("honest", "old"),
            ("honest", "today"),
            ("honest", "defended"),
            ("divider", "today"),
            ("spoofer-sack", "today"),
            ("spoofer", "defended"),
            ("spoofer-sack", "defended"),
        ] {
            assert!(
                time(receiver, sender) > HONEST,
                "{receiver}, {sender}:\n{said}"
            );
        }
        for receiver in ["divider", "optimist"] {
            assert_eq!(row(receiver)[2], "refused", "{said}");
        }
        attacks.retain(|(receiver, sender)| time(receiver, sender) > HONEST);
        if attacks.is_empty() {
            break;
        }
    }
    assert!(attacks.is_empty(), "{attacks:?} gained nothing");
    for picture in ["old", "today", "defended", "divider", "spoofer", "optimist"] {
        let picture = place.temporary().join(format!("{picture}.svg"));
        let text = fs::read_to_string(&picture).expect("a picture");
        assert!(text.contains("<circle"), "{}", picture.display());
    }
    let diff = lab.vink(&["image", "diff", "daytona-optimistic-ack"]);
    assert!(diff.contains("+#define TCP_SEGMENTS_AHEAD"), "{diff}");
    let diff = lab.vink(&[
        "image",
        "diff",
        "daytona-sender-1999",
        "daytona-sender-defended",
    ]);
    assert!(diff.contains("+static bool tcp_ack_is_forged"), "{diff}");
    // Losses make no receiver look like a liar.
    lab.vink(&["wire", "set", "--lab", lab.name, "r1", "loss", "1%"]);
    lab.on("honest", "curl -sS -o /dev/null http://defended/file");
}
