//! The decisions of one bucket in a worker, as a pure machine: events and an instant go in, actions come out.
//!
//! Nothing here sends, waits or reads a clock. The shell around it (`crate::shell`) does; the simulation drives the
//! same machine in virtual time. [`BucketState::step`] is the one entrance.
//!
//! A take joins the wait queue. One command at a time is in flight for a bucket. It is built when the pipeline is ready
//! to write, for all waiters by then. Its completion answers them in order.

mod answers;
mod at_rest;
mod build;
mod busy;
mod command;
mod complete;
mod denial;
mod distribute;
mod estimate;
mod event;
mod hot;
#[cfg(test)]
mod one_bucket;
#[cfg(test)]
mod one_waiter;
mod overdue;
mod pause;
mod permit_lease;
mod prefetch;
mod queue;
mod redis_time;
mod reservation;
mod reserved;
mod rest;
mod state;
mod terms;
mod timers;
mod window;

pub use answers::{Actions, Answer, Correction, PutBack};
pub use command::{Command, Reply};
pub use denial::Denial;
pub use event::Event;
pub use hot::{Hot, HotCell, Spent};
pub use permit_lease::{PermitAnswer, PermitLease};
pub use queue::Waiter;
pub use redis_time::RedisTime;
pub use state::BucketState;
pub use terms::{ChangeAhead, Context, FirstTakes, Kind, LeaseTerms, Terms, WindowTerms};
pub use timers::Timers;

/// An instant of the worker's clock, or a duration, in µs.
pub type Micros = u64;

/// 63/64 of `duration`: safe by a clock that runs one part in 64 slow.
pub(crate) const fn cautious(duration: Micros) -> Micros {
    duration - duration / 64
}
