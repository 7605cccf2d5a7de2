//! The change of a rate under load: when it was told, when it was published, and when the last worker had it.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{sleep, timeout};
use topup_wire::{
    connection,
    limit::{LimitName, Rate, Supply},
    scripts,
};

use crate::{
    clock::{Micros, SECOND, now},
    plan::{Limit, RAISED},
    protocol::{Decided, Outcome, Report},
};

/// A daemon publishes within a tick; this is for a machine that is busy with something else.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(3);
/// Between two looks at what is published: short against the tick it is published at, and cheap.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Credits fall on whole µs, and a bucket's first may be 2 µs late.
const ROUNDING: Micros = 10;

/// A change that is under way or done.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// When the daemon was told.
    pub(crate) told: Micros,
    /// The time of one token at the new rate: a worker that promises the next one later than that knows only the old.
    token_time: Micros,
    pub(crate) published: Option<Published>,
    /// The last answer by the old rate, and which worker gave it.
    pub(crate) last_old: Option<(Micros, usize)>,
}

/// When the new rate came into force: somewhere between these two looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The old rate was published still.
    pub(crate) old_until: Micros,
    /// The new one was published.
    pub(crate) new_from: Micros,
}

// === impl Change ===

impl Change {
    /// The daemon is told now to raise the rate to that of `limit`.
    pub(crate) fn told(limit: &Limit) -> Self {
        Self { told: now(), token_time: limit.token_time(), published: None, last_old: None }
    }

    /// Takes note of an answer that follows the old rate.
    pub(crate) fn note(&mut self, worker: usize, report: &Report) {
        let Report::Took(bucket, Decided { received, outcome: Outcome::Denied { retry_after, .. }, .. }) =
            report
        else {
            return;
        };
        let old =
            bucket.limit == RAISED && *retry_after > self.token_time + ROUNDING && *received >= self.told;
        if old && self.last_old.is_none_or(|(last, _)| last < *received) {
            self.last_old = Some((*received, worker));
        }
    }
}

/// Looks until `limit` is published with its rate.
pub(crate) async fn published(url: String, limit: Limit) -> anyhow::Result<Published> {
    let name: LimitName = limit.name.parse()?;
    let wanted = Supply::Rate(Rate::new(limit.rate, Duration::from_micros(SECOND))?);
    let mut connection = connection::connect_lazily(&url)?;
    let look = async {
        let mut old_until = now();
        loop {
            let asked = now();
            match scripts::read_limit(&mut connection, &name).await? {
                Some(read) if read.limit.terms.supply == wanted => {
                    return Ok(Published { old_until, new_from: now() });
                }
                Some(_) => old_until = asked,
                None => bail!("limit {name} is not published any more"),
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PUBLISHED_WITHIN, look).await.context("topupd did not publish the new rate")?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::raised;

    #[test]
    fn only_an_answer_by_the_old_rate_counts() {
        let limit = &raised()[0];
        let bucket = limit.buckets()[0].clone();
        let denied = |received, retry_after| {
            let outcome = Outcome::Denied { retry_after, from_memory: true };
            Report::Took(bucket.clone(), Decided { sent: received, received, remaining: 0, outcome })
        };
        let mut change = Change { told: 1_000, ..Change::told(limit) };
        change.note(0, &denied(900, 20_000));
        assert_eq!(change.last_old, None);
        change.note(1, &denied(3_000, 20_000));
        change.note(2, &denied(2_000, 20_000));
        change.note(3, &denied(4_000, 5_000));
        assert_eq!(change.last_old, Some((3_000, 1)));
    }
}
