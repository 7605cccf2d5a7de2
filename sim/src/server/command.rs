//! A command as a worker writes it, and the results of commands and corrections.

use topup::machine::{Reply, Terms};
use topup_wire::{limit::Capacity, scripts::AtRestNumber};

/// The terms under which a worker writes its commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) capacity: Capacity,
    pub(crate) terms: Terms,
}

/// The result of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) reply: Reply,
    /// Tokens taken.
    pub(crate) granted: u64,
    /// Tokens that no caller gets: those in doubt of a settle, of a counter that takes at rest have met, or forfeited.
    pub(crate) charged: u64,
    /// Tokens in doubt that the bucket did not have any more.
    pub(crate) unpaid: u64,
    /// Tokens that a bare command took of a full bucket, which became full after the command was written. Tokens that a
    /// first take left too many, since it named an instant that had passed.
    pub(crate) overflow: u64,
    /// When the key was made that a native take has met.
    pub(crate) born: u64,
    /// Tokens in the bucket before.
    pub(crate) before: u64,
    /// Nothing was done: the limit is not published, or the take is more than a bucket ever holds.
    pub(crate) refused: bool,
}

/// The result of a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrected {
    /// The reply of Redis.
    pub(crate) reply: AtRestNumber,
    /// The key is not the one that the tokens were taken of.
    pub(crate) is_another: bool,
    /// Tokens were given back, or the bucket was made full later.
    pub(crate) shifted: bool,
    /// Tokens that the bucket has fewer than none.
    pub(crate) debt: u64,
}
