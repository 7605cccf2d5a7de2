//! A limit tried on traffic that there has been.

mod outcome;
pub mod results;
pub mod trace;

use std::path::Path;

use anyhow::{Context, ensure};

use topup_lab::clock::{Micros, SECOND};

pub use outcome::{Outcome, outcome};
pub use trace::Trace;

use results::{Paid, Replay};

use crate::{
    comparison::{Comparison, Measurement},
    cost::commands,
    fixture::Fixture,
    limiter::{Limiter, LimiterUnderTest},
    oracle::{Ideal, Oracle},
    report::tell,
    rule::{Rule, TICK},
    score::{Played, Score},
    traffic::{Keys, Pattern, Traffic},
};

/// Takes a second that four workers can ask for and still be on time, on two CPUs.
const MOST_PER_SECOND: u64 = 12_000;

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the file.
    pub file: String,
    /// The rule to try.
    pub rule: Rule,
    /// The limiters to try.
    pub limiters: Vec<Limiter>,
    /// Time limit of each replay, in s. Very many takes need longer.
    pub seconds: u64,
}

/// Reads the trace in the file at `path`.
///
/// # Errors
/// When it cannot be read, or a line of it is none of a trace.
pub fn read(path: &Path) -> anyhow::Result<Trace> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let trace = Trace::parse(&text, &path.display().to_string())?;
    ensure!(!trace.entries.is_empty(), "{}: there is no take in it", path.display());
    Ok(trace)
}

/// Replays `trace` to each limiter by itself, into `comparison`.
///
/// # Errors
/// When the rule cannot hold a take, or Redis, a worker or the daemon fails.
pub async fn run(
    fixture: &mut Fixture,
    trace: &Trace,
    options: &Options,
    comparison: &mut Comparison,
) -> anyhow::Result<()> {
    let most = trace.entries.iter().map(|entry| entry.count).max().unwrap_or(1);
    let rule = options.rule;
    ensure!(
        u64::from(most) <= rule.capacity,
        "the trace takes {most} tokens at once: a bucket of {} never holds so many, say --capacity {most} or more",
        rule.capacity
    );
    let seconds = options.seconds.max(trace.entries.len() as u64 / MOST_PER_SECOND + 1);
    let speed = trace.length().div_ceil(seconds * SECOND).max(1);
    let traffic = traffic(trace, rule, speed);
    // As much faster: so there are as many ticks to a take as in real time, and as much comes in one.
    fixture.refill_every(TICK / speed);
    let mut costs = Vec::new();
    for &limiter in &options.limiters {
        if let Some(reason) = left_out(limiter, &traffic.rule) {
            comparison.left_out.push(format!("{}: {reason}", limiter.name()));
            continue;
        }
        tell(&format!("replay: {}, {speed} times as fast", limiter.name()));
        let under_test = LimiterUnderTest::new(limiter, traffic.rule, "replay");
        let (run, counters) = fixture.play_metered(&traffic, under_test).await?;
        let oracle = run.oracle(limiter.ideal(), traffic.rule);
        let until = run.begin + traffic.time;
        let takes = &run.takes[0].1;
        let score = Score::of(&Played { oracle, from: run.begin, until, promises: false }, takes);
        let (decisions, (_, micros)) = (takes.len().max(1) as f64, counters.of(commands(limiter)));
        costs.push(Paid { limiter, cpu: counters.cpu / decisions, command: micros / decisions });
        comparison.measurements.extend(Measurement::of(limiter, &traffic, vec![score]));
    }
    let ideals = [Ideal::Bucket, Ideal::Sliding, Ideal::Fixed];
    comparison.replay = Some(Replay {
        file: options.file.clone(),
        rule,
        seconds: trace.length() as f64 / SECOND as f64,
        keys: trace.keys.len(),
        speed,
        outcomes: ideals
            .map(|ideal| outcome(trace, &Oracle { ideal, rule, offset: 0, change: None }))
            .to_vec(),
        costs,
    });
    // The takes themselves are in the file.
    comparison.traffics.push(Traffic { pattern: Pattern::Trace(Vec::new()), ..traffic });
    Ok(())
}

/// The reason why `limiter` is not replayed under `rule`.
fn left_out(limiter: Limiter, rule: &Rule) -> Option<String> {
    let reason = match limiter.ideal() {
        Ideal::Shares => "capacity and rate say nothing of parts: simulate tells the parts of a config",
        Ideal::Penalized => {
            "a block lasts as long in a trace that is played faster: simulate tells penalties"
        }
        Ideal::Defined => "a trace tells no change of terms",
        _ => return limiter.unfit_for(rule),
    };
    Some(reason.to_owned())
}

fn traffic(trace: &Trace, rule: Rule, speed: u64) -> Traffic {
    let takes = trace.entries.iter().map(|entry| (entry.at / speed, entry.key, entry.count)).collect();
    let time: Micros = trace.length() / speed + 1;
    let says = format!("the takes of the trace, {speed} times as fast, at {speed} times the rate");
    let keys = Keys::Even(trace.keys.len() as u32);
    Traffic { rule: rule.sped_up(speed), keys, ..Traffic::new("trace", &says, Pattern::Trace(takes), time) }
}
