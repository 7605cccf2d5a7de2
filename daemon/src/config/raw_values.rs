//! Reads the values of one TOML table, each as its kind, and reports every wrong one.

use std::{fmt::Display, str::FromStr};

use toml::de::DeValue;

use super::{
    diagnostics::Location,
    instant::Instant,
    keys::Kind,
    raw_table::{Located, RawTable},
    variables::{self, Variables},
};

// === impl RawTable ===

impl<'t> RawTable<'t> {
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

    /// The text to write for a value whose only mistake may be its quotes.
    fn unquoted<T: FromStr>(&self, key: &str, value: &DeValue<'_>) -> String {
        match value.as_str().filter(|text| text.parse::<T>().is_ok()) {
            Some(text) => format!("{key} = {text} without quotes"),
            None => self.example(key),
        }
    }
}
