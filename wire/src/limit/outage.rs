//! The outage policy of a limit.

use std::str::FromStr;

use super::UnknownWord;

/// The decision of a worker while Redis gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnOutage {
    /// Every take is denied.
    Deny,
    /// Every take is allowed.
    Allow,
    /// A bucket in the worker's memory decides. It has the worker's share of capacity and rate.
    Local,
}

// === impl OnOutage ===

impl OnOutage {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Deny, Self::Allow, Self::Local];

    /// The word in config and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allow => "allow",
            Self::Local => "local",
        }
    }
}

impl FromStr for OnOutage {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == word);
        known.ok_or_else(|| UnknownWord::new(word, Self::ALL.map(Self::as_str)))
    }
}
