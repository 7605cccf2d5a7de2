//! Numbers, as Redis reads and writes them.

use super::reply::Reply;

/// A whole number, in the one form that Redis takes for one.
pub(super) fn number(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A number as Redis writes it.
pub(super) fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 9.0e18 {
        (number as i64).to_string()
    } else {
        number.to_string()
    }
}

/// The sum, once `keep` has kept it; an error if it is too large.
pub(super) fn add(held: i64, by: i64, keep: impl FnOnce(i64)) -> Reply {
    match held.checked_add(by) {
        Some(sum) => {
            keep(sum);
            Reply::Number(sum)
        }
        None => Reply::error("ERR increment or decrement would overflow"),
    }
}

pub(super) fn not_a_number() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}
