//! Reads the tables inside a TOML table.

use std::{fmt::Display, str::FromStr};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    advice::path,
    diagnostics::Location,
    keys::{ConfigKey, Kind},
    raw_table::RawTable,
};

impl<'t> RawTable<'t> {
    /// A table inside this one.
    pub(super) fn table(&self, key: &str, known: &'static [ConfigKey]) -> Option<Self> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Table(_)));
        let (location, value) = self.entry(key)?;
        self.open_value(location, value, known, &self.example(key))
    }

    /// The tables inside the table `key`, with their names where `N` accepts them.
    pub(super) fn children<N>(&self, key: &str, known: &'static [ConfigKey]) -> Vec<(Option<N>, Self)>
    where
        N: FromStr,
        N::Err: Display,
    {
        self.assert_kind(key, |kind| matches!(kind, Kind::Limits(_) | Kind::Plans(_)));
        let Some((parent, entries)) = self.entries_of(key) else { return Vec::new() };
        let mut children = Vec::new();
        for (name, value) in entries {
            let location = Location { offset: name.span().start, key: path(&parent.key, name.get_ref()) };
            let name = self.locate_value(location.clone(), name.get_ref().parse()).map(|name| name.value);
            let instead = format!("[{}]", location.key);
            let table = self.open_value(location, value.get_ref(), known, &instead);
            children.extend(table.map(|table| (name, table)));
        }
        children
    }

    /// The entries of the table `key` by their names: texts, or tables.
    pub(super) fn assigned(
        &self,
        key: &str,
        known: &'static [ConfigKey],
    ) -> Vec<(String, Location, Result<&'t str, Self>)> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Assigned(_)));
        let Some((parent, entries)) = self.entries_of(key) else { return Vec::new() };
        let open = |(name, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let name: &Spanned<std::borrow::Cow<'t, str>> = name;
            let location = Location { offset: name.span().start, key: path(&parent.key, name.get_ref()) };
            let entry = match value.get_ref().as_str() {
                Some(text) => Ok(text),
                None => {
                    let instead = "the name of a plan, such as \"gold\"";
                    Err(self.open_value(location.clone(), value.get_ref(), known, instead)?)
                }
            };
            Some((name.get_ref().clone().into_owned(), location, entry))
        };
        entries.iter().filter_map(open).collect()
    }

    /// The entries of the table `key` by their names: whole numbers that `check` accepts. `None` if any is wrong.
    pub(super) fn weights<E: Display>(
        &self,
        key: &str,
        check: impl Fn(u64) -> Result<(), E>,
    ) -> Option<Vec<(String, u64)>> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Weights(_)));
        let (parent, entries) = self.entries_of(key)?;
        let weight = |(name, value): (&Spanned<std::borrow::Cow<'t, str>>, &'t Spanned<DeValue<'t>>)| {
            let location = Location { offset: name.span().start, key: path(&parent.key, name.get_ref()) };
            let whole = value.get_ref().as_integer();
            let Some(whole) = whole.and_then(|whole| u64::from_str_radix(whole.as_str(), whole.radix()).ok())
            else {
                return self.wrong_type(
                    &location,
                    value.get_ref(),
                    "a whole number above 0",
                    "a weight such as 1",
                );
            };
            let checked = check(whole).map(|()| (name.get_ref().clone().into_owned(), whole));
            self.locate_value(location, checked).map(|weight| weight.value)
        };
        // Reads every one before it stops at a wrong one, so that all problems are reported.
        let weights: Vec<Option<(String, u64)>> = entries.iter().map(weight).collect();
        weights.into_iter().collect()
    }

    /// The entries of the table `key`, and where it stands.
    fn entries_of(&self, key: &str) -> Option<(Location, &'t DeTable<'t>)> {
        let (location, value) = self.entry(key)?;
        match value.as_table() {
            Some(entries) => Some((location, entries)),
            None => self.wrong_type(&location, value, "a table", &self.example(key)),
        }
    }

    /// The tables of the list `key`, in order.
    pub(super) fn tables(&self, key: &str, known: &'static [ConfigKey]) -> Vec<Self> {
        self.assert_kind(key, |kind| matches!(kind, Kind::Tables(_)));
        let Some((location, value)) = self.entry(key) else { return Vec::new() };
        let instead = format!("[[{}]]", location.key);
        let Some(list) = value.as_array() else {
            return self.wrong_type(&location, value, "a list of tables", &instead).unwrap_or_default();
        };
        let open = |value: &'t Spanned<DeValue<'t>>| {
            let location = Location { offset: value.span().start, key: location.key.clone() };
            self.open_value(location, value.get_ref(), known, &instead)
        };
        list.iter().filter_map(open).collect()
    }

    fn open_value(
        &self,
        location: Location,
        value: &'t DeValue<'t>,
        known: &'static [ConfigKey],
        instead: &str,
    ) -> Option<Self> {
        match value.as_table() {
            Some(entries) => Some(Self::open(entries, location, known, self.diagnostics)),
            None => self.wrong_type(&location, value, "a table", instead),
        }
    }
}
