//! The twin of `fair_shares.lua`: a limit whose parts lend to each other.

mod begun;
mod deal;
mod fault;
mod settle;
mod state;
mod terms;
mod wait;

pub use fault::ShareFault;
pub use state::{FairShares, SharePart};
pub use terms::ShareTerms;
