//! Parses text to TOML tables, and words syntax errors as other problems are worded.

use toml::{de::DeTable, de::Error};

/// A part of the text that is no TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Offset in the text, in bytes.
    pub(super) offset: usize,
    /// The mistake and its fix.
    pub(super) message: String,
    /// Whether a bracket was never closed.
    pub(super) unclosed_bracket: bool,
}

/// The tables of `text`, as far as they can be read, and all syntax errors.
pub(super) fn parse(text: &str) -> (DeTable<'_>, Vec<SyntaxError>) {
    let (entries, errors) = DeTable::parse_recoverable(text);
    (entries.into_inner(), errors.iter().map(|error| explain(text, error)).collect())
}

/// Words an error of the toml crate as mistake and fix.
fn explain(text: &str, error: &Error) -> SyntaxError {
    let span = error.span().unwrap_or_default();
    let written = text.get(span.clone()).unwrap_or_default();
    let line = text.get(..span.start).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    // It may be, or begin, a URL with a password.
    let may_be_url = line.trim_start().starts_with("url") || written.contains([':', '@']);
    let found = if may_be_url { "***" } else { written };
    let (wrong, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
    let message = match (wrong, expected) {
        ("duplicate key", _) => format!("{found} is given twice: remove one of the two"),
        ("string values must be quoted", _) if found.is_empty() => {
            "a value is missing: write one after the \"=\"".to_owned()
        }
        ("string values must be quoted", _) if found != written => {
            "a text without quotes: write \" before and after it".to_owned()
        }
        ("string values must be quoted", _) => format!("{found} is a text without quotes: write \"{found}\""),
        ("key with no value", _) => "a key without a value: write \"=\" and a value after it".to_owned(),
        ("invalid basic string", "`\"`") => "a text is not closed: write \" at its end".to_owned(),
        ("invalid literal string", "`'`") => "a text is not closed: write ' at its end".to_owned(),
        (wrong, "nothing") => format!("{wrong}: remove it"),
        (wrong, "") => format!("{wrong}: write TOML, see https://toml.io"),
        (wrong, expected) => format!("{wrong}: write {expected}"),
    };
    SyntaxError { offset: span.start, message, unclosed_bracket: wrong.starts_with("unclosed") }
}
