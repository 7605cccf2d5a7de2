//! A model of topup's scripts in Rust, with time as an argument: the twin.
//!
//! Redis decides with the scripts in `wire/src/scripts`. The tests of topup-wire compare each script with its twin, and
//! the simulation runs the twin in place of Redis. Instants are µs of Redis `TIME`.

mod apply;
mod bucket;
mod counter;
mod fair_shares;
mod fixed_window;
mod junk;
mod lazy_token_bucket;
mod leaky_bucket;
mod permits;
mod record;
mod refill;
mod rest;
mod sliding_counter;
mod sliding_window;
mod stages;
mod time;
mod token_bucket;

pub use apply::State;
pub use bucket::Bucket;
pub use counter::{Counter, band_offset};
pub use fair_shares::{FairShares, ShareFault, SharePart, ShareTerms};
pub use fixed_window::FixedWindow;
pub use junk::JUNK;
pub use lazy_token_bucket::LazyBucket;
pub use leaky_bucket::LeakyBucket;
pub use permits::{PermitFault, PermitTerms, Permits};
pub use record::{EarlierTerms, PreviousTerms, Record};
pub use refill::{again, is_due, migrate, refill};
pub use rest::AtRest;
pub use sliding_counter::SlidingCounter;
pub use sliding_window::{Entry, SlidingLog};
pub use time::Credit;
pub use token_bucket::{charged, decrement, first_take, move_at_rest, put_in, settle};
