//! Pods that tests compile.

use std::process::Command;

use super::control::Control;
use super::root;

/// Compiles a pod beside the lab files.
pub fn compile_pod(control: &Control, name: &str, source: &str) {
    let folder = control.folder();
    let (text, pod) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    std::fs::write(&text, source).expect("a source");
    let output = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-I"])
        .arg(root().join("include"))
        .arg("-o")
        .args([&pod, &text])
        .output()
        .expect("gcc");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// The same as a WebAssembly module.
pub fn compile_module(control: &Control, name: &str, source: &str) {
    control.write(&format!("{name}.c"), source);
    let mut clang = control.command("clang-16");
    clang.args(["--target=wasm32-wasi", "-mexec-model=reactor", "-O1", "-w"]);
    clang.arg("-I").arg(root().join("include"));
    let [module, text] = ["wasm", "c"].map(|end| format!("{name}.{end}"));
    let status = clang.args(["-o", &module, &text]).status();
    assert!(status.expect("clang-16").success());
}
