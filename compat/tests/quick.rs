//! The programs that need few packages and little time do the same on the host and on Vink.

use std::process::Command;

#[test]
fn quick_programs_agree() {
    let output = Command::new(env!("CARGO_BIN_EXE_vink-compat"))
        .arg("--quick")
        .output()
        .expect("the suite is built with its tests");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // An ordinary user runs each once, root twice.
    let rows = said.lines().filter(|line| line.ends_with(" ok")).count();
    assert!(rows >= 10, "only {rows} ran:\n{said}");
}
