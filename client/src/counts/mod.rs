//! Counts of takes: each thread counts alone, and a worker hands its counts over to Redis.

mod hand_over;
mod limit_counts;
#[cfg(feature = "metrics")]
mod metrics;
mod thread_index;
mod top_keys;

pub(crate) use hand_over::{hand_over, hand_over_at_end};
pub(crate) use limit_counts::LimitCounts;
#[cfg(feature = "metrics")]
pub(crate) use metrics::{describe, emit, emit_poll};
pub(crate) use top_keys::DeniedByKey;
