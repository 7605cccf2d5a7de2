//! The laws of permits: see [the module above](super).

use topup::machine::PermitLease;

use super::{
    TIMEOUT, World,
    task::{Doing, Task},
};

// === impl World ===

impl World {
    /// Holders that are not among those `before` overtook no waiter.
    pub(super) fn in_order(&self, before: &[String]) -> Result<(), String> {
        for (new, ..) in self.redis.holders.iter().filter(|(id, ..)| !before.contains(id)) {
            let turn = self.turns.get(new).copied().unwrap_or(u64::MAX);
            let overtaken = self.redis.waiters.iter().find(|(one, ..)| self.turns.get(one) < Some(&turn));
            if let Some((one, ..)) = overtaken {
                return Err(format!("in order: {new} overtook {one}"));
            }
        }
        Ok(())
    }

    pub(super) fn none_lost(&self) -> Result<(), String> {
        for (one, _, till) in self.redis.holders.iter().chain(&self.redis.waiters) {
            if *till > self.heard.get(one).copied().unwrap_or(0) + self.terms.longest {
                return Err(format!("none lost: {one} is taken for longer than a ttl after its last word"));
            }
        }
        Ok(())
    }

    /// The places that holders have, as they see it, against the largest limit that a lease may come from.
    pub(super) fn never_one_too_many(&self) -> Result<(), String> {
        let now = self.now;
        let has = |task: &&Task| {
            matches!(task.doing, Doing::Holds { .. })
                && matches!(task.lease.at(now), PermitLease::Held { .. })
        };
        let alive: u64 = self.tasks.iter().filter(has).map(|task| task.places).sum();
        let dead: u64 = self.ghosts.iter().filter(|(_, until)| *until > now).map(|(places, _)| places).sum();
        // An answer comes within the deadline.
        let effective = self.limits.iter().filter(|(_, ended)| now <= ended.saturating_add(TIMEOUT));
        let most = effective.map(|(limit, _)| *limit).max().unwrap_or(0);
        match alive + dead {
            held if held > most => {
                Err(format!("never one too many: {held} of {most}, {dead} of them killed"))
            }
            _ => Ok(()),
        }
    }
}
