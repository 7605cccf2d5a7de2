//! Rates: a whole number of tokens every interval.

use std::{fmt, str::FromStr, time::Duration};

use super::MAX_TOKENS;
use crate::bucket::Pace;

/// The shortest interval of a rate.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The longest interval of a rate: 366 days.
pub const MAX_INTERVAL: Duration = Duration::from_secs(366 * 86_400);

/// The bounds of a limit with `gcra`, see [`Pace::can_rest`]; advice follows.
pub const GCRA_BOUNDS: &str =
    "gcra counts at most 1000000 tokens a second, and a capacity that fills within 50 years";

/// The units of an interval and their length in µs, the longest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// Tokens per interval, written `50/s`, `1/60s`, `10/min`, `1000/h`, `5/1d` or `1/250ms`.
///
/// Two rates are equal when they give as many tokens in the same time: `60/min` equals `1/s`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    tokens: u64,
    micros: u64,
}

/// Why a text or a pair of numbers is not a [`Rate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not of the form tokens/interval.
    #[error(
        "{0:?} is not a rate: write tokens/interval, such as \"50/s\", \"1/60s\", \"10/min\", \"1000/h\" or \"5/1d\""
    )]
    Form(String),
    /// A fraction of a token per interval.
    #[error(
        "{given:?} has a fraction of a token: write whole tokens over a longer interval, such as {instead:?}"
    )]
    Fraction {
        /// The text as given.
        given: String,
        /// The same kind of rate in whole tokens.
        instead: String,
    },
    /// An unknown unit.
    #[error("{unit:?} is not a unit of time: use ms, s, min, h or d, such as \"10/min\"")]
    Unit {
        /// The unit as given.
        unit: String,
    },
    /// No tokens, or too many.
    #[error("a rate gives 1 to 9007199254740992 (2^53) whole tokens per interval")]
    Tokens,
    /// An interval too short or too long.
    #[error("the interval of a rate is 1ms to 366d")]
    Interval,
}

// === impl Rate ===

impl Rate {
    /// `tokens` every `interval`.
    ///
    /// # Errors
    /// When `tokens` is 0 or above [`MAX_TOKENS`], or `interval` is outside [`MIN_INTERVAL`] to
    /// [`MAX_INTERVAL`] or not a whole number of microseconds.
    pub fn new(tokens: u64, interval: Duration) -> Result<Self, RateError> {
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(RateError::Tokens);
        }
        Ok(Self { tokens, micros: whole_micros(interval).ok_or(RateError::Interval)? })
    }

    /// Tokens per interval, as written.
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// The interval, as written.
    pub const fn interval(self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// The rate in lowest terms: `(n, p)`, n tokens every p µs.
    pub const fn lowest_terms(self) -> (u64, u64) {
        in_lowest_terms(self.tokens, self.micros)
    }

    /// The same as a [`Pace`].
    pub const fn pace(self) -> Pace {
        let (n, p) = self.lowest_terms();
        Pace { n, p }
    }

    /// Tokens per second, rounded as a double is: for people, never for arithmetic on tokens.
    pub fn per_second(self) -> f64 {
        self.tokens as f64 * 1e6 / self.micros as f64
    }
}

impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        self.lowest_terms() == other.lowest_terms()
    }
}

impl Eq for Rate {}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let form = || RateError::Form(text.chars().take(80).collect());
        let (tokens, interval) = text.split_once('/').ok_or_else(form)?;
        let (tokens, interval) = (tokens.trim(), interval.trim());
        if tokens.contains('.') {
            return Err(fraction(text, tokens, interval));
        }
        let (count, unit) =
            interval.split_at(interval.find(|c: char| !c.is_ascii_digit() && c != '_').ok_or_else(form)?);
        let count =
            if count.is_empty() { 1 } else { whole(count).ok_or_else(form)?.ok_or(RateError::Interval)? };
        let unit = unit.trim();
        let (_, micros) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| RateError::Unit { unit: unit.to_owned() })?;
        let tokens = whole(tokens).ok_or_else(form)?.ok_or(RateError::Tokens)?;
        Self::new(tokens, Duration::from_micros(count.checked_mul(*micros).ok_or(RateError::Interval)?))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(name, micros)| *name != "m" && self.micros.is_multiple_of(*micros));
        // An interval made by `new` may be finer than the smallest unit; then it is shown in µs.
        let (name, micros) = unit.copied().unwrap_or(("us", 1));
        match self.micros / micros {
            1 => f.pad(&format!("{}/{name}", self.tokens)),
            count => f.pad(&format!("{}/{count}{name}", self.tokens)),
        }
    }
}

