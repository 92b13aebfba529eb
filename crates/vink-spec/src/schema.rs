//! The JSON Schema of lab files, by which editors complete and check them.

use schemars::generate::SchemaSettings;
use schemars::JsonSchema;
use serde_json::{json, Value};

use crate::generate::Generate;
use crate::Lab;

/// A lab file: a lab, and what is to be generated.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case", rename = "LabFile")]
struct File {
    #[schemars(flatten)]
    _lab: Lab,
    /// Machines to make many of: one kind, or a list of such.
    #[schemars(rename = "generate")]
    _generate: Option<OneOrMore>,
}

/// One, or several.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum OneOrMore {
    /// One.
    _One(Box<Generate>),
    /// Several.
    _Several(Vec<Generate>),
}

/// The schema (draft 2020-12) that is published as labs/lab.schema.json.
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = Some("https://json-schema.org/draft/2020-12/schema".into());
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<File>()
        .to_value();
    schema["title"] = "A Vink lab".into();
    schema["description"] =
        "Machines, wires, programs and events of a lab: docs/lab-files.md".into();
    // `uplink: tap:NAME` is as good as `uplink: {tap: NAME}`.
    if let Some(Value::Array(kinds)) = schema.pointer_mut("/$defs/Uplink/oneOf") {
        let pattern = "^(passt$|tap:|interface:|qemu:|qemu-connect:|qemu-dgram:|vhost-user:|wire:|share$|share:|driver:|udp:)";
        kinds
            .push(json!({ "description": "The short form", "type": "string", "pattern": pattern }));
    }
    walk(&mut schema);
    schema
}

/// What a lab file may have besides what the model says.
fn walk(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // Numbers and truth values are texts where any text is meant.
            let is_text = map.get("type").is_some_and(|kind| kind == "string");
            if is_text && !map.contains_key("const") && !map.contains_key("pattern") {
                map.insert("type".to_owned(), json!(["string", "number", "boolean"]));
            }
            if map.get("properties").is_some() {
                // `m1:` is a machine with nothing of its own.
                if !map.contains_key("required") {
                    map.insert("type".to_owned(), json!(["object", "null"]));
                }
                map.remove("unevaluatedProperties");
                map.insert("additionalProperties".to_owned(), false.into());
                map.insert("patternProperties".to_owned(), json!({ "^x-": true }));
            }
            map.values_mut().for_each(walk);
        }
        Value::Array(items) => items.iter_mut().for_each(walk),
        _ => {}
    }
}
