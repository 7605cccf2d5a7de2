//! What a caller of `CL.THROTTLE` asks for.

/// The largest of its numbers: 2^31 - 1, far beyond use, and none of their products is beyond reckoning.
pub const MAX_THROTTLE: u64 = i32::MAX as u64;

/// At most `max_burst` + 1 at once, and `count` every `period` seconds; `quantity` now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    max_burst: u64,
    count: u64,
    period: u64,
    quantity: u64,
}

/// A call that nobody can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThrottleError {
    /// A number that is too small or too large.
    #[error("{what} is a whole number from {least} to 2147483647 (2^31 - 1), not {given}")]
    Number {
        /// Which of them.
        what: &'static str,
        /// The least it may be.
        least: u64,
        /// What was given.
        given: u64,
    },
    /// More than one every µs.
    #[error("{count} every {period} s are too many: at most 1000000 a second")]
    TooFast {
        /// How many.
        count: u64,
        /// Every so many seconds.
        period: u64,
    },
}

// === impl Throttle ===

impl Throttle {
    /// At most `max_burst` + 1 at once, and `count` every `period` seconds; `quantity` now, 0 to look only.
    ///
    /// # Errors
    /// When a number is above [`MAX_THROTTLE`], or `count` or `period` is 0, or `count` is more than one every µs.
    pub fn new(max_burst: u64, count: u64, period: u64, quantity: u64) -> Result<Self, ThrottleError> {
        let numbers = [
            ("max_burst", 0, max_burst),
            ("count", 1, count),
            ("period", 1, period),
            ("quantity", 0, quantity),
        ];
        for (what, least, given) in numbers {
            if given < least || given > MAX_THROTTLE {
                return Err(ThrottleError::Number { what, least, given });
            }
        }
        if count > period * 1_000_000 {
            return Err(ThrottleError::TooFast { count, period });
        }
        Ok(Self { max_burst, count, period, quantity })
    }

    pub(crate) const fn as_args(self) -> [u64; 4] {
        [self.max_burst, self.count, self.period, self.quantity]
    }
}
