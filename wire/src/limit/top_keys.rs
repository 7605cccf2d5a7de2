//! The number of keys of a limit that are told as the most denied ones.

use std::fmt;

use redis::Script;

/// Hexadecimal digits of a hashed key.
const DIGITS: usize = 16;
/// The beginning of a hashed key.
const PREFIX: &str = "sha1:";

/// The number of a limit's keys that are told as the most denied ones: 0 for none, at most 100. They may be told as hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopKeys {
    count: u8,
    is_hashed: bool,
}

/// A number of keys that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most 100 keys are listed, not {0}")]
pub struct TopKeysError(pub u64);

// === impl TopKeys ===

impl TopKeys {
    /// No keys are told, and none are counted.
    pub const NONE: Self = Self { count: 0, is_hashed: false };

    /// The most keys that can be told.
    pub const MOST: Self = Self { count: 100, is_hashed: false };

    /// The number `count`, of keys as they are.
    ///
    /// # Errors
    /// When `count` is above 100.
    pub fn new(count: u64) -> Result<Self, TopKeysError> {
        match u8::try_from(count) {
            Ok(count @ 0..=100) => Ok(Self { count, ..Self::NONE }),
            _ => Err(TopKeysError(count)),
        }
    }

    /// The same number of keys, told as hashes or as they are.
    #[must_use]
    pub const fn hashed(self, is_hashed: bool) -> Self {
        Self { is_hashed, ..self }
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.count as usize
    }

    /// Whether keys leave a worker as hashes only.
    pub const fn is_hashed(self) -> bool {
        self.is_hashed
    }

    /// The text that stands for `key` outside of a worker: the key, or the first 64 bits of its SHA-1.
    pub fn told(self, key: &str) -> String {
        if !self.is_hashed {
            return key.to_owned();
        }
        // The redis crate has the hash of texts.
        let script = Script::new(key);
        let digits = script.get_hash();
        format!("{PREFIX}{}", digits.get(..DIGITS).unwrap_or(digits))
    }

    /// Whether `told` may be shown: a limit that tells hashes shows no text of another form.
    pub fn shows(self, told: &str) -> bool {
        let is_hash = || {
            let digits = told.strip_prefix(PREFIX);
            digits
                .is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        !self.is_hashed || is_hash()
    }
}

impl fmt::Display for TopKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, if self.is_hashed { " hashed" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha1sum_prints_and_nothing_else_is_shown() {
        let clear = TopKeys::new(20).unwrap();
        let hashed = clear.hashed(true);
        assert_eq!((clear.told("alice"), clear.to_string()), ("alice".to_owned(), "20".to_owned()));
        assert_eq!(
            (hashed.told("alice"), hashed.to_string()),
            ("sha1:522b276a356bdf39".to_owned(), "20 hashed".to_owned())
        );
        assert!(hashed.shows(&hashed.told("Zoë\u{0}")) && clear.shows("alice"));
        for other in
            ["", "alice", "sha1:", "sha1:522b276a356bdf3", "sha1:522b276a356bdf399", "sha1:522b276a356bdf3z"]
        {
            assert!(!hashed.shows(other), "{other}");
        }
    }
}
