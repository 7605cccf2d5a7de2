//! Parts of a limit with fair shares: the capacity and the rate that some keys are sure of.

mod text;
mod under;

use std::sync::Arc;

use super::Key;
use crate::bucket::Pace;

/// The most parts of a limit. Each deal of the pool looks at all of them.
pub const MOST_PARTS: usize = 100;
/// The largest weight of a part.
pub const MOST_WEIGHT: u64 = 1_000_000;
/// The part of all keys that have no other.
pub const REST: &str = "*";

/// The parts of a limit, by weight. Empty for a limit of another algorithm.
///
/// A part is named by a key, or by a pattern that ends in `*`. A key belongs to the part of its own name, else to that of
/// the longest pattern. [`REST`] is one of the parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts(Option<Arc<[(String, u64)]>>);

/// One part under the terms of its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// A key, or a pattern.
    pub name: String,
    /// Its weight among all parts.
    pub weight: u64,
    /// The most tokens that it holds.
    pub capacity: u64,
    /// Its rate.
    pub pace: Pace,
}

/// Why there are no such parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// A weight outside 1 to [`MOST_WEIGHT`].
    #[error("a weight is 1 to 1000000, not {0}")]
    Weight(u64),
    /// A name that no key has, or a pattern of another form.
    #[error("a part is named by a key, or by a pattern with one * at its end, in one line: not {0:?}")]
    Name(String),
    /// Too many parts.
    #[error(
        "a limit has {MOST_PARTS} parts at most, not {0}: give several keys a pattern such as \"free-*\""
    )]
    TooMany(usize),
    /// No part for keys without one.
    #[error("the keys without a part of their own need one, too: write \"*\" = 1")]
    NoRest,
    /// A part that would hold no token.
    #[error(
        "part {name:?} would hold less than one token: write capacity = {least} or more, or other weights"
    )]
    TooSmall {
        /// The part.
        name: String,
        /// The least capacity of the limit.
        least: u128,
    },
    /// A rate that cannot be divided exactly.
    #[error(
        "the rate of part {0:?} has no exact form: write smaller weights, or fewer tokens in a shorter interval"
    )]
    Rate(String),
}

// === impl Part ===

impl Part {
    /// The tokens a second that it is sure of.
    pub fn tokens_per_second(&self) -> f64 {
        self.pace.n as f64 * 1e6 / self.pace.p as f64
    }
}

// === impl Parts ===

