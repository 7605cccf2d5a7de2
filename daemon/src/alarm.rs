//! Wakes the daemon when a schedule or quota of the config fires.
//!
//! A wake carries nothing: what applies is computed anew, by Redis's clock. So a fire that comes twice, late or never
//! (a suspended machine, a change of the clocks) costs nothing; the engine looks at the boundary itself each tick, too.

use std::{collections::BTreeSet, str::FromStr};

use anyhow::Context;
use chrono_tz::Tz;
use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::{
    calendar::Calendar,
    config::{Config, LimitConfig, Source},
    refill::Command,
};

/// Jobs for every calendar of a config.
pub struct Alarm(JobScheduler);

// === impl Alarm ===

impl Alarm {
    /// Wakes `engine` whenever a calendar of `config` fires.
    ///
    /// # Errors
    /// When a job cannot be scheduled.
    pub async fn set(config: &Config, engine: &mpsc::Sender<Command>) -> anyhow::Result<Self> {
        let scheduler = JobScheduler::new().await.context("cannot start the scheduler")?;
        // Limits that change together share a job.
        let calendars: BTreeSet<(&str, &str)> = config
            .limits
            .values()
            .flat_map(calendars)
            .map(|calendar| (calendar.text(), calendar.zone()))
            .collect();
        for (cron, zone) in calendars {
            let engine = engine.clone();
            let zone = Tz::from_str(zone).with_context(|| format!("time zone {zone}"))?;
            let job = Job::new_async_tz(cron, zone, move |_, _| {
                let engine = engine.clone();
                Box::pin(async move {
                    // A full queue has a wake in it already.
                    let _ = engine.try_send(Command::Wake);
                })
            });
            let job = job.with_context(|| format!("cannot schedule {cron:?}"))?;
            scheduler.add(job).await.with_context(|| format!("cannot schedule {cron:?}"))?;
        }
        scheduler.start().await.context("cannot start the scheduler")?;
        Ok(Self(scheduler))
    }

    /// Wakes nobody any more.
    pub async fn unset(mut self) {
        // Its tasks hold nothing but a sender; one that outlives this only wakes once too often.
        let _ = self.0.shutdown().await;
    }
}

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alarm").finish_non_exhaustive()
    }
}

fn calendars(limit: &LimitConfig) -> impl Iterator<Item = &Calendar> {
    let refill = match &limit.source {
        Source::Calendar(calendar) => Some(calendar),
        Source::Rate(_) | Source::Windows(_) => None,
    };
    limit.schedule.iter().map(|entry| &entry.calendar).chain(refill)
}
