//! Deterministic simulation: workers, daemons and Redis in virtual time, from one seed, under every law.
//!
//! Workers run the client's real machine ([`topup::machine`]) behind a virtual shell. Redis is the twin of the scripts
//! ([`topup_wire::bucket`]) with the expiry of keys, bare commands and put-ins. A [`Plan`] says what happens in a run;
//! a seed generates one.
//!
//! # Laws
//!
//! An ideal bucket in whole numbers judges each bucket once the run is over. The judge knows nothing of forms, scripts
//! and estimates.
//!
//! 1. *Never over*: in each window, admitted − put back ≤ capacity + rate × w. The excess stays below one token.
//! 2. *Never starved*: a bucket that is asked above its rate admits at least the rate, in runs without faults.
//! 3. *Once*: every token is in the bucket, told to a caller, in hand, put back, or lost with a command or a caller.
//! 4. *Free when full*: some seconds after the traffic no bucket has a key.
//! 5. Every caller is answered within 250 ms and the 2 ms of a timer. The code never panics.
//!
//! A token of a command counts from the instant at which Redis carried the command out, and not before its caller came.
//! A token in hand counts from the instant at which a caller spends it. A token that no caller was told of counts as
//! taken and given back if it reaches the bucket again.
//!
//! # Exceptions
//!
//! The judge allows exactly what follows.
//!
//! - *Numbers at rest*: their key outlives the full instant by 2 ms. The excess of a bucket that rests as a number stays
//!   below 31/32 of a token in runs without mishaps. Clocks drift by less than one part in 1,024 there.
//! - *Late commands*: a bare command may run after the bucket has become full on the way. Its tokens that would not
//!   have fitted are in doubt until the worker's next settle is carried out. Where the bucket holds fewer tokens than are
//!   in doubt, the rest stays spent. The same holds for a first take that names a full instant before its execution, and
//!   for a correction that fails or meets another bucket. Where others have taken before that correction, all of it
//!   stays spent. Tokens that are given back to a bucket at rest later than the time of one may be some that would not
//!   have fitted meanwhile.
//! - *Changes of terms*: until a scheduled change is made, the larger capacity and the larger rate hold. A change that
//!   is made late by `d` may give the tokens of `d` twice. A key at rest that ends before the change has reached it
//!   makes its bucket full.
//! - *Losses of Redis*: a flush fills buckets. A failover gives back what it has lost. For 1.4 s after either,
//!   workers may take as many tokens once more. A step of the clock forward allows a capacity once more;
//!   where buckets rest as numbers, one backward does too.
//!
//! # Replaying
//!
//! `TOPUP_SIM_SEED=4711 scripts/simulate` runs one seed. A seed that breaks a law prints the last 40 events of its
//! bucket; `TOPUP_SIM_LINES` sets another number. A [`Fault`] breaks a rule on purpose: the tests assert that some seed
//! finds it.

mod adjust;
mod boundary;
mod callers;
mod charges;
mod clients;
mod commands;
mod control;
mod daemons;
mod definitions;
mod dice;
mod fault;
mod generator;
mod headroom;
mod holds;
mod ideal;
mod in_flight;
mod key_plans;
mod mishaps;
mod oracle;
mod penalties;
mod permits;
mod plan;
mod publisher;
mod put_in;
mod read_limit;
mod returns;
mod run;
mod server;
mod shares;
mod steps;
mod take_all;
mod traffic;
mod windows;
mod worker;
mod world;

pub use definitions::{DefinitionFault, run_definitions};
pub use fault::Fault;
pub use headroom::run_headroom;
pub use holds::{HoldFault, run_holds};
pub use key_plans::{KeyPlanFault, run_key_plans};
pub use oracle::{Broken, Law};
pub use penalties::{PenaltyFault, run_penalties};
pub use permits::{PermitMistake, run_permits};
pub use plan::{Ask, Daemons, Mishap, Network, Plan, Promise, SECOND, Stream};
pub use run::{RunResult, run, story};
pub use shares::run_shares;
pub use take_all::{TakeAllFault, run_take_all};
pub use windows::{WindowFault, run_windows};
pub use world::Counts;