/// An interval in µs. `None` outside [`MIN_INTERVAL`] to [`MAX_INTERVAL`], and with a part of a µs.
pub(super) fn whole_micros(interval: Duration) -> Option<u64> {
    let whole = interval.subsec_nanos().is_multiple_of(1_000);
    // At most 366 days: far below 2^64 µs.
    ((MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) && whole).then_some(interval.as_micros() as u64)
}

/// Parses a whole number. The inner `None` is one that is too large to hold.
fn whole(text: &str) -> Option<Option<u64>> {
    let digits = text.replace('_', "");
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| digits.parse().ok())
}

/// The error for a fraction, with the same rate in whole tokens as the advice.
fn fraction(given: &str, tokens: &str, interval: &str) -> RateError {
    let (count, unit) = interval.split_at(interval.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
    let count = count.parse::<u64>().unwrap_or(1);
    let places = tokens.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exact =
        tokens.replace('.', "").parse::<u64>().ok().filter(|n| *n > 0).zip(10_u64.checked_pow(places as u32));
    let (n, p) = exact.map_or((1, 2), |(n, scale)| in_lowest_terms(n, scale.saturating_mul(count)));
    RateError::Fraction { given: given.to_owned(), instead: format!("{n}/{p}{unit}") }
}

/// Both numbers divided by their greatest common divisor.
const fn in_lowest_terms(n: u64, p: u64) -> (u64, u64) {
    let (mut a, mut b) = (n, p);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (n / a, p / a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_written() {
        for (text, tokens, millis, shown) in [
            ("3/s", 3, 1_000, "3/s"),
            ("1/60s", 1, 60_000, "1/min"),
            ("10/min", 10, 60_000, "10/min"),
            ("10/m", 10, 60_000, "10/min"),
            ("1000/h", 1000, 3_600_000, "1000/h"),
            ("5/1d", 5, 86_400_000, "5/d"),
            ("1_000 / 250ms", 1000, 250, "1000/250ms"),
            ("1/366d", 1, 366 * 86_400_000, "1/366d"),
            ("9007199254740992/1ms", MAX_TOKENS, 1, "9007199254740992/ms"),
        ] {
            let rate: Rate = text.parse().expect(text);
            assert_eq!(
                (rate.tokens(), rate.interval(), rate.to_string()),
                (tokens, Duration::from_millis(millis), shown.to_owned())
            );
            assert_eq!(shown.parse(), Ok(rate));
        }
    }

    #[test]
    fn wrong_rates_say_what_to_write() {
        for (text, message) in [
            ("fast", "is not a rate"),
            ("5", "is not a rate"),
            ("/s", "is not a rate"),
            ("5/", "is not a rate"),
            ("-1/s", "is not a rate"),
            ("5/10", "is not a rate"),
            ("0.5/s", "such as \"1/2s\""),
            ("2.5/s", "such as \"5/2s\""),
            ("5/fortnight", "not a unit of time"),
            ("5/M", "not a unit of time"),
            ("0/s", "1 to 9007199254740992"),
            ("9007199254740993/s", "1 to 9007199254740992"),
            ("99999999999999999999/s", "1 to 9007199254740992"),
            ("1/0s", "1ms to 366d"),
            ("1/367d", "1ms to 366d"),
            ("1/99999999999999999999d", "1ms to 366d"),
        ] {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn equal_rates_are_equal_however_written() {
        assert_eq!("60/min".parse::<Rate>(), "1/s".parse());
        assert_eq!("7/min".parse::<Rate>().unwrap().lowest_terms(), (7, 60_000_000));
    }
}
