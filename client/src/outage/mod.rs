//! Outages: the decision where Redis gives none, and what is said and counted of it.
//!
//! The breaker, the local bucket and the slowness watch are pure: time is an argument.

mod breaker;
mod decide;
mod local_bucket;
mod log;
mod reason;
mod record;
mod slowness;

pub(crate) use breaker::{Breaker, PROBE_EVERY};
pub(crate) use decide::{Policies, note};
pub(crate) use local_bucket::{LocalBucket, Share};
pub(crate) use log::log_slow;
pub use reason::OutageReason;
pub use record::OutageCounts;
pub(crate) use record::Outages;
pub(crate) use slowness::Slowness;
