//! Shared tools of the demo, the comparison, the benchmarks and the tests end to end.
//!
//! | to do | use |
//! |---|---|
//! | start a program that dies with this one | [`ChildProcess`], [`child_command`], [`this_program`] |
//! | start several workers and talk to them | [`WorkerPool`]; in the worker, [`worker`] |
//! | measure on a private Redis with a daemon | [`Fixture`], [`Daemon`], [`published`] |
//! | read a clock | [`clock`] |
//! | count the work of Redis and of processes | [`RedisCounters`], [`Monitor`], [`machine`] |
//! | summarise and print figures | [`Summary`], [`Quantiles`], [`Table`], [`short`], [`count`] |

mod child;
pub mod cli;
pub mod clock;
mod daemon;
mod fixture;
pub mod machine;
mod monitor;
mod number;
pub mod output;
mod pool;
mod published;
mod random;
mod redis_counters;
mod signals;
mod summary;
mod table;
mod text;
pub mod worker;

pub use child::{ChildProcess, this_program};
pub use daemon::Daemon;
pub use fixture::Fixture;
pub use monitor::{Monitor, SentCommands};
pub use number::{count, fine, short};
pub use pool::WorkerPool;
pub use published::published;
pub use random::Random;
pub use redis_counters::{RedisCounters, redis_version};
pub use signals::{Interrupted, unless_signalled};
pub use summary::{Quantiles, Summary};
pub use table::Table;
pub use text::wrapped;
pub use topup_embedded::{ReservedPort, child_command};
