//! The round that is due, and its limits.

use super::{
    round::Round,
    state::{AHEAD, Publication},
};
use crate::{
    config::LimitConfig,
    publish::{DesiredLimit, desired_limits, has_calendar, needs_freeze, next_boundary, next_freeze},
    refill::freezes::AppliesFrom,
};

// === impl Publication ===

impl Publication {
    /// The round that is due at `now`, and its limits.
    pub(super) fn next_round(&mut self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let pending = self.pending.take();
        let crossed = self.next_boundary.is_some_and(|boundary| boundary <= now);
        if pending.is_some() || crossed {
            self.next_boundary = next_boundary(&self.config, now);
            self.next_freeze = next_freeze(&self.config, now);
        }
        if let Some(applies) = pending {
            return Some((Round::Everything(applies), self.desired(applies, now, |_| true)));
        }
        if crossed {
            return Some((Round::Boundary, self.desired(AppliesFrom::Boundary, now, has_calendar)));
        }
        if let Some(round) = self.round_after_freeze(now).or_else(|| self.round_ahead(now)) {
            return Some(round);
        }
        self.standing.is_stale().then(|| (Round::Review, Vec::new()))
    }

    /// The limits at `now` that `which` selects.
    fn desired(
        &self,
        applies: AppliesFrom,
        now: u64,
        which: impl Fn(&LimitConfig) -> bool,
    ) -> Vec<DesiredLimit> {
        let mut desired = desired_limits(&self.config, now, which);
        if applies == AppliesFrom::Now {
            desired.iter_mut().for_each(|desired| desired.since = None);
        }
        desired
    }

    /// The limits whose freeze all workers know of. Changes of a boundary come first.
    fn round_after_freeze(&self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let both = [AppliesFrom::Boundary, AppliesFrom::Now];
        let due = both.map(|applies| (applies, self.freezes.due(applies)));
        let (applies, names) = due.into_iter().find(|(_, names)| !names.is_empty())?;
        let mut desired = self.desired(applies, now, |_| true);
        desired.retain(|desired| names.contains(&desired.limit.name));
        Some((Round::AfterFreeze(applies), desired))
    }

    /// The limits to freeze for the next boundary, once it is [`AHEAD`] or nearer.
    fn round_ahead(&mut self, now: u64) -> Option<(Round, Vec<DesiredLimit>)> {
        let at = self.next_freeze.filter(|at| at.saturating_sub(AHEAD) <= now)?;
        self.next_freeze = None;
        let changes = |limit: &_| needs_freeze(limit) && limit.effective_at(now).until == Some(at);
        Some((Round::FreezeAhead(at), self.desired(AppliesFrom::Boundary, at, changes)))
    }
}
