//! All that a run has found.

use std::collections::BTreeMap;

use chrono::DateTime;
use serde::{Deserialize, Serialize};
use topup_lab::Summary;
use topup_lab::clock::time_of_day;

use crate::{
    cost::{Crossover, Memory, Saturation, Upkeep},
    limiter::Limiter,
    replay::results::Replay,
    score::Score,
    traffic::Traffic,
};

/// A whole comparison: what `--json` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The run: its versions, its machine, its day.
    pub about: About,
    /// The traffics that were played.
    pub traffics: Vec<Traffic>,
    /// Results of each limiter under each traffic.
    #[serde(rename = "cells")]
    pub measurements: Vec<Measurement>,
    /// Costs of each limiter.
    pub costs: Vec<Cost>,
    /// Costs of topup's daemon without takes: with no active bucket, and with many.
    pub upkeep: Vec<Upkeep>,
    /// Where topping up becomes cheaper than lazy refill.
    pub crossover: Option<Crossover>,
    /// The result of a trace, where one was replayed.
    pub replay: Option<Replay>,
    /// The verdicts on each limiter, in words.
    pub verdicts: BTreeMap<Limiter, Vec<String>>,
    /// Measurements that were left out, and why.
    pub left_out: Vec<String>,
}

/// The run: its versions, its machine, its day.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// topup's version.
    pub topup: String,
    /// Redis's version.
    pub redis: String,
    /// The day, in UTC.
    pub date: String,
    /// CPUs of this machine.
    pub cpus: usize,
    /// Worker processes.
    pub workers: u32,
    /// The seed.
    pub seed: u64,
    /// Rounds of each traffic.
    pub rounds: u32,
    /// The command line.
    pub command: String,
}

/// The result of a limiter under one traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The limiter.
    pub limiter: Limiter,
    /// The traffics.
    pub traffic: String,
    /// The round in the middle, by share; but the excess is the worst of all rounds.
    pub score: Score,
    /// Admitted as a share of the ideal, over all rounds.
    pub share: Option<Summary>,
    /// The worst excess, over all rounds.
    pub excess: Option<Summary>,
    /// Where each take has one right answer: how many were answered otherwise. Late takes are not counted.
    pub otherwise: Option<u64>,
    /// Where each take has one right answer: all answers, as one number that two runs can be compared by. `None` if a take
    /// was late.
    pub answers: Option<String>,
}

/// Costs of a limiter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The limiter.
    pub limiter: Limiter,
    /// As many decisions as there can be, for each load.
    pub saturations: Vec<Saturation>,
    /// Memory of buckets.
    pub memory: Option<Memory>,
}

// === impl Comparison ===

impl Comparison {
    /// One in which nothing has been found yet.
    pub const fn new(about: About) -> Self {
        Self {
            about,
            traffics: Vec::new(),
            measurements: Vec::new(),
            costs: Vec::new(),
            upkeep: Vec::new(),
            crossover: None,
            replay: None,
            verdicts: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    /// The result of `limiter` under `traffic`, if it was played.
    pub fn measurement(&self, limiter: Limiter, traffic: &str) -> Option<&Measurement> {
        self.measurements
            .iter()
            .find(|measurement| measurement.limiter == limiter && measurement.traffic == traffic)
    }

    /// Costs of `limiter`, if they were measured.
    pub fn cost(&self, limiter: Limiter) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.limiter == limiter)
    }

    /// All limiters that were compared, in their order.
    pub fn limiters(&self) -> Vec<Limiter> {
        let named = |limiter: &&Limiter| {
            self.cost(**limiter).is_some()
                || self.measurements.iter().any(|measurement| measurement.limiter == **limiter)
        };
        Limiter::all().iter().filter(named).copied().collect()
    }
}

impl About {
    /// A run on this machine now, on a Redis of this version.
    pub fn new(redis: String, workers: u32, command: &str) -> Self {
        let now = DateTime::from_timestamp_micros(time_of_day().cast_signed()).unwrap_or_default();
        Self {
            topup: env!("CARGO_PKG_VERSION").to_owned(),
            redis,
            date: now.format("%Y-%m-%d").to_string(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            workers,
            seed: 0,
            rounds: 1,
            command: command.to_owned(),
        }
    }
}

impl Measurement {
    /// Summarises the scores of all rounds; `None` of none.
    pub fn of(limiter: Limiter, traffic: &Traffic, mut rounds: Vec<Score>) -> Option<Self> {
        let share = Summary::of(rounds.iter().map(Score::share));
        let excess = Summary::of(rounds.iter().map(|score| score.excess.tokens));
        rounds.sort_by(|a, b| a.share().total_cmp(&b.share()));
        let middle = rounds.len().checked_sub(1)? / 2;
        let worst = rounds.iter().map(|score| score.excess).max_by(|a, b| a.tokens.total_cmp(&b.tokens))?;
        let score = Score { excess: worst, ..rounds.swap_remove(middle) };
        Some(Self {
            limiter,
            traffic: traffic.name.clone(),
            score,
            share,
            excess,
            otherwise: None,
            answers: None,
        })
    }
}

// === impl Cost ===

impl Cost {
    /// Under `load`.
    pub fn under(&self, load: crate::cost::Load) -> Option<&Saturation> {
        self.saturations.iter().find(|saturation| saturation.load == load)
    }
}