impl Parts {
    /// Parts by name and weight.
    ///
    /// # Errors
    /// A wrong name or weight, more than [`MOST_PARTS`], or none of the name [`REST`].
    pub fn new(parts: impl IntoIterator<Item = (String, u64)>) -> Result<Self, PartsError> {
        let mut parts: Vec<(String, u64)> = parts.into_iter().collect();
        for (name, weight) in &parts {
            check_name(name)?;
            check_weight(*weight)?;
        }
        // Keys first, then patterns, the longest first.
        parts.sort_by(|(one, _), (other, _)| {
            let rank = |name: &str| (name.ends_with('*'), std::cmp::Reverse(name.len()));
            rank(one).cmp(&rank(other)).then_with(|| one.cmp(other))
        });
        parts.dedup_by(|(one, _), (other, _)| one == other);
        if parts.len() > MOST_PARTS {
            return Err(PartsError::TooMany(parts.len()));
        }
        if parts.last().is_none_or(|(name, _)| name != REST) {
            return Err(PartsError::NoRest);
        }
        Ok(Self(Some(parts.into())))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Name and weight of each, in order: keys, then patterns, the longest first, then [`REST`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.0.as_deref().unwrap_or_default().iter().map(|(name, weight)| (name.as_str(), *weight))
    }

    /// The part of `key`; `None` where there are no parts.
    pub fn of(&self, key: &str) -> Option<&str> {
        let own = self.iter().map(|(name, _)| name).find(|name| *name == key);
        let is_of = |name: &&str| name.strip_suffix('*').is_some_and(|prefix| key.starts_with(prefix));
        own.or_else(|| self.iter().map(|(name, _)| name).find(is_of))
    }
}

fn check_name(name: &str) -> Result<(), PartsError> {
    let is_key = Key::new(name).is_ok() && !name.contains(['\n', '\r']);
    let is_pattern = name.find('*').is_none_or(|at| at + 1 == name.len());
    if is_key && is_pattern { Ok(()) } else { Err(PartsError::Name(name.chars().take(80).collect())) }
}

/// Checks a weight: 1 to [`MOST_WEIGHT`].
///
/// # Errors
/// [`PartsError::Weight`].
pub const fn check_weight(weight: u64) -> Result<(), PartsError> {
    if weight >= 1 && weight <= MOST_WEIGHT { Ok(()) } else { Err(PartsError::Weight(weight)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Capacity;

    fn parts(of: &[(&str, u64)]) -> Result<Parts, PartsError> {
        Parts::new(of.iter().map(|(name, weight)| ((*name).to_owned(), *weight)))
    }

    fn capacity(tokens: u64) -> Capacity {
        Capacity::new(tokens).unwrap()
    }

    const PER_SECOND: Pace = Pace { n: 1, p: 1_000 };

    #[test]
    fn a_key_belongs_to_its_own_part_or_to_the_longest_pattern() {
        let parts = parts(&[("*", 1), ("free-*", 1), ("acme", 3), ("free-x*", 1), ("free-xyz", 2)]).unwrap();
        let found = ["acme", "acme2", "free-1", "free-xy", "free-xyz", ""].map(|key| parts.of(key).unwrap());
        assert_eq!(found, ["acme", "*", "free-*", "free-x*", "free-xyz", "*"]);
        assert_eq!(Parts::default().of("acme"), None);
    }

    #[test]
    fn parts_have_their_share_and_no_more_in_all() {
        let parts = parts(&[("acme", 3), ("beta", 1), ("*", 3)]).unwrap();
        let under = parts.under(capacity(1_000), PER_SECOND).unwrap();
        let found: Vec<_> = under.iter().map(|part| (part.capacity, part.pace.n, part.pace.p)).collect();
        assert_eq!(found, [(428, 3, 7_000), (142, 1, 7_000), (428, 3, 7_000)]);
        assert_eq!(parts.period(capacity(1_000), PER_SECOND, 100_000), Ok(71_000));
        assert_eq!(parts.period(capacity(1_000), PER_SECOND, 50_000), Ok(50_000));
        assert_eq!(parts.period(capacity(7), PER_SECOND, 50_000), Ok(1_000));
    }

    #[test]
    fn what_cannot_be_divided_is_an_error() {
        assert_eq!(parts(&[("acme", 1)]), Err(PartsError::NoRest));
        assert_eq!(parts(&[("*", 0)]), Err(PartsError::Weight(0)));
        for name in ["", "a*b", "**", "a\nb", &"k".repeat(257)] {
            assert!(matches!(parts(&[("*", 1), (name, 1)]), Err(PartsError::Name(_))), "{name:?}");
        }
        let many: Vec<String> = (0..MOST_PARTS).map(|i| i.to_string()).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|name| (name.as_str(), 1)).chain([("*", 1)]).collect();
        assert_eq!(parts(&many), Err(PartsError::TooMany(MOST_PARTS + 1)));
        let uneven = parts(&[("acme", 9), ("*", 1)]).unwrap();
        let small = PartsError::TooSmall { name: "*".to_owned(), least: 10 };
        assert_eq!(uneven.under(capacity(9), PER_SECOND), Err(small));
        let year = Pace { n: 1, p: 366 * 86_400_000_000 };
        assert_eq!(uneven.under(capacity(90), year), Err(PartsError::Rate("acme".to_owned())));
        assert_eq!(uneven.to_text(capacity(9), PER_SECOND, 1_000), "");
    }

    #[test]
    fn parts_are_read_as_they_were_written() {
        let odd = parts(&[("a b", 2), ("=", 1), ("10.0.*", 5), ("*", 1)]).unwrap();
        let text = odd.to_text(capacity(900), PER_SECOND, 100_000);
        assert_eq!(text.lines().next(), Some("50000"));
        assert_eq!(text.lines().nth(1), Some("2 200 1 4500 a b"));
        assert_eq!(Parts::from_text(&text), Ok(odd));
        assert_eq!(Parts::from_text(""), Ok(Parts::default()));
        assert!(Parts::from_text("7\n1 2 3 4").is_err());
    }
}
