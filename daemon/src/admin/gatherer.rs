//! Gathers the news once a second while a page is open, however many are. Samples the takes for the history always.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval, timeout};
use topup_wire::limit::LimitName;

use super::{
    head::head,
    history::{Rates, SAMPLE, tenths},
    state::AdminState,
};
use crate::{
    clock::Moment,
    report::{StatusReport, rates},
};

/// The time between two events.
const TICK: Duration = Duration::from_secs(1);
/// A report begins no sooner after the one before than so many times as long as that one took. Pages
/// therefore take a quarter of a connection's time at most, and a large state is read less often.
const REST: u32 = 3;

/// A report.
struct Gathered {
    report: Arc<StatusReport>,
    at: Moment,
    /// The time that Redis took for it.
    took: Duration,
}

/// Gathers until it is dropped.
pub(super) async fn run(state: &AdminState) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut last, mut sampled) = (None, None::<Moment>);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = state.feed().opened() => {}
        }
        if state.feed().is_watched() {
            tell(state, &mut last).await;
        }
        // A tick may come a little early.
        if sampled.is_none_or(|at| at.elapsed() + TICK / 2 >= SAMPLE) {
            sampled = Some(Moment::now());
            let limits = match last.as_ref().filter(|last| last.at.elapsed() < SAMPLE) {
                Some(last) => rates_in(&last.report),
                None => sample(state).await,
            };
            state.feed().history().add(state.status().lag.as_secs_f64() * 1e3, limits);
        }
    }
}

/// Sends news, with a new report if it is time for one. While Redis is slow to answer, they have the last one.
async fn tell(state: &AdminState, last: &mut Option<Gathered>) {
    if last.as_ref().is_none_or(Gathered::is_old) {
        let began = Moment::now();
        let mut gathering = pin!(state.report());
        let report = loop {
            match timeout(TICK, &mut gathering).await {
                Ok(report) => break report,
                Err(_) => send(state, last.as_ref()),
            }
        };
        *last = Some(Gathered { report, at: Moment::now(), took: began.elapsed() });
    }
    send(state, last.as_ref());
}

fn send(state: &AdminState, last: Option<&Gathered>) {
    let report = last.map(|last| (&*last.report, last.at.elapsed()));
    state.feed().send(head(state, report), last.map(|last| last.report.clone()));
}

/// The takes per second of all limits; none if Redis does not tell.
async fn sample(state: &AdminState) -> Vec<(LimitName, Rates)> {
    let Some(connection) = state.connection() else { return Vec::new() };
    let rates = timeout(TICK, rates(&connection)).await.ok().and_then(Result::ok).unwrap_or_default();
    rates.into_iter().map(|(name, both)| (name, both.map(tenths))).collect()
}

fn rates_in(report: &StatusReport) -> Vec<(LimitName, Rates)> {
    let rows = report.limits.iter().filter_map(|row| {
        let both = [row.allowed_per_second?, row.denied_per_second?];
        Some((row.name.parse().ok()?, both.map(tenths)))
    });
    rows.collect()
}

// === impl Gathered ===

impl Gathered {
    fn is_old(&self) -> bool {
        self.at.elapsed() >= (self.took * REST).max(TICK / 2)
    }
}
