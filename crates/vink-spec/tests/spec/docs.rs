//! docs/lab-files.md: each of its labs can be used, and each key is on the page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use vink_spec::read_text;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab-files.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn its_labs_can_be_used() {
    let page = page();
    let validator = jsonschema::draft202012::new(&vink_spec::schema()).unwrap();
    let mut labs = 0;
    for block in page.split("```yaml\n").skip(1) {
        let (lab, _) = block.split_once("```").expect("the block's end");
        match read_text(lab, "docs/lab-files.md", None) {
            Ok(reading) => assert_eq!(reading.warnings, [], "{lab}"),
            Err(mistakes) => panic!("{mistakes}\n{lab}"),
        }
        let mut value: serde_norway::Value = serde_norway::from_str(lab).expect(lab);
        value.apply_merge().expect("merge keys");
        let value: Value = serde_norway::from_value(value).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{lab}");
        labs += 1;
    }
    assert!(labs >= 7, "{labs} labs");
}

fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| keys(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn it_tells_of_all_keys() {
    let page = page();
    let mut all = BTreeSet::new();
    keys(&vink_spec::schema(), &mut all);
    assert!(all.len() > 50, "{all:?}");
    let missing: Vec<&String> = all
        .iter()
        .filter(|key| !page.contains(&format!("`{key}`")) && !page.contains(&format!("`{key}:`")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}
