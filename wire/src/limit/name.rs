//! The name of a limit.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;

/// The name of a limit: 1 to 64 of `A-Z a-z 0-9 . _ -`.
///
/// It holds its text itself: whoever looks up a bucket by it follows no pointer for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName(ArrayString<64>);

/// A text that is no limit's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a limit's name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
pub struct NameError(pub String);

// === impl LimitName ===

impl LimitName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LimitName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match ArrayString::from(text) {
            Ok(name) if !text.is_empty() && text.bytes().all(legal) => Ok(Self(name)),
            // An error message must stay readable whatever a caller passed as a name.
            _ => Err(NameError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::borrow::Borrow<str> for LimitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
