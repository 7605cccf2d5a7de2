//! The name of a limit.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;

/// The name of a limit: 1 to 64 of `A-Z a-z 0-9 . _ -`.
///
/// It holds its text itself: whoever looks up a bucket by it follows no pointer for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName(ArrayString<74>);

/// The longest name a limit of a config has.
const LONGEST: usize = 64;
/// What the names of buckets beside a limit's own end with; no limit of a config has such a name.
const CANDIDATE: &str = "~candidate";
const LAZY: &str = "~lazy";

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

    /// What the candidate of this limit is published as.
    #[must_use]
    pub fn candidate(&self) -> Self {
        self.beside(CANDIDATE)
    }

    /// What the lazy buckets that this limit is compared with are published as.
    #[must_use]
    pub fn lazy(&self) -> Self {
        self.beside(LAZY)
    }

    /// The limit beside which it is tried; the limit itself, when it is one.
    #[must_use]
    pub fn live(&self) -> Self {
        let own = self.0.split_once('~').map_or(self.as_str(), |(own, _)| own);
        Self(ArrayString::from(own).unwrap_or(self.0))
    }

    /// A name as it is published: of a limit, or of what is tried beside one.
    ///
    /// # Errors
    /// When it is neither.
    pub fn published(text: &str) -> Result<Self, NameError> {
        let beside = |ending| Some(text.strip_suffix(ending)?.parse::<Self>().map(|own| own.beside(ending)));
        beside(CANDIDATE).or_else(|| beside(LAZY)).unwrap_or_else(|| text.parse())
    }

    fn beside(&self, ending: &str) -> Self {
        let mut name = self.live().0;
        // The longest name and the longest ending fit.
        let _ = name.try_push_str(ending);
        Self(name)
    }
}

impl FromStr for LimitName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match ArrayString::from(text) {
            Ok(name) if (1..=LONGEST).contains(&text.len()) && text.bytes().all(legal) => Ok(Self(name)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_of_a_config_has_the_name_of_what_is_tried_beside_one() {
        let longest: LimitName = "n".repeat(64).parse().unwrap();
        for own in [longest, "api".parse().unwrap()] {
            for beside in [own.candidate(), own.lazy()] {
                assert!(beside.as_str().parse::<LimitName>().is_err(), "{beside}");
                assert_eq!(LimitName::published(beside.as_str()), Ok(beside));
                assert_eq!(beside.live(), own);
                assert!(beside.as_str().starts_with(own.as_str()) && beside != own);
            }
            assert_eq!((LimitName::published(own.as_str()), own.live()), (Ok(own), own));
            assert_ne!(own.candidate(), own.lazy());
        }
        assert!("n".repeat(65).parse::<LimitName>().is_err());
        assert!(
            LimitName::published("api~candidate~lazy").is_err() && LimitName::published("~lazy").is_err()
        );
    }
}
