//! A rate limiter's client: token buckets in Redis, refilled by the daemon `topupd`, taken from with one native command.
//!
//! The daemon's `config.toml` names the limits. A worker needs only the URL of the Redis and the name of a limit:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), topup::Error> {
//! let topup = topup::Client::connect("redis://127.0.0.1:6379").await?;
//!
//! // A keyed limit has one bucket per key.
//! let user = topup.limit("user");
//! let decision = user.key("alice").take(1).await?;
//! if !decision.is_allowed() {
//!     println!("429, retry after {:?}", decision.retry_after());
//! }
//! // An unkeyed limit has one bucket for all callers. This one waits for a token.
//! if topup.limit("api").wait(1, Duration::from_secs(2)).await?.is_allowed() {
//!     println!("on we go");
//! }
//! // A bucket can be looked at, and tokens can be put back.
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
//! [`Client::take_all`] takes from several buckets or from none. An [`Admission`] does so for a piece of work. It may wait for
//! tokens, and has an outage policy: [`OnOutage`].
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `macros` | `#[topup::limited]`, for functions that begin when limits allow it |
//! | `tower` | the module `http`: `RateLimitLayer` for servers, `WaitLayer` for outgoing requests |
//! | `axum`, `tonic` | `tower`, with the peer addresses of these servers, and the routes of axum |
//! | `reqwest` | `tower`, with `WaitLayer` for this client |
//! | `metrics` | counts of takes and times of polls for the recorder of the facade `metrics` |
//! | `testing` | the module `testing`: a client without Redis for tests, by a clock that the test moves |
//! | `tls` | `rediss://` URLs, and certificates of Redis |
//! | `tracing` | messages about outages go to `tracing`; otherwise, and without a subscriber, to stderr |
//!
//! The features `simulation` and `uncounted` are for topup's own tests and benchmarks.

/// The snippets of these pages compile and run as they stand.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/outages.md")]
#[doc = include_str!("../../docs/define.md")]
#[doc = include_str!("../../docs/migrating.md")]
#[cfg_attr(feature = "macros", doc = include_str!("../../docs/workers.md"))]
#[cfg_attr(feature = "tower", doc = include_str!("../../docs/reserve.md"))]
#[cfg_attr(feature = "axum", doc = include_str!("../../docs/tutorial.md"))]
#[cfg_attr(feature = "testing", doc = include_str!("../../docs/testing.md"))]
#[cfg_attr(all(feature = "axum", feature = "testing"), doc = include_str!("../../docs/axum.md"))]
#[cfg_attr(feature = "tonic", doc = include_str!("../../docs/tonic.md"))]
#[cfg_attr(all(feature = "reqwest", feature = "testing"), doc = include_str!("../../docs/reqwest.md"))]
#[cfg_attr(all(feature = "axum", feature = "reqwest"), doc = include_str!("../../docs/http.md"))]
struct Pages;

#[cfg(feature = "tower")]
pub mod http;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod machine;
#[cfg(not(feature = "simulation"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "public for the simulation only")]
mod machine;

mod admission;
mod assign;
mod bucket;
mod bucket_takes;
mod builder;
mod charge;
mod client;
mod counts;
mod decision;
mod default;
mod define;
mod denied;
mod error;
mod hold;
mod multi_decision;
mod outage;
mod pause;
mod permits;
mod place;
mod plan_change;
mod plans;
mod refund;
mod reserve;
mod reserve_all;
mod reserve_cost;
mod rollout;
mod say;
mod shadow_traffic;
mod shell;
mod take;
mod take_all;
#[cfg(feature = "testing")]
pub mod testing;
mod throttle;
mod try_take;
#[cfg(feature = "uncounted")]
mod uncounted;
mod wait;

pub use admission::Admission;
pub use bucket::Bucket;
pub use builder::Builder;
pub use charge::Charged;
pub use client::Client;
pub use decision::Decision;
pub use default::set_default;
pub use define::{Define, Undefine};
pub use denied::Denied;
pub use error::{Error, RedisError};
pub use hold::{Hold, Settlement};
pub use multi_decision::{LimitDecision, MultiDecision};
pub use outage::{OutageCounts, OutageReason};
pub use permits::Permit;
pub use reserve::Reserved;
pub use reserve_all::Holds;
pub use take::Take;
/// # Examples
/// ```no_run
/// #[derive(Debug)]
/// enum Failure {
///     TooMany(topup::Denied),
///     Limiter(topup::Error),
/// }
/// # impl From<topup::Denied> for Failure { fn from(denied: topup::Denied) -> Self { Self::TooMany(denied) } }
/// # impl From<topup::Error> for Failure { fn from(error: topup::Error) -> Self { Self::Limiter(error) } }
///
/// #[topup::limited(limit = "api", wait = "2s")]
/// #[topup::limited(limit = "sms", key = number, message = "one text message a minute")]
/// async fn send(number: &str, text: &str) -> Result<(), Failure> {
///     // runs only if both limits allow it
///     Ok(())
/// }
/// ```
#[cfg(feature = "macros")]
pub use topup_macros::limited;
pub use topup_wire::{
    counts::{Count, Counts},
    limit::{CodeTerms as Terms, Mode, OnChange, OnOutage, PlanNameError},
    namespace::NamespaceError,
    publishing::Defined,
    reply::Throttled,
    schema::NewerSchema,
};
