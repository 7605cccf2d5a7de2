//! Penalties of a limit: keys that are denied again and again get nothing for a while.

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

/// The longest block, and the longest time within which denied takes count.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest of both.
const SHORTEST: Duration = Duration::from_secs(1);
/// Most denied takes before a block.
const MOST_AFTER: u64 = 1_000_000;
/// The most that one block is longer than the one before.
const MOST_FACTOR: u64 = 10;

/// A key with so many denied takes within a time is blocked: none of its takes is allowed until the block ends. Each
/// further block is longer than the one before by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    after: u32,
    within: Duration,
    block: Duration,
    factor: u8,
    longest: Duration,
}

/// A penalty out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PenaltyError {
    /// `after` is not from 1 to 1,000,000.
    #[error("a key is blocked after 1 to 1000000 denied takes, not {0}")]
    After(u64),
    /// `factor` is not from 1 to 10.
    #[error("a block is 1 to 10 times as long as the one before, not {0}")]
    Factor(u64),
    /// A time is not from one second to one day.
    #[error("write 1s to 1d")]
    Time,
    /// The longest block is shorter than the first.
    #[error("the longest block is shorter than the first: write max = block or more")]
    Longest,
    /// A text that is not five numbers.
    #[error("a penalty is five numbers")]
    Form,
}

// === impl Penalty ===

impl Penalty {
    /// The times that a penalty may have.
    pub const TIMES: RangeInclusive<Duration> = SHORTEST..=LONGEST;
    /// Each block is twice as long as the one before, unless told otherwise.
    pub const DEFAULT_FACTOR: u64 = 2;
    /// No block is longer, unless told otherwise.
    pub const DEFAULT_LONGEST: Duration = LONGEST;

    /// A penalty for a key with `after` denied takes within the time `within`. The first block takes `block`, each
    /// further one `factor` times as long as the one before, and `longest` at most.
    ///
    /// # Errors
    /// When a number is out of bounds.
    pub fn new(
        after: u64,
        within: Duration,
        block: Duration,
        factor: u64,
        longest: Duration,
    ) -> Result<Self, PenaltyError> {
        if [within, block, longest].iter().any(|time| !Self::TIMES.contains(time)) {
            return Err(PenaltyError::Time);
        }
        if longest < block {
            return Err(PenaltyError::Longest);
        }
        match (u32::try_from(after), u8::try_from(factor)) {
            (Ok(after), Ok(factor)) => {
                if after == 0 || u64::from(after) > MOST_AFTER {
                    return Err(PenaltyError::After(after.into()));
                }
                if factor == 0 || u64::from(factor) > MOST_FACTOR {
                    return Err(PenaltyError::Factor(factor.into()));
                }
                Ok(Self { after, within, block, factor, longest })
            }
            (Err(_), _) => Err(PenaltyError::After(after)),
            _ => Err(PenaltyError::Factor(factor)),
        }
    }

    /// Denied takes that block a key.
    pub const fn after(self) -> u64 {
        self.after as u64
    }

    /// The time within which denied takes count. It begins with the first of them.
    pub const fn within(self) -> Duration {
        self.within
    }

    /// The length of the first block.
    pub const fn block(self) -> Duration {
        self.block
    }

    /// The length of a block in lengths of the one before.
    pub const fn factor(self) -> u64 {
        self.factor as u64
    }

    /// The longest block.
    pub const fn longest(self) -> Duration {
        self.longest
    }
}

/// The form in a record: denied takes, µs, µs, factor, µs.
impl fmt::Display for Penalty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [within, block, longest] = [self.within, self.block, self.longest].map(|time| time.as_micros());
        write!(f, "{} {within} {block} {} {longest}", self.after, self.factor)
    }
}

impl FromStr for Penalty {
    type Err = PenaltyError;

    fn from_str(text: &str) -> Result<Self, PenaltyError> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([after, within, block, factor, longest]) => {
                let [within, block, longest] =
                    [within, block, longest].map(|micros| Duration::from_micros(*micros));
                Self::new(*after, within, block, *factor, longest)
            }
            _ => Err(PenaltyError::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_penalty_is_read_as_it_was_written_and_bounded() {
        let seconds = Duration::from_secs;
        let penalty = Penalty::new(5, seconds(60), seconds(600), 2, LONGEST).unwrap();
        assert_eq!(penalty.to_string().parse(), Ok(penalty));
        let new = |after, within, block, factor, longest| {
            Penalty::new(after, seconds(within), seconds(block), factor, seconds(longest)).unwrap_err()
        };
        assert_eq!(new(0, 1, 1, 1, 1), PenaltyError::After(0));
        assert_eq!(new(1 << 40, 1, 1, 1, 1), PenaltyError::After(1 << 40));
        assert_eq!(new(1, 1, 1, 0, 1), PenaltyError::Factor(0));
        assert_eq!(new(1, 1, 1, 300, 1), PenaltyError::Factor(300));
        assert_eq!(new(1, 0, 1, 1, 1), PenaltyError::Time);
        assert_eq!(new(1, 1, 1, 1, 86_401), PenaltyError::Time);
        assert_eq!(new(1, 1, 9, 1, 8), PenaltyError::Longest);
        assert_eq!("5 1 x".parse::<Penalty>(), Err(PenaltyError::Form));
    }
}
