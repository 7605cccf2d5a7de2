//! Headers about the limits of a request.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use topup_wire::limit::Supply;

use crate::{
    client::Client,
    multi_decision::{LimitDecision, MultiDecision},
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field (RFC 9651).
const MOST: u64 = 999_999_999_999_999;

/// The headers of responses, besides `Retry-After` on rejections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit` and `RateLimit-Policy` of every limit (draft-ietf-httpapi-ratelimit-headers-11), and
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the limit that denies or has the smallest share of tokens
    /// left.
    #[default]
    All,
    /// `RateLimit` and `RateLimit-Policy` only.
    RateLimit,
    /// None, so that senders learn nothing of the limits.
    None,
}

// === impl Headers ===

impl Headers {
    /// Writes the headers of a decision.
    pub(super) fn write(self, decided: &MultiDecision, client: &Client, headers: &mut HeaderMap) {
        if self == Self::None {
            return;
        }
        let of = |limit: &LimitDecision| client.shared().supply(limit.limit());
        // Nothing is known of limits that Redis did not decide.
        let known = decided.limits().iter().filter(|limit| !limit.decision().is_degraded());
        let limits: Vec<_> = known.map(|limit| (limit, of(limit))).collect();
        if limits.is_empty() {
            return;
        }
        // Both are lists: the items of inner layers stay.
        append(headers, &RATE_LIMIT_POLICY, limits.iter().map(|(limit, supply)| policy(limit, *supply)));
        // This layer denied, or an inner one.
        let denied = headers.contains_key(RETRY_AFTER);
        append(headers, &RATE_LIMIT, limits.iter().map(|(limit, supply)| standing(limit, *supply, denied)));
        let nearest = limits.iter().min_by(|(one, _), (other, _)| left(one).total_cmp(&left(other)));
        let strictest = decided.denied_by().and_then(|by| limits.iter().find(|(limit, _)| *limit == by));
        if let (Self::All, Some((limit, supply))) = (self, strictest.or(nearest))
            && !headers.contains_key(X_LIMIT)
        {
            let decision = limit.decision();
            headers.insert(X_LIMIT, decision.capacity().into());
            headers.insert(X_REMAINING, decision.remaining().into());
            if let Some(reset) = full_in(limit, *supply) {
                headers.insert(X_RESET, reset.into());
            }
        }
    }
}

/// Writes the time until a rejected request would be allowed.
pub(super) fn write_retry_after(retry_after: Option<Duration>, headers: &mut HeaderMap) {
    if let Some(wait) = retry_after {
        headers.insert(RETRY_AFTER, whole_seconds(wait).into());
    }
}

/// Rounded up: a retry before the time is another denial.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// `"user";q=10;w=20`: the capacity, and its time window in seconds.
fn policy(limit: &LimitDecision, supply: Option<Supply>) -> String {
    let capacity = limit.decision().capacity();
    let window =
        supply.and_then(|supply| window(capacity, supply)).map(|window| format!(";w={}", window.max(1)));
    format!("\"{}\";q={}{}", limit.limit(), capacity.min(MOST), window.unwrap_or_default())
}

/// `"user";r=3;t=2`: tokens left, and the seconds until the denied take would be allowed. After an allowed take, the
/// seconds until the next token at the latest.
fn standing(limit: &LimitDecision, supply: Option<Supply>, denied: bool) -> String {
    let decision = limit.decision();
    let until = match decision.retry_after() {
        Some(wait) => Some(whole_seconds(wait)),
        // No `t` may end after the Retry-After of a denial, so limits that allow name none beside it.
        None if denied || decision.remaining() == decision.capacity() => None,
        None => supply.and_then(|supply| seconds_of(1, supply)),
    };
    let until = until.map(|until| format!(";t={}", until.min(MOST))).unwrap_or_default();
    format!("\"{}\";r={}{until}", limit.limit(), decision.remaining().min(MOST))
}

/// Seconds until the bucket is full, if no other request takes meanwhile.
fn full_in(limit: &LimitDecision, supply: Option<Supply>) -> Option<u64> {
    let decision = limit.decision();
    let missing = decision.capacity().saturating_sub(decision.remaining());
    supply
        .and_then(|supply| seconds_of(missing, supply))
        .or_else(|| decision.retry_after().map(whole_seconds))
}

/// The time window of a capacity in seconds: an empty bucket fills in it, or it is the period or the window itself.
fn window(capacity: u64, supply: Supply) -> Option<u64> {
    let micros = match supply {
        Supply::Rate(_) => return seconds_of(capacity, supply),
        Supply::Period(period) => period.next.saturating_sub(period.since),
        Supply::Permits(_) => return None,
        Supply::Windows(windows) => {
            windows.rules().iter().find(|rule| rule.tokens().get() == capacity)?.micros()
        }
    };
    Some(micros.div_ceil(1_000_000))
}

/// Seconds in which `tokens` come, rounded up; `None` if tokens do not come with time.
fn seconds_of(tokens: u64, supply: Supply) -> Option<u64> {
    let (n, p) = supply.lowest_terms();
    let per = u128::from(n) * 1_000_000;
    let seconds = (u128::from(tokens) * u128::from(p)).checked_add(per.checked_sub(1)?)?.checked_div(per)?;
    Some(u64::try_from(seconds).unwrap_or(MOST).min(MOST))
}

/// The share of tokens that a bucket has left.
fn left(limit: &LimitDecision) -> f64 {
    limit.decision().remaining() as f64 / limit.decision().capacity().max(1) as f64
}

fn append(headers: &mut HeaderMap, name: &HeaderName, items: impl Iterator<Item = String>) {
    let list = items.collect::<Vec<_>>().join(", ");
    // Names of limits and numbers are valid in headers.
    if let Ok(list) = HeaderValue::try_from(list) {
        headers.append(name, list);
    }
}

#[cfg(test)]
mod tests {
    use topup_wire::limit::{Period, Rule, Windows};

    use super::*;

    #[test]
    fn a_capacity_is_for_the_time_it_takes_to_fill() {
        for (capacity, rate, seconds) in [
            (10, "1/s", 10),
            (100, "50/s", 2),
            (1, "50/s", 1),
            (1, "3/s", 1),
            (4, "3/s", 2),
            (1, "1/366d", 366 * 86_400),
            (1 << 53, "1/366d", MOST),
        ] {
            let supply = Supply::Rate(rate.parse().unwrap());
            assert_eq!(window(capacity, supply), Some(seconds), "{capacity} at {rate}");
        }
    }

    #[test]
    fn a_capacity_is_for_its_window_or_till_the_calendar_fills_it() {
        let month = Supply::Period(Period { since: 1_000_000, next: 2_678_401_000_000 });
        assert_eq!((window(1_000, month), seconds_of(1, month)), (Some(2_678_400), None));
        let rule = |tokens, seconds| Rule::new(tokens, Duration::from_secs(seconds)).unwrap();
        let windows = Supply::Windows(Windows::new(&[rule(5, 1), rule(100, 60)], false).unwrap());
        assert_eq!((window(5, windows), seconds_of(1, windows)), (Some(1), None));
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!([0, 1, 1_000, 1_001].map(|ms| whole_seconds(Duration::from_millis(ms))), [0, 1, 1, 2]);
    }
}
