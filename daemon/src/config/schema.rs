//! The JSON Schema of a config, for editors.

use serde_json::{Map, Value, json};

use topup_wire::limit::Algorithm;

use super::{
    keys::{self, ConfigKey, Kind},
    windows::{AT_ONCE, STEADY, WITHIN},
};

/// The schema (draft 7) of a config file, and of each file in its `include_dir`. It accepts every config that is legal.
/// It cannot tell every mistake.
pub fn schema() -> Value {
    let mut schema = table(keys::ROOT);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("topup");
    schema["description"] = json!("Config of topupd");
    schema
}

/// A table with these keys and no others.
fn table(keys: &[ConfigKey]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), value(key))).collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.is_needed).map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn value(key: &ConfigKey) -> Value {
    let mut value = match key.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Form(pattern) => json!({ "type": "string", "pattern": pattern }),
        Kind::Words(words) => json!({ "type": "string", "enum": words() }),
        Kind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Table(keys) => table(keys),
        Kind::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        Kind::Plans(keys) => {
            json!({ "type": "object", "propertyNames": { "pattern": keys::PLAN_NAME }, "additionalProperties": table(keys) })
        }
        // A text or a table. An instant may be a date, which is neither a text nor a table of TOML.
        Kind::Assigned(keys) => {
            let text = json!({ "type": "string" });
            json!({ "type": "object", "additionalProperties": { "oneOf": [text, table(keys)] } })
        }
        Kind::Instant => json!({}),
        Kind::Weights(most) => {
            json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 1, "maximum": most } })
        }
        Kind::Limits(keys) => {
            json!({ "type": "object", "propertyNames": { "pattern": keys::NAME }, "additionalProperties": limit(keys) })
        }
    };
    value["description"] = json!(key.about);
    if let Some(default) = key.default {
        // A text in quotes, a number or a flag: the same in TOML and JSON.
        value["default"] = serde_json::from_str(default).unwrap_or(Value::Null);
    }
    value
}

/// The table of a limit. Its algorithm decides which keys it needs, and which it may not have.
fn limit(keys: &[ConfigKey]) -> Value {
    let without = |names: &[&str]| -> Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), Value::Bool(false))).collect()
    };
    let windowed: Vec<&str> = Algorithm::ALL
        .iter()
        .filter(|algorithm| algorithm.has_windows())
        .map(|algorithm| algorithm.as_str())
        .collect();
    let mut limit = table(keys);
    limit["if"] = json!({ "properties": { "algorithm": { "enum": windowed } }, "required": ["algorithm"] });
    limit["then"] = json!({
        "oneOf": [{ "required": ["limit", "window"] }, { "required": ["rules"] }],
    });
    let only = |own: &[&'static str]| -> Vec<&'static str> {
        let all = STEADY.into_iter().chain(WITHIN).chain(AT_ONCE);
        all.filter(|key| !own.contains(key)).collect()
    };
    limit["then"]["properties"] = Value::Object(without(&only(&WITHIN)));
    limit["else"] = json!({
        "if": { "properties": { "algorithm": { "enum": [Algorithm::Concurrency.as_str()] } }, "required": ["algorithm"] },
        "then": { "properties": without(&only(&AT_ONCE)), "required": ["limit"] },
        "else": {
            "properties": without(&only(&STEADY)),
            "required": ["capacity"],
            "oneOf": [{ "required": ["rate"] }, { "required": ["refill"] }],
        },
    });
    limit
}
