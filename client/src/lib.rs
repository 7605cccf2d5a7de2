//! A rate limiter's client: token buckets in Redis, kept full by the daemon `topupd`, taken from with one native command.
//!
//! Limits are named in the daemon's `config.toml`; a worker needs only the URL of the Redis and a limit's name:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), topup::Error> {
//! let topup = topup::Client::connect("redis://127.0.0.1:6379").await?;
//!
//! // One bucket per key: what names the limit is kept, its buckets are named as requests come ...
//! let user = topup.limit("user");
//! let decision = user.key("alice").take(1).await?;
//! if !decision.is_allowed() {
//!     println!("429, retry after {:?}", decision.retry_after());
//! }
//! // ... one for all, waited for ...
//! if topup.limit("api").wait(1, Duration::from_secs(2)).await?.is_allowed() {
//!     println!("on we go");
//! }
//! // ... and what else there is to do with a bucket.
//! let bucket = user.key("alice");
//! println!("{} of {} left", bucket.peek().await?.remaining(), bucket.peek().await?.capacity());
//! bucket.refund(1).await?;
//! bucket.reset().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Several limits at once
//!
//! [`Client::take_all`] takes from several buckets or from none. [`Admission`] does so for a piece of work, waits for it if
//! told to, and says what an outage comes to.
//!
//! # Features
//!
//! None is on unless asked for.
//!
//! | feature | what it adds |
//! |---|---|
//! | `macros` | `#[topup::limited]`, for functions that begin when limits allow it |
//! | `tower` | the module `http`: `RateLimitLayer` for servers, `WaitLayer` for requests that go out |
//! | `axum`, `tonic` | and where these say who calls, and which route it is |
//! | `reqwest` | and `WaitLayer` for its client |
//! | `tracing` | a line in the log when a limit cannot be decided, and one when it can again |

/// The page compiles as it stands.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The page compiles as it stands.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../../docs/workers.md")]
struct Workers;

#[cfg(feature = "tower")]
pub mod http;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod machine;
#[cfg(not(feature = "simulation"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "public for the simulation only")]
mod machine;

mod admission;
mod aside;
mod bucket;
mod client;
mod decision;
mod default;
mod denied;
mod error;
mod joint;
mod outage;
mod reserve;
mod rollout;
mod shell;
mod take;
mod tally;
mod throttle;

pub use admission::Admission;
pub use bucket::Bucket;
pub use client::{Builder, Client};
pub use decision::Decision;
pub use default::set_default;
pub use denied::Denied;
pub use error::Error;
pub use joint::{Joint, Level};
pub use outage::OnError;
pub use reserve::Reserved;
pub use take::Take;
#[cfg(feature = "macros")]
pub use topup_macros::limited;
pub use topup_wire::{
    counts::{Count, Counts},
    reply::Throttled,
};
