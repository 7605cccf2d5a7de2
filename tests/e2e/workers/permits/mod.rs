//! Permits: never more than the limit, none lost, waiters in order.

mod attack;
mod ledger;
