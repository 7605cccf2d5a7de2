//! What a response says of the limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use topup_wire::bucket::Pace;

use crate::{
    client::Client,
    joint::{Joint, Level},
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field (RFC 9651).
const MOST: u64 = 999_999_999_999_999;

/// Which headers responses get, besides `Retry-After` on refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// `RateLimit` and `RateLimit-Policy` of every limit (draft-ietf-httpapi-ratelimit-headers-11), and `X-RateLimit-Limit`,
    /// `-Remaining` and `-Reset` of the one that is nearest to denying.
    #[default]
    All,
    /// `RateLimit` and `RateLimit-Policy` only.
    RateLimit,
    /// None: the limits are nobody's business.
    None,
}

// === impl Headers ===

impl Headers {
    /// Writes what `joint` decided.
    pub(super) fn write(self, joint: &Joint, client: &Client, headers: &mut HeaderMap) {
        if self == Self::None {
            return;
        }
        let levels = joint.levels();
        let paces: Vec<_> = levels.iter().map(|level| client.shared().pace(level.limit())).collect();
        // Lists: what layers further in have said of theirs stays.
        append(
            headers,
            &RATE_LIMIT_POLICY,
            levels.iter().zip(&paces).map(|(level, pace)| policy(level, *pace)),
        );
        let denied = !joint.is_allowed();
        append(
            headers,
            &RATE_LIMIT,
            levels.iter().zip(&paces).map(|(level, pace)| standing(level, *pace, denied)),
        );
        let nearest =
            levels.iter().zip(&paces).min_by(|(one, _), (other, _)| left(one).total_cmp(&left(other)));
        let strictest =
            joint.denied_by().and_then(|by| levels.iter().zip(&paces).find(|(level, _)| *level == by));
        if let (Self::All, Some((level, pace))) = (self, strictest.or(nearest))
            && !headers.contains_key(X_LIMIT)
        {
            let decision = level.decision();
            headers.insert(X_LIMIT, decision.capacity().into());
            headers.insert(X_REMAINING, decision.remaining().into());
            if let Some(reset) = full_in(level, *pace) {
                headers.insert(X_RESET, reset.into());
            }
        }
    }
}

/// Has whoever was refused come back no sooner than that makes sense.
pub(super) fn write_retry_after(retry_after: Option<Duration>, headers: &mut HeaderMap) {
    if let Some(wait) = retry_after {
        headers.insert(RETRY_AFTER, whole_seconds(wait).into());
    }
}

/// Rounded up: a second too early is another denial.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// `"user";q=10;w=20`: the capacity, and in how many seconds an empty bucket fills.
fn policy(level: &Level, pace: Option<Pace>) -> String {
    let capacity = level.decision().capacity();
    let window =
        pace.and_then(|pace| seconds_of(capacity, pace)).map(|window| format!(";w={}", window.max(1)));
    format!("\"{}\";q={}{}", level.limit(), capacity.min(MOST), window.unwrap_or_default())
}

/// `"user";r=3;t=2`: what is left, and for how many seconds there is no more: until the take that was denied would be
/// allowed, otherwise until the next token has come at the latest.
fn standing(level: &Level, pace: Option<Pace>, denied: bool) -> String {
    let decision = level.decision();
    let until = match decision.retry_after() {
        Some(wait) => Some(whole_seconds(wait)),
        // A denial's Retry-After is never before what any `t` says, so those who allow say none.
        None if denied || decision.remaining() == decision.capacity() => None,
        None => pace.and_then(|pace| seconds_of(1, pace)),
    };
    let until = until.map(|until| format!(";t={}", until.min(MOST))).unwrap_or_default();
    format!("\"{}\";r={}{until}", level.limit(), decision.remaining().min(MOST))
}

/// In how many seconds the bucket is full, if nobody takes meanwhile.
fn full_in(level: &Level, pace: Option<Pace>) -> Option<u64> {
    let decision = level.decision();
    let missing = decision.capacity().saturating_sub(decision.remaining());
    pace.and_then(|pace| seconds_of(missing, pace)).or_else(|| decision.retry_after().map(whole_seconds))
}

/// How long so many tokens take to come, rounded up to whole seconds; `None` where none come with time.
fn seconds_of(tokens: u64, pace: Pace) -> Option<u64> {
    let per = u128::from(pace.n) * 1_000_000;
    let seconds =
        (u128::from(tokens) * u128::from(pace.p)).checked_add(per.checked_sub(1)?)?.checked_div(per)?;
    Some(u64::try_from(seconds).unwrap_or(MOST).min(MOST))
}

/// The share of its tokens a bucket has left.
fn left(level: &Level) -> f64 {
    level.decision().remaining() as f64 / level.decision().capacity().max(1) as f64
}

fn append(headers: &mut HeaderMap, name: &HeaderName, items: impl Iterator<Item = String>) {
    let list = items.collect::<Vec<_>>().join(", ");
    // Names of limits and numbers are good in any header.
    if let Ok(list) = HeaderValue::try_from(list) {
        headers.append(name, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        for (tokens, n, p, seconds) in [
            (10, 1, 1_000_000, 10),
            (100, 50, 1_000_000, 2),
            (1, 50, 1_000_000, 1),
            (0, 50, 1_000_000, 0),
            (1, 3, 1_000_000, 1),
            (4, 3, 1_000_000, 2),
            (1, 1, 366 * 86_400_000_000, 366 * 86_400),
            (1 << 53, 1, 366 * 86_400_000_000, MOST),
        ] {
            assert_eq!(seconds_of(tokens, Pace { n, p }), Some(seconds), "{tokens} at {n}/{p} µs");
        }
        assert_eq!(seconds_of(1, Pace { n: 0, p: 1 }), None, "a calendar fills it");
        assert_eq!([0, 1, 1_000, 1_001].map(|ms| whole_seconds(Duration::from_millis(ms))), [0, 1, 1, 2]);
    }
}
