//! One traffic to all limiters.

use std::collections::BTreeMap;

use super::{Choices, answers};
use crate::{
    comparison::{Comparison, Measurement},
    fixture::{Fixture, Run},
    limiter::{Limiter, LimiterUnderTest},
    report::tell,
    score::{Played, Score},
    take::Take,
    traffic::{Fault, Pattern, Traffic},
};

/// Takes a second that all workers together can ask for and still be on time, on two CPUs.
const MOST_PER_SECOND: f64 = 16_000.0;
/// Keys beyond which a task that walks over all of them every tick is the load, and no limiter any more.
const MOST_TICKED: u32 = 1_000;

/// Plays `traffic` as often as chosen, to as many limiters at a time as this machine can ask.
pub(super) async fn play(
    fixture: &mut Fixture,
    choices: &Choices,
    traffic: &Traffic,
    into: &mut Comparison,
) -> anyhow::Result<()> {
    if traffic.fault == Fault::RedisRestart && !fixture.server().is_private() {
        into.left_out.push(format!("{}: a Redis of yours is not restarted", traffic.name));
        return Ok(());
    }
    let (limiters, walkers): (Vec<Limiter>, Vec<Limiter>) = choices
        .limiters
        .iter()
        .partition(|limiter| !limiter.is_ticked() || traffic.key_count() <= MOST_TICKED);
    for limiter in walkers {
        into.left_out.push(format!(
            "{} under {}: its task walks over every key",
            limiter.name(),
            traffic.name
        ));
    }
    let mut limiters = limiters;
    limiters.retain(|limiter| {
        let reason = left_out(*limiter, traffic);
        let left_out =
            reason.iter().map(|reason| format!("{} under {}: {reason}", limiter.name(), traffic.name));
        into.left_out.extend(left_out);
        reason.is_none()
    });
    let at_once = (MOST_PER_SECOND / traffic.asks_per_second()).max(1.0) as usize;
    let mut rounds: BTreeMap<Limiter, Vec<Score>> = BTreeMap::new();
    let mut compared = BTreeMap::new();
    for round in 0..choices.rounds {
        let seed = choices.seed.wrapping_add(u64::from(round));
        for limiters in limiters.chunks(at_once) {
            let under_test = |limiter: &Limiter| {
                LimiterUnderTest::new(*limiter, traffic.rule, &format!("{}-{round}", traffic.name))
            };
            let run = fixture.play(traffic, limiters.iter().map(under_test).collect(), seed).await?;
            for (under_test, takes) in &run.takes {
                let score = score(&run, under_test, traffic, takes);
                rounds.entry(under_test.limiter).or_default().push(score);
                if traffic.pattern == Pattern::Certain && round == 0 {
                    let answers = answers::compare(traffic, seed, under_test.limiter, run.begin, takes);
                    compared.insert(under_test.limiter, answers);
                }
            }
        }
        if choices.rounds > 1 {
            tell(&format!("  round {} of {}", round + 1, choices.rounds));
        }
    }
    for (limiter, scores) in rounds {
        let Some(measurement) = Measurement::of(limiter, traffic, scores) else { continue };
        let (otherwise, answers) = compared.remove(&limiter).unzip();
        into.measurements.push(Measurement { otherwise, answers: answers.flatten(), ..measurement });
    }
    into.traffics.push(traffic.clone());
    Ok(())
}

/// The reason why `limiter` is not played `traffic`.
fn left_out(limiter: Limiter, traffic: &Traffic) -> Option<String> {
    if limiter.ideal().is_special() && traffic.pattern.is_in_turn() {
        return Some("more than its rule decides a take".to_owned());
    }
    if limiter == Limiter::TokenBucketDefined && traffic.fault == Fault::RedisRestart {
        return Some("nobody renews a definition that is lost".to_owned());
    }
    limiter.unfit_for(&traffic.rule)
}

fn score(run: &Run, under_test: &LimiterUnderTest, traffic: &Traffic, takes: &[Take]) -> Score {
    let oracle = run.oracle(under_test.limiter.ideal(), traffic.rule);
    let until = run.begin + traffic.time;
    let promises = traffic.pattern == Pattern::Promises;
    Score::of(&Played { oracle, from: run.begin, until, promises }, takes)
}
