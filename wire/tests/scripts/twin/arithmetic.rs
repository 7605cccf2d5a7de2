//! The arithmetic alone, on far more numbers than buckets could be given.

use rand::{RngExt, rngs::StdRng};
use redis::Script;
use topup_twin::Credit;
use topup_wire::{
    bucket::Pace,
    constants::with_constants,
    limit::{MAX_TOKENS, Supply},
};

use crate::{
    generators::{any_size, rate, seeds},
    server::Redis,
};

const CALLS: u64 = 200;
const CASES: usize = 250;

/// One question to every function of `time.lua`.
#[derive(Clone, Copy, Debug)]
struct Case {
    pace: Pace,
    score: u64,
    now: u64,
    k: u64,
}

#[tokio::test]
async fn doubles_are_as_good_as_128_bits() {
    let mut redis = Redis::start().await;
    let source = concat!(include_str!("../../../src/scripts/time.lua"), include_str!("arithmetic.lua"));
    let script = Script::new(&with_constants(source));
    for (_seed, mut rng) in seeds(CALLS) {
        let cases: Vec<Case> = (0..CASES).map(|_| case(&mut rng)).collect();
        let mut call = script.prepare_invoke();
        for Case { pace, score, now, k } in &cases {
            call.arg(pace.n).arg(pace.p).arg(score).arg(now).arg(k);
        }
        let answers: Vec<u64> = redis.call(&call).await;
        for (case, answer) in cases.iter().zip(answers.chunks(4)) {
            let Case { pace, score, now, k } = *case;
            let (owed, at) = pace.owed(score, now);
            let owed = u64::try_from(owed).map_or(MAX_TOKENS, |owed| owed.min(MAX_TOKENS));
            assert_eq!(answer, [pace.start(now), owed, at, pace.instant(score, k)], "{case:?}");
        }
    }
}

fn case(rng: &mut StdRng) -> Case {
    let (n, p) = match rng.random_range(0..20) {
        0 => (0, 1),
        _ => Supply::Rate(rate(rng)).lowest_terms(),
    };
    let now = rng.random_range(1_600_000_000_000_000..2_000_000_000_000_000);
    let mut elapsed = any_size(rng, 1 << 50);
    if n > 0 && rng.random_bool(0.7) {
        // Within what fills a bucket, where every token counts.
        let until_full = u128::from(any_size(rng, MAX_TOKENS)) * u128::from(p) / u128::from(n);
        elapsed = u64::try_from(until_full).unwrap_or(u64::MAX).min(elapsed);
    }
    let pace = Pace { n, p };
    let score = if rng.random_bool(0.5) { now - elapsed } else { pace.start(now - elapsed) };
    Case { pace, score, now, k: any_size(rng, MAX_TOKENS) }
}
