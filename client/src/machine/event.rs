//! Events: the input of a step.

use topup_wire::{reply::Settled, scripts::InDoubt};

use super::{Command, Micros, Reply};

/// An event of a bucket.
#[derive(Debug)]
pub enum Event<W> {
    /// A caller wants tokens.
    Take {
        /// The caller.
        waiter: W,
        /// Their number.
        count: u64,
        /// The end of its patience. A take has none: the present.
        until: Micros,
    },
    /// The pipeline is ready to write the command that was dispatched under this number.
    Ready(u32),
    /// A command has ended.
    Completed {
        /// Its number.
        number: u32,
        /// The command as written.
        command: Command,
        /// When it was written.
        sent: Micros,
        /// The reply. Without one, the command may have been carried out.
        reply: Option<Reply>,
    },
    /// The instant of [`Actions::wake_at`](super::Actions) has come.
    Wake,
    /// It is time to prefetch.
    TakeAhead,
    /// A correction did not reach its bucket: tokens are [in doubt](super::Correction::in_doubt).
    NotCorrected(InDoubt),
    /// Tokens were granted to a caller that no longer waits.
    Unwanted {
        /// Their number.
        tokens: u64,
        /// When the caller asked for them, or later.
        since: Micros,
    },
    /// A script outside the pipeline replied to a take of `count` tokens.
    Heard {
        /// The reply.
        settled: Settled,
        /// Tokens asked for.
        count: u64,
        /// When it was sent.
        sent: Micros,
    },
    /// This client is about to put this many tokens into the bucket. Prefetched tokens go back with them. The estimate is
    /// out of date.
    PutsBack(u64),
    /// Tokens were put into the bucket, so that waiters may be served.
    Changed,
}
