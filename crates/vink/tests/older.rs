//! What older versions have written is read: lab files, recordings, views. Where it is, and from which versions:
//! tests/older.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::control::Control;
use common::page::{parts, Server};
use common::pod::compile_pod;
use common::{root, Place};
use serde_json::Value;

/// The files and folders of older versions whose names end so.
fn older(ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root().join("tests/older"))
        .expect("tests/older")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending)))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{ending}");
    found
}

/// A name of its own, without the folder.
fn name(path: &Path) -> String {
    path.file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

/// As a user checks them; that they are the same labs is tested in vink-spec.
#[test]
fn lab_files_are_right() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let chain = |family: &str, name: &str, hook: &str| {
        format!(
            "table {family} {name} {{\n  chain c {{ type filter hook {hook} priority 0; }}\n}}\n"
        )
    };
    control.write("rules.nft", &chain("inet", "filter", "input"));
    control.write("port.nft", &chain("bridge", "{{interface}}", "forward"));
    control.write("issue", "");
    fs::create_dir_all(control.folder().join("root")).expect("a folder");
    let source = fs::read_to_string(root().join("pods/count.c")).expect("a pod");
    compile_pod(&control, "pod", &source);
    let status = Command::new("clang-16")
        .args([
            "--target=wasm32-wasi",
            "-mexec-model=reactor",
            "-O2",
            "-w",
            "-I",
        ])
        .arg(root().join("include"))
        .args(["-o", "pod.wasm", "pod.c"])
        .current_dir(control.folder())
        .status();
    assert!(status.expect("clang-16").success());
    for file in older(".yaml") {
        let labs = fs::read_to_string(&file).expect("a file");
        for (at, lab) in labs.split("---\n").enumerate() {
            let name = format!("{at}-{}", name(&file));
            control.write(&name, lab);
            assert_eq!(control.vink(&["lab", "check", &name]), "", "{name}");
        }
    }
}

#[test]
fn recordings_are_read() {
    for place in Place::all() {
        let control = Control::of(&place);
        for recording in older(".recording") {
            let folder = name(&recording);
            fs::create_dir_all(control.folder().join(&folder)).expect("a folder");
            for file in ["manifest.json", "run.journal"] {
                let bytes = fs::read(recording.join(file)).expect("a file");
                fs::write(control.folder().join(&folder).join(file), bytes).expect("written");
            }
            let text = control.vink(&["trace", "export", "--format", "text", &folder]);
            let last = "5.128000000 b:eth0 receives ARP, 10.0.0.1 is-at ";
            assert!(text.lines().any(|line| line.starts_with(last)), "{text}");
            let same = control.vink(&["lab", "diff", &folder, &folder]);
            assert!(same.contains("the runs are the same"), "{same}");
        }
    }
}

#[test]
fn views_are_read() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for views in older(".views.yjs") {
        control.write("lab.yaml", "name: seen\nmachines: { m1: {}, r-2: {} }\n");
        fs::copy(&views, control.folder().join("seen.views.yjs")).expect("copied");
        control.vink(&["lab", "up"]);
        let url = control.vink(&["ui", "seen", "--share", "ann", "--role", "draw"]);
        let (address, ticket) = parts(&url);
        let server = Server { address };
        let token = server.token(&ticket);
        let saved = server.ask("POST", "/v1/labs/seen/views/save", &token, &Value::Null);
        assert_eq!(saved.status, 201, "{}", saved.body);
        let now = fs::read_to_string(control.folder().join("seen.views.json")).expect("a file");
        let then = fs::read_to_string(views.with_extension("json")).expect("a file");
        assert_eq!(now, then, "{}", views.display());
        control.vink(&["lab", "down"]);
    }
}
