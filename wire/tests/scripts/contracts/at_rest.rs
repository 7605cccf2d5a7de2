//! Buckets at rest that are integers, and what scripts make of them.

use redis::{RedisResult, Value};
use topup_wire::{
    bucket::{Operation, Pace},
    limit::{Algorithm, Limit},
    reply::Verdict,
    scripts::{self, AtRestNumber, BucketTake, Look},
};

use crate::{generators::limit, laws::Scene, server::Redis};

const PACE: Pace = Pace { n: 1, p: 1_000_000 };

/// 10 tokens, one a second.
fn tight() -> Limit {
    limit(10, "1/s")
}

async fn scene() -> Scene {
    Scene::set(Redis::start().await, tight()).await
}

async fn text(scene: &mut Scene) -> String {
    let counter = scene.keys.counter("a");
    scene.redis.ask(&["GET", &counter]).await
}

/// Commands on bucket "a": the answer to the last.
async fn ask(scene: &mut Scene, ask: impl Fn(&mut Vec<u8>, &str) -> usize) -> RedisResult<Value> {
    let (mut out, counter) = (Vec::new(), scene.keys.counter("a"));
    let many = ask(&mut out, &counter);
    scene.redis.ask_bare(&out, many).await.pop().unwrap()
}

/// The reply to a take of `count` of bucket "a", which may have no key.
async fn take(scene: &mut Scene, count: u64) -> AtRestNumber {
    let first_at = scene.redis.time().await;
    let left = ask(scene, |out, key| scripts::encode_take_at_rest(out, key, 1, PACE, count, first_at)).await;
    scripts::read_number_at_rest(redis::from_redis_value(left.unwrap()).unwrap(), 1)
}

#[tokio::test]
async fn scripts_and_bare_commands_take_turns() {
    let mut scene = scene().await;
    let AtRestNumber::Full(first) = take(&mut scene, 2).await else { panic!("no number") };
    let settled = scene.settle("a", Operation::Take(1)).await;
    assert_eq!((settled.tokens, settled.counting), (7, true));
    assert_eq!(take(&mut scene, 2).await, AtRestNumber::NotAtRest);
    assert_eq!(scene.tokens("a").await, 7, "a counter stays what it was");
    scene.settle("a", Operation::Reset).await;
    assert_eq!(text(&mut scene).await.len(), 37, "no integer before a hold has passed");

    let mut scene = Scene::set(scene.redis, tight()).await;
    let AtRestNumber::Full(full_at) = take(&mut scene, 3).await else { panic!("no number") };
    assert!(full_at > first);
    let conn = &mut scene.redis.connection;
    let settled =
        scripts::settle(conn, Algorithm::TokenBucket, &scene.keys, "a", Operation::Take(4), false, None)
            .await
            .unwrap();
    assert_eq!((settled.tokens, settled.now + settled.headroom), (3, full_at + 4 * PACE.p));
    assert_eq!(take(&mut scene, 3).await, AtRestNumber::Full(full_at + 7 * PACE.p));
    let part = BucketTake {
        algorithm: Algorithm::TokenBucket,
        keys: &scene.keys.clone(),
        member: "a",
        count: 1,
        enforced: true,
    };
    scene.pass(4_000_000).await;
    let replies = scripts::take_all(&mut scene.redis.connection, &[part]).await.unwrap();
    assert_eq!((replies[0].verdict, replies[0].tokens), (Verdict::Allowed, 3));
    let left = AtRestNumber::Full(full_at + 4 * PACE.p);
    assert_eq!(scripts::read_number_at_rest(text(&mut scene).await.parse().unwrap(), 1), left);
}

