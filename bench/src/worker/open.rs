//! The open-loop load generator: takes are sent when they are due, whether or not earlier ones are answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::ensure;
use hdrhistogram::Histogram;
use tokio::{task, time};
use topup_lab::{
    clock::cpu_time,
    output::tell,
    worker::{Orders, READY, say, say_line},
};

use super::pacer::Pacer;
use crate::{
    limiter::decide::Decide,
    measurement::Answered,
    schedule::{Phase, Schedule},
};

/// A generator that is behind its schedule lets answers be heard after so many takes.
const YIELD: u32 = 8;
/// A generator that is so far behind its schedule has too little CPU. It leaves takes out, which count as errors.
const HOPELESS: Duration = Duration::from_secs(1);
/// Answers that have not come by this time after the end of the load count as lost.
const SLACK: Duration = Duration::from_secs(5);

/// A part of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) seed: u64,
    pub(super) part: u32,
    pub(super) parts: u32,
}

/// Counts of one phase so far.
#[derive(Debug)]
struct PhaseCounts {
    decided: u64,
    allowed: u64,
    /// ns from the instant a take was due to its answer.
    latencies: Histogram<u32>,
    /// ns from the instant a take was due to its sending.
    lags: Histogram<u32>,
    cpu: f64,
}

/// Makes the load that each line of standard input describes, and writes its results.
pub(super) async fn drive(keys: usize, open: Open, limiter: impl Decide) -> anyhow::Result<()> {
    let limiter = Arc::new(limiter);
    let mut told = Orders::new();
    say_line(READY)?;
    while let Some(line) = told.next_line().await? {
        let phases: Vec<Phase> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(!phases.is_empty(), "nothing to do");
        let answered = generate(&limiter, &phases, keys.max(1), open).await?;
        say(&answered)?;
    }
    // Connections and background tasks need no farewell.
    std::process::exit(0)
}

async fn generate(
    limiter: &Arc<impl Decide>,
    phases: &[Phase],
    keys: usize,
    open: Open,
) -> anyhow::Result<Vec<Answered>> {
    let counts: Vec<Mutex<PhaseCounts>> =
        phases.iter().map(|_| PhaseCounts::new()).collect::<Result<_, _>>()?;
    let (counts, in_flight): (Arc<[_]>, Arc<AtomicU64>) = (counts.into(), Arc::default());
    let told = Arc::new(AtomicBool::new(false));
    let pacer = Arc::new(Pacer::start()?);
    let (mut offered, mut present, mut used, mut behind) = (vec![0_u64; phases.len()], 0, cpu_time(), 0);
    for arrival in Schedule::new(phases, keys, open.seed, open.part, open.parts) {
        if arrival.phase > present {
            of(&counts[present]).cpu = (cpu_time() - used).as_secs_f64();
            (present, used) = (arrival.phase, cpu_time());
        }
        if !pacer.until(arrival.at).await? {
            behind += 1;
            if behind % YIELD == 0 {
                task::yield_now().await;
            }
        }
        offered[arrival.phase] += 1;
        let late = pacer.elapsed().saturating_sub(arrival.at);
        if late > HOPELESS {
            // Never sent, and so without an answer.
            of(&counts[arrival.phase]).lags.saturating_record(late.as_nanos() as u64);
            continue;
        }
        in_flight.fetch_add(1, Relaxed);
        let (limiter, counts, pacer) = (limiter.clone(), counts.clone(), pacer.clone());
        let (in_flight, told) = (in_flight.clone(), told.clone());
        tokio::spawn(async move {
            let sent = pacer.elapsed();
            let decision = limiter.decide(arrival.key).await;
            // The first of a load is enough: under overload there are very many.
            if let Err(error) = &decision
                && !told.swap(true, Relaxed)
            {
                tell(&format!("  a take failed: {error:#}"));
            }
            of(&counts[arrival.phase]).note(arrival.at, sent, pacer.elapsed(), decision.ok());
            in_flight.fetch_sub(1, Relaxed);
        });
    }
    of(&counts[present]).cpu = (cpu_time() - used).as_secs_f64();
    let end = pacer.elapsed();
    while in_flight.load(Relaxed) > 0 && pacer.elapsed() < end + SLACK {
        time::sleep(Duration::from_millis(1)).await;
    }
    let all = counts.iter().zip(offered).zip(phases);
    Ok(all.map(|((counts, offered), phase)| of(counts).answered(offered, phase.seconds)).collect())
}

fn of(counts: &Mutex<PhaseCounts>) -> std::sync::MutexGuard<'_, PhaseCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl PhaseCounts ===

impl PhaseCounts {
    fn new() -> anyhow::Result<Mutex<Self>> {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3);
        let (latencies, lags) = (histogram()?, histogram()?);
        Ok(Mutex::new(Self { decided: 0, allowed: 0, latencies, lags, cpu: 0.0 }))
    }

    fn note(&mut self, due: Duration, sent: Duration, answered: Duration, allowed: Option<bool>) {
        let nanos = |until: Duration| until.saturating_sub(due).as_nanos() as u64;
        self.lags.saturating_record(nanos(sent));
        self.latencies.saturating_record(nanos(answered));
        if let Some(allowed) = allowed {
            self.decided += 1;
            self.allowed += u64::from(allowed);
        }
    }

    fn answered(&self, offered: u64, seconds: f64) -> Answered {
        let micros =
            |histogram: &Histogram<u32>, quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Answered {
            offered,
            decided: self.decided,
            allowed: self.allowed,
            // A take without any answer has failed as well.
            failed: offered - self.decided,
            seconds,
            cpu: self.cpu,
            p50: micros(&self.latencies, 0.5),
            p99: micros(&self.latencies, 0.99),
            p999: micros(&self.latencies, 0.999),
            lag: micros(&self.lags, 0.99),
        }
    }
}
