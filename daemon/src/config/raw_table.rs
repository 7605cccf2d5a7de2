//! One TOML table of the config: its keys, their locations, and the errors that they have in one form.

use std::fmt::Display;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    advice::{described, near, path, unknown},
    diagnostics::{Diagnostics, Location},
    keys::{self, ConfigKey, Kind},
    variables,
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
}
