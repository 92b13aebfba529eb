//! The programs that need few packages and little time do the same on the host and on Vink, in both forms.

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
    for (form, least) in [("trap", 15), ("in-process", 10)] {
        let ran = |line: &&str| line.ends_with(" ok") && line.contains(form);
        let rows = said.lines().filter(ran).count();
        assert!(rows >= least, "only {rows} ran in the form {form}:\n{said}");
    }
}
