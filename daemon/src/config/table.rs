//! Reads one TOML table key by key; whatever is wrong goes to the report, in one form.

use std::{fmt::Display, str::FromStr};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    advice::{described, near, path, unknown},
    keys::{self, Key},
    report::{Place, Report},
};

/// A value that could be read, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// A table with a fixed set of keys. Keys it must not hold are reported when it is opened.
#[derive(Debug)]
pub(super) struct Table<'t> {
    entries: &'t DeTable<'t>,
    place: Place,
    known: &'static [Key],
    /// Known keys that somebody seems to have meant by an unknown one.
    meant: Vec<&'static str>,
    report: &'t Report<'t>,
}

// === impl Table ===

impl<'t> Table<'t> {
    /// The whole file.
    pub(super) fn root(entries: &'t DeTable<'t>, report: &'t Report<'t>) -> Self {
        Self::open(entries, Place { offset: 0, key: String::new() }, keys::ROOT, report)
    }

    fn open(entries: &'t DeTable<'t>, place: Place, known: &'static [Key], report: &'t Report<'t>) -> Self {
        let mut table = Self { entries, place, known, meant: Vec::new(), report };
        for key in entries.keys() {
            if known.iter().any(|known| known.name == key.get_ref()) {
                continue;
            }
            let near = near(key.get_ref(), known);
            table.error(&table.at(key), unknown(near, known));
            table.meant.extend(near);
        }
        table
    }

    /// Warns about the table itself.
    pub(super) fn warn(&self, message: impl Into<String>) {
        self.report.warn(&self.place, message);
    }

    pub(super) fn warn_at(&self, place: &Place, message: impl Into<String>) {
        self.report.warn(place, message);
    }

    pub(super) fn error(&self, place: &Place, message: impl Into<String>) {
        self.report.error(place, message);
    }

    /// Where the table begins.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it holds no key at all, known or not.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where `key` stands, whatever its value.
    pub(super) fn given(&self, key: &str) -> Option<Place> {
        debug_assert!(self.known.iter().any(|known| known.name == key), "{key} is not in config::keys");
        self.entries.get_key_value(key).map(|(key, _)| self.at(key))
    }

    /// Reports `key` as missing, with `or` added to the advice, unless it is there in some form.
    pub(super) fn require(&self, key: &str, or: &str) {
        if self.given(key).is_none() && !self.meant.contains(&key) && self.report.is_whole() {
            let place = Place { offset: self.place.offset, key: path(&self.place.key, key) };
            self.error(&place, format!("missing: write {}{or}", self.example(key)));
        }
    }

    /// A text that `T` can be made of.
    pub(super) fn text<T>(&self, key: &str) -> Option<Found<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let (place, value) = self.entry(key)?;
        let Some(text) = value.as_str() else {
            return self.misfit(&place, value, "a text", &self.example(key));
        };
        self.keep(place, text.parse())
    }

    /// A whole number that `make` accepts.
    pub(super) fn whole<T, E: Display>(
        &self,
        key: &str,
        make: impl Fn(u64) -> Result<T, E>,
    ) -> Option<Found<T>> {
        let (place, value) = self.entry(key)?;
        let Some(integer) = value.as_integer() else {
            return self.misfit(&place, value, "a whole number", &self.unquoted::<u64>(key, value));
        };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => self.keep(place, make(number)),
            Err(_) if integer.as_str().starts_with('-') => self.keep(
                place,
                Err(format!("{integer} is below zero: write a number such as {}", self.example(key))),
            ),
            Err(_) => self.keep(
                place,
                Err(format!("{integer} is too large: write less, such as {}", self.example(key))),
            ),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Option<Found<bool>> {
        let (place, value) = self.entry(key)?;
        match value.as_bool() {
            Some(value) => Some(Found { value, place }),
            None => self.misfit(&place, value, "true or false", &self.unquoted::<bool>(key, value)),
        }
    }

    /// A table inside this one.
    pub(super) fn table(&self, key: &str, known: &'static [Key]) -> Option<Self> {
        let (place, value) = self.entry(key)?;
        self.opened(place, value, known, &self.example(key))
    }

    /// The tables inside the table `key`, with their names where `N` accepts them.
    pub(super) fn children<N>(&self, key: &str, known: &'static [Key]) -> Vec<(Option<N>, Self)>
    where
        N: FromStr,
        N::Err: Display,
    {
        let Some((parent, value)) = self.entry(key) else { return Vec::new() };
        let Some(entries) = value.as_table() else {
            return self.misfit(&parent, value, "a table", &self.example(key)).unwrap_or_default();
        };
        let mut children = Vec::new();
        for (name, value) in entries {
            let place = Place { offset: name.span().start, key: path(&parent.key, name.get_ref()) };
            let name = self.keep(place.clone(), name.get_ref().parse()).map(|name| name.value);
            let instead = format!("[{}]", place.key);
            children.extend(self.opened(place, value.get_ref(), known, &instead).map(|table| (name, table)));
        }
        children
    }

    /// The tables of the list `key`, in order.
    pub(super) fn tables(&self, key: &str, known: &'static [Key]) -> Vec<Self> {
        let Some((place, value)) = self.entry(key) else { return Vec::new() };
        let Some(list) = value.as_array() else {
            let advice = format!("[[{}]]", place.key);
            return self.misfit(&place, value, "a list of tables", &advice).unwrap_or_default();
        };
        let element = |value: &'t Spanned<DeValue<'t>>| {
            let instead = format!("[[{}]]", place.key);
            self.opened(
                Place { offset: value.span().start, key: place.key.clone() },
                value.get_ref(),
                known,
                &instead,
            )
        };
        list.iter().filter_map(element).collect()
    }

    fn opened(
        &self,
        place: Place,
        value: &'t DeValue<'t>,
        known: &'static [Key],
        instead: &str,
    ) -> Option<Self> {
        match value.as_table() {
            Some(entries) => Some(Self::open(entries, place, known, self.report)),
            None => self.misfit(&place, value, "a table", instead),
        }
    }

    fn entry(&self, key: &str) -> Option<(Place, &'t DeValue<'t>)> {
        self.given(key).zip(self.entries.get(key).map(Spanned::get_ref))
    }

    fn at(&self, key: &Spanned<impl AsRef<str>>) -> Place {
        Place { offset: key.span().start, key: path(&self.place.key, key.get_ref().as_ref()) }
    }

    fn keep<T, E: Display>(&self, place: Place, read: Result<T, E>) -> Option<Found<T>> {
        read.map_err(|error| self.error(&place, error.to_string())).ok().map(|value| Found { value, place })
    }

    /// Reports a value of the wrong type.
    fn misfit<T>(&self, place: &Place, value: &DeValue<'_>, wanted: &str, instead: &str) -> Option<T> {
        self.error(place, format!("{} where {wanted} belongs: write {instead}", described(value)));
        None
    }

    fn example(&self, key: &str) -> String {
        self.known
            .iter()
            .find(|known| known.name == key)
            .map_or_else(String::new, |key| key.example.to_owned())
    }

    /// What to write for a value that may be right but for its quotes.
    fn unquoted<T: FromStr>(&self, key: &str, value: &DeValue<'_>) -> String {
        match value.as_str().filter(|text| text.parse::<T>().is_ok()) {
            Some(text) => format!("{key} = {text} without quotes"),
            None => self.example(key),
        }
    }
}
