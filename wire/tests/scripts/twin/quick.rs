//! The quickest path of an algorithm, beside its others.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use redis::{Cmd, Script, Value, aio::ConnectionLike};
use topup_twin::{JUNK, Record};
use topup_wire::{
    in_memory::InMemoryRedis,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, Supply, Terms},
    namespace::Namespace,
    reply::Settled,
    scripts,
};

use super::{
    fixed_window::read,
    windowed::{about_a_window, windows},
};
use crate::{
    contracts::sources,
    generators::{any_size, capacity, count, limit, packed_rate, seeds},
};

const WORLDS: u64 = 40;
const STEPS: usize = 200;
const BEGAN: u64 = 1_767_225_600_000_000;

#[tokio::test]
async fn the_quickest_path_of_a_sliding_counter_decides_as_the_others() {
    decides_as_the_others(Algorithm::SlidingCounter, |rng| windows(rng, 1), about_a_window).await;
}

#[tokio::test]
async fn the_quickest_path_of_a_lazy_token_bucket_decides_as_the_others() {
    decides_as_the_others(Algorithm::LazyTokenBucket, rated, about_a_bucket).await;
}

#[tokio::test]
async fn the_quickest_path_of_a_leaky_bucket_decides_as_the_others() {
    decides_as_the_others(Algorithm::LeakyBucket, rated, about_a_bucket).await;
}

#[tokio::test]
async fn the_quickest_path_of_a_sliding_window_decides_as_the_others() {
    decides_as_the_others(Algorithm::SlidingWindow, |rng| windows(rng, 1), about_a_window).await;
}

fn rated(rng: &mut StdRng) -> Terms {
    Terms { capacity: capacity(rng), supply: Supply::Rate(packed_rate(rng)) }
}

/// The time of a token, or up to that in which a bucket fills twice.
fn about_a_bucket(record: &Record, rng: &mut StdRng) -> i64 {
    let token = record.pace.p.div_ceil(record.pace.n);
    match rng.random_range(0..3) {
        0 => rng.random_range(0..5),
        1 => any_size(rng, 3 * token) as i64,
        _ => any_size(rng, token.saturating_mul(2 * record.capacity).min(1 << 45)) as i64,
    }
}

/// Two keys, each asked the same at the same instants: one by the quickest path that there is, and one by the others.
async fn decides_as_the_others(
    algorithm: Algorithm,
    terms: fn(&mut StdRng) -> Terms,
    passes: fn(&Record, &mut StdRng) -> i64,
) {
    let (mut short, mut asked) = (0, 0);
    for (_seed, mut rng) in seeds(WORLDS) {
        let redis = InMemoryRedis::new(BEGAN + any_size(&mut rng, 1 << 40));
        let mut connection = redis.direct(Namespace::default());
        let mut limit = Limit { terms: terms(&mut rng), algorithm, ..limit(1, "1/s") };
        let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
        let states = ["quick", "other"].map(|member| keys.state(algorithm, member));
        let scripts = [true, false].map(|packed| Script::new(&sources::of(algorithm, packed)));
        scripts::publish(&mut connection, &keys, &limit, None, None).await.unwrap();
        let mut record = Record::new(&limit, redis.now());
        for _ in 0..STEPS {
            match rng.random_range(0..40) {
                0 => {
                    limit.terms = terms(&mut rng);
                    scripts::publish(&mut connection, &keys, &limit, None, None).await.unwrap();
                    record = record.changed(&limit, redis.now());
                }
                // A command of lists fails on it, by any path.
                1 if algorithm != Algorithm::SlidingWindow => {
                    let junk = *JUNK.choose(&mut rng).unwrap();
                    for state in &states {
                        Cmd::set(state, junk).exec_async(&mut connection).await.unwrap();
                    }
                }
                2..20 => {
                    let by = passes(&record, &mut rng) >> rng.random_range(0..4);
                    let by = if rng.random_bool(0.1) { -by } else { by };
                    redis.set_now(redis.now().saturating_add_signed(by).max(BEGAN));
                }
                _ => {}
            }
            let count = if rng.random_bool(0.7) { 1 } else { count(&record, &mut rng) };
            let word = if rng.random_bool(0.8) { "take" } else { "share" };
            let ways = [(&scripts[0], true), (&scripts[rng.random_range(0..2)], false)];
            let (mut seen, mut is_short) = (Vec::new(), false);
            for (state, (script, quickest)) in states.iter().zip(ways) {
                let mut call = script.key(&keys.record);
                call.key(state).arg(word).arg(count);
                if quickest {
                    call.arg("quick");
                }
                let reply: Value = call.invoke_async(&mut connection).await.unwrap();
                let (settled, one_number) = read(reply, &limit, count);
                assert!(!one_number || settled.tokens > 0, "the wait is not told");
                is_short |= one_number;
                let kept = kept(&mut connection, algorithm, state).await;
                // A short reply does not tell the time.
                seen.push((Settled { now: if is_short { 0 } else { settled.now }, ..settled }, kept));
            }
            (short, asked) = (short + u32::from(is_short), asked + 1);
            assert_eq!(seen[0], seen[1], "{word} {count} under {:?}", limit.terms);
        }
    }
    assert!(short > asked / 6, "{short} of {asked}");
}

/// The state, or the newest entry of a log, which paths may trim differently. And its time to live.
async fn kept(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    state: &str,
) -> (Option<Vec<u8>>, i64) {
    let mut commands = redis::pipe();
    match algorithm {
        Algorithm::SlidingWindow => commands.lindex(state, -1),
        _ => commands.get(state),
    };
    commands.pttl(state).query_async(connection).await.unwrap()
}
