//! Wording for problems: paths of keys, near names, descriptions of values.

use toml::de::DeValue;

use topup_wire::connection;

use super::keys::ConfigKey;

/// The least likeness (0 to 1) at which a known key is suggested for an unknown one.
const LIKENESS: f64 = 0.6;

/// The path of `key` in the table at `parent`, quoted where TOML needs quotes.
pub(super) fn path(parent: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let key =
        if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { format!("{:?}", shown(key)) };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The known key most like `key`.
pub(super) fn near(key: &str, known: &'static [ConfigKey]) -> Option<&'static str> {
    let key = key.to_lowercase().replace('-', "_");
    let scored =
        known.iter().map(|known| (strsim::normalized_damerau_levenshtein(known.name, &key), known.name));
    let best = scored.filter(|(score, _)| *score >= LIKENESS).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

/// The message for an unknown key.
pub(super) fn unknown(near: Option<&str>, known: &[ConfigKey]) -> String {
    match near {
        Some(near) => format!("unknown key; did you mean {near:?}?"),
        None => {
            let names: Vec<&str> = known.iter().map(|known| known.name).collect();
            format!("unknown key: write one of {}", names.join(", "))
        }
    }
}

/// A value in words, such as `the number 5`.
pub(super) fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {:?}", shown(text).chars().take(80).collect::<String>()),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(flag) => format!("{flag}"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A text of the config as a message may repeat it. A text with a colon or an @ may be a URL with a password.
pub(super) fn shown(text: &str) -> String {
    if text.contains([':', '@']) { connection::redacted(text) } else { text.to_owned() }
}
