//! The name of a limit.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;

use super::assignment::{LONGEST_PLAN, PlanName, Target};

/// The name of a limit: 1 to 64 of `A-Z a-z 0-9 . _ -`.
///
/// The text is stored inline, so a look-up of a bucket follows no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName(ArrayString<{ LONGEST + 1 + LONGEST_PLAN }>);

/// The longest name in a config, in bytes.
const LONGEST: usize = 64;
/// Endings of the names of trials beside a limit. No name in a config has them.
const CANDIDATE: &str = "~candidate";
const LAZY: &str = "~lazy";
/// Ending of the name of the assignments that the source of a limit has.
const SOURCE: &str = "~source";
/// Stands between the names of a limit and of its plan.
const PLAN: char = '/';

/// A text that is not the name of a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a limit's name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
pub struct NameError(pub String);

// === impl LimitName ===

impl LimitName {
    /// The name of a limit that has none yet.
    pub(super) const NONE: Self = Self(ArrayString::new_const());

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the candidate of this limit.
    #[must_use]
    pub fn candidate(&self) -> Self {
        self.beside(CANDIDATE)
    }

    /// The name of the lazy buckets that this limit is compared with.
    #[must_use]
    pub fn lazy(&self) -> Self {
        self.beside(LAZY)
    }

    /// The name of the assignments that the source of this limit has. Assignments by hand have the name of the limit.
    #[must_use]
    pub fn source(&self) -> Self {
        self.beside(SOURCE)
    }

    /// The name of the plan `plan` of this limit.
    #[must_use]
    pub fn plan(&self, plan: PlanName) -> Self {
        let mut name = self.live().0;
        // The longest two names fit.
        let _ = name.try_push(PLAN);
        let _ = name.try_push_str(plan.as_str());
        Self(name)
    }

    /// The name under which the terms `target` of this limit are published: of a plan, or without one of the limit itself.
    /// `None` for a target without terms.
    pub fn under(&self, target: Option<Target>) -> Option<Self> {
        match target {
            None => Some(self.live()),
            Some(target) => Some(self.plan(target.plan()?)),
        }
    }

    /// The plan that this is, if it is one.
    pub fn as_plan(&self) -> Option<PlanName> {
        self.0.split_once(PLAN)?.1.parse().ok()
    }

    /// Whether it is tried beside a limit, and decides nothing.
    pub fn is_trial(&self) -> bool {
        self.0.contains('~')
    }

    /// Parses the name of a limit's assignments: by hand, or of its source.
    ///
    /// # Errors
    /// When `text` is neither.
    pub(crate) fn of_assignments(text: &str) -> Result<Self, NameError> {
        match text.strip_suffix(SOURCE) {
            Some(own) => own.parse::<Self>().map(|own| own.source()),
            None => text.parse(),
        }
    }

    /// The name of the live limit beside which this one is tried, or of which it is a plan; otherwise this name.
    #[must_use]
    pub fn live(&self) -> Self {
        let own = self.0.split_once(['~', PLAN]).map_or(self.as_str(), |(own, _)| own);
        Self(ArrayString::from(own).unwrap_or(self.0))
    }

    /// Parses a published name: of a limit, of a plan, or of a trial.
    ///
    /// # Errors
    /// When `text` is neither.
    pub fn published(text: &str) -> Result<Self, NameError> {
        let beside = |ending| Some(text.strip_suffix(ending)?.parse::<Self>().map(|own| own.beside(ending)));
        let plan = || {
            let (own, plan) = text.split_once(PLAN)?;
            let plan = plan.parse().map_err(|_| NameError(text.chars().take(80).collect()));
            Some(plan.and_then(|plan| Ok(own.parse::<Self>()?.plan(plan))))
        };
        beside(CANDIDATE).or_else(|| beside(LAZY)).or_else(plan).unwrap_or_else(|| text.parse())
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
            let plan: PlanName = "p".repeat(24).parse().unwrap();
            let of_plan = own.plan(plan);
            assert!(of_plan.as_str().parse::<LimitName>().is_err() && !of_plan.is_trial());
            assert_eq!(LimitName::published(of_plan.as_str()), Ok(of_plan));
            assert_eq!((of_plan.live(), of_plan.as_plan(), own.as_plan()), (own, Some(plan), None));
            assert!(own.candidate().is_trial() && LimitName::published(&format!("{own}/deny")).is_err());
        }
        let source = "n".repeat(64).parse::<LimitName>().unwrap().source();
        assert_eq!(LimitName::of_assignments(source.as_str()), Ok(source));
        assert!(
            LimitName::published(source.as_str()).is_err() && LimitName::of_assignments("a/gold").is_err()
        );
        assert!("n".repeat(65).parse::<LimitName>().is_err());
        assert!(
            LimitName::published("api~candidate~lazy").is_err() && LimitName::published("~lazy").is_err()
        );
    }
}
