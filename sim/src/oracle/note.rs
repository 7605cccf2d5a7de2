//! Events of a bucket, as a run notes them for the judge.

use topup_wire::limit::OnChange;

use crate::plan::Promise;

/// Something that happened to a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// A caller was told that so many tokens are its own.
    Admitted(u64),
    /// Tokens were charged: their number, the most debt after it, and the tokens that were in hand or on their way then.
    /// These may be admitted before the debt is repaid.
    Charged(u64, u64, u64),
    /// Tokens were given back: their number.
    Given(u64),
    /// The bucket was filled.
    Filled,
    /// New terms are announced or to apply: until the change is made, the larger capacity and rate hold.
    Changing(Promise),
    /// The change is made.
    Changed(Promise, OnChange),
    /// A command that was carried out late took so many tokens of a bucket that had become full on the way. They are in
    /// doubt, under this number, until their worker settles.
    Doubtful(u64, u64),
    /// The worker has settled that doubt; the bucket had so many tokens too few to pay it.
    Paid(u64, u64),
    /// Redis has lost its knowledge of so many tokens: they may be admitted once more until the instant, and from then on
    /// until the bucket is full.
    Pardoned(u64, u64),
    /// A charge met takes at rest of so many tokens that may be about to be given back. They cannot be any more.
    Forgotten(u64),
    /// The clock of Redis stepped forward by so many µs.
    Stepped(u64),
    /// Redis holds so many tokens, and so many are in no bucket: in hand, on their way, or lost.
    Seen(u64, u64),
}
