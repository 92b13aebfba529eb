//! Apps and programs that tests compile.

use std::path::Path;
use std::process::Command;

use super::control::Control;
use super::root;

/// Compiles an app beside the lab files. A source that has no whole path is one of the tree.
pub fn app(control: &Control, source: impl AsRef<Path>, name: &str, options: &[&str]) {
    program(
        control,
        source,
        name,
        &[&["-shared", "-fPIC"], options].concat(),
    );
}

/// The same of a program of the host.
pub fn program(control: &Control, source: impl AsRef<Path>, name: &str, options: &[&str]) {
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-Wall", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(root().join("crates/vink-apps/include"))
        .arg("-o")
        .args([control.folder().join(name), root().join(source)]);
    let output = compiler.output().expect("cc");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
