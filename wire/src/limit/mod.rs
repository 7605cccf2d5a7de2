//! What a limit is: types that cannot hold a wrong value.

mod capacity;
mod key;
mod lease;
mod name;
mod rate;
mod terms;

pub use capacity::{Capacity, CapacityError, MAX_TOKENS};
pub use key::{Key, KeyError, MAX_KEY_BYTES};
pub use lease::{Lease, LeaseError};
pub use name::{LimitName, NameError};
pub use rate::{MAX_INTERVAL, MIN_INTERVAL, Rate, RateError};
pub use terms::{Algorithm, Limit, OnChange, Period, Shards, ShardsError, Supply, Terms, UnknownWord};
