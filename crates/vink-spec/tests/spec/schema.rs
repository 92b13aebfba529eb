//! The published JSON Schema is that of the reader: an independent validator takes the same files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vink_spec::{read, read_json};

use crate::random::Random;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&vink_spec::schema()).expect("a schema")
}

fn errors(validator: &jsonschema::Validator, lab: &Value) -> Vec<String> {
    let errors = validator.iter_errors(lab);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn it_is_published() {
    let path = root().join("labs/lab.schema.json");
    let text = serde_json::to_string_pretty(&vink_spec::schema()).unwrap() + "\n";
    if std::env::var_os("VINK_GOLDEN").is_some_and(|how| how == "write") {
        fs::write(&path, &text).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == text,
        "labs/lab.schema.json is not what `vink lab schema` prints: VINK_GOLDEN=write renews it"
    );
}

#[test]
fn it_takes_what_the_reader_takes() {
    let validator = validator();
    let mut random = Random(4);
    for _ in 0..300 {
        let lab = serde_json::to_value(random.lab()).unwrap();
        assert_eq!(errors(&validator, &lab), Vec::<String>::new(), "{lab:#}");
    }
}

/// Of the mistakes that editors can see.
#[test]
fn it_refuses_what_the_reader_refuses() {
    let validator = validator();
    for text in [
        r#"{"machine": {}}"#,
        r#"{"machines": {"m1": {"forwrd": true}}}"#,
        r#"{"machines": {"m1": {"interfaces": {"eth0": {"wires": "w1"}}}}}"#,
        r#"{"wires": {"w1": {"los": "1%"}}}"#,
        r#"{"wires": {"w1": {"loss": "much"}}}"#,
        r#"{"wires": {"w1": {"from": {"a:b": {"los": "1%"}}}}}"#,
        r#"{"wires": {"w1": {"delay": 20}}}"#,
        r#"{"wires": {"w1": {"delay": "20"}}}"#,
        r#"{"wires": {"w1": {"rate": 1000}}}"#,
        r#"{"wires": {"w1": {"loss": 1}}}"#,
        r#"{"wires": {"w1": {"uplink": "pasta"}}}"#,
        r#"{"machines": {"m1": {"programs": {"a": {"command": "x", "ready": "sucess"}}}}}"#,
        r#"{"machines": {"m1": {"programs": {"a": {"command": "x", "restart": "no"}}}}}"#,
        r#"{"generate": {"kind": "cube", "machines": 10}}"#,
        r#"{"generate": {"kind": "line"}}"#,
        r#"{"events": [{"at": "1s"}]}"#,
    ] {
        let lab: Value = serde_json::from_str(text).unwrap();
        assert!(
            !errors(&validator, &lab).is_empty(),
            "the schema takes {text}"
        );
        assert!(read_json(&lab, None).is_err(), "the reader takes {text}");
    }
}

#[test]
fn both_take_what_yaml_makes_of_texts_and_extensions() {
    let lab: Value = serde_json::from_str(
        r#"{
            "x-note": [1],
            "machines": {"m0": null, "m2": {"setup": [1], "programs": {"a": {"command": ["sleep", 1], "env": {"A": 1, "B": true}}}},
                "m1": {"x-note": 1, "interfaces": {"eth0": {"wire": "w1", "x-note": 1}}}},
            "wires": {"w1": {"uplink": "passt", "x-note": 1}},
            "generate": [{"kind": "tree", "machines": 10, "fanout": 3, "addresses": "10.0.0.0/8"},
                         {"kind": "line", "name": "l", "machines": 3, "addresses": ["10.0.0.0/8", "fd00::/64"]}]
        }"#,
    )
    .unwrap();
    assert_eq!(errors(&validator(), &lab), Vec::<String>::new());
    read_json(&lab, None).unwrap();
}

/// The ready labs can be used, and an editor has nothing to say of them.
#[test]
fn ready_labs() {
    let validator = validator();
    let mut found = 0;
    for entry in fs::read_dir(root().join("labs")).unwrap() {
        let path = entry.unwrap().path().join("lab.yaml");
        if !path.exists() {
            continue;
        }
        match read(&path) {
            Ok(reading) => assert_eq!(reading.warnings, [], "{}", path.display()),
            // Pods that are made first.
            Err(mistakes) => {
                let is_made = |path: &str| path.starts_with("pods.") && path.ends_with(".file");
                let all = path.with_file_name("build.sh").exists();
                let all = all && mistakes.0.iter().all(|mistake| is_made(&mistake.path));
                assert!(all, "{mistakes}");
            }
        }
        // By another reader of YAML, with merge keys ("<<") as editors take them.
        let text = fs::read_to_string(&path).unwrap();
        let mut lab: serde_norway::Value = serde_norway::from_str(&text).unwrap();
        lab.apply_merge().unwrap();
        let lab: Value = serde_norway::from_value(lab).unwrap();
        assert_eq!(
            errors(&validator, &lab),
            Vec::<String>::new(),
            "{}",
            path.display()
        );
        found += 1;
    }
    assert!(found >= 7, "{found} ready labs");
}
