//! Publishing: makes the limits in Redis equal to the desired limits of a config.

mod by_hand;
mod change;
mod claim;
mod desired;
mod freeze;
mod limits;
mod note;
mod ownership;
mod parts_and_sources;
mod preview;
#[cfg(test)]
mod tests;
mod words;

pub use by_hand::{Removal, remove_by_hand};
pub use change::{Change, changes, fingerprint};
pub use claim::{claim, release, review};
pub use desired::{DesiredLimit, desired_limits, has_calendar, needs_freeze, next_boundary, next_freeze};
pub use freeze::{FrozenShards, ShardId, freeze_ahead};
pub(crate) use limits::is_unreadable;
pub use limits::{PublishOptions, PublishOutcome, publish};
pub use note::{Note, instant};
pub use ownership::{LoadedConfig, Plan, decide};
pub use parts_and_sources::{PartChange, PartShare, SourceChange};
pub use preview::{Effect, Preview, preview};
pub(crate) use topup_wire::publishing::{MAX_CONCURRENT, migrate_all, settle_at_rest};
pub use words::{Difference, supply};
