//! One row, before it is checked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first row of a CSV file, which may be left out.
pub(super) const TITLES: [&str; 3] = ["key", "plan", "until"];

/// A row with its texts as they stand there.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) plan: String,
    /// An instant with its time zone, or Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
}

/// A row in JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    key: Value,
    plan: Value,
    #[serde(default)]
    until: Value,
}

// === impl Row ===

impl Row {
    /// The row of an object in JSON.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let advice = "write {\"key\": \"acme\", \"plan\": \"gold\"}";
        let row: JsonRow = serde_json::from_str(text).map_err(|error| format!("{error}: {advice}"))?;
        let word = |name: &str, value: Value| match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(format!("{name} is neither a text nor a number: {advice}")),
        };
        let until = match row.until {
            Value::Null => None,
            until => Some(word("until", until)?),
        };
        Ok(Self { key: word("key", row.key)?, plan: word("plan", row.plan)?, until })
    }
}
