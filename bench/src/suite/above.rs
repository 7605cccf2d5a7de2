//! Redis CPU of limiters above that of a bare `DECR` under the same open-loop load, measured beside them.

use topup_lab::{Summary, output::tell};

use super::bench::{ATTEMPTS, Bench, QUIET};
use crate::{
    limiter::kind::Limiter,
    open_loop::{self, Measured, OpenLoad},
};

/// Limiters between two measurements of raw.
const RAW_EVERY: usize = 2;

/// With a larger part of errors, a cost for each decision means nothing.
const MOST_ERRORS: f64 = 0.5;

/// A load without its limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Its limiter is replaced.
    pub(super) load: OpenLoad,
    /// Takes a second of all processes together.
    pub(super) rate: f64,
    /// Seconds before the measurement.
    pub(super) warm: f64,
}

/// A limiter beside raw.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) measured: Measured,
    /// Redis CPU µs of raw for each decision: the mean of the two measurements around it.
    pub(super) raw: f64,
    /// p99 of raw in µs.
    raw_p99: f64,
}

/// Results of all limiters in one round.
pub(super) type Round = Vec<(Limiter, Option<Beside>)>;

/// Measures `limiters` in turn under `shape`, and raw before, between and after.
pub(super) async fn round(bench: &mut Bench<'_>, shape: &Shape, limiters: &[Limiter]) -> Round {
    let mut round = Vec::new();
    let mut raw = measured(bench, shape, Limiter::Raw).await;
    for some in limiters.chunks(RAW_EVERY) {
        let mut found = Vec::new();
        for &limiter in some {
            let one = if bench.has(limiter) { measured(bench, shape, limiter).await } else { None };
            found.push((limiter, one));
        }
        let after = measured(bench, shape, Limiter::Raw).await;
        let around: Vec<&Measured> = [&raw, &after].into_iter().flatten().collect();
        let mean = |of: fn(&Measured) -> f64| {
            around.iter().map(|measured| of(measured)).sum::<f64>() / around.len() as f64
        };
        let (cpu, p99) = (mean(Measured::cpu), mean(|measured| measured.seen.p99));
        let beside = |measured| Beside { measured, raw: cpu, raw_p99: p99 };
        round.extend(found.into_iter().map(|(limiter, found)| (limiter, found.map(beside))));
        raw = after;
    }
    round
}

/// Measures `limiter`; again, when other programs had more of this machine than they should, and the quietest counts.
async fn measured(bench: &mut Bench<'_>, shape: &Shape, limiter: Limiter) -> Option<Measured> {
    let (load, times) =
        (OpenLoad { limiter, ..shape.load }, (shape.warm, bench.choices.time().as_secs_f64()));
    let mut quietest: Option<Measured> = None;
    for _ in 0..if bench.choices.quick { 1 } else { ATTEMPTS } {
        match open_loop::measure(&mut bench.fixture, &bench.choices.found, &load, shape.rate, times).await {
            Ok(measured) if quietest.as_ref().is_none_or(|quietest| measured.others < quietest.others) => {
                quietest = Some(measured);
            }
            Ok(_) => {}
            Err(error) => {
                tell(&format!("{}: {error:#}", limiter.name()));
                return None;
            }
        }
        if quietest.as_ref().is_some_and(|quietest| quietest.others < QUIET) {
            break;
        }
    }
    bench.others.extend(quietest.as_ref().map(|quietest| quietest.others));
    quietest
}

// === impl Beside ===

impl Beside {
    /// Redis CPU µs above raw for each decision. Not a number where most takes failed: they have their cost as well.
    pub(super) fn above(&self) -> f64 {
        if self.measured.seen.errors() < MOST_ERRORS { self.measured.cpu() - self.raw } else { f64::NAN }
    }

    /// p99 ÷ that of raw.
    pub(super) fn slower(&self) -> f64 {
        self.measured.seen.p99 / self.raw_p99
    }
}

/// Result of `limiter` in `round`.
pub(super) fn of(round: &Round, limiter: Limiter) -> Option<&Beside> {
    round.iter().find(|(other, _)| *other == limiter)?.1.as_ref()
}

/// A figure of `limiter` over all rounds.
pub(super) fn figure(rounds: &[Round], limiter: Limiter, figure: impl Fn(&Beside) -> f64) -> Option<Summary> {
    Summary::of(rounds.iter().filter_map(|round| of(round, limiter).map(&figure)))
}

/// Redis CPU of `limiter` above raw ÷ that of `other`, over all rounds that have both.
pub(super) fn ratio(rounds: &[Round], limiter: Limiter, other: Limiter) -> Option<Summary> {
    let part = |round| Some(of(round, limiter)?.above() / of(round, other)?.above());
    Summary::of(rounds.iter().filter_map(part))
}
