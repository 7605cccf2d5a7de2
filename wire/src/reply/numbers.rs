//! Whole numbers in replies.

use redis::{ParsingError, Value, from_redis_value};

/// `N` whole numbers.
pub(super) fn numbers<const N: usize>(value: Value) -> Result<[i64; N], ParsingError> {
    exactly(from_redis_value(value)?)
}

pub(super) fn exactly<const N: usize>(numbers: Vec<i64>) -> Result<[i64; N], ParsingError> {
    let given = numbers.len();
    numbers.try_into().map_err(|_| ParsingError::from(format!("{N} numbers expected, {given} given")))
}

/// A number that must not be negative.
pub(super) fn count(number: i64) -> Result<u64, ParsingError> {
    u64::try_from(number).map_err(|_| ParsingError::from(format!("{number} is not a count")))
}

/// A generation; -1 stands for none.
pub(super) fn generation(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}
