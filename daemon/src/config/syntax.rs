//! From text to TOML tables, with all that is no TOML.

use toml::{de::DeTable, de::Error};

/// A stretch of text that is no TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Offset in the text, in bytes.
    pub(super) offset: usize,
    /// What is wrong and what to write instead.
    pub(super) message: String,
    /// Whether a bracket was never closed.
    pub(super) unclosed: bool,
}

/// The tables of `text`, as far as they can be read, and what is broken.
pub(super) fn parse(text: &str) -> (DeTable<'_>, Vec<Broken>) {
    let (entries, errors) = DeTable::parse_recoverable(text);
    (entries.into_inner(), errors.iter().map(|error| explain(text, error)).collect())
}

/// What toml says, in the form of all our messages.
fn explain(text: &str, error: &Error) -> Broken {
    let span = error.span().unwrap_or_default();
    let found = text.get(span.clone()).unwrap_or_default();
    let (wrong, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
    let message = match (wrong, expected) {
        ("duplicate key", _) => format!("{found} is given twice: remove one of the two"),
        ("string values must be quoted", _) if found.is_empty() => {
            "a value is missing: write one after the \"=\"".to_owned()
        }
        ("string values must be quoted", _) => format!("{found} is a text without quotes: write \"{found}\""),
        ("key with no value", _) => "a key without a value: write \"=\" and a value after it".to_owned(),
        ("invalid basic string", "`\"`") => "a text is not closed: write \" at its end".to_owned(),
        ("invalid literal string", "`'`") => "a text is not closed: write ' at its end".to_owned(),
        (wrong, "nothing") => format!("{wrong}: remove it"),
        (wrong, "") => format!("{wrong}: write TOML, see https://toml.io"),
        (wrong, expected) => format!("{wrong}: write {expected}"),
    };
    Broken { offset: span.start, message, unclosed: wrong.starts_with("unclosed") }
}
