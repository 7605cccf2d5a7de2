//! Refusals of a source: it cannot be read, or has too few rows.

use std::time::Duration;

use redis::RedisResult;
use topup_wire::{
    assigned_keys::AssignedKeys,
    scripts::{Differences, SourceNews},
};

use super::Follower;
use crate::text::{counted, grouped};

/// A daemon that cannot read the source leaves it to others for this time beyond their next look.
const LEAVE: Duration = Duration::from_secs(1);

// === impl Follower ===

impl Follower {
    /// Why so few rows are not to be believed.
    pub(super) fn dropped_too_many(
        &self,
        rows: &AssignedKeys,
        found: &Differences,
        now: u64,
    ) -> Option<String> {
        let (most, held) = (u64::from(self.source.max_drop.get()), found.held);
        let left = rows.iter().filter(|(_, one)| one.holds_at(now)).count() as u64;
        (left * 100 < held * (100 - most)).then(|| {
            format!(
                "it has {} where there were {}, and max_drop_percent = {most} allows no such drop: if it is meant, write \
                 max_drop_percent = 100, reload, and write the number before again",
                counted(left as usize, "assignment"),
                grouped(held),
            )
        })
    }

    /// Says the problem, and leaves the source to other daemons for a while.
    pub(super) async fn leave(&mut self, problem: &str) -> RedisResult<Duration> {
        self.refuse(problem, &[SourceNews::GivesUp]).await?;
        Ok(self.source.every + LEAVE)
    }

    pub(super) async fn refuse(&mut self, problem: &str, news: &[SourceNews<'_>]) -> RedisResult<()> {
        if self.said.as_deref() != Some(problem) {
            tracing::error!(
                "limit {}: its source {} cannot be used, and nothing changes: {problem}",
                self.limit,
                self.source.place
            );
            self.said = Some(problem.to_owned());
        }
        self.turn(&[&[SourceNews::Problem(problem)], news].concat()).await.map(drop)
    }
}
