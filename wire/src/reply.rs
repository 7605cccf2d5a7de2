//! Replies of scripts.

mod daemon;
mod numbers;
mod polled;
mod published_limit;
mod settled;
mod throttled;

pub use daemon::{Beat, Migrated, PublishReply, Refilled};
pub use polled::Polled;
pub use published_limit::PublishedLimit;
pub use settled::{PutInReply, Settled, Verdict};
pub use throttled::Throttled;
