//! Programs and labs on a busy machine do the same twice in virtual time; `make determinism` asks all of them.

use std::process::Command;

#[test]
fn quick_programs_and_a_lab_repeat() {
    let output = Command::new(env!("CARGO_BIN_EXE_vink-compat"))
        .args(["--repeat", "--only", "bash-tcp,curl,hello"])
        .output()
        .expect("the suite is built with its tests");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.ends_with("all repeat\n"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
