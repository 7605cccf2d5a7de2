//! The limiters: topup's own algorithms, through the daemon and the client, and the forms as usually written.

mod config;
mod held;
mod kind;
mod ours;
pub mod rival;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use topup_lab::clock::Micros;

pub use held::Held;
pub use kind::Limiter;

use crate::{rule::Rule, take::Answer};

/// A limiter, as a worker asks it.
pub trait Ask: Send + Sync {
    /// Takes `count` tokens of `key`, all or nothing.
    fn take<'a>(&'a self, key: &'a str, count: u64) -> BoxFuture<'a, anyhow::Result<Answer>>;

    /// Takes tokens that are held for a while and then settled. `None` for a limiter without holds.
    fn hold<'a>(&'a self, _key: &'a str, _count: u64) -> Option<BoxFuture<'a, HeldOrNot>> {
        None
    }
}

/// The answer, and what is held if it allows.
type HeldOrNot = anyhow::Result<(Answer, Option<Held>)>;

/// A limiter, what it is told, and where its state is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimiterUnderTest {
    /// The limiter.
    pub limiter: Limiter,
    /// Its rule.
    pub rule: Rule,
    /// The limit's name, or what a rival's keys begin with: as many as there are runs.
    pub name: String,
}

/// The longest time for which anything is held, in µs.
const MOST_HELD: Micros = 250_000;
/// The beginning of the keys of all rivals.
pub const RIVAL_PREFIX: &str = "topup-compare:";

// === impl LimiterUnderTest ===

impl LimiterUnderTest {
    /// `limiter` under `rule` in the run `run`.
    pub fn new(limiter: Limiter, rule: Rule, run: &str) -> Self {
        let name = if limiter.is_ours() {
            format!("compare-{}-{run}", limiter.name())
        } else {
            format!("{RIVAL_PREFIX}{}:{run}", limiter.name())
        };
        Self { limiter, rule, name }
    }

    /// The time for which tokens or permits are held, in µs.
    fn held_for(&self) -> Micros {
        match self.limiter {
            // As long as it takes to fill a bucket: so a load of 1 needs all permits.
            Limiter::Concurrency => self.rule.window().min(MOST_HELD),
            _ => (2 * self.rule.token()).min(MOST_HELD),
        }
    }

    /// Connects a worker whose clock is off by `skew` µs to the Redis at `redis`.
    ///
    /// # Errors
    /// When `redis` is no Redis that answers.
    pub async fn asker(&self, redis: &str, worker: u32, skew: i64) -> anyhow::Result<Box<dyn Ask>> {
        if self.limiter.is_ours() {
            return Ok(Box::new(ours::Ours::connect(redis, self).await?));
        }
        rival::asker(redis, self, worker, skew)
    }
}

#[cfg(test)]
mod tests {
    use topup_daemon::config::Config;

    use super::*;
    use crate::traffic::{Traffic, all};

    /// A daemon told otherwise would refuse the whole file.
    #[test]
    fn every_limiter_of_ours_can_be_configured_for_every_traffic() {
        for Traffic { name, rule, .. } in all(4.0) {
            let ours = Limiter::all().iter().filter(|limiter| limiter.is_ours());
            let (told, others): (Vec<&Limiter>, Vec<&Limiter>) =
                ours.partition(|limiter| limiter.unfit_for(&rule).is_none());
            assert!(others.iter().all(|limiter| limiter.ideal().is_special()), "{others:?}");
            for under_test in told.into_iter().map(|limiter| LimiterUnderTest::new(*limiter, rule, &name)) {
                let Some(text) = under_test.config() else { continue };
                let config =
                    Config::parse(&text, "config.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
                assert!(config.limits.contains_key(under_test.name.as_str()), "{text}");
            }
        }
    }
}
