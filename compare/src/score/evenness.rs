//! The evenness of tokens from a bucket that is always asked for more.

use topup_lab::clock::Micros;

use super::Played;
use crate::take::{Take, by_bucket};

/// Tokens that a perfect limiter admits in one slice of time: enough for one more or less not to be all.
const TOKENS: u64 = 8;
/// Slices a run must have for their spread to mean anything.
const LEAST: usize = 8;

/// The standard deviation of the takes admitted in slices of eight tokens' time, over their mean: 0 is perfectly even. The
/// busiest bucket counts, once its first capacity is spent. `None` if there were too few slices.
pub(super) fn unevenness(played: &Played, takes: &[Take]) -> Option<f64> {
    let rule = played.oracle.rule;
    let slice: Micros = rule.micros.saturating_mul(TOKENS).div_ceil(rule.tokens);
    let buckets = by_bucket(takes);
    let bucket = buckets.iter().max_by_key(|bucket| bucket.len())?;
    let from = bucket.iter().find(|take| take.is_denied())?.received;
    let count = usize::try_from(played.until.saturating_sub(from) / slice).ok()?;
    if count < LEAST {
        return None;
    }
    let mut slices = vec![0.0; count];
    for take in bucket.iter().filter(|take| take.is_allowed() && take.middle() >= from) {
        let index = usize::try_from((take.middle() - from) / slice).unwrap_or(usize::MAX);
        if let Some(slice) = slices.get_mut(index) {
            *slice += f64::from(take.count);
        }
    }
    let mean = slices.iter().sum::<f64>() / count as f64;
    let variance = slices.iter().map(|slice| (slice - mean).powi(2)).sum::<f64>() / count as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}
