//! Planted faults: broken rules of buckets, each of which some seed must find.

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Scripts tell a full instant that is one token late.
    FullInstantLate,
    /// Each worker allows itself half a tick beyond the full instant.
    Leeway,
    /// Tokens are put into a counting bucket that stays counting.
    PutInInPlace,
    /// Tokens are put into a bucket as soon as it has ended counting, whatever others have in hand.
    OneStep,
    /// A bucket that tokens were put into may count again at once.
    NoHold,
    /// Workers keep bare commands that ended late to themselves.
    DoubtUntold,
    /// Tokens that are put back never reach the bucket.
    LostReturn,
    /// The time to answer begins anew on the way.
    DeadlineAnew,
    /// First takes overwrite the bucket of another worker.
    FirstTakeOverwrites,
    /// Keys expire 4 ms before their bucket is full.
    ExpiryEarly,
    /// A refill credits its time twice.
    RefillTwice,
    /// Workers trust their estimates forever, and see no freeze.
    TrustForever,
    /// Tokens in hand are spent after their time.
    StockUnbounded,
    /// A put-in without a reply is sent again.
    PutInAgain,
    /// Unused tokens go back, though a caller has put tokens in since.
    UnusedAlways,
    /// An estimate stays fresh for 10 s more.
    FreshIgnored,
    /// A counting bucket is not migrated over a change of terms.
    ChangeForgotten,
    /// A record tells no terms before the previous ones.
    EarlierForgotten,
    /// Redis keeps the keys of full buckets.
    KeyStays,
    /// The pass of a daemon skips time: it notes the instant and credits nothing.
    RefillForgets,
    /// The key of a bucket at rest is never kept for longer.
    ExpiryStays,
    /// A take at rest that found too few tokens is not given back.
    KeptAtRest,
    /// It is given back twice.
    GivenTwice,
    /// A take at rest does not see that the bucket is at rest under other terms.
    OtherTermsUnseen,
    /// The time of Redis is wrong by half the time of a token.
    OffsetWrong,
    /// A first take that was late is not corrected.
    LateFirstTake,
    /// Scripts ignore the schedule until a daemon publishes.
    ScheduleIgnored,
    /// Workers do not see a change ahead.
    ChangeAheadUnseen,
    /// A key at rest expires when its bucket is full without the changes ahead.
    ChangeAheadForgotten,
    /// A bucket in debt counts as empty.
    DebtForgiven,
    /// A charge is carried out twice.
    ChargedTwice,
    /// Bare commands do not tell the tokens that were missing.
    ShortfallUntold,
    /// Reserved tokens are good at once.
    DelayUntold,
    /// Tokens are put in beside reserved ones that nobody has used yet.
    ReservationUnheld,
    /// Tokens are put in beside leased ones, once reserved ones are used.
    LeaseForgotten,
}

// === impl Fault ===

impl Fault {
    /// All of them.
    pub const ALL: [Self; 35] = [
        Self::FullInstantLate,
        Self::Leeway,
        Self::PutInInPlace,
        Self::OneStep,
        Self::NoHold,
        Self::DoubtUntold,
        Self::LostReturn,
        Self::DeadlineAnew,
        Self::FirstTakeOverwrites,
        Self::ExpiryEarly,
        Self::RefillTwice,
        Self::TrustForever,
        Self::StockUnbounded,
        Self::PutInAgain,
        Self::UnusedAlways,
        Self::FreshIgnored,
        Self::ChangeForgotten,
        Self::EarlierForgotten,
        Self::KeyStays,
        Self::RefillForgets,
        Self::ExpiryStays,
        Self::KeptAtRest,
        Self::GivenTwice,
        Self::OtherTermsUnseen,
        Self::OffsetWrong,
        Self::LateFirstTake,
        Self::ScheduleIgnored,
        Self::ChangeAheadUnseen,
        Self::ChangeAheadForgotten,
        Self::DebtForgiven,
        Self::ChargedTwice,
        Self::ShortfallUntold,
        Self::DelayUntold,
        Self::ReservationUnheld,
        Self::LeaseForgotten,
    ];
}