#[tokio::test]
async fn what_a_script_has_forgotten_cannot_be_given_back() {
    let mut scene = scene().await;
    for _ in 0..3 {
        take(&mut scene, 5).await;
    }
    let peeked = scene.settle("a", Operation::Peek(1)).await;
    assert_eq!((peeked.verdict, peeked.wait), (Verdict::Denied, PACE.p));
    // A peek does not forget it.
    ask(&mut scene, |out, key| scripts::encode_correction(out, key, PACE, 1, 0, 0)).await.unwrap();
    assert_eq!(scene.settle("a", Operation::Take(1)).await.verdict, Verdict::Denied);
    let refused = ask(&mut scene, |out, key| scripts::encode_correction(out, key, PACE, 4, 0, 0)).await;
    assert!(scripts::is_not_a_counter(&refused.unwrap_err()));
    scene.pass(3_000_000).await;
    let settled = scene.settle("a", Operation::Share(9)).await;
    assert_eq!((settled.granted, settled.counting), (3, true));
}

#[tokio::test]
async fn what_is_given_back_at_once_is_there_for_the_next() {
    let mut scene = scene().await;
    take(&mut scene, 9).await;
    take(&mut scene, 2).await;
    ask(&mut scene, |out, key| scripts::encode_correction(out, key, PACE, 2, 0, 0)).await.unwrap();
    let settled = scene.settle("a", Operation::Take(1)).await;
    assert_eq!((settled.verdict, settled.tokens), (Verdict::Allowed, 0));
}

#[tokio::test]
async fn a_key_outlives_its_bucket_by_a_quarter_of_a_token() {
    let mut scene = scene().await;
    if scene.redis.is_too_old().await {
        return eprintln!("void: PEXPIREAT … GT needs Redis 7.0");
    }
    take(&mut scene, 1).await;
    let AtRestNumber::Full(full_at) = take(&mut scene, 3).await else { panic!("no number") };
    for until in [full_at, full_at - 1_000_000] {
        let value = ask(&mut scene, |out, key| scripts::encode_correction(out, key, PACE, 0, 0, until)).await;
        let number = scripts::number_at_rest(1, full_at).to_string();
        assert_eq!(value.unwrap(), Value::BulkString(number.into_bytes()));
        let counter = scene.keys.counter("a");
        assert_eq!(scene.redis.expiry(&counter).await, (full_at + PACE.p / 4).div_ceil(1_000) as i64);
    }
}

/// Its counter was evicted, and a client took it for full.
#[tokio::test]
async fn an_integer_at_rest_that_is_due_loses_its_place_and_nothing_else() {
    let mut scene = scene().await;
    assert!(scene.settle("a", Operation::Share(9)).await.counting);
    let counter = scene.keys.counter("a");
    scene.redis.ask::<()>(&["DEL", &counter]).await;
    take(&mut scene, 5).await;
    scene.pass(1_600_000).await;
    let before = text(&mut scene).await;
    let keys = scene.keys.clone();
    let all = scripts::refill(&mut scene.redis.connection, &keys, 9, Look::All).await.unwrap();
    assert_eq!((all.credited, all.tokens), (1, 0));
    assert_eq!(text(&mut scene).await, before);
    assert_eq!(scene.redis.ask::<Option<f64>>(&["ZSCORE", &keys.due, "a"]).await, None);
}

#[tokio::test]
async fn what_was_taken_of_a_limit_that_redis_has_lost_stays_taken() {
    let mut scene = scene().await;
    take(&mut scene, 5).await;
    let before = text(&mut scene).await;
    scripts::drop_record(&mut scene.redis.connection, &scene.keys).await.unwrap();
    assert_eq!(scene.settle("a", Operation::Take(1)).await.verdict, Verdict::Unknown);
    assert_eq!(text(&mut scene).await, before);
}

#[tokio::test]
async fn an_integer_of_previous_terms_is_told_from_one_of_these() {
    let mut scene = scene().await;
    take(&mut scene, 4).await;
    scene.publish(limit(20, "1/min"), None).await;
    let number = text(&mut scene).await.parse().unwrap();
    assert_eq!(scripts::read_number_at_rest(number, 2), AtRestNumber::OtherTerms);
    assert_eq!(scene.tokens("a").await, 6);
    assert_eq!(scene.settle("a", Operation::Take(1)).await.tokens, 5);
}
