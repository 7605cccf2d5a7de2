//! The change of a rate under load: its announcement, its publication, and the last worker that learns it.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{sleep, timeout};
use topup_lab::clock::{Micros, SECOND, now};
use topup_wire::{
    connection,
    limit::{LimitName, Rate, Supply},
    scripts,
};

use crate::{
    plan::RAISED,
    protocol::{Answer, Report},
};

/// A daemon publishes within a second; this is for a machine that is busy with something else.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at the published limit.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Credits fall on whole µs, and the first of a bucket may be 2 µs late.
const ROUNDING: Micros = 10;

/// A change that is under way or done.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The instant at which the config was edited.
    pub(crate) edited: Micros,
    pub(crate) published: Option<Published>,
    /// The last answer by the old rate.
    last_old: Option<Micros>,
}

/// The new rate came into force between these two looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The old rate was still published.
    pub(crate) old_until: Micros,
    /// The new rate was published.
    pub(crate) new_from: Micros,
}

// === impl Change ===

impl Change {
    /// The config is edited now.
    pub(crate) fn edited_now() -> Self {
        Self { edited: now(), published: None, last_old: None }
    }

    /// Notes a report that follows the old rate: by the new one, no token is further away than its token time.
    pub(crate) fn note(&mut self, report: &Report) {
        let Answer::Denied { retry_after, .. } = report.answer else { return };
        let old =
            retry_after > RAISED.token_time() + ROUNDING && RAISED.buckets().any(|own| own == report.bucket);
        if old && report.received >= self.edited {
            self.last_old = self.last_old.max(Some(report.received));
        }
    }

    /// Time from the edit until the new rate was in force and no worker answered by the old one any more.
    pub(crate) fn reached_workers_after(&self) -> Option<Micros> {
        let effective = self.published?.new_from;
        Some(self.last_old.map_or(effective, |last| last.max(effective)) - self.edited)
    }
}

/// Looks until the new rate is published.
pub(crate) async fn published(url: String) -> anyhow::Result<Published> {
    let name: LimitName = RAISED.name.parse()?;
    let raised = Supply::Rate(Rate::new(RAISED.rate, Duration::from_micros(SECOND))?);
    let mut connection = connection::connect_lazily(&url)?;
    let look = async {
        let mut old_until = now();
        loop {
            let asked = now();
            match scripts::read_limit(&mut connection, &name).await? {
                Some(read) if read.limit.terms.supply == raised => {
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

    #[test]
    fn only_an_answer_by_the_old_rate_counts() {
        let denied = |received, retry_after| {
            let answer = Answer::Denied { retry_after, from_memory: true };
            Report { bucket: 0, sent: received, received, answer }
        };
        let mut change = Change { edited: 1_000, ..Change::edited_now() };
        change.note(&denied(900, 20_000));
        assert_eq!((change.last_old, change.reached_workers_after()), (None, None));
        change.published = Some(Published { old_until: 1_900, new_from: 2_500 });
        assert_eq!(change.reached_workers_after(), Some(1_500));
        change.note(&denied(3_000, 20_000));
        change.note(&denied(2_000, 20_000));
        change.note(&denied(4_000, 5_000));
        assert_eq!(change.reached_workers_after(), Some(2_000));
    }
}
