//! Reads one TOML table key by key, and reports every wrong value in one form.

use std::{fmt::Display, str::FromStr};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    advice::{described, near, path, unknown},
    diagnostics::{Diagnostics, Location},
    instant::Instant,
    keys::{self, ConfigKey, Kind},
    variables::{self, Variables},
};

/// A value, and where its key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) location: Location,
}

/// The value of a key, if it is there and right.
pub(super) fn value<T: Copy>(located: Option<&Located<T>>) -> Option<T> {
    located.map(|located| located.value)
}

/// A table with a fixed set of keys. Unknown keys are reported when it is opened.
#[derive(Debug)]
pub(super) struct RawTable<'t> {
    entries: &'t DeTable<'t>,
    location: Location,
    known: &'static [ConfigKey],
    /// Known keys for which the file seems to have a misspelling.
    misspelt: Vec<&'static str>,
    pub(super) diagnostics: &'t Diagnostics<'t>,
}

// === impl RawTable ===

impl<'t> RawTable<'t> {
    /// The whole file.
    pub(super) fn root(entries: &'t DeTable<'t>, diagnostics: &'t Diagnostics<'t>) -> Self {
        Self::open(entries, Location { offset: 0, key: String::new() }, keys::ROOT, diagnostics)
    }

    pub(super) fn open(
        entries: &'t DeTable<'t>,
        location: Location,
        known: &'static [ConfigKey],
        diagnostics: &'t Diagnostics<'t>,
    ) -> Self {
        let mut table = Self { entries, location, known, misspelt: Vec::new(), diagnostics };
        for key in entries.keys() {
            if known.iter().any(|known| known.name == key.get_ref()) {
                continue;
            }
            let near = near(key.get_ref(), known);
            table.error(&table.locate(key), unknown(near, known));
            table.misspelt.extend(near);
        }
        table
    }

    /// File and line of `location`.
    pub(super) fn place(&self, location: &Location) -> String {
        self.diagnostics.place(location)
    }

    /// Warns about the table itself.
    pub(super) fn warn(&self, message: impl Into<String>) {
        self.diagnostics.warn(&self.location, message);
    }

    pub(super) fn warn_at(&self, location: &Location, message: impl Into<String>) {
        self.diagnostics.warn(location, message);
    }

    pub(super) fn error(&self, location: &Location, message: impl Into<String>) {
        self.diagnostics.error(location, message);
    }

    /// Where the table begins.
    pub(super) const fn location(&self) -> &Location {
        &self.location
    }

    /// Whether the table holds no key at all, known or not.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where `key` stands; `None` if it is absent. The value may be wrong.
    pub(super) fn find(&self, key: &str) -> Option<Location> {
        debug_assert!(self.known.iter().any(|known| known.name == key), "{key} is not in config::keys");
        self.entries.get_key_value(key).map(|(key, _)| self.locate(key))
    }

    /// Whether `key` is there. The value may be wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Reports `key` as missing, with `or` added to the advice. A misspelt key is not missing.
    pub(super) fn require(&self, key: &str, or: &str) {
        if !self.has(key) && !self.misspelt.contains(&key) && self.diagnostics.is_all_toml() {
            let location = Location { offset: self.location.offset, key: path(&self.location.key, key) };
            self.error(&location, format!("missing: write {}{or}", self.example(key)));
        }
    }

