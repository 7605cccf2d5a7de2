//! The closed-loop load generator: tasks that ask again as soon as they are answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use tokio::{task, time};
use topup_lab::{
    Random,
    clock::{Stopwatch, cpu_time},
    machine,
    worker::{Orders, READY, say, say_line},
};

use crate::{limiter::decide::Decide, measurement::Seen};

/// One decision in so many is timed: reading the clock for each would be a good part of what is measured in memory.
const SAMPLE: u64 = 8;
/// A task lets others run after so many decisions, for where it is never made to wait for Redis.
const YIELD: u64 = 64;
/// Asking for every key once ends after this: of a million keys, some then stay untouched.
const LONGEST_WARM_UP: Duration = Duration::from_secs(10);

/// The size of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Tasks that ask without a pause.
    pub(super) tasks: usize,
    pub(super) time: Duration,
}

/// Counts that the tasks of a worker share.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    decisions: AtomicU64,
    allowed: AtomicU64,
    /// ns.
    latencies: Mutex<Histogram<u32>>,
}

/// Asks for every key once, says that it is ready, waits for `go`, asks for its time, and writes what it saw.
pub(super) async fn drive(keys: usize, closed: Closed, limiter: impl Decide) -> anyhow::Result<()> {
    let (limiter, keys) = (Arc::new(limiter), keys.max(1));
    warm_up(closed, &limiter, keys).await?;
    say_line(READY)?;
    Orders::new().next_line().await?;

    let shared = Arc::new(Shared::new()?);
    let (started, used) = (Stopwatch::start(), cpu_time());
    let tasks: Vec<_> = (0..closed.tasks)
        .map(|seed| tokio::spawn(ask(limiter.clone(), shared.clone(), keys, seed as u64)))
        .collect();
    time::sleep(closed.time).await;
    shared.stop.store(true, Relaxed);
    let seconds = started.elapsed().as_secs_f64();
    let mut seen = shared.seen(seconds, (cpu_time() - used).as_secs_f64());
    seen.memory = machine::resident(std::process::id())?;
    for task in tasks {
        task.await??;
    }
    say(&seen)?;
    // Connections and background tasks need no farewell.
    std::process::exit(0)
}

async fn warm_up(closed: Closed, limiter: &Arc<impl Decide>, keys: usize) -> anyhow::Result<()> {
    let (started, step) = (Stopwatch::start(), closed.tasks.max(16));
    let tasks: Vec<_> = (0..step)
        .map(|first| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                for key in (first..keys).step_by(step) {
                    if started.elapsed() > LONGEST_WARM_UP {
                        break;
                    }
                    limiter.decide(key).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn ask(limiter: Arc<impl Decide>, shared: Arc<Shared>, keys: usize, seed: u64) -> anyhow::Result<()> {
    let mut random = Random::new(seed);
    for turn in 0_u64.. {
        let key = random.below(keys);
        let watch = (turn % SAMPLE == seed % SAMPLE).then(Stopwatch::start);
        let allowed = limiter.decide(key).await?;
        if shared.stop.load(Relaxed) {
            break;
        }
        if let Some(watch) = watch {
            shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(watch.nanos());
        }
        shared.decisions.fetch_add(1, Relaxed);
        shared.allowed.fetch_add(allowed.into(), Relaxed);
        if turn % YIELD == YIELD - 1 {
            task::yield_now().await;
        }
    }
    Ok(())
}

// === impl Shared ===

impl Shared {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            stop: AtomicBool::new(false),
            decisions: AtomicU64::new(0),
            allowed: AtomicU64::new(0),
            latencies: Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 3)?),
        })
    }

    fn seen(&self, seconds: f64, cpu: f64) -> Seen {
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
        Seen {
            decisions: self.decisions.load(Relaxed),
            allowed: self.allowed.load(Relaxed),
            seconds,
            cpu,
            memory: 0.0,
            p50: micros(0.5),
            p99: micros(0.99),
            p999: micros(0.999),
        }
    }
}
