//! Every command that README.md, docs/ and labs/ show in a `console` block works.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use common::lab::copy_labs;
use common::{root, Place};

/// What makes images, runs their lab and compares them.
const DAYTONA: &str = "crates/vink/tests/daytona.rs";

/// What builds and explores a protocol.
const EXPLORE: &str = "crates/vink/tests/explore.rs";
const AGAINST: &str = "crates/vink/tests/explore_against.rs";

/// Commands that take long, and what runs them instead.
const COVERED_ELSEWHERE: [(&str, &str); 33] = [
    (
        "vink run -p 8080:80 -- python3 -m http.server 80",
        "crates/vink/tests/uplink.rs",
    ),
    (
        "curl -sS http://127.0.0.1:8080/",
        "crates/vink/tests/uplink.rs",
    ),
    (
        "make demo",
        "crates/vink/tests/demo.rs runs vink demo; make test runs stack/build",
    ),
    (
        "make fuzz SECONDS=600 SEED=1",
        "tests/stress/tests/short.rs, some rounds",
    ),
    (
        "make soak MINUTES=10 SEED=1",
        "tests/stress/tests/short.rs, some rounds",
    ),
    (
        "make build install PREFIX=$HOME/.local",
        "crates/vink/tests/install.rs, without building",
    ),
    ("make test", "CI, which runs it"),
    (
        "vink packetdrill retransmissions.pkt connect.pkt",
        "crates/vink/tests/packetdrill.rs",
    ),
    (
        "vink packetdrill --clock real connect.pkt",
        "crates/vink/tests/packetdrill.rs",
    ),
    ("cd labs/explore", EXPLORE),
    (
        "cc -shared -fPIC -I ../../crates/vink-apps/include -o parcel.so parcel.c",
        EXPLORE,
    ),
    ("vink explore parcel.yaml", EXPLORE),
    ("vink explore parcel.yaml -k 3 --resume searched", EXPLORE),
    ("vink explore bank.yaml", EXPLORE),
    ("cc -pthread -o jobs jobs.c", EXPLORE),
    ("vink explore jobs.yaml", EXPLORE),
    (
        "cc -shared -fPIC -I ../../crates/vink-apps/include -o leader.so leader.c",
        EXPLORE,
    ),
    ("vink explore store.yaml -k 1", EXPLORE),
    ("vink explore leader.yaml", EXPLORE),
    (
        "cc -shared -fPIC -I ../../crates/vink-apps/include -o turn.so turn.c",
        EXPLORE,
    ),
    ("vink explore turn.yaml", EXPLORE),
    ("vink explore smoltcp.yaml -k 1", EXPLORE),
    (
        "cc -shared -fPIC -I ../../crates/vink-apps/include -I/usr/include/lwip -o lwip.so lwip.c -llwip",
        EXPLORE,
    ),
    ("vink explore lwip.yaml -k 1", EXPLORE),
    ("vink explore linux.yaml -k 1 --against lwip.yaml", AGAINST),
    ("vink explore --replay parcel.explored/outcome", EXPLORE),
    (
        "vink lab up parcel.explored/outcome/lab.yaml --record again",
        EXPLORE,
    ),
    ("labs/daytona/build.sh", DAYTONA),
    ("vink lab up labs/daytona/lab.yaml", DAYTONA),
    ("labs/daytona/measure.sh .", DAYTONA),
    ("vink image diff daytona-optimistic-ack", DAYTONA),
    (
        "vink image diff daytona-sender-1999 daytona-sender-defended",
        DAYTONA,
    ),
    ("vink lab down daytona", DAYTONA),
];

/// What no command may say, whatever its exit status.
const FAILURES: [&str; 5] = [
    "Python Exception",
    "gdb.error",
    "Error while executing Python code",
    "Traceback (most recent call last)",
    "Missing auto-load script",
];

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let docs = fs::read_dir(root().join("docs")).expect("docs/");
    pages.extend(docs.map(|entry| entry.expect("an entry of docs/").path()));
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    pages.sort();
    pages
}

/// The pages of the ready labs, and their list.
fn lab_pages() -> Vec<PathBuf> {
    let labs = fs::read_dir(root().join("labs")).expect("labs/");
    let mut pages: Vec<PathBuf> = labs
        .map(|entry| entry.expect("an entry of labs/").path().join("README.md"))
        .chain([root().join("labs/README.md")])
        .filter(|page| page.exists())
        .collect();
    pages.sort();
    pages
}

/// The lines after `$ ` within console blocks.
fn commands(text: &str) -> Vec<String> {
    let mut within = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) => within = language == "console",
            None => found.extend(
                line.strip_prefix("$ ")
                    .filter(|_| within)
                    .map(str::to_owned),
            ),
        }
    }
    found
}

/// Ends what a page has left running, when dropped.
struct Ends<'a>(&'a Place);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let down = self
            .0
            .vink(&["lab", "down", "--all"])
            .env("VINK_RUNTIME", self.0.temporary().join("run"))
            .output();
        drop(down);
    }
}

/// Runs the pages' commands, each page's one after the other; those that are run elsewhere are told.
fn run(pages: &[PathBuf]) -> BTreeSet<&'static str> {
    let place = &Place::all()[0];
    copy_labs(place);
    let _ends = Ends(place);
    let mut seen = BTreeSet::new();
    let mut ran = 0;
    for (number, page) in pages.iter().enumerate() {
        // What a page leaves is none of the next one's.
        let folder = place.temporary().join(format!("page{number}"));
        fs::create_dir(&folder).expect("a folder for the page");
        std::os::unix::fs::symlink(place.temporary().join("labs"), folder.join("labs"))
            .expect("a link to the labs");
        for command in commands(&fs::read_to_string(page).expect("a page")) {
            if let Some((name, _)) = COVERED_ELSEWHERE.iter().find(|(name, _)| *name == command) {
                seen.insert(*name);
                continue;
            }
            let output = place
                .command("sh")
                .args(["-c", &command])
                .current_dir(&folder)
                .env("VINK_RUNTIME", place.temporary().join("run"))
                .output()
                .expect("sh");
            let said = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            // gdb and the like end with 0 whatever their scripts run into.
            let failed = FAILURES.iter().any(|failure| said.contains(failure));
            assert!(
                output.status.success() && !failed,
                "{}: $ {command}\n{said}",
                page.display()
            );
            ran += 1;
        }
    }
    assert!(ran > 0, "no command was found");
    seen
}

#[test]
fn console_blocks_run() {
    // Commands in a network of their own, or with images of their own: crates/vink/tests/outside.rs and image.rs.
    let own = [
        "docs/outside.md",
        "docs/driver.md",
        "docs/share.md",
        "docs/images.md",
    ]
    .map(|page| root().join(page));
    let mut pages = pages();
    pages.retain(|page| !own.contains(page));
    let seen = run(&pages);
    for (name, _) in COVERED_ELSEWHERE {
        assert!(
            seen.contains(name),
            "{name} is in no page any more: take it off the list"
        );
    }
}

#[test]
fn console_blocks_of_labs_run() {
    run(&lab_pages());
}

#[test]
fn relative_links_lead_somewhere() {
    for page in pages().into_iter().chain(lab_pages()) {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next())
        {
            if !link.contains("://") && !link.is_empty() {
                let target = page.parent().expect("a folder").join(link);
                assert!(target.exists(), "{}: {link}", page.display());
            }
        }
    }
}