    /// A text that parses as `T`.
    pub(super) fn text<T>(&self, key: &str) -> Option<Located<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.text_by(key, str::parse)
    }

    /// A text that `parse` accepts.
    pub(super) fn text_by<T, E: Display>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let (location, text) = self.raw_text(key)?;
        if text.contains(variables::BEGIN) {
            self.error(&location, variables::MISPLACED);
            return None;
        }
        let parsed = parse(text).map_err(|error| error.to_string());
        // The error of any other key may repeat the text.
        let parsed = parsed.map_err(|error| match text.contains("://") {
            true => format!("a URL where no URL belongs: write {}", self.example(key)),
            false => error,
        });
        self.locate_value(location, parsed)
    }

    /// A URL that may have a password in it, and so environment variables.
    pub(super) fn url<T>(&self, key: &str, variables: Variables<'_>) -> Option<Located<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let (location, text) = self.raw_text(key)?;
        let expanded = variables::expand_url(text, variables).map_err(|error| error.to_string());
        let parsed = expanded.and_then(|url| url.parse().map_err(|error: T::Err| error.to_string()));
        self.locate_value(location, parsed)
    }

    /// A text as it is written.
    fn raw_text(&self, key: &str) -> Option<(Location, &'t str)> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Text | Kind::Form(_) | Kind::Words(_)));
        let (location, value) = self.entry(key)?;
        match value.as_str() {
            Some(text) => Some((location, text)),
            None => self.wrong_type(&location, value, "a text", &self.example(key)),
        }
    }

    /// A whole number that `make` accepts.
    pub(super) fn whole<T, E: Display>(
        &self,
        key: &str,
        make: impl Fn(u64) -> Result<T, E>,
    ) -> Option<Located<T>> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Whole(..)));
        let (location, value) = self.entry(key)?;
        let Some(integer) = value.as_integer() else {
            return self.wrong_type(&location, value, "a whole number", &self.unquoted::<u64>(key, value));
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
            if integer.as_str().starts_with('-') {
                format!("{integer} is below zero: write a number such as {}", self.example(key))
            } else {
                format!("{integer} is too large: write less, such as {}", self.example(key))
            }
        });
        let made = number.and_then(|number| make(number).map_err(|error| error.to_string()));
        self.locate_value(location, made)
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Option<Located<bool>> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Flag));
        let (location, value) = self.entry(key)?;
        match value.as_bool() {
            Some(value) => Some(Located { value, location }),
            None => self.wrong_type(&location, value, "true or false", &self.unquoted::<bool>(key, value)),
        }
    }

    /// An instant: a date of TOML with its time zone, or the same as a text.
    pub(super) fn instant(&self, key: &str) -> Option<Located<Instant>> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Instant));
        let (location, value) = self.entry(key)?;
        let written = match value {
            DeValue::Datetime(at) => at.to_string(),
            _ => match value.as_str() {
                Some(text) => text.to_owned(),
                None => return self.wrong_type(&location, value, "a date", &self.example(key)),
            },
        };
        self.locate_value(location, written.parse::<Instant>())
    }

    /// Holds the tables of keys, and so the schema, to what is read.
    pub(super) fn assert_kind(&self, key: &str, is_read_so: impl Fn(&Kind) -> bool) {
        let known = self.known.iter().find(|known| known.name == key);
        debug_assert!(
            known.is_some_and(|known| is_read_so(&known.kind)),
            "{key} is of another kind in config::keys"
        );
    }

    pub(super) fn entry(&self, key: &str) -> Option<(Location, &'t DeValue<'t>)> {
        self.find(key).zip(self.entries.get(key).map(Spanned::get_ref))
    }

    fn locate(&self, key: &Spanned<impl AsRef<str>>) -> Location {
        Location { offset: key.span().start, key: path(&self.location.key, key.get_ref().as_ref()) }
    }

    /// A parsed value with its location; reports the error otherwise.
    pub(super) fn locate_value<T, E: Display>(
        &self,
        location: Location,
        parsed: Result<T, E>,
    ) -> Option<Located<T>> {
        match parsed {
            Ok(value) => Some(Located { value, location }),
            Err(error) => {
                self.error(&location, error.to_string());
                None
            }
        }
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_type<T>(
        &self,
        location: &Location,
        value: &DeValue<'_>,
        expected: &str,
        instead: &str,
    ) -> Option<T> {
        match value.as_str().is_some_and(|text| text.contains(variables::BEGIN)) {
            true => self.error(location, variables::MISPLACED),
            false => {
                self.error(
                    location,
                    format!("{} where {expected} belongs: write {instead}", described(value)),
                );
            }
        }
        None
    }

    pub(super) fn example(&self, key: &str) -> String {
        let key = self.known.iter().find(|known| known.name == key);
        key.map_or_else(String::new, |key| key.example.to_owned())
    }

    /// The text to write for a value whose only mistake may be its quotes.
    fn unquoted<T: FromStr>(&self, key: &str, value: &DeValue<'_>) -> String {
        match value.as_str().filter(|text| text.parse::<T>().is_ok()) {
            Some(text) => format!("{key} = {text} without quotes"),
            None => self.example(key),
        }
    }
}
