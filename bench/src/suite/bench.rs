//! Measurements on one fixture.

use anyhow::Context;
use topup_lab::{Fixture, output::tell};

use crate::{
    cli::choices::Choices,
    closed_loop,
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
};

/// CPUs that other programs may have while a figure is taken.
pub(super) const QUIET: f64 = 0.1;
/// Attempts at a figure. The quietest of them counts.
pub(super) const ATTEMPTS: u32 = 3;
/// As many keys as in every comparison.
pub(super) const KEYS: usize = 10_000;

/// One measurement after another.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) fixture: Fixture,
    pub(super) choices: &'a Choices,
    /// CPUs that other programs had, for each figure taken.
    pub(super) others: Vec<f64>,
}

// === impl Bench ===

impl Bench<'_> {
    /// Whether `limiter` is to be measured, and can be.
    pub(super) fn has(&self, limiter: Limiter) -> bool {
        self.choices.wants(limiter) && self.choices.found.lack(limiter).is_none()
    }

    /// Measures on an empty Redis. When other programs had more of this machine than they should, it measures again, and the
    /// quietest attempt counts. A limiter that fails is left out of the table, with a line of progress.
    pub(super) async fn measure(&mut self, measurement: &Measurement) -> Option<Found> {
        match self.try_measure(measurement).await {
            Ok(found) => Some(found),
            Err(error) => {
                tell(&format!("{}: {error:#}", measurement.limiter.name()));
                None
            }
        }
    }

    /// The same; a limiter that fails is the caller's to report.
    pub(super) async fn try_measure(&mut self, measurement: &Measurement) -> anyhow::Result<Found> {
        let mut quietest: Option<Found> = None;
        for _ in 0..ATTEMPTS {
            let found = closed_loop::measure(&mut self.fixture, &self.choices.found, measurement).await?;
            if quietest.as_ref().is_none_or(|quietest| found.others < quietest.others) {
                quietest = Some(found);
            }
            if self.choices.quick || quietest.as_ref().is_some_and(|quietest| quietest.others < QUIET) {
                break;
            }
        }
        let quietest = quietest.context("nothing was measured")?;
        self.others.push(quietest.others);
        Ok(quietest)
    }
}
