//! Assignments of keys to plans.

use std::{fmt, str::FromStr};

use arrayvec::ArrayString;

/// The longest name of a plan, in bytes.
pub(super) const LONGEST_PLAN: usize = 24;
const EXEMPT: &str = "exempt";
const DENY: &str = "deny";

/// The name of a plan: 1 to 24 of `A-Z a-z 0-9 . _ -`, but neither `exempt` nor `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanName(ArrayString<LONGEST_PLAN>);

/// A text that names no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a plan's name: use 1 to 24 of the characters A-Z a-z 0-9 . _ -, and not the words exempt and deny"
)]
pub struct PlanNameError(pub String);

/// The terms of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The terms of a plan.
    Plan(PlanName),
    /// None: all takes are allowed.
    Exempt,
    /// None: all takes are denied.
    Deny,
}

/// An assignment of a key, or of all keys that match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// The terms.
    pub target: Target,
    /// The end of the assignment, in µs of Redis `TIME`; `None` for one without end.
    pub until: Option<u64>,
}

/// A text that is no table of plans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no line of a table of plans")]
pub struct PlansError(pub String);

// === impl PlanName ===

impl PlanName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PlanName {
    type Err = PlanNameError;

    fn from_str(text: &str) -> Result<Self, PlanNameError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match ArrayString::from(text) {
            Ok(name) if !text.is_empty() && text.bytes().all(legal) && ![EXEMPT, DENY].contains(&text) => {
                Ok(Self(name))
            }
            _ => Err(PlanNameError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

// === impl Target ===

impl Target {
    /// The word in config, records and files: the plan's name, `exempt` or `deny`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Plan(plan) => plan.as_str(),
            Self::Exempt => EXEMPT,
            Self::Deny => DENY,
        }
    }

    /// The plan, if it is one.
    pub const fn plan(self) -> Option<PlanName> {
        match self {
            Self::Plan(plan) => Some(plan),
            Self::Exempt | Self::Deny => None,
        }
    }
}

impl FromStr for Target {
    type Err = PlanNameError;

    fn from_str(word: &str) -> Result<Self, PlanNameError> {
        match word {
            EXEMPT => Ok(Self::Exempt),
            DENY => Ok(Self::Deny),
            _ => word.parse().map(Self::Plan),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

// === impl Assignment ===

impl Assignment {
    /// Whether it holds at `now`, in µs of Redis `TIME`.
    pub fn holds_at(&self, now: u64) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// `plan`, or `plan until`.
impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target)?;
        self.until.map_or(Ok(()), |until| write!(f, " {until}"))
    }
}

impl FromStr for Assignment {
    type Err = PlansError;

    fn from_str(text: &str) -> Result<Self, PlansError> {
        let wrong = || PlansError(text.chars().take(80).collect());
        let (word, until) = match text.split_once(' ') {
            Some((word, until)) => (word, Some(until.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        Ok(Self { target: word.parse().map_err(|_| wrong())?, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plan_has_the_name_of_what_is_none() {
        for wrong in ["", "exempt", "deny", "a b", "a/b", &"n".repeat(25)] {
            assert!(wrong.parse::<PlanName>().is_err(), "{wrong}");
        }
        assert_eq!("deny".parse(), Ok(Target::Deny));
    }
}
