//! The namespace: the first part of every key.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;
use redis::aio::{ConnectionLike, MultiplexedConnection};

/// The first part of every key of topup, so that several teams can share a Redis: 1 to 32 of `A-Z a-z 0-9 . _ -`.
///
/// A colon follows it in each key, and no namespace has one. Two namespaces therefore have no key in common, and a pattern
/// of one matches no key of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(ArrayString<LONGEST>);

/// The longest namespace, in bytes.
const LONGEST: usize = 32;
const DEFAULT: &str = "topup";

/// A text that is not a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a namespace: use 1 to 32 of the characters A-Z a-z 0-9 . _ -")]
pub struct NamespaceError(String);

/// A connection whose commands are for the keys of one namespace.
pub trait InNamespace: ConnectionLike {
    /// The namespace.
    fn namespace(&self) -> Namespace;
}

// === impl Namespace ===

impl Namespace {
    /// The namespace as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the one of a config and a URL that name none.
    pub fn is_default(&self) -> bool {
        self.as_str() == DEFAULT
    }
}

impl Default for Namespace {
    fn default() -> Self {
        // The text fits.
        Self(ArrayString::from(DEFAULT).unwrap_or_default())
    }
}

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(text: &str) -> Result<Self, NamespaceError> {
        // Neither braces, which would choose another hash slot, nor colons, nor what has a meaning in patterns.
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match ArrayString::from(text) {
            Ok(namespace) if !text.is_empty() && text.bytes().all(legal) => Ok(Self(namespace)),
            // An error message must stay readable whatever a caller passed.
            _ => Err(NamespaceError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

// === impl InNamespace ===

/// A connection of the redis crate alone names no namespace.
impl InNamespace for MultiplexedConnection {
    fn namespace(&self) -> Namespace {
        Namespace::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_no_character_with_a_meaning_in_keys_or_patterns() {
        for good in ["topup", "a", "Shop-2", "eu.shop_1", &"n".repeat(32)] {
            assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
        }
        let long = "n".repeat(33);
        for bad in [
            "", " ", "a b", "a:b", "{a}", "a*", "a?", "[a]", "a\\", "^a", "ä", "a\n", "a\0", "a/b", "a%62",
            &long,
        ] {
            let error = bad.parse::<Namespace>().unwrap_err().to_string();
            assert!(error.contains("is not a namespace: use 1 to 32"), "{error}");
        }
        let error = "*".repeat(1_000).parse::<Namespace>().unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
        assert!(Namespace::default().is_default() && !"topup2".parse::<Namespace>().unwrap().is_default());
    }
}
