//! Every kind of mistake in a lab file is told with its place and what to do: the texts are in
//! golden/mistakes.txt.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use vink_spec::{check_lab, read, read_json, read_text, Lab};

/// Lab files, each with a mistake or a few, by what is wrong.
const CASES: &str = include_str!("mistakes.yaml");

/// What is said of a text.
fn told(text: &str, folder: Option<&Path>) -> String {
    match read_text(text, "lab.yaml", folder) {
        Ok(reading) => {
            let lines: Vec<String> = reading.warnings.iter().map(|w| format!("{w}\n")).collect();
            format!("{}(it can be used)\n", lines.concat())
        }
        Err(mistakes) => format!("{mistakes}\n"),
    }
}

#[test]
fn each_is_told() {
    let mut all = String::new();
    let mut cases = 0;
    for case in CASES.split("#### ").skip(1) {
        let (title, text) = case.split_once('\n').expect("a title");
        let told = told(&text.replace("<TAB>", "\t"), None);
        // Only the mistake is one, and each case is.
        match title.strip_prefix("fine: ") {
            Some(_) => assert_eq!(told, "(it can be used)\n", "{title}"),
            None => assert_ne!(told, "(it can be used)\n", "{title}"),
        }
        all += &format!("#### {title}\n{told}\n");
        cases += 1;
    }
    assert!(cases > 50, "{cases} cases");
    crate::golden::golden("mistakes", &all);
}

/// A folder that goes away at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vink-spec-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn files() {
    let folder = Folder::new("files");
    let path = |name: &str| folder.0.join(name);
    fs::create_dir(path("sub")).unwrap();
    fs::create_dir(path("sub.yaml")).unwrap();
    fs::write(path("latin.yaml"), b"name: a\nmachines:\n  m\xfcller: {}\n").unwrap();
    fs::write(path("empty.yaml"), "").unwrap();
    fs::write(path("comment.yaml"), "# nothing\n").unwrap();
    fs::write(path("nameless.vink.yaml"), "machines: {m1: {}}").unwrap();
    fs::write(path("!ü.yml"), "\u{feff}machines: {m1: {}}\r\n").unwrap();
    fs::write(path("motd"), "hello").unwrap();
    symlink("/etc", path("etc")).unwrap();
    symlink("motd", path("link")).unwrap();
    fs::write(
        path("paths.yaml"),
        "machines:
  m1:
    root: etc
    files:
      /a: {from: motd}
      /b: {from: link}
      /c: {from: etc/passwd}
      /d: {from: nothing}
      /e: {from: sub}
    programs:
      a: {command: x, dir: sub}
      b: {command: x, dir: motd}
      c: {command: x, dir: etc}
",
    )
    .unwrap();
    let mut all = String::new();
    for name in ["missing", "sub.yaml", "latin", "empty", "comment", "paths"] {
        let name = format!("{}.yaml", name.trim_end_matches(".yaml"));
        let mistakes = read(&path(&name)).expect_err(&name);
        all += &format!("{mistakes}\n\n");
    }
    let here = format!("{}/", folder.0.display());
    let really = format!("{}/", folder.0.canonicalize().unwrap().display());
    crate::golden::golden("files", &all.replace(&here, "").replace(&really, ""));
    assert_eq!(
        read(&path("nameless.vink.yaml")).unwrap().lab.name,
        "nameless"
    );
    assert_eq!(read(&path("!ü.yml")).unwrap().lab.name, "lab");
}

#[test]
fn json_has_paths() {
    let lab = json!({
        "machines": {
            "m1": {
                "interfaces": { "eth0": { "wire": "w1", "adresses": [] } },
                "programs": { "web": { "command": "x", "after": ["db"] } },
            },
            "m2": { "interfaces": { "eth0": { "wire": "w1", "mac": "1" } }, "image": 3 },
        },
        "wires": { "w1": { "loss": 2, "up": "no" } },
    });
    let mistakes = read_json(&lab, None).unwrap_err().to_string();
    crate::golden::golden("json", &format!("{mistakes}\n"));
    let good = json!({ "machines": { "m1": {} }, "generate": { "kind": "line", "machines": 3 } });
    assert_eq!(read_json(&good, None).unwrap().lab.machines.len(), 4);
    assert!(read_json(&json!([1]), None).is_err());
}

#[test]
fn labs_made_otherwise() {
    let mut lab: Lab = serde_json::from_value(json!({ "machines": { "m1": {} } })).unwrap();
    assert_eq!(check_lab(&lab, None).unwrap(), []);
    lab.machines.insert("a b".to_owned(), Default::default());
    let mistakes = check_lab(&lab, None).unwrap_err().to_string();
    assert!(
        mistakes.starts_with("machines.a b: error: \"a b\" can't be a machine's name"),
        "{mistakes}"
    );
}

/// Ten lines that stand for a billion values, and other texts that shall neither crash nor take
/// long.
#[test]
fn hostile_texts() {
    let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb += &format!("b{i}: &a{i} [{aliases}]\n");
    }
    let told = |text: &str| read_text(text, "x", None).unwrap_err().to_string();
    assert!(told(&bomb).contains("stand for more than 1000000 values"));
    let too_deep = |text: &str| {
        let told = told(text);
        let scanner = "this is not YAML: recursion limit exceeded";
        assert!(
            told.contains("more than 64 values within each other") || told.contains(scanner),
            "{told}"
        );
    };
    too_deep(&format!("machines: {}", "[".repeat(100_000)));
    too_deep(&"{a: ".repeat(100));
    too_deep(
        &(0..200)
            .map(|i| format!("{}a:\n", " ".repeat(i)))
            .collect::<String>(),
    );
    // Every beginning of a good file, and every byte of it changed.
    let good = include_str!("mistakes.yaml");
    let good = &good[..good.len().min(1500)];
    for end in 0..good.len() {
        let _ = read_text(&good[..end], "x", None);
        let mut bytes = good.as_bytes()[..end].to_vec();
        if let Some(last) = bytes.last_mut() {
            *last = b"\t:-[{}]&*!|>%@`\"'#\n"[end % 19];
        }
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = read_text(&format!("{text}{}", &good[end..]), "x", None);
        }
    }
}

/// 1,000 mistakes are counted, not all shown.
#[test]
fn many() {
    let machines: String = (0..1000).map(|i| format!("  m_{i}: {{}}\n")).collect();
    let mistakes = read_text(&format!("machines:\n{machines}"), "x", None).unwrap_err();
    assert_eq!(mistakes.0.len(), 1000);
    assert!(mistakes.to_string().ends_with("\nand 950 more"));
}
