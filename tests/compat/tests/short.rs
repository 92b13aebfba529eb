//! The programs that need few packages and little time do the same on the host and on Vink, in all forms.

use std::process::Command;

/// Runs the suite with these arguments, which must agree, and checks how many rows there are of a form.
fn agree(arguments: &[&str], forms: &[(&str, usize)]) {
    let output = Command::new(env!("CARGO_BIN_EXE_vink-compat"))
        .args(arguments)
        .output()
        .expect("the suite is built with its tests");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // An ordinary user runs each once, root twice.
    for (form, least) in forms {
        let ran = |line: &&str| line.ends_with(" ok") && line.contains(form);
        let rows = said.lines().filter(ran).count();
        assert!(
            rows >= *least,
            "only {rows} ran in the form {form}:\n{said}"
        );
    }
}

#[test]
fn short_programs_agree() {
    agree(&["--short"], &[("trap", 15), ("in-process", 10)]);
}

#[test]
fn a_few_agree_with_shared_calls() {
    let few = ["--form", "shared", "--only", "bash-tcp,curl,redis"];
    agree(&few, &[("shared", 3)]);
}
