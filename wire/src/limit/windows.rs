//! Rules about windows of time.

use std::{fmt, str::FromStr, time::Duration};

use super::{Capacity, MAX_INTERVAL, Rate, rate::whole_micros};

/// The most rules of one limit.
pub const MAX_RULES: usize = 8;
/// The most tokens a window may allow: 2^44. Scripts divide by them, exactly up to here.
pub const MAX_WINDOW_TOKENS: u64 = 1 << 44;

/// At most a number of tokens within a window of time. A window includes one of its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    tokens: Capacity,
    micros: u64,
}

/// Rules that must all admit a take, sorted by the length of their windows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// The rules; the last one is repeated up to the end.
    rules: [Rule; MAX_RULES],
    count: usize,
    aligned: bool,
}

/// Why there are no such windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowsError {
    /// No tokens, or too many.
    #[error("a window admits 1 to 17592186044416 (2^44) tokens, not {0}")]
    Tokens(u64),
    /// Too short or too long.
    #[error("a window lasts 1ms to 366d")]
    Length,
    /// No rules, or too many.
    #[error("a limit has 1 to 8 rules, not {0}")]
    Rules(usize),
    /// Two rules with one window.
    #[error("two rules have the same window: the one with the smaller limit is enough")]
    Twice,
    /// A text that is not the published form of [`Windows`].
    #[error("not pairs of tokens and µs")]
    Form,
}

// === impl Rule ===

impl Rule {
    /// The longest window.
    pub const LONGEST: Duration = MAX_INTERVAL;

    /// At most `tokens` within any `window`.
    ///
    /// # Errors
    /// When `tokens` is not 1 to 2^44, or `window` not a whole number of µs from [`MIN_INTERVAL`](super::MIN_INTERVAL) to
    /// [`MAX_INTERVAL`].
    pub fn new(tokens: u64, window: Duration) -> Result<Self, WindowsError> {
        let capacity = Capacity::new(tokens).ok().filter(|_| tokens <= MAX_WINDOW_TOKENS);
        let tokens = capacity.ok_or(WindowsError::Tokens(tokens))?;
        Ok(Self { tokens, micros: whole_micros(window).ok_or(WindowsError::Length)? })
    }

    /// The most tokens within a window.
    pub const fn tokens(self) -> Capacity {
        self.tokens
    }

    /// The length of the window, in µs.
    pub const fn micros(self) -> u64 {
        self.micros
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A rule has the form of a rate, and its bounds.
        match Rate::new(self.tokens.get(), Duration::from_micros(self.micros)) {
            Ok(rate) => rate.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

// === impl Windows ===

impl Windows {
    /// These rules; with `aligned`, a window that begins at its first take begins at a multiple of its length instead,
    /// counted since the Unix epoch.
    ///
    /// # Errors
    /// When there are none or more than [`MAX_RULES`], or two with the same window.
    pub fn new(rules: &[Rule], aligned: bool) -> Result<Self, WindowsError> {
        let count = rules.len();
        let Some(last) = rules.last().filter(|_| count <= MAX_RULES) else {
            return Err(WindowsError::Rules(count));
        };
        let mut sorted = [*last; MAX_RULES];
        sorted[..count].copy_from_slice(rules);
        sorted[..count].sort_unstable_by_key(|rule| rule.micros);
        if sorted[..count].windows(2).any(|pair| pair[0].micros == pair[1].micros) {
            return Err(WindowsError::Twice);
        }
        // Equal rules in any order make equal windows.
        let longest = sorted[count - 1];
        sorted[count..].fill(longest);
        Ok(Self { rules: sorted, count, aligned })
    }

    /// The windows of rules as people write them, such as `100/min`.
    ///
    /// # Errors
    /// The first mistake, for people.
    pub fn written(rules: &[&str], aligned: bool) -> Result<Self, String> {
        let rule = |rule: &&str| {
            let rate = rule.parse::<Rate>().map_err(|error| error.to_string())?;
            Rule::new(rate.tokens(), rate.interval()).map_err(|error| error.to_string())
        };
        let rules = rules.iter().map(rule).collect::<Result<Vec<_>, String>>()?;
        Self::new(&rules, aligned).map_err(|error| error.to_string())
    }

    /// The rules, the shortest window first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules[..self.count]
    }

    /// The length of the longest window, in µs.
    pub const fn longest(&self) -> u64 {
        self.rules[MAX_RULES - 1].micros
    }

    /// Whether windows begin at multiples of their length.
    pub const fn aligned(&self) -> bool {
        self.aligned
    }

    /// The most tokens that can be taken at once.
    pub fn capacity(&self) -> Capacity {
        self.rules.iter().fold(self.rules[0].tokens, |least, rule| least.min(rule.tokens))
    }

    /// The form for scripts: tokens and µs of each rule, in pairs.
    pub fn as_pairs(&self) -> String {
        let pair = |rule: &Rule| format!("{} {}", rule.tokens, rule.micros);
        self.rules().iter().map(pair).collect::<Vec<_>>().join(" ")
    }

    /// The inverse of [`Windows::as_pairs`].
    ///
    /// # Errors
    /// [`WindowsError`].
    pub(crate) fn from_pairs(pairs: &str, aligned: bool) -> Result<Self, WindowsError> {
        let numbers: Result<Vec<u64>, _> = pairs.split(' ').map(u64::from_str).collect();
        let numbers = numbers.map_err(|_| WindowsError::Form)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(WindowsError::Form);
        }
        let rule = |[tokens, micros]: &[u64; 2]| Rule::new(*tokens, Duration::from_micros(*micros));
        Self::new(&pairs.iter().map(rule).collect::<Result<Vec<_>, _>>()?, aligned)
    }
}

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windows").field("rules", &self.rules()).field("aligned", &self.aligned).finish()
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.rules().iter().map(Rule::to_string).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tokens: u64, seconds: u64) -> Rule {
        Rule::new(tokens, Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn windows_are_the_same_in_whatever_order_they_are_given() {
        let windows = Windows::new(&[rule(100, 60), rule(10, 1)], false).unwrap();
        assert_eq!(windows, Windows::new(&[rule(10, 1), rule(100, 60)], false).unwrap());
        assert_eq!(windows.to_string(), "10/s, 100/min");
        assert_eq!(windows.capacity().get(), 10);
        assert_eq!(Windows::from_pairs(&windows.as_pairs(), false), Ok(windows));
    }

    #[test]
    fn what_are_no_windows_is_an_error() {
        assert_eq!(Windows::new(&[], false), Err(WindowsError::Rules(0)));
        let nine: Vec<Rule> = (1..10).map(|seconds| rule(5, seconds)).collect();
        assert_eq!(Windows::new(&nine, false), Err(WindowsError::Rules(9)));
        assert_eq!(Windows::new(&[rule(1, 1), rule(2, 1)], false), Err(WindowsError::Twice));
        assert_eq!(Rule::new(0, Duration::from_secs(1)), Err(WindowsError::Tokens(0)));
        assert_eq!(
            Rule::new(MAX_WINDOW_TOKENS + 1, Duration::from_secs(1)),
            Err(WindowsError::Tokens(MAX_WINDOW_TOKENS + 1))
        );
        assert_eq!(Rule::new(1, Duration::from_micros(999)), Err(WindowsError::Length));
        for text in ["", "1", "1 x", "1 1000000 2"] {
            assert_eq!(Windows::from_pairs(text, true), Err(WindowsError::Form), "{text}");
        }
    }
}
