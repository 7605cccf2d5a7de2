//! Times as a config writes them: of ticks, leases, holds, sources, windows and penalties.

use std::time::Duration;

use topup_wire::limit::{Holds, Lease, OnAbandon, Penalty, PermitTtl, Rate};

/// The shortest tick.
pub const MIN_TICK: Duration = Duration::from_millis(1);
/// The longest tick. With a longer one, callers would wait minutes for tokens they are owed.
pub const MAX_TICK: Duration = Duration::from_secs(60);
/// The tick of a config that names none.
pub(super) const DEFAULT_TICK: Duration = Duration::from_millis(100);

/// A text that is no time, or one out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a {expected}")]
pub(super) struct TimeError {
    given: String,
    expected: &'static str,
}

/// A refill period of [`MIN_TICK`] to [`MAX_TICK`].
pub(super) fn tick(text: &str) -> Result<Duration, TimeError> {
    let expected = "tick of 1ms to 60s: write a number and ms or s, such as \"100ms\"";
    parse(text, expected, |tick| (MIN_TICK..=MAX_TICK).contains(&tick))
}

/// The longest that a worker keeps the tokens of a lease.
pub(super) fn ttl(text: &str) -> Result<Duration, TimeError> {
    let expected = "time of 10ms to 60s: write a number and ms or s, such as \"1s\"";
    parse(text, expected, |ttl| Lease::new(1, ttl).is_ok())
}

/// The time after which a hold counts as abandoned.
pub(super) fn hold_ttl(text: &str) -> Result<Duration, TimeError> {
    let expected = "time of 1s to 1d: write a number and s, min or h, such as \"10min\"";
    parse(text, expected, |ttl| Holds::new(0, OnAbandon::Charge, ttl).is_ok())
}

/// The time after which a holder that died has lost its permits.
pub(super) fn permit_ttl(text: &str) -> Result<PermitTtl, TimeError> {
    let expected = "time of 500ms to 1h: write a number and ms, s, min or h, such as \"30s\"";
    let ttl = parse(text, expected, |ttl| PermitTtl::new(ttl).is_ok())?;
    PermitTtl::new(ttl).map_err(|_| TimeError { given: text.chars().take(80).collect(), expected })
}

/// The time between two looks at a source that names none.
pub(super) const DEFAULT_EVERY: Duration = Duration::from_secs(10);

/// The time between two looks at a source.
pub(super) fn every(text: &str) -> Result<Duration, TimeError> {
    let expected = "time of 1s to 1d: write a number and s, min or h, such as \"10s\"";
    parse(text, expected, |every| (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&every))
}

/// The length of a window.
pub(super) fn window(text: &str) -> Result<Duration, TimeError> {
    parse(text, "time of 1ms to 366d: write a number and ms, s, min, h or d, such as \"1min\"", |_| true)
}

/// A time of a penalty.
pub(super) fn penalty(text: &str) -> Result<Duration, TimeError> {
    let expected = "time of 1s to 1d: write a number and s, min, h or d, such as \"10min\"";
    parse(text, expected, |time| Penalty::TIMES.contains(&time))
}

/// A time has the notation of a rate's interval, but always starts with a number.
fn parse(
    text: &str,
    expected: &'static str,
    is_legal: impl Fn(Duration) -> bool,
) -> Result<Duration, TimeError> {
    let has_number = text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let time = format!("1/{text}").parse().ok().filter(|_| has_number).map(Rate::interval);
    let error = || TimeError { given: text.chars().take(80).collect(), expected };
    time.filter(|time| is_legal(*time)).ok_or_else(error)
}
