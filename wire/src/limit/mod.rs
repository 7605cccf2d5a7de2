//! Limits, in types that cannot hold a wrong value.

mod algorithm;
mod assignment;
mod capacity;
mod code_terms;
mod effective_plan;
mod holds;
mod key;
mod lease;
mod name;
mod outage;
mod parts;
mod penalty;
mod permits;
mod plan_history;
mod plans;
mod rate;
mod rollout;
mod schedule;
mod shards;
mod supply;
mod terms;
#[cfg(feature = "in-memory")]
mod test_terms;
mod throttle;
mod top_keys;
mod windows;
mod words;

pub use algorithm::Algorithm;
pub use assignment::{Assignment, PlanName, PlanNameError, PlansError, Target};
pub use capacity::{Capacity, CapacityError, MAX_TOKENS};
pub use code_terms::CodeTerms;
pub use effective_plan::{Assigned, PlanPeriod, PlanReason, PlanSources};
pub use holds::{Holds, HoldsError, OnAbandon};
pub use key::{Key, KeyError, MAX_KEY_BYTES};
pub use lease::{Lease, LeaseError, LeaseSizeError};
pub use name::{LimitName, NameError};
pub use outage::OnOutage;
pub use parts::{MOST_PARTS, MOST_WEIGHT, Part, Parts, PartsError, REST, check_weight};
pub use penalty::{Penalty, PenaltyError};
pub use permits::{MOST_PERMITS, PermitTtl, PermitTtlError, PermitsError, permits_at_once};
pub use plan_history::{Lost, Past, PlanSpan};
pub use plans::{MOST_CONFIG_KEYS, Plans};
pub use rate::{GCRA_BOUNDS, MAX_INTERVAL, MIN_INTERVAL, Rate, RateError};
pub use rollout::{Mode, Percent, PercentError, Rollout};
pub use schedule::{Schedule, ScheduleError, ScheduledChange};
pub use shards::{Shards, ShardsError};
pub use supply::{Period, Supply};
pub use terms::{BURST_TTL, Limit, OnChange, Terms, in_hand_for};
pub use throttle::{MAX_THROTTLE, Throttle, ThrottleError};
pub use top_keys::{TopKeys, TopKeysError};
pub use windows::{MAX_RULES, MAX_WINDOW_TOKENS, Rule, Windows, WindowsError};
pub use words::UnknownWord;

/// Most limits that code may define in one namespace.
pub const MOST_DEFINED: usize = 10_000;
