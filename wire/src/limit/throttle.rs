//! Arguments of `CL.THROTTLE`.

/// The largest argument: 2^31 - 1. Products of such arguments do not overflow.
pub const MAX_THROTTLE: u64 = i32::MAX as u64;

/// At most `max_burst` + 1 at once, and `count` every `period` seconds; `quantity` now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    max_burst: u64,
    count: u64,
    period: u64,
    quantity: u64,
}

/// Arguments out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThrottleError {
    /// A number that is too small or too large.
    #[error("{what} is a whole number from {least} to 2147483647 (2^31 - 1), not {given}")]
    Number {
        /// The name of the argument.
        what: &'static str,
        /// Its least value.
        least: u64,
        /// The value given.
        given: u64,
    },
    /// A rate above one every µs.
    #[error("{count} every {period} s are too many: at most 1000000 a second")]
    TooFast {
        /// The count.
        count: u64,
        /// The period in seconds.
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
