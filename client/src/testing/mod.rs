//! A client without Redis and without a daemon, for tests of code that uses topup, by a clock that the test moves.
//!
//! [`Topup`] holds the limits and the clock. Its [`client`](Topup::client) is a [`Client`](crate::Client) as in
//! production: with buckets, waits, reservations, leases, layers and outage policies.
//!
//! ```
//! use std::time::Duration;
//!
//! use topup::testing::{Limit, Topup};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), topup::Error> {
//! let topup = Topup::new().limit("user", Limit::token_bucket(2, "1/s").keyed()).start()?;
//! let alice = topup.client().limit("user").key("alice");
//! assert!(alice.take(2).await?.is_allowed());
//! assert_eq!(alice.take(1).await?.retry_after(), Some(Duration::from_secs(1)));
//!
//! topup.advance(Duration::from_secs(1)).await;
//! assert!(alice.take(1).await?.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! A [`Limit`] is the [`Terms`](crate::Terms) of [`Client::define`](crate::Client::define), with some more that only a
//! config and a test can write: [`fair_shares`](Limit::fair_shares), [`quota`](Limit::quota),
//! [`scheduled`](Limit::scheduled) and [`without_catch_up`](Limit::without_catch_up).
//!
//! # What decides
//!
//! The client is that of production, with its buckets in memory and its scripts. The scripts run in this process, by Lua
//! 5.1 as in Redis, on a model of the Redis commands that they use. A test therefore decides as production does, to the µs
//! of its clock. The clock stands still unless the test moves it, and a call takes no time by it.
//!
//! One command is left out. In production, the first take of a full bucket notes instants in ms, so a token may come up to
//! 3 ms late.
//!
//! # Waits
//!
//! [`Topup::advance`] stops at each instant that something waits for, and lets tasks run there. A task that waits for
//! three seconds of the clock waits no real time:
//!
//! ```
//! # use std::time::Duration;
//! # use topup::testing::{Limit, Topup};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let topup = Topup::new().limit("mail", Limit::token_bucket(1, "1/3s")).start()?;
//! let mail = topup.client().limit("mail");
//! assert!(mail.take(1).await?.is_allowed());
//!
//! let waiter = tokio::spawn(async move { mail.wait(1, Duration::from_secs(5)).await });
//! topup.advance(Duration::from_millis(2_999)).await;
//! assert!(!waiter.is_finished());
//! topup.advance(Duration::from_millis(1)).await;
//! assert!(waiter.await??.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! A wait ends up to 1 ms after its token, as in production. While tasks wait, an hour of the clock takes some seconds.
//! The clock knows nothing of tokio's. A test that pauses tokio's time moves both: `tokio::time::advance` for its own
//! timers.
//!
//! Use the runtime of `#[tokio::test]`, which runs all tasks on one thread: then each run of a test does the same. On
//! several threads, `advance` waits some ms at each of its stops for the tasks on the others.
//!
//! # Responses
//!
//! `docs/axum.md` has the test of a server behind a `RateLimitLayer`, which is asked without a socket.
//!
//! # Outages
//!
//! ```
//! # use std::time::Duration;
//! use topup::{Client, OnOutage, testing::{Limit, Topup}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), topup::Error> {
//! let topup = Topup::new().limit("api", Limit::token_bucket(1, "1/h")).start()?;
//! let open = topup.client_of(Client::builder().on_outage(OnOutage::Allow))?;
//!
//! topup.set_outage(true);
//! assert!(topup.client().limit("api").take(1).await.is_err());
//! assert!(open.limit("api").take(1).await?.is_degraded());
//!
//! topup.set_outage(false);
//! // A client asks ten times a second whether Redis is back.
//! topup.advance(Duration::from_millis(100)).await;
//! assert!(!open.limit("api").take(1).await?.is_degraded());
//! # Ok(())
//! # }
//! ```
//!
//! Connections are refused at once in such an outage. A Redis that hangs is not modelled.
//!
//! # The daemon
//!
//! The clock does the daemon's part, too: it refills buckets at each of its stops, makes the changes of schedules and
//! fills quotas. [`Topup::change`] publishes new terms as a reload does, and takes up to 1 s of the clock.
//!
//! [`Bucket::refund`](crate::Bucket::refund) and `reset` wait in production until other clients have spent what they have
//! in hand of the bucket. Here they do not wait, so that no call depends on the clock but `wait`.
//!
//! A schedule names times from the start, and a quota its length. Not modelled are `config.toml` itself, calendars, time
//! zones, candidates, comparisons, shards, and several namespaces.

mod advance;
mod daemon;
mod spec;
mod start;
mod topup;
#[cfg(test)]
mod unsteady_clock;

pub use start::Start;
pub use topup::Topup;
#[doc(inline)]
pub use topup_wire::limit::CodeTerms as Limit;
pub use topup_wire::limit::{Mode, OnChange};
