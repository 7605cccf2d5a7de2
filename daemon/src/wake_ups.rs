//! Scheduled wake-ups: wakes the engine when a schedule or quota of the config fires.
//!
//! A wake-up carries no data: the engine computes the terms anew, by the clock of Redis. A wake-up that comes twice,
//! late or never therefore does no harm. The engine also compares the next boundary with the time in each turn of its
//! loop.

use std::{collections::BTreeSet, fmt, str::FromStr};

use anyhow::Context;
use chrono_tz::Tz;
use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::{
    config::{Config, LimitConfig},
    refill::EngineCommand,
};

/// The scheduled wake-ups of one config.
pub struct WakeUps(JobScheduler);

// === impl WakeUps ===

impl WakeUps {
    /// Schedules a job for each calendar of `config`. The job sends [`EngineCommand::Wake`] to `engine`.
    ///
    /// # Errors
    /// If a job cannot be scheduled.
    pub async fn schedule(config: &Config, engine: &mpsc::Sender<EngineCommand>) -> anyhow::Result<Self> {
        let scheduler = JobScheduler::new().await.context("cannot start the scheduler")?;
        // Limits with the same calendar share a job.
        let calendars = config.limits.values().flat_map(LimitConfig::calendars);
        let calendars: BTreeSet<(&str, &str)> =
            calendars.map(|calendar| (calendar.text(), calendar.zone())).collect();
        for (cron, zone) in calendars {
            let engine = engine.clone();
            let zone = Tz::from_str(zone).with_context(|| format!("time zone {zone}"))?;
            let job = Job::new_async_tz(cron, zone, move |_, _| {
                let engine = engine.clone();
                Box::pin(async move {
                    // If the queue is full, the engine is busy and looks at the boundary in its next turn.
                    let _ = engine.try_send(EngineCommand::Wake);
                })
            });
            let job = job.with_context(|| format!("cannot schedule {cron:?}"))?;
            scheduler.add(job).await.with_context(|| format!("cannot schedule {cron:?}"))?;
        }
        scheduler.start().await.context("cannot start the scheduler")?;
        Ok(Self(scheduler))
    }

    /// Ends all wake-ups.
    pub async fn cancel(mut self) {
        // A job that outlives the shutdown sends one wake-up too many, which does no harm.
        let _ = self.0.shutdown().await;
    }
}

impl fmt::Debug for WakeUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeUps").finish_non_exhaustive()
    }
}
