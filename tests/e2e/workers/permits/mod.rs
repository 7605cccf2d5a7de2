//! Permits: never more than the limit, none lost, waiters in order.

mod attack;
mod contract;
mod ledger;
