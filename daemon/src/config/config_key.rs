//! A key of a config, with its kind and meaning.

/// The name of a limit, or of a config.
pub(super) const NAME: &str = "^[A-Za-z0-9._-]{1,64}$";
/// The name of a plan.
pub(super) const PLAN_NAME: &str = "^[A-Za-z0-9._-]{1,24}$";
/// A rate, such as `10/min`.
pub(super) const RATE: &str = r"^\s*[0-9_]*[0-9][0-9_]*\s*/\s*([0-9_]*[0-9][0-9_]*)?\s*(ms|s|m|min|h|d)\s*$";
/// A length of time, such as `100ms`.
pub(super) const TIME: &str = r"^\s*[0-9][0-9_]*\s*(ms|s|m|min|h|d)\s*$";

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    /// An example of the key with a value, for advice in problems.
    pub(super) example: &'static str,
    pub(super) kind: Kind,
    /// Its meaning, for the schema and the reference page.
    pub(super) about: &'static str,
    /// Whether each such table has to have it.
    pub(super) is_needed: bool,
    /// The value of an absent key as TOML, if it has one.
    pub(super) default: Option<&'static str>,
}

/// The values that a key may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A text that a pattern matches. Every legal text matches; more may.
    Form(&'static str),
    /// One of some words.
    Words(fn() -> Vec<&'static str>),
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// `true` or `false`.
    Flag,
    /// A table.
    Table(&'static [ConfigKey]),
    /// A list of tables.
    Tables(&'static [ConfigKey]),
    /// Tables by the names of limits.
    Limits(&'static [ConfigKey]),
    /// Tables by the names of plans.
    Plans(&'static [ConfigKey]),
    /// Texts, or tables of these keys, by any text.
    Assigned(&'static [ConfigKey]),
    /// An instant, as a date of TOML or as a text.
    Instant,
    /// Whole numbers up to this by any text.
    Weights(u64),
}

// === impl ConfigKey ===

impl ConfigKey {
    /// The same, for a key that each table has to have.
    pub(super) const fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    /// The key with the value that stands for an absent one.
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// A key that a table need not have, without a default.
pub(super) const fn key(
    name: &'static str,
    example: &'static str,
    kind: Kind,
    about: &'static str,
) -> ConfigKey {
    ConfigKey { name, example, kind, about, is_needed: false, default: None }
}
