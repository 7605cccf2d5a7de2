//! Changes of plans: assignments by hand and by the source, and other configs.

use topup_wire::{
    limit::{Assignment, LimitName, Plans},
    scripts,
};

use super::{KEYS, Said, World, plan_names};
use crate::{clients::text, plan::SECOND};

/// An assignment is in force by then.
const IN_TIME: u64 = 3 * SECOND / 2;
/// Keys and patterns of configs.
const PATTERNS: [&str; 5] = ["acme", "ac*", "a*", "*", "zoo"];

// === impl World ===

impl World {
    pub(super) fn assignment(&mut self) -> Result<Option<Assignment>, String> {
        let words = ["silver", "gold", "silver", "gold", "-", "exempt", "deny"];
        // Keys that nobody takes from have a bucket, mostly.
        let many = if self.is_quiet && self.dice.chance(4, 5) { 5 } else { words.len() };
        let word = words[self.dice.index(many)];
        if word == "-" {
            return Ok(None);
        }
        let ends = self.dice.chance(1, 2);
        let until = ends.then(|| self.clients.now() + self.dice.of(SECOND..=5 * SECOND));
        Ok(Some(Assignment { target: word.parse().map_err(text)?, until }))
    }

    /// Assigns a key by hand or by the source.
    pub(super) async fn assign(&mut self) -> Result<(), String> {
        let (origin, key) = (self.dice.index(2), self.dice.index(KEYS.len()));
        self.assign_key(origin, key).await
    }

    pub(super) async fn say(
        &mut self,
        (origin, key): (usize, usize),
        set: LimitName,
        assignment: Option<Assignment>,
    ) -> Result<(), String> {
        let changes = [(KEYS[key].to_owned(), assignment)];
        let change = loop {
            match scripts::try_assign(&mut self.clients.redis, &set, &changes).await.map_err(text)? {
                Ok(change) => break change,
                Err(wait) => self.clients.advance(wait.as_micros() as u64).await,
            }
        };
        if change.at > change.now + IN_TIME {
            return Err(format!("in time: {change:?}"));
        }
        if change.changed > 0 {
            self.said[origin][key].push(Said { at: change.at, assignment });
        }
        Ok(())
    }

    /// Publishes a config with other keys.
    pub(super) async fn reload(&mut self) -> Result<(), String> {
        let mut keys = Vec::new();
        for pattern in PATTERNS {
            if self.dice.chance(1, 3)
                && let Some(assignment) = self.assignment()?
            {
                keys.push((pattern.to_owned(), assignment));
            }
        }
        let plans = Plans::new(plan_names()?, keys);
        if plans == self.limit.plans {
            return Ok(());
        }
        self.limit.plans = plans.clone();
        self.clients.publish(&self.limit.clone()).await?;
        let read = scripts::read_limit(&mut self.clients.redis, &self.limit.name).await.map_err(text)?;
        let (now, at) = (self.clients.now(), read.map_or(0, |read| read.plans_at));
        if at > now + IN_TIME {
            return Err(format!("in time: a config of {now} from {at} on"));
        }
        self.configs.push((at, plans));
        Ok(())
    }
}
