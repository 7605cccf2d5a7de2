//! A rate limiter's client: token buckets in Redis, kept full by the daemon `topupd`, taken from with one `DECR`.
//!
//! Limits are named in the daemon's `config.toml`; a worker needs only the URL of the Redis and a limit's name:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), topup::Error> {
//! let topup = topup::Client::connect("redis://127.0.0.1:6379").await?;
//!
//! // One bucket per key ...
//! let decision = topup.limit("user").key("alice").take(1).await?;
//! if !decision.is_allowed() {
//!     println!("429, retry after {:?}", decision.retry_after());
//! }
//! // ... one for all, waited for ...
//! if topup.limit("api").wait(1, Duration::from_secs(2)).await?.is_allowed() {
//!     println!("on we go");
//! }
//! // ... and what else there is to do with a bucket.
//! let bucket = topup.limit("user").key("alice");
//! println!("{} of {} left", bucket.peek().await?.remaining(), bucket.peek().await?.capacity());
//! bucket.refund(1).await?;
//! bucket.reset().await?;
//! # Ok(())
//! # }
//! ```

mod bucket;
mod client;
mod clock;
mod deadline;
mod decision;
mod error;
mod known;
mod published;
mod reserve;
mod slot;
mod slots;
mod throttle;
mod watch;

pub use bucket::Bucket;
pub use client::{Builder, Client};
pub use decision::Decision;
pub use error::Error;
pub use reserve::Reserved;
pub use topup_wire::reply::Throttled;
