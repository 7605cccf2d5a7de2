//! A limit as workers read it from its record.

use crate::limit::{Assigned, Limit, Past, PlanSources, Plans};

/// A published limit, and the other fields of its record that workers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLimit {
    /// The limit.
    pub limit: Limit,
    /// Number of its present terms. Buckets at rest name the terms that they were written under.
    pub terms_id: u64,
    /// Whether a change is announced. Until it is made, workers take by script only.
    pub frozen: bool,
    /// The instant, in µs of Redis `TIME`, from which an absent bucket is full. No first takes before it. 0 unless a
    /// raised capacity is still filling.
    pub absent_full_at: u64,
    /// The instant, in µs of Redis `TIME`, by which every bucket that is kept under earlier terms is full; 0 if there were none.
    pub earlier_until: u64,
    /// The plans and assignments in force before [`plans_at`](Self::plans_at).
    pub plans_before: Plans,
    /// Earlier plans and assignments, the newest first, as far back as they may matter for tokens.
    pub plans_past: Vec<Past<Plans>>,
    /// The instant from which those of [`limit`](Self::limit) are in force, in µs of Redis `TIME`; 0 if they never changed.
    pub plans_at: u64,
    /// The end of a limit that code has defined, in µs of Redis `TIME`; `None` for a limit of a config. It is not in force
    /// from then on, whether its record is still there or not.
    pub expires: Option<u64>,
}

// === impl PublishedLimit ===

impl PublishedLimit {
    /// All that assigns `key` to a plan. `assigned` are its assignments by hand and by the source.
    pub fn plan_sources<'a>(&'a self, key: &'a str, assigned: [Option<Assigned>; 2]) -> PlanSources<'a> {
        let [by_hand, by_source] = assigned;
        PlanSources {
            key,
            config: &self.limit.plans,
            config_before: &self.plans_before,
            config_at: self.plans_at,
            config_past: &self.plans_past,
            by_hand,
            by_source,
        }
    }
}
