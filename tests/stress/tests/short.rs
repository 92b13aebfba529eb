//! Some rounds of fuzzing and soaking: what `make fuzz` and `make soak` do for longer.

use std::path::Path;
use std::process::Command;

/// Runs so many rounds, as one of `make test`'s users would by hand.
fn rounds(work: &str, rounds: u32) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vink-stress"));
    // The image is looked for in ./build.
    command.current_dir(root).arg(work);
    command.args(["--seed", "1", "--rounds", &rounds.to_string()]);
    let output = command.output().expect("vink-stress");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    let done = format!("{work}: {rounds} ");
    assert!(said.starts_with(&done), "{said}{errors}");
    // What happened to programs that were meant to be killed, or to go wrong, is not shown.
    assert_eq!(errors, "");
}

#[test]
fn random_calls_do_the_worker_no_harm() {
    rounds("fuzz", 15);
}

#[test]
fn a_mixed_load_leaves_nothing_and_gets_its_bytes() {
    rounds("soak", 100);
}
