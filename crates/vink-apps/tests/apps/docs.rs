//! docs/apps.md: what it shows is what happens.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::lab::{Lab, SERVER};
use crate::shared_object::Built;
use vink_apps::{Apps, State};
use vink_kernel::{Clock, WireSettings};

fn here(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of each block of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let rest = page.split(&fence).skip(1);
    let until = |text: &str| text.split("```").next().unwrap_or_default().to_owned();
    rest.map(until).collect()
}

/// Runs a block's commands; the same with their output.
fn play(block: &str) -> String {
    let mut lab = Lab::new(Clock::Virtual);
    lab.set_wire(WireSettings {
        rate: 10_000_000,
        delay: Duration::from_millis(10),
        ..WireSettings::default()
    });
    let names = lab.apps.names();
    names.set("server", SERVER.map(|a| a.parse().expect("an address")));
    lab.meet();
    let mut played = String::new();
    let mut servers = Vec::new();
    for line in block.lines() {
        let show = |output: &str| {
            output
                .lines()
                .map(|l| format!("  {l}\n"))
                .collect::<String>()
        };
        if let Some(command) = line.strip_prefix("server$ ") {
            servers.push((line, lab.serve(command)));
        } else if let Some(command) = line.strip_prefix("client$ ") {
            let id = lab.start(lab.client.id, command);
            lab.run_until(|lab| lab.has_ended(id));
            played += &format!("{line}\n{}", show(&lab.output(id)));
            let status = lab.end(id);
            assert!(
                matches!(status.state, State::Ended { status: 0, .. }),
                "{status:?}"
            );
        }
    }
    let mut listed = String::new();
    for (line, id) in servers {
        lab.apps.stop(lab.worker.kernel(), id).expect("it is told");
        lab.run_until(|lab| lab.has_ended(id));
        let output = lab.output(id);
        let output: String = output.lines().map(|l| format!("  {l}\n")).collect();
        listed += &format!("{line}\n{output}");
    }
    listed + &played
}

/// Whether two texts say the same: the words are the same, and the numbers to 1 %. Which port a
/// client gets, behind a colon, is chance.
fn agree(a: &str, b: &str) -> bool {
    let pieces = |text: &str| -> Vec<String> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let mut pieces = vec![String::new()];
        let mut last = false;
        for c in text.chars() {
            if is_number(c) != std::mem::replace(&mut last, is_number(c)) {
                pieces.push(String::new());
            }
            pieces.last_mut().expect("one at least").push(c);
        }
        pieces
    };
    let (a, b) = (pieces(a), pieces(b));
    let mut behind_colon = false;
    let mut same = |(a, b): (&String, &String)| {
        let is_port = std::mem::replace(&mut behind_colon, a.ends_with(':'));
        let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
        let near = |(x, y): (f64, f64)| is_port || (x - y).abs() <= 0.01 * x.max(y);
        a == b || numbers.is_some_and(near)
    };
    a.len() == b.len() && a.iter().zip(&b).all(&mut same)
}

#[test]
fn what_is_shown_happens() {
    let page = here("../../docs/apps.md");
    let mut wrong = String::new();
    for block in blocks(&page, "apps") {
        let played = play(&block);
        if !agree(&played, &block) {
            wrong += &format!("```apps\n{played}```\n\n");
        }
    }
    assert!(wrong.is_empty(), "docs/apps.md should show:\n{wrong}");
}

#[test]
fn programs_are_what_is_tested_elsewhere() {
    let page = here("../../docs/apps.md");
    // A test of the crate's own documentation.
    let library = here("src/lib.rs");
    for line in blocks(&page, "rust").concat().lines() {
        let line = format!("//! {line}");
        assert!(library.contains(line.trim_end()), "{line}");
    }
    for source in blocks(&page, "c") {
        let built = Built::of(&source);
        let mut lab = Lab::new(Clock::Real);
        lab.serve(&built.words("99"));
        for host in SERVER {
            let script = format!("[ \"$(nc -w 10 {host} 99)\" = hello ]");
            lab.shell(lab.client.id, &script);
        }
    }
}

#[test]
fn texts_agree_or_not() {
    assert!(agree("a 1.000 b", "a 1.001 b"));
    assert!(!agree("a 1.000 b", "a 1.1 b") && !agree("a 1 b", "b 1 a"));
    assert!(agree("10.0.0.1:4000: x", "10.0.0.1:5000: x"));
    assert!(!agree("4000", "5000") && !agree("1", "1 2"));
}

#[test]
fn all_are_named() {
    let page = here("../../docs/apps.md");
    for help in Apps::help() {
        let (plain, with_host) = (format!("`{}`", help.name), format!("`{} HOST`", help.name));
        assert!(
            page.contains(&plain) || page.contains(&with_host),
            "{}",
            help.name
        );
    }
}
