//! Mistakes that a test puts into the twin.

/// A mistake to be found by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareFault {
    /// The tokens that come while a part is full are counted twice.
    CreditsTwice,
    /// A refund counts for the part and for the pool.
    RefundsTwice,
    /// The pool is all that is in the total.
    LendsOwn,
    /// The share of a token that has come to a part is lent.
    LendsFractions,
    /// A full total has room for what is lent and for what parts get.
    LendsRoom,
    /// A deal adds to loans that were not used.
    KeepsLoans,
    /// A loan is good for ever.
    LoansOutlive,
    /// A deal does not look at weights.
    DealsEvenly,
    /// Nothing is lent.
    NeverDeals,
    /// A deal completes the next token of the part that asks, whatever the pool has left.
    CompletesAny,
    /// A part with other terms begins full.
    FillsOnChange,
}
